/* Lifetimes, counters, rate limits and statistics of maps, in private pools. */
#include <tslab_map.h>

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/api/map-pool.h"
#include "tests/api/entry-cost.h"
#include "tests/util/process.h"
#include "tests/util/test.h"

static int put_ttl(struct tslab_map *map, const char *key, uint64_t ttl_ms) {
        struct tslab_map_put_options o = {
                .size = sizeof(o),
                .epoch = TSLAB_EPOCH_CURRENT,
                .ttl_ms = ttl_ms,
        };

        return tslab_map_put_with(map, key, strlen(key), "value", 5, &o);
}

static ssize_t get_left(struct tslab_map *map, const char *key, uint64_t *ret_left) {
        struct tslab_map_info info = { .size = sizeof(info) };
        char buffer[16];
        ssize_t n;

        n = tslab_map_get_with(map, key, strlen(key), buffer, sizeof(buffer), &info);
        if (n >= 0)
                *ret_left = info.ttl_left_ms;
        return n;
}

static struct tslab_map_statistics statistics(struct tslab_map *map) {
        struct tslab_map_statistics s = { .size = sizeof(s) };

        assert_int_equal(tslab_map_statistics(map, &s), 0);
        return s;
}

static void test_map_lifetime(void **state) {
        struct tslab_map *map;
        uint64_t left;

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        assert_int_equal(put_ttl(map, "short", 50), 0);
        assert_int_equal(put_ttl(map, "long", 3600000), 0);
        assert_int_equal(put_ttl(map, "none", TSLAB_MAP_TTL_NONE), 0);
        assert_int_equal(put_ttl(map, "default", TSLAB_MAP_TTL_DEFAULT), 0);
        assert_int_equal(put_ttl(map, "longest", TSLAB_MAP_TTL_MAX), 0);
        assert_int_equal(put_ttl(map, "longest", TSLAB_MAP_TTL_MAX + 1), -EINVAL);
        assert_int_equal(tslab_map_touch(map, "long", 4, TSLAB_MAP_TTL_MAX + 1), -EINVAL);
        assert_int_equal(tslab_map_add(map, "c", 1, 1, 1, TSLAB_MAP_TTL_MAX + 1, NULL), -EINVAL);
        assert_int_equal(get_left(map, "long", &left), 5);
        assert_in_range(left, 3500000, 3600000);
        assert_int_equal(get_left(map, "none", &left), 5);
        assert_true(left == UINT64_MAX);
        assert_int_equal(get_left(map, "default", &left), 5);
        assert_true(left == UINT64_MAX);
        assert_int_equal(get_left(map, "longest", &left), 5);
        assert_in_range(left, TSLAB_MAP_TTL_MAX - 60000, TSLAB_MAP_TTL_MAX);
        sleep_ms(100);
        assert_int_equal(get_left(map, "short", &left), -ENOENT);
        assert_int_equal(tslab_map_touch(map, "short", 5, 1000), -ENOENT);
        assert_int_equal(tslab_map_touch(map, "long", 4, TSLAB_MAP_TTL_NONE), 0);
        assert_int_equal(get_left(map, "long", &left), 5);
        assert_true(left == UINT64_MAX);
        assert_int_equal(tslab_map_count(map), 4);
        tslab_map_close(map);
}

/* The process that creates the map decides. */
static void test_map_default_lifetime(void **state) {
        struct tslab_map_options o = { .size = sizeof(o), .ttl_ms = 100000 };
        struct tslab_map_options none = { .size = sizeof(none), .ttl_ms = TSLAB_MAP_TTL_NONE };
        struct tslab_map *map, *again;
        uint64_t left;

        assert_int_equal(tslab_map_open(&map, *state, "m", &none), -EINVAL);
        assert_int_equal(tslab_map_open(&map, *state, "m", &o), 0);
        o.ttl_ms = 5;
        assert_int_equal(tslab_map_open(&again, *state, "m", &o), 0);
        assert_int_equal(tslab_map_put(again, "a", 1, "value", 5, TSLAB_EPOCH_CURRENT), 0);
        assert_int_equal(get_left(map, "a", &left), 5);
        assert_in_range(left, 50000, 100000);
        assert_int_equal(put_ttl(map, "a", TSLAB_MAP_TTL_NONE), 0);
        assert_int_equal(get_left(map, "a", &left), 5);
        assert_true(left == UINT64_MAX);
        assert_int_equal(tslab_map_touch(map, "a", 1, 0), 0);
        assert_int_equal(get_left(map, "a", &left), 5);
        assert_in_range(left, 50000, 100000);
        assert_int_equal(tslab_map_add(map, "c", 1, 1, 0, 0, NULL), 0);
        assert_int_equal(get_left(map, "c", &left), 8);
        assert_in_range(left, 50000, 100000);
        assert_int_equal(tslab_map_add(map, "d", 1, 1, 0, TSLAB_MAP_TTL_NONE, NULL), 0);
        assert_int_equal(get_left(map, "d", &left), 8);
        assert_true(left == UINT64_MAX);
        tslab_map_close(again);
        tslab_map_close(map);
}

