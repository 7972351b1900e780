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

#include "shm/slab/slab-walk.h"

#define WALKS_MAX 4

static uint64_t count_taken(const ShmArena *arena) {
        uint64_t n = 0;

        for (uint32_t i = 0; i < shm_arena_n_records_ever(arena); i++)
                /* ORDER: acq; before the walk. */
                n += shm_load_acq(&shm_arena_record(arena, i)->counters[SHM_COUNT_SLABS_TAKEN]);
        return n;
}

static uint32_t count_free(const ShmArena *arena) {
        uint32_t budget = UINT32_MAX, slab, n = 0;
        ShmSlabWalk walk;
        SlabWord w;

        shm_slab_walk_begin(&walk, arena, SHM_SLAB_WALK_ALL);
        while (shm_slab_walk_next(&walk, arena, &budget, &slab, &w))
                n += slab_word_state(w) == SLAB_FREE;
        return n;
}

bool shm_free_recount(ShmArena *arena) {
        uint64_t *n_free = &arena->header->n_free.value;
        uint64_t before = 0, n = 0;
        bool quiet = false;

        for (unsigned i = 0; i < WALKS_MAX && !quiet; i++) {
                uint64_t taken = count_taken(arena);

                before = shm_load_acq(n_free); /* ORDER: acq; before the walk. */
                n = count_free(arena);
                /* ORDER: acq; the slab words were read before. */
                shm_fence_acq();
                quiet = shm_load_acq(n_free) == before &&
                        count_taken(arena) == taken; /* ORDER: acq; as above. */
        }
        if (n != before)
                shm_hint_add(n_free, n - before);
        return quiet;
}
