/* The reports of <slab_diagnostics.h>. */
#include <slab_diagnostics.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slab-alloc/state.h"

#define NSEC_PER_SEC UINT64_C(1000000000)

static bool is_leak(const SlabEpochStats *stats, uint64_t now, uint32_t threshold_sec) {
        return stats->state == EPOCH_CLOSING && stats->alloc_count > 0 && stats->open_since_ns > 0 &&
               now >= stats->open_since_ns && now - stats->open_since_ns >= threshold_sec * NSEC_PER_SEC;
}

static EpochLeakCandidate make_candidate(const SlabEpochStats *stats, uint64_t now) {
        EpochLeakCandidate candidate = {
                .class_index = stats->class_index,
                .object_size = stats->object_size,
                .epoch_id = stats->epoch_id,
                .epoch_era = stats->epoch_era,
                .age_sec = (now - stats->open_since_ns) / NSEC_PER_SEC,
                .alloc_count = stats->alloc_count,
                .estimated_rss_bytes = stats->estimated_rss_bytes,
                .partial_slab_count = stats->partial_slab_count,
                .full_slab_count = stats->full_slab_count,
        };

        memcpy(candidate.label, stats->label, sizeof(candidate.label));
        return candidate;
}

static uint32_t find_leaks(SlabAllocator *alloc, uint32_t threshold_sec, EpochLeakCandidate *candidates) {
        uint64_t now = now_ns();
        SlabEpochStats stats;
        uint32_t n = 0;

        for (EpochId epoch = 0; epoch < SLAB_EPOCH_COUNT; epoch++)
                for (uint32_t class = 0; class < allocator_state(alloc)->classes.n; class ++) {
                        slab_stats_epoch(alloc, class, epoch, &stats);
                        if (is_leak(&stats, now, threshold_sec))
                                candidates[n++] = make_candidate(&stats, now);
                }
        return n;
}

static int compare_memory(const void *a, const void *b) {
        uint64_t left = ((const EpochLeakCandidate *) a)->estimated_rss_bytes;
        uint64_t right = ((const EpochLeakCandidate *) b)->estimated_rss_bytes;

        return (left < right) - (left > right);
}

_public_ uint32_t slab_detect_epoch_leaks(SlabAllocator *alloc, uint32_t threshold_sec, uint32_t max_top,
                                          EpochLeakReport *out) {
        *out = (EpochLeakReport){ .version = SLAB_DIAGNOSTICS_VERSION, .threshold_sec = threshold_sec };
        if (!allocator_state(alloc))
                return 0;
        out->candidates = calloc((size_t) SLAB_EPOCH_COUNT * allocator_state(alloc)->classes.n,
                                 sizeof(*out->candidates));
        if (!out->candidates)
                return 0;
        out->candidate_count = find_leaks(alloc, threshold_sec, out->candidates);
        out->top_count = out->candidate_count < max_top ? out->candidate_count : max_top;
        qsort(out->candidates, out->candidate_count, sizeof(*out->candidates), compare_memory);
        return out->candidate_count;
}

static const char *recommend_change(const SlowPathAttribution *a) {
        if (a->total_slow_path_hits + a->epoch_closed_count == 0)
                return "nothing to do: no allocation was slow";
        if (a->epoch_closed_pct > 50)
                return "allocate in epoch_current(): programs ask for epochs that are closed";
        if (a->cache_miss_pct > 50)
                return "free what is no longer used, or close epochs later: most need a new slab";
        return "nothing to do: slots were found in slabs of the class";
}

static void set_shares(SlowPathAttribution *a) {
        double all = (double) (a->total_slow_path_hits + a->epoch_closed_count);

        if (all == 0)
                return;
        a->cache_miss_pct = 100 * (double) a->cache_miss_count / all;
        a->epoch_closed_pct = 100 * (double) a->epoch_closed_count / all;
        a->partial_full_pct = 100 * (double) a->partial_full_count / all;
}

static SlowPathAttribution make_attribution(SlabAllocator *alloc, uint32_t class) {
        SlowPathAttribution a = {};
        SlabClassStats stats;

        slab_stats_class(alloc, class, &stats);
        a.class_index = class;
        a.object_size = stats.object_size;
        a.total_slow_path_hits = stats.slow_path_hits;
        a.cache_miss_count = stats.slow_path_cache_miss;
        a.epoch_closed_count = stats.slow_path_epoch_closed;
        a.partial_full_count = stats.current_partial_full;
        set_shares(&a);
        snprintf(a.recommendation, sizeof(a.recommendation), "%s", recommend_change(&a));
        return a;
}

_public_ void slab_analyze_slow_path(SlabAllocator *alloc, SlowPathReport *out) {
        uint32_t n = allocator_state(alloc) ? allocator_state(alloc)->classes.n : ALLOCATOR_N_CLASSES;

        *out = (SlowPathReport){ .version = SLAB_DIAGNOSTICS_VERSION };
        out->classes = calloc(n, sizeof(*out->classes));
        if (!out->classes)
                return;
        out->class_count = n;
        for (uint32_t class = 0; class < n; class ++)
                out->classes[class] = make_attribution(alloc, class);
}

static EpochReclamation make_reclamation(const SlabEpochStats *stats, const AllocatorState *state) {
        EpochReclamation reclamation = {
                .epoch_id = stats->epoch_id,
                .epoch_era = stats->epoch_era,
                .rss_before = stats->rss_before_close,
                .rss_after = stats->rss_after_close,
                .rss_delta = (int64_t) (stats->rss_after_close - stats->rss_before_close),
                .was_closed = true,
        };
        struct tslab_epoch_info info = { .size = sizeof(info) };

        memcpy(reclamation.label, stats->label, sizeof(reclamation.label));
        if (tslab_epoch_info(state->pool, stats->epoch_id, &info) == 0) {
                reclamation.bytes_madvised = info.reclaimed_bytes;
                reclamation.slabs_recycled = info.reclaimed_bytes / SLAB_PAGE_SIZE;
        }
        return reclamation;
}

_public_ void slab_analyze_reclamation(SlabAllocator *alloc, ReclamationReport *out) {
        const AllocatorState *state = allocator_state(alloc);
        SlabGlobalStats total;
        SlabEpochStats stats;

        slab_stats_global(alloc, &total);
        *out = (ReclamationReport){
                .version = SLAB_DIAGNOSTICS_VERSION,
                .total_madvise_calls = total.total_madvise_calls,
                .total_madvise_bytes = total.total_madvise_bytes,
        };
        out->epochs = state ? calloc(SLAB_EPOCH_COUNT, sizeof(*out->epochs)) : NULL;
        for (EpochId epoch = 0; out->epochs && epoch < SLAB_EPOCH_COUNT; epoch++) {
                slab_stats_epoch(alloc, 0, epoch, &stats);
                if (stats.rss_before_close > 0)
                        out->epochs[out->epoch_count++] = make_reclamation(&stats, state);
        }
}