/* All memory is in entries that expired while nobody wrote: a put does not fail for want of it. */
static void test_map_full_of_expired(void **state) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 1 << 20 };
        static const char value[500];
        struct tslab_map *map;
        struct tslab *pool;
        tslab_handle handle;
        uint64_t n = 0;

        (void) state;
        assert_int_equal(tslab_create(&pool, &options), 0);
        assert_int_equal(tslab_map_open(&map, pool, "m", NULL), 0);
        while (tslab_map_put(map, &n, sizeof(n), value, sizeof(value), TSLAB_EPOCH_CURRENT) == 0)
                n++;
        for (uint64_t i = 0; i < n; i++)
                assert_int_equal(tslab_map_touch(map, &i, sizeof(i), 1000), 0);
        while (tslab_map_count(map) > 0)
                sleep_ms(10);
        /* It asks others for their slots: a put that lacks memory just after it does not. */
        (void) tslab_alloc(pool, 4096, TSLAB_EPOCH_CURRENT, &handle, NULL);
        for (uint64_t i = 0; i < n / 2; i++)
                assert_int_equal(tslab_map_put(map, &i, sizeof(i), value, sizeof(value), TSLAB_EPOCH_CURRENT),
                                 0);
        assert_int_equal(statistics(map).failures, 1);
        assert_int_equal(tslab_map_count(map), n / 2);
        tslab_map_close(map);
        tslab_close(pool);
}

static int put_sized(struct tslab_map *map, uint64_t key, size_t size) {
        static const char value[500];

        return tslab_map_put(map, &key, sizeof(key), value, size, TSLAB_EPOCH_CURRENT);
}

static int put_empty(struct tslab_map *map, uint64_t key) {
        return put_sized(map, key, 0);
}

static int add_one(struct tslab_map *map, uint64_t key) {
        return tslab_map_add(map, &key, sizeof(key), 1, 0, TSLAB_MAP_TTL_NONE, NULL);
}

static int take_token(struct tslab_map *map, uint64_t key) {
        return tslab_map_limit(map, &key, sizeof(key), 1, 1, 1, NULL);
}

static int claim_key(struct tslab_map *map, uint64_t key) {
        tslab_handle version;

        return tslab_map_claim(map, &key, sizeof(key), TSLAB_EPOCH_CURRENT, &version);
}

/* All that a map may take is in entries that expired while nobody wrote. Values of all sizes leave no slots. */
static void full_of_expired(uint64_t limit_bytes, int error,
                            int change(struct tslab_map *map, uint64_t key)) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 1 << 20 };
        struct tslab_map_options map_options = { .size = sizeof(map_options), .limit_bytes = limit_bytes };
        struct tslab_map *map;
        struct tslab *pool;
        uint64_t n = 0, n_failures = 1;

        assert_int_equal(tslab_create(&pool, &options), 0);
        assert_int_equal(tslab_map_open(&map, pool, "m", &map_options), 0);
        for (int size = 500; size >= 0; size -= 20, n_failures++)
                while (put_sized(map, n, (size_t) size) == 0)
                        n++;
        assert_int_equal(change(map, n), error);
        for (uint64_t i = 0; i < n; i++)
                (void) tslab_map_touch(map, &i, sizeof(i), 100);
        while (tslab_map_count(map) > 0)
                sleep_ms(10);
        assert_int_equal(change(map, n), 0);
        assert_int_equal(statistics(map).failures, n_failures);
        tslab_map_close(map);
        tslab_close(pool);
}

static void test_map_changes_full_of_expired(void **state) {
        (void) state;
        full_of_expired(0, -ENOMEM, add_one);
        full_of_expired(0, -ENOMEM, take_token);
        full_of_expired(0, -ENOMEM, claim_key);
}

static void test_map_changes_at_limit_of_expired(void **state) {
        (void) state;
        full_of_expired(64 << 10, -ENOSPC, put_empty);
        full_of_expired(64 << 10, -ENOSPC, add_one);
        full_of_expired(64 << 10, -ENOSPC, take_token);
        full_of_expired(64 << 10, -ENOSPC, claim_key);
}

static void test_map_largest_value(void **state) {
        struct tslab_map_options o = { .size = sizeof(o), .value_max = (16 << 20) + 1 };
        static char value[5001], back[5001];
        struct tslab_map *map, *other;

        assert_int_equal(tslab_map_open(&map, *state, "m", &o), -EINVAL);
        o.value_max = 5000;
        o.flags = 4;
        assert_int_equal(tslab_map_open(&map, *state, "m", &o), -EINVAL);
        o.flags = 0;
        assert_int_equal(tslab_map_open(&map, *state, "m", &o), 0);
        assert_int_equal(tslab_map_size_max(map), 5000);
        memset(value, 'x', sizeof(value));
        assert_int_equal(tslab_map_put(map, "a", 1, value, 5001, TSLAB_EPOCH_CURRENT), -E2BIG);
        assert_int_equal(tslab_map_put(map, "a", 1, value, 5000, TSLAB_EPOCH_CURRENT), 0);
        assert_int_equal(tslab_map_get(map, "a", 1, back, sizeof(back), NULL), 5000);
        assert_memory_equal(value, back, 5000);
        o.value_max = 16 << 20;
        assert_int_equal(tslab_map_open(&other, *state, "m", &o), 0);
        assert_int_equal(tslab_map_size_max(other), 5000);
        tslab_map_close(other);
        assert_int_equal(tslab_map_open(&other, *state, "other", &o), 0);
        assert_int_equal(tslab_map_size_max(other), 16 << 20);
        tslab_map_close(other);
        tslab_map_close(map);
}

