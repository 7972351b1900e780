/* Claims and stale values, in one thread and on a clock of the test's own. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shm/arena/client.h"
#include "shm/arena/root.h"
#include "shm/cache/cache.h"
#include "shm/epoch/epoch-open.h"
#include "shm/map/entry/cell.h"
#include "shm/map/entry/claim.h"
#include "shm/map/entry/expiry.h"
#include "shm/map/entry/map-sweep.h"
#include "shm/map/trie/trie-walk.h"
#include "shm/maintain/check.h"
#include "tests/unit/shm/map-fixture.h"
#include "tests/util/map-options.h"

#define BEGIN_MS (UINT64_C(1) << 40) /* later than any clock of the system */
#define TTL 1000
#define STALE 5000
#define LIMIT 30000
#define LARGE 20000 /* a chain */

typedef struct Fixture {
        ShmArena arena;
        ShmClientInfo clients[2];
        ShmActor actors[2];
        ShmTrie trie;
        char buffer[LARGE];
} Fixture;

static uint64_t clock_ms;

static uint64_t clock_ns(const ShmArena *arena) {
        (void) arena;
        return clock_ms * SHM_NS_PER_MS;
}

static int setup(void **state) {
        Fixture *f = calloc(1, sizeof(*f));

        clock_ms = BEGIN_MS;
        map_arena_create(&f->arena, UINT64_C(64) << 20);
        for (uint32_t i = 0; i < 2; i++) {
                f->clients[i] = (ShmClientInfo){ .pid = 100 + (pid_t) i, .start_time = 7 };
                assert_int_equal(shm_client_add(&f->arena, &f->clients[i]), 0);
                assert_int_equal(shm_actor_init(&f->actors[i], &f->arena, f->clients[i].index, i + 1), 0);
        }
        map_trie_create(&f->actors[0], &f->trie);
        f->trie.now_ns = clock_ns;
        TRIE_SET_OPTION(&f->trie, stale_ms, STALE);
        *state = f;
        return 0;
}

static int teardown(void **state) {
        Fixture *f = *state;
        ShmCheck check;

        for (uint32_t i = 0; i < 2; i++)
                map_actor_leave(&f->actors[i]);
        assert_int_equal(shm_check(&f->arena, &check), 0);
        assert_int_equal(check.problems, 0);
        shm_arena_deinit(&f->arena);
        free(f);
        return 0;
}

static ShmMapKey key_of(Fixture *f, const char *text) {
        return (ShmMapKey){ text, (uint32_t) strlen(text), shm_hash(&f->arena, text, strlen(text)) };
}

static int put_sized(Fixture *f, ShmMapMode mode, uint64_t expected, const void *value, uint32_t size) {
        ShmMapPut put = {
                .mode = mode, .expected = expected, .value = value, .value_size = size, .ttl_ms = TTL
        };
        ShmMapKey k = key_of(f, "key");

        return shm_map_put(&f->actors[0], &f->trie, &k, &put, NULL);
}

static int put_mode(Fixture *f, ShmMapMode mode, uint64_t expected, const char *value) {
        return put_sized(f, mode, expected, value, (uint32_t) strlen(value));
}

static int claim_without(Fixture *f, unsigned i, uint64_t gone, uint64_t *ret_version) {
        const ShmMapClaim claim = {
                .limit_ms = LIMIT, .gone = gone, .buffer = f->buffer, .buffer_size = sizeof(f->buffer)
        };
        ShmMapKey k = key_of(f, "key");
        ShmClaimed claimed = {};
        int r;

        r = shm_map_claim(&f->actors[i], &f->trie, &k, &claim, &claimed);
        *ret_version = claimed.version;
        return r;
}

static int claim(Fixture *f, unsigned i, uint64_t *ret_version) {
        return claim_without(f, i, 0, ret_version);
}

static int delete (Fixture *f, uint64_t version) {
        ShmMapKey k = key_of(f, "key");

        return shm_map_delete(&f->actors[0], &f->trie, &k, version);
}

static int give_up(Fixture *f, uint64_t version) {
        const ShmMapClaim claim = { .gone = version, .buffer = f->buffer, .buffer_size = sizeof(f->buffer) };
        ShmMapKey k = key_of(f, "key");
        ShmClaimed claimed = {};

        return shm_map_give_up(&f->actors[0], &f->trie, &k, &claim, &claimed);
}

