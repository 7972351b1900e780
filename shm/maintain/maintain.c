/*
 * The maintainer
 *
 * Purpose: closing, revoking, draining, emptying caches and repair, a piece at a time, each in its turn.
 *
 * Invariants
 *   1. All state that must outlive a maintainer is in the arena: the epoch table, freeze bits, heads of records,
 *      record 0. shm_maintain_take_over() rebuilds this engine's own state from there.
 *   2. The engine steps a freeze until no record is left to be emptied, even if an earlier maintainer began it.
 *   3. One reachability check is under way at a time.
 *   4. A step is short, even if the arena holds garbage: some slabs, some caches, some slots, or some entries.
 *
 * Who may do what: the maintainer alone.
 *
 * Crash: see the parts. Between two steps no intent of record 0 stands.
 */
#include "shm/maintain/maintain.h"

#include <string.h>

#include "shm/epoch/epoch-open.h"
#include "shm/map/entry/shortcut.h"

#define FREEZE_CACHES 8U /* a step */
#define REPAIR_BUDGET 8192U
#define SWEEP_ENTRIES 256U
#define EXPIRY_SLABS 1024U
#define EXPIRY_USEC 100000U
#define WAIT_MIN_USEC 20U /* most operations are over by then */
#define WAIT_MAX_USEC 20000U

void shm_maintain_init(ShmMaintain *m, ShmActor *control) {
        memset(m, 0, offsetof(ShmMaintain, freeze));
        shm_freeze_init(&m->freeze);
        m->control = control;
        m->freeze_wait_usec = WAIT_MIN_USEC; /* also for a freeze that is taken up */
        for (uint32_t id = 0; id < SHM_EPOCHS_MAX; id++)
                m->closes[id].id = id;
}

/* Freezing */

static void note_freeze(ShmMaintain *m, int membarrier_error, uint64_t now_usec) {
        m->membarrier_error = membarrier_error;
        m->freeze_busy = true;
        m->freeze_wait_usec = WAIT_MIN_USEC;
        m->freeze_due_usec = now_usec;
}

static void begin_freeze(ShmMaintain *m, uint64_t epochs, uint64_t now_usec) {
        note_freeze(m, shm_freeze_begin(m->control, &m->freeze, epochs), now_usec);
}

/* Whether a step of the freeze is due. It is if a close waits: its round begins after a look at all records. */
static bool freeze_is_ready(const ShmMaintain *m, uint64_t now_usec) {
        bool ready = m->freeze_busy || (m->freeze.n_left > 0 && now_usec >= m->freeze_due_usec);

        for (uint32_t id = 0; id < m->control->arena->n_epochs && !ready; id++)
                ready = m->freeze.n_left > 0 && m->closes[id].state == SHM_CLOSE_EMPTY &&
                        shm_freeze_is_due(&m->close_marks[id], now_usec);
        return ready;
}

/* If a look at all records empties none, the remaining records wait for their threads. */
static void freeze_step(ShmMaintain *m, uint64_t now_usec) {
        uint64_t before = m->freeze.n_emptied;

        (void) shm_freeze_step(m->control, &m->freeze, FREEZE_CACHES, now_usec);
        m->freeze_busy = m->freeze.n_emptied != before;
        if (m->freeze_busy) {
                m->freeze_wait_usec = WAIT_MIN_USEC;
                return;
        }
        if (m->freeze.look_usec != UINT64_MAX) { /* before that, one more look at them all is in vain */
                m->freeze_due_usec = m->freeze.look_usec;
                return;
        }
        m->freeze_due_usec = now_usec + m->freeze_wait_usec;
        m->freeze_wait_usec =
                m->freeze_wait_usec * 2 < WAIT_MAX_USEC ? m->freeze_wait_usec * 2 : WAIT_MAX_USEC;
}

uint64_t shm_maintain_empty_caches(ShmMaintain *m, uint64_t now_usec) {
        /* ORDER: acq; a client that asks after this is for the next time. */
        m->wanted = shm_load_acq(&m->control->arena->header->caches_wanted.value);
        begin_freeze(m, UINT64_MAX, now_usec);
        m->asked_mark = shm_freeze_mark(&m->freeze);
        return ++m->n_asked;
}

