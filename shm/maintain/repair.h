#pragma once
/*
 * Repair: what dead threads left in their records goes back to where it belongs. Control work.
 *
 *     shm_repair_control(control, ...)           once, when control work is taken over
 *     shm_record_mark_dead(), shm_client_release_records()
 *     while (!shm_repair_step(control, repair, n))
 *             ;
 *
 *     record: USED -> DEAD -> SWEPT -> UNUSED
 *
 * A record of which a slot is unsettled stays SWEPT; a later pass looks at it again. Record 0, control's
 * own, is looked at in each pass.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/cache-walk.h"
#include "shm/record.h"

typedef struct ShmRepairCounts {
        uint64_t records; /* that are free again */
        uint64_t slots; /* given back */
        uint64_t objects; /* unpublished: freed, because nobody had their handles */
        uint64_t slabs; /* given up, or whose pages were undone */
        uint64_t unsettled; /* slots of which it is too early to tell */
} ShmRepairCounts;

/* Zeros begin a pass. */
typedef struct ShmRepair {
        ShmRepairCounts counts; /* of the pass */
        uint32_t position; /* record to look at next */
        bool judging; /* all DEAD were swept */
        bool begun; /* with the record at `position` */
        uint64_t record_unsettled;
        ShmCacheWalk walk;
} ShmRepair;

/* Goes on with up to n caches' worth of work. True: the pass is over. */
bool shm_repair_step(ShmActor *control, ShmRepair *repair, uint32_t n);

/*
 * After the death of control itself: what it was in the middle of, by record 0's intent. Slots that
 * are unsettled are kept in record 0, where each pass looks at them. Records that it froze stay so until
 * the next freeze is over.
 */
void shm_repair_control(ShmActor *control, ShmRepairCounts *ret);

/* Sets what hints the slab's word wants. */
void shm_repair_hints(const ShmArena *arena, uint32_t slab);

/* Of a slab whose holder's record is in no use: gives it up, or undoes it. False: it has a holder. */
bool shm_repair_holder(ShmActor *control, uint32_t slab);

/* Whether record 0 still keeps any. */
bool shm_repair_kept(const ShmArena *arena);

/* Whether a pass has anything to look at: a record that is DEAD or SWEPT, or what record 0 keeps. */
bool shm_repair_wanted(const ShmArena *arena);

/* Whether a control that died left records frozen. */
bool shm_repair_frozen(const ShmArena *arena);
