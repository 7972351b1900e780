/* Maps with a limit, and maps that evict, in private pools: options, and processes that are killed as they evict. */
#include <tslab_map.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/api/map-pool.h"
#include "tests/api/entry-cost.h"
#include "tests/util/parent.h"
#include "tests/util/process.h"
#include "tests/util/test.h"

#define SLOT 128
#define COST ENTRY_COST(SLOT)
#define LIMIT (1000 * COST)
#define LIMIT_AT_ONCE (LIMIT + LIMIT / 64 + (1 + N_CHILDREN) * COST) /* where several put */
#define N_KEYS 5000
#define N_CHILDREN 3

/* A value tells its key, and is the same all through: a mixture of two shows. */
typedef struct Value {
        uint32_t words[22];
} Value;

static int setup_size(void **state, size_t size) {
        struct tslab_options o = { .size = sizeof(o), .arena_bytes = size };
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, &o), 0);
        *state = pool;
        return 0;
}

static int setup(void **state) {
        return setup_size(state, 64 << 20);
}

static int setup_small(void **state) {
        return setup_size(state, 4 << 20);
}

static struct tslab_map *open_map(struct tslab *pool, uint64_t limit, uint32_t evict) {
        struct tslab_map_options o = { .size = sizeof(o), .limit_bytes = limit, .evict = evict };
        struct tslab_map *map;

        assert_int_equal(tslab_map_open(&map, pool, "m", &o), 0);
        return map;
}

static int put(struct tslab_map *map, uint32_t key) {
        Value value;

        for (unsigned i = 0; i < 22; i++)
                value.words[i] = key;
        return tslab_map_put(map, &key, sizeof(key), &value, sizeof(value), TSLAB_EPOCH_CURRENT);
}

/* 1: there; 0: absent; another number is an error. */
static int get(struct tslab_map *map, uint32_t key) {
        Value value;
        ssize_t n = tslab_map_get(map, &key, sizeof(key), &value, sizeof(value), NULL);

        if (n == -ENOENT)
                return 0;
        for (unsigned i = 0; i < 22; i++)
                if (n != sizeof(value) || value.words[i] != key)
                        return 2;
        return 1;
}

static struct tslab_map_statistics statistics(struct tslab_map *map) {
        struct tslab_map_statistics s = { .size = sizeof(s) };

        assert_int_equal(tslab_map_statistics(map, &s), 0);
        return s;
}

static void test_map_evict_options(void **state) {
        struct tslab_map_options o = { .size = sizeof(o), .evict = 2 };
        struct tslab_map *map, *other;

        assert_int_equal(tslab_map_open(&map, *state, "m", &o), -EINVAL);
        map = open_map(*state, 2 * COST, TSLAB_MAP_EVICT_NEVER);
        assert_int_equal(put(map, 1), 0);
        assert_int_equal(put(map, 2), 0);
        assert_int_equal(put(map, 3), -ENOSPC);
        assert_int_equal(put(map, 2), 0);
        /* They are the map's: whoever opens it later has the same. */
        other = open_map(*state, 0, TSLAB_MAP_EVICT_SIEVE);
        assert_int_equal(put(other, 3), -ENOSPC);
        assert_int_equal(statistics(map).failures, 2);
        tslab_map_close(other);
        tslab_map_close(map);
}