static bool stands(Fixture *f, uint64_t version) {
        ShmMapKey k = key_of(f, "key");
        ShmClaim c;

        return shm_map_find_claim(&f->trie, &k, version, &c) == 1;
}

/* The first byte of the value; 0: absent. */
static int get(Fixture *f, bool stale) {
        ShmMapKey k = key_of(f, "key");
        ShmMapView view = {};
        char value[LARGE];
        ssize_t n;

        n = stale ? shm_map_get_stale(&f->trie, &k, value, sizeof(value), &view)
                  : shm_map_get(&f->trie, &k, value, sizeof(value), &view);
        if (n == -ENOENT)
                return 0;
        assert_true(n > 0);
        for (ssize_t i = 1; i < n; i++)
                assert_int_equal(value[i], value[0]);
        return value[0];
}

static void test_claim_one(void **state) {
        Fixture *f = *state;
        uint64_t first, other;

        assert_int_equal(claim(f, 0, &first), 0);
        assert_true(stands(f, first));
        assert_int_equal(claim(f, 1, &other), -EBUSY);
        assert_int_equal(other, first);
        assert_int_equal(claim(f, 0, &other), -EBUSY);
        assert_int_equal(get(f, false), 0);
        assert_int_equal(get(f, true), 0);
        assert_int_equal(shm_map_count(&f->trie), 0);
        assert_int_equal(put_mode(f, SHM_MAP_REPLACE, first, "v"), 0);
        assert_int_equal(get(f, false), 'v');
        assert_false(stands(f, first));
        assert_int_equal(claim(f, 1, &other), -EEXIST);
        assert_int_equal(put_mode(f, SHM_MAP_REPLACE, first, "w"), -EAGAIN);
        assert_int_equal(delete (f, first), -EAGAIN);
        assert_int_equal(get(f, false), 'v');
}

/* To all other calls the key is absent. */
static void test_claim_is_absent(void **state) {
        ShmMapKey k = key_of(*state, "key");
        uint8_t buffer[SHM_CLASS_SIZE_MAX];
        const ShmMapAdd add = { .delta = 5 };
        Fixture *f = *state;
        ShmTrieScan scan = {};
        ShmMapView view;
        uint64_t version;
        int64_t sum;

        assert_int_equal(claim(f, 0, &version), 0);
        assert_int_equal(put_mode(f, SHM_MAP_UPDATE, 0, "v"), -ENOENT);
        assert_int_equal(put_mode(f, SHM_MAP_UPDATE, version, "v"), -ENOENT);
        assert_int_equal(shm_map_touch(&f->actors[0], &f->trie, &k, TTL), -ENOENT);
        assert_int_equal(shm_map_next(&f->trie, &scan, buffer, sizeof(buffer), &view), 0);
        assert_int_equal(shm_map_look(&f->trie, &k, &view), -ENOENT);
        assert_true(stands(f, version));
        assert_int_equal(put_mode(f, SHM_MAP_INSERT, 0, "v"), 0);
        assert_int_equal(delete (f, 0), 0);
        assert_int_equal(claim(f, 0, &version), 0);
        assert_int_equal(put_mode(f, SHM_MAP_REPLACE, 0, "v"), 0);
        assert_int_equal(put_mode(f, SHM_MAP_REPLACE, version, "v"), -EAGAIN);
        assert_int_equal(delete (f, 0), 0);
        assert_int_equal(claim(f, 0, &version), 0);
        assert_int_equal(shm_map_add(&f->actors[0], &f->trie, &k, &add, &sum), 0);
        assert_int_equal(sum, 5);
        assert_false(stands(f, version));
}

static void test_claim_given_up(void **state) {
        Fixture *f = *state;
        uint64_t version, other;

        assert_int_equal(claim(f, 0, &version), 0);
        assert_int_equal(delete (f, version + 2), -ENOENT);
        assert_true(stands(f, version));
        assert_int_equal(delete (f, version), 0);
        assert_false(stands(f, version));
        assert_int_equal(delete (f, version), -ENOENT);
        assert_int_equal(claim(f, 0, &version), 0);
        /* An ordinary delete: a value that is computed from what was deleted comes late. */
        assert_int_equal(delete (f, 0), -ENOENT);
        assert_int_equal(put_mode(f, SHM_MAP_REPLACE, version, "v"), -EAGAIN);
        assert_int_equal(claim(f, 1, &other), 0);
        assert_int_equal(put_mode(f, SHM_MAP_REPLACE, version, "v"), -EAGAIN);
        assert_true(stands(f, other));
}

