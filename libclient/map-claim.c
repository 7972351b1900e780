/*
 * Claims, and waiting for them
 *
 * Purpose: of all processes that miss a key one computes its value, and the others may wait for it.
 *
 * Invariants
 *   1. For tslab_close(), a thread that waits is outside the pool: it enters for each look.
 *   2. A sleep is short. The thread that ended a claim may be killed or stopped before it wakes anybody. In a private
 *      pool nobody tells of a death, and in a pool that is mapped for reading nobody counts sleepers.
 *
 * Who may do what: writers claim, any process waits.
 *
 * Crash: a claim of a process that died is free: its entry in the client table says so, or, in a private pool, its
 *   pidfd.
 */
#include <tslab_map.h>

#include <errno.h>
#include <stdlib.h>

#include "libclient/map-claim.h"
#include "proto/deadline.h"
#include "shm/arch/probe.h"
#include "shm/map/state/lifetime.h"
#include "shm/map/entry/claim.h"
#include "shm/map/state/wait.h"

#define CLAIM_LIMIT_MS 30000

static bool claimer_is_dead(const struct tslab_map *map, const ShmClaim *claim) {
        return map->pool->host->has_died(map->pool, claim->client);
}

/* 0: threads share the record, so that nothing tells them apart. */
static uint32_t claimer_of(const struct tslab_map *map, const ThreadState *thread) {
        return thread && !pool_is_spare(map->pool, thread) ? (uint32_t) thread->token : 0;
}

static int claim_once(struct tslab_map *map, const void *key, size_t key_size, ShmMapClaim *claim,
                      bool by_thread, ShmClaimed *ret) {
        ThreadState *thread;
        ShmMapKey k;
        int r;

        r = map_begin_change(map, &k, key, key_size, -E2BIG, &thread);
        if (r)
                return r;
        claim->thread = by_thread ? claimer_of(map, thread) : 0;
        r = shm_map_claim(&thread->actor, &map->trie, &k, claim, ret);
        map_end_change(map, thread);
        return r;
}

/* 0: there is room for the stale value now. */
static int enlarge_buffer(ShmMapClaim *claim, uint32_t size) {
        free(claim->buffer);
        claim->buffer = malloc(size);
        claim->buffer_size = claim->buffer ? size : 0;
        return claim->buffer ? 0 : -ENOMEM;
}

/* `by_thread`: it is known as that of the caller's thread. */
static int claim_named(struct tslab_map *map, const void *key, size_t key_size, ShmMapClaim *claim,
                       bool by_thread, tslab_handle *ret_version) {
        ShmClaimed claimed = {};
        HostRetry retry = {};
        int r;

        do {
                r = claim_once(map, key, key_size, claim, by_thread, &claimed);
                if (r == -EMSGSIZE) {
                        r = enlarge_buffer(claim, claimed.value_size) ?: -EAGAIN;
                } else if (r == -EBUSY && claimer_is_dead(map, &claimed.claim)) {
                        claim->gone = claimed.version;
                        r = -EAGAIN;
                }
        } while (r == -EAGAIN || map_make_room(map, r, &retry));
        free(claim->buffer);
        if (r == 0 || r == -EBUSY)
                *ret_version = claimed.version;
        return r;
}

_public_ int tslab_map_claim(struct tslab_map *map, const void *key, size_t key_size, uint32_t epoch,
                             tslab_handle *ret_version) {
        return tslab_map_claim_for(map, key, key_size, epoch, CLAIM_LIMIT_MS, ret_version);
}

_public_ int tslab_map_claim_for(struct tslab_map *map, const void *key, size_t key_size, uint32_t epoch,
                                 uint32_t limit_ms, tslab_handle *ret_version) {
        ShmMapClaim claim = { .epoch = epoch, .limit_ms = limit_ms };

        return limit_ms == 0 ? -EINVAL : claim_named(map, key, key_size, &claim, true, ret_version);
}

int map_claim_for_news(struct tslab_map *map, const void *key, size_t key_size, uint32_t epoch,
                       tslab_handle *ret_version) {
        ShmMapClaim claim = { .epoch = epoch, .limit_ms = CLAIM_LIMIT_MS };

        return claim_named(map, key, key_size, &claim, false, ret_version);
}

_public_ int tslab_map_claim_extend(struct tslab_map *map, const void *key, size_t key_size,
                                    uint32_t limit_ms, tslab_handle *version) {
        ShmMapClaim claim = {
                .epoch = TSLAB_EPOCH_CURRENT,
                .limit_ms = limit_ms,
                .gone = *version,
                .extends = true,
        };
        int r;

        r = limit_ms == 0 ? -EINVAL : claim_named(map, key, key_size, &claim, true, version);
        return r == -ENOENT ? -EAGAIN : r;
}

static int give_up_once(struct tslab_map *map, const void *key, size_t key_size, const ShmMapClaim *claim,
                        ShmClaimed *ret) {
        ThreadState *thread;
        ShmMapKey k;
        int r;

        r = map_begin_change(map, &k, key, key_size, -ENOENT, &thread);
        if (r)
                return r;
        r = shm_map_give_up(&thread->actor, &map->trie, &k, claim, ret);
        map_end_change(map, thread);
        return r;
}

