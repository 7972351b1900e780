/*
 * The count of FREE slabs
 *
 * Purpose: corrects n_free, while threads take slabs and empty them.
 *
 * Invariants
 *   1. A walk looks at one slab after another. If a slab is taken or emptied meanwhile, the sum may be true of no
 *      moment, and would stay wrong in n_free. So a walk counts only if n_free is the same after it, and no thread has
 *      counted a slab that it took: then no slab was taken, and so none was emptied either. A small error remains:
 *      threads that stand still may have changed a slab without counting it, at the beginning or at the end of the
 *      walk. For each such thread this is one slab that it takes or empties, or as many as it commits in one run (a
 *      client SHM_COMMIT_RUN_MAX).
 *   2. If threads leave no quiet time for a walk, the last one counts all the same: its error does not grow from one
 *      recount to the next, as the error by deaths would.
 *
 * Who may do what: the maintainer.
 *
 * Crash: n_free is corrected by one addition, or not.
 */
#include "shm/slab/free-count.h"

#define WALKS_MAX 4

static uint64_t count_taken(const ShmArena *arena) {
        uint64_t n = 0;

        for (uint32_t i = 0; i < shm_arena_n_records_ever(arena); i++)
                /* ORDER: acq; before the walk. */
                n += shm_load_acq(&shm_arena_record(arena, i)->counters[SHM_COUNT_SLABS_TAKEN]);
        return n;
}

void shm_free_count_begin(ShmFreeCount *count, const ShmArena *arena, uint32_t set) {
        count->taken = count_taken(arena);
        count->before = shm_load_acq(&arena->header->n_free.value); /* ORDER: acq; before the walk. */
        count->n = 0;
        shm_slab_walk_begin(&count->walk, arena, set);
}

bool shm_free_count_step(ShmFreeCount *count, ShmArena *arena, uint32_t budget) {
        uint64_t *n_free = &arena->header->n_free.value;
        uint32_t slab;
        SlabWord w;

        while (shm_slab_walk_next(&count->walk, arena, &budget, &slab, &w))
                count->n += slab_word_state(w) == SLAB_FREE;
        if (!shm_slab_walk_done(&count->walk))
                return false;
        shm_fence_acq(); /* ORDER: acq; the slab words were read before. */
        count->quiet = shm_load_acq(n_free) == count->before &&
                       count_taken(arena) == count->taken; /* ORDER: acq; as above. */
        return true;
}

void shm_free_count_end(const ShmFreeCount *count, ShmArena *arena) {
        if (count->n != count->before)
                shm_hint_add(&arena->header->n_free.value, count->n - count->before);
}

bool shm_free_recount(ShmArena *arena) {
        ShmFreeCount count = {};

        for (unsigned i = 0; i < WALKS_MAX && !count.quiet; i++) {
                shm_free_count_begin(&count, arena, SHM_SLAB_WALK_ALL);
                (void) shm_free_count_step(&count, arena, UINT32_MAX);
        }
        shm_free_count_end(&count, arena);
        return count.quiet;
}
