#pragma once
/*
 * High-water marks of the pool: counted about once a second, and when clients wake the daemon,
 * which is when they need more memory. Kept in the arena, so that they outlive this daemon.
 */
#include "daemon/manager.h"
#include "shm/stats/peaks.h"

int peaks_new(Peaks **ret_peaks, Manager *manager);
/* NULL-safe, returns NULL. */
Peaks *peaks_free(Peaks *peaks);

/* Now would be a good time to look. */
void peaks_look(Peaks *peaks);

const ShmPeaks *peaks_get(const Peaks *peaks);
/* Samples by (size - 1) / SHM_CLASS_GRANULE, SHM_GRANULES_MAX of them, since this daemon started. */
const uint64_t *peaks_asked(const Peaks *peaks);
