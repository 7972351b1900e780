/*
 * Near caches
 *
 * Purpose: copies of an engine's values, which are read only while a process answers for them.
 *
 * Invariants
 *   1. Copies and the cover are in one epoch, which the process that gives the cover has leased. The epoch ends with
 *      that process, or when changes may have been missed. A new one begins once the process hears of changes again.
 *   2. A copy is read after the cover: the cover named the copy's epoch, and its time was not over (shm/near/cover.c).
 *   3. A fill replaces a claim, by version, and goes into the claim's epoch. The claim was put into the cover's epoch
 *      before the engine was asked. If the engine tells of a change, the claim or the copy is deleted.
 *   4. Keys outside of the cover are not claimed, and so are never filled.
 *
 * Who may do what: one process gives the cover, and drops; all others read, fill and drop.
 *
 * Crash: a worker with a claim dies: see claim.c. The process that gives the cover dies: its epoch is revoked.
 */
#include <tslab_near.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libclient/near-last.h"
#include "libclient/pool/enter.h"
#include "proto/deadline.h"
#include "proto/text.h"
#include "shm/clock/pool-clock.h"
#include "shm/epoch/epoch.h"

#define TRIES_MAX 4 /* beside other programs that fill and drop */
static_assert(TSLAB_NEAR_PREFIXES_SIZE == SHM_COVER_PREFIXES_MAX, "one limit for both");
static_assert(TSLAB_NEAR_SERVERS_MAX == SHM_COVER_SERVERS_MAX, "one limit for both");

/* Coarse clocks are behind by a tick of the kernel, which may come late: two of the longest ones (10 ms, HZ=100). */
#define COARSE_LAG_MS 20

/* The value of a key that the engine does not have. A value of these bytes is not kept. */
static const uint8_t absent[] = "\x9d\x03tslab: absent\xf1";

/* A cover, and its name. */
typedef struct NearCover {
        ShmCover cover;
        uint64_t handle;
} NearCover;

/*
 * Gives the near cache a root, of an object that is no more: nothing is covered, and operators see that already before
 * the first cover. A program that may not, or has no room, goes on without.
 */
static void name_cover(struct tslab_near *near) {
        struct tslab *pool = near->map->pool;
        tslab_handle handle;
        uint64_t root;
        void *object;

        if (pool->is_reader || shm_root_get(&pool->arena, near->root, &root) == 0 ||
            tslab_alloc_pending(pool, sizeof(ShmCover), TSLAB_EPOCH_CURRENT, &handle, &object) != 0)
                return;
        (void) tslab_free(pool, handle);
        (void) tslab_root_set(pool, near->root, 0, handle);
}

_public_ int tslab_near_open(struct tslab_near **ret, struct tslab *pool, const char *name,
                             const struct tslab_map_options *options) {
        struct tslab_map_options o = {};
        struct tslab_near *near;
        int n, r;

        if (map_options_load(&o, sizeof(o), options))
                return -EINVAL;
        o.size = sizeof(o);
        o.evict = TSLAB_MAP_EVICT_SIEVE;
        if (o.limit_bytes == 0)
                o.limit_bytes = tslab_capacity(pool) / 2;
        else if (o.limit_bytes == TSLAB_NEAR_NO_LIMIT)
                o.limit_bytes = 0;
        near = calloc(1, sizeof(*near));
        if (!near)
                return -ENOMEM;
        n = snprintf(near->root, sizeof(near->root), SHM_COVER_ROOT_PREFIX "%s", name);
        r = n < (int) sizeof(near->root) ? tslab_map_open(&near->map, pool, name, &o) : -EINVAL;
        if (r) {
                free(near);
                return r;
        }
        name_cover(near);
        *ret = near;
        return 0;
}

/* A forked child has a copy of its parent's members. But it gives no cover, and has no lease to give back. */
static void forget_parents(struct tslab_near *near) {
        if (near->giver != getpid())
                near->own = near->lease = 0;
}

_public_ struct tslab_near *tslab_near_close(struct tslab_near *near) {
        if (!near)
                return NULL;
        (void) tslab_near_end(near);
        (void) tslab_map_close(near->last);
        (void) tslab_map_close(near->map);
        free(near);
        return NULL;
}