bool shm_maintain_empty_idle(ShmMaintain *m, uint64_t now_usec) {
        if (m->idle && shm_idle_is_due(m->idle, now_usec))
                shm_shortcut_trim(m->control);
        if (!m->idle || !shm_idle_look(m->idle, m->control->arena, now_usec))
                return false;
        note_freeze(m, shm_freeze_begin_some(m->control, &m->freeze, m->idle->found), now_usec);
        return true;
}

/*
 * Answers the clients that are out of memory and wait for caches to be emptied. True: others asked meanwhile, and the
 * work begins anew.
 */
static bool give_caches(ShmMaintain *m, uint64_t now_usec) {
        const ShmHeader *header = m->control->arena->header;

        if (m->n_given == m->n_asked || !shm_freeze_has_looked(&m->freeze, &m->asked_mark, now_usec))
                return false;
        m->n_given = m->n_asked;
        /* ORDER: rel, pairs with ask_daemon(); the slots are back in their slabs. */
        shm_store_rel(&m->control->arena->header->caches_given.value, m->wanted);
        /* ORDER: acq, pairs with ask_daemon(); its number. */
        if (shm_load_acq(&header->caches_wanted.value) == m->wanted)
                return false;
        (void) shm_maintain_empty_caches(m, now_usec);
        return true;
}

/* Requests */

/* Only marking objects waits for the time of the freeze. A round before that gives pages back, and is not final. */
static void note_start(ShmMaintain *m, uint32_t id) {
        ShmRevoking revoking;

        m->close_marks[id] = shm_freeze_mark(&m->freeze);
        if (!shm_epoch_revoking(m->control->arena, id, &revoking))
                m->close_marks[id].usec = 0;
}

uint64_t shm_maintain_close(ShmMaintain *m, uint32_t id, uint64_t now_usec) {
        begin_freeze(m, UINT64_C(1) << id, now_usec);
        shm_close_start(&m->closes[id], now_usec);
        note_start(m, id);
        return m->closes[id].n_starts;
}

void shm_maintain_repair(ShmMaintain *m) {
        m->repair_again = m->repairing;
        if (m->repairing)
                return;
        m->repairing = true;
        m->repair = (ShmRepair){};
}

/* Whether slabs of the epoch are to drain: it was closed with that flag, or slabs of earlier eras are left. */
static bool close_drains_slabs(const ShmClose *close, const ShmEpochInfo *info) {
        return close->walked.n_left > 0 ||
               (info->state == SHM_EPOCH_CLOSING && info->flags & SHM_EPOCH_DRAIN);
}

static void look_at_drained(ShmMaintain *m, uint64_t now_usec) {
        const ShmArena *arena = m->control->arena;
        ShmEpochInfo info;

        /* ORDER: acqrel, pairs with shm_slab_free_slots(); a slab drained after this wakes us again. */
        if (shm_xchg_acqrel(&arena->header->n_drained.value, 0) == 0)
                return;
        for (uint32_t id = 0; id < arena->n_epochs; id++)
                if (shm_epoch_get(arena, id, &info) == 0 && close_drains_slabs(&m->closes[id], &info))
                        shm_close_wake(&m->closes[id], now_usec);
}

static void look_at_revocations(ShmMaintain *m, uint64_t now_usec) {
        ShmRevoking revoking;

        for (uint32_t id = 0; id < m->control->arena->n_epochs; id++)
                if (m->closes[id].state == SHM_CLOSE_IDLE &&
                    shm_epoch_revoking(m->control->arena, id, &revoking))
                        (void) shm_maintain_close(m, id, now_usec);
}

