/* Claims and stale values of maps, by processes and threads, in private pools. */
#include <tslab_map.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/api/map-pool.h"
#include "tests/api/entry-cost.h"
#include "tests/util/process.h"
#include "tests/util/test.h"

#define EPOCH TSLAB_EPOCH_CURRENT
#define LARGE 100000

static uint64_t now_ms(void) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t) ts.tv_sec * 1000 + (uint64_t) ts.tv_nsec / 1000000;
}

static struct tslab_map *open_map(struct tslab *pool, uint64_t ttl_ms, uint32_t stale_ms) {
        struct tslab_map_options o = { .size = sizeof(o), .ttl_ms = ttl_ms, .stale_ms = stale_ms };
        struct tslab_map *map;

        assert_int_equal(tslab_map_open(&map, pool, "m", &o), 0);
        return map;
}

static int claim(struct tslab_map *map, tslab_handle *ret_version) {
        return tslab_map_claim(map, "key", 3, EPOCH, ret_version);
}

static void *claim_in_thread(void *userdata) {
        tslab_handle version = 0;

        (void) claim(userdata, &version);
        return (void *) (uintptr_t) version;
}

/* The claim of another thread of this process, which ended without it. */
static tslab_handle claim_elsewhere(struct tslab_map *map) {
        pthread_t thread;
        void *version;

        assert_int_equal(pthread_create(&thread, NULL, claim_in_thread, map), 0);
        assert_int_equal(pthread_join(thread, &version), 0);
        assert_non_null(version);
        return (uintptr_t) version;
}

static int wait_for(struct tslab_map *map, tslab_handle version, uint32_t timeout_ms) {
        return tslab_map_wait(map, "key", 3, version, timeout_ms);
}

static int fulfil(struct tslab_map *map, tslab_handle version, const char *value) {
        return tslab_map_replace(map, "key", 3, version, value, strlen(value), EPOCH);
}

static void test_claim_limit(void **state) {
        struct tslab_map *map = open_map(*state, 0, 1000000);
        tslab_handle version, other, old;

        assert_int_equal(tslab_map_claim_for(map, "key", 3, EPOCH, 0, &version), -EINVAL);
        assert_int_equal(tslab_map_claim_for(map, "key", 3, EPOCH, 1, &version), 0);
        while (wait_for(map, version, 0) == -ETIMEDOUT) /* it is ours: a longer wait is an error */
                continue;
        old = version;
        assert_int_equal(tslab_map_claim_extend(map, "key", 3, 0, &version), -EINVAL);
        assert_int_equal(tslab_map_claim_extend(map, "key", 3, 1000000, &version), 0);
        assert_true(version != old);
        assert_int_equal(wait_for(map, old, 0), 0);
        assert_int_equal(wait_for(map, version, 0), -ETIMEDOUT);
        assert_int_equal(claim(map, &other), -EBUSY);
        assert_true(other == version);
        assert_int_equal(fulfil(map, old, "one"), -EAGAIN);
        assert_int_equal(tslab_map_delete_version(map, "key", 3, old), -ENOENT);
        assert_int_equal(fulfil(map, version, "one"), 0);
        assert_int_equal(tslab_map_claim_extend(map, "key", 3, 1000, &version), -EAGAIN);
        assert_int_equal(tslab_map_delete(map, "key", 3), 0);
        other = version;
        assert_int_equal(tslab_map_claim_extend(map, "key", 3, 1000, &other), -EAGAIN);
        assert_true(other == version);
        tslab_map_close(map);
}

