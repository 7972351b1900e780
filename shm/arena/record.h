#pragma once
/*
 * Records: one for each thread, and record 0 for the maintainer (the daemon or, in a private pool, the holder
 * of the control lock). All slots and objects that only one thread knows are in its record and nowhere else.
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
 *     edge                   event      taken by                                function
 *     UNUSED -> USED         TAKE       the new owner                           shm_actor_init()
 *     USED   -> USED         INHERIT    another thread of the same process      shm_record_inherit()
 *     USED   -> UNUSED       FREE       the owner                               shm_actor_deinit()
 *     USED   -> UNUSED       FREE       the maintainer, if the owner died       shm_record_set_unused()
 *     USED   -> LEFT         LEAVE      the owner, while frozen                 shm_record_set_left()
 *     LEFT   -> UNUSED       FREE       the maintainer, once it has emptied it  shm_record_set_unused()
 *     USED   -> DEAD         DIE        the maintainer; its own process         shm_record_mark_dead(), _mark_gone()
 *     LEFT   -> DEAD         DIE        the maintainer                          shm_record_mark_dead()
 *     DEAD   -> ROLLED_BACK  ROLL_BACK  the maintainer                          shm_record_set_rolled_back()
 *     ROLLED_BACK -> UNUSED  FREE       the maintainer                          shm_record_set_unused()
 *
 * The freeze bit is in another word (ShmRecord.attention). The maintainer sets it in any state of the record. It
 * clears it when it has emptied the caches for whose sake it froze the record, or before the record becomes UNUSED.
 */
typedef enum ShmRecordState {
        SHM_RECORD_UNUSED,
        SHM_RECORD_USED,
        SHM_RECORD_DEAD, /* its owner died; the objects that only the owner knew are still to be freed */
        SHM_RECORD_ROLLED_BACK, /* these objects are freed; lost slots are being freed */
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

/* Makes an actor of record 0, without caches. */
void shm_actor_init_daemon(ShmActor *actor, ShmArena *arena);

/* Takes a free record for a thread of `client`. -ENOSPC: none is left. */
int shm_actor_init(ShmActor *actor, ShmArena *arena, uint32_t client, uint32_t tid);

/*
 * Makes an actor of a record that another thread of this process owns, to give the record back in its place. The
 * other thread must be in no operation, and must not store into the record any more.
 */
void shm_actor_take_over(ShmActor *actor, ShmArena *arena, uint32_t record);

/*
 * Gives the record back. It must have no intent, and the caller must have freed the objects that it notes as
 * pending. An actor without a record is left alone.
 */
void shm_actor_deinit(ShmActor *actor);

/* Sets the record of a dead thread DEAD. Returns whether this call did so. */
bool shm_record_mark_dead(ShmArena *arena, uint32_t record);
/* The same, if the record still belongs to this owner, a thread that has ended. */
bool shm_record_mark_gone(ShmArena *arena, uint32_t record, ShmRecordOwner owner);
/*
 * Makes another thread of the same process the owner of a record of `client` that is USED, to give it back.
 * False: the record is no longer so; the maintainer may have found that its thread has ended.
 */
bool shm_record_inherit(ShmArena *arena, uint32_t record, uint32_t client, uint32_t tid);
/* DEAD -> ROLLED_BACK: repair has made even all tags that the record says it must. */
void shm_record_set_rolled_back(ShmArena *arena, uint32_t record);
/* USED -> LEFT: the owner ended while frozen. It does not touch the record after this call: the maintainer does. */
void shm_record_set_left(ShmArena *arena, uint32_t record);
/* Gives back a record that holds nothing and whose owner is gone. Returns whether this call did so. */
bool shm_record_set_unused(ShmArena *arena, uint32_t record);

/* All records that were ever used are below this index. */
static inline uint32_t shm_arena_n_records_ever(const ShmArena *arena) {
        /* ORDER: acq, pairs with shm_actor_init(); it is raised before a record below it is taken. */
        uint64_t n = shm_load_acq(&arena->header->n_records_ever.value);

        return n < arena->n_records ? (uint32_t) n : arena->n_records;
}

/* Another thread's intent. That thread may have cleared it by the time the caller uses it. */
ShmIntent shm_record_intent(const ShmArena *arena, uint32_t record);

/*
 * Notes an object that is to be freed if this thread dies (see ShmNote). -ENOBUFS: all notes are in use.
 * A note must stand before the object's tag becomes odd, or before the link to the object is cut.
 */
int shm_actor_note(ShmActor *actor, uint64_t handle, uint64_t root, uint64_t hash);
/* The note becomes one of another object, with the same root and hash. -ENOENT: this thread has no such note. */
int shm_actor_renote(ShmActor *actor, uint64_t handle, uint64_t other);
int shm_actor_unnote(ShmActor *actor, uint64_t handle);

/* The note of the kept path becomes one of an object under the same root and hash. */
static inline int shm_actor_renote_kept(ShmActor *actor, uint64_t handle) {
        uint64_t note = actor->kept.note;

        actor->kept.note = 0;
        return shm_actor_renote(actor, note, handle);
}

static inline void shm_actor_unguard(ShmActor *actor) {
        shm_store_rel(&actor->record->guard, 0); /* ORDER: rel; all stores into the object are before. */
}

/*
 * Guards an object while the actor writes into it: the handle may be revoked meanwhile, but the slot is not
 * given back. The handle must have been live once. False: it is stale by now. One object at a time.
 */
static inline bool shm_actor_guard(ShmActor *actor, uint64_t handle) {
        const uint32_t *tag = shm_slot_tag(actor->arena, shm_handle_slot(handle));

        /* ORDER: rlx; the maintainer makes the tag even, issues a membarrier, then reads guards. */
        shm_store_rlx(&actor->record->guard, handle);
        if (actor->fences)
                shm_fence_sc(); /* ORDER: sc; in place of that membarrier: the guard is before the tag. */
        shm_compiler_barrier();
        /* ORDER: acq, pairs with shm_uncached_free(); if it is odd after the guard, the slot is not reused. */
        if (shm_load_acq(tag) == shm_handle_tag(actor->arena->key, handle))
                return true;
        shm_actor_unguard(actor);
        return false;
}

/* The handle in note i of a dead thread, or of the calling thread; 0: none. */
static inline uint64_t shm_record_note(const ShmRecord *record, uint32_t i) {
        return shm_load_rlx(&record->notes[i].handle); /* ORDER: rlx; the owner is dead, or this thread. */
}

/* From now on walks find this cache (shm/arena/cache-walk.h). Only the owner of the record may call it. */
static inline void shm_record_use_cache(ShmRecord *record, uint32_t index) {
        uint64_t *used = &record->used[index / 64], bits;

        bits = shm_load_rlx(used) | UINT64_C(1) << index % 64; /* ORDER: rlx; only the owner writes it. */
        shm_store_rel(used, bits); /* ORDER: rel, pairs with shm_cache_walk_next(); before the cache. */
}
