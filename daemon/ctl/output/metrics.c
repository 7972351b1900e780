#include "daemon/ctl/output/metrics.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/ctl/base/format.h"

typedef enum Kind {
        GAUGE,
        COUNTER,
} Kind;

/* What one line of a family is about, beside its pool. */
typedef struct Item {
        const Tslab__StatsReply *stats;
        const Tslab__EpochInfo *epoch; /* of families of epochs */
        const Tslab__ClassInfo *class; /* of families of classes */
} Item;

typedef enum Scope {
        OF_POOL,
        OF_EPOCH,
        OF_CLASS,
} Scope;

typedef struct Family {
        const char *name; /* without "tslab_" and "_total" */
        const char *unit; /* which the name ends in, or NULL */
        const char *help;
        Scope scope;
        Kind kind;
        uint64_t (*value)(const Item *item);
} Family;

#define POOL_VALUE(_name)                                                                                    \
        static uint64_t pool_##_name(const Item *item) {                                                     \
                return item->stats->_name;                                                                   \
        }
#define COUNTER_VALUE(_name)                                                                                 \
        static uint64_t counter_##_name(const Item *item) {                                                  \
                return item->stats->counters->_name;                                                         \
        }
#define EPOCH_VALUE(_name)                                                                                   \
        static uint64_t epoch_##_name(const Item *item) {                                                    \
                return item->epoch->_name;                                                                   \
        }
#define CLASS_VALUE(_name)                                                                                   \
        static uint64_t class_##_name(const Item *item) {                                                    \
                return item->class->_name;                                                                   \
        }

POOL_VALUE(size_bytes)
POOL_VALUE(committed_bytes)
POOL_VALUE(retained_bytes)
POOL_VALUE(metadata_bytes)
POOL_VALUE(memfd_blocks_bytes)
POOL_VALUE(live_bytes)
POOL_VALUE(live_objects)
POOL_VALUE(cached_objects)
POOL_VALUE(clients)
POOL_VALUE(threads)
POOL_VALUE(n_records)
POOL_VALUE(records_shared)
POOL_VALUE(n_slabs_ever)
POOL_VALUE(retain_bytes)
COUNTER_VALUE(allocs)
COUNTER_VALUE(frees)
COUNTER_VALUE(alloc_hits)
COUNTER_VALUE(frees_cached)
COUNTER_VALUE(refills)
COUNTER_VALUE(flushes)
COUNTER_VALUE(alloc_bypassed)
COUNTER_VALUE(free_bypassed)
COUNTER_VALUE(slabs_recycled)
COUNTER_VALUE(slabs_reclaimed)
COUNTER_VALUE(failures)
EPOCH_VALUE(era)
EPOCH_VALUE(slabs)
EPOCH_VALUE(live_objects)
EPOCH_VALUE(live_bytes)
EPOCH_VALUE(reclaimed_bytes)
CLASS_VALUE(slabs)
CLASS_VALUE(live_objects)

static uint64_t pool_start(const Item *item) {
        return (format_now_usec() - item->stats->uptime_usec) / 1000000;
}

static uint64_t epoch_open(const Item *item) {
        return item->epoch->state == TSLAB__EPOCH_STATE__EPOCH_STATE_OPEN;
}

static const Family families[] = {
        { "size_bytes", "bytes", "Room for slabs", OF_POOL, GAUGE, pool_size_bytes },
        { "committed_bytes", "bytes", "Slabs that have memory", OF_POOL, GAUGE, pool_committed_bytes },
        { "retained_bytes", "bytes", "Slabs that have memory and are free", OF_POOL, GAUGE,
          pool_retained_bytes },
        { "retain_bytes", "bytes", "Free slabs that keep their memory, at most", OF_POOL, GAUGE,
          pool_retain_bytes },
        { "metadata_bytes", "bytes", "Memory of all but the slabs", OF_POOL, GAUGE, pool_metadata_bytes },
        { "resident_bytes", "bytes", "Memory of the pool as the kernel counts it", OF_POOL, GAUGE,
          pool_memfd_blocks_bytes },
        { "live_bytes", "bytes", "Live objects, by the sizes of their classes", OF_POOL, GAUGE,
          pool_live_bytes },
        { "live_objects", NULL, "Live objects", OF_POOL, GAUGE, pool_live_objects },
        { "cached_objects", NULL, "Room for objects that threads keep in caches", OF_POOL, GAUGE,
          pool_cached_objects },
        { "clients", NULL, "Attached processes", OF_POOL, GAUGE, pool_clients },
        { "threads", NULL, "Threads that use the pool", OF_POOL, GAUGE, pool_threads },
        { "records", NULL, "Threads that there is room for, and the daemon", OF_POOL, GAUGE, pool_n_records },
        { "slabs_ever", NULL, "Slabs that were ever used", OF_POOL, GAUGE, pool_n_slabs_ever },
        { "daemon_start_time_seconds", "seconds", "When the daemon started, since 1970", OF_POOL, GAUGE,
          pool_start },
        { "threads_sharing", NULL, "Threads that found no room of their own", OF_POOL, COUNTER,
          pool_records_shared },
        { "allocs", NULL, "Objects allocated", OF_POOL, COUNTER, counter_allocs },
        { "frees", NULL, "Objects freed", OF_POOL, COUNTER, counter_frees },
        { "alloc_hits", NULL, "Of the allocations: from a cache", OF_POOL, COUNTER, counter_alloc_hits },
        { "frees_cached", NULL, "Of the frees: into a cache", OF_POOL, COUNTER, counter_frees_cached },
        { "refills", NULL, "Times that a cache was filled", OF_POOL, COUNTER, counter_refills },
        { "flushes", NULL, "Times that a cache was emptied by half", OF_POOL, COUNTER, counter_flushes },
        { "alloc_bypassed", NULL, "Allocations that went past a cache that did not pay", OF_POOL, COUNTER,
          counter_alloc_bypassed },
        { "free_bypassed", NULL, "Frees that went past a cache that did not pay", OF_POOL, COUNTER,
          counter_free_bypassed },
        { "slabs_recycled", NULL, "Slabs that drained and served anew", OF_POOL, COUNTER,
          counter_slabs_recycled },
        { "slabs_reclaimed", NULL, "Slabs given back to the system", OF_POOL, COUNTER,
          counter_slabs_reclaimed },
        { "failures", NULL, "Allocations refused for want of memory", OF_POOL, COUNTER, counter_failures },
        { "epoch_open", NULL, "1: objects can be allocated in the epoch", OF_EPOCH, GAUGE, epoch_open },
        { "epoch_era", NULL, "How often the id has been opened", OF_EPOCH, GAUGE, epoch_era },
        { "epoch_slabs", NULL, "Slabs of the epoch", OF_EPOCH, GAUGE, epoch_slabs },
        { "epoch_live_objects", NULL, "Live objects of the epoch", OF_EPOCH, GAUGE, epoch_live_objects },
        { "epoch_live_bytes", "bytes", "Live objects of the epoch, by the sizes of their classes", OF_EPOCH,
          GAUGE, epoch_live_bytes },
        { "epoch_reclaimed_bytes", "bytes", "Memory of the epoch given back to the system", OF_EPOCH, COUNTER,
          epoch_reclaimed_bytes },
        { "class_slabs", NULL, "Slabs of the size class", OF_CLASS, GAUGE, class_slabs },
        { "class_live_objects", NULL, "Live objects of the size class", OF_CLASS, GAUGE, class_live_objects },
};

