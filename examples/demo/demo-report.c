#include "examples/demo/demo-report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "examples/demo/util.h"

#define KIB(_size) ((_size) / 1024)

/*
 * Where no worker died, every request must be in the ledger; the last request of a dead worker may be
 * missing.
 */
bool report_is_good(const Report *r) {
        return r->n_died == 0 && r->check == 0 && r->stats.n_requests == r->n_expected &&
               r->n_booked == r->n_expected;
}

static uint64_t per_second(const Report *r) {
        return r->elapsed_ns ? (uint64_t) ((double) r->stats.n_requests * 1e9 / (double) r->elapsed_ns) : 0;
}

static double percent_of(uint64_t part, uint64_t whole) {
        return whole ? 100.0 * (double) part / (double) whole : 0.0;
}

static void print_input(const Report *r, FILE *f) {
        (void) fprintf(f, "log        %s", r->source ?: "made up");
        if (!r->source)
                (void) fprintf(f, ", seed %" PRIu64, r->seed);
        (void) fprintf(f, ": %" PRIu64 " lines, %" PRIu64 " malformed and skipped, %" PRIu64 " cut short\n",
                       r->n_lines, r->n_malformed, r->n_cut);
        (void) fprintf(f, "time       %" PRIu32 " periods of %" PRIi64 " s\n", r->n_periods,
                       r->period_seconds);
        (void) fprintf(f, "workers    %" PRIu32 " processes", r->n_workers);
        if (r->n_died > 0)
                (void) fprintf(f, ", of which %" PRIu32 " died", r->n_died);
        (void) fputc('\n', f);
}

static void print_work(const Report *r, FILE *f) {
        const WorkerStats *s = &r->stats;

        (void) fprintf(f, "requests   %" PRIu64 " in %.3f s, %" PRIu64 " a second", s->n_requests,
                       (double) r->elapsed_ns / 1e9, per_second(r));
        if (s->n_requests != r->n_expected)
                (void) fprintf(f, "; %" PRIi64 " not served", (int64_t) (r->n_expected - s->n_requests));
        (void) fprintf(f,
                       "\nsessions   %" PRIu64 " by %" PRIu64 " visitors; %" PRIu64
                       " began after the visitor's earlier session had expired\n",
                       s->n_sessions, r->n_clients, s->n_returning);
        (void) fprintf(
                f, "shared     %" PRIu64 " requests (%.1f %%) to sessions that another worker wrote last\n",
                s->n_others, percent_of(s->n_others, s->n_requests));
        (void) fprintf(f, "races      %" PRIu64 " times another worker replaced the session first\n",
                       s->n_retries);
        (void) fprintf(f,
                       "latency    p50 %" PRIu64 ", p99 %" PRIu64 ", p99.9 %" PRIu64 ", max %" PRIu64
                       " ns a request, %" PRIu64 " of it reading the clock\n",
                       histogram_quantile(&s->latency, 500000), histogram_quantile(&s->latency, 990000),
                       histogram_quantile(&s->latency, 999000), s->latency.max, r->timer_ns);
}

static void print_pages(const Report *r, FILE *f) {
        const WorkerStats *s = &r->stats;

        (void) fprintf(f,
                       "pages      %" PRIu64 " of %" PRIu64
                       " requests (%.1f %%) found their page, with a limit of %" PRIu64 " KiB\n"
                       "           %" PRIu64 " pages of %" PRIu64 " KiB at the end, %" PRIu64 " evicted\n",
                       s->n_pages_hit, s->n_pages, percent_of(s->n_pages_hit, s->n_pages),
                       KIB(r->pages_limit), r->pages.entries, KIB(r->pages.bytes), r->pages.evictions);
}

static void print_memory(const Report *r, FILE *f) {
        (void) fprintf(f,
                       "memory     %" PRIu64 " KiB in use before the last sessions expired, %" PRIu64
                       " committed with the daemon's reserve (at most %" PRIu64 ")\n",
                       KIB(r->before.committed_size - r->before.retained_size), KIB(r->before.committed_size),
                       KIB(r->peak_size));
        (void) fprintf(f,
                       "           %" PRIu64 " KiB in use after, %" PRIu64
                       " committed; closing epochs gave back %" PRIu64 " in all\n",
                       KIB(r->after.committed_size - r->after.retained_size), KIB(r->after.committed_size),
                       KIB(r->reclaimed_size));
}

