/*
 * Control work of private pools
 *
 * Purpose: closing epochs and giving memory back, by the processes that use the pool.
 *
 * Invariants
 *   1. The owner of control work (shm/owner/owner.h) does it, with record 0 for intents.
 *   2. Nobody waits for another process: a thread that does not become the owner returns -EBUSY, or leaves drained
 *      slabs to the owner, which looks at n_drained after it has ended its work. It takes control work over from an
 *      owner that is gone, and goes on where that one left.
 *   3. Maps are swept last, in slices. After each slice the lock is free for as long, for others' control work and for
 *      calls that delete expired entries. The place of a sweep is in the arena: each process that waits for its end
 *      goes on from there. A call that came to delete entries does a slice of the sweep instead, if one is due:
 *      otherwise such calls, of several processes, would have the lock all the time.
 *
 * Who may do what: see 1. Threads of one process wait for each other.
 *
 * Crash: the next thread that wants to do control work takes it over. If a process dies between two slices, there is no
 *   owner: the sweep stays where it is until a process wants another sweep, or calls tslab_reap().
 */
#include "libclient/host/control.h"

#include <errno.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "libclient/pool/enter.h"
#include "libclient/pool/attach.h"
#include "proto/deadline.h"
#include "shm/keeper/decay.h"
#include "shm/keeper/drained.h"
#include "shm/maintain/maintain.h"
#include "shm/cache/object.h"
#include "shm/slab/free-count.h"
#include "shm/slab/pages.h"
#include "shm/slab/set.h"
#include "shm/arena/clock.h"
#include "shm/owner/owner.h"
#include "shm/owner/thread.h"
#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch-open.h"

#define CLOSE_WAIT_USEC 200000
#define CLOSE_SLICE_USEC 200
#define SPIN_USEC 20
#define SPIN_TICKS 1000
#define IDLE_MOMENT_USEC 1000
#define IDLE_WAIT_USEC (2 * SHM_STORES_USEC)
#define THAW_EVERY_MSEC 2 /* a freeze may stay, for example if membarrier fails */
#define SWEEP_SLICE_USEC 1000
#define SWEEP_STALE_USEC 1000000 /* a slice follows another sooner than that, unless its process has died */
#ifdef SHM_STEP
#define SWEEP_ENTRIES 1
#else
#define SWEEP_ENTRIES 256 /* looked at between two looks at the clock */
#endif
#define OWNER_LOOK_USEC 1000
#define OWNER_WAIT_USEC 10000 /* another thread of this process works: we are woken, unless it ends */
#define TRIM_MAX 256 /* slabs dropped at a time, so that a free that trims is not long */

/* In the memory of PoolLocal, behind the threads' states. Only the first pages of an engine are used by most calls. */
typedef struct ControlWork {
        ShmActor control; /* record 0, while a thread of this process owns control work */
        ShmMaintain engine;
} ControlWork;

/* The number of sweeps that anybody has asked for. */
static uint64_t sweeps_asked(const struct tslab *pool) {
        const ShmHeader *header = pool->arena.header;

        /* ORDER: rlx; the owner's, but for maps made anew, which can wait. ORDER: rlx; as the other. */
        return shm_load_rlx(&header->sweeps.asked) + shm_load_rlx(&header->n_miscounts);
}

size_t control_size(void) {
        return sizeof(ControlWork);
}

static ControlWork *control_work(const struct tslab *pool) {
        return (ControlWork *) ((uint8_t *) pool->local + pool->local_size - sizeof(ControlWork));
}

/* Record 0, for a thread of this process, on which a stack of little room has no place. */
static ShmActor *control_init(struct tslab *pool) {
        ShmActor *control = &control_work(pool)->control;

        shm_actor_init_daemon(control, &pool->arena);
        control->process = pool->local->client + 1;
        return control;
}

/* It is as the last owner in this process left it: a mapping of its own each time costs as much as a short close. */
static ShmMaintain *maintain_begin(ShmActor *control) {
        ShmMaintain *m = &((ControlWork *) control)->engine;

        shm_maintain_init(m, control);
        m->sweeps_later = true;
        return m;
}

