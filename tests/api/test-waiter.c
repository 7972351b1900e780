/* Waits without blocking: many, by one descriptor one thread; claims that end in each way. Forks are in test-fork.c. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tslab_map.h>

#include "tests/api/map-pool.h"
#include "tests/util/process.h"
#include "tests/util/test.h"

#define EPOCH TSLAB_EPOCH_CURRENT
#define LONG_MS 600000
#define N_MANY 10000

typedef struct Fixture {
        struct tslab *pool;
        struct tslab_map *map;
        struct tslab_waiter *waiter;
} Fixture;

static int setup(void **state) {
        Fixture *f = calloc(1, sizeof(*f));

        assert_non_null(f);
        assert_int_equal(tslab_create(&f->pool, NULL), 0);
        assert_int_equal(tslab_map_open(&f->map, f->pool, "m", NULL), 0);
        assert_int_equal(tslab_waiter_open(&f->waiter, f->pool), 0);
        *state = f;
        return 0;
}

static int teardown(void **state) {
        Fixture *f = *state;

        assert_null(tslab_waiter_close(f->waiter));
        tslab_map_close(f->map);
        tslab_close(f->pool);
        free(f);
        return 0;
}

static bool is_readable(Fixture *f, int timeout_ms) {
        struct pollfd fd = { .fd = tslab_waiter_fd(f->waiter), .events = POLLIN };

        return poll(&fd, 1, timeout_ms) == 1;
}

static uint64_t add(Fixture *f, const char *key, tslab_handle version, uint32_t timeout_ms) {
        uint64_t wait;

        assert_int_equal(tslab_waiter_add(f->waiter, f->map, key, strlen(key), version, timeout_ms, &wait),
                         0);
        return wait;
}

/* The next wait that is over. */
static uint64_t next(Fixture *f, int *ret_result) {
        uint64_t wait;

        assert_true(is_readable(f, -1));
        assert_int_equal(tslab_waiter_next(f->waiter, &wait, ret_result), 1);
        return wait;
}

static void assert_none(Fixture *f) {
        uint64_t wait;
        int result;

        assert_int_equal(tslab_waiter_next(f->waiter, &wait, &result), 0);
        assert_false(is_readable(f, 0));
}

static tslab_handle claim(Fixture *f, const char *key) {
        tslab_handle version;

        assert_int_equal(tslab_map_claim(f->map, key, strlen(key), EPOCH, &version), 0);
        return version;
}

static void test_waiter_ends(void **state) {
        static const char large[64 << 10];
        tslab_handle version;
        Fixture *f = *state;
        uint64_t wait, other;
        int result;

        assert_none(f);
        /* No claim stands: over at once. */
        wait = add(f, "key", 0, LONG_MS);
        assert_true(next(f, &result) == wait && result == 0);
        assert_int_equal(tslab_waiter_add(f->waiter, f->map, large, sizeof(large), 0, LONG_MS, &wait), 0);
        assert_true(next(f, &result) == wait && result == 0);
        /* By a value, also where this thread has the claim. */
        version = claim(f, "key");
        wait = add(f, "key", version, LONG_MS);
        other = add(f, "key", version, LONG_MS);
        assert_true(wait != other);
        assert_none(f);
        assert_int_equal(tslab_map_replace(f->map, "key", 3, version, "1", 1, EPOCH), 0);
        (void) next(f, &result);
        assert_int_equal(result, 0);
        (void) next(f, &result);
        assert_int_equal(result, 0);
        /* By time. */
        version = claim(f, "other");
        wait = add(f, "other", version, 5);
        assert_true(next(f, &result) == wait && result == -ETIMEDOUT);
        /* Cancelled, before the end and after it. */
        wait = add(f, "other", version, LONG_MS);
        assert_int_equal(tslab_waiter_cancel(f->waiter, wait), 0);
        assert_int_equal(tslab_waiter_cancel(f->waiter, wait), -ENOENT);
        wait = add(f, "key", 0, LONG_MS);
        assert_int_equal(tslab_waiter_cancel(f->waiter, wait), 0);
        assert_none(f);
        assert_int_equal(tslab_waiter_cancel(f->waiter, UINT64_MAX), -ENOENT);
        assert_int_equal(tslab_map_delete_version(f->map, "other", 5, version), 0);
}

static unsigned count_threads(void) {
        char line[256];
        unsigned n = 0;
        FILE *status = fopen("/proc/self/status", "re");

        assert_non_null(status);
        while (fgets(line, sizeof(line), status))
                (void) sscanf(line, "Threads: %u", &n);
        (void) fclose(status);
        return n;
}

/* 10,000 waits take one thread, and each hears of its own claim. */
static void test_waiter_many(void **state) {
        static tslab_handle versions[N_MANY];
        static uint64_t waits[N_MANY];
        Fixture *f = *state;
        unsigned before = count_threads();
        char key[16];
        int result;

        for (unsigned i = 0; i < N_MANY; i++) {
                (void) snprintf(key, sizeof(key), "%u", i);
                versions[i] = claim(f, key);
                waits[i] = add(f, key, versions[i], LONG_MS);
        }
        assert_int_equal(count_threads(), before + 1);
        assert_none(f);
        for (unsigned i = N_MANY; i-- > 0;) {
                (void) snprintf(key, sizeof(key), "%u", i);
                assert_int_equal(tslab_map_delete_version(f->map, key, strlen(key), versions[i]), 0);
        }
        for (unsigned i = 0; i < N_MANY; i++) {
                uint64_t wait = next(f, &result);
                unsigned k = 0;

                assert_int_equal(result, 0);
                while (k < N_MANY && waits[k] != wait)
                        k++;
                assert_true(k < N_MANY); /* each once */
                waits[k] = UINT64_MAX;
        }
        assert_none(f);
}

static int hold_claim(void *userdata) {
        Fixture *f = userdata;
        tslab_handle version;

        CHECK(tslab_map_claim(f->map, "key", 3, EPOCH, &version) == 0);
        return 0;
}

/* A claim of a process that ends without a word. */
static void test_waiter_death(void **state) {
        Fixture *f = *state;
        uint64_t wait;
        int result;

        assert_int_equal(test_child_run(TEST_FORK, hold_claim, f), 0);
        wait = add(f, "key", 0, LONG_MS);
        assert_true(next(f, &result) == wait && result == 0);
}

static void test_waiter_pool_closes(void **state) {
        Fixture *f = *state;
        tslab_handle version = claim(f, "key");
        uint64_t wait = add(f, "key", version, LONG_MS);
        int result;

        tslab_close(f->pool);
        assert_true(next(f, &result) == wait && result == -EIDRM);
        tslab_waiter_close(f->waiter);
        tslab_map_close(f->map);
        assert_int_equal(tslab_create(&f->pool, NULL), 0);
        assert_int_equal(tslab_map_open(&f->map, f->pool, "m", NULL), 0);
        assert_int_equal(tslab_waiter_open(&f->waiter, f->pool), 0);
        assert_int_equal(tslab_map_claim(f->map, "key", 3, EPOCH, &version), 0);
        (void) add(f, "key", version, LONG_MS); /* closed with a wait in it */
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_waiter_ends, setup, teardown),
                cmocka_unit_test_setup_teardown(test_waiter_many, setup, teardown),
                cmocka_unit_test_setup_teardown(test_waiter_death, setup, teardown),
                cmocka_unit_test_setup_teardown(test_waiter_pool_closes, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
