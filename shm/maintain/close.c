/*
 * Closing an epoch
 *
 * Purpose: runs rounds after an epoch was closed or revoked, until no thread can add slots to it any more.
 *
 * Invariants
 *   1. A round's walk is final if no thread was pending and no dead record was unrepaired when the round began: it
 *      sees all slots of eras that are over, since only threads that were inside an operation at the closing can add
 *      to the epoch. A walk is not final if an era was opened or closed during the round, since the walk has then
 *      passed some slabs of that era.
 *   2. A revocation is over when a round whose walk is final collected all slots: it finds slabs by the same set as the
 *      walk, and a dead record that is not repaired may name a slab that is not in the set. A request that came in
 *      between starts another revocation (shm_epoch_set_revoked()).
 *   3. Rounds cost a bounded share of time: after a round the machine rests REST times as long as the round took, and
 *      REST_MAX_USEC at most.
 *
 * Who may do what: the maintainer.
 *
 * Crash: the epoch's word says that it is closed, and names the eras to be revoked. The next maintainer starts a round.
 */
#include "shm/maintain/close.h"

#include "shm/maintain/repair.h"
#include "shm/epoch/epoch-close.h"

#define MARK_SLABS 64U /* a step */
#define WALK_SLABS 1024U
#define CHECK_BUDGET 8192U
#define WAIT_MIN_USEC 20U
#define WAIT_MAX_USEC 100000U /* for threads */
#define KEPT_MAX_USEC 1000000U /* for slots in hand, and a membarrier */
#define REST 10U
#define REST_MIN_USEC 10000U
#define REST_MAX_USEC 10000000U /* also of a daemon that was stopped in the middle of a round */

static const ShmEdge edges[] = {
        { SHM_CLOSE_IDLE, SHM_CLOSE_EV_START, SHM_CLOSE_EMPTY },
        { SHM_CLOSE_EMPTY, SHM_CLOSE_EV_EMPTIED, SHM_CLOSE_WALK },
        { SHM_CLOSE_EMPTY, SHM_CLOSE_EV_REVOKES, SHM_CLOSE_MARK },
        { SHM_CLOSE_MARK, SHM_CLOSE_EV_MARKED, SHM_CLOSE_COLLECT },
        { SHM_CLOSE_MARK, SHM_CLOSE_EV_UNFENCED, SHM_CLOSE_WALK },
        { SHM_CLOSE_COLLECT, SHM_CLOSE_EV_COLLECTED, SHM_CLOSE_WALK },
        { SHM_CLOSE_WALK, SHM_CLOSE_EV_WALKED, SHM_CLOSE_IDLE },
        { SHM_CLOSE_WALK, SHM_CLOSE_EV_PENDING, SHM_CLOSE_WAIT },
        { SHM_CLOSE_WALK, SHM_CLOSE_EV_START, SHM_CLOSE_EMPTY },
        { SHM_CLOSE_IDLE, SHM_CLOSE_EV_WAKE, SHM_CLOSE_WAIT },
        { SHM_CLOSE_WAIT, SHM_CLOSE_EV_DUE, SHM_CLOSE_EMPTY },
        { SHM_CLOSE_WAIT, SHM_CLOSE_EV_START, SHM_CLOSE_EMPTY },
};

const ShmEdges shm_close_edges = SHM_EDGES(edges);

/* Events that have no edge from the state change nothing. */
static void take_edge(ShmClose *close, ShmCloseEvent event) {
        int to = shm_edge_to(shm_close_edges, close->state, event);

        if (to >= 0)
                close->state = (ShmCloseState) to;
}

static uint64_t usec_min(uint64_t a, uint64_t b) {
        return a < b ? a : b;
}

static uint64_t usec_max(uint64_t a, uint64_t b) {
        return a > b ? a : b;
}

void shm_close_start(ShmClose *close, uint64_t now_usec) {
        close->n_starts++;
        close->wait_usec = WAIT_MIN_USEC;
        if (close->state != SHM_CLOSE_WALK) /* which goes on to EMPTY by itself */
                take_edge(close, SHM_CLOSE_EV_START);
        close->round_usec = close->state == SHM_CLOSE_EMPTY ? now_usec : close->round_usec;
}

void shm_close_wake(ShmClose *close, uint64_t now_usec) {
        uint64_t at = usec_max(close->walked_usec + close->rest_usec, now_usec);

        close->woken = true;
        if (close->state == SHM_CLOSE_WAIT)
                close->due_usec = usec_min(close->due_usec, at);
        if (close->state == SHM_CLOSE_IDLE) {
                close->due_usec = at;
                close->wait_usec = WAIT_MIN_USEC; /* as after a start: the round may find pending threads */
        }
        take_edge(close, SHM_CLOSE_EV_WAKE);
}

bool shm_close_is_ready(const ShmClose *close, bool emptied, uint64_t now_usec) {
        if (close->state == SHM_CLOSE_EMPTY)
                return emptied; /* records that are not empty then wait for their threads */
        if (close->state == SHM_CLOSE_WAIT)
                return now_usec >= close->due_usec;
        if (close->state == SHM_CLOSE_COLLECT)
                return now_usec >= close->fence_usec;
        return close->state != SHM_CLOSE_IDLE;
}

uint64_t shm_close_due(const ShmClose *close, uint64_t emptied_usec) {
        switch (close->state) {
        case SHM_CLOSE_EMPTY:
                return emptied_usec;
        case SHM_CLOSE_COLLECT:
                return close->fence_usec;
        case SHM_CLOSE_WAIT:
                return close->due_usec;
        default:
                return UINT64_MAX;
        }
}