static void test_claim_of_dead_process(void **state) {
        Fixture *f = *state;
        uint64_t version, other;

        assert_int_equal(claim(f, 0, &version), 0);
        shm_client_end(&f->arena, f->clients[0].index);
        assert_false(stands(f, version));
        assert_int_equal(claim(f, 1, &other), 0);
        assert_int_not_equal(other, version);
        assert_true(stands(f, other));
        assert_int_equal(put_mode(f, SHM_MAP_REPLACE, version, "v"), -EAGAIN);
        /* Its entry is another process's. */
        shm_client_leave(&f->arena, f->clients[1].index);
        assert_false(stands(f, other));
        shm_client_remove(&f->arena, f->clients[1].index);
        assert_false(stands(f, other));
        assert_int_equal(shm_client_add(&f->arena, &(ShmClientInfo){ .pid = 101, .start_time = 8 }), 0);
        assert_false(stands(f, other));
        /* The table does not know, but the caller does. */
        assert_int_equal(shm_client_add(&f->arena, &(ShmClientInfo){ .pid = 102 }), 0);
        assert_int_equal(claim(f, 1, &version), 0);
        assert_int_equal(claim(f, 1, &other), -EBUSY);
        assert_int_equal(claim_without(f, 1, other + 2, &other), -EBUSY);
        assert_int_equal(claim_without(f, 1, other, &other), 0);
        assert_int_not_equal(other, version);
}

static void test_claim_ends(void **state) {
        Fixture *f = *state;
        uint64_t version, other;

        assert_int_equal(claim(f, 0, &version), 0);
        clock_ms += LIMIT - 1;
        assert_true(stands(f, version));
        assert_int_equal(claim(f, 1, &other), -EBUSY);
        clock_ms++;
        assert_false(stands(f, version));
        assert_int_equal(claim(f, 1, &other), 0);
        assert_int_equal(put_mode(f, SHM_MAP_REPLACE, version, "v"), -EAGAIN);
        /* Late, and nobody else wanted it. */
        clock_ms += LIMIT;
        assert_int_equal(put_mode(f, SHM_MAP_REPLACE, other, "v"), 0);
        assert_int_equal(get(f, false), 'v');
}

static ShmMapTotals totals(Fixture *f) {
        ShmMapTotals t;

        shm_map_totals(&f->arena, f->trie.map - 1, &t);
        return t;
}

static void pass(Fixture *f) {
        while (!shm_expiry_step(&f->actors[0], clock_ms, UINT32_MAX))
                ;
}

/* Passes and sweeps leave claims and stale values alone until their time is over; then their memory goes back. */
static void test_claim_memory(void **state) {
        Fixture *f = *state;
        uint64_t version;

        assert_int_equal(claim(f, 0, &version), 0);
        assert_int_equal(totals(f).entries, 1);
        clock_ms += LIMIT - 1;
        pass(f);
        for (ShmMapSweep sweep = {}; !shm_map_sweep_step(&f->actors[0], &sweep, 16);)
                ;
        assert_true(stands(f, version));
        clock_ms++;
        pass(f);
        assert_int_equal(totals(f).entries, 0);
        assert_int_equal(totals(f).bytes, 0);
        assert_int_equal(put_mode(f, SHM_MAP_PUT, 0, "v"), 0);
        clock_ms += TTL + STALE - 1;
        pass(f);
        for (ShmMapSweep sweep = {}; !shm_map_sweep_step(&f->actors[0], &sweep, 16);)
                ;
        assert_int_equal(get(f, true), 'v');
        clock_ms++;
        assert_int_equal(get(f, true), 0);
        assert_int_equal(totals(f).entries, 1);
        pass(f);
        assert_int_equal(totals(f).entries, 0);
        assert_int_equal(totals(f).bytes, 0);
}