static void test_claim_calls(void **state) {
        struct tslab_map *map = open_map(*state, 0, 0);
        static const char large[8192];
        tslab_handle version, other = 1;
        char value[8];

        assert_int_equal(claim(map, &version), 0);
        assert_int_equal(claim(map, &other), -EBUSY);
        assert_true(other == version);
        assert_int_equal(tslab_map_get(map, "key", 3, value, sizeof(value), NULL), -ENOENT);
        assert_int_equal(fulfil(map, version, "one"), 0);
        assert_int_equal(tslab_map_get(map, "key", 3, value, sizeof(value), NULL), 3);
        assert_int_equal(claim(map, &other), -EEXIST);
        assert_int_equal(tslab_map_delete_version(map, "key", 3, version), -EAGAIN);
        assert_int_equal(tslab_map_delete(map, "key", 3), 0);
        assert_int_equal(claim(map, &version), 0);
        assert_int_equal(tslab_map_delete(map, "key", 3), -ENOENT);
        assert_int_equal(fulfil(map, version, "two"), -EAGAIN);
        assert_int_equal(claim(map, &version), 0);
        assert_int_equal(tslab_map_delete_version(map, "key", 3, version), 0);
        for (unsigned i = 0; i < 4; i++) {
                assert_int_equal(claim(map, &version), 0);
                assert_int_equal(i == 0   ? tslab_map_put(map, "key", 3, "1", 1, EPOCH)
                                 : i == 1 ? put_mode(map, TSLAB_MAP_INSERT, "key", "1", 1)
                                 : i == 2 ? tslab_map_add(map, "key", 3, 1, 0, 0, NULL)
                                          : tslab_map_limit(map, "key", 3, 0.01, 1, 1, NULL),
                                 0);
                assert_int_equal(fulfil(map, version, "two"), -EAGAIN);
                assert_int_equal(claim(map, &version), -EEXIST);
                assert_int_equal(tslab_map_delete(map, "key", 3), 0);
        }
        assert_int_equal(claim(map, &version), 0);
        assert_int_equal(put_mode(map, TSLAB_MAP_UPDATE, "key", "1", 1), -ENOENT);
        assert_int_equal(tslab_map_limit(map, "key", 3, 1, 1, 0, NULL), 0);
        assert_int_equal(wait_for(map, version, 0), -ETIMEDOUT);
        assert_int_equal(tslab_map_delete_version(map, "key", 3, version), 0);
        assert_int_equal(tslab_map_claim(map, large, sizeof(large), EPOCH, &version), -E2BIG);
        assert_int_equal(tslab_map_claim(map, large, tslab_size_max(*state) - 72, EPOCH, &version), 0);
        assert_int_equal(tslab_map_claim(map, large, tslab_size_max(*state) - 71, EPOCH, &version), -E2BIG);
        assert_int_equal(tslab_map_claim(map, "key", 3, 99, &version), -EINVAL);
        tslab_map_close(map);
}

static void test_wait_returns(void **state) {
        struct tslab_map *map = open_map(*state, 0, 0);
        tslab_handle version;

        assert_int_equal(wait_for(map, 0, 1000), 0);
        assert_int_equal(wait_for(map, 123456, 1000), 0);
        assert_int_equal(claim(map, &version), 0);
        assert_int_equal(wait_for(map, version, 0), -ETIMEDOUT);
        assert_int_equal(wait_for(map, 0, 0), -ETIMEDOUT);
        assert_int_equal(wait_for(map, 123456, 1000), 0);
        assert_int_equal(wait_for(map, version, UINT32_MAX), -EDEADLK);
        assert_int_equal(wait_for(map, 0, UINT32_MAX), -EDEADLK);
        assert_int_equal(tslab_map_delete_version(map, "key", 3, version), 0);
        version = claim_elsewhere(map);
        assert_int_equal(wait_for(map, version, 5), -ETIMEDOUT);
        assert_int_equal(fulfil(map, version, "one"), 0);
        assert_int_equal(wait_for(map, version, UINT32_MAX), 0);
        assert_int_equal(wait_for(map, 0, UINT32_MAX), 0);
        tslab_map_close(map);
}

static void on_signal(int number) {
        (void) number;
}

typedef struct Waiter {
        pthread_t thread;
        _Atomic bool is_back;
} Waiter;

static void *interrupt(void *userdata) {
        Waiter *waiter = userdata;

        /* One may come before the sleep, or between two. */
        while (!waiter->is_back) {
                sleep_ms(7);
                pthread_kill(waiter->thread, SIGUSR1);
        }
        return NULL;
}

static void test_wait_interrupted(void **state) {
        struct tslab_map *map = open_map(*state, 0, 0);
        const struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
        static Waiter self;
        tslab_handle version;
        pthread_t thread;

        self = (Waiter){ .thread = pthread_self() };
        assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
        version = claim_elsewhere(map);
        assert_int_equal(pthread_create(&thread, NULL, interrupt, &self), 0);
        assert_int_equal(wait_for(map, version, 20000), -EINTR);
        self.is_back = true;
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(signal(SIGUSR1, SIG_DFL) != SIG_ERR);
        tslab_map_close(map);
}

