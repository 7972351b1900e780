/*
 * Slabs that drained
 *
 * Purpose: gives the pages of drained slabs back, where no engine is at hand.
 *
 * Invariants
 *   1. n_drained is taken before a walk. A slab that drains later raises it again, and its thread looks after it.
 *   2. A walk is final only if no thread can add a slab to a closed epoch, and no dead thread holds one.
 *
 * Who may do what: the maintainer.
 *
 * Crash: see shm/maintain/drain.c.
 */
#include "shm/keeper/drained.h"

#include "shm/epoch/epoch.h"
#include "shm/maintain/drain.h"
#include "shm/maintain/freeze.h"
#include "shm/maintain/repair.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"

/* Whether no thread can add a slab to an epoch that was closed before, and no dead thread holds such a slab. */
static bool is_settled(const ShmArena *arena) {
        return shm_freeze_is_over(arena) && !shm_repair_wanted(arena);
}

static void walk_epoch(ShmActor *control, uint32_t id) {
        ShmDrain drain = { .epoch = id, .final = is_settled(control->arena) };

        (void) shm_drain_step(control, &drain, UINT32_MAX - 64);
}

/*
 * Whether slabs of the id go back as they drain. Slabs of an epoch that was merely advanced past are
 * recycled instead; and in an epoch that never closed a walk would create the set of slabs.
 */
static bool epoch_drains(const ShmEpochInfo *info) {
        return (info->flags & SHM_EPOCH_DRAIN) || (info->state == SHM_EPOCH_OPEN && info->era > 1);
}

void shm_drained_walk(ShmActor *control) {
        ShmEpochInfo info;

        /* ORDER: acqrel, pairs with shm_slab_free_slots(); a thread that drains a slab from here on looks itself. */
        (void) shm_xchg_acqrel(&control->arena->header->n_drained.value, 0);
        for (uint32_t id = 0; id < control->arena->n_epochs; id++)
                if (shm_epoch_get(control->arena, id, &info) == 0 && epoch_drains(&info))
                        walk_epoch(control, id);
}

bool shm_drained_is_due(const ShmArena *arena, uint32_t slab) {
        SlabWord w = shm_slab_word(arena, slab);
        ShmEpochInfo info;
        uint32_t id = slab_word_epoch(w);

        return slab_word_state(w) == SLAB_FREE && shm_epoch_get(arena, id, &info) == 0 &&
               shm_epoch_over(arena, id, slab_word_era(w)) && epoch_drains(&info);
}

/*
 * One slab that drained, without a walk over its whole epoch: emptying an epoch slab by slab would
 * take time by the square of their number.
 */
void shm_drained_drop(ShmActor *control, uint32_t slab) {
        ShmArena *arena = control->arena;
        uint64_t *n_drained = &arena->header->n_drained.value, one = 1;
        uint32_t id = slab_word_epoch(shm_slab_word(arena, slab)), other;
        ShmDrain drain = { .epoch = id };

        /* ORDER: acqrel, pairs with shm_slab_free_slots(); no other slab drained: this one counts as seen. */
        if (slab < 64 || !shm_cas_acqrel(n_drained, &one, 0)) {
                shm_drained_walk(control);
                return;
        }
        shm_slab_walk_begin(&drain.slabs, arena, shm_set_of_epoch(arena, id));
        drain.slabs.position = slab / 64 * 64;
        (void) shm_drain_step(control, &drain, 64);
        if (!shm_set_find(arena, shm_set_of_epoch(arena, id), 0, &other))
                walk_epoch(control, id);
}
