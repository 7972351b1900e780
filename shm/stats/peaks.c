/*
 * High-water marks
 *
 * Purpose: how much a pool has ever held, of figures that are counted now and then.
 *
 * Invariants
 *   1. What stands in the header is but figures, and may be garbage: no index comes from it.
 *
 * Who may do what: the daemon alone writes the marks in the header.
 *
 * Crash: marks of one count may be mixed with those of the one before; each is a true one.
 */
#include "shm/stats/peaks.h"

#include <stddef.h>

#define N_WORDS (sizeof(ShmPeaks) / sizeof(uint64_t))

static void peak_raise(uint64_t *peak, uint64_t value) {
        *peak = *peak < value ? value : *peak;
}

/* How much memory was wanted again after it had become free: what is worth retaining. */
static void raise_used(ShmPeaks *peaks, uint64_t used) {
        if (used < peaks->fallen_slabs)
                peaks->fallen_slabs = used;
        if (peaks->n_looks > 1)
                peak_raise(&peaks->swing_slabs,
                           (used < peaks->used_slabs ? used : peaks->used_slabs) - peaks->fallen_slabs);
        if (used >= peaks->used_slabs)
                peaks->used_slabs = peaks->fallen_slabs = used;
}

void shm_peaks_raise(ShmPeaks *peaks, const ShmStats *stats, uint64_t now_usec) {
        uint64_t committed = stats->committed_size / SHM_SLAB_SIZE;
        uint64_t retained = stats->retained_size / SHM_SLAB_SIZE;

        if (peaks->since_usec == 0)
                *peaks = (ShmPeaks){ .since_usec = now_usec };
        peaks->n_looks++;
        peak_raise(&peaks->committed_slabs, committed);
        peak_raise(&peaks->retained_slabs, retained);
        peak_raise(&peaks->clients, stats->clients);
        peak_raise(&peaks->threads, stats->threads);
        for (uint32_t i = 0; i < SHM_CLASSES_MAX; i++) {
                peak_raise(&peaks->class_slabs[i], stats->classes[i].slabs);
                peak_raise(&peaks->class_objects[i], stats->class_taken[i]);
        }
        raise_used(peaks, committed - retained);
}

void shm_peaks_load(const ShmArena *arena, ShmPeaks *ret) {
        const uint64_t *from = (const uint64_t *) &arena->header->peaks;
        uint64_t *to = (uint64_t *) ret;

        for (size_t i = 0; i < N_WORDS; i++)
                to[i] = shm_load_rlx(&from[i]); /* ORDER: rlx; figures for people. */
        if (ret->fallen_slabs > ret->used_slabs)
                ret->fallen_slabs = ret->used_slabs;
}

void shm_peaks_store(const ShmArena *arena, const ShmPeaks *peaks) {
        const uint64_t *from = (const uint64_t *) peaks;
        uint64_t *to = (uint64_t *) &arena->header->peaks;

        for (size_t i = 0; i < N_WORDS; i++)
                shm_store_rlx(&to[i], from[i]); /* ORDER: rlx; figures for people. */
}