/* A clear ends a claim, then unlinks it. */
static void half_clear(Fixture *f, uint64_t *ret_version) {
        ShmMapView view;

        assert_int_equal(claim(f, 0, ret_version), 0);
        assert_int_equal(shm_map_view(&f->arena, *ret_version, &view), 0);
        assert_true(shm_map_set_end(&f->actors[0], &view, SHM_MAP_ENDED));
}

/* A clear that died between the two left the claim as it was to all others; what counts the map then takes it out. */
static void test_half_cleared_claim(void **state) {
        Fixture *f = *state;
        uint64_t version, other;

        half_clear(f, &version);
        assert_true(stands(f, version));
        assert_int_equal(claim(f, 1, &other), -EBUSY);
        assert_int_equal(put_mode(f, SHM_MAP_REPLACE, version, "v"), 0);
        assert_int_equal(get(f, false), 'v');
        assert_int_equal(delete (f, 0), 0);
        half_clear(f, &version);
        clock_ms += LIMIT; /* or its time is over */
        assert_int_equal(claim(f, 1, &other), 0);
        assert_int_equal(delete (f, other), 0);
        half_clear(f, &version);
        for (ShmMapSweep sweep = {}; !shm_map_sweep_step(&f->actors[0], &sweep, 16);)
                ;
        assert_false(stands(f, version));
        assert_int_equal(totals(f).entries, 0);
        assert_int_equal(totals(f).bytes, 0);
        assert_int_equal(claim(f, 1, &other), 0);
        assert_int_equal(delete (f, other), 0);
}

static void test_counts(void **state) {
        Fixture *f = *state;
        uint64_t version;

        assert_int_equal(claim(f, 0, &version), 0);
        assert_int_equal(put_mode(f, SHM_MAP_REPLACE, version, "v"), 0);
        assert_int_equal(totals(f).entries, 1);
        assert_int_equal(totals(f).inserts, 1);
        assert_int_equal(totals(f).expirations, 0);
        assert_int_equal(delete (f, 0), 0);
        assert_int_equal(totals(f).entries, 0);
        assert_int_equal(totals(f).bytes, 0);
        assert_int_equal(claim(f, 0, &version), 0);
        assert_int_equal(delete (f, version), 0);
        assert_int_equal(totals(f).entries, 0);
        assert_int_equal(totals(f).bytes, 0);
}

/* A stale value, before its claim, during it and after that was given up or its process died. */
static void check_stale(Fixture *f) {
        uint64_t version, other;

        assert_int_equal(get(f, true), 'v');
        clock_ms += TTL;
        assert_int_equal(get(f, false), 0);
        assert_int_equal(get(f, true), 'v');
        assert_int_equal(claim(f, 0, &version), 0);
        assert_int_equal(get(f, false), 0);
        assert_int_equal(get(f, true), 'v');
        shm_client_end(&f->arena, f->clients[0].index);
        assert_int_equal(get(f, true), 'v');
        assert_int_equal(claim(f, 1, &other), 0);
        assert_int_equal(get(f, true), 'v');
        assert_int_equal(give_up(f, version), -ENOENT);
        assert_true(stands(f, other));
        assert_int_equal(give_up(f, other), 0);
        assert_false(stands(f, 0));
        assert_int_equal(get(f, false), 0);
        assert_int_equal(get(f, true), 'v');
        assert_int_equal(give_up(f, other), -ENOENT);
        assert_int_equal(put_mode(f, SHM_MAP_REPLACE, other, "w"), -EAGAIN);
        assert_int_equal(get(f, true), 'v');
        assert_int_equal(claim(f, 1, &other), 0);
        clock_ms += STALE - 2;
        assert_int_equal(get(f, true), 'v');
        clock_ms += 2;
        assert_int_equal(get(f, true), 0);
        assert_true(stands(f, other));
        assert_int_equal(put_mode(f, SHM_MAP_REPLACE, other, "w"), 0);
        assert_int_equal(get(f, true), 'w');
        assert_int_equal(delete (f, 0), 0);
        assert_int_equal(totals(f).bytes, 0);
}

static void test_stale_value(void **state) {
        Fixture *f = *state;

        assert_int_equal(put_mode(f, SHM_MAP_PUT, 0, "v"), 0);
        check_stale(f);
}

