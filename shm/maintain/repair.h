#pragma once
/*
 * Repair: gives back slots and slabs in the records of dead threads. For the maintainer.
 *
 *     shm_repair_control(control, ...)           once, when maintenance is taken over
 *     shm_record_mark_dead(), shm_client_release_records()
 *     while (!shm_repair_step(control, repair, reach, &budget))
 *             budget = ...;
 *
 * A pass:
 *     edge                    event      meaning
 *     ROLLBACK -> ROLLBACK    NEXT       the caches of a DEAD record, one by one; then it is ROLLED_BACK
 *     ROLLBACK -> COLLECT     NONE       no record is DEAD any more
 *     COLLECT  -> CHECK       NEXT       slots of ROLLED_BACK records are candidates, as many as there is room for
 *     CHECK    -> SETTLE      NEXT       the reachability check is over
 *     SETTLE   -> COLLECT     NEXT       slots that are in flight stay in the record, others leave it
 *     COLLECT  -> DONE        NONE       this pass has looked at all ROLLED_BACK records
 *
 * A record with a slot that is in flight stays ROLLED_BACK; a later pass looks at it again. Each pass looks at record
 * 0, the maintainer's own, as if it were ROLLED_BACK.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/maintain/reach.h"

typedef struct ShmRepairCounts {
        uint64_t records; /* that are free again */
        uint64_t slots; /* given back */
        uint64_t objects; /* unpublished: freed, because nobody had their handles */
        uint64_t slabs; /* released, or whose pages were undone */
        uint64_t in_flight; /* slots that cannot be decided on yet */
} ShmRepairCounts;

typedef enum ShmRepairState {
        SHM_REPAIR_ROLLBACK,
        SHM_REPAIR_COLLECT,
        SHM_REPAIR_CHECK,
        SHM_REPAIR_SETTLE,
        SHM_REPAIR_DONE,
        _SHM_REPAIR_STATE_N,
} ShmRepairState;

typedef enum ShmRepairEvent {
        SHM_REPAIR_EV_NEXT,
        SHM_REPAIR_EV_NONE,
        _SHM_REPAIR_EV_N,
} ShmRepairEvent;

extern const ShmEdges shm_repair_edges;

/* Zeros begin a pass. */
typedef struct ShmRepair {
        ShmRepairState state;
        ShmRepairCounts counts; /* this pass's */
        uint32_t record; /* to be looked at next, or just now */
        bool begun; /* with that record */
        uint64_t record_in_flight;
        ShmCacheWalk from, to; /* caches that the check is about */
        bool fenced; /* guards of the objects that are over are seen, but for those that threads end meanwhile */
        bool any_waits;
        uint64_t waits[SHM_RECORDS_MAX / 64]; /* a bit for each record that is rolled back but for that */
} ShmRepair;

/* Call this after the maintainer has made objects of an epoch stale, in any state. */
void shm_repair_fence_again(ShmRepair *repair);

/* `reach` is the maintainer's one; no other check uses it while the state is CHECK. True: the pass is over. */
bool shm_repair_step(ShmActor *control, ShmRepair *repair, ShmReach *reach, uint32_t *budget);

/*
 * After the death of a maintainer: ends the operation that record 0's intent names. Slots that are in flight stay in
 * record 0, where each pass looks at them. Records that the dead maintainer froze stay frozen until the next freeze is
 * over.
 */
void shm_repair_control(ShmActor *control, ShmReach *reach, ShmRepairCounts *ret);

/* Releases, or undoes, a slab whose holder's record is not in use. False: it has a holder. */
bool shm_repair_holder(ShmActor *control, uint32_t slab);

/* Whether record 0 still keeps slots, or a slab. */
bool shm_repair_kept(const ShmArena *arena);

/* Whether a pass has anything to look at: a record that is DEAD or ROLLED_BACK, or anything that record 0 keeps. */
bool shm_repair_wanted(const ShmArena *arena);
