#pragma once
/*
 * Records: one for each thread, and record 0 for the maintainer (the daemon or, in a private pool, the owner
 * of control work). All slots and objects that only one thread knows are in its record and nowhere else.
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
 *     UNUSED -> USED         TAKE       the new owner                           shm_record_take()
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
 * clears the bit once it has emptied the caches for which it froze the record, or before the record becomes UNUSED.
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
/* When the thread took the record, in clock ticks since boot: see shm_process_ticks(). 0: not known. */
uint64_t shm_record_since(const ShmArena *arena, uint32_t record);

/* Makes an actor of record 0, without caches. */
void shm_actor_init_daemon(ShmActor *actor, ShmArena *arena);

/* Takes a free record for a thread of `client`. -ENOSPC: none is left. */
int shm_record_take(ShmArena *arena, uint32_t client, uint32_t tid, uint32_t *ret_record);
/* As that, and makes an actor of the record. */
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
/* Sets the record DEAD if it still belongs to this owner, a thread that has ended. */
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
        /* ORDER: acq, pairs with shm_record_take(); it is raised before a record below it is taken. */
        uint64_t n = shm_load_acq(&arena->header->n_records_ever.value);

        return n < arena->n_records ? (uint32_t) n : arena->n_records;
}

/* Another thread's intent. That thread may have cleared it by the time the caller uses it. */
ShmIntent shm_record_intent(const ShmArena *arena, uint32_t record);

/* From now on walks find this cache (shm/arena/cache-walk.h). Only the owner of the record may call it. */
static inline void shm_record_use_cache(ShmRecord *record, uint32_t index) {
        uint64_t *used = &record->used[index / 64], bits;

        bits = shm_load_rlx(used) | UINT64_C(1) << index % 64; /* ORDER: rlx; only the owner writes it. */
        shm_store_rel(used, bits); /* ORDER: rel, pairs with shm_cache_walk_next(); before the cache. */
}