static void test_stale_chain(void **state) {
        static char value[LARGE];
        Fixture *f = *state;

        memset(value, 'v', sizeof(value));
        assert_int_equal(put_sized(f, SHM_MAP_PUT, 0, value, sizeof(value)), 0);
        check_stale(f);
}

/* In one object without a claim, and with it in a chain. */
static void test_stale_value_becomes_chain(void **state) {
        static char value[SHM_CLASS_SIZE_MAX];
        Fixture *f = *state;

        memset(value, 'v', sizeof(value));
        assert_int_equal(put_sized(f, SHM_MAP_PUT, 0, value, (uint32_t) shm_map_size_max(&f->arena) - 3), 0);
        check_stale(f);
}

/* An ordinary delete drops the stale value, and so does the end of an entry that somebody acted upon. */
static void test_stale_deleted(void **state) {
        Fixture *f = *state;
        uint64_t version;

        assert_int_equal(put_mode(f, SHM_MAP_PUT, 0, "v"), 0);
        clock_ms += TTL;
        assert_int_equal(delete (f, 0), -ENOENT);
        assert_int_equal(get(f, true), 0);
        assert_int_equal(put_mode(f, SHM_MAP_PUT, 0, "v"), 0);
        clock_ms += TTL;
        assert_int_equal(claim(f, 0, &version), 0);
        assert_int_equal(delete (f, 0), -ENOENT);
        assert_int_equal(get(f, true), 0);
        assert_int_equal(totals(f).bytes, 0);
}

/* A claim that is given up goes if it has no stale value, or no more, or if a copy of that has no room. */
static void test_give_up(void **state) {
        Fixture *f = *state;
        ShmMapClaim none = { .buffer_size = 0 };
        ShmMapKey k = key_of(f, "key");
        ShmClaimed claimed;
        uint64_t version;

        assert_int_equal(give_up(f, 2), -ENOENT);
        assert_int_equal(claim(f, 0, &version), 0);
        assert_int_equal(give_up(f, version), 0);
        assert_int_equal(totals(f).entries, 0);
        assert_int_equal(put_mode(f, SHM_MAP_PUT, 0, "v"), 0);
        assert_int_equal(give_up(f, version), -EAGAIN);
        clock_ms += TTL;
        assert_int_equal(claim(f, 0, &version), 0);
        none.gone = version;
        assert_int_equal(shm_map_give_up(&f->actors[0], &f->trie, &k, &none, &claimed), -EMSGSIZE);
        assert_int_equal(claimed.value_size, 1);
        assert_true(stands(f, version));
        clock_ms += STALE;
        assert_int_equal(give_up(f, version), 0);
        assert_int_equal(totals(f).entries, 0);

        assert_int_equal(put_mode(f, SHM_MAP_PUT, 0, "vvvvvvvvvvvv"), 0);
        clock_ms += TTL;
        assert_int_equal(claim(f, 0, &version), 0);
        TRIE_SET_OPTION(&f->trie, limit_bytes, 64);
        assert_int_equal(give_up(f, version), 0);
        assert_int_equal(get(f, true), 0);
        assert_int_equal(totals(f).bytes, 0);
}

/* A value that is too large for the caller's buffer; without memory the claim goes without. */
static void test_stale_room(void **state) {
        static char value[LARGE + 1];
        Fixture *f = *state;
        ShmMapKey k = key_of(f, "key");
        const ShmMapClaim small = { .limit_ms = LIMIT, .buffer = f->buffer, .buffer_size = LARGE };
        ShmClaimed claimed;
        uint64_t version;

        memset(value, 'v', sizeof(value));
        assert_int_equal(put_sized(f, SHM_MAP_PUT, 0, value, LARGE + 1), 0);
        clock_ms += TTL;
        assert_int_equal(shm_map_claim(&f->actors[0], &f->trie, &k, &small, &claimed), -EMSGSIZE);
        assert_int_equal(claimed.value_size, LARGE + 1);
        assert_int_equal(delete (f, 0), -ENOENT);
        assert_int_equal(put_sized(f, SHM_MAP_PUT, 0, value, LARGE), 0);
        clock_ms += TTL;
        TRIE_SET_OPTION(&f->trie, limit_bytes, 200);
        assert_int_equal(claim(f, 0, &version), 0);
        assert_int_equal(get(f, true), 0);
        assert_true(stands(f, version));
}