/* A program changes options of a map that another one has made; others see them at once. */
static void test_map_set_options(void **state) {
        struct tslab_map_options o = { .size = sizeof(o),
                                       .limit_bytes = 2 * COST,
                                       .ttl_ms = 1,
                                       .value_max = 10,
                                       .evict = TSLAB_MAP_EVICT_SIEVE };
        struct tslab_map *map = open_map(*state, 0, TSLAB_MAP_EVICT_NEVER);

        for (uint32_t i = 0; i < 3; i++)
                assert_int_equal(put(map, i), 0);
        assert_int_equal(tslab_map_set_options(map, &o, 0), -EINVAL);
        assert_int_equal(tslab_map_set_options(map, &o, 32), -EINVAL);
        assert_int_equal(tslab_map_set_options(map, NULL, TSLAB_MAP_SET_LIMIT), -EINVAL);
        assert_int_equal(tslab_map_set_options(map, &o, TSLAB_MAP_SET_LIMIT), 0);
        assert_int_equal(put(map, 3), -ENOSPC);
        assert_int_equal(get(map, 0), 1); /* the lifetime is as it was */
        assert_int_equal(tslab_map_set_options(map, &o, TSLAB_MAP_SET_EVICT), 0);
        assert_int_equal(put(map, 3), 0);
        assert_int_equal(get(map, 3), 1);
        for (uint32_t i = 3; i < 10; i++)
                assert_int_equal(put(map, i), 0);
        assert_int_equal(statistics(map).bytes, 2 * COST);
        assert_int_equal(tslab_map_set_options(map, &o, TSLAB_MAP_SET_VALUE_MAX | TSLAB_MAP_SET_LIMIT), 0);
        assert_int_equal(put(map, 3), -E2BIG);
        o.limit_bytes = 1;
        assert_int_equal(tslab_map_set_options(map, &o, TSLAB_MAP_SET_LIMIT), -EINVAL);
        tslab_map_close(map);
}

/* The table of docs/sizing.md: the memory of an entry with a key of 16 bytes, by the size of its value. */
static void test_map_memory_of_entries(void **state) {
        static const uint32_t entries[][2] = { { 32, 135 },    { 100, 225 },   { 300, 450 },
                                               { 1000, 1221 }, { 5000, 5525 }, { 65536, 70915 } };
        struct tslab_map *map = open_map(*state, 0, TSLAB_MAP_EVICT_NEVER);
        static const char value[65536], key[16];

        for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
                assert_int_equal(
                        tslab_map_put(map, key, sizeof(key), value, entries[i][0], TSLAB_EPOCH_CURRENT), 0);
                assert_int_equal(statistics(map).bytes, entries[i][1]);
        }
        tslab_map_close(map);
}

/* A limit with room for no entry at all is refused; with one below the caller's entries these are, and say so. */
static void below_an_entry(struct tslab *pool, uint32_t evict) {
        struct tslab_map_options o = { .size = sizeof(o), .limit_bytes = ENTRY_COST(64) - 1, .evict = evict };
        struct tslab_map *map;
        static const char large[10000], k[33];
        tslab_handle version;
        int64_t value;

        assert_int_equal(tslab_map_open(&map, pool, "m", &o), -EINVAL);
        map = open_map(pool, ENTRY_COST(64), evict);
        assert_int_equal(put(map, 1), -E2BIG);
        assert_int_equal(tslab_map_put(map, "k", 1, large, sizeof(large), TSLAB_EPOCH_CURRENT), -E2BIG);
        assert_int_equal(tslab_map_put(map, k, sizeof(k), "", 0, TSLAB_EPOCH_CURRENT), -E2BIG);
        assert_int_equal(tslab_map_add(map, k, sizeof(k), 1, 0, 0, &value), -E2BIG);
        assert_int_equal(tslab_map_limit(map, k, sizeof(k), 1, 1, 1, NULL), -E2BIG);
        assert_int_equal(tslab_map_claim(map, k, sizeof(k), TSLAB_EPOCH_CURRENT, &version), -E2BIG);
        assert_int_equal(statistics(map).entries, 0);
        assert_int_equal(tslab_map_count(map), 0);
        assert_int_equal(tslab_map_put(map, k, 32, "", 0, TSLAB_EPOCH_CURRENT), 0);
        tslab_map_close(map);
}

static void test_map_evict_below_an_entry(void **state) {
        below_an_entry(*state, TSLAB_MAP_EVICT_SIEVE);
}