typedef struct Family {
        struct tslab *pool;
        struct tslab_map *map;
        _Atomic tslab_handle version;
        _Atomic int n_holders, n_computed, n_done;
} Family;

static Family *family_new(struct tslab *pool, uint64_t ttl_ms, uint32_t stale_ms) {
        Family *f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        assert_ptr_not_equal(f, MAP_FAILED);
        f->pool = pool;
        f->map = open_map(pool, ttl_ms, stale_ms);
        return f;
}

static void family_free(Family *f) {
        tslab_map_close(f->map);
        munmap(f, sizeof(*f));
}

static int claim_and_die(void *userdata) {
        Family *f = userdata;
        tslab_handle version;

        CHECK(claim(f->map, &version) == 0);
        f->version = version;
        raise(SIGKILL);
        return 0;
}

/* Nobody has reaped it. */
static void test_claim_of_killed_process(void **state) {
        Family *f = family_new(*state, 0, 0);
        tslab_handle version;

        assert_int_equal(test_child_run(TEST_FORK, claim_and_die, f), -SIGKILL);
        assert_int_equal(wait_for(f->map, f->version, 60000), 0);
        assert_int_equal(fulfil(f->map, f->version, "late"), 0); /* nobody has claimed it since */
        assert_int_equal(tslab_map_delete(f->map, "key", 3), 0);
        assert_int_equal(test_child_run(TEST_FORK, claim_and_die, f), -SIGKILL);
        assert_int_equal(claim(f->map, &version), 0);
        assert_true(version != f->version);
        assert_int_equal(fulfil(f->map, f->version, "late"), -EAGAIN);
        assert_int_equal(fulfil(f->map, version, "mine"), 0);
        assert_true(tslab_reap(*state) >= 0);
        family_free(f);
}

/* A claim is the parent's after a fork, and ends with the child if it is the child's. */
static int fork_child(void *userdata) {
        Family *f = userdata;
        tslab_handle version;

        CHECK(claim(f->map, &version) == -EBUSY && version == f->version);
        CHECK(wait_for(f->map, version, 5) == -ETIMEDOUT);
        CHECK(tslab_map_claim(f->map, "other", 5, EPOCH, &version) == 0);
        f->version = version;
        return 0;
}

static void test_claim_fork(void **state) {
        Family *f = family_new(*state, 0, 0);
        tslab_handle version, other;

        assert_int_equal(claim(f->map, &version), 0);
        f->version = version;
        assert_int_equal(test_child_run(TEST_FORK, fork_child, f), 0);
        assert_int_equal(claim(f->map, &other), -EBUSY);
        assert_int_equal(tslab_map_wait(f->map, "other", 5, f->version, 60000), 0);
        assert_int_equal(tslab_map_claim(f->map, "other", 5, EPOCH, &other), 0);
        family_free(f);
}

static void *compute_slowly(void *userdata) {
        Family *f = userdata;

        sleep_ms(30);
        (void) fulfil(f->map, f->version, "value");
        return NULL;
}

static void test_wait_for_value(void **state) {
        Family *f = family_new(*state, 0, 0);
        tslab_handle version;
        pthread_t thread;
        char value[8];

        f->version = version = claim_elsewhere(f->map);
        assert_int_equal(pthread_create(&thread, NULL, compute_slowly, f), 0);
        assert_int_equal(wait_for(f->map, version, 60000), 0);
        assert_int_equal(tslab_map_get(f->map, "key", 3, value, sizeof(value), NULL), 5);
        assert_int_equal(pthread_join(thread, NULL), 0);
        family_free(f);
}

static void *wait_long(void *userdata) {
        Family *f = userdata;

        f->n_done = 1;
        return (void *) (intptr_t) wait_for(f->map, f->version, 60000);
}

/* A close does not wait for waiters. */
static void test_wait_close(void **state) {
        Family *f = family_new(*state, 0, 0);
        tslab_handle version;
        pthread_t thread;
        uint64_t begin;
        void *r;

        assert_int_equal(claim(f->map, &version), 0);
        f->version = version;
        assert_int_equal(pthread_create(&thread, NULL, wait_long, f), 0);
        while (!f->n_done)
                sleep_ms(1);
        sleep_ms(20);
        begin = now_ms();
        *state = tslab_close(*state);
        assert_true(now_ms() - begin < 10000);
        assert_int_equal(pthread_join(thread, &r), 0);
        assert_int_equal((intptr_t) r, -EIDRM);
        family_free(f);
}