/* The memory of a check, 400 KiB, does not stay in each process that ever made such a call. */
static void maintain_end(ShmMaintain *m) {
        uint64_t *asked = &m->control->arena->header->sweeps.asked;
        uintptr_t begin = ((uintptr_t) &m->reach + SHM_SLAB_SIZE - 1) / SHM_SLAB_SIZE * SHM_SLAB_SIZE;
        uintptr_t end = (uintptr_t) (&m->reach + 1) / SHM_SLAB_SIZE * SHM_SLAB_SIZE;

        /* ORDER: rlx; the owner's alone. */
        shm_store_rlx(asked, shm_load_rlx(asked) + m->sweeps.asked);
        if (m->reach_was_used && begin < end)
                (void) madvise((void *) begin, end - begin, MADV_DONTNEED);
}

/* To sleep takes four times as long as the shortest wait, in which most threads end their operation. */
static void wait_for_threads(uint64_t usec) {
        if (usec > SPIN_USEC) {
                const uint64_t slice_usec = usec < CLOSE_SLICE_USEC ? usec : CLOSE_SLICE_USEC;
                const struct timespec slice = { .tv_nsec = (long) slice_usec * 1000 };

                nanosleep(&slice, NULL);
        } else {
                uint64_t end = proto_deadline(usec);

                while (proto_deadline_left(end) > 0)
                        shm_pause(SPIN_TICKS);
        }
}

/*
 * Runs until there is nothing to do, or until only threads are left that stay inside a call: they end the freeze
 * themselves. `brief`: nor does it wait for the millisecond after which a freeze sees threads of other processes.
 */
static void maintain_run(ShmMaintain *m, uint64_t wait_usec, bool brief) {
        uint64_t now = proto_now_usec(), end = now + wait_usec, next;

        while ((next = shm_maintain_step(m, now)) != SHM_MAINTAIN_IDLE) {
                if (next > now && (now >= end || (brief && shm_freeze_waits_for_time(&m->freeze))))
                        break;
                if (next > now)
                        wait_for_threads(next - now);
                now = proto_now_usec();
        }
}

/* Ends control work. `left`: some of it is undone, and the next owner takes it up first. */
static void control_unlock(struct tslab *pool, bool left) {
        shm_owner_release(&pool->arena, left);
        /* ORDER: sc, pairs with take_control(); a thread that met an owner had drained its slab before. */
        shm_fence_sc();
}

/*
 * Whether the owner is gone. Calls that leave their work to others ask the kernel only if the same owner was there a
 * while ago, since that takes 20 us.
 */
static bool owner_is_gone(struct tslab *pool, uint64_t owner, bool wait, uint32_t tid) {
        PoolLocal *local = pool->local;
        uint64_t now = proto_now_usec();

        if (!wait && shm_hint_load(&local->busy_owner) != owner) {
                shm_hint_store(&local->busy_owner, owner);
                shm_hint_store(&local->busy_usec, now + OWNER_LOOK_USEC);
                return false;
        }
        if (!wait && now < shm_hint_load(&local->busy_usec))
                return false;
        shm_hint_store(&local->busy_usec, now + OWNER_LOOK_USEC);
        return shm_owner_is_gone(&pool->arena, owner, local->client, tid);
}

/* Becomes the owner. *ret_left: the last one left work undone. -EBUSY. */
static int take_control(struct tslab *pool, bool wait, bool *ret_left) {
        uint32_t client = pool->local->client, tid = lock_own_number();

        /* ORDER: sc, pairs with control_unlock(); a slab that it drained is counted before it meets an owner. */
        shm_fence_after_rmw();
        for (;;) {
                uint64_t word = shm_owner_load(&pool->arena);
                ShmOwnerState state = shm_owner_state(word);

                if (state != SHM_OWNER_HELD || owner_is_gone(pool, word, wait, tid)) {
                        *ret_left = state != SHM_OWNER_FREE;
                        if (shm_owner_take(&pool->arena, word, client, tid))
                                return 0;
                } else if (wait && shm_owner_client(word) == client) {
                        shm_owner_wait(&pool->arena, word, OWNER_WAIT_USEC);
                } else {
                        return -EBUSY;
                }
        }
}