static void test_map_never_below_an_entry(void **state) {
        below_an_entry(*state, TSLAB_MAP_EVICT_NEVER);
}

static void test_map_evict(void **state) {
        struct tslab_map *map = open_map(*state, LIMIT, TSLAB_MAP_EVICT_SIEVE);
        unsigned n = 0;

        for (uint32_t i = 0; i < N_KEYS; i++) {
                assert_int_equal(put(map, i), 0);
                assert_int_equal(get(map, 0), 1);
        }
        for (uint32_t i = 0; i < N_KEYS; i++)
                n += get(map, i) == 1;
        assert_int_equal(n, LIMIT / COST);
        assert_int_equal(statistics(map).bytes, LIMIT);
        assert_int_equal(statistics(map).evictions, N_KEYS - n);
        tslab_map_close(map);
}

static uint32_t epoch_of_maps(struct tslab *pool) {
        for (uint32_t id = 0; id < 64; id++) {
                struct tslab_epoch_info info = { .size = sizeof(info) };

                if (tslab_epoch_info(pool, id, &info) == 0 && !strcmp(info.label, "maps"))
                        return info.epoch;
        }
        return 0;
}

/* A map with a limit of two entries begins with nothing. */
static void assert_empty_at_first(struct tslab *pool) {
        struct tslab_map *map = open_map(pool, 2 * COST, TSLAB_MAP_EVICT_NEVER);

        assert_int_equal(statistics(map).entries, 0);
        assert_int_equal(statistics(map).bytes, 0);
        assert_int_equal(put(map, 1), 0);
        assert_int_equal(put(map, 2), 0);
        assert_int_equal(put(map, 3), -ENOSPC);
        tslab_map_close(map);
}

/* The indexes of all maps are revoked. A map of the same name begins with nothing, as far as its limit goes, too. */
static void test_map_evict_made_anew(void **state) {
        struct tslab_map *map = open_map(*state, 2 * COST, TSLAB_MAP_EVICT_NEVER);

        assert_int_equal(put(map, 1), 0);
        assert_int_equal(put(map, 2), 0);
        tslab_map_close(map);
        assert_int_equal(tslab_epoch_close(*state, epoch_of_maps(*state), TSLAB_CLOSE_REVOKE), 0);
        assert_empty_at_first(*state);
}

/* The same where the root of a map was unset, which removes it. */
static void test_map_evict_unset(void **state) {
        struct tslab_map *map = open_map(*state, 2 * COST, TSLAB_MAP_EVICT_NEVER);
        tslab_handle root;

        assert_int_equal(put(map, 1), 0);
        assert_int_equal(put(map, 2), 0);
        tslab_map_close(map);
        assert_int_equal(tslab_root_get(*state, "map.m", &root), 0);
        assert_int_equal(tslab_root_set(*state, "map.m", root, 0), 0);
        assert_empty_at_first(*state);
}

/*
 * A map that lost its name is no more for those that have it open: no put goes past the limit, and none of its counts
 * is the next map's of that name.
 */