/* The memory goes back by calls that change any map, without a look at those entries. */
static void test_map_expired_memory_goes_back(void **state) {
        struct tslab_map *map, *other;
        char key[16];

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        assert_int_equal(tslab_map_open(&other, *state, "other", NULL), 0);
        for (unsigned i = 0; i < 1000; i++) {
                snprintf(key, sizeof(key), "%u", i);
                assert_int_equal(put_ttl(map, key, i % 2 ? 20 : TSLAB_MAP_TTL_NONE), 0);
        }
        for (unsigned i = 0; i < 1000 && statistics(map).entries > 500; i++) {
                sleep_ms(10);
                assert_int_equal(tslab_map_put(other, "k", 1, "v", 1, TSLAB_EPOCH_CURRENT), 0);
        }
        assert_int_equal(statistics(map).entries, 500);
        assert_int_equal(statistics(map).expirations, 500);
        tslab_map_close(other);
        tslab_map_close(map);
}

/* A call deletes some at a time, and the next calls leave them alone for a while. */
static void test_map_expired_memory_goes_back_in_slices(void **state) {
        uint64_t n = 30000, n_gone, n_most = 0, n_short = 0, n_now;
        struct tslab_map *map, *other;
        char key[16];

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        assert_int_equal(tslab_map_open(&other, *state, "other", NULL), 0);
        for (uint64_t i = 0; i < n; i++) {
                snprintf(key, sizeof(key), "%lu", (unsigned long) i);
                assert_int_equal(put_ttl(map, key, 1000), 0);
        }
        while (tslab_map_count(map) > 0)
                sleep_ms(10);
        for (n_gone = statistics(map).expirations; n_gone < n; n_gone = n_now) {
                assert_int_equal(tslab_map_put(other, "k", 1, "v", 1, TSLAB_EPOCH_CURRENT), 0);
                n_now = statistics(map).expirations;
                n_short += n_now == n_gone;
                n_most = n_now - n_gone > n_most ? n_now - n_gone : n_most;
        }
        assert_true(n_most < n / 2);
        assert_true(n_short > 10);
        tslab_map_close(other);
        tslab_map_close(map);
}

static void test_map_put_with_options(void **state) {
        struct {
                struct tslab_map_put_options now;
                uint64_t later;
        } o = { .now = { .size = sizeof(o), .epoch = TSLAB_EPOCH_CURRENT } };
        struct tslab_map_info info = { .size = sizeof(info) };
        struct tslab_map_info small = { .size = sizeof(size_t) + sizeof(uint32_t), .flags = 77 };
        struct tslab_map *map;
        char buffer[8];

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        o.now.mode = TSLAB_MAP_UPDATE;
        assert_int_equal(tslab_map_put_with(map, "a", 1, "1", 1, &o.now), -ENOENT);
        o.now.mode = TSLAB_MAP_INSERT;
        assert_int_equal(tslab_map_put_with(map, "a", 1, "1", 1, &o.now), 0);
        assert_int_equal(tslab_map_put_with(map, "a", 1, "1", 1, &o.now), -EEXIST);
        assert_int_equal(tslab_map_get_with(map, "a", 1, buffer, 8, &info), 1);
        o.now.mode = TSLAB_MAP_REPLACE;
        assert_int_equal(tslab_map_put_with(map, "a", 1, "2", 1, &o.now), -EAGAIN);
        o.now.version = info.version;
        assert_int_equal(tslab_map_put_with(map, "a", 1, "2", 1, &o.now), 0);
        o.now.mode = 4;
        assert_int_equal(tslab_map_put_with(map, "a", 1, "2", 1, &o.now), -EINVAL);
        o.now.mode = 0;
        o.later = 1;
        assert_int_equal(tslab_map_put_with(map, "a", 1, "2", 1, &o.now), -EINVAL);
        o.now.size = 3;
        assert_int_equal(tslab_map_put_with(map, "a", 1, "2", 1, &o.now), -EINVAL);
        assert_int_equal(tslab_map_put_with(map, "a", 1, "3", 1, NULL), 0);
        assert_int_equal(tslab_map_get_with(map, "a", 1, buffer, 8, &small), 1);
        assert_int_equal(small.flags, 77);
        assert_int_equal(buffer[0], '3');
        small.size = 0;
        assert_int_equal(tslab_map_get_with(map, "a", 1, buffer, 8, &small), -EINVAL);
        tslab_map_close(map);
}

