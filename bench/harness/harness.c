#include "bench/harness/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t bench_n_ops(const Bench *bench, uint64_t own, uint64_t least) {
        uint64_t n = bench->options.n_ops;

        if (n == 0)
                n = (uint64_t) ((double) own * bench->options.scale);
        return n > least ? n : least;
}

uint64_t bench_n_live(const Bench *bench, uint64_t own) {
        return bench->options.n_live ? bench->options.n_live : own;
}

uint32_t bench_n_members(Bench *bench, uint32_t own) {
        bench->n_members = bench->options.n_members ? bench->options.n_members : own;
        if (bench->n_members > GROUP_MEMBERS_MAX)
                bench_fail("at most %d members", GROUP_MEMBERS_MAX);
        return bench->n_members;
}

void bench_metric(Bench *bench, const char *name, double value) {
        /* Four decimals: JSON that people can read. */
        json_object_object_add(bench->metrics, name, json_object_new_double(round(value * 1e4) / 1e4));
}

void bench_point(Bench *bench, const char *name, double x, double y) {
        json_object *series, *point = json_object_new_array();

        if (!json_object_object_get_ex(bench->series, name, &series)) {
                series = json_object_new_array();
                json_object_object_add(bench->series, name, series);
        }
        json_object_array_add(point, json_object_new_double(round(x * 1e3) / 1e3));
        json_object_array_add(point, json_object_new_double(round(y * 1e7) / 1e7));
        json_object_array_add(series, point);
}

static void add_latency(Bench *bench, const char *prefix, const char *name, double ticks) {
        char key[64];

        (void) snprintf(key, sizeof(key), "%s_%s_ns", prefix, name);
        bench_metric(bench, key, clock_net_ns(&bench->clock, ticks));
}

static void add_cdf(Bench *bench, const char *prefix, const Histogram *h) {
        uint64_t below = 0;
        char key[64];

        (void) snprintf(key, sizeof(key), "%s_cdf", prefix);
        for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
                if (h->counts[i] == 0)
                        continue;
                below += h->counts[i];
                bench_point(bench, key, clock_net_ns(&bench->clock, histogram_middle(i)),
                            (double) below / (double) h->n);
        }
}

void bench_latencies(Bench *bench, const char *prefix, const Histogram *h) {
        static const struct {
                const char *name;
                double fraction;
        } percentiles[] = {
                { "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 }, { "p99.9", 0.999 }, { "p99.99", 0.9999 },
        };
        char key[64];

        (void) snprintf(key, sizeof(key), "%s_n", prefix);
        bench_metric(bench, key, (double) h->n);
        if (h->n == 0)
                return;
        add_latency(bench, prefix, "mean", (double) h->sum / (double) h->n);
        add_latency(bench, prefix, "mean99", histogram_mean99(h));
        for (size_t i = 0; i < sizeof(percentiles) / sizeof(percentiles[0]); i++)
                add_latency(bench, prefix, percentiles[i].name,
                            histogram_percentile(h, &bench->clock, percentiles[i].fraction));
        add_latency(bench, prefix, "max", (double) h->max);
        add_cdf(bench, prefix, h);
}

static int value_compare(const void *a, const void *b) {
        double x = *(const double *) a, y = *(const double *) b;

        return (x > y) - (x < y);
}

double bench_median(double *values, uint32_t n) {
        qsort(values, n, sizeof(values[0]), value_compare);
        return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}