static void test_map_evict_unset_in_use(void **state) {
        struct tslab_map *old = open_map(*state, 0, TSLAB_MAP_EVICT_NEVER), *map;
        struct tslab_map_statistics s = { .size = sizeof(s) };
        tslab_handle root;
        char value[64];

        for (uint32_t i = 0; i < 10; i++)
                assert_int_equal(put(old, i), 0);
        assert_int_equal(tslab_root_get(*state, "map.m", &root), 0);
        assert_int_equal(tslab_root_set(*state, "map.m", root, 1), -EINVAL);
        assert_int_equal(tslab_root_set(*state, "map.m", root + 1, 0), -EAGAIN);
        assert_int_equal(tslab_root_set(*state, "map.m", root, 0), 0);
        assert_int_equal(tslab_root_set(*state, "map.m", root, 0), -EAGAIN);
        map = open_map(*state, 2 * COST, TSLAB_MAP_EVICT_NEVER);
        assert_int_equal(put(map, 1), 0);
        for (uint32_t i = 0; i < 10; i++)
                assert_int_equal(tslab_map_delete(old, &i, sizeof(i)), -EIDRM);
        assert_int_equal(put(old, 1), -EIDRM);
        assert_int_equal(tslab_map_get(old, "k", 1, value, sizeof(value), NULL), -EIDRM);
        assert_int_equal(tslab_map_count(old), -EIDRM);
        assert_int_equal(tslab_map_statistics(old, &s), -EIDRM);
        assert_int_equal(statistics(map).entries, 1);
        assert_int_equal(statistics(map).bytes, COST);
        assert_int_equal(put(map, 2), 0);
        assert_int_equal(put(map, 3), -ENOSPC);
        tslab_map_close(old);
        tslab_map_close(map);
}

static int deleting_child(void *userdata) {
        struct tslab_map *map = open_map(userdata, 0, TSLAB_MAP_EVICT_NEVER);

        for (uint32_t i = 0; i < 300; i++)
                CHECK(tslab_map_delete(map, &i, sizeof(i)) == 0);
        return 0;
}

/* A map is empty, and has lost its name. A thread that ended kept to itself how much less it is than others know. */
static void lose_map(struct tslab *pool) {
        struct tslab_map *map = open_map(pool, 0, TSLAB_MAP_EVICT_NEVER), *other;
        tslab_handle root;

        for (uint32_t i = 0; i < 300; i++)
                assert_int_equal(put(map, i), 0);
        assert_int_equal(test_child_run(TEST_FORK, deleting_child, pool), 0);
        assert_int_equal(tslab_map_open(&other, pool, "other", NULL), 0);
        assert_int_equal(put(other, 1), 0);
        tslab_map_close(other);
        tslab_map_close(map);
        assert_int_equal(tslab_root_get(pool, "map.m", &root), 0);
        assert_int_equal(tslab_root_set(pool, "map.m", root, 0), 0);
}

/* The next map of the name has its whole limit. */
static void test_map_evict_unset_deleted(void **state) {
        lose_map(*state);
        assert_empty_at_first(*state);
}

static void test_map_evict_unset_deleted_sieve(void **state) {
        struct tslab_map *map;

        lose_map(*state);
        map = open_map(*state, 200 * COST, TSLAB_MAP_EVICT_SIEVE);
        for (uint32_t i = 0; i < 150; i++)
                assert_int_equal(put(map, i), 0);
        assert_int_equal(statistics(map).entries, 150);
        tslab_map_close(map);
}

/* Entries of random sizes, from `min` on: each put has room. */
static void put_sizes(void **state, const struct tslab_options *o, unsigned min, unsigned n_puts) {
        static const uint8_t bytes[3500];
        struct tslab_map *map;
        unsigned seed = 1;

        tslab_close(*state);
        assert_int_equal(tslab_create((struct tslab **) state, o), 0);
        map = open_map(*state, 0, TSLAB_MAP_EVICT_SIEVE);
        for (unsigned i = 0; i < n_puts; i++) {
                int key = rand_r(&seed);

                assert_int_equal(tslab_map_put(map, &key, sizeof(key), bytes,
                                               min + (unsigned) rand_r(&seed) % 2600, TSLAB_EPOCH_CURRENT),
                                 0);
        }
        tslab_map_close(map);
}

/* In a pool of small classes chunks share slabs: large entries that go may leave no slab to the last chunk's class. */
static void test_map_evict_small_classes(void **state) {
        const struct tslab_options o = { .size = sizeof(o),
                                         .arena_bytes = 4 << 20,
                                         .n_classes = 9,
                                         .classes = { 64, 96, 128, 192, 256, 384, 512, 768, 1024 } };

        put_sizes(state, &o, 900, 60000);
}

