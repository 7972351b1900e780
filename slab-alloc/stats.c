/*
 * Statistics of an allocator
 *
 * Purpose: the figures of <slab_stats.h>, counted when a program asks for them.
 * Invariants: 1. a figure is for people; figures that change meanwhile may not fit each other.
 * Who may do what: any thread reads; this file writes only to its caller's struct.
 * Crash: reading leaves nothing behind.
 */
#include <slab_stats.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slab-alloc/counters.h"
#include "slab-alloc/metadata.h"
#include "slab-alloc/stats.h"
#include "proto/cleanup.h"
#include "shm/stats/stats.h"

#define ALL_EPOCHS UINT32_MAX

typedef struct SlabCount {
        uint32_t partial, full;
} SlabCount;

static ShmStats *stats_new(const AllocatorState *state) {
        ShmStats *stats = calloc(1, sizeof(*stats));

        if (stats)
                shm_stats(&state->pool->arena, stats);
        return stats;
}

static bool is_class(const AllocatorState *state, uint32_t class, uint32_t wanted) {
        return allocator_class_known(state, class) == wanted;
}

static bool is_epoch(uint32_t id, uint32_t wanted) {
        return wanted == ALL_EPOCHS || id == wanted || (id == ALLOCATOR_STABLE && wanted == 0);
}

static void count_slab(SlabWord word, SlabCount *count) {
        SlabState state = slab_word_state(word);

        if (state == SLAB_FULL || (state == SLAB_DRAINING && word.low == UINT64_MAX))
                count->full++;
        else if (state == SLAB_PARTIAL || state == SLAB_ACTIVE || state == SLAB_DRAINING)
                count->partial++;
}

static SlabCount count_slabs(const AllocatorState *state, uint32_t class, uint32_t epoch) {
        const ShmArena *arena = &state->pool->arena;
        uint32_t budget = UINT32_MAX, slab;
        SlabCount count = {};
        ShmSlabWalk walk;
        SlabWord word;

        shm_slab_walk_begin(&walk, arena, SHM_SLAB_WALK_ALL);
        while (shm_slab_walk_next(&walk, arena, &budget, &slab, &word))
                if (is_class(state, slab_word_class(word), class) && is_epoch(slab_word_epoch(word), epoch))
                        count_slab(word, &count);
        return count;
}

static uint64_t count_objects(const AllocatorState *state, const ShmStats *stats, uint32_t class,
                              uint32_t epoch) {
        uint64_t n = 0;

        for (uint32_t id = 0; id <= ALLOCATOR_STABLE; id++)
                for (uint32_t c = 0; c < state->classes.n_pool; c++)
                        if (is_epoch(id, epoch) && is_class(state, c, class))
                                n += stats->epoch_classes[id][c].live_objects;
        return n;
}

static EpochLifecycleState epoch_state(const AllocatorState *state, EpochId epoch) {
        uint32_t id, era;

        if (shm_epoch_admit(&state->pool->arena, epoch, &id, &era) == 0)
                return EPOCH_ACTIVE;
        return epoch == 0 && allocator_stable(state, &id) == 0 ? EPOCH_ACTIVE : EPOCH_CLOSING;
}

static void add_counters(SlabAllocator *alloc, SlabGlobalStats *out) {
        PerfCounters counters;

        for (uint32_t class = 0; class < allocator_state(alloc)->classes.n; class ++) {
                get_perf_counters(alloc, class, &counters);
                out->total_slabs_allocated += counters.new_slab_count;
                out->total_slabs_recycled += counters.empty_slab_recycled + counters.empty_slab_overflowed;
                out->total_cache_overflows += counters.empty_slab_overflowed;
                out->total_slow_path_hits += counters.slow_path_hits;
                out->total_slow_cache_miss += counters.current_partial_null;
                out->total_slow_epoch_closed += counters_refused(allocator_state(alloc), class);
        }
}

