#pragma once
/*
 * Records: one per thread, and record 0 for the daemon (in a private pool: for whoever holds the
 * control lock). What a thread holds is in its record and nowhere else.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/actor.h"
#include "shm/arena/slot.h"
#include "shm/format/edge.h"
#include "shm/format/intent.h"

/*
 * A record's head. Each edge is one compare-and-set.
 *
 *     edge                   event      who                                     by
 *     UNUSED -> USED         TAKE       the new owner                           shm_actor_init()
 *     USED   -> USED         INHERIT    another thread of the same process      shm_record_inherit()
 *     USED   -> UNUSED       FREE       the owner                               shm_actor_deinit()
 *     USED   -> UNUSED       FREE       the maintainer, if the owner died       shm_record_set_unused()
 *     USED   -> LEFT         LEAVE      the owner, which is frozen              shm_record_set_left()
 *     LEFT   -> UNUSED       FREE       the maintainer, which emptied it        shm_record_set_unused()
 *     USED   -> DEAD         DIE        the maintainer; its own process         shm_record_mark_dead(), _mark_gone()
 *     LEFT   -> DEAD         DIE        the maintainer                          shm_record_mark_dead()
 *     DEAD   -> ROLLED_BACK  ROLL_BACK  the maintainer                          shm_record_set_rolled_back()
 *     ROLLED_BACK -> UNUSED  FREE       the maintainer                          shm_record_set_unused()
 *
 * The freeze bit is in another word (ShmRecord.attention): the maintainer sets it in any state, and clears it once it
 * has emptied the caches that it set it for, or before the record becomes UNUSED.
 */
typedef enum ShmRecordState {
        SHM_RECORD_UNUSED,
        SHM_RECORD_USED,
        SHM_RECORD_DEAD, /* its owner died; objects that nobody else knows are yet to be freed */
        SHM_RECORD_ROLLED_BACK, /* they were; its slots are given back, if nobody refers to them */
        SHM_RECORD_LEFT, /* its owner ended while frozen; the maintainer empties it */
        _SHM_RECORD_STATE_N,
} ShmRecordState;

typedef enum ShmRecordEvent {
        SHM_RECORD_EV_TAKE,
        SHM_RECORD_EV_INHERIT,
        SHM_RECORD_EV_FREE,
        SHM_RECORD_EV_LEAVE,
        SHM_RECORD_EV_DIE,
        SHM_RECORD_EV_ROLL_BACK,
        _SHM_RECORD_EV_N,
} ShmRecordEvent;

extern const ShmEdges shm_record_edges;

/* A record's head, taken apart. */
typedef struct ShmRecordOwner {
        ShmRecordState state;
        uint32_t client;
        uint32_t tid;
} ShmRecordOwner;

ShmRecordOwner shm_record_owner(const ShmArena *arena, uint32_t record);

/* Record 0; uncached. */
void shm_actor_init_daemon(ShmActor *actor, ShmArena *arena);

/* Takes a free record for a thread of `client`. -ENOSPC: none is left. */
int shm_actor_init(ShmActor *actor, ShmArena *arena, uint32_t client, uint32_t tid);

/*
 * A record that a thread of this process has, for one that gives it back in its stead. That thread is
 * in no operation, and makes no store into the record any more.
 */
void shm_actor_take_over(ShmActor *actor, ShmArena *arena, uint32_t record);

/*
 * Gives the record back. Its intent must be none; what is still noted as pending is the caller's
 * to free before. NULL-safe.
 */
void shm_actor_deinit(ShmActor *actor);

/* Sets a record of a dead thread DEAD. True when this call did it. */
bool shm_record_mark_dead(ShmArena *arena, uint32_t record);
/* The same, if the record is still this owner's, which is a thread that is no more. */
bool shm_record_mark_gone(ShmArena *arena, uint32_t record, ShmRecordOwner owner);
/*
 * Makes another thread of the same process the owner of a record that is `client`'s and in use, to give
 * it back. False: it is not, any more; its thread may have been found to be gone.
 */
bool shm_record_inherit(ShmArena *arena, uint32_t record, uint32_t client, uint32_t tid);
/* Repair has made even what a DEAD record says is to be. */
void shm_record_set_rolled_back(ShmArena *arena, uint32_t record);
/* Its owner ended while frozen, and does nothing to it after this: control empties it, and gives it back. */
void shm_record_set_left(ShmArena *arena, uint32_t record);
/* Gives back a record, whose owner is gone, that holds nothing. */
bool shm_record_set_unused(ShmArena *arena, uint32_t record);

/* Records that may have been used: below it all others are found. */
static inline uint32_t shm_arena_n_records_ever(const ShmArena *arena) {
        /* ORDER: acq, pairs with shm_actor_init(); a record below is initialised. */
        uint64_t n = shm_load_acq(&arena->header->n_records_ever.value);

        return n < arena->n_records ? (uint32_t) n : arena->n_records;
}

/* Another thread's intent. It may be over by the time it is looked at. */
ShmIntent shm_record_intent(const ShmArena *arena, uint32_t record);

/*
 * Notes: an object its allocator may still take back (see ShmNote). -ENOBUFS: all are in use.
 * A note must stand before its object's tag is made odd, or before the link to it is cut.
 */
int shm_actor_note(ShmActor *actor, uint64_t handle, uint64_t root, uint64_t hash);
/* -ENOENT: this thread has no such note. */
int shm_actor_unnote(ShmActor *actor, uint64_t handle);

static inline void shm_actor_unguard(ShmActor *actor) {
        shm_store_rel(&actor->record->guard, 0); /* ORDER: rel; what was written into the object is before. */
}

/*
 * Guards an object, whose handle was live once, while the actor writes into it: its handle may be revoked
 * meanwhile, but its slot is not given back. False: the handle is stale already. One object at a time.
 */
static inline bool shm_actor_guard(ShmActor *actor, uint64_t handle) {
        const uint32_t *tag = shm_slot_tag(actor->arena, shm_handle_slot(handle));

        /* ORDER: rlx; the maintainer makes the tag even, issues a membarrier, then reads guards. */
        shm_store_rlx(&actor->record->guard, handle);
        if (actor->fences)
                shm_fence_sc(); /* ORDER: sc; stands for that membarrier: the guard before the tag. */
        shm_compiler_barrier();
        /* ORDER: acq, pairs with shm_uncached_free(); odd after the guard: the slot is not reused. */
        if (shm_load_acq(tag) == shm_handle_tag(actor->arena->key, handle))
                return true;
        shm_actor_unguard(actor);
        return false;
}

/* A handle that a dead thread noted, or the caller itself; or 0. */
static inline uint64_t shm_record_note(const ShmRecord *record, uint32_t i) {
        return shm_load_rlx(&record->notes[i].handle); /* ORDER: rlx; the owner is dead, or this thread. */
}

/* A cache that holds something is found by walks from then on. The record's owner's. */
static inline void shm_record_use_cache(ShmRecord *record, uint32_t index) {
        uint64_t *used = &record->used[index / 64], bits;

        bits = shm_load_rlx(used) | UINT64_C(1) << index % 64; /* ORDER: rlx; its owner's alone. */
        shm_store_rel(used, bits); /* ORDER: rel, pairs with shm_cache_walk_next(); before the cache. */
}
