/*
 * Statistics
 *
 * Purpose: to count objects, memory and calls from the arena when a caller asks for them, and to tell its sizes.
 *
 * Invariants
 *   1. A figure is for people: nothing is decided by it. Figures that change meanwhile may not fit each other.
 *   2. Counters of a record only rise, and base_counters are the same counters at the time when the owner took the
 *      record. Their difference is the owner's count.
 *   3. A caller's struct is written up to its size: fields that this library does not know become 0.
 *
 * Who may do what: any thread reads. The thread that owns a record adds to its counters, threads that share the spare
 *   record add one at a time; begin_ownership() sets base_counters.
 *
 * Crash: reading leaves nothing behind. The counters of a dead thread stay in its record, and in the sums.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/pool/enter.h"
#include "proto/cleanup.h"
#include "shm/epoch/epoch.h"
#include "shm/arena/record.h"
#include "shm/stats/stats.h"

/* Into the caller's struct, of its version; fields of a later version are 0. */
static int give_stats(void *to, const void *full, size_t full_size) {
        size_t size;

        memcpy(&size, to, sizeof(size));
        if (size <= sizeof(size))
                return -EINVAL;
        if (size > full_size)
                memset((uint8_t *) to + full_size, 0, size - full_size);
        memcpy((uint8_t *) to + sizeof(size), (const uint8_t *) full + sizeof(size),
               (size < full_size ? size : full_size) - sizeof(size));
        return 0;
}

_public_ uint64_t tslab_capacity(struct tslab *pool) {
        return (uint64_t) pool->arena.n_slabs * SHM_SLAB_SIZE;
}

_public_ bool tslab_contains(struct tslab *pool, const void *address) {
        return (uintptr_t) address - (uintptr_t) pool->arena.slabs < tslab_capacity(pool);
}

static ShmStats *count_stats(struct tslab *pool) {
        ShmStats *stats = calloc(1, sizeof(*stats));

        if (stats && !pool_is_closed(pool))
                shm_stats(&pool->arena, stats);
        return stats;
}

#define STATS_COUNTER(_name, _field, _whole, _help) ._field = shm_stats_counter(s, SHM_COUNT_##_name),

_public_ int tslab_stats(struct tslab *pool, struct tslab_stats *stats) {
        _cleanup_(proto_freep) ShmStats *s = count_stats(pool);

        if (!s)
                return -ENOMEM;
        return give_stats(stats,
                          &(struct tslab_stats){ .live_objects = s->live_objects,
                                                 .live_bytes = s->live_size,
                                                 .cached_objects = s->cached_objects,
                                                 .committed_bytes = s->committed_size,
                                                 .retained_bytes = s->retained_size,
                                                 .slabs_reclaimed = s->reclaimed_slabs,
                                                 .threads = s->threads,
                                                 SHM_COUNTERS(STATS_COUNTER) },
                          sizeof(*stats));
}

static int give_count(struct tslab_count *to, const ShmCount *c) {
        return give_stats(to,
                          &(struct tslab_count){
                                  .slabs = c->slabs,
                                  .live_objects = c->live_objects,
                                  .live_bytes = c->live_size,
                          },
                          sizeof(*to));
}

_public_ int tslab_class_stats(struct tslab *pool, size_t size, struct tslab_count *ret) {
        _cleanup_(proto_freep) ShmStats *s = NULL;

        if (size == 0)
                return -EINVAL;
        if (size > shm_arena_size_max(&pool->arena))
                return -E2BIG;
        s = count_stats(pool);
        return s ? give_count(ret, &s->classes[shm_arena_class(&pool->arena, size)]) : -ENOMEM;
}

_public_ int tslab_epoch_stats(struct tslab *pool, uint32_t epoch, struct tslab_count *ret) {
        _cleanup_(proto_freep) ShmStats *s = NULL;
        ShmEpochInfo info;
        int r;

        if (epoch == TSLAB_EPOCH_CURRENT)
                epoch = shm_epoch_current(&pool->arena);
        r = shm_epoch_get(&pool->arena, epoch & 0xff, &info);
        if (r)
                return r;
        if (epoch >> 8 != 0 && epoch >> 8 != info.era)
                return -ESTALE;
        s = count_stats(pool);
        return s ? give_count(ret, &s->epochs[epoch & 0xff]) : -ENOMEM;
}

static uint64_t stats_since(const ShmRecord *record, ShmCounter counter) {
        return shm_hint_load(&record->counters[counter]) - shm_hint_load(&record->base_counters[counter]);
}

_public_ int tslab_thread_stats(struct tslab *pool, struct tslab_thread_stats *stats) {
        struct tslab_thread_stats full;
        const ShmRecord *record;
        ThreadState *thread;
        int r;

        r = pool_enter(pool, &thread);
        if (r)
                return r;
        record = thread->actor.record;
        full = (struct tslab_thread_stats){
                .allocs = stats_since(record, SHM_COUNT_ALLOC_HITS) +
                          stats_since(record, SHM_COUNT_ALLOCS_UNCACHED),
                .frees = stats_since(record, SHM_COUNT_FREES_CACHED) +
                         stats_since(record, SHM_COUNT_FREES_UNCACHED),
                .alloc_hits = stats_since(record, SHM_COUNT_ALLOC_HITS),
                .frees_cached = stats_since(record, SHM_COUNT_FREES_CACHED),
                .refills = stats_since(record, SHM_COUNT_REFILLS),
                .flushes = stats_since(record, SHM_COUNT_FLUSHES),
                .failures = stats_since(record, SHM_COUNT_FAILURES),
                .slow_allocs = thread->slow_allocs.n,
                .slow_allocs_timed = thread->slow_allocs.n_timed,
                .slow_allocs_ns = thread->slow_allocs.total_ns,
                .slow_alloc_max_ns = thread->slow_allocs.max_ns,
                .slow_frees = thread->slow_frees.n,
                .slow_frees_timed = thread->slow_frees.n_timed,
                .slow_frees_ns = thread->slow_frees.total_ns,
                .slow_free_max_ns = thread->slow_frees.max_ns,
                .is_shared = pool_is_spare(pool, thread),
                .alloc_bypassed = stats_since(record, SHM_COUNT_ALLOC_BYPASSED),
                .free_bypassed = stats_since(record, SHM_COUNT_FREE_BYPASSED),
                .bypass_windows = stats_since(record, SHM_COUNT_BYPASS_WINDOWS),
        };
        pool_leave(pool, thread);
        return give_stats(stats, &full, sizeof(full));
}
