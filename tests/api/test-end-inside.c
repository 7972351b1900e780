/* Threads that end in the middle of a call, with a record of their own, and with the one that threads share. */
#include <tslab.h>
#include <tslab_map.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/api/fill.h"
#include "tests/util/test.h"

#define PAGE 4096U
#define LARGE (64 * PAGE) /* a chain; its last page cannot be read */
#define LOOK_USEC 150000 /* longer than a thread waits before it looks for a record of its own again */

typedef struct Put {
        struct tslab *pool;
        struct tslab_map *map;
        uint8_t *value;
        tslab_handle pending;
        struct tslab *used; /* by the destructor of a key; NULL: none */
        bool closes; /* the destructor closes it */
        int result; /* its */
} Put;

static pthread_key_t
        first_key; /* made before the library makes one: its destructor runs before the library's */

static void begin_put(Put *put, uint32_t n_threads) {
        struct tslab_options options = { .size = sizeof(options),
                                         .arena_bytes = 1 << 20,
                                         .n_threads = n_threads };

        *put = (Put){ .result = 1 };
        assert_int_equal(tslab_create(&put->pool, &options), 0);
        assert_int_equal(tslab_map_open(&put->map, put->pool, "map", NULL), 0);
        put->value = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(put->value, MAP_FAILED);
        assert_int_equal(mprotect(put->value + LARGE - PAGE, PAGE, PROT_NONE), 0);
}

static void end_put(Put *put) {
        tslab_map_close(put->map);
        tslab_close(put->pool);
        (void) munmap(put->value, LARGE);
}

static void end_thread(int signal) {
        (void) signal;
        pthread_exit(NULL);
}

static void use_pool(Put *put) {
        tslab_handle handle;

        put->result = tslab_alloc(put->used, 64, TSLAB_EPOCH_CURRENT, &handle, NULL);
        if (put->result == 0)
                put->result = tslab_free(put->used, handle);
}

static void on_end(void *userdata) {
        Put *put = userdata;

        if (put->used)
                use_pool(put);
        if (put->closes)
                put->pool = tslab_close(put->pool);
}

static void *put_unreadable(void *userdata) {
        Put *put = userdata;

        (void) pthread_setspecific(first_key, put);
        (void) tslab_map_put(put->map, "key", 3, put->value + LARGE - PAGE - 300, 600, TSLAB_EPOCH_CURRENT);
        return userdata;
}

static void *pend(void *userdata) {
        Put *put = userdata;

        if (tslab_alloc_pending(put->pool, 64, TSLAB_EPOCH_CURRENT, &put->pending, NULL) < 0)
                return NULL;
        return userdata;
}

static void *run(void *function(void *userdata), Put *put) {
        pthread_t thread;
        void *result;

        assert_int_equal(pthread_create(&thread, NULL, function, put), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        return result;
}

static void run_put_unreadable(Put *put) {
        const struct sigaction action = { .sa_handler = end_thread };
        struct sigaction before;

        assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
        assert_null(run(put_unreadable, put));
        assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
}

/* The value was made in part: nothing of it stays. */
static void end_inside_put(uint32_t n_threads) {
        Put put;
        int n;

        begin_put(&put, n_threads);
        assert_int_equal(tslab_map_put(put.map, "key", 3, put.value, LARGE - PAGE, TSLAB_EPOCH_CURRENT), 0);
        n = fill(put.pool);
        for (int i = 0; i < 4; i++) {
                run_put_unreadable(&put);
                assert_true((i % 2 == 0 ? tslab_reap(put.pool) : tslab_drain(put.pool)) >= 0);
                (void) usleep(i == 0 ? LOOK_USEC : 0);
                assert_int_equal(fill(put.pool), n);
        }
        assert_int_equal(tslab_map_get(put.map, "key", 3, put.value, LARGE - PAGE, NULL), LARGE - PAGE);
        end_put(&put);
}

static void test_end_inside_put(void **state) {
        (void) state;
        end_inside_put(6);
}

/* All threads share the one record. */
static void test_end_inside_put_shared(void **state) {
        (void) state;
        end_inside_put(1);
}

/* Repair has the record with all that pends in it. An object that was published stays. */
static void test_end_inside_put_pending(void **state) {
        tslab_handle published;
        Put put;

        (void) state;
        begin_put(&put, 1);
        assert_non_null(run(pend, &put));
        published = put.pending;
        assert_int_equal(tslab_publish(put.pool, published), 0);
        assert_non_null(run(pend, &put));
        run_put_unreadable(&put);
        assert_int_equal(tslab_publish(put.pool, put.pending), -ENOENT);
        assert_int_equal(tslab_free(put.pool, put.pending), -ESTALE);
        assert_int_equal(tslab_free(put.pool, published), 0);
        end_put(&put);
}

/* Nobody needs the record again before the pool is closed. */
static void test_end_inside_put_close(void **state) {
        Put put;

        (void) state;
        begin_put(&put, 1);
        run_put_unreadable(&put);
        end_put(&put);
}

/* A destructor that runs before the library's uses the same pool, or another. */
static void end_inside_put_then_use(uint32_t n_threads, bool other) {
        Put put, beside;
        int n;

        begin_put(&put, n_threads);
        begin_put(&beside, n_threads);
        put.used = other ? beside.pool : put.pool;
        n = fill(put.pool);
        run_put_unreadable(&put);
        assert_int_equal(put.result, 0);
        assert_true(tslab_reap(put.pool) >= 0);
        assert_int_equal(fill(put.pool), n);
        end_put(&beside);
        end_put(&put);
}

static void test_end_inside_put_then_use(void **state) {
        (void) state;
        end_inside_put_then_use(6, true);
}

/* The record that threads share is given up before another is taken, so even the same pool would do. */
static void test_end_inside_put_shared_then_use(void **state) {
        (void) state;
        end_inside_put_then_use(1, false);
        end_inside_put_then_use(1, true);
}

static void end_inside_put_then_close(uint32_t n_threads) {
        Put put;

        begin_put(&put, n_threads);
        put.closes = true;
        run_put_unreadable(&put);
        assert_null(put.pool);
        end_put(&put);
}

/* The destructor closes the pool. */
static void test_end_inside_put_then_close(void **state) {
        (void) state;
        end_inside_put_then_close(6);
        end_inside_put_then_close(1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_end_inside_put),
                cmocka_unit_test(test_end_inside_put_shared),
                cmocka_unit_test(test_end_inside_put_pending),
                cmocka_unit_test(test_end_inside_put_close),
                cmocka_unit_test(test_end_inside_put_then_use),
                cmocka_unit_test(test_end_inside_put_shared_then_use),
                cmocka_unit_test(test_end_inside_put_then_close),
        };

        if (pthread_key_create(&first_key, on_end) != 0)
                return EXIT_FAILURE;
        return cmocka_run_group_tests(tests, NULL, NULL);
}
