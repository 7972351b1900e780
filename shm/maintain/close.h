#pragma once
/*
 * Closing an epoch, as one state machine. A freeze empties the epoch's slots out of all caches, a revocation frees the
 * objects of the eras that are to be revoked, and a walk gives empty slabs back. This repeats until no thread can add
 * to the epoch.
 *
 *     edge                  event        meaning
 *     IDLE    -> EMPTY      START        the epoch was closed: a freeze empties its caches
 *     EMPTY   -> WALK       EMPTIED      no thread that stands still has slots of the epoch any more
 *     EMPTY   -> MARK       REVOKES      the same, and some of its eras are to be revoked
 *     MARK    -> COLLECT    MARKED       their objects are stale, and all threads see it
 *     MARK    -> WALK       UNFENCED     membarrier failed: another round collects the slots
 *     COLLECT -> WALK       COLLECTED    slots that no record refers to went back
 *     WALK    -> IDLE       WALKED       no thread is pending, and no thread has a slot in hand
 *     WALK    -> WAIT       PENDING      some thread is, or has: look again later
 *     WALK    -> EMPTY      START        the epoch was closed once more meanwhile
 *     IDLE    -> WAIT       WAKE         slabs of the epoch drained
 *     WAIT    -> EMPTY      DUE          threads moved on, or slabs drained, and time has passed
 *     WAIT    -> EMPTY      START        the epoch was closed once more
 *
 * The machine does not outlive its maintainer: the next maintainer starts one from the epoch table.
 */
#include "shm/maintain/drain.h"
#include "shm/maintain/freeze.h"
#include "shm/maintain/revoke.h"

typedef enum ShmCloseState {
        SHM_CLOSE_IDLE,
        SHM_CLOSE_EMPTY,
        SHM_CLOSE_MARK,
        SHM_CLOSE_COLLECT,
        SHM_CLOSE_WALK,
        SHM_CLOSE_WAIT,
        _SHM_CLOSE_STATE_N,
} ShmCloseState;

typedef enum ShmCloseEvent {
        SHM_CLOSE_EV_START,
        SHM_CLOSE_EV_EMPTIED,
        SHM_CLOSE_EV_REVOKES,
        SHM_CLOSE_EV_MARKED,
        SHM_CLOSE_EV_UNFENCED,
        SHM_CLOSE_EV_COLLECTED,
        SHM_CLOSE_EV_WALKED,
        SHM_CLOSE_EV_PENDING,
        SHM_CLOSE_EV_WAKE,
        SHM_CLOSE_EV_DUE,
        _SHM_CLOSE_EV_N,
} ShmCloseEvent;

extern const ShmEdges shm_close_edges;

typedef struct ShmClose {
        uint32_t id;
        ShmCloseState state;
        ShmRevoke revoke;
        ShmDrain walk;
        uint64_t n_starts; /* requests so far */
        uint64_t round_starts; /* n_starts when the round began */
        uint64_t n_rounds; /* that are over */
        uint64_t n_walked; /* requests that were walked after */
        uint64_t n_settled; /* requests that were walked after, with no thread pending and no slot in hand */
        uint32_t era; /* newest of the id when the round began */
        bool open; /* whether that era was open then */
        bool woken; /* slabs drained since the round began */
        bool unfenced; /* slots wait for a membarrier that works */
        uint64_t fence_usec; /* when all threads see that the objects are stale */
        uint32_t n_pending; /* threads that may add to it, when the round began */
        ShmDrain walked; /* the last walk that came to its end */
        uint64_t objects; /* revoked, ever */
        uint64_t reclaimed_size; /* ever, by this maintainer */
        uint32_t n_split; /* ever, as ShmSplits.n */
        uint64_t round_usec; /* when the round began */
        uint64_t walked_usec, rest_usec; /* when the last walk ended, and how long the machine then rests */
        uint64_t wait_usec; /* between two looks */
        uint64_t due_usec; /* when WAIT ends */
} ShmClose;

/* The epoch was closed, or an era of it revoked; its caches are being frozen. */
void shm_close_start(ShmClose *close, uint64_t now_usec);
/* Slabs of the epoch drained. */
void shm_close_wake(ShmClose *close, uint64_t now_usec);

/*
 * Whether a step would do anything now. In EMPTY the machine waits for the freeze. `emptied`: since the start, the
 * freeze has looked at all records.
 */
bool shm_close_is_ready(const ShmClose *close, bool emptied, uint64_t now_usec);
/* The time for which the machine waits, if it does. `emptied_usec`: when the freeze's last look may begin. */
uint64_t shm_close_due(const ShmClose *close, uint64_t emptied_usec);
/* Whether the machine uses the maintainer's reachability check, or is about to. */
static inline bool shm_close_checks(const ShmClose *close) {
        return close->state == SHM_CLOSE_COLLECT;
}

/* Does one short piece of work. */
void shm_close_step(ShmClose *close, ShmActor *control, const ShmFreeze *freeze, ShmReach *reach,
                    uint64_t now_usec);
