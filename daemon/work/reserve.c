/*
 * The reserve
 *
 * Purpose: keeps free slabs with pages, ahead of demand.
 *
 * Invariants
 *   1. header->n_free is a hint that clients keep up to date by adding and subtracting. The daemon corrects it by
 *      adding the difference, so that no concurrent change is lost.
 *   2. A client wakes the daemon when n_free falls below reserve_low. So the daemon sets reserve_low below the number
 *      of free slabs, or fills the reserve without a wake.
 *   3. Before each commit the daemon asks the cgroups how much memory they leave, and publishes the answer for
 *      clients.
 *
 * Who may do what: the daemon writes reserve_low and commit_allowance; all processes add to n_free.
 *
 * Crash: n_free may be off; the next daemon counts anew.
 */
#include "daemon/work/reserve.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/cgroup.h"
#include "daemon/log.h"
#include "daemon/message-id.h"
#include "daemon/task.h"
#include "proto/deadline.h"
#include "shm/slab/free-count.h"
#include "shm/slab/pages.h"

#define HIGH_MIN 256U
#define HIGH_MAX 4096U
#define LOW_ASLEEP SHM_COMMIT_RUN_MAX /* the first run of slabs that a client takes falls below it */
#define FILL_SLICE 128U /* slabs */
#define SOON_USEC (PROTO_USEC_PER_SEC / 10)
#define IDLE_USEC (10 * PROTO_USEC_PER_SEC)
#define COUNT_SLICE 4096U /* budget of a slice: see shm/slab/slab-walk.h */

struct Reserve {
        Pool *pool;
        Task task;
        uint32_t high;
        bool filling;
        bool asleep;
        bool failed; /* no memory; the next tick tries again */
        bool failure_logged;
        bool counting;
        ShmFreeCount count;
        uint64_t woken_usec;
};

static uint32_t high_mark_min(const Reserve *reserve) {
        uint32_t n = reserve->pool->arena.n_slabs / 4;

        return n < 1 ? 1 : n < HIGH_MIN ? n : HIGH_MIN;
}

/* Not more than the retained size, since the slabs of the reserve are idle memory when demand ends. */
static uint32_t high_mark_max(const Reserve *reserve) {
        uint64_t retain = reserve->pool->options->retain_size / SHM_SLAB_SIZE;
        uint32_t n = reserve->pool->arena.n_slabs / 4;

        n = n < HIGH_MAX ? n : HIGH_MAX;
        n = n < retain ? n : (uint32_t) retain;
        return n < high_mark_min(reserve) ? high_mark_min(reserve) : n;
}

static uint32_t low_mark(const Reserve *reserve) {
        uint32_t n = reserve->asleep ? LOW_ASLEEP : reserve->high / 4;

        return n < 1 ? 1 : n;
}

uint32_t reserve_high(const Reserve *reserve) {
        return reserve->asleep ? 0 : reserve->high;
}

uint32_t reserve_n_free(const Reserve *reserve) {
        const ShmArena *arena = &reserve->pool->arena;
        int64_t n = (int64_t) shm_hint_load(&arena->header->n_free.value);

        return n < 0 ? 0 : n < arena->n_slabs ? (uint32_t) n : arena->n_slabs;
}

static void publish_low(const Reserve *reserve) {
        /* ORDER: rlx; clients may see it late. */
        shm_store_rlx(&reserve->pool->arena.header->reserve_low.value, low_mark(reserve));
}

/*
 * Returns the allowance in slabs; INT64_MAX: no limit. Where it cannot be found for want of descriptors, the one that
 * is left of the last look stays.
 */
static int64_t publish_allowance(const Reserve *reserve) {
        uint64_t *allowance = &reserve->pool->arena.header->commit_allowance.value;
        int64_t headroom = cgroup_headroom("");

        if (headroom < 0)
                headroom = (int64_t) shm_hint_load(allowance) < 0 ? 0 : (int64_t) shm_hint_load(allowance);
        else if (headroom != INT64_MAX)
                headroom /= (int64_t) SHM_SLAB_COST;
        shm_hint_store(allowance, (uint64_t) (headroom < SHM_ALLOWANCE_MAX ? headroom : SHM_ALLOWANCE_MAX));
        return headroom;
}

