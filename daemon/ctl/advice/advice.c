#include "daemon/ctl/advice/advice.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/ctl/advice/classes.h"
#include "daemon/ctl/base/format.h"
#include "shm/format/layout-record.h"

#define MIB (UINT64_C(1) << 20)
#define THREADS_MAX 4095U

/* Rounds up to a number that people would write: one of three significant bits. */
static uint64_t round_size(uint64_t bytes, uint64_t least) {
        uint64_t unit = least;

        if (bytes == 0)
                return least;
        while (bytes / unit >= 8)
                unit *= 2;
        return (bytes + unit - 1) / unit * unit;
}

static uint64_t excess_over(uint64_t a, uint64_t b) {
        return a > b ? a - b : 0;
}

/* A pool that nobody has used gives no reason to change a setting. */
static void keep_number(AdviceNumber *ret, const Tslab__Peaks *peaks) {
        ret->value = ret->current;
        (void) snprintf(ret->why, sizeof(ret->why), "%s so far: let a load run first",
                        peaks->looks > 0 ? "nothing was in use" : "the daemon has not looked at the pool");
}

static bool has_failures(const Tslab__StatsReply *stats) {
        return stats->counters && stats->counters->failures > 0;
}

/* The high-water mark of used memory, and a quarter of it for growth. */
static void find_size(AdviceNumber *ret, const Tslab__StatsReply *stats) {
        uint64_t used = stats->peaks->used_bytes;

        ret->current = stats->size_bytes;
        if (used == 0) {
                keep_number(ret, stats->peaks);
                return;
        }
        ret->value = round_size(used + used / 4, MIB);
        /* Entries that maps may evict fill a larger pool, too, and go where anything else needs memory. */
        if (ret->value > ret->current && ret->value - ret->current <= stats->evictable_bytes &&
            !has_failures(stats))
                ret->value = ret->current;
        ret->unreserved_bytes = excess_over(ret->current, ret->value);
        (void) snprintf(ret->why, sizeof(ret->why), "at most %s were in use at once%s",
                        format_bytes(FORMAT_BUFFER, used),
                        has_failures(stats) ? ", and allocations failed: more was wanted" : "");
        if (has_failures(stats) && ret->value < ret->current)
                ret->value = ret->current;
        if (ret->value == ret->current)
                ret->unreserved_bytes = 0;
}

/* As much free memory as came into use again, and an eighth of it for growth. */
static void find_retain(AdviceNumber *ret, const Tslab__StatsReply *stats) {
        const Tslab__Peaks *peaks = stats->peaks;
        uint64_t kept =
                peaks->retained_bytes < stats->retain_bytes ? peaks->retained_bytes : stats->retain_bytes;

        ret->current = stats->retain_bytes;
        if (peaks->used_bytes == 0) {
                keep_number(ret, stats->peaks);
                return;
        }
        ret->value = round_size(peaks->swing_bytes + peaks->swing_bytes / 8, MIB);
        ret->saved_bytes = excess_over(kept, ret->value);
        if (peaks->swing_bytes > 0)
                (void) snprintf(ret->why, sizeof(ret->why), "at most %s of freed memory came into use again",
                                format_bytes(FORMAT_BUFFER, peaks->swing_bytes));
        else
                (void) snprintf(ret->why, sizeof(ret->why), "no freed memory came into use again");
}

static void find_threads(AdviceNumber *ret, const Tslab__StatsReply *stats) {
        uint64_t peak = stats->peaks->threads, record;

        record = sizeof(ShmRecord) +
                 shm_n_caches(stats->n_epochs, (uint32_t) stats->n_classes) * sizeof(ShmCache);
        ret->current = stats->n_records > 0 ? stats->n_records - 1 : 0;
        if (peak == 0) {
                keep_number(ret, stats->peaks);
                return;
        }
        ret->value = (peak + peak / 2 + 8 + 7) / 8 * 8;
        if (stats->records_shared > 0 && ret->value < 2 * ret->current)
                ret->value = 2 * ret->current;
        if (ret->value > THREADS_MAX)
                ret->value = THREADS_MAX;
        ret->unreserved_bytes = excess_over(ret->current, ret->value) * record;
        (void) snprintf(ret->why, sizeof(ret->why), "at most %s in use at once, and %s none free",
                        format_count(FORMAT_BUFFER, peak, "record was", "records were"),
                        format_count(FORMAT_BUFFER, stats->records_shared, "thread found", "threads found"));
}

void advice_find(Advice *ret, const Tslab__StatsReply *stats) {
        *ret = (Advice){};
        find_size(&ret->size, stats);
        find_retain(&ret->retain, stats);
        find_threads(&ret->threads, stats);
        advice_find_classes(&ret->classes, stats);
}