/* A touch that tells the value, as a web session needs it. */
static void test_map_get_touch(void **state) {
        struct tslab_map_statistics s = { .size = sizeof(s) };
        struct tslab_map_info info = { .size = sizeof(info) };
        static char large[70000];
        struct tslab_map *map;
        char value[8];
        int64_t count;
        uint64_t left;

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        assert_int_equal(tslab_map_get_touch(map, "a", 1, 1000, value, sizeof(value), NULL), -ENOENT);
        assert_int_equal(put_ttl(map, "a", 1000000), 0);
        assert_int_equal(tslab_map_get_touch(map, "a", 1, 5000000, value, 4, &info), -EMSGSIZE);
        assert_int_equal(info.value_size, 5);
        assert_int_equal(get_left(map, "a", &left), 5);
        assert_in_range(left, 500000, 1000000);
        assert_int_equal(tslab_map_get_touch(map, "a", 1, 5000000, value, 5, &info), 5);
        assert_memory_equal(value, "value", 5);
        assert_in_range(info.ttl_left_ms, 4000000, 5000000);
        assert_int_equal(info.value_size, 5);
        assert_int_equal(get_left(map, "a", &left), 5);
        assert_in_range(left, 4000000, 5000000);
        assert_int_equal(tslab_map_get_touch(map, "a", 1, TSLAB_MAP_TTL_NONE, value, 8, &info), 5);
        assert_true(info.ttl_left_ms == UINT64_MAX);
        assert_int_equal(tslab_map_get_touch(map, "a", 1, TSLAB_MAP_TTL_DEFAULT, value, 8, NULL), 5);

        assert_int_equal(tslab_map_get_touch(map, "a", 1, TSLAB_MAP_TTL_MAX + 1, value, 8, NULL), -EINVAL);
        info.accept = TSLAB_MAP_STALE;
        assert_int_equal(tslab_map_get_touch(map, "a", 1, 1000, value, 8, &info), -EINVAL);
        info = (struct tslab_map_info){ .size = 1 };
        assert_int_equal(tslab_map_get_touch(map, "a", 1, 1000, value, 8, &info), -EINVAL);
        assert_int_equal(tslab_map_get_touch(map, large, sizeof(large), 1, value, 8, NULL), -ENOENT);

        assert_int_equal(tslab_map_add(map, "c", 1, 7, 0, 0, NULL), 0);
        assert_int_equal(tslab_map_get_touch(map, "c", 1, 1000000, &count, sizeof(count), NULL), 8);
        assert_int_equal(count, 7);
        assert_int_equal(tslab_map_limit(map, "l", 1, 1, 10, 1, NULL), 0);
        assert_int_equal(tslab_map_get_touch(map, "l", 1, 1000, value, 8, NULL), -EINVAL);
        assert_int_equal(tslab_map_put(map, "large", 5, large, sizeof(large), TSLAB_EPOCH_CURRENT), 0);
        memset(large, 1, sizeof(large));
        assert_int_equal(tslab_map_get_touch(map, "large", 5, 1000000, large, sizeof(large), NULL),
                         sizeof(large));
        assert_int_equal(large[0] | large[sizeof(large) - 1], 0);
        assert_int_equal(tslab_map_statistics(map, &s), 0);
        assert_int_equal(s.misses, 1);
        tslab_map_close(map);
}

static void test_map_add(void **state) {
        struct tslab_map_info info = { .size = sizeof(info) };
        static char large[70000];
        struct tslab_map *map;
        int64_t value;

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        assert_int_equal(tslab_map_add(map, "a", 1, 5, 10, 0, &value), 0);
        assert_int_equal(value, 15);
        assert_int_equal(tslab_map_add(map, "a", 1, -20, 0, 0, &value), 0);
        assert_int_equal(value, -5);
        assert_int_equal(tslab_map_add(map, "a", 1, 1, 0, 0, NULL), 0);
        assert_int_equal(tslab_map_get_with(map, "a", 1, &value, sizeof(value), &info), 8);
        assert_int_equal(value, -4);
        assert_int_equal(info.flags, TSLAB_MAP_COUNTER);
        assert_int_equal(tslab_map_put(map, "b", 1, "12345678", 8, TSLAB_EPOCH_CURRENT), 0);
        assert_int_equal(tslab_map_add(map, "b", 1, 1, 0, 0, &value), -EINVAL);
        assert_int_equal(tslab_map_add(map, large, sizeof(large), 1, 0, 0, &value), -E2BIG);
        assert_int_equal(tslab_map_touch(map, large, sizeof(large), 1), -ENOENT);
        assert_int_equal(value, -4);
        tslab_map_close(map);
}