static void fail_filling(Reserve *reserve, ShmShortage shortage) {
        static const char *const reasons[] = {
                [SHM_SHORTAGE_POOL] = "the pool is full",
                [SHM_SHORTAGE_LIMIT] = "the memory limit of a cgroup is reached, but for 8 MiB",
                [SHM_SHORTAGE_SYSTEM] = "the system has no memory",
        };

        reserve->filling = false;
        reserve->failed = true;
        if (!reserve->failure_logged)
                log_fields(LOG_WARNING, (LogFields){ .message = MESSAGE_OUT_OF_MEMORY },
                           "the reserve could not be filled: %s", reasons[shortage]);
        reserve->failure_logged = true;
}

/* Commits one run of slabs, if the limits allow it. */
static void fill_some(Reserve *reserve) {
        ShmActor *actor = &reserve->pool->actor;
        int64_t allowance = publish_allowance(reserve);
        uint32_t n_free = reserve_n_free(reserve), n, done;
        int r;

        if (n_free >= reserve->high) {
                reserve->filling = false;
                reserve->failure_logged = false;
                return;
        }
        n = reserve->high - n_free;
        n = n < FILL_SLICE ? n : FILL_SLICE;
        if ((int64_t) n > allowance)
                n = (uint32_t) allowance;
        if (n == 0) {
                fail_filling(reserve, shm_pages_shortage_at_limit(actor->arena));
                return;
        }
        shm_actor_enter(actor);
        r = shm_pages_commit(actor, n, &done);
        shm_actor_leave(actor);
        if (r < 0)
                fail_filling(reserve, actor->shortage);
}

/*
 * The set of free slabs is a hint: the slab words tell which slabs are FREE. A count that was not quiet is taken all
 * the same: its error is small, and the next tick counts anew.
 */
static void count_some(Reserve *reserve) {
        ShmArena *arena = &reserve->pool->arena;

        if (!shm_free_count_step(&reserve->count, arena, pool_slice(reserve->pool, COUNT_SLICE)))
                return;
        shm_free_count_end(&reserve->count, arena);
        reserve->counting = false;
        reserve_check(reserve);
}

static uint64_t on_reserve_slice(void *userdata, uint64_t now) {
        Reserve *reserve = userdata;

        if (reserve->filling)
                fill_some(reserve);
        if (reserve->counting)
                count_some(reserve);
        return reserve->filling || reserve->counting ? 0 : TASK_IDLE;
}

static void begin_filling(Reserve *reserve) {
        reserve->filling = true;
        task_wake(&reserve->task);
}

static void begin_counting(Reserve *reserve) {
        shm_free_count_begin(&reserve->count, &reserve->pool->arena, SHM_SET_FREE);
        reserve->counting = true;
        task_wake(&reserve->task);
}

void reserve_check(Reserve *reserve) {
        if (reserve->asleep || reserve->failed || reserve->filling ||
            reserve_n_free(reserve) >= low_mark(reserve))
                return;
        begin_filling(reserve);
}

void reserve_notify(Reserve *reserve) {
        uint64_t now = proto_now_usec();

        if (reserve_n_free(reserve) >= low_mark(reserve))
                return;
        if (now - reserve->woken_usec < SOON_USEC && !reserve->filling &&
            reserve->high * 2 <= high_mark_max(reserve))
                reserve->high *= 2;
        reserve->woken_usec = now;
        reserve->asleep = false;
        publish_low(reserve);
        reserve_check(reserve);
}

void reserve_sleep(Reserve *reserve) {
        reserve->asleep = true;
        reserve->filling = false;
        reserve->high = high_mark_min(reserve);
        publish_low(reserve);
}

void reserve_tick(Reserve *reserve) {
        (void) publish_allowance(reserve);
        reserve->failed = false;
        if (proto_now_usec() - reserve->woken_usec > IDLE_USEC && reserve->high / 2 >= high_mark_min(reserve))
                reserve->high /= 2;
        publish_low(reserve);
        if (!reserve->counting)
                begin_counting(reserve);
}

int reserve_new(Reserve **ret_reserve, Pool *pool) {
        Reserve *reserve = calloc(1, sizeof(*reserve));

        if (!reserve)
                return -ENOMEM;
        reserve->pool = pool;
        reserve->high = high_mark_min(reserve);
        task_init(&reserve->task, pool->tasks, "reserve", on_reserve_slice, reserve);
        publish_low(reserve);
        begin_filling(reserve);
        *ret_reserve = reserve;
        return 0;
}

Reserve *reserve_free(Reserve *reserve) {
        if (!reserve)
                return NULL;
        task_deinit(&reserve->task);
        free(reserve);
        return NULL;
}
