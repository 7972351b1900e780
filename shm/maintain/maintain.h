#pragma once
/*
 * The maintainer: all maintenance work of an arena as one engine, in short steps. tslabd drives it from its event
 * loop, and in a private pool the owner of control work does. Callers that wait for work to be done choose how long.
 *
 *     shm_maintain_init(m, control)
 *     shm_maintain_take_over(m, now, &counts)      sets the engine going from the arena's state
 *     shm_maintain_close(m, id, now), ...          requests
 *     next = shm_maintain_step(m, now)             0: at once again; SHM_MAINTAIN_IDLE: when something is asked for
 *
 * Between two steps other maintenance work may go on with the same actor: no intent stands.
 */
#include "shm/maintain/close.h"
#include "shm/arena/idle.h"
#include "shm/maintain/repair.h"
#include "shm/map/entry/expiry.h"
#include "shm/map/entry/map-sweep.h"

#define SHM_MAINTAIN_IDLE UINT64_MAX

typedef struct ShmMaintain {
        ShmActor *control;
        bool freeze_busy; /* records that stand still may be left to be emptied */
        uint64_t freeze_due_usec; /* when pending threads are looked at again */
        uint64_t freeze_wait_usec;
        int membarrier_error; /* the last freeze's; 0: it worked */

        ShmClose closes[SHM_EPOCHS_MAX];
        ShmFreezeMark close_marks[SHM_EPOCHS_MAX]; /* when its round may begin */
        uint32_t turn; /* the close that is looked at first; n_epochs: repair */

        bool repairing, repair_again; /* a pass is under way; another one is wanted */
        uint64_t n_repairs; /* passes that are over */
        ShmRepairCounts repaired; /* the last pass's counts */
        ShmRepair repair;

        uint64_t n_asked, n_given; /* requests to empty all caches, and how many are done */
        ShmFreezeMark asked_mark; /* when the last request is done */
        uint64_t wanted; /* the arena's count of clients' requests when the last of these began */

        bool reach_is_used; /* the check, which serves one user at a time */
        uint32_t reach_user; /* a close, or n_epochs: repair */
        bool reach_was_used; /* ever: most of `reach` has been written to */

        ShmIdle *idle; /* the caller's; NULL: caches of idle threads stay as they are */

        ShmMapSweeps sweeps;
        bool sweeps_later; /* they are the caller's to do; in private pools, between other control work */

        bool expires; /* entries whose time is over are its to delete; in private pools writers do that */
        uint64_t expiry_due_usec; /* when it looks for such entries again */

        ShmFreeze freeze; /* from here on shm_maintain_init() leaves large tables as they are */
        ShmReach reach;
} ShmMaintain;

/* The memory may hold anything, such as an earlier maintainer. */
void shm_maintain_init(ShmMaintain *m, ShmActor *control);
/*
 * Takes an arena over, for the first time or after the death of a maintainer: ends the operation that record 0's intent
 * names, and starts closes, freezes and repair anew. *ret counts the slots and slabs of record 0. Returns how many
 * epochs are to drain.
 */
uint32_t shm_maintain_take_over(ShmMaintain *m, uint64_t now_usec, ShmRepairCounts *ret);

/* An epoch was closed, or some of its eras are to be revoked. Returns the request's number: see ShmClose.n_starts. */
uint64_t shm_maintain_close(ShmMaintain *m, uint32_t id, uint64_t now_usec);
/* All caches are to be emptied. Returns the request's number: it is done once n_given is not below it. */
uint64_t shm_maintain_empty_caches(ShmMaintain *m, uint64_t now_usec);
/* Caches of idle threads are to be emptied, if it is time to look for such threads. False: there are none. */
bool shm_maintain_empty_idle(ShmMaintain *m, uint64_t now_usec);
/* Records were marked DEAD, or slots that were in flight are to be looked at again. */
void shm_maintain_repair(ShmMaintain *m);
/*
 * Looks for work that threads left in the arena: slabs that drained, and clients that want caches emptied. `all`: also
 * records that were left or stay frozen, dead records, revocations, and caches of idle threads, which costs a look at
 * each record.
 */
void shm_maintain_look(ShmMaintain *m, bool all, uint64_t now_usec);

/* One short piece of work. Returns when it wants to be called again. */
uint64_t shm_maintain_step(ShmMaintain *m, uint64_t now_usec);

/* Whether the round that the request asked for is over. */
static inline bool shm_maintain_is_walked(const ShmMaintain *m, uint32_t id, uint64_t number) {
        return m->closes[id].n_walked >= number;
}
/* Whether that round is over, and no thread or slot is left to wait for. */
static inline bool shm_maintain_is_settled(const ShmMaintain *m, uint32_t id, uint64_t number) {
        return m->closes[id].n_settled >= number;
}