/* As programs do it. */
static int worker(void *userdata) {
        Family *f = userdata;
        tslab_handle version;
        char value[8];
        int r;

        while (tslab_map_get(f->map, "key", 3, value, sizeof(value), NULL) < 0) {
                r = claim(f->map, &version);
                if (r == 0) {
                        CHECK(atomic_fetch_add(&f->n_holders, 1) == 0);
                        sleep_ms(f->n_computed++ == 0 ? 300 : 20);
                        f->n_holders--;
                        CHECK(fulfil(f->map, version, "value") == 0);
                } else if (r == -EBUSY) {
                        r = wait_for(f->map, version, 60000);
                        CHECK(r == 0);
                } else {
                        CHECK(r == -EEXIST);
                }
        }
        f->n_done++;
        return 0;
}

static void test_one_computes(void **state) {
        Family *f = family_new(*state, 0, 0);
        pid_t pids[8];

        for (unsigned i = 0; i < 8; i++)
                pids[i] = test_child_start(TEST_FORK, worker, f);
        for (unsigned i = 0; i < 8; i++)
                assert_int_equal(test_child_wait(pids[i]), 0);
        assert_int_equal(f->n_computed, 1);
        assert_int_equal(f->n_done, 8);
        family_free(f);
}

static ssize_t get_stale(struct tslab_map *map, void *buffer, size_t size, struct tslab_map_info *ret) {
        *ret = (struct tslab_map_info){ .size = sizeof(*ret), .accept = TSLAB_MAP_STALE };
        return tslab_map_get_with(map, "key", 3, buffer, size, ret);
}

static void test_stale_value(void **state) {
        struct tslab_map_put_options long_life = {
                .size = sizeof(long_life), .epoch = EPOCH, .ttl_ms = 100000, .mode = TSLAB_MAP_REPLACE
        };
        struct tslab_map *map = open_map(*state, 20, 100000);
        struct tslab_map_info info;
        static char value[LARGE], back[LARGE];
        tslab_handle version;
        void *copy;

        memset(value, 'x', sizeof(value));
        assert_int_equal(tslab_map_put(map, "key", 3, value, LARGE, EPOCH), 0);
        sleep_ms(60);
        assert_int_equal(tslab_map_get(map, "key", 3, back, sizeof(back), NULL), -ENOENT);
        for (unsigned i = 0; i < 2; i++) {
                memset(back, 0, sizeof(back));
                assert_int_equal(get_stale(map, back, sizeof(back), &info), LARGE);
                assert_memory_equal(value, back, LARGE);
                assert_int_equal(info.flags, TSLAB_MAP_STALE);
                assert_int_equal(info.accept, TSLAB_MAP_STALE);
                assert_true(info.version == 0 && info.ttl_left_ms == 0);
                assert_int_equal(get_stale(map, back, 5, &info), -EMSGSIZE);
                assert_int_equal(info.value_size, LARGE);
                assert_int_equal(tslab_map_get_alloc(map, "key", 3, &copy, &info), 0);
                assert_memory_equal(value, copy, LARGE);
                free(copy);
                if (i == 0)
                        assert_int_equal(claim(map, &version), 0);
        }
        info.accept = TSLAB_MAP_COUNTER;
        assert_int_equal(tslab_map_get_with(map, "key", 3, back, sizeof(back), &info), -EINVAL);
        long_life.version = version;
        assert_int_equal(tslab_map_put_with(map, "key", 3, "new", 3, &long_life), 0);
        assert_int_equal(get_stale(map, back, sizeof(back), &info), 3);
        assert_int_equal(info.flags, 0);
        assert_true(info.version != 0);
        tslab_map_close(map);
}