/* False: nothing is covered now. */
static bool find_cover(struct tslab_near *near, NearCover *ret) {
        const ShmArena *arena = &near->map->pool->arena;
        ShmCoverTime now;

        ret->handle = shm_load_rlx(&near->handle); /* ORDER: rlx; only a name, which is checked. */
        if (shm_cover_load(arena, ret->handle, &ret->cover) != 0) {
                if (shm_root_get(arena, near->root, &ret->handle) != 0 ||
                    shm_cover_load(arena, ret->handle, &ret->cover) != 0)
                        return false;
                shm_store_rlx(&near->handle, ret->handle); /* ORDER: rlx; as above. */
        }
        now = shm_cover_now();
        return shm_cover_holds(&ret->cover, &now);
}

static bool is_absent(const void *value, size_t size) {
        return size == sizeof(absent) && memcmp(value, absent, sizeof(absent)) == 0;
}

/* The copy is larger than the caller's buffer, and may be the sign of an absent key. */
static ssize_t get_large(struct tslab_near *near, uint32_t epoch, const void *key, size_t key_size) {
        struct tslab_map_info info = { .size = sizeof(info) };
        uint8_t bytes[sizeof(absent)];
        ssize_t n;

        n = tslab_map_get_with(near->map, key, key_size, bytes, sizeof(bytes), &info);
        if (info.epoch != epoch) /* or none: it is gone */
                return -ENOENT;
        return n > 0 && is_absent(bytes, (size_t) n) ? -ENODATA : -EMSGSIZE;
}

/* A copy of the epoch that is covered. -ENOENT, -ENODATA, and the errors of tslab_map_get(). */
static ssize_t covered_get(struct tslab_near *near, uint32_t covered, const void *key, size_t key_size,
                           void *buffer, size_t buffer_size) {
        struct tslab_map_info info = { .size = sizeof(info) };
        ssize_t n;

        n = tslab_map_get_with(near->map, key, key_size, buffer, buffer_size, &info);
        if (n == -EMSGSIZE)
                return get_large(near, covered, key, key_size);
        if (n < 0 || info.epoch != covered)
                return n < 0 ? n : -ENOENT;
        return is_absent(buffer, (size_t) n) ? -ENODATA : n;
}

/* A miss. 0: the engine is to be asked; -EAGAIN: somebody else has asked it. */
static int claim_key(struct tslab_near *near, const NearCover *c, const void *key, size_t key_size,
                     uint64_t deadline, tslab_handle *ret_claim) {
        uint64_t left_usec;
        tslab_handle claim;
        int r;

        if (!shm_cover_has_key(&near->map->pool->arena, c->handle, &c->cover, key, key_size))
                return 0;
        r = map_claim_for_news(near->map, key, key_size, c->cover.epoch, &claim);
        if (r == 0)
                *ret_claim = claim;
        if (r == -EBUSY) {
                left_usec = proto_deadline_left(deadline);
                r = left_usec == 0 || tslab_map_wait(near->map, key, key_size, claim,
                                                     (uint32_t) ((left_usec + 999) / 1000)) != 0
                            ? 0
                            : -EEXIST;
        }
        return r == -EEXIST ? -EAGAIN : 0;
}

_public_ ssize_t tslab_near_get(struct tslab_near *near, const void *key, size_t key_size, void *buffer,
                                size_t buffer_size, uint32_t wait_ms, struct tslab_near_claim *ret_claim) {
        uint64_t deadline = 0;
        ssize_t n = -ENOENT;
        int r = -EAGAIN;
        NearCover c;

        *ret_claim = (struct tslab_near_claim){};
        for (int tries = 0; tries < TRIES_MAX && n == -ENOENT && r == -EAGAIN; tries++) {
                if (!find_cover(near, &c))
                        return -ENOENT;
                n = covered_get(near, c.cover.epoch, key, key_size, buffer, buffer_size);
                if (n != -ENOENT)
                        break;
                if (tries == 0)
                        deadline = proto_deadline((uint64_t) wait_ms * 1000);
                ret_claim->cover = c.handle;
                r = claim_key(near, &c, key, key_size, deadline, &ret_claim->copy);
        }
        if (n == -ENOENT && ret_claim->copy)
                near_last_begin(near, key, key_size, ret_claim);
        return n;
}

/* -EREMCHG: the cover names servers, and another one has answered, whose changes are not heard. -EAGAIN: it is gone. */
static int check_server(const struct tslab_near *near, const struct tslab_near_claim *claim,
                        const char *server) {
        const ShmArena *arena = &near->map->pool->arena;
        ShmCover cover;

        if (shm_cover_load(arena, claim->cover, &cover) != 0)
                return -EAGAIN;
        return shm_cover_has_server(arena, claim->cover, &cover, server) ? 0 : -EREMCHG;
}