static void test_map_add_with(void **state) {
        struct tslab_map_add_options set = { .size = sizeof(set), .mode = TSLAB_MAP_ADD_SET };
        struct tslab_map *map;
        int64_t value;

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        assert_int_equal(tslab_map_put(map, "b", 1, "12345678", 8, TSLAB_EPOCH_CURRENT), 0);
        assert_int_equal(tslab_map_add_with(map, "b", 1, 1, &set, &value), -EINVAL);
        assert_int_equal(tslab_map_add_with(map, "a", 1, INT64_MAX, &set, &value), 0);
        assert_true(value == INT64_MAX);
        assert_int_equal(tslab_map_add(map, "a", 1, 1, 0, 0, &value), -EOVERFLOW);
        assert_int_equal(tslab_map_add_with(map, "a", 1, 1, NULL, NULL), -EOVERFLOW);
        set.mode = TSLAB_MAP_ADD_WRAP;
        assert_int_equal(tslab_map_add_with(map, "a", 1, 1, &set, &value), 0);
        assert_true(value == INT64_MIN);
        set.mode = TSLAB_MAP_ADD_SET + 1;
        assert_int_equal(tslab_map_add_with(map, "a", 1, 1, &set, &value), -EINVAL);
        set.mode = TSLAB_MAP_ADD;
        set.size = 0;
        assert_int_equal(tslab_map_add_with(map, "a", 1, 1, &set, &value), -EINVAL);
        tslab_map_close(map);
}

static void test_map_add_at(void **state) {
        struct tslab_map *map, *other;
        tslab_handle version, plain, bucket;
        int64_t value = 0;
        char byte;

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        assert_int_equal(tslab_map_open(&other, *state, "n", NULL), 0);
        assert_int_equal(tslab_map_add(map, "a", 1, 5, 0, 0, NULL), 0);
        assert_int_equal(tslab_map_get(map, "a", 1, &value, sizeof(value), &version), 8);
        assert_int_equal(tslab_map_add_at(map, version, -7, &value), 0);
        assert_int_equal(value, -2);
        assert_int_equal(tslab_map_add_at(map, version, 3, NULL), 0);
        assert_int_equal(tslab_map_add(map, "a", 1, 0, 0, 0, &value), 0);
        assert_int_equal(value, 1);
        assert_int_equal(tslab_map_add_at(other, version, 1, &value), -EINVAL);
        assert_int_equal(tslab_map_put(map, "b", 1, "1", 1, TSLAB_EPOCH_CURRENT), 0);
        assert_int_equal(tslab_map_get(map, "b", 1, &byte, 1, &plain), 1);
        assert_int_equal(tslab_map_add_at(map, plain, 1, &value), -EINVAL);
        assert_int_equal(tslab_map_limit(map, "c", 1, 1, 1, 1, NULL), 0);
        assert_int_equal(tslab_map_get(map, "c", 1, &value, sizeof(value), &bucket), 8);
        assert_int_equal(tslab_map_add_at(map, bucket, 1, NULL), -EINVAL);
        assert_int_equal(tslab_map_add_at(map, 0, 1, NULL), -ESTALE);
        assert_int_equal(tslab_map_delete(map, "a", 1), 0);
        value = 7;
        assert_int_equal(tslab_map_add_at(map, version, 1, &value), -ESTALE);
        assert_int_equal(value, 7);
        /* In the same slot, mostly: the version of an earlier counter does not name it. */
        assert_int_equal(tslab_map_add(map, "a", 1, 5, 0, 0, NULL), 0);
        assert_int_equal(tslab_map_add_at(map, version, 1, &value), -ESTALE);
        assert_int_equal(tslab_map_add(map, "a", 1, 0, 0, 0, &value), 0);
        assert_int_equal(value, 5);
        tslab_map_close(other);
        tslab_map_close(map);
}

static int64_t add(struct tslab_map *map, int64_t delta) {
        int64_t value = -1;

        assert_int_equal(tslab_map_add(map, "a", 1, delta, 0, 0, &value), 0);
        return value;
}

/* Adds to its parent's counter, then begins it anew. */
static int add_in_child(void *map) {
        int64_t value;

        CHECK(tslab_map_add(map, "a", 1, 1, 0, 0, &value) == 0 && value == 3);
        CHECK(tslab_map_add(map, "a", 1, 1, 0, 0, &value) == 0 && value == 4);
        CHECK(tslab_map_delete(map, "a", 1) == 0);
        CHECK(tslab_map_add(map, "a", 1, 10, 0, 0, &value) == 0 && value == 10);
        return 0;
}

/* A thread adds to the counter that it found last, of this map and pool: also in a child, and while a child adds. */
static void test_map_add_again(void **state) {
        struct tslab_map *map, *other, *far;
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, NULL), 0);
        assert_int_equal(tslab_map_open(&far, pool, "m", NULL), 0);
        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        assert_int_equal(tslab_map_open(&other, *state, "n", NULL), 0);
        for (int64_t i = 1; i <= 2; i++) {
                assert_int_equal(add(map, 1), i);
                assert_int_equal(add(other, 100), 100 * i);
                assert_int_equal(add(far, 1000), 1000 * i);
        }
        assert_int_equal(add(map, 0), 2);
        assert_int_equal(test_child_run(TEST_FORK, add_in_child, map), 0);
        assert_int_equal(add(map, 1), 11);
        tslab_map_close(map);
        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        assert_int_equal(add(map, 1), 12);
        tslab_map_close(far);
        tslab_close(pool);
        assert_int_equal(add(map, 1), 13);
        assert_int_equal(add(other, 1), 201);
        tslab_map_close(other);
        tslab_map_close(map);
}

