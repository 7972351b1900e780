/*
 * Calls that make memory for a private pool, or do its control work: on a small stack, as a signal handler may have,
 * and beside a request to cancel their thread.
 */
#include <tslab.h>
#include <tslab_map.h>

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/util/process.h"
#include "tests/util/test.h"

#define STACK_SIZE 16384
#define GUARD_SIZE 65536 /* below it: more than any frame */
#define DRAINED 3000 /* objects in an epoch that is closed: some slabs */
#define PUTS 20000 /* entries that expire at once */
#define OBJECTS 10000 /* more memory than a thread may commit by one look at the limits of cgroups */

static struct tslab *pool;

static int setup(void **state) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 64 << 20 };
        tslab_handle handle;

        return tslab_create(&pool, &options) < 0 ||
               tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) < 0;
}

static int teardown(void **state) {
        tslab_close(pool);
        return 0;
}

static int fill(void) {
        tslab_handle handle;
        int r = 0;

        for (int i = 0; i < OBJECTS && r == 0; i++)
                r = tslab_alloc(pool, 4000, TSLAB_EPOCH_CURRENT, &handle, NULL);
        return r;
}

/* Slabs drain, and go back. */
static int drain(void) {
        static tslab_handle handles[DRAINED];
        uint32_t epoch;
        int r = tslab_epoch_reserve(pool, "drains", &epoch);

        for (int i = 0; i < DRAINED && r == 0; i++)
                r = tslab_alloc(pool, 64, epoch, &handles[i], NULL);
        r = r ?: tslab_epoch_close(pool, epoch, 0);
        for (int i = 0; i < DRAINED && r == 0; i++)
                r = tslab_free(pool, handles[i]);
        return r;
}

static int control(void) {
        uint32_t epoch;

        return tslab_epoch_advance(pool, &epoch) ?: tslab_epoch_close(pool, epoch, TSLAB_CLOSE_REVOKE)
                       ?: tslab_reap(pool) ?: tslab_drain(pool);
}

static struct tslab_map *map;

/* The pool is full of entries that expired, again and again. */
static int expire(void) {
        const struct tslab_map_put_options options = { .size = sizeof(options),
                                                       .epoch = TSLAB_EPOCH_CURRENT,
                                                       .ttl_ms = 1 };
        static const uint8_t value[9000];
        int r = 0;

        for (int i = 0; i < PUTS && r == 0; i++)
                r = tslab_map_put_with(map, &i, sizeof(i), value, sizeof(value), &options);
        return r;
}

static int remove_map(void) {
        return tslab_map_remove(pool, "map");
}

static int (*handler_call)(void);
static volatile int handler_result;

static void on_signal(int signal) {
        handler_result = handler_call();
}

static void run_in_handler(int (*call)(void)) {
        struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK }, old;
        uint8_t *stack = mmap(NULL, GUARD_SIZE + STACK_SIZE, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        stack_t small = { .ss_sp = stack + GUARD_SIZE, .ss_size = STACK_SIZE }, before;

        assert_ptr_not_equal(stack, MAP_FAILED);
        assert_int_equal(mprotect(stack, GUARD_SIZE, PROT_NONE), 0);
        assert_int_equal(sigaltstack(&small, &before), 0);
        assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
        handler_call = call;
        handler_result = 1;
        assert_int_equal(raise(SIGUSR1), 0);
        assert_int_equal(handler_result, 0);
        assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
        assert_int_equal(sigaltstack(&before, NULL), 0);
        assert_int_equal(munmap(stack, GUARD_SIZE + STACK_SIZE), 0);
}

static int alloc_one(void) {
        tslab_handle handle;

        return tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL);
}

static void *begin_thread(void *userdata) {
        run_in_handler(alloc_one);
        return userdata;
}

static int begin_child(void *userdata) {
        run_in_handler(alloc_one);
        return 0;
}

/* A thread takes its record with its first call, and a forked child attaches, too. */
static void test_first_call_in_handler(void **state) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, begin_thread, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(test_child_run(TEST_FORK, begin_child, NULL), 0);
}

static void test_commit_in_handler(void **state) {
        run_in_handler(fill);
}

static void test_control_in_handler(void **state) {
        run_in_handler(drain);
        run_in_handler(control);
}

static void test_expiry_in_handler(void **state) {
        assert_int_equal(tslab_map_open(&map, pool, "map", NULL), 0);
        run_in_handler(expire);
        run_in_handler(remove_map);
        tslab_map_close(map);
}

static void *fill_cancelled(void *ret) {
        int r = pthread_cancel(pthread_self());

        *(int *) ret = r ?: fill();
        return NULL;
}

/* The request takes effect after the calls: here the thread ends first. */
static void test_commit_cancelled(void **state) {
        pthread_t thread;
        int result = 1;

        assert_int_equal(pthread_create(&thread, NULL, fill_cancelled, &result), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(result, 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_first_call_in_handler, setup, teardown),
                cmocka_unit_test_setup_teardown(test_commit_in_handler, setup, teardown),
                cmocka_unit_test_setup_teardown(test_control_in_handler, setup, teardown),
                cmocka_unit_test_setup_teardown(test_expiry_in_handler, setup, teardown),
                cmocka_unit_test_setup_teardown(test_commit_cancelled, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