/* Takes up a freeze of an earlier maintainer, and the closes that may have waited for it. */
static void look_at_frozen(ShmMaintain *m, uint64_t now_usec) {
        ShmEpochInfo info;

        if (shm_freeze_resume(m->control, &m->freeze))
                for (uint32_t id = 0; id < m->control->arena->n_epochs; id++)
                        if (m->closes[id].state == SHM_CLOSE_IDLE &&
                            shm_epoch_get(m->control->arena, id, &info) == 0 &&
                            info.state == SHM_EPOCH_CLOSING && info.flags & SHM_EPOCH_DRAIN) {
                                shm_close_start(&m->closes[id], now_usec);
                                note_start(m, id);
                        }
        m->freeze_busy |= m->freeze.n_left > 0;
}

void shm_maintain_look(ShmMaintain *m, bool all, uint64_t now_usec) {
        const ShmHeader *header = m->control->arena->header;

        /* ORDER: acq, pairs with ask_daemon(); its number. */
        if (shm_load_acq(&header->caches_wanted.value) !=
                    shm_load_rlx(&header->caches_given.value) && /* ORDER: rlx; this one is ours. */
            m->n_given == m->n_asked)
                (void) shm_maintain_empty_caches(m, now_usec);
        look_at_drained(m, now_usec);
        if (!all)
                return;
        look_at_revocations(m, now_usec);
        look_at_frozen(m, now_usec);
        (void) shm_maintain_empty_idle(m, now_usec);
        if (shm_repair_wanted(m->control->arena))
                shm_maintain_repair(m);
}

/*
 * Starts closes, since the dead maintainer may not have frozen the threads, and since only a walk finds out which eras
 * have slabs left.
 */
static uint32_t start_closes(ShmMaintain *m, uint64_t now_usec) {
        const ShmArena *arena = m->control->arena;
        ShmEpochInfo info;
        uint32_t n = 0;

        for (uint32_t id = 0; id < arena->n_epochs; id++) {
                if (shm_epoch_get(arena, id, &info) || (info.state == SHM_EPOCH_OPEN && info.era == 1))
                        continue;
                (void) shm_maintain_close(m, id, now_usec);
                n += info.state == SHM_EPOCH_CLOSING && (info.flags & SHM_EPOCH_DRAIN);
        }
        return n;
}

uint32_t shm_maintain_take_over(ShmMaintain *m, uint64_t now_usec, ShmRepairCounts *ret) {
        uint32_t n;

        m->reach_was_used = true;
        shm_repair_control(m->control, &m->reach, ret);
        shm_epochs_recover(m->control->arena);
        n = start_closes(m, now_usec);
        shm_map_sweeps_ask(&m->sweeps); /* another maintainer may have died over one */
        shm_maintain_look(m, true, now_usec);
        return n;
}

/* Steps */

/* The check serves one user at a time, a close or repair, until it is over. */
static bool may_check(const ShmMaintain *m, uint32_t user) {
        return !m->reach_is_used || m->reach_user == user;
}

static void use_check(ShmMaintain *m, uint32_t user, bool uses) {
        if (uses || m->reach_user == user)
                m->reach_is_used = uses;
        if (uses)
                m->reach_user = user;
}

static void wake_waiting(ShmMaintain *m, uint64_t now_usec) {
        for (uint32_t id = 0; id < m->control->arena->n_epochs; id++)
                if (m->closes[id].state == SHM_CLOSE_WAIT || m->closes[id].walked.n_left > 0)
                        shm_close_wake(&m->closes[id], now_usec);
}

static bool repair_step(ShmMaintain *m, uint64_t now_usec) {
        uint32_t n_epochs = m->control->arena->n_epochs, budget = REPAIR_BUDGET;

        if (!m->repairing || !may_check(m, n_epochs))
                return false;
        m->reach_was_used = true;
        if (!shm_repair_step(m->control, &m->repair, &m->reach, &budget)) {
                use_check(m, n_epochs,
                          m->repair.state == SHM_REPAIR_CHECK || m->repair.state == SHM_REPAIR_SETTLE);
                return true;
        }
        use_check(m, n_epochs, false);
        m->repairing = false;
        m->n_repairs++;
        m->repaired = m->repair.counts;
        /* A slot that went back may be the last of its slab, in an epoch that was closed. */
        wake_waiting(m, now_usec);
        if (m->repair_again)
                shm_maintain_repair(m);
        return true;
}

