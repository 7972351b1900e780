/*
 * High-water marks
 *
 * Purpose: keeps the maximum of each figure that the daemon counts at intervals.
 *
 * Invariants
 *   1. The marks in the header are for people to read and may be garbage: none is used as an index.
 *
 * Who may do what: only the daemon writes the marks in the header.
 *
 * Crash: some marks may be of the last count and some of the count before; each is a true mark.
 */
#include "shm/stats/high-water.h"

#include <stddef.h>

#define N_WORDS (sizeof(ShmHighWater) / sizeof(uint64_t))

static void mark_raise(uint64_t *mark, uint64_t value) {
        *mark = *mark < value ? value : *mark;
}

/* Raises swing_slabs: how many slabs came into use again after they had become FREE, and so are worth retaining. */
static void high_water_raise_used(ShmHighWater *marks, uint64_t used) {
        if (used < marks->fallen_slabs)
                marks->fallen_slabs = used;
        if (marks->n_looks > 1)
                mark_raise(&marks->swing_slabs,
                           (used < marks->used_slabs ? used : marks->used_slabs) - marks->fallen_slabs);
        if (used >= marks->used_slabs)
                marks->used_slabs = marks->fallen_slabs = used;
}

void shm_high_water_raise(ShmHighWater *marks, const ShmStats *stats, uint64_t now_usec) {
        uint64_t committed = stats->committed_size / SHM_SLAB_SIZE;
        uint64_t retained = stats->retained_size / SHM_SLAB_SIZE;

        if (marks->since_usec == 0)
                *marks = (ShmHighWater){ .since_usec = now_usec };
        marks->n_looks++;
        mark_raise(&marks->committed_slabs, committed);
        mark_raise(&marks->retained_slabs, retained);
        mark_raise(&marks->clients, stats->clients);
        mark_raise(&marks->threads, stats->threads);
        for (uint32_t i = 0; i < SHM_CLASSES_MAX; i++) {
                mark_raise(&marks->class_slabs[i], stats->classes[i].slabs);
                mark_raise(&marks->class_objects[i], stats->class_taken[i]);
        }
        high_water_raise_used(marks, committed - retained);
}

void shm_high_water_load(const ShmArena *arena, ShmHighWater *ret) {
        const uint64_t *from = (const uint64_t *) &arena->header->high_water;
        uint64_t *to = (uint64_t *) ret;

        for (size_t i = 0; i < N_WORDS; i++)
                to[i] = shm_hint_load(&from[i]);
        if (ret->fallen_slabs > ret->used_slabs)
                ret->fallen_slabs = ret->used_slabs;
}

void shm_high_water_store(const ShmArena *arena, const ShmHighWater *marks) {
        const uint64_t *from = (const uint64_t *) marks;
        uint64_t *to = (uint64_t *) &arena->header->high_water;

        for (size_t i = 0; i < N_WORDS; i++)
                shm_hint_store(&to[i], from[i]);
}
