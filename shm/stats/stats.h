#pragma once
/*
 * Counting the slabs and objects of an arena. Nothing is written but marks, which sums clear. On a live arena a sum is
 * of no single moment.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/cache-walk.h"
#include "shm/slab/slab-walk.h"
#include "shm/stats/slab-sums.h"

typedef struct ShmCount {
        uint64_t slabs; /* slabs in use: neither UNCOMMITTED nor FREE nor BUSY */
        uint64_t live_objects;
        uint64_t live_size;
} ShmCount;

typedef struct ShmStats {
        uint64_t size, committed_size, metadata_size, retained_size;
        uint64_t live_objects, live_size, cached_objects;
        uint32_t clients, threads;
        uint32_t n_slabs_ever;
        uint64_t n_unrecorded;
        ShmCount epochs[SHM_EPOCHS_MAX]; /* by id: the newest era */
        ShmCount older[SHM_EPOCHS_MAX]; /* by id: all earlier eras */
        ShmCount epoch_classes[SHM_EPOCHS_MAX][SHM_CLASSES_MAX]; /* all eras */
        ShmCount classes[SHM_CLASSES_MAX];
        uint64_t class_taken[SHM_CLASSES_MAX]; /* live objects and slots in caches */
        uint64_t
                requested[SHM_GRANULES_MAX]; /* requested sizes, sampled, by (size - 1) / SHM_CLASS_GRANULE */
        uint64_t counters[SHM_COUNTERS_MAX]; /* sums over all records, or largest values */
        uint64_t reclaimed_slabs;
        uint64_t huge_splits; /* see ShmSplits */
        ShmMapGets map_gets[SHM_ROOTS_MAX]; /* by the index of the map's root */
} ShmStats;

void shm_stats(const ShmArena *arena, ShmStats *ret);

/* A counter as it is shown: allocations and frees are counted in two parts, by whether a cache served them. */
static inline uint64_t shm_stats_counter(const ShmStats *stats, ShmCounter counter) {
        const uint64_t *n = stats->counters;

        return n[counter] + (counter == SHM_COUNT_ALLOCS_UNCACHED  ? n[SHM_COUNT_ALLOC_HITS]
                             : counter == SHM_COUNT_FREES_UNCACHED ? n[SHM_COUNT_FREES_CACHED]
                                                                   : 0);
}

/* Counts in steps: `budget` as for shm_slab_walk_next(). True: it is done. */
typedef struct ShmStatsWalk {
        const ShmArena *arena;
        ShmStats *stats; /* the result, which belongs to the caller */
        ShmSlabWalk slabs;
        uint32_t record; /* to be counted next or, if in_record, cache by cache now */
        bool in_record;
        ShmCacheWalk cache; /* if in_record, the cache that was counted last */
        ShmSlabSums *sums; /* with these, slabs are counted that changed; NULL: all */
        ShmSumsWalk changed;
        ShmMapSet maps; /* their gets are counted; none, unless the caller says so */
        uint32_t eras[SHM_EPOCHS_MAX]; /* newest eras as the walk began; low 12 bits, as in slab words */
} ShmStatsWalk;

void shm_stats_begin(ShmStatsWalk *walk, const ShmArena *arena, ShmStats *stats);
/* The same figures, for the process that keeps sums: see shm/stats/slab-sums.h. */
void shm_stats_begin_sums(ShmStatsWalk *walk, ShmSlabSums *sums, ShmStats *stats);
bool shm_stats_step(ShmStatsWalk *walk, uint32_t budget);