/* A counter is no stale value. */
static void test_stale_counter(void **state) {
        ShmMapKey k = key_of(*state, "key");
        const ShmMapAdd add = { .delta = 5, .ttl_ms = TTL };
        Fixture *f = *state;
        uint64_t version;
        int64_t sum;

        assert_int_equal(shm_map_add(&f->actors[0], &f->trie, &k, &add, &sum), 0);
        clock_ms += TTL;
        assert_int_equal(get(f, true), 0);
        assert_int_equal(claim(f, 0, &version), 0);
        assert_int_equal(get(f, true), 0);
        assert_int_equal(shm_map_add(&f->actors[0], &f->trie, &k, &add, &sum), 0);
        assert_int_equal(sum, 5);
}

/* The word says that threads may sleep until a claim of its keys is no more. */
static void test_wait_word(void **state) {
        Fixture *f = *state;
        uint32_t *word = shm_wait_word(&f->trie, key_of(f, "key").hash), value;
        uint64_t version;

        assert_int_equal(claim(f, 0, &version), 0);
        assert_int_equal(*word, 0);
        value = shm_wait_begin(word);
        assert_int_equal(shm_wait_sleep(word, value, 1000000), -ETIMEDOUT);
        assert_int_equal(shm_wait_begin(word), value);
        assert_int_equal(put_mode(f, SHM_MAP_REPLACE, version, "v"), 0);
        assert_int_not_equal(*word, value);
        assert_int_equal(shm_wait_sleep(word, value, UINT64_C(1) << 40), 0);
        value = *word;
        assert_int_equal(delete (f, 0), 0); /* no claim */
        assert_int_equal(*word, value);
        value = shm_wait_begin(word);
        assert_int_equal(claim(f, 0, &version), 0);
        assert_int_equal(*word, value);
        assert_int_equal(delete (f, version), 0);
        assert_int_not_equal(*word, value);
        value = shm_wait_begin(word);
        shm_wait_wake_all(&f->arena);
        assert_int_not_equal(*word, value);
        value = shm_wait_begin(word);
        assert_int_equal(claim(f, 0, &version), 0);
        clock_ms += LIMIT;
        pass(f);
        assert_int_not_equal(*word, value);
}

static void test_read_only(void **state) {
        Fixture *f = *state;
        uint64_t version;

        f->arena.read_only = true;
        assert_int_equal(claim(f, 0, &version), -EROFS);
        f->arena.read_only = false;
}

/* The process closes the pool, and opens it again: it is the same process, but its claim is free. */
static void test_claim_of_reopened_pool(void **state) {
        Fixture *f = *state;
        uint64_t version, other;

        assert_int_equal(claim(f, 0, &version), 0);
        assert_true(stands(f, version));
        f->arena.clients[f->clients[0].index].attached_usec += 5;
        assert_false(stands(f, version));
        assert_int_equal(claim(f, 1, &other), 0);
        f->arena.clients[f->clients[0].index].attached_usec -= 5;
}

static int claim_key(Fixture *f, const ShmMapKey *key) {
        const ShmMapClaim claim = { .limit_ms = LIMIT,
                                    .buffer = f->buffer,
                                    .buffer_size = sizeof(f->buffer) };
        ShmClaimed claimed = {};

        return shm_map_claim(&f->actors[0], &f->trie, key, &claim, &claimed);
}

/* The claim of any key that can be claimed has its stale value. */
static void test_claim_of_long_keys(void **state) {
        static const char bytes[4096];
        char value[8];
        Fixture *f = *state;
        ShmMapView view;

        for (uint32_t size = 3990; size <= 4056; size++) {
                ShmMapKey key = { bytes, size, shm_hash(&f->arena, bytes, size) };
                const ShmMapPut put = {
                        .mode = SHM_MAP_PUT, .value = "stale", .value_size = 5, .ttl_ms = TTL
                };
                int r;

                assert_int_equal(shm_map_put(&f->actors[0], &f->trie, &key, &put, NULL), 0);
                clock_ms += 2 * TTL;
                r = claim_key(f, &key);
                assert_int_equal(r, size <= shm_map_claim_key_max(&f->arena) ? 0 : -E2BIG);
                assert_int_equal(shm_map_get_stale(&f->trie, &key, value, sizeof(value), &view), 5);
        }
        assert_in_range(shm_map_claim_key_max(&f->arena), 4000, 4056);
}