/* A slab with few entries among chunks of others is not empty when these go. */
static void test_map_evict_among_chunks(void **state) {
        const struct tslab_options o = { .size = sizeof(o),
                                         .arena_bytes = 16 << 20,
                                         .n_classes = 4,
                                         .classes = { 512, 1360, 2048, 4096 } };

        put_sizes(state, &o, 100, 40000);
}

static bool is_full(struct tslab *pool) {
        struct tslab_stats stats = { .size = sizeof(stats) };

        assert_int_equal(tslab_stats(pool, &stats), 0);
        return stats.committed_bytes == tslab_capacity(pool) && stats.retained_bytes == 0;
}

/* While a tenth more than its size is free, in whole slabs, a put evicts nothing, though all of these are empty. */
static void test_map_evict_memory_short(void **state) {
        enum { SLAB = 4096, SIZE_MAX_TRIED = 14000 };
        static const uint8_t bytes[SIZE_MAX_TRIED];

        for (size_t size = 1100; size < SIZE_MAX_TRIED; size += 300) {
                static tslab_handle handles[1024];
                uint32_t key = 200;
                struct tslab_map *map;
                unsigned n = 0;

                tslab_close(*state);
                setup_small(state);
                map = open_map(*state, 0, TSLAB_MAP_EVICT_SIEVE);
                for (uint32_t i = 0; i < key; i++)
                        assert_int_equal(put(map, i), 0);
                assert_int_equal(
                        tslab_map_put(map, &key, sizeof(key), bytes, SLAB - 100, TSLAB_EPOCH_CURRENT), 0);
                while (!is_full(*state))
                        assert_int_equal(tslab_alloc(*state, SLAB, TSLAB_EPOCH_CURRENT, &handles[n++], NULL),
                                         0);
                for (size_t free = 0; free < size + size / 10; free += SLAB)
                        assert_int_equal(tslab_free(*state, handles[--n]), 0);
                assert_int_equal(tslab_map_put(map, &key, sizeof(key), bytes, size, TSLAB_EPOCH_CURRENT), 0);
                assert_int_equal(statistics(map).evictions, 0);
                assert_int_equal(statistics(map).entries, 201);
                tslab_map_close(map);
        }
}

/* Values in two pieces have chunks in slabs of other entries: sizes change, and each put has room. */
static void test_map_evict_pieces(void **state) {
        static const struct {
                unsigned min, n;
        } sizes[] = { { 2100, 1 }, { 100, 1 }, { 2100, 1 },    { 600, 3400 },
                      { 1, 60 },   { 600, 1 }, { 4200, 5000 }, { 700, 1 } };
        struct tslab_options o = { .size = sizeof(o), .arena_bytes = 2 << 20 };
        static uint8_t bytes[9200], buffer[9200];
        struct tslab_map *map;
        unsigned seed = 1;

        tslab_close(*state);
        assert_int_equal(tslab_create((struct tslab **) state, &o), 0);
        map = open_map(*state, 0, TSLAB_MAP_EVICT_SIEVE);
        for (size_t i = 0; i < 3 * sizeof(sizes) / sizeof(sizes[0]); i++)
                for (int k = 0; k < 4000; k++) {
                        unsigned size = sizes[i % 8].min + (unsigned) rand_r(&seed) % sizes[i % 8].n;
                        int key = rand_r(&seed);

                        assert_int_equal(
                                tslab_map_put(map, &key, sizeof(key), bytes, size, TSLAB_EPOCH_CURRENT), 0);
                        assert_int_equal(tslab_map_get(map, &key, sizeof(key), buffer, sizeof(buffer), NULL),
                                         size);
                }
        tslab_map_close(map);
}

typedef struct Churn {
        struct tslab_map *map, *other; /* NULL: the same */
        unsigned seed;
} Churn;