/* Changes that are refused, and calls that miss the key, leave it its stale value. */
static void test_stale_value_stays(void **state) {
        struct tslab_map *map = open_map(*state, 20, 100000);
        struct tslab_map_info info;
        tslab_handle before;
        char back[8];

        assert_int_equal(tslab_map_put(map, "key", 3, "1", 1, EPOCH), 0);
        assert_int_equal(tslab_map_get(map, "key", 3, back, sizeof(back), &before), 1);
        assert_int_equal(tslab_map_put(map, "key", 3, "two", 3, EPOCH), 0);
        sleep_ms(60);
        assert_int_equal(tslab_map_delete_version(map, "key", 3, before), -ENOENT);
        assert_int_equal(get_stale(map, back, sizeof(back), &info), 3);
        assert_int_equal(put_mode(map, TSLAB_MAP_UPDATE, "key", "3", 1), -ENOENT);
        assert_int_equal(get_stale(map, back, sizeof(back), &info), 3);
        assert_int_equal(tslab_map_replace(map, "key", 3, before, "3", 1, EPOCH), -EAGAIN);
        assert_int_equal(get_stale(map, back, sizeof(back), &info), 3);
        assert_int_equal(tslab_map_touch(map, "key", 3, 1000), -ENOENT);
        assert_int_equal(tslab_map_take(map, "key", 3, back, sizeof(back), NULL), -ENOENT);
        assert_int_equal(get_stale(map, back, sizeof(back), &info), 3);
        assert_int_equal(tslab_map_delete(map, "key", 3), -ENOENT);
        assert_int_equal(get_stale(map, back, sizeof(back), &info), -ENOENT);
        tslab_map_close(map);
}

/* However often: each of these finds that the time of the key is over, and settles that. */
static void test_stale_value_stays_as_long(void **state) {
        struct tslab_map *map = open_map(*state, 20, 10000);
        struct tslab_map_info info;
        char back[8];

        assert_int_equal(tslab_map_put(map, "key", 3, "1", 1, EPOCH), 0);
        sleep_ms(60);
        for (int i = 0; i < 20000; i++) {
                assert_int_equal(put_mode(map, TSLAB_MAP_UPDATE, "key", "3", 1), -ENOENT);
                assert_int_equal(tslab_map_delete_version(map, "key", 3, 1), -ENOENT);
        }
        assert_int_equal(get_stale(map, back, sizeof(back), &info), 1);
        tslab_map_close(map);
}

static uint64_t bytes_of(struct tslab_map *map) {
        struct tslab_map_statistics statistics = { .size = sizeof(statistics) };

        assert_int_equal(tslab_map_statistics(map, &statistics), 0);
        return statistics.bytes;
}

/* One object of 64 bytes and the key. */
static void test_claim_memory(void **state) {
        static const uint32_t sizes[][2] = { { 0, 64 },    { 1, 80 },      { 32, 96 },
                                             { 752, 816 }, { 2000, 4096 }, { 4024, 4096 } };
        struct tslab_map *map = open_map(*state, 0, 0);
        static const char key[4096];
        tslab_handle version;

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                assert_int_equal(tslab_map_claim(map, key, sizes[i][0], EPOCH, &version), 0);
                assert_int_equal(bytes_of(map), ENTRY_COST(sizes[i][1]));
                assert_int_equal(tslab_map_delete_version(map, key, sizes[i][0], version), 0);
        }
        assert_int_equal(bytes_of(map), 0);
        assert_int_equal(tslab_map_claim(map, key, 4025, EPOCH, &version), -E2BIG);
        tslab_map_close(map);
}

/* A computation that fails gives its claim up: then the stale value can be had as before. */
static void test_stale_value_of_given_up_claim(void **state) {
        struct tslab_map *map = open_map(*state, 20, 100000);
        struct tslab_map_statistics statistics = { .size = sizeof(statistics) };
        static char value[LARGE], back[LARGE];
        struct tslab_map_info info;
        tslab_handle version, other;

        memset(value, 'x', sizeof(value));
        assert_int_equal(tslab_map_put(map, "key", 3, value, LARGE, EPOCH), 0);
        sleep_ms(60);
        for (unsigned i = 0; i < 3; i++) {
                assert_int_equal(claim(map, &version), 0);
                assert_int_equal(tslab_map_delete_version(map, "key", 3, version), 0);
                assert_int_equal(get_stale(map, back, sizeof(back), &info), LARGE);
                assert_memory_equal(value, back, LARGE);
                assert_int_equal(info.flags, TSLAB_MAP_STALE);
        }
        assert_int_equal(tslab_map_get(map, "key", 3, back, sizeof(back), NULL), -ENOENT);
        assert_int_equal(tslab_map_wait(map, "key", 3, version, 10000), 0);
        assert_int_equal(tslab_map_wait(map, "key", 3, 0, 10000), 0);
        assert_int_equal(tslab_map_replace(map, "key", 3, version, "late", 4, EPOCH), -EAGAIN);
        assert_int_equal(tslab_map_delete_version(map, "key", 3, version), -ENOENT);
        assert_int_equal(claim(map, &other), 0);
        assert_int_equal(tslab_map_delete_version(map, "key", 3, version), -ENOENT);
        assert_int_equal(tslab_map_wait(map, "key", 3, other, 0), -ETIMEDOUT);
        assert_int_equal(tslab_map_delete(map, "key", 3), -ENOENT);
        assert_int_equal(get_stale(map, back, sizeof(back), &info), -ENOENT);
        assert_int_equal(tslab_map_statistics(map, &statistics), 0);
        assert_int_equal(statistics.entries, 0);
        assert_int_equal(statistics.bytes, 0);
        tslab_map_close(map);
}