/* Whether a thread that the last round waited for has left its operation. */
static bool has_moved_on(const ShmClose *close, ShmActor *control, const ShmFreeze *freeze) {
        uint32_t n_waiting;

        (void) shm_freeze_left(control, freeze, close->id, &n_waiting);
        return n_waiting < close->n_pending;
}

/*
 * Whether a round that starts now may see more than the last one did, though no thread has moved on. This may be so
 * again and again: such a round begins only after the rest.
 */
static bool may_see_more(const ShmClose *close) {
        return close->n_pending == 0 || close->revoke.kept > 0 || close->unfenced || close->woken;
}

/* Sets the time of the next look. Each wait is longer than the one before. */
static void wait_longer(ShmClose *close, uint64_t now_usec) {
        uint64_t limit = close->n_pending > 0 ? WAIT_MAX_USEC : KEPT_MAX_USEC;

        close->due_usec = now_usec + close->wait_usec;
        close->wait_usec = usec_min(close->wait_usec * 2, limit);
}

static void end_wait(ShmClose *close, ShmActor *control, const ShmFreeze *freeze, uint64_t now_usec) {
        if (!has_moved_on(close, control, freeze)) {
                wait_longer(close, now_usec);
                if (!may_see_more(close) || now_usec < close->walked_usec + close->rest_usec)
                        return;
        }
        close->round_usec = now_usec;
        take_edge(close, SHM_CLOSE_EV_DUE);
}

static void begin_round(ShmClose *close, ShmActor *control, const ShmFreeze *freeze) {
        ShmEpochInfo info = {};
        uint32_t n_waiting;

        (void) shm_epoch_get(control->arena, close->id, &info);
        close->era = info.era;
        close->open = info.state == SHM_EPOCH_OPEN;
        close->round_starts = close->n_starts;
        close->woken = close->unfenced = false;
        close->revoke = (ShmRevoke){};
        close->n_pending = shm_freeze_left(control, freeze, close->id, &n_waiting);
        close->walk = (ShmDrain){ .epoch = close->id,
                                  .final = close->n_pending == 0 && !shm_repair_wanted(control->arena) };
        take_edge(close, shm_epoch_revoking(control->arena, close->id, &close->revoke.eras)
                                 ? SHM_CLOSE_EV_REVOKES
                                 : SHM_CLOSE_EV_EMPTIED);
}

static void close_mark_objects(ShmClose *close, ShmActor *control) {
        uint64_t before = close->revoke.objects;
        bool done = shm_revoke_mark(control, &close->revoke, MARK_SLABS);

        close->objects += close->revoke.objects - before;
        if (!done)
                return;
        close->unfenced = !shm_freeze_fence(control, &close->fence_usec);
        take_edge(close, close->unfenced ? SHM_CLOSE_EV_UNFENCED : SHM_CLOSE_EV_MARKED);
}

static void close_collect_slots(ShmClose *close, ShmActor *control, ShmReach *reach) {
        uint32_t budget = CHECK_BUDGET;

        if (!shm_revoke_collect(control, &close->revoke, reach, &budget))
                return;
        if (close->walk.final && close->revoke.kept == 0)
                shm_epoch_set_revoked(control->arena, &close->revoke.eras);
        take_edge(close, SHM_CLOSE_EV_COLLECTED);
}

static void close_end_round(ShmClose *close, uint64_t now_usec) {
        bool settled = close->walk.final && close->revoke.kept == 0 && !close->unfenced;

        close->walked = close->walk;
        close->n_rounds++;
        close->n_walked = close->round_starts;
        close->walked_usec = now_usec;
        close->rest_usec =
                usec_min(usec_max((now_usec - close->round_usec) * REST, REST_MIN_USEC), REST_MAX_USEC);
        if (settled)
                close->n_settled = close->round_starts;
        close->round_usec = now_usec;
        if (close->n_starts > close->round_starts) {
                take_edge(close, SHM_CLOSE_EV_START);
        } else if (!settled) {
                wait_longer(close, now_usec);
                if (close->n_pending == 0)
                        close->due_usec = usec_max(close->due_usec, now_usec + close->rest_usec);
                take_edge(close, SHM_CLOSE_EV_PENDING);
        } else {
                take_edge(close, SHM_CLOSE_EV_WALKED);
                if (close->woken)
                        shm_close_wake(close, now_usec);
        }
}

/* Whether no era was opened or closed since the round began. */
static bool is_same(const ShmClose *close, const ShmArena *arena) {
        ShmEpochInfo info;

        return shm_epoch_get(arena, close->id, &info) == 0 && info.era == close->era &&
               (info.state == SHM_EPOCH_OPEN) == close->open;
}

static void close_walk_slabs(ShmClose *close, ShmActor *control, uint64_t now_usec) {
        uint64_t before = close->walk.reclaimed_size;
        uint32_t split_before = close->walk.splits.n;
        bool done;

        close->walk.final &= is_same(close, control->arena);
        done = shm_drain_step(control, &close->walk, WALK_SLABS);
        close->reclaimed_size += close->walk.reclaimed_size - before;
        close->n_split += close->walk.splits.n - split_before;
        if (done)
                close_end_round(close, now_usec);
}

void shm_close_step(ShmClose *close, ShmActor *control, const ShmFreeze *freeze, ShmReach *reach,
                    uint64_t now_usec) {
        switch (close->state) {
        case SHM_CLOSE_EMPTY:
                begin_round(close, control, freeze);
                break;
        case SHM_CLOSE_MARK:
                close_mark_objects(close, control);
                break;
        case SHM_CLOSE_COLLECT:
                close_collect_slots(close, control, reach);
                break;
        case SHM_CLOSE_WALK:
                close_walk_slabs(close, control, now_usec);
                break;
        case SHM_CLOSE_WAIT:
                end_wait(close, control, freeze, now_usec);
                break;
        default:
                break;
        }
}