/* Replaces the claim by the answer. */
static int fill_copy(struct tslab_near *near, const void *key, size_t key_size, tslab_handle claim,
                     const void *value, size_t value_size, uint64_t ttl_ms) {
        int r = -EAGAIN;

        if (!value)
                r = map_fulfil(near->map, key, key_size, claim, absent, sizeof(absent), ttl_ms);
        else if (!is_absent(value, value_size))
                r = map_fulfil(near->map, key, key_size, claim, value, value_size, ttl_ms);
        return r == -ESTALE || r == -ESHUTDOWN ? -EAGAIN : r; /* the epoch ended meanwhile */
}

/* A claim ends here, whatever happens. */
_public_ int tslab_near_fill(struct tslab_near *near, const void *key, size_t key_size,
                             const struct tslab_near_claim *claim, const char *server, const void *value,
                             size_t value_size, uint64_t ttl_ms) {
        int heard = claim->cover ? check_server(near, claim, server) : 0, r;

        if (heard == -EREMCHG) {
                (void) tslab_near_give_up(near, key, key_size, claim);
                return heard;
        }
        if (heard == 0)
                near_last_answer(near, key, key_size, claim, value, value_size, ttl_ms);
        else
                near_last_give_up(near, key, key_size, claim);
        if (claim->copy == 0)
                return 0;
        r = fill_copy(near, key, key_size, claim->copy, value, value_size, ttl_ms);
        if (r)
                (void) tslab_map_delete_version(near->map, key, key_size, claim->copy);
        return r;
}

_public_ int tslab_near_give_up(struct tslab_near *near, const void *key, size_t key_size,
                                const struct tslab_near_claim *claim) {
        int r = 0;

        near_last_give_up(near, key, key_size, claim);
        if (claim->copy)
                r = tslab_map_delete_version(near->map, key, key_size, claim->copy);
        return r == -ENOENT || r == -EAGAIN ? 0 : r;
}

/*
 * The last value goes first: a question that begins between the two keeps no copy, and perhaps a last value, which
 * is true. The other way around it would keep a copy alone: nobody asks while that is read, so no last value comes.
 */
_public_ int tslab_near_drop(struct tslab_near *near, const void *key, size_t key_size) {
        int last = near_last_drop(near, key, key_size), r = tslab_map_delete(near->map, key, key_size);

        return r == 0 || r == -ENOENT ? last : r;
}

/* A live cover that another process gives is left alone. */
static int check_others(struct tslab_near *near, uint64_t *ret_root) {
        struct tslab *pool = near->map->pool;
        ShmCover cover;

        if (shm_root_get(&pool->arena, near->root, ret_root) != 0)
                *ret_root = 0;
        return *ret_root && shm_cover_load(&pool->arena, *ret_root, &cover) == 0 ? -EBUSY : 0;
}

/* The label is for people: a name that is longer is cut, between two characters. */
static int lease_epoch(struct tslab_near *near) {
        char label[TSLAB_LABEL_SIZE];

        proto_text_clean(label, sizeof(label), near->root);
        near->giver = getpid();
        return tslab_epoch_lease(near->map->pool, label, &near->lease);
}

/* If the control call fails, for example with -EBUSY, the lease stays: the next end or beginning gives it back. */
static int give_lease_back(struct tslab_near *near) {
        int r = near->lease ? tslab_epoch_close(near->map->pool, near->lease, TSLAB_CLOSE_REVOKE) : 0;

        if (r == 0 || r == -ESTALE) /* somebody else revoked it */
                near->lease = 0;
        return r;
}

/* Numbers of servers and prefixes, which follow a cover in its object. */
typedef struct NearScope {
        uint64_t servers[SHM_COVER_SERVERS_MAX];
        char prefixes[SHM_COVER_PREFIXES_MAX];
        uint32_t n_servers, prefixes_size;
} NearScope;