/*
 * Deletes a value or a claim by its version. The stale value of a claim stays. -ENOMEM: malloc() failed, nothing was
 * changed.
 */
static int give_up(struct tslab_map *map, const void *key, size_t key_size, tslab_handle version) {
        ShmMapClaim claim = { .gone = version };
        ShmClaimed claimed = {};
        int r;

        do
                r = give_up_once(map, key, key_size, &claim, &claimed);
        while (r == -EMSGSIZE && (r = enlarge_buffer(&claim, claimed.value_size)) == 0);
        free(claim.buffer);
        return r;
}

_public_ int tslab_map_delete_version(struct tslab_map *map, const void *key, size_t key_size,
                                      tslab_handle version) {
        int r;

        if (version == 0)
                return -EAGAIN;
        r = give_up(map, key, key_size, version);
        return r == -ENOMEM ? map_remove_key(map, key, key_size, version) : r;
}

int map_look_at_claim(struct tslab_map *map, const ShmMapKey *key, uint64_t version, uint32_t *word,
                      uint32_t *ret_value, ShmClaim *ret_claim) {
        int r;

        if (pool_begin(map->pool) < 0)
                return -EIDRM;
        if (word)
                *ret_value = map->pool->is_reader ? shm_load_acq(word) /* ORDER: acq; before the look. */
                                                  : shm_wait_begin(word);
        r = shm_map_find_claim(&map->trie, key, version, ret_claim);
        if (r == 1 && claimer_is_dead(map, ret_claim))
                r = 0;
        pool_end(map->pool);
        return r;
}

/* Whether the caller's thread has the claim, which would never end then. A reader has none. */
static bool is_own_claim(const struct tslab_map *map, const ShmClaim *claim) {
        const PoolLocal *local = map->pool->local;
        uint32_t thread;

        if (map->pool->is_reader || claim->thread == 0 || !local->joined || local->client != claim->client)
                return false;
        thread = claimer_of(map, pool_thread(map->pool) ?: pool_thread_slow(map->pool));
        return thread == claim->thread;
}

static int sleep_on(const struct tslab_map *map, const uint32_t *word, uint32_t value, uint64_t left_usec) {
        bool alone = map->pool->is_reader || !word;
        uint64_t usec = alone ? HOST_SLEEP_ALONE_USEC : map->pool->host->sleep_usec;
        static const uint32_t nobody;
        int r;

        r = shm_wait_sleep(word ?: &nobody, value, (left_usec < usec ? left_usec : usec) * 1000);
        return r == -EINTR ? r : 0;
}

/* For people. A thread without a record of its own, as a reader is, has no place to say it. */
static void note_wait(const struct tslab_map *map, uint32_t waits_for) {
        const ThreadState *thread;

        if (pool_begin(map->pool) < 0)
                return;
        thread = pool_thread(map->pool) ?: pool_thread_slow(map->pool);
        if (thread && !pool_is_spare(map->pool, thread))
                shm_hint_store(&map->pool->arena.heads[thread->actor.id].waits_for, waits_for);
        pool_end(map->pool);
}

static int wait_for_claim(struct tslab_map *map, const ShmMapKey *k, tslab_handle version,
                          uint32_t timeout_ms) {
        uint64_t deadline = proto_deadline((uint64_t) timeout_ms * 1000), left;
        uint32_t *word = shm_wait_word(&map->trie, k->hash), value = 0;
        uint32_t noted = 0; /* another client may have the claim by the next look */
        ShmClaim claim;
        int r;

        for (;;) {
                r = map_look_at_claim(map, k, version, word, &value, &claim);
                left = proto_deadline_left(deadline);
                if (r > 0 && left == 0)
                        r = -ETIMEDOUT;
                else if (r > 0 && is_own_claim(map, &claim))
                        r = -EDEADLK;
                if (r <= 0)
                        break;
                if (noted != claim.client + 1)
                        note_wait(map, noted = claim.client + 1);
                shm_probe(claim_sleep, shm_trie_name(&map->trie), k->hash, claim.client, claim.thread);
                r = sleep_on(map, word, value, left);
                shm_probe(claim_wake, shm_trie_name(&map->trie), k->hash, r);
                if (r)
                        break;
        }
        if (noted)
                note_wait(map, 0);
        return r;
}

_public_ int tslab_map_wait(struct tslab_map *map, const void *key, size_t key_size, tslab_handle version,
                            uint32_t timeout_ms) {
        ShmMapKey k;

        return map_key_init(&k, map, key, key_size) ? wait_for_claim(map, &k, version, timeout_ms) : 0;
}

int map_fulfil(struct tslab_map *map, const void *key, size_t key_size, tslab_handle claim, const void *value,
               size_t value_size, uint64_t ttl_ms) {
        ShmMapPut put;
        ShmMapKey k;
        int r;

        if (!shm_map_ttl_is_sound(ttl_ms))
                return -EINVAL;
        if (!map_key_init(&k, map, key, key_size))
                return -E2BIG;
        r = pool_begin(map->pool);
        if (r)
                return r;
        r = shm_map_fulfil(&map->trie, &k, claim, CLAIM_LIMIT_MS, ttl_ms, &put);
        pool_end(map->pool);
        if (r)
                return r;
        put.value = value;
        return map_put(map, key, key_size, &put, value_size);
}