static void add_stats(const AllocatorState *state, const ShmStats *stats, SlabGlobalStats *out) {
        for (uint32_t class = 0; class < state->classes.n_pool; class ++)
                out->net_slabs += stats->classes[class].slabs;
        out->estimated_slab_rss_bytes = stats->committed_size;
        out->total_madvise_calls = stats->reclaimed_slabs;
        out->total_madvise_bytes = stats->reclaimed_slabs * SHM_SLAB_SIZE;
        out->total_bitmap_alloc_attempts =
                stats->counters[SHM_COUNT_ALLOC_HITS] + stats->counters[SHM_COUNT_ALLOCS_UNCACHED];
        out->total_bitmap_free_attempts =
                stats->counters[SHM_COUNT_FREES_CACHED] + stats->counters[SHM_COUNT_FREES_UNCACHED];
}

_public_ void slab_stats_global(SlabAllocator *alloc, SlabGlobalStats *out) {
        _cleanup_(proto_freep) ShmStats *stats = NULL;
        const AllocatorState *state = allocator_state(alloc);

        *out = (SlabGlobalStats){ .version = SLAB_STATS_VERSION,
                                  .rss_bytes_current = read_rss_bytes_linux() };
        if (!state)
                return;
        out->current_epoch = epoch_current(alloc);
        for (EpochId e = 0; e < ALLOCATOR_EPOCHS; e++)
                out->active_epoch_count += epoch_state(state, e) == EPOCH_ACTIVE;
        out->closing_epoch_count = ALLOCATOR_EPOCHS - out->active_epoch_count;
        add_counters(alloc, out);
        stats = stats_new(state);
        if (stats)
                add_stats(state, stats, out);
}

static void print_stats(const AllocatorState *state) {
        _cleanup_(proto_freep) ShmStats *stats = stats_new(state);
        const uint64_t *n;
        uint64_t n_allocs, n_frees;

        if (!stats)
                return;
        n = stats->counters;
        n_allocs = n[SHM_COUNT_ALLOC_HITS] + n[SHM_COUNT_ALLOCS_UNCACHED];
        n_frees = n[SHM_COUNT_FREES_CACHED] + n[SHM_COUNT_FREES_UNCACHED];
        printf("Allocator %p\n"
               "  allocations %ju: from a cache %ju, past it %ju; refills %ju\n"
               "  frees %ju: into a cache %ju, past it %ju; flushes %ju\n",
               (void *) state, n_allocs, n[SHM_COUNT_ALLOC_HITS], n[SHM_COUNT_ALLOC_BYPASSED],
               n[SHM_COUNT_REFILLS], n_frees, n[SHM_COUNT_FREES_CACHED], n[SHM_COUNT_FREE_BYPASSED],
               n[SHM_COUNT_FLUSHES]);
}

#define KNOWN_MAX 16

static AllocatorState *known[KNOWN_MAX]; /* NULL in any place: none */

void stats_know_state(AllocatorState *old, AllocatorState *new) {
        for (uint32_t i = 0; i < KNOWN_MAX; i++) {
                AllocatorState *expected = old;

                /* ORDER: acqrel, pairs with tls_print_stats(); the state is complete. */
                if (shm_cas_acqrel(&known[i], &expected, new))
                        return;
        }
}

_public_ void tls_print_stats(void) {
        for (uint32_t i = 0; i < KNOWN_MAX; i++) {
                /* ORDER: acq, pairs with stats_know_state(); the state is complete. */
                const AllocatorState *state = shm_load_acq(&known[i]);

                if (state)
                        print_stats(state);
        }
}

static void add_class_counters(SlabAllocator *alloc, uint32_t class, SlabClassStats *out) {
        PerfCounters counters;

        get_perf_counters(alloc, class, &counters);
        out->slow_path_hits += counters.slow_path_hits;
        out->new_slab_count += counters.new_slab_count;
        out->list_move_partial_to_full += counters.list_move_partial_to_full;
        out->list_move_full_to_partial += counters.list_move_full_to_partial;
        out->current_partial_null += counters.current_partial_null;
        out->current_partial_full += counters.current_partial_full;
        out->empty_slab_recycled += counters.empty_slab_recycled;
        out->empty_slab_overflowed += counters.empty_slab_overflowed;
        out->slow_path_cache_miss += counters.current_partial_null;
        out->slow_path_epoch_closed += counters_refused(allocator_state(alloc), class);
}

