/*
 * Trimming slabs that nobody takes
 *
 * Purpose: finds FREE slabs that nobody took for a while.
 *
 * Invariants
 *   1. All is a hint but the slabs' words, by which shm_pages_trim() goes. Two threads that write hints at once delay a
 *      trim.
 *
 * Who may do what: any thread looks; the maintainer trims.
 *
 * Crash: see shm/slab/pages.c.
 */
#include "shm/keeper/decay.h"

#include "shm/arena/clock.h"
#include "shm/slab/pages.h"

#define DECAY_USEC 1000000 /* for so long nobody took a slab that goes back */

static int64_t n_free_of(const ShmArena *arena) {
        return (int64_t) shm_hint_load(&arena->header->n_free.value);
}

bool shm_decay_is_due(ShmDecay *decay, const ShmArena *arena, uint32_t retain) {
        int64_t n_free = n_free_of(arena);
        uint64_t now;

        if (n_free < shm_hint_load(&decay->least_free))
                shm_hint_store(&decay->least_free, n_free);
        if (!shm_decay_is_over(arena, retain))
                return false;
        now = shm_monotonic_usec();
        if (now - shm_hint_load(&decay->least_usec) < DECAY_USEC)
                return false;
        if (shm_hint_load(&decay->least_free) > retain)
                return true;
        /* The next time begins. */
        shm_hint_store(&decay->least_usec, now);
        shm_hint_store(&decay->least_free, n_free);
        return false;
}

void shm_decay_trim(ShmDecay *decay, ShmActor *control, uint32_t retain, uint32_t n_max) {
        int64_t least, n_used;
        uint32_t n;

        if (!shm_decay_is_due(decay, control->arena, retain))
                return;
        least = shm_hint_load(&decay->least_free);
        n_used = n_free_of(control->arena) - least;
        n_used = n_used > 0 ? n_used : 0;
        n = shm_pages_trim(control, retain + (uint32_t) n_used, n_max);
        /* 0: the next time begins at the next look. */
        shm_hint_store(&decay->least_free, n < n_max ? 0 : least - n);
}
