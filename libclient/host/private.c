/*
 * Hosts: the processes of a private pool themselves
 *
 * Purpose: the calls that a daemon would serve, by control work of the calling thread.
 *
 * Invariants
 *   1. A control call does its work as the owner of control work, with record 0.
 *
 * Who may do what: see libclient/host/control.c.
 *
 * Crash: the next owner of control work finds the intents of a dead reaper in record 0, and entries that are DEAD.
 */
#include "libclient/host/private.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "libclient/pool/attach.h"
#include "libclient/pool/enter.h"
#include "libclient/host/control.h"
#include "libclient/host/private-expiry.h"
#include "proto/cgroup.h"
#include "proto/deadline.h"
#include "shm/arch/process.h"
#include "shm/arena/client.h"
#include "shm/arena/clock.h"
#include "shm/epoch/epoch-open.h"
#include "shm/keeper/huge.h"
#include "shm/keeper/reap.h"
#include "shm/map/entry/expiry.h"
#include "shm/map/state/options.h"
#include "shm/owner/owner.h"
#include "shm/slab/free-count.h"
#include "shm/slab/pages.h"

/*
 * Slabs that are committed between two looks at the limits, which take 50 to 100 us. The program may take memory for
 * itself meanwhile, and a thread may publish late the value that it found: so this is half of the margin.
 */
#define ALLOWANCE_MAX (CGROUP_MARGIN_SIZE / 2 / (int64_t) SHM_SLAB_COST)
#define LIMIT_LOOK_USEC 10000
#define HUGE_STEP_RANGES 64U
#define LEAVE_WAIT_USEC 200000
#define LEAVE_SLICE_USEC 200

/*
 * In slabs. The look opens files, which are cancellation points, but the thread is inside an operation. A program that
 * has no descriptor left for it gets no memory, unless there was no limit when it had one.
 */
static int64_t look_at_limits(void) {
        static uint32_t unlimited;
        int cancel_state, saved = errno;
        int64_t left;

        (void) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
        left = cgroup_headroom("");
        (void) pthread_setcancelstate(cancel_state, NULL);
        errno = saved;
        if (left >= 0)
                shm_hint_store(&unlimited, left == INT64_MAX);
        else
                left = shm_hint_load(&unlimited) ? INT64_MAX : 0;
        return left / (int64_t) SHM_SLAB_COST;
}

/*
 * Half of the room that is left, as a thread may come between another one's look and its commits, and the program needs
 * memory of its own. At the limit, threads that find no memory do not look each time.
 */
static int64_t find_allowance(void) {
        static uint64_t short_usec; /* when too little was left */
        uint64_t now = proto_now_usec();
        int64_t left;

        if (now - shm_hint_load(&short_usec) < LIMIT_LOOK_USEC)
                return 0;
        left = look_at_limits() / 2;
        if (left < SHM_COMMIT_RUN_MAX)
                shm_hint_store(&short_usec, now);
        return left < ALLOWANCE_MAX ? left : ALLOWANCE_MAX;
}

void private_limit_memory(ShmArena *arena) {
        arena->find_allowance = find_allowance;
        shm_hint_store(&arena->header->commit_allowance.value, 0);
}