static bool close_step(ShmMaintain *m, uint32_t id, uint64_t now_usec) {
        ShmClose *close = &m->closes[id];
        bool marked = close->state == SHM_CLOSE_MARK;

        if (!shm_close_is_ready(close, shm_freeze_has_looked(&m->freeze, &m->close_marks[id], now_usec),
                                now_usec) ||
            (shm_close_checks(close) && !may_check(m, id)))
                return false;
        m->reach_was_used |= shm_close_checks(close);
        shm_close_step(close, m->control, &m->freeze, &m->reach, now_usec);
        if (close->state == SHM_CLOSE_EMPTY)
                m->close_marks[id] = shm_freeze_mark(&m->freeze);
        use_check(m, id, shm_close_checks(close) && close->revoke.checking);
        if (marked)
                shm_repair_fence_again(&m->repair);
        if (marked && close->state != SHM_CLOSE_MARK)
                shm_map_sweeps_ask(&m->sweeps);
        return true;
}

/* While repair is under way it may find more maps that are to be counted. */
static bool sweep_step(ShmMaintain *m) {
        if (m->sweeps_later || (m->repairing && m->sweeps.asked == m->sweeps.ended) ||
            !shm_map_sweeps_due(m->control->arena, &m->sweeps))
                return false;
        shm_map_sweeps_step(m->control, &m->sweeps, SWEEP_ENTRIES);
        return shm_map_sweeps_due(m->control->arena, &m->sweeps);
}

static bool expiry_step(ShmMaintain *m, uint64_t now_usec) {
        uint64_t now_ms;

        if (!m->expires || now_usec < m->expiry_due_usec)
                return false;
        if (shm_expiry_due(m->control->arena, false, &now_ms)) {
                (void) shm_expiry_step(m->control, now_ms, EXPIRY_SLABS);
                return true;
        }
        m->expiry_due_usec = now_usec + EXPIRY_USEC;
        return false;
}

static bool has_expiring(const ShmMaintain *m) {
        /* ORDER: rlx; a writer that stores the first end wakes us after that. */
        return m->expires && shm_load_rlx(&m->control->arena->header->expiry.first) != 0;
}

/* Steps the next user in turn that has something to do. */
static bool step_one(ShmMaintain *m, uint64_t now_usec) {
        uint32_t n_epochs = m->control->arena->n_epochs, n = n_epochs + 3;

        for (uint32_t i = 0; i < n; i++) {
                uint32_t turn = (m->turn + i) % n;

                if (turn < n_epochs        ? close_step(m, turn, now_usec)
                    : turn == n_epochs     ? repair_step(m, now_usec)
                    : turn == n_epochs + 1 ? sweep_step(m)
                                           : expiry_step(m, now_usec)) {
                        m->turn = turn + 1;
                        return true;
                }
        }
        return false;
}

/* A close that does not wait for a time waits for the freeze, or for another close's check. */
static uint64_t next_time(const ShmMaintain *m, uint64_t now_usec) {
        uint64_t at = m->freeze.n_left > 0 ? m->freeze_due_usec : SHM_MAINTAIN_IDLE;

        for (uint32_t id = 0; id < m->control->arena->n_epochs; id++) {
                uint64_t due = shm_close_due(&m->closes[id], m->close_marks[id].usec);

                at = due > now_usec && due < at ? due : at;
        }
        if (has_expiring(m) && m->expiry_due_usec < at)
                at = m->expiry_due_usec;
        return at;
}

uint64_t shm_maintain_step(ShmMaintain *m, uint64_t now_usec) {
        bool any = freeze_is_ready(m, now_usec);

        if (any)
                freeze_step(m, now_usec);
        any |= step_one(m, now_usec);
        any |= give_caches(m, now_usec); /* last: a close gets its turn between two freezes */
        return any ? 0 : next_time(m, now_usec);
}