/* Options that were lowered since the value was put: it stays a stale one as long as they say now. */
static void test_claim_after_options_changed(void **state) {
        Fixture *f = *state;
        uint64_t version;

        memset(f->buffer, 'x', LARGE);
        assert_int_equal(put_sized(f, SHM_MAP_PUT, 0, f->buffer, LARGE), 0);
        clock_ms += TTL + 1;
        TRIE_SET_OPTION(&f->trie, value_max, 100);
        assert_int_equal(claim(f, 0, &version), 0);
        assert_int_equal(get(f, true), 'x');
        clock_ms += 1000;
        TRIE_SET_OPTION(&f->trie, stale_ms, 500);
        assert_int_equal(get(f, true), 0);
        /* The claim stands, so its memory stays until it is over, and not as long as the stale value had. */
        assert_true(stands(f, version));
        TRIE_SET_OPTION(&f->trie, stale_ms, 1);
        clock_ms += LIMIT;
        shm_expiry_look_again(&f->arena);
        while (!shm_expiry_step(&f->actors[0], clock_ms, 100))
                ;
        assert_false(stands(f, version));
        TRIE_SET_OPTION(&f->trie, stale_ms, STALE);
        assert_int_equal(get(f, true), 0);
}

/* Claims of a map that evicts: they are not evicted, and do not exceed its limit without bound. */
static void test_claim_at_limit(void **state) {
        Fixture *f = *state;
        uint32_t n = 0;
        int r = 0;

        TRIE_SET_OPTION(&f->trie, evict, SHM_MAP_EVICT_SIEVE);
        TRIE_SET_OPTION(&f->trie, limit_bytes, 65536);
        for (uint32_t i = 0; i < 5000 && r == 0; i++) {
                ShmMapKey key = { &i, sizeof(i), shm_hash(&f->arena, &i, sizeof(i)) };

                r = claim_key(f, &key);
                n += r == 0;
        }
        assert_int_equal(r, -ENOSPC);
        assert_in_range(n, 65536 / 128, 65536 / 64);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_claim_of_reopened_pool, setup, teardown),
                cmocka_unit_test_setup_teardown(test_claim_of_long_keys, setup, teardown),
                cmocka_unit_test_setup_teardown(test_claim_after_options_changed, setup, teardown),
                cmocka_unit_test_setup_teardown(test_claim_at_limit, setup, teardown),
                cmocka_unit_test_setup_teardown(test_claim_one, setup, teardown),
                cmocka_unit_test_setup_teardown(test_claim_is_absent, setup, teardown),
                cmocka_unit_test_setup_teardown(test_claim_given_up, setup, teardown),
                cmocka_unit_test_setup_teardown(test_claim_of_dead_process, setup, teardown),
                cmocka_unit_test_setup_teardown(test_claim_ends, setup, teardown),
                cmocka_unit_test_setup_teardown(test_claim_memory, setup, teardown),
                cmocka_unit_test_setup_teardown(test_half_cleared_claim, setup, teardown),
                cmocka_unit_test_setup_teardown(test_counts, setup, teardown),
                cmocka_unit_test_setup_teardown(test_stale_value, setup, teardown),
                cmocka_unit_test_setup_teardown(test_stale_chain, setup, teardown),
                cmocka_unit_test_setup_teardown(test_stale_value_becomes_chain, setup, teardown),
                cmocka_unit_test_setup_teardown(test_stale_deleted, setup, teardown),
                cmocka_unit_test_setup_teardown(test_give_up, setup, teardown),
                cmocka_unit_test_setup_teardown(test_stale_room, setup, teardown),
                cmocka_unit_test_setup_teardown(test_stale_counter, setup, teardown),
                cmocka_unit_test_setup_teardown(test_wait_word, setup, teardown),
                cmocka_unit_test_setup_teardown(test_read_only, setup, teardown),
        };

        return cmocka_run_group_tests_name("map-claim", tests, NULL, NULL);
}
