#pragma once
/*
 * The reachability check: finds out whether any record refers to a slot that is taken and whose tag is even. Repair
 * checks slots that a dead thread may have held; revoking checks slots of objects that it made stale. For the
 * maintainer.
 *
 *     shm_reach_init(reach, control)
 *     shm_reach_add(reach, slab, mask)         candidates, in at most SHM_REFS_MAX slabs
 *     while (!shm_reach_step(reach, &budget))
 *             budget = ...;
 *
 * At the end, slots that no record refers to have been given back. If a thread claims slots of a slab, the references
 * that were gathered for this slab are void. If claims keep coming, the check pins the slab, decides, and releases it.
 */
#include "shm/maintain/refs.h"

/* A slab's word and tags, read at one time. */
typedef struct ShmSlabView {
        uint32_t slab;
        SlabWord word;
        uint64_t live; /* tag is odd */
        uint32_t tags[SHM_SLOTS_MAX];
} ShmSlabView;

void shm_slab_view(const ShmArena *arena, uint32_t slab, ShmSlabView *ret);
/* Slots that were the same at both times: bit, tag, and gen, class, epoch and era of the slab. */
uint64_t shm_slab_view_same(const ShmSlabView *before, const ShmSlabView *after);
/* Slots that are live or in a cache, by the word. */
uint64_t shm_slab_view_taken(const ShmArena *arena, SlabWord word);

/* The result for the slots of a slab. */
typedef struct ShmReachSlab {
        uint64_t open; /* undecided: claims kept coming */
        uint64_t lost; /* no record referred to them: given back */
        uint64_t owned; /* in the cache of a thread that lives */
        uint64_t in_flight; /* an intent, a note or a dead thread's record refers to them: look again later */
} ShmReachSlab;

typedef enum ShmReachState {
        SHM_REACH_VIEW, /* the slabs are viewed */
        SHM_REACH_GATHER,
        SHM_REACH_DECIDE, /* they are viewed again, and decided on */
        SHM_REACH_DONE,
        _SHM_REACH_STATE_N,
} ShmReachState;

typedef struct ShmReach {
        ShmActor *control;
        ShmReachState state;
        uint32_t position; /* slab to be viewed next */
        uint32_t round, n_pinned;
        ShmCache *pinned; /* the cache of record 0 that holds a slab; NULL: none */
        ShmRefs refs;
        ShmRefsSome some;
        ShmReachSlab slabs[SHM_REFS_MAX];
        ShmSlabView views[SHM_REFS_MAX];
} ShmReach;

void shm_reach_init(ShmReach *reach, ShmActor *control);
/* False: there is no room for one more slab. An id that is no slot is left out. */
bool shm_reach_add(ShmReach *reach, uint32_t slab, uint64_t mask);
static inline bool shm_reach_add_slot(ShmReach *reach, SlotId id) {
        return shm_reach_add(reach, slot_id_slab(id), slot_id_mask(id));
}
/* Reads about *budget slots, and takes them off. True: all is decided that can be. */
bool shm_reach_step(ShmReach *reach, uint32_t *budget);
/* To the end. Returns how many slots went back. */
uint32_t shm_reach_run(ShmReach *reach);

/* Gives back lost slots of the slab. False: a stray write changed the slab's word. */
bool shm_reach_free(ShmActor *control, uint32_t slab, uint64_t mask);

/* Slots that the check could not decide on, to be looked at later. */
static inline uint64_t shm_reach_in_flight(const ShmReach *reach, uint32_t index) {
        return reach->slabs[index].open | reach->slabs[index].in_flight;
}