/* Goes on after an owner that did not end its work: ends its unfinished step, repairs, revokes, walks. */
static void take_up(struct tslab *pool, ShmActor *control, bool wait) {
        ShmMaintain *m = maintain_begin(control);
        ShmRepairCounts counts;

        /* If the owner died in a slice, its sweep does not know which entries it took out: it begins anew. */
        control->arena->header->sweeps.sweep = (ShmMapSweep){};
        (void) shm_maintain_take_over(m, proto_now_usec(), &counts);
        maintain_run(m, wait ? CLOSE_WAIT_USEC : 0, false);
        maintain_end(m);
        pool->local->recount = true;
}

int control_begin(struct tslab *pool, bool wait, ShmActor **ret_control) {
        ShmActor *control;
        bool left;
        int r;

        r = take_control(pool, wait, &left);
        if (r)
                return r;
        control = control_init(pool);
        if (left)
                take_up(pool, control, wait);
        pool->local->recount |= shm_repair_wanted(&pool->arena);
        pool->local->sweeps_before =
                left ? UINT64_MAX : sweeps_asked(pool); /* it may have left one of maps, too */
        *ret_control = control;
        return 0;
}

void control_thread_ends(struct tslab *pool) {
        if (shm_load_rlx(&pool->local->attached) && /* ORDER: rlx; this thread's calls are over. */
            shm_owner_is(shm_owner_load(&pool->arena), pool->local->client, lock_own_number()))
                control_unlock(pool, true);
}

static void look_and_run(ShmMaintain *m, uint64_t wait_usec, bool brief) {
        shm_maintain_look(m, true, proto_now_usec());
        maintain_run(m, wait_usec, brief);
}

/*
 * Empties caches of threads, in any process of the pool, that did nothing since the last look, if it is time for the
 * next one. `now`: those of threads that do nothing for a moment.
 */
static void empty_idle_caches(struct tslab *pool, bool now) {
        const struct timespec moment = { .tv_nsec = IDLE_MOMENT_USEC * 1000 };
        ShmActor *control = &control_work(pool)->control;
        ShmIdle *idle = &pool->local->idle;
        ShmMaintain *m;

        if (!now && !shm_idle_is_due(idle, proto_now_usec()))
                return;
        m = maintain_begin(control);
        m->idle = idle;
        for (int i = 0; i < (now ? 2 : 1); i++) {
                if (i > 0)
                        nanosleep(&moment, NULL);
                if (now)
                        shm_hint_store(&idle->due_usec, 0);
                if (shm_maintain_empty_idle(m, proto_now_usec()))
                        maintain_run(m, IDLE_WAIT_USEC, false);
        }
        maintain_end(m);
        if (pool->local->recount)
                pool->local->recount = !shm_free_recount(&pool->arena);
        shm_decay_trim(&pool->local->decay, control, pool->retain, UINT32_MAX);
}

/* By the clock that all time namespaces share. If somebody sets it, one map is begun anew. */
bool control_sweep(ShmActor *control) {
        ShmMapSweeps *place = &control->arena->header->sweeps, sweeps;
        uint64_t end = proto_deadline(SWEEP_SLICE_USEC), rested;

        shm_racy_copy(&sweeps, place, sizeof(sweeps));
        rested = shm_now_usec() - sweeps.moved_usec;
        if (rested < SWEEP_SLICE_USEC || !shm_map_sweeps_due(control->arena, &sweeps))
                return false;
        /*
         * The walk of a map compares its count with the mean of the totals before and after. That is wrong after a long
         * stop, so the walk of that map begins again.
         */
        if (rested > SWEEP_STALE_USEC)
                shm_map_sweep_begin_map(&sweeps.sweep);
        do
                shm_map_sweeps_step(control, &sweeps, SWEEP_ENTRIES);
        while (proto_now_usec() < end && shm_map_sweeps_due(control->arena, &sweeps));
        sweeps.moved_usec = shm_now_usec();
        *place = sweeps;
        return true;
}