static ssize_t take(struct tslab_map *map, int64_t *ret) {
        return tslab_map_take(map, "a", 1, ret, sizeof(*ret), NULL);
}

static void test_map_take(void **state) {
        struct tslab_map_info info = { .size = sizeof(info) };
        struct tslab_map *map;
        int64_t value = 7;
        char bytes[8];
        uint64_t left;

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        assert_int_equal(take(map, &value), -ENOENT);
        assert_int_equal(tslab_map_put(map, "a", 1, "value", 5, TSLAB_EPOCH_CURRENT), 0);
        assert_int_equal(tslab_map_take(map, "a", 1, bytes, 4, &info), -EMSGSIZE);
        assert_int_equal(info.value_size, 5);
        info.accept = TSLAB_MAP_STALE;
        assert_int_equal(tslab_map_take(map, "a", 1, bytes, 8, &info), -EINVAL);
        info.accept = 0;
        assert_int_equal(tslab_map_take(map, "a", 1, bytes, 8, &info), 5);
        assert_memory_equal(bytes, "value", 5);
        assert_int_equal(info.flags, 0);
        for (uint64_t ttl_ms = 0; ttl_ms <= 100000; ttl_ms += 50000) {
                assert_int_equal(tslab_map_add(map, "a", 1, 5, -9, ttl_ms, NULL), 0);
                assert_int_equal(tslab_map_take(map, "a", 1, &value, sizeof(value), &info), sizeof(value));
                assert_int_equal(value, -4);
                assert_int_equal(info.flags, TSLAB_MAP_COUNTER);
                assert_int_equal(take(map, &value), -ENOENT);
        }
        assert_int_equal(tslab_map_add(map, "a", 1, 1, 0, 1, NULL), 0);
        while (get_left(map, "a", &left) >= 0)
                sleep_ms(1);
        assert_int_equal(take(map, &value), -ENOENT);
        tslab_map_close(map);
}

#define N_ADDS 100000

static void *add_many(void *map) {
        for (unsigned i = 0; i < N_ADDS; i++)
                if (tslab_map_add(map, "a", 1, 1, 0, 0, NULL) != 0)
                        abort();
        return NULL;
}

/* Each add is in one value that was taken. */
static void test_map_take_beside_adds(void **state) {
        int64_t sum = 0, value = 0;
        struct tslab_map *map;
        pthread_t threads[2];

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        for (unsigned i = 0; i < 2; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, add_many, map), 0);
        for (unsigned i = 0; i < N_ADDS; i++)
                sum += take(map, &value) > 0 ? value : 0;
        for (unsigned i = 0; i < 2; i++)
                assert_int_equal(pthread_join(threads[i], NULL), 0);
        sum += take(map, &value) > 0 ? value : 0;
        assert_int_equal(sum, 2 * N_ADDS);
        tslab_map_close(map);
}

/* An expired counter takes no more. */
static void test_map_add_at_end(void **state) {
        tslab_handle version;
        struct tslab_map *map;
        int64_t value;

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        assert_int_equal(tslab_map_add(map, "a", 1, 5, 0, TSLAB_MAP_TTL_NONE, NULL), 0);
        assert_int_equal(tslab_map_get(map, "a", 1, &value, sizeof(value), &version), 8);
        assert_int_equal(tslab_map_touch(map, "a", 1, 20), 0);
        while (tslab_map_get(map, "a", 1, &value, sizeof(value), NULL) >= 0)
                sleep_ms(1);
        assert_int_equal(tslab_map_add_at(map, version, 1, &value), -ESTALE);
        tslab_map_close(map);
}

/* Not even memory: also in a full map, and a bucket stays as it is. */
static void test_map_limit_without_cost(void **state) {
        const struct tslab_map_options options = { .size = sizeof(options), .limit_bytes = ENTRY_COST(64) };
        struct tslab_map_statistics statistics = { .size = sizeof(statistics) };
        struct tslab_map *map;
        uint64_t retry_ms = 1;

        assert_int_equal(tslab_map_open(&map, *state, "limits", &options), 0);
        assert_int_equal(tslab_map_limit(map, "a", 1, 1.0 / 60, 10, 0, &retry_ms), 0);
        assert_int_equal(retry_ms, 0);
        assert_int_equal(tslab_map_statistics(map, &statistics), 0);
        assert_int_equal(statistics.entries, 0);
        assert_int_equal(tslab_map_limit(map, "a", 1, 1.0 / 60, 10, 10, NULL), 0);
        assert_int_equal(tslab_map_limit(map, "b", 1, 1.0 / 60, 10, 0, NULL), 0);
        assert_int_equal(tslab_map_limit(map, "b", 1, 1.0 / 60, 10, 1, NULL), -ENOSPC);
        assert_int_equal(tslab_map_limit(map, "a", 1, 1.0 / 60, 5, 0, NULL), 0);
        assert_int_equal(tslab_map_limit(map, "a", 1, 1.0 / 60, 10, 1, NULL), 1);
        assert_int_equal(tslab_map_delete(map, "a", 1), 0);
        assert_int_equal(tslab_map_add(map, "a", 1, 1, 0, 0, NULL), 0);
        assert_int_equal(tslab_map_limit(map, "a", 1, 1.0 / 60, 10, 0, NULL), -EINVAL);
        tslab_map_close(map);
}

