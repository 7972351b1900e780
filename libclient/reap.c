/*
 * Reaping the records of processes that ended without closing a private pool.
 *
 * Purpose: a daemon's work after a client's death, done by the caller of tslab_reap().
 *
 * Invariants
 *   1. A process is dead when its pidfd says so, or when its pid has another start time. Where the start
 *      time is not known the process is not asked about: the pid may have been reused.
 *   2. control_owner is taken over, by compare-and-set, only from a process that is dead.
 *
 * Who may do what: see libclient/control.c.
 *
 * Crash: the next caller takes control over from a dead reaper, and finds its intents in record 0.
 */
#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libclient/control.h"
#include "libclient/enter.h"
#include "libclient/open.h"
#include "shm/arena/client.h"
#include "shm/epoch/epoch-open.h"
#include "shm/slab/free-count.h"

bool control_is_dead(const ShmClientInfo *info) {
        uint32_t start_time;
        struct pollfd p;
        bool dead;

        if (info->start_time == 0)
                return false;
        p = (struct pollfd){ .fd = (int) syscall(SYS_pidfd_open, info->pid, 0), .events = POLLIN };
        if (p.fd < 0)
                return errno == ESRCH;
        dead = poll(&p, 1, 0) > 0 && (p.revents & POLLIN);
        if (!dead && shm_process_start_time(info->pid, &start_time) == 0)
                dead = start_time != info->start_time;
        close(p.fd);
        return dead;
}

/* The owner's entry stands for as long as it holds the lock. */
static bool owner_is_dead(const struct tslab *pool, uint64_t owner) {
        uint32_t client = (uint32_t) owner - 1, start_time = (uint32_t) (owner >> 32);
        ShmClientInfo info;

        return shm_client_get(&pool->arena, client, &info) == 0 && info.start_time == start_time &&
               control_is_dead(&info);
}

bool control_owner_is_dead(const struct tslab *pool) {
        /* ORDER: acq, pairs with control_begin(); the owner's identity is set. */
        uint64_t owner = shm_load_acq(&pool->arena.header->control_owner.value);

        return owner != 0 && owner_is_dead(pool, owner);
}

/* If a process died during control work, that work is ended before any other begins. */
static int take_control(struct tslab *pool, ShmActor *ret_control) {
        uint64_t owner;
        int r;

        r = control_begin(pool, true, ret_control);
        if (r != -EBUSY)
                return r;
        /* ORDER: acq, pairs with control_begin(); the owner's identity is set. */
        owner = shm_load_acq(&pool->arena.header->control_owner.value);
        if (owner == 0)
                return control_begin(pool, true, ret_control);
        if (!owner_is_dead(pool, owner))
                return -EBUSY;
        r = control_take_over(pool, owner, ret_control);
        if (r)
                return r;
        r = control_take_up(ret_control);
        if (r)
                control_put_back(pool, owner);
        return r;
}

static uint32_t mark_dead(struct tslab *pool) {
        uint32_t n_dead = 0;
        ShmClientInfo info;

        for (uint32_t i = 0; i < pool->arena.n_records; i++) {
                if (shm_client_get(&pool->arena, i, &info) || i == pool->local->client ||
                    !control_is_dead(&info))
                        continue;
                (void) shm_client_release_records(&pool->arena, i);
                (void) shm_epoch_end_leases(&pool->arena, i);
                n_dead++;
        }
        return n_dead;
}

static int remove_dead(struct tslab *pool) {
        ShmClientInfo info;
        int n = 0;

        for (uint32_t i = 0; i < pool->arena.n_records; i++) {
                if (shm_client_get(&pool->arena, i, &info) || i == pool->local->client ||
                    !control_is_dead(&info) || shm_client_release_records(&pool->arena, i) > 0)
                        continue;
                (void) shm_epoch_end_leases(&pool->arena, i); /* it may have died since */
                shm_client_remove(&pool->arena, i);
                n++;
        }
        return n;
}

static int reap_process(struct tslab *pool) {
        ShmActor control;
        uint32_t n_dead;
        int r;

        r = pool_attach(pool);
        if (r == 0)
                r = take_control(pool, &control);
        if (r)
                return r;
        n_dead = mark_dead(pool);
        /* Also if nobody is dead: an earlier pass, or an earlier maintainer, may have left slots in flight. */
        r = control_run_all(&control);
        if (r == 0 && n_dead > 0) {
                /* Dead threads may have left n_free wrong: the pool would retain too much, or too little. */
                pool->local->recount = !shm_free_recount(&pool->arena);
                r = remove_dead(pool);
        }
        control_end_all(pool); /* the dead may have been sweeping */
        return r;
}

_public_ int tslab_reap(struct tslab *pool) {
        int r;

        if (!pool->is_private)
                return -EOPNOTSUPP;
        r = pool_begin(pool);
        if (r)
                return r;
        r = reap_process(pool);
        pool_end(pool);
        return r;
}
