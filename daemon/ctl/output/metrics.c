#include "daemon/ctl/output/metrics.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/numbers.h"

/* The value of a label, with the characters escaped that would end it. */
static void print_value(FILE *out, const char *text) {
        for (; *text; ++text)
                if (*text == '\n')
                        (void) fputs("\\n", out);
                else
                        (void) fprintf(out, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
}

static void print_label(FILE *out, const char *name, const char *value) {
        (void) fprintf(out, "%s=\"", name);
        print_value(out, value);
        (void) fputc('"', out);
}

static void print_family_head(FILE *out, const char *name, const char *unit, const char *help,
                              NumberKind kind, bool open) {
        const char *suffix = kind == NUMBER_COUNTER && !open ? "_total" : "";

        (void) fprintf(out, "# TYPE tslab_%s%s %s\n", name, suffix,
                       kind == NUMBER_COUNTER ? "counter" : "gauge");
        if (unit && open)
                (void) fprintf(out, "# UNIT tslab_%s %s\n", name, unit);
        (void) fprintf(out, "# HELP tslab_%s%s %s.\n", name, suffix, help);
}

/* The subject of one line beside its pool: an epoch, a class, a map, or nothing more. */
typedef struct Subject {
        const void *message;
        const char *label; /* NULL: the pool alone */
        const char *name; /* the label's value; NULL: it is a number */
        uint32_t number;
} Subject;

static size_t count_subjects(NumberScope scope, const Tslab__StatsReply *stats) {
        switch (scope) {
        case NUMBER_OF_EPOCH:
                return stats->n_epochs;
        case NUMBER_OF_CLASS:
                return stats->n_classes;
        case NUMBER_OF_MAP:
                return stats->n_maps;
        default:
                return 1;
        }
}

static Subject find_subject(NumberScope scope, const Tslab__StatsReply *stats, size_t i) {
        switch (scope) {
        case NUMBER_OF_EPOCH:
                return (Subject){ stats->epochs[i], "epoch", NULL, stats->epochs[i]->id };
        case NUMBER_OF_CLASS:
                return (Subject){ stats->classes[i], "size", NULL, stats->classes[i]->size };
        case NUMBER_OF_MAP:
                return (Subject){ stats->maps[i], "map", stats->maps[i]->map ?: "", 0 };
        case NUMBER_OF_COUNTERS:
                return (Subject){ stats->counters, NULL, NULL, 0 };
        default:
                return (Subject){ stats, NULL, NULL, 0 };
        }
}

static void print_sample(FILE *out, const char *metric, NumberKind kind, const char *pool,
                         const Subject *subject, uint64_t value) {
        (void) fprintf(out, "tslab_%s%s{", metric, kind == NUMBER_COUNTER ? "_total" : "");
        print_label(out, "pool", pool);
        if (subject->label)
                (void) fputc(',', out);
        if (subject->name)
                print_label(out, subject->label, subject->name);
        else if (subject->label)
                (void) fprintf(out, "%s=\"%u\"", subject->label, subject->number);
        (void) fprintf(out, "} %" PRIu64 "\n", value);
}

static uint64_t metric_value(const Number *number, const void *message) {
        uint64_t value = number_value(number, message);
        const Tslab__StatsReply *stats = message;

        if (number->unit != NUMBER_UPTIME)
                return value;
        /* As the daemon noted it: computed from the uptime, the start would move as the clock is set. */
        return (stats->born_usec > 0 ? stats->born_usec : format_now_usec() - value) / 1000000;
}

static const char *metric_unit(const Number *number) {
        static const char *const units[] = { [NUMBER_BYTES] = "bytes", [NUMBER_UPTIME] = "seconds" };

        return number->unit == NUMBER_COUNT ? NULL : units[number->unit];
}

/* The format wants all lines of a family to stand together. */
static void print_family(FILE *out, NumberScope scope, const Number *number, const MetricsPool *pools,
                         size_t n_pools, bool open) {
        print_family_head(out, number->metric, metric_unit(number), number->help, number->kind, open);
        for (size_t p = 0; p < n_pools; ++p)
                for (size_t i = 0; pools[p].reply && i < count_subjects(scope, pools[p].reply->stats); ++i) {
                        Subject subject = find_subject(scope, pools[p].reply->stats, i);

                        print_sample(out, number->metric, number->kind, pools[p].name, &subject,
                                     metric_value(number, subject.message));
                }
}

static void print_up(FILE *out, const MetricsPool *pools, size_t n_pools, bool open) {
        print_family_head(out, "up", NULL,
                          "1: the daemon of the pool answered; 0: it did not; -1: this user may not ask it",
                          NUMBER_GAUGE, open);
        for (size_t i = 0; i < n_pools; ++i) {
                (void) fputs("tslab_up{", out);
                print_label(out, "pool", pools[i].name);
                (void) fprintf(out, "} %d\n", pools[i].reply ? 1 : pools[i].denied ? -1 : 0);
        }
}

static void print_info(FILE *out, const MetricsPool *pools, size_t n_pools, bool open) {
        /* The older format has no such type, so there it is a gauge that is 1. */
        if (open)
                (void) fputs("# TYPE tslab_daemon info\n# HELP tslab_daemon The daemon.\n", out);
        else
                print_family_head(out, "daemon_info", NULL, "The daemon", NUMBER_GAUGE, open);
        for (size_t i = 0; i < n_pools; ++i) {
                if (!pools[i].reply)
                        continue;
                (void) fputs("tslab_daemon_info{", out);
                print_label(out, "pool", pools[i].name);
                (void) fputc(',', out);
                print_label(out, "version", pools[i].reply->stats->daemon_version ?: "");
                (void) fputs("} 1\n", out);
        }
}

/* The state is no number, so no row of the table has it. */
static void print_epochs_open(FILE *out, const MetricsPool *pools, size_t n_pools, bool open) {
        print_family_head(out, "epoch_open", NULL, "1: objects can be allocated in the epoch", NUMBER_GAUGE,
                          open);
        for (size_t p = 0; p < n_pools; ++p)
                for (size_t i = 0; pools[p].reply && i < pools[p].reply->stats->n_epochs; ++i) {
                        Subject subject = find_subject(NUMBER_OF_EPOCH, pools[p].reply->stats, i);
                        const Tslab__EpochInfo *epoch = subject.message;

                        print_sample(out, "epoch_open", NUMBER_GAUGE, pools[p].name, &subject,
                                     epoch->state == TSLAB__EPOCH_STATE__EPOCH_STATE_OPEN);
                }
}

/* Other maps have no line. */
static void print_near(FILE *out, const MetricsPool *pools, size_t n_pools, bool open) {
        print_family_head(out, "near_covered", NULL,
                          "1: programs may read the copies of the near cache; 0: they ask the engine",
                          NUMBER_GAUGE, open);
        for (size_t p = 0; p < n_pools; ++p)
                for (size_t i = 0; pools[p].reply && i < pools[p].reply->stats->n_maps; ++i) {
                        Subject subject = find_subject(NUMBER_OF_MAP, pools[p].reply->stats, i);
                        const Tslab__MapInfo *map = subject.message;

                        if (map->near != TSLAB__MAP_NEAR__MAP_NEAR_NONE)
                                print_sample(out, "near_covered", NUMBER_GAUGE, pools[p].name, &subject,
                                             map->near == TSLAB__MAP_NEAR__MAP_NEAR_COVERED);
                }
}

static void print_call_start(FILE *out, const char *suffix, const char *pool, const char *request) {
        (void) fprintf(out, "tslab_request_duration_seconds%s{", suffix);
        print_label(out, "pool", pool);
        (void) fputc(',', out);
        print_label(out, "request", request);
}

static void print_call(FILE *out, const char *pool, const Tslab__CallTimes *call) {
        const char *request = call->call ?: "";
        uint64_t sum = 0;

        for (size_t i = 0; i < call->n_counts; ++i) {
                sum += call->counts[i];
                print_call_start(out, "_bucket", pool, request);
                if (i + 1 < call->n_counts)
                        (void) fprintf(out, ",le=\"%.9g\"", (double) call_below_usec(i) / 1e6);
                else
                        (void) fputs(",le=\"+Inf\"", out);
                (void) fprintf(out, "} %" PRIu64 "\n", sum);
        }
        print_call_start(out, "_sum", pool, request);
        (void) fprintf(out, "} %.6f\n", (double) call->total_usec / 1e6);
        print_call_start(out, "_count", pool, request);
        (void) fprintf(out, "} %" PRIu64 "\n", sum);
}

static void print_calls(FILE *out, const MetricsPool *pools, size_t n_pools, bool open) {
        (void) fputs("# TYPE tslab_request_duration_seconds histogram\n", out);
        if (open)
                (void) fputs("# UNIT tslab_request_duration_seconds seconds\n", out);
        (void) fputs("# HELP tslab_request_duration_seconds Time from a request to its last reply.\n", out);
        for (size_t p = 0; p < n_pools; ++p)
                for (size_t i = 0; pools[p].reply && i < pools[p].reply->stats->n_calls; ++i)
                        print_call(out, pools[p].name, pools[p].reply->stats->calls[i]);
}

void metrics_print(FILE *out, const MetricsPool *pools, size_t n_pools, bool open) {
        print_up(out, pools, n_pools, open);
        print_info(out, pools, n_pools, open);
        for (NumberScope scope = 0; scope < _NUMBER_SCOPE_N; ++scope) {
                size_t n;
                const Number *numbers = numbers_of(scope, &n);

                for (size_t i = 0; i < n; ++i)
                        print_family(out, scope, &numbers[i], pools, n_pools, open);
        }
        print_epochs_open(out, pools, n_pools, open);
        print_near(out, pools, n_pools, open);
        print_calls(out, pools, n_pools, open);
        if (open)
                (void) fputs("# EOF\n", out);
}