/* Others' control work comes between slices. If it takes too long, the rest is left. */
static void sweep_rest(struct tslab *pool, uint64_t asked, uint32_t miscounts) {
        const struct timespec rest = { .tv_nsec = SWEEP_SLICE_USEC * 1000 };
        uint64_t deadline = proto_deadline(CLOSE_WAIT_USEC);
        ShmActor *control;
        bool done = false;

        while (!done && proto_deadline_left(deadline) > 0) {
                nanosleep(&rest, NULL);
                if (control_begin(pool, true, &control) < 0)
                        continue;
                (void) control_sweep(control);
                done = shm_map_sweeps_ended(&pool->arena.header->sweeps, asked, miscounts);
                control_unlock(pool, false);
                pool_run_deferred(pool);
                deadline = proto_deadline(CLOSE_WAIT_USEC);
        }
}

static void end_control(struct tslab *pool, bool all) {
        uint32_t miscounts;
        uint64_t asked;
        bool done = true;

        shm_map_count_again(&pool->arena, shm_now_usec() / 1000);
        /* ORDER: rlx; the owner's alone. */
        asked = shm_load_rlx(&pool->arena.header->sweeps.asked);
        miscounts = shm_map_miscounts(&pool->arena);
        if (all || sweeps_asked(pool) != pool->local->sweeps_before) {
                (void) control_sweep(&control_work(pool)->control);
                done = shm_map_sweeps_ended(&pool->arena.header->sweeps, asked, miscounts);
        }
        empty_idle_caches(pool, all);
        control_unlock(pool, false);
        pool_run_deferred(pool);
        if (!done)
                sweep_rest(pool, asked, miscounts);
}

void control_end(struct tslab *pool) {
        end_control(pool, false);
}

void control_end_all(struct tslab *pool) {
        end_control(pool, true);
}

static void run_all(ShmActor *control, uint64_t wait_usec) {
        ShmMaintain *m = maintain_begin(control);

        look_and_run(m, wait_usec, false);
        maintain_end(m);
}

void control_run_all(ShmActor *control) {
        run_all(control, CLOSE_WAIT_USEC);
}

/* By the owner of control work. Nobody waits: the freeze of idle threads is looked at again once its time has come. */
static void empty_idle_later(struct tslab *pool, ShmActor *control, uint64_t now) {
        ShmMaintain *m = maintain_begin(control);

        m->idle = &pool->local->idle;
        look_and_run(m, 0, true);
        shm_hint_store(&pool->local->again_usec, m->freeze.n_left > 0 ? now + SHM_STORES_USEC : 0);
        maintain_end(m);
}

static void give_back_in_call(struct tslab *pool, bool idle, uint64_t now) {
        ShmActor *control;

        if (control_begin(pool, false, &control) < 0)
                return;
        if (idle)
                empty_idle_later(pool, control, now);
        shm_decay_trim(&pool->local->decay, control, pool->retain, TRIM_MAX);
        control_unlock(pool, false);
        pool_run_deferred(pool);
}

/* So that caches of idle threads, and slabs that maps gave back, do not wait for a control call. */
void control_calls(struct tslab *pool) {
        uint64_t now = proto_now_usec(), again = shm_hint_load(&pool->local->again_usec);
        bool idle = (again != 0 && now >= again) || shm_idle_is_due(&pool->local->idle, now);

        if (!idle && !shm_decay_is_due(&pool->local->decay, &pool->arena, pool->retain))
                return;
        if (pool_begin(pool) < 0)
                return;
        give_back_in_call(pool, idle, now);
        pool_end(pool);
}

void control_drained(struct tslab *pool) {
        ShmActor *control;

        if (pool_begin(pool) < 0)
                return;
        if (pool_attach(pool) < 0) {
                pool_end(pool);
                return;
        }
        /* A thread whose slab drained meanwhile may have met us as the owner. */
        do {
                if (control_begin(pool, false, &control) < 0)
                        break;
                shm_drained_walk(control);
                control_unlock(pool, false);
                /* ORDER: rlx; after the fence in control_unlock(). */
        } while (shm_load_rlx(&pool->arena.header->n_drained.value) != 0);
        pool_end(pool);
}