static void add_class_slabs(const AllocatorState *state, uint32_t class, SlabClassStats *out) {
        _cleanup_(proto_freep) ShmStats *stats = stats_new(state);
        SlabCount slabs = count_slabs(state, class, ALL_EPOCHS);

        out->total_partial_slabs = slabs.partial;
        out->total_full_slabs = slabs.full;
        out->net_slabs = slabs.partial + slabs.full;
        out->estimated_rss_bytes = out->committed_bytes = out->net_slabs * SHM_SLAB_SIZE;
        out->cache_capacity = state->pool->retain;
        if (!stats)
                return;
        out->live_bytes = count_objects(state, stats, class, ALL_EPOCHS) * out->object_size;
        out->cache_size = (uint32_t) (stats->retained_size / SHM_SLAB_SIZE);
}

_public_ void slab_stats_class(SlabAllocator *alloc, uint32_t size_class, SlabClassStats *out) {
        AllocatorState *state = allocator_state(alloc);
        uint64_t n_emptied;

        *out = (SlabClassStats){ .version = SLAB_STATS_VERSION };
        if (!state || size_class >= state->classes.n)
                return;
        out->class_index = size_class;
        out->object_size = state->classes.sizes[size_class];
        add_class_counters(alloc, size_class, out);
        n_emptied = out->empty_slab_recycled + out->empty_slab_overflowed;
        if (n_emptied > 0)
                out->recycle_rate_pct = 100.0 * (double) out->empty_slab_recycled / (double) n_emptied;
        counters_get_closes(state, &out->epoch_close_calls, &out->epoch_close_total_ns);
        add_class_slabs(state, size_class, out);
}

static uint64_t get_figure(const uint64_t *p) {
        return shm_hint_load(p);
}

static void add_epoch_info(SlabAllocator *alloc, SlabEpochStats *out) {
        const AllocatorState *state = allocator_state(alloc);
        const EpochMetadata *meta = &alloc->epoch_meta[out->epoch_id];
        ShmEpochInfo info;

        if (shm_epoch_get(&state->pool->arena, out->epoch_id, &info) == 0) {
                out->epoch_era = metadata_era(shm_epoch_number(info.id, info.era));
                memcpy(out->label, info.label, sizeof(out->label));
        }
        out->state = epoch_state(state, out->epoch_id);
        out->open_since_ns = get_figure(&meta->open_since_ns);
        out->rss_before_close = get_figure(&meta->rss_before_close);
        out->rss_after_close = get_figure(&meta->rss_after_close);
}

_public_ void slab_stats_epoch(SlabAllocator *alloc, uint32_t size_class, EpochId epoch,
                               SlabEpochStats *out) {
        _cleanup_(proto_freep) ShmStats *stats = NULL;
        const AllocatorState *state = allocator_state(alloc);
        SlabCount slabs;

        *out = (SlabEpochStats){ .version = SLAB_STATS_VERSION };
        if (!state || size_class >= state->classes.n || epoch >= ALLOCATOR_EPOCHS)
                return;
        out->class_index = size_class;
        out->object_size = state->classes.sizes[size_class];
        out->epoch_id = epoch;
        add_epoch_info(alloc, out);
        slabs = count_slabs(state, size_class, epoch);
        out->partial_slab_count = slabs.partial;
        out->full_slab_count = slabs.full;
        out->estimated_rss_bytes = (uint64_t) (slabs.partial + slabs.full) * SHM_SLAB_SIZE;
        stats = stats_new(state);
        if (stats)
                out->alloc_count = count_objects(state, stats, size_class, epoch);
}