void report_print_text(const Report *r, FILE *f) {
        print_input(r, f);
        print_work(r, f);
        print_pages(r, f);
        print_memory(r, f);
        (void) fprintf(f, "ledger     %" PRIu64 " requests booked%s\n", r->n_booked,
                       r->n_booked == r->n_expected ? ", all of them" : "");
        (void) fprintf(f, "check      %s\n", r->check == 0 ? "clean" : "NOT CLEAN");
}

/* Names of files may have anything in them. */
static void print_json_string(const char *s, FILE *f) {
        (void) fputc('"', f);
        for (; *s; ++s)
                if (*s == '"' || *s == '\\')
                        (void) fprintf(f, "\\%c", *s);
                else if ((unsigned char) *s < 0x20)
                        (void) fprintf(f, "\\u%04x", *s);
                else
                        (void) fputc(*s, f);
        (void) fputc('"', f);
}

static void print_json_u64(const char *name, uint64_t value, FILE *f) {
        (void) fprintf(f, "  \"%s\": %" PRIu64 ",\n", name, value);
}

static void print_json_work(const Report *r, FILE *f) {
        const WorkerStats *s = &r->stats;

        print_json_u64("requests", s->n_requests, f);
        print_json_u64("elapsed_ns", r->elapsed_ns, f);
        print_json_u64("requests_per_second", per_second(r), f);
        print_json_u64("sessions", s->n_sessions, f);
        print_json_u64("sessions_returning", s->n_returning, f);
        print_json_u64("clients", r->n_clients, f);
        print_json_u64("hits_by_others", s->n_others, f);
        print_json_u64("retries", s->n_retries, f);
        (void) fprintf(f,
                       "  \"latency_ns\": { \"p50\": %" PRIu64 ", \"p99\": %" PRIu64 ", \"p999\": %" PRIu64
                       ", \"max\": %" PRIu64 ", \"timer\": %" PRIu64 " },\n",
                       histogram_quantile(&s->latency, 500000), histogram_quantile(&s->latency, 990000),
                       histogram_quantile(&s->latency, 999000), s->latency.max, r->timer_ns);
}

static void print_json_pages(const Report *r, FILE *f) {
        (void) fprintf(f,
                       "  \"pages\": { \"limit_bytes\": %" PRIu64 ", \"requests\": %" PRIu64
                       ", \"hits\": %" PRIu64 ", \"entries\": %" PRIu64 ", \"bytes\": %" PRIu64
                       ", \"evictions\": %" PRIu64 " },\n",
                       r->pages_limit, r->stats.n_pages, r->stats.n_pages_hit, r->pages.entries,
                       r->pages.bytes, r->pages.evictions);
}

void report_print_json(const Report *r, FILE *f) {
        (void) fputs("{\n  \"log\": ", f);
        if (r->source)
                print_json_string(r->source, f);
        else
                (void) fputs("null", f);
        (void) fputs(",\n", f);
        if (!r->source)
                print_json_u64("seed", r->seed, f);
        print_json_u64("lines", r->n_lines, f);
        print_json_u64("malformed", r->n_malformed, f);
        print_json_u64("cut_short", r->n_cut, f);
        print_json_u64("periods", r->n_periods, f);
        print_json_u64("period_seconds", (uint64_t) r->period_seconds, f);
        print_json_u64("workers", r->n_workers, f);
        print_json_u64("workers_died", r->n_died, f);
        print_json_work(r, f);
        print_json_pages(r, f);
        (void) fprintf(f,
                       "  \"committed_bytes\": { \"peak\": %" PRIu64 ", \"before\": %" PRIu64
                       ", \"after\": %" PRIu64 " },\n",
                       r->peak_size, r->before.committed_size, r->after.committed_size);
        (void) fprintf(f, "  \"retained_bytes\": { \"before\": %" PRIu64 ", \"after\": %" PRIu64 " },\n",
                       r->before.retained_size, r->after.retained_size);
        print_json_u64("reclaimed_bytes", r->reclaimed_size, f);
        print_json_u64("requests_booked", r->n_booked, f);
        (void) fprintf(f, "  \"check_ok\": %s\n}\n", r->check == 0 ? "true" : "false");
}

static int compare_latencies(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

        return (x > y) - (x < y);
}

uint64_t report_measure_timer(void) {
        uint64_t times[1001];

        for (size_t i = 0; i < 1001; ++i) {
                uint64_t begin = now_ns();

                times[i] = now_ns() - begin;
        }
        qsort(times, 1001, sizeof(times[0]), compare_latencies);
        return times[500];
}