/* Ends where a put fails, or a value is wrong. */
static int churning_child(void *userdata) {
        const Churn *churn = userdata;
        unsigned seed = churn->seed;
        int r = 0;

        while (r == 0) {
                uint32_t key = (uint32_t) rand_r(&seed) % N_KEYS;

                struct tslab_map *map = churn->other && rand_r(&seed) % 2 ? churn->other : churn->map;

                r = rand_r(&seed) % 2 ? put(map, key) : get(map, key) > 1;
        }
        return 1;
}

static void assert_whole(struct tslab_map *map) {
        for (uint32_t key = 0; key < N_KEYS; key++)
                assert_in_range(get(map, key), 0, 1);
        assert_int_equal(tslab_map_count(map), statistics(map).entries);
        assert_int_equal(statistics(map).bytes, statistics(map).entries * COST);
}

/* Children put, get and evict until they are killed; then what is left is whole. */
static void churn_and_kill_once(struct tslab *pool, struct tslab_map *map, struct tslab_map *other,
                                unsigned round) {
        pid_t pids[N_CHILDREN];

        for (unsigned i = 0; i < N_CHILDREN; i++) {
                Churn churn = { map, other, round * N_CHILDREN + i };

                pids[i] = test_child_start(TEST_FORK, churning_child, &churn);
        }
        usleep(3000 + round * 997 % 5000);
        for (unsigned i = 0; i < N_CHILDREN; i++)
                kill(pids[i], SIGKILL);
        for (unsigned i = 0; i < N_CHILDREN; i++)
                assert_int_equal(test_child_wait(pids[i]), -SIGKILL);
        assert_true(tslab_reap(pool) >= 0);
        assert_whole(map);
}

static void churn_and_kill(struct tslab *pool, struct tslab_map *map, unsigned n_rounds) {
        for (unsigned round = 0; round < n_rounds; round++)
                churn_and_kill_once(pool, map, NULL, round);
}

static void test_map_evict_killed(void **state) {
        struct tslab_map *map = open_map(*state, LIMIT, TSLAB_MAP_EVICT_SIEVE);

        for (uint32_t i = N_KEYS; i < 2 * N_KEYS; i++)
                assert_int_equal(put(map, i), 0);
        assert_true(statistics(map).evictions > 0);
        churn_and_kill(*state, map, 30);
        for (uint32_t i = 0; i < 10; i++)
                assert_int_equal(put(map, i), 0);
        assert_true(statistics(map).bytes <= LIMIT_AT_ONCE);
        tslab_map_close(map);
}

/* The same where the pool is full, with slots in the caches of those that were killed. */
static void test_map_evict_memory_killed(void **state) {
        struct tslab_map *map = open_map(*state, 0, TSLAB_MAP_EVICT_SIEVE);

        for (uint32_t i = N_KEYS; i < N_KEYS + 40000; i++)
                assert_int_equal(put(map, i), 0);
        assert_true(statistics(map).evictions > 0);
        churn_and_kill(*state, map, 20);
        assert_int_equal(statistics(map).failures, 0);
        tslab_map_close(map);
}

