#pragma once
/*
 * Counting what an arena holds in steps, for who must not be away for long. As shm/stats.h, but for
 * the sums that are kept as high-water marks.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena.h"

typedef struct ShmCensus {
        uint32_t slab, record; /* to look at next */
        uint64_t committed_slabs, free_slabs;
        uint64_t clients, threads;
        uint64_t class_slabs[SHM_CLASSES_MAX];
        uint64_t class_objects[SHM_CLASSES_MAX]; /* slots taken: with those in caches */
        uint32_t asked[SHM_GRANULES_MAX]; /* sizes asked for, sampled, by (size - 1) / SHM_CLASS_GRANULE */
} ShmCensus;

/* Looks at the next few; true: that was all. Begin with zeros. */
bool shm_census_step(ShmCensus *census, const ShmArena *arena);

/* What is higher than before. `now_usec`: realtime. */
void shm_peaks_raise(ShmPeaks *peaks, const ShmCensus *census, uint64_t now_usec);
/* From and to the header, whatever stands there: it is for people only. */
void shm_peaks_load(const ShmArena *arena, ShmPeaks *ret);
void shm_peaks_store(const ShmArena *arena, const ShmPeaks *peaks);