static void test_map_limit(void **state) {
        struct tslab_map *map;
        uint64_t retry_ms = 7;
        int64_t value;

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        assert_int_equal(tslab_map_limit(map, "a", 1, 0, 1, 1, &retry_ms), -EINVAL);
        assert_int_equal(tslab_map_limit(map, "a", 1, -1, 1, 1, &retry_ms), -EINVAL);
        assert_int_equal(tslab_map_limit(map, "a", 1, (double) NAN, 1, 1, &retry_ms), -EINVAL);
        assert_int_equal(tslab_map_limit(map, "a", 1, 1e10, 1, 1, &retry_ms), -EINVAL);
        assert_int_equal(tslab_map_limit(map, "a", 1, 1e-9, 1000, 1, &retry_ms), -EINVAL);
        assert_int_equal(tslab_map_limit(map, "a", 1, 10, 0, 0, &retry_ms), -EINVAL);
        assert_int_equal(tslab_map_limit(map, "a", 1, 10, 5, 6, &retry_ms), -EINVAL);
        assert_int_equal(retry_ms, 7);
        assert_int_equal(tslab_map_limit(map, "a", 1, 1.0 / 60, 5, 4, &retry_ms), 0);
        assert_int_equal(retry_ms, 0);
        assert_int_equal(tslab_map_limit(map, "a", 1, 1.0 / 60, 5, 2, &retry_ms), 1);
        assert_in_range(retry_ms, 50000, 60000);
        assert_int_equal(tslab_map_limit(map, "a", 1, 1.0 / 60, 5, 1, NULL), 0);
        assert_int_equal(tslab_map_limit(map, "a", 1, 1.0 / 60, 5, 0, NULL), 0);
        assert_int_equal(tslab_map_add(map, "a", 1, 1, 0, 0, &value), -EINVAL);
        tslab_map_close(map);
}

static void test_map_statistics(void **state) {
        struct tslab_map_statistics s = { .size = 0 };
        struct tslab_map *map;
        char buffer[8];

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        assert_int_equal(tslab_map_statistics(map, &s), -EINVAL);
        assert_int_equal(tslab_map_put(map, "a", 1, "1", 1, TSLAB_EPOCH_CURRENT), 0);
        assert_int_equal(tslab_map_put(map, "b", 1, "1", 1, TSLAB_EPOCH_CURRENT), 0);
        assert_int_equal(tslab_map_get(map, "a", 1, buffer, 8, NULL), 1);
        assert_int_equal(tslab_map_get(map, "x", 1, buffer, 8, NULL), -ENOENT);
        assert_int_equal(tslab_map_get(map, "y", 1, buffer, 8, NULL), -ENOENT);
        assert_int_equal(tslab_map_delete(map, "b", 1), 0);
        s = statistics(map);
        assert_int_equal(s.entries, 1);
        assert_int_equal(s.bytes, ENTRY_COST(64));
        assert_int_equal(s.hits, 1);
        assert_int_equal(s.misses, 2);
        assert_int_equal(s.inserts, 2);
        assert_int_equal(s.deletes, 1);
        tslab_map_close(map);
}

/* Adds of a child, in memory that outlives it. */
typedef struct Adds {
        struct tslab_map *map;
        _Atomic uint64_t n_begun, n_done;
} Adds;

static int adding_child(void *userdata) {
        Adds *adds = userdata;

        for (unsigned i = 0;; i++) {
                int64_t value;

                adds->n_begun++;
                CHECK(tslab_map_add(adds->map, "sum", 3, 1, 0, 0, &value) == 0);
                adds->n_done++;
                CHECK(value > 0);
                /* Leaves of a slot that come and go. */
                CHECK(tslab_map_add(adds->map, "other", 5, 1, 0, 0, &value) == 0);
                if (i % 3 == 0)
                        (void) tslab_map_delete(adds->map, "other", 5);
        }
}