/* Two maps have some memory between them. Each is emptied by turns, and fills again: entries of the other go. */
static void test_map_evict_beside_killed(void **state) {
        const struct tslab_map_options o = { .size = sizeof(o), .evict = TSLAB_MAP_EVICT_SIEVE };
        struct tslab_map *maps[2] = { open_map(*state, 0, TSLAB_MAP_EVICT_SIEVE) };
        tslab_handle handle;

        assert_int_equal(tslab_map_open(&maps[1], *state, "beside", &o), 0);
        for (uint32_t i = 0; i < 800; i++)
                assert_int_equal(tslab_alloc(*state, 4096, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
        for (uint32_t i = N_KEYS; i < 2 * N_KEYS; i++)
                assert_int_equal(put(maps[0], i), 0);
        for (uint32_t i = N_KEYS; i < N_KEYS + 1000; i++)
                assert_int_equal(put(maps[1], i), 0);
        assert_int_equal(statistics(maps[1]).entries, 1000);
        for (unsigned round = 0; round < 30; round++) {
                struct tslab_map *map = maps[round % 2], *other = maps[!(round % 2)];

                assert_true(tslab_map_expire(map, TSLAB_MAP_EPOCH_ALL) >= 0);
                churn_and_kill_once(*state, map, other, round);
                assert_whole(other);
        }
        for (unsigned i = 0; i < 2; i++) {
                assert_int_equal(statistics(maps[i]).failures, 0);
                tslab_map_close(maps[i]);
        }
}

/* A process that is stopped as it evicts: others go on. */
static void test_map_evict_stopped(void **state) {
        struct tslab_map *map = open_map(*state, LIMIT, TSLAB_MAP_EVICT_SIEVE);
        Churn churn = { map, NULL, 1 };
        pid_t pid = test_child_start(TEST_FORK, churning_child, &churn);

        for (uint32_t round = 0; round < 30; round++) {
                usleep(1000);
                kill(pid, SIGSTOP);
                for (uint32_t i = 0; i < 3000; i++)
                        assert_int_equal(put(map, round * 3000 + i), 0);
                assert_true(statistics(map).bytes <= LIMIT_AT_ONCE);
                kill(pid, SIGCONT);
        }
        kill(pid, SIGKILL);
        assert_int_equal(test_child_wait(pid), -SIGKILL);
        tslab_map_close(map);
}

typedef struct Cacher {
        struct tslab *pool;
        int ready;
} Cacher;

/* Leaves slots in its cache, and lives on. */
static int caching_child(void *userdata) {
        static tslab_handle handles[2000];
        const Cacher *cacher = userdata;
        void *object;

        end_with_parent();
        for (unsigned i = 0; i < 2000; i++)
                CHECK(tslab_alloc(cacher->pool, SLOT, TSLAB_EPOCH_CURRENT, &handles[i], &object) == 0);
        for (unsigned i = 0; i < 2000; i++)
                CHECK(tslab_free(cacher->pool, handles[i]) == 0);
        CHECK(write(cacher->ready, "", 1) == 1);
        for (;;)
                pause();
}

static uint64_t cached_objects(struct tslab *pool) {
        struct tslab_stats stats = { .size = sizeof(stats) };

        assert_int_equal(tslab_stats(pool, &stats), 0);
        return stats.cached_objects;
}

/* A put asks for slots in caches of others before it fails, as an allocation does. */
static void test_map_full_but_caches(void **state) {
        struct tslab_map *map = open_map(*state, 0, TSLAB_MAP_EVICT_NEVER);
        Cacher cacher = { .pool = *state };
        uint32_t n = 0;
        int ready[2];
        pid_t pid;
        char byte;

        assert_int_equal(pipe(ready), 0);
        cacher.ready = ready[1];
        pid = test_child_start(TEST_FORK, caching_child, &cacher);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        assert_true(cached_objects(*state) > 8);
        while (put(map, n) == 0)
                n++;
        assert_int_equal(put(map, n), -ENOMEM);
        assert_int_equal(statistics(map).failures, 2); /* not those that came in after they had asked */
        /*
         * The put has freed its entry, and the nodes that it had made before memory ran out: one for each 3 bits more
         * that two hashes have in common. A second node is an eighth as likely as the first, and so on.
         */
        assert_in_range(cached_objects(*state), 0, 8);
        kill(pid, SIGKILL);
        assert_int_equal(test_child_wait(pid), -SIGKILL);
        close(ready[0]);
        close(ready[1]);
        tslab_map_close(map);
}

static int put_large(struct tslab_map *map, uint32_t key, size_t size) {
        static const char value[100000];

        return tslab_map_put(map, &key, sizeof(key), value, size, TSLAB_EPOCH_CURRENT);
}

/* All ways to take memory but a put into a map that evicts. Each time something else is asked for. */
static int take(struct tslab *pool, struct tslab_map *kept, uint32_t i) {
        static const size_t sizes[] = { 20, 60, 500, 900, 3000, 30000 };
        tslab_handle handles[100];
        uint32_t key = i;
        int64_t sum;
        ssize_t n;
        int r;

        switch (i % 5) {
        case 0:
                return tslab_alloc(pool, sizes[i / 5 % 5], TSLAB_EPOCH_CURRENT, handles, NULL);
        case 1:
                r = tslab_alloc_pending(pool, sizes[i / 5 % 5], TSLAB_EPOCH_CURRENT, handles, NULL);
                return r ?: tslab_publish(pool, handles[0]);
        case 2:
                n = tslab_alloc_batch(pool, sizes[i / 5 % 5], TSLAB_EPOCH_CURRENT, handles, 100);
                return n < 0 ? (int) n : n < 100 ? -ENOMEM : 0;
        case 3:
                return put_large(kept, i, sizes[i / 5 % 6]);
        default:
                return tslab_map_add(kept, &key, sizeof(key), 1, 0, TSLAB_EPOCH_CURRENT, &sum);
        }
}

/* In a pool that is full of entries which may go, everything else finds memory until none of them is left. */
static void test_map_evict_for_everybody(void **state) {
        struct tslab_map *cache = open_map(*state, 0, TSLAB_MAP_EVICT_SIEVE), *kept = NULL;
        struct tslab_stats stats = { .size = sizeof(stats) };
        struct tslab_map_options o = { .size = sizeof(o) };
        char name[20];
        uint32_t n = 0;
        int r;

        while (statistics(cache).evictions < 1000) {
                assert_int_equal(put(cache, n), 0);
                assert_int_equal(put_large(cache, 1000000 + n, n % 7 == 0 ? 20000 : n % 3000), 0);
                n++;
        }
        /* The pool has no map that does not evict yet: to make one takes memory, too. */
        for (uint32_t i = 0; i < 8; i++) {
                snprintf(name, sizeof(name), "kept%u", i);
                assert_int_equal(tslab_map_open(&kept, *state, name, &o), 0);
                assert_int_equal(put_large(kept, i, 3000), 0);
                if (i < 7)
                        tslab_map_close(kept);
        }
        for (n = 0; (r = take(*state, kept, n)) == 0; n++) {
                assert_int_equal(tslab_stats(*state, &stats), 0);
                assert_int_equal(stats.failures, 0);
                if (n % 50 == 0)
                        assert_int_equal(put(cache, n), 0);
        }
        assert_int_equal(r, -ENOMEM);
        assert_true(n > 100);
        assert_in_range(statistics(cache).entries, 0, 1);
        assert_int_equal(statistics(kept).evictions, 0);
        for (uint32_t i = 3; i < n; i += 5)
                assert_int_equal(tslab_map_get(kept, &i, sizeof(i), NULL, 0, NULL), -EMSGSIZE);
        tslab_map_close(kept);
        tslab_map_close(cache);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_map_evict_options, setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_set_options, setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_memory_of_entries, setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_evict_below_an_entry, setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_never_below_an_entry, setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_evict, setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_evict_made_anew, setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_evict_unset, setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_evict_unset_in_use, setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_evict_unset_deleted, setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_evict_unset_deleted_sieve, setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_evict_small_classes, setup_small, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_evict_among_chunks, setup_small, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_evict_memory_short, setup_small, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_evict_pieces, setup_small, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_evict_killed, setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_evict_memory_killed, setup_small, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_evict_beside_killed, setup_small, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_evict_stopped, setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_full_but_caches, setup_small, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_evict_for_everybody, setup_small, map_pool_teardown),
        };

        return cmocka_run_group_tests_name("map-evict", tests, NULL, NULL);
}