/* -E2BIG: the prefixes or the servers do not fit. */
static int scope_pack(NearScope *ret, const struct tslab_near_scope *scope) {
        size_t size, at = 0;

        if (scope && (scope->size < sizeof(*scope) || scope->n_servers > SHM_COVER_SERVERS_MAX))
                return scope->size < sizeof(*scope) ? -EINVAL : -E2BIG;
        for (size_t i = 0; scope && i < scope->n_servers; i++)
                ret->servers[i] = shm_cover_server(scope->servers[i]);
        for (size_t i = 0; scope && i < scope->n_prefixes; i++) {
                size = strlen(scope->prefixes[i]) + 1;
                if (size > SHM_COVER_PREFIXES_MAX - at)
                        return -E2BIG;
                memcpy(ret->prefixes + at, scope->prefixes[i], size);
                at += size;
        }
        ret->n_servers = scope ? (uint32_t) scope->n_servers : 0;
        ret->prefixes_size = (uint32_t) at;
        return 0;
}

/* Makes a cover in a new epoch: copies may be put from now on, and are not covered yet. */
static int cover_make(struct tslab_near *near, uint64_t old, const NearScope *scope) {
        size_t servers_size = scope->n_servers * sizeof(uint64_t);
        struct tslab *pool = near->map->pool;
        tslab_handle handle;
        uint8_t *object;
        int r;

        r = tslab_alloc(pool, sizeof(ShmCover) + servers_size + scope->prefixes_size, near->lease, &handle,
                        (void **) &object);
        if (r)
                return r;
        shm_cover_init((ShmCover *) object, handle, near->lease, scope->n_servers, scope->prefixes_size);
        memcpy(object + sizeof(ShmCover), scope->servers, servers_size);
        memcpy(object + sizeof(ShmCover) + servers_size, scope->prefixes, scope->prefixes_size);
        r = tslab_root_set(pool, near->root, old, handle);
        if (r == 0) {
                near->own = handle;
                near->until = (ShmCoverTime){};
        }
        return r == -EAGAIN ? -EBUSY : r;
}

_public_ int tslab_near_begin(struct tslab_near *near, const struct tslab_near_scope *scope) {
        NearScope packed;
        uint64_t old;
        int r;

        forget_parents(near);
        if (near->own)
                return -EALREADY;
        r = scope_pack(&packed, scope);
        if (r == 0)
                r = give_lease_back(near);
        if (r == 0 || r == -ESTALE)
                r = check_others(near, &old);
        if (r)
                return r;
        r = lease_epoch(near);
        if (r)
                return r;
        r = cover_make(near, old, &packed);
        if (r)
                (void) give_lease_back(near);
        return r;
}

/*
 * That moment on the clocks of covers. These clocks are read first: if the thread is stopped in here, the result is too
 * early, not too late.
 */
static ShmCoverTime cover_time(uint64_t until_usec) {
        ShmCoverTime time = shm_cover_now();
        uint64_t now_usec = shm_clock_read(CLOCK_BOOTTIME) / 1000, left_ms;

        left_ms = until_usec > now_usec ? (until_usec - now_usec) / 1000 : 0;
        if (left_ms <= COARSE_LAG_MS)
                return (ShmCoverTime){};
        time.monotonic_ms += left_ms - COARSE_LAG_MS;
        time.real_ms += left_ms - COARSE_LAG_MS;
        return time;
}

/* -ESTALE; the errors of pool_enter(): the cover is as before. */
static int move_cover(struct tslab_near *near, const ShmCoverTime *until) {
        struct tslab *pool = near->map->pool;
        ThreadState *thread;
        int r;

        r = pool_enter(pool, &thread);
        if (r)
                return r;
        r = shm_cover_set(&thread->actor, near->own, &near->until, until);
        pool_leave(pool, thread);
        return r;
}

_public_ int tslab_near_cover(struct tslab_near *near, uint64_t until_usec) {
        const ShmArena *arena = &near->map->pool->arena;
        ShmCoverTime until = cover_time(until_usec);
        uint32_t id, era;

        forget_parents(near);
        if (!near->own || shm_epoch_admit(arena, near->lease, &id, &era) != 0)
                return -ESTALE;
        return move_cover(near, &until);
}

_public_ int tslab_near_end(struct tslab_near *near) {
        const ShmCoverTime past = {};
        int r = -ESTALE;

        forget_parents(near);
        if (near->own)
                r = move_cover(near, &past);
        if (r && r != -ESTALE)
                return r;
        near->own = 0;
        return give_lease_back(near);
}

_public_ int tslab_near_flush(struct tslab_near *near) {
        int ended = tslab_near_end(near), r;
        uint64_t root;

        /* Values that were kept last count no more: the root names no cover of theirs. */
        r = check_others(near, &root);
        if (r == 0 && root)
                r = tslab_root_set(near->map->pool, near->root, root, 0);
        return ended ?: r == -EAGAIN ? -EBUSY : r;
}