static void test_map_add_killed(void **state) {
        enum { N_CHILDREN = 3, N_ROUNDS = 30 };
        struct tslab_map *map;
        int64_t value = 0;
        Adds *adds;

        adds = mmap(NULL, N_CHILDREN * sizeof(*adds), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                    0);
        assert_true(adds != MAP_FAILED);
        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        for (unsigned round = 0; round < N_ROUNDS; round++) {
                uint64_t begun = 0, done = 0;
                pid_t pids[N_CHILDREN];
                int64_t before = value;

                for (unsigned i = 0; i < N_CHILDREN; i++) {
                        adds[i] = (Adds){ .map = map };
                        pids[i] = test_child_start(TEST_FORK, adding_child, &adds[i]);
                }
                for (unsigned i = 0; i < N_CHILDREN; i++)
                        while (adds[i].n_done == 0)
                                sleep_ms(1);
                sleep_ms(1 + round % 7);
                for (unsigned i = 0; i < N_CHILDREN; i++)
                        kill(pids[i], SIGKILL);
                for (unsigned i = 0; i < N_CHILDREN; i++) {
                        assert_int_equal(test_child_wait(pids[i]), -SIGKILL);
                        begun += adds[i].n_begun;
                        done += adds[i].n_done;
                }
                assert_true(tslab_reap(*state) >= 0);
                assert_int_equal(tslab_map_add(map, "sum", 3, 0, 0, 0, &value), 0);
                assert_in_range(value - before, done, begun);
                assert_true(begun - done <= N_CHILDREN);
        }
        assert_true(value > N_ROUNDS);
        assert_int_equal(tslab_map_count(map), statistics(map).entries);
        tslab_map_close(map);
        munmap(adds, N_CHILDREN * sizeof(*adds));
}

static int put_tagged(struct tslab_map *map, const char *key, tslab_handle tag, uint64_t ttl_ms) {
        struct tslab_map_put_options o = {
                .size = sizeof(o), .epoch = TSLAB_EPOCH_CURRENT, .ttl_ms = ttl_ms, .tags = &tag, .n_tags = 1
        };

        return tslab_map_put_with(map, key, strlen(key), "value", 5, &o);
}

static tslab_handle tag_of(struct tslab_map *map, const char *name) {
        tslab_handle tag = 0;

        assert_int_equal(tslab_map_tag(map, name, strlen(name), TSLAB_EPOCH_CURRENT, &tag), 0);
        return tag;
}

static void test_map_tags(void **state) {
        tslab_handle five[5] = {}, tag;
        struct tslab_map *map;
        struct tslab_map_put_options o = { .size = sizeof(o), .tags = five, .n_tags = 5 };
        struct tslab_map_item item = { .key = "many", .key_size = 4, .value = "x", .value_size = 1 };
        uint64_t left;
        char big[5000];

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        assert_int_equal(tslab_map_put_with(map, "a", 1, "b", 1, &o), -EINVAL);
        o.n_tags = 1;
        o.tags = NULL;
        assert_int_equal(tslab_map_put_with(map, "a", 1, "b", 1, &o), -EINVAL);
        assert_int_equal(tslab_map_invalidate(map, "none", 4), -ENOENT);
        assert_int_equal(tslab_map_tag(map, big, sizeof(big), TSLAB_EPOCH_CURRENT, &tag), -E2BIG);
        tag = tag_of(map, "product");
        assert_int_equal(put_tagged(map, "page", tag, 0), 0);
        assert_int_equal(put_tagged(map, "short", tag, 60000), 0);
        o.epoch = TSLAB_EPOCH_CURRENT;
        o.tags = &tag;
        assert_int_equal(tslab_map_put_many(map, &item, 1, &o), 1);
        assert_int_equal(get_left(map, "page", &left), 5);
        assert_true(left == UINT64_MAX);
        assert_int_equal(get_left(map, "short", &left), 5);
        assert_true(left <= 60000);
        assert_int_equal(tslab_map_count(map), 3);
        assert_int_equal(tslab_map_invalidate(map, "product", 7), 0);
        assert_int_equal(get_left(map, "page", &left), -ENOENT);
        assert_int_equal(get_left(map, "short", &left), -ENOENT);
        assert_int_equal(tslab_map_count(map), 0);
        assert_int_equal(tslab_map_touch(map, "page", 4, 1000), -ENOENT);
        assert_int_equal(tslab_map_delete(map, "page", 4), -ENOENT);
        assert_int_equal(put_tagged(map, "page", tag, 0), 0);
        assert_int_equal(get_left(map, "page", &left), -ENOENT);
        assert_int_equal(put_tagged(map, "page", tag_of(map, "product"), 0), 0);
        assert_int_equal(get_left(map, "page", &left), 5);
        tslab_map_close(map);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_map_full_of_expired),
                cmocka_unit_test(test_map_changes_full_of_expired),
                cmocka_unit_test(test_map_changes_at_limit_of_expired),
                cmocka_unit_test_setup_teardown(test_map_lifetime, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_default_lifetime, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_largest_value, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_expired_memory_goes_back, map_pool_setup,
                                                map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_expired_memory_goes_back_in_slices, map_pool_setup,
                                                map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_put_with_options, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_tags, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_get_touch, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_add, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_add_with, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_add_again, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_add_at, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_add_at_end, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_take, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_take_beside_adds, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_limit, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_limit_without_cost, map_pool_setup,
                                                map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_statistics, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_add_killed, map_pool_setup, map_pool_teardown),
        };

        return cmocka_run_group_tests_name("map-lifetime", tests, NULL, NULL);
}
