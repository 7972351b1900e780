/*
 * Slabs
 *
 * Purpose: the compare-and-set loops around the pure transitions, and the hints after them.
 *
 * Invariants
 *   1. A transition is one compare-and-set of the slab word; there is nothing to undo.
 *   2. Before the word changes, the actor's intent names the slab, and goes on naming it until the
 *      hints that the new word wants are set: LISTED in `partial`, FREE in `free`, in use in
 *      `of_epoch`.
 *   3. n_free and n_drained are hints, too: who counts decides by what fetch-and-add returned, so
 *      each crossing wakes the daemon once.
 *
 * Who may do what: see the table in shm/format/slab-word.h.
 *
 * Crash: before the compare-and-set, nothing; after it, hints that are missing, of a slab that the
 *   intent names; a count that is off by one until the daemon recounts.
 */
#include "shm/slab/slab.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "shm/slab/set.h"

void shm_wake(const ShmArena *arena) {
        uint64_t one = 1;
        int saved = errno, cancel_state;

        /* Not a place for a thread to be cancelled: it is in an operation. */
        (void) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
        if (arena->wake_fd >= 0 && write(arena->wake_fd, &one, sizeof(one)) < 0) {
                /* EAGAIN: it is about to wake anyway. */
        }
        (void) pthread_setcancelstate(cancel_state, NULL);
        errno = saved;
}

void shm_free_added(ShmArena *arena, uint32_t n) {
        /* ORDER: rlx; a hint, the sets and words are what counts. */
        shm_add_rlx(&arena->header->n_free.value, n);
}

void shm_free_taken(ShmArena *arena, uint32_t n) {
        /* ORDER: acqrel; of all who take, one sees the crossing. */
        uint64_t old = shm_sub_acqrel(&arena->header->n_free.value, n);
        /* ORDER: rlx; set by the daemon, may lag. */
        uint64_t low = shm_load_rlx(&arena->header->reserve_low.value);

        if (low != 0 && (int64_t) old >= (int64_t) low && (int64_t) (old - n) < (int64_t) low)
                shm_wake(arena);
}

/* Sets the hints that the new word wants and the old one did not. */
static void hint(ShmActor *actor, uint32_t slab, SlabWord old, SlabWord new) {
        ShmArena *arena = actor->arena;
        SlabPlace from = slab_word_place(old), to = slab_word_place(new);
        uint32_t epoch = slab_word_epoch(new);

        if (epoch >= arena->n_epochs || slab_word_class(new) >= arena->n_classes)
                return;
        if (from == SLAB_FREE) {
                shm_free_taken(arena, 1);
                shm_actor_count(actor, SHM_COUNT_SLABS_TAKEN, 1);
                shm_set_add(arena, shm_set_of_epoch(arena, epoch), slab);
        }
        if (to == SLAB_LISTED && from != SLAB_LISTED)
                shm_set_add(arena, shm_set_partial(arena, epoch, slab_word_class(new)), slab);
        if (to == SLAB_FREE) {
                shm_set_add(arena, SHM_SET_FREE, slab);
                shm_free_added(arena, 1);
                actor->emptied = slab + 1;
                shm_actor_count(actor, SHM_COUNT_SLABS_RECYCLED, 1);
        }
        /* ORDER: acqrel, pairs with shm_drain_step(); the first since it looked wakes it. */
        if (to == SLAB_FREE && from == SLAB_DRAINING &&
            shm_add_acqrel(&arena->header->n_drained.value, 1) == 0)
                shm_wake(arena);
}

static int take(ShmActor *actor, uint32_t slab, uint64_t target, uint32_t n, bool hold, uint64_t *ret_mask) {
        ShmPair *word = &actor->arena->lines[slab].word;
        uint64_t beyond = actor->arena->classes[slab_target_class(target)].beyond;
        SlabWord old = shm_slab_word(actor->arena, slab), new;
        bool intended = false;
        uint64_t mask;
        int r;

        for (;;) {
                r = hold ? slab_word_hold(old, actor->id, target, beyond, n, &new, &mask)
                         : slab_word_claim(old, target, beyond, n, &new, &mask);
                if (r) {
                        if (intended)
                                shm_actor_intend(actor, 0);
                        return r;
                }
                shm_actor_intend_mask(actor, mask);
                if (!intended)
                        shm_actor_intend(actor, shm_intent_other(SHM_INTENT_CLAIM, slab, 0));
                intended = true;
                /* ORDER: acqrel, pairs with shm_slab_give_back(); the slots are ours after it. */
                if (shm_pair_cas_acqrel(word, &old, new))
                        break;
        }
        hint(actor, slab, old, new);
        *ret_mask = mask;
        return 0;
}

int shm_slab_claim(ShmActor *actor, uint32_t slab, uint64_t target, uint32_t n, uint64_t *ret_mask) {
        return take(actor, slab, target, n, false, ret_mask);
}

int shm_slab_hold(ShmActor *actor, uint32_t slab, uint64_t target, uint32_t n, uint64_t *ret_mask) {
        return take(actor, slab, target, n, true, ret_mask);
}

int shm_slab_give_back(ShmActor *actor, uint32_t slab, uint64_t mask) {
        SlabWord old = shm_slab_word(actor->arena, slab), new;
        int r;

        do {
                r = slab_word_give_back(old, mask, shm_slab_class(actor->arena, old)->beyond, &new);
                if (r)
                        return r;
                /* ORDER: acqrel, pairs with shm_slab_claim(); we are done with the slots before it. */
        } while (!shm_pair_cas_acqrel(&actor->arena->lines[slab].word, &old, new));
        hint(actor, slab, old, new);
        return 0;
}

int shm_slab_release(ShmActor *actor, uint32_t slab) {
        SlabWord old = shm_slab_word(actor->arena, slab), new;
        int r;

        do {
                r = slab_word_release(old, shm_slab_class(actor->arena, old)->beyond, &new);
                if (r)
                        return r;
                /* ORDER: acqrel, pairs with shm_slab_claim(); what we did with it is done. */
        } while (!shm_pair_cas_acqrel(&actor->arena->lines[slab].word, &old, new));
        hint(actor, slab, old, new);
        return 0;
}

int shm_slab_drain(ShmActor *control, uint32_t slab, uint64_t target) {
        SlabWord old = shm_slab_word(control->arena, slab), new;
        int r;

        do {
                r = slab_word_drain(old, target, shm_slab_class(control->arena, old)->beyond, &new);
                if (r)
                        return r;
                /* ORDER: acqrel, pairs with shm_slab_claim(); no claim succeeds after it. */
        } while (!shm_pair_cas_acqrel(&control->arena->lines[slab].word, &old, new));
        hint(control, slab, old, new);
        return 0;
}

int shm_slab_seize(ShmActor *control, uint32_t slab) {
        SlabWord old = shm_slab_word(control->arena, slab), new;
        int r;

        do {
                r = slab_word_seize(old, control->id, &new);
                if (r)
                        return r;
                /* ORDER: acqrel, pairs with shm_slab_claim(); nobody else's claim succeeds after it. */
        } while (!shm_pair_cas_acqrel(&control->arena->lines[slab].word, &old, new));
        return 0;
}
