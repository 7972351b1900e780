#pragma once
/*
 * Slabs: the transitions of shm/format/slab-word.h, each in one compare-and-set loop, with the hints that
 * follow from them. All are called inside an operation of the actor.
 */
#include <stdint.h>

#include "shm/arena/record.h"
#include "shm/format/slab-word.h"

static inline SlabWord shm_slab_word(const ShmArena *arena, uint32_t slab) {
        /* ORDER: acq, pairs with shm_slab_free_slots(); what the slots held is over. */
        return shm_pair_load_acq(&arena->lines[slab].word);
}

/* By a word that may be garbage: any class index has an entry. */
static inline const ShmClass *shm_slab_class(const ShmArena *arena, SlabWord w) {
        return &arena->classes[slab_word_class(w)];
}

/*
 * Claims up to n slots of a FREE or PARTIAL slab. 0 with the intent CLAIM standing, for the caller to
 * replace; SLAB_E_REFUSED with none.
 */
int shm_slab_claim(ShmActor *actor, uint32_t slab, uint64_t key, uint32_t n, uint64_t *ret_mask);
/* The same, and holds the slab, or takes more of the one held. */
int shm_slab_hold(ShmActor *actor, uint32_t slab, uint64_t key, uint32_t n, uint64_t *ret_mask);

/* These leave the intent as it is: it names the slab already. SLAB_E_REFUSED. */
int shm_slab_free_slots(ShmActor *actor, uint32_t slab, uint64_t mask);
int shm_slab_release(ShmActor *actor, uint32_t slab);
/* While it is of this key, of which the era is over. */
int shm_slab_drain(ShmActor *control, uint32_t slab, uint64_t key);
/* Whoever holds it: only control claims of it, until it is released. */
int shm_slab_pin(ShmActor *control, uint32_t slab);

/* Pages: a slab of this state becomes BUSY; one that is BUSY by this holder becomes FREE or UNCOMMITTED. No hints. */
int shm_slab_begin(ShmActor *actor, uint32_t slab, SlabState from);
int shm_slab_end(ShmActor *actor, uint32_t holder, uint32_t slab, SlabState to);

/* Wakes the daemon; a pool without one sees to it by itself. */
void shm_wake(const ShmArena *arena);

/* How many FREE slabs there are came to be, or ceased to be. Wakes the daemon when they run low. */
void shm_free_added(ShmArena *arena, uint32_t n);
void shm_free_taken(ShmArena *arena, uint32_t n);
