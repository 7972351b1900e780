#pragma once
/* High-water marks: of what shm/stats/stats.h counts, the most there ever was. */
#include "shm/stats/stats.h"

/* What is higher than before. `now_usec`: realtime. */
void shm_peaks_raise(ShmPeaks *peaks, const ShmStats *stats, uint64_t now_usec);
/* From and to the header, whatever stands there: it is for people only. */
void shm_peaks_load(const ShmArena *arena, ShmPeaks *ret);
void shm_peaks_store(const ShmArena *arena, const ShmPeaks *peaks);
