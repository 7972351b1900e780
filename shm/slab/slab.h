#pragma once
/*
 * Slabs: the transitions of shm/format/slab-word.h, each as one compare-and-set loop, which then sets the hints of
 * the new word. All are called inside an operation of the actor.
 */
#include <stdint.h>

#include "shm/arena/record.h"
#include "shm/format/slab-word.h"

static inline SlabWord shm_slab_word(const ShmArena *arena, uint32_t slab) {
        /* ORDER: acq, pairs with shm_slab_free_slots(); all accesses to the objects in free slots are before. */
        return shm_pair_load_acq(&arena->lines[slab].word);
}

/* The class of a slab. The word may be garbage: every number that it can have is an index of `classes`. */
static inline const ShmClass *shm_slab_class(const ShmArena *arena, SlabWord w) {
        return &arena->classes[slab_word_class(w)];
}

/*
 * Claims up to n slots of a FREE or PARTIAL slab. 0: the intent CLAIM names them until the caller changes the
 * intent. SLAB_E_REFUSED: there is no intent.
 */
int shm_slab_claim(ShmActor *actor, uint32_t slab, uint64_t key, uint32_t n, uint64_t *ret_mask);
/* Claims slots as well; from then on the actor holds the slab. Also takes more slots of a slab that it holds. */
int shm_slab_hold(ShmActor *actor, uint32_t slab, uint64_t key, uint32_t n, uint64_t *ret_mask);

/* The next four calls leave the intent as it is: it must name the slab already. 0 or SLAB_E_REFUSED. */
int shm_slab_free_slots(ShmActor *actor, uint32_t slab, uint64_t mask);
int shm_slab_release(ShmActor *actor, uint32_t slab);
/* Retires a slab whose class, epoch and era are `key`, an era that is over. Refused if they are others by now. */
int shm_slab_drain(ShmActor *control, uint32_t slab, uint64_t key);
/*
 * Makes the maintainer the holder of the slab, even if a thread holds it. Until it is released no thread claims slots
 * of it.
 */
int shm_slab_pin(ShmActor *control, uint32_t slab);

/*
 * For work on pages. begin: a slab that is `from` becomes BUSY. end: a slab that is BUSY with this holder becomes
 * `to`, FREE or UNCOMMITTED. Neither sets hints.
 */
int shm_slab_begin(ShmActor *actor, uint32_t slab, SlabState from);
int shm_slab_end(ShmActor *actor, uint32_t holder, uint32_t slab, SlabState to);

/* Wakes the daemon. Does nothing in a pool without one, whose processes do the work by themselves. */
void shm_wake(const ShmArena *arena);

/* Count n slabs that became FREE, or that are no longer FREE. The latter wakes the daemon when few are left. */
void shm_free_added(ShmArena *arena, uint32_t n);
void shm_free_taken(ShmArena *arena, uint32_t n);