/* Nothing of before comes back: no stale value, and no value that is computed now. */
static void test_expire_all(void **state) {
        struct tslab_map_statistics statistics = { .size = sizeof(statistics) };
        struct tslab_map *map = open_map(*state, 20, 100000);
        struct tslab_map_info info;
        tslab_handle version;
        uint32_t epoch;
        char back[8];

        assert_int_equal(tslab_map_put(map, "key", 3, "stale", 5, EPOCH), 0);
        sleep_ms(60);
        assert_int_equal(get_stale(map, back, sizeof(back), &info), 5);
        assert_int_equal(tslab_map_add(map, "a", 1, 1, 0, TSLAB_MAP_TTL_NONE, NULL), 0);
        assert_int_equal(tslab_epoch_advance(*state, &epoch), 0);
        assert_int_equal(tslab_map_add(map, "b", 1, 1, 0, TSLAB_MAP_TTL_NONE, NULL), 0);
        assert_int_equal(tslab_map_claim(map, "c", 1, EPOCH, &version), 0);
        assert_int_equal(tslab_map_expire(map, TSLAB_MAP_EPOCH_ALL), 2);
        assert_int_equal(get_stale(map, back, sizeof(back), &info), -ENOENT);
        assert_int_equal(tslab_map_replace(map, "c", 1, version, "old", 3, EPOCH), -EAGAIN);
        assert_int_equal(tslab_map_statistics(map, &statistics), 0);
        assert_int_equal(statistics.entries, 0);
        tslab_map_close(map);
}

static int fill(struct tslab_map *map, uint64_t from) {
        char value[100] = {};
        int r;

        do
                r = tslab_map_put(map, &from, sizeof(from), value, sizeof(value), EPOCH);
        while (from++, r == 0);
        return r;
}

/* Stale values are kept while there is room. Where they fill a map that does not evict, they go. */
static void test_stale_values_do_not_fill_a_map(void **state) {
        struct tslab_map_options o = {
                .size = sizeof(o), .limit_bytes = 65536, .ttl_ms = 50, .stale_ms = 3600000
        };
        struct tslab_map *map;
        tslab_handle version;
        uint64_t key = 1 << 20;

        assert_int_equal(tslab_map_open(&map, *state, "m", &o), 0);
        assert_int_equal(fill(map, 0), -ENOSPC);
        sleep_ms(400); /* all are over, and a pass may have left them as stale ones */
        assert_int_equal(tslab_map_put(map, &key, sizeof(key), "value", 5, EPOCH), 0);
        assert_int_equal(fill(map, 1 << 21), -ENOSPC);
        sleep_ms(400);
        key++;
        assert_int_equal(tslab_map_claim(map, &key, sizeof(key), EPOCH, &version), 0);
        tslab_map_close(map);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_claim_limit, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_claim_calls, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_wait_returns, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_wait_interrupted, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_claim_of_killed_process, map_pool_setup,
                                                map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_claim_fork, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_wait_for_value, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_wait_close, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_one_computes, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_claim_memory, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_stale_value, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_stale_values_do_not_fill_a_map, map_pool_setup,
                                                map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_stale_value_stays, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_stale_value_stays_as_long, map_pool_setup,
                                                map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_stale_value_of_given_up_claim, map_pool_setup,
                                                map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_expire_all, map_pool_setup, map_pool_teardown),
        };

        return cmocka_run_group_tests_name("map-claim", tests, NULL, NULL);
}