static int close_epoch(ShmArena *arena, uint32_t epoch, uint32_t flags) {
        return flags & TSLAB_CLOSE_REVOKE ? shm_epoch_revoke(arena, epoch, flags & TSLAB_CLOSE_OLDER)
                                          : shm_epoch_close(arena, epoch, true);
}

int control_close(ShmActor *control, uint32_t epoch, uint32_t flags, bool brief) {
        ShmMaintain *m = maintain_begin(control);
        int r;

        r = close_epoch(control->arena, epoch, flags);
        if (r == -EBUSY) { /* the caller's time limit does not cover revocations that an earlier call left */
                look_and_run(m, CLOSE_WAIT_USEC, false);
                r = close_epoch(control->arena, epoch, flags);
        }
        if (r == 0) {
                (void) shm_maintain_close(m, epoch & 0xff, proto_now_usec());
                look_and_run(m, CLOSE_WAIT_USEC, brief && !(flags & TSLAB_CLOSE_REVOKE));
        }
        maintain_end(m);
        return r;
}

bool control_reap_threads(struct tslab *pool) {
        ShmActor *control;
        uint32_t n, position = 1;

        if (control_begin(pool, false, &control) < 0)
                return false;
        n = shm_threads_mark_gone(&pool->arena, &position, UINT32_MAX);
        pool->local->recount |= n > 0;
        n += shm_repair_wanted(&pool->arena); /* threads that ended inside a call are marked already */
        n += !shm_freeze_is_over(&pool->arena);
        run_all(control, 0);
        control_end(pool);
        return n > 0;
}

void control_thaw(struct tslab *pool, const ThreadState *thread) {
        uint64_t *last = &pool->local->thawed_msec, msec = proto_now_usec() / 1000 + 1;
        ShmActor *control;

        if (shm_freeze_is_early(&pool->arena, thread->actor.id) || pool_begin(pool) < 0)
                return;
        /* ORDER: rlx; two at once do no harm. */
        if (msec - shm_load_rlx(last) >= THAW_EVERY_MSEC && control_begin(pool, false, &control) == 0) {
                shm_store_rlx(last, msec); /* ORDER: rlx; see above. */
                run_all(control, 0);
                control_end(pool);
        }
        pool_end(pool);
}

static void slab_freed(struct tslab *pool, uint32_t slab) {
        bool due = shm_drained_is_due(&pool->arena, slab);
        ShmActor *control;

        if ((!due && !shm_decay_is_due(&pool->local->decay, &pool->arena, pool->retain)) ||
            control_begin(pool, false, &control) < 0)
                return;
        if (due && shm_drained_is_due(&pool->arena, slab))
                shm_drained_drop(control, slab);
        shm_decay_trim(&pool->local->decay, control, pool->retain, TRIM_MAX);
        control_unlock(pool, false); /* and no caches of idle threads are emptied: a free is short */
        pool_run_deferred(pool);
}

void control_slab_freed(struct tslab *pool, uint32_t slab) {
        if (pool_begin(pool) < 0)
                return;
        slab_freed(pool, slab);
        pool_end(pool);
}

/*
 * Caches of threads that stay inside an operation are emptied later: shm_maintain_look() finds their freeze. Threads
 * that ended there left theirs to repair.
 */
static void empty_caches(ShmActor *control) {
        ShmMaintain *m = maintain_begin(control);

        if (shm_repair_wanted(control->arena))
                shm_maintain_repair(m);
        (void) shm_maintain_empty_caches(m, proto_now_usec());
        maintain_run(m, CLOSE_WAIT_USEC, false);
        maintain_end(m);
}

bool control_empty_caches(struct tslab *pool) {
        ShmActor *control;

        if (control_begin(pool, false, &control) < 0)
                return false;
        empty_caches(control);
        if (shm_decay_is_over(&pool->arena, pool->retain))
                (void) shm_pages_trim(control, pool->retain, UINT32_MAX);
        control_end(pool);
        return true;
}
