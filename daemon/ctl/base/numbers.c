#include "daemon/ctl/base/numbers.h"

#include <assert.h>
#include <string.h>

#define MEMBER(_type, _member)                                                                               \
        .name = #_member, .offset = offsetof(_type, _member), .size = sizeof(((const _type *) NULL)->_member)

#define POOL(_member) MEMBER(Tslab__StatsReply, _member), .metric = #_member
/* For a metric that has another name than the member, which both must keep. */
#define POOL_AS(_member, _metric) MEMBER(Tslab__StatsReply, _member), .metric = (_metric)
#define COUNTER(_member)                                                                                     \
        MEMBER(Tslab__Counters, _member), .metric = #_member, .text = #_member, .kind = NUMBER_COUNTER
#define EPOCH(_member) MEMBER(Tslab__EpochInfo, _member), .metric = "epoch_" #_member
#define MAP(_member) MEMBER(Tslab__MapInfo, _member), .metric = "map_" #_member
#define MAP_COUNTER(_member) MAP(_member), .kind = NUMBER_COUNTER
#define CLASS(_member) MEMBER(Tslab__ClassInfo, _member), .metric = "class_" #_member

static const Number pool_numbers[] = {
        { POOL(size_bytes), .text = "size", .unit = NUMBER_BYTES, .help = "Room for slabs" },
        { POOL(committed_bytes), .text = "committed", .unit = NUMBER_BYTES,
          .help = "Memory of the slabs that have any" },
        { POOL(retained_bytes), .text = "retained", .unit = NUMBER_BYTES,
          .help = "Memory of the slabs that have some and are free" },
        { POOL(retain_bytes), .text = "retained at most", .unit = NUMBER_BYTES,
          .help = "Memory that free slabs may keep, as the daemon was told" },
        { POOL(metadata_bytes), .text = "metadata", .unit = NUMBER_BYTES,
          .help = "Memory of all but the slabs" },
        { POOL_AS(memfd_blocks_bytes, "resident_bytes"), .text = "pages", .unit = NUMBER_BYTES,
          .help = "Memory of the pool as the kernel counts it" },
        { POOL(huge_bytes), .text = "huge pages", .unit = NUMBER_BYTES,
          .help = "Memory of the pool in huge pages, as of the daemon's last look" },
        { POOL(huge_splits), .text = "huge pages split", .kind = NUMBER_COUNTER,
          .help = "Huge pages of which trims and closes gave a part back, and not all" },
        { POOL(live_bytes), .text = "live", .unit = NUMBER_BYTES,
          .help = "Live objects, by the sizes of their classes" },
        { POOL(evictable_bytes), .text = "evictable", .unit = NUMBER_BYTES,
          .help = "Entries that maps may evict, which go when anything else needs memory" },
        { POOL(live_objects), .text = "live objects", .help = "Live objects" },
        { POOL(cached_objects), .text = "cached objects",
          .help = "Free slots that threads keep in their caches" },
        { POOL(clients), .text = "clients", .help = "Processes that are attached" },
        { POOL(threads), .text = "records in use",
          .help = "Records in use: each thread that uses the pool has one, and each process a spare one" },
        { POOL_AS(n_records, "records"), .text = "records",
          .help = "Records that the pool has room for, one of them the daemon's" },
        { POOL_AS(records_shared, "threads_sharing"), .text = "threads sharing", .kind = NUMBER_COUNTER,
          .help = "Threads that found no free record, and share one" },
        { POOL(records_unsettled), .text = "records to repair",
          .help = "Records of dead threads from which the daemon has not taken all slots back yet" },
        { POOL(roots), .text = "named roots", .help = "Named roots in use, of 255; each map takes one" },
        { POOL_AS(n_slabs, "slabs"), .text = "slabs", .help = "Slabs that the pool has room for" },
        { POOL_AS(n_slabs_ever, "slabs_ever"), .text = "slabs ever used",
          .help = "Slabs that were used at any time" },
        { POOL(limit_bytes), .text = "memory limit", .unit = NUMBER_BYTES,
          .help = "Memory limit of the control group that leaves the daemon the least; 0 where there is no limit" },
        { POOL(limit_used_bytes), .text = "used of the limit", .unit = NUMBER_BYTES,
          .help = "Memory that everything in that control group uses" },
        { POOL(limit_left_bytes), .text = "left of the limit", .unit = NUMBER_BYTES,
          .help = "Memory that the limit leaves for the pool, which stays 8 MiB below it" },
        { POOL(page_wait_seconds), .text = "waits for a page",
          .help = "Seconds that the daemon has waited for the lock of the pool's memory, which a writer holds" },
        { POOL_AS(uptime_usec, "daemon_start_time_seconds"), .text = "daemon up for", .unit = NUMBER_UPTIME,
          .help = "Start of the daemon: as a metric the time, in seconds since 1970; elsewhere how long ago it was" },
};

