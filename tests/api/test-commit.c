/* Calls that make memory for a private pool: on a small stack, and beside a request to cancel their thread. */
#include <tslab.h>

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/util/test.h"

#define STACK_SIZE 16384
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

static volatile int handler_result;

static void on_signal(int signal) {
        handler_result = fill();
}

static void test_commit_in_handler(void **state) {
        const size_t page = (size_t) sysconf(_SC_PAGESIZE);
        struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK }, old;
        uint8_t *stack =
                mmap(NULL, page + STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        stack_t small = { .ss_sp = stack + page, .ss_size = STACK_SIZE }, before;

        assert_ptr_not_equal(stack, MAP_FAILED);
        assert_int_equal(mprotect(stack, page, PROT_NONE), 0);
        assert_int_equal(sigaltstack(&small, &before), 0);
        assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
        handler_result = 1;
        assert_int_equal(raise(SIGUSR1), 0);
        assert_int_equal(handler_result, 0);
        assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
        assert_int_equal(sigaltstack(&before, NULL), 0);
        assert_int_equal(munmap(stack, page + STACK_SIZE), 0);
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
                cmocka_unit_test_setup_teardown(test_commit_in_handler, setup, teardown),
                cmocka_unit_test_setup_teardown(test_commit_cancelled, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