static uint64_t pid_namespace(void) {
        struct stat st;

        return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

static bool is_of_pool_namespace(struct tslab *pool) {
        if (pool->pid_namespace == 0)
                pool->pid_namespace = pid_namespace(); /* the pool's first process */
        return pool->pid_namespace == pid_namespace();
}

/*
 * Without /proc, as in a chroot, and in another pid namespace than that of the pool's first process, the start time
 * stays 0: not known. There our number would be another process's for others. A shortage that may pass is an error:
 * nobody would ever find out that this process died.
 */
static int private_join(struct tslab *pool, uint32_t *ret_client) {
        ShmClientInfo info = { .pid = getpid(), .uid = getuid(), .gid = getgid() };
        ShmProcess process = {};
        int r;

        r = shm_process_look(info.pid, &process);
        if (r == -EMFILE || r == -ENFILE || r == -ENOMEM)
                return r;
        if (is_of_pool_namespace(pool)) {
                info.start_time = process.start_time;
                info.program = process.program;
        }
        info.attached_usec = shm_now_usec();
        strncpy(info.comm, program_invocation_short_name, sizeof(info.comm) - 1);
        r = shm_client_add(&pool->arena, &info);
        if (r)
                return r == -ENOSPC ? -EUSERS : r;
        *ret_client = info.index;
        return 0;
}

static bool has_leases(const struct tslab *pool) {
        ShmEpochInfo info;

        for (uint32_t id = 0; id < pool->arena.n_epochs; id++)
                if (shm_epoch_get(&pool->arena, id, &info) == 0 && info.owner == pool->local->client + 1)
                        return true;
        return false;
}

/* Revokes the epochs that this process leased. False: other threads did control work all the while; they stay. */
static bool end_leases(struct tslab *pool) {
        uint64_t deadline = proto_now_usec() + LEAVE_WAIT_USEC;
        const struct timespec slice = { .tv_nsec = LEAVE_SLICE_USEC * 1000 };
        ShmActor *control;

        if (!has_leases(pool))
                return true;
        while (control_begin(pool, true, &control) < 0) {
                if (proto_now_usec() >= deadline || shm_owner_stands_still(&pool->arena))
                        return false;
                nanosleep(&slice, NULL);
        }
        (void) shm_epoch_end_leases(&pool->arena, pool->local->client);
        control_run_all(control);
        control_end(pool);
        return true;
}

static bool run_left(struct tslab *pool) {
        ShmActor *control;

        if (control_begin(pool, true, &control) < 0)
                return false;
        control_run_all(control);
        control_end(pool);
        return true;
}

static bool has_records(const struct tslab *pool) {
        for (uint32_t i = 1; i < shm_arena_n_records_ever(&pool->arena); i++) {
                ShmRecordOwner owner = shm_record_owner(&pool->arena, i);

                if (owner.state != SHM_RECORD_UNUSED && owner.client == pool->local->client)
                        return true;
        }
        return false;
}

/*
 * Repairs threads that ended inside a call, or while frozen. False: others do control work, and repair them after our
 * end.
 */
static bool repair_gone(struct tslab *pool) {
        return !has_records(pool) || (run_left(pool) && !has_records(pool));
}

/* The rest is left to tslab_reap() of others if they do control work. */
static void private_leave(struct tslab *pool) {
        bool repaired;

        pool_run_deferred(pool);
        repaired = repair_gone(pool);
        if (end_leases(pool) && repaired)
                shm_client_remove(&pool->arena, pool->local->client);
        else
                shm_client_leave(&pool->arena, pool->local->client);
}

static int epoch_call_begin(struct tslab *pool, ShmActor **ret_control) {
        int r;

        r = pool_attach(pool);
        return r ? r : control_begin(pool, true, ret_control);
}

/* Where no id is free, an epoch that is yet to be revoked, or emptied, may give one after that. */
static int find_id(ShmActor *control, int (*find)(const ShmArena *arena, uint32_t *ret), uint32_t *ret) {
        int r;

        r = find(control->arena, ret);
        if (r != -ENOSPC)
                return r;
        control_run_all(control);
        return find(control->arena, ret);
}

/* Slabs of earlier eras of the id that comes next go first: see shm_epoch_advance(). */
static int advance_here(ShmActor *control, uint32_t *ret_epoch) {
        uint32_t next;
        int r;

        r = find_id(control, shm_epoch_next, &next);
        if (r == 0 && !shm_epoch_is_drained(control->arena, next))
                r = control_close(control, next, 0, false);
        return r ? r : shm_epoch_advance(control->arena, ret_epoch);
}

static int private_advance(struct tslab *pool, uint32_t expected, uint32_t *ret_epoch) {
        ShmActor *control;
        int r;

        r = epoch_call_begin(pool, &control);
        if (r)
                return r;
        *ret_epoch = shm_epoch_current(&pool->arena);
        if (expected == 0 || expected == *ret_epoch) {
                r = advance_here(control, ret_epoch);
                r = r ? r : 1;
        }
        control_end(pool);
        return r;
}

static int private_reserve(struct tslab *pool, const char *label, bool lease, uint32_t *ret_epoch) {
        ShmActor *control;
        uint32_t spare;
        int r;

        r = epoch_call_begin(pool, &control);
        if (r)
                return r;
        r = find_id(control, shm_epoch_spare, &spare);
        if (r == 0)
                r = control_close(control, spare, 0, false);
        if (r == 0)
                r = lease ? shm_epoch_lease(&pool->arena, spare, label, pool->local->client, ret_epoch)
                          : shm_epoch_reserve(&pool->arena, spare, label, ret_epoch);
        control_end(pool);
        return r;
}

static int private_label(struct tslab *pool, uint32_t epoch, const char *label) {
        ShmActor *control;
        int r;

        r = epoch_call_begin(pool, &control);
        if (r)
                return r;
        r = shm_epoch_label(&pool->arena, epoch, label);
        control_end(pool);
        return r;
}

static int private_close(struct tslab *pool, uint32_t epoch, uint32_t flags) {
        ShmActor *control;
        int r;

        r = epoch_call_begin(pool, &control);
        if (r)
                return r;
        r = control_close(control, epoch, flags, true);
        control_end(pool);
        return r;
}

static void take_options(ShmMapOptions *ret, const struct tslab_map_options *o, uint32_t set) {
        if (set & TSLAB_MAP_SET_LIMIT)
                ret->limit_bytes = o->limit_bytes;
        if (set & TSLAB_MAP_SET_TTL)
                ret->ttl_ms = o->ttl_ms;
        if (set & TSLAB_MAP_SET_STALE)
                ret->stale_ms = o->stale_ms;
        if (set & TSLAB_MAP_SET_VALUE_MAX)
                ret->value_max = o->value_max;
        if (set & TSLAB_MAP_SET_EVICT)
                ret->evict = o->evict;
}

static int private_set_map(struct tslab *pool, ShmTrie *trie, const struct tslab_map_options *o,
                           uint32_t set) {
        ShmMapOptions options;
        ShmActor *control;
        int r;

        r = control_begin(pool, true, &control);
        if (r)
                return r;
        options = shm_map_options(trie);
        take_options(&options, o, set);
        r = shm_map_options_change(&pool->arena, trie, &options);
        control_end(pool);
        return r;
}

static void private_sweep_maps(struct tslab *pool) {
        ShmActor *control;

        if (pool_attach(pool) == 0 && control_begin(pool, true, &control) == 0)
                control_end_all(pool);
}

/* Pages that slabs lose meanwhile, and get back: the next trim finds those that others' control work leaves here. */
static void settle_huge(struct tslab *pool, ShmHuge *huge) {
        ShmActor *control;

        if (control_begin(pool, true, &control) < 0)
                return;
        (void) shm_huge_settle_step(huge, control, UINT32_MAX);
        control_end(pool);
}

/* Needs no control work, so that of others goes on. */
static void make_huge(struct tslab *pool) {
        ShmHuge huge = {};

        while (!shm_huge_step(&huge, &pool->arena, HUGE_STEP_RANGES))
                if (shm_huge_is_unsettled(&huge, &pool->arena))
                        settle_huge(pool, &huge);
}

static int private_reap(struct tslab *pool) {
        ShmActor *control;
        uint32_t n_dead;
        int r;

        r = pool_attach(pool);
        if (r == 0)
                r = control_begin(pool, true, &control);
        if (r)
                return r;
        n_dead = shm_reap_gone(&pool->arena, pool->local->client);
        /* Also if nobody is dead: an earlier pass, or an earlier maintainer, may have left slots in flight. */
        control_run_all(control);
        if (n_dead > 0) {
                /* Dead threads may have left n_free wrong: the pool would retain too much, or too little. */
                pool->local->recount = !shm_free_recount(&pool->arena);
                r = (int) shm_reap_remove(&pool->arena);
        }
        control_end_all(pool); /* the dead may have been sweeping */
        if (pool->arena.huge)
                make_huge(pool);
        return r;
}

static bool private_has_died(const struct tslab *pool, uint32_t client) {
        ShmClientInfo info;

        return shm_client_get(&pool->arena, client, &info) == 0 && shm_client_is_gone(&info);
}

static bool private_is_stale(struct tslab *pool) {
        return false;
}

static int private_control_owner(struct tslab *pool) {
        ShmClientInfo info;
        uint64_t word;

        if (pool_is_closed(pool))
                return -EBADF;
        word = shm_owner_load(&pool->arena);
        if (shm_owner_state(word) != SHM_OWNER_HELD ||
            shm_client_get(&pool->arena, shm_owner_client(word), &info) < 0)
                return 0;
        return info.pid;
}

const Host host_private = {
        .join = private_join,
        .leave = private_leave,
        .is_stale = private_is_stale,
        .thread_ends = control_thread_ends,
        .has_died = private_has_died,
        .sleep_usec = HOST_SLEEP_ALONE_USEC,
        .thaw = control_thaw,
        .calls = control_calls,
        .drained = control_drained,
        .expires = expiry_run,
        .slab_freed = control_slab_freed,
        .empty_caches = control_empty_caches,
        .delete_expired = expiry_delete,
        .reap_threads = control_reap_threads,
        .advance = private_advance,
        .reserve = private_reserve,
        .label = private_label,
        .close = private_close,
        .set_map = private_set_map,
        .sweep_maps = private_sweep_maps,
        .reap = private_reap,
        .control_owner = private_control_owner,
};