static const Number counters[] = {
#define COUNTER_ROW(_name, _field, _whole, _help)                                                            \
        { MEMBER(Tslab__Counters, _field),                                                                   \
          .metric = #_field,                                                                                 \
          .text = #_field,                                                                                   \
          .kind = SHM_COUNTER_IS_MAX(SHM_COUNT_##_name) ? NUMBER_GAUGE : NUMBER_COUNTER,                     \
          .unit = SHM_COUNTER_IS_MAX(SHM_COUNT_##_name) ? NUMBER_BYTES : NUMBER_COUNT,                       \
          .whole = (_whole)[0] ? (_whole) : NULL,                                                            \
          .help = (_help) },
        SHM_COUNTERS(COUNTER_ROW)
#undef COUNTER_ROW
                { COUNTER(slabs_reclaimed), .help = "Slabs whose memory was given back to the system" },
};

static const Number epoch_numbers[] = {
        { EPOCH(era), .text = "EPOCH", .help = "How often the id of the epoch was opened" },
        { EPOCH(slabs), .text = "SLABS", .help = "Slabs of the epoch" },
        { EPOCH(live_objects), .text = "OBJECTS", .help = "Live objects of the epoch" },
        { EPOCH(live_bytes), .text = "LIVE", .unit = NUMBER_BYTES,
          .help = "Live objects of the epoch, by the sizes of their classes" },
        { EPOCH(committed_bytes), .text = "COMMITTED", .unit = NUMBER_BYTES,
          .help = "Memory of the slabs of the epoch" },
        { EPOCH(reclaimed_bytes), .text = "RECLAIMED", .unit = NUMBER_BYTES, .kind = NUMBER_COUNTER,
          .help = "Memory of the epoch given back to the system" },
};

static const Number class_numbers[] = {
        { CLASS(slots), .text = "SLOTS", .help = "Slots that a slab of the size class has" },
        { CLASS(slabs), .text = "SLABS", .help = "Slabs of the size class" },
        { CLASS(live_objects), .text = "OBJECTS", .help = "Live objects of the size class" },
};

static const Number map_numbers[] = {
        { MAP(entries), .text = "ENTRIES", .help = "Entries of the map" },
        { MAP(bytes), .text = "BYTES", .unit = NUMBER_BYTES,
          .help = "Memory of the entries, with their part of the index" },
        { MAP(limit_bytes), .text = "LIMIT", .unit = NUMBER_BYTES,
          .help = "Memory that the entries may take; 0: as much as there is" },
        { MAP_COUNTER(hits), .text = "HITS", .help = "Lookups that found an entry" },
        { MAP_COUNTER(misses), .text = "MISSES", .help = "Lookups that found none" },
        { MAP_COUNTER(inserts), .text = "INSERTS", .help = "Entries that came, not in place of another" },
        { MAP_COUNTER(deletes), .text = "DELETES", .help = "Entries that were deleted, or revoked" },
        { MAP_COUNTER(expirations), .text = "EXPIRED", .help = "Entries that went at the end of their time" },
        { MAP_COUNTER(evictions), .text = "EVICTED", .help = "Entries that went to make room for others" },
        { MAP_COUNTER(failures), .text = "FAILURES",
          .help = "Entries that could not be put for want of memory or room" },
};

#define N(_array) (sizeof(_array) / sizeof((_array)[0]))

const Number *numbers_of(NumberScope scope, size_t *ret_n) {
        static const struct {
                const Number *numbers;
                size_t n;
        } tables[_NUMBER_SCOPE_N] = {
                [NUMBER_OF_POOL] = { pool_numbers, N(pool_numbers) },
                [NUMBER_OF_COUNTERS] = { counters, N(counters) },
                [NUMBER_OF_EPOCH] = { epoch_numbers, N(epoch_numbers) },
                [NUMBER_OF_CLASS] = { class_numbers, N(class_numbers) },
                [NUMBER_OF_MAP] = { map_numbers, N(map_numbers) },
        };

        assert(scope < _NUMBER_SCOPE_N);
        *ret_n = tables[scope].n;
        return tables[scope].numbers;
}

uint64_t number_value(const Number *number, const void *message) {
        uint64_t value = 0;
        uint32_t narrow;

        if (!message)
                return 0;
        if (number->size == sizeof(value)) {
                memcpy(&value, (const char *) message + number->offset, sizeof(value));
                return value;
        }
        assert(number->size == sizeof(narrow));
        memcpy(&narrow, (const char *) message + number->offset, sizeof(narrow));
        return narrow;
}

uint64_t number_counter(const Tslab__Counters *message, const char *name) {
        for (size_t i = 0; i < N(counters); ++i)
                if (!strcmp(counters[i].name, name))
                        return number_value(&counters[i], message);
        assert(!"a counter of this name");
        return 0;
}

void numbers_print_manual(FILE *out, NumberScope scope) {
        size_t n;
        const Number *numbers = numbers_of(scope, &n);

        for (size_t i = 0; i < n; ++i)
                (void) fprintf(out, "%s*%s*\n\t%s. In text *%s*, as a metric *tslab_%s%s* (%s).\n",
                               i ? "\n" : "", numbers[i].name, numbers[i].help, numbers[i].text,
                               numbers[i].metric, numbers[i].kind == NUMBER_COUNTER ? "_total" : "",
                               numbers[i].kind == NUMBER_COUNTER ? "counter" : "gauge");
}

static uint64_t time_of_share(const Tslab__CallTimes *call, uint64_t n, uint64_t percent) {
        uint64_t sum = 0;

        for (size_t i = 0; i + 1 < call->n_counts; ++i) {
                sum += call->counts[i];
                if (sum * 100 >= n * percent)
                        return call_below_usec(i);
        }
        return UINT64_MAX;
}

CallSummary call_summary(const Tslab__CallTimes *call) {
        CallSummary s = {};

        for (size_t i = 0; i < call->n_counts; ++i)
                s.n += call->counts[i];
        s.half_usec = time_of_share(call, s.n, 50);
        s.most_usec = time_of_share(call, s.n, 99);
        return s;
}