/* A label's value: what would end it is escaped. */
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

static void print_head(FILE *out, const char *name, const char *unit, const char *help, Kind kind,
                       bool open) {
        const char *suffix = kind == COUNTER && !open ? "_total" : "";

        (void) fprintf(out, "# TYPE tslab_%s%s %s\n", name, suffix, kind == COUNTER ? "counter" : "gauge");
        if (unit && open)
                (void) fprintf(out, "# UNIT tslab_%s %s\n", name, unit);
        (void) fprintf(out, "# HELP tslab_%s%s %s.\n", name, suffix, help);
}

static void print_sample(FILE *out, const Family *family, const char *pool, const Item *item) {
        (void) fprintf(out, "tslab_%s%s{", family->name, family->kind == COUNTER ? "_total" : "");
        print_label(out, "pool", pool);
        if (item->epoch)
                (void) fprintf(out, ",epoch=\"%u\"", item->epoch->id);
        if (item->class)
                (void) fprintf(out, ",size=\"%u\"", item->class->size);
        (void) fprintf(out, "} %" PRIu64 "\n", family->value(item));
}

static void print_pool(FILE *out, const Family *family, const MetricsPool *pool) {
        static const Tslab__Counters no_counters = TSLAB__COUNTERS__INIT;
        Tslab__StatsReply stats = *pool->reply->stats;
        size_t n = family->scope == OF_EPOCH   ? stats.n_epochs
                   : family->scope == OF_CLASS ? stats.n_classes
                                               : 1;

        if (!stats.counters)
                stats.counters = (Tslab__Counters *) &no_counters;
        for (size_t i = 0; i < n; ++i) {
                Item item = {
                        .stats = &stats,
                        .epoch = family->scope == OF_EPOCH ? stats.epochs[i] : NULL,
                        .class = family->scope == OF_CLASS ? stats.classes[i] : NULL,
                };

                print_sample(out, family, pool->name, &item);
        }
}

static void print_up(FILE *out, const MetricsPool *pools, size_t n_pools, bool open) {
        print_head(out, "up", NULL, "1: the daemon of the pool answered", GAUGE, open);
        for (size_t i = 0; i < n_pools; ++i) {
                (void) fputs("tslab_up{", out);
                print_label(out, "pool", pools[i].name);
                (void) fprintf(out, "} %d\n", pools[i].reply != NULL);
        }
}

static void print_info(FILE *out, const MetricsPool *pools, size_t n_pools, bool open) {
        /* In the older format, where there is no such type, a gauge that is 1. */
        if (open)
                (void) fputs("# TYPE tslab_daemon info\n# HELP tslab_daemon The daemon.\n", out);
        else
                print_head(out, "daemon_info", NULL, "The daemon", GAUGE, open);
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

/* All lines of a family stand together: that is the format. */
void metrics_print(FILE *out, const MetricsPool *pools, size_t n_pools, bool open) {
        print_up(out, pools, n_pools, open);
        print_info(out, pools, n_pools, open);
        for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); ++f) {
                const Family *family = &families[f];

                print_head(out, family->name, family->unit, family->help, family->kind, open);
                for (size_t i = 0; i < n_pools; ++i)
                        if (pools[i].reply)
                                print_pool(out, family, &pools[i]);
        }
        if (open)
                (void) fputs("# EOF\n", out);
}
