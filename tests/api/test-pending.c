/* Pending objects that go from thread to thread of a process before they are published. */
#include <tslab.h>

#include <errno.h>
#include <pthread.h>

#include "tests/util/process.h"
#include "tests/util/test.h"

#define N_MAX 64 /* pending at a time, in a thread; shared, in a process */

static int setup(void **state) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 1 << 20 };
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, &options), 0);
        *state = pool;
        return 0;
}

static int teardown(void **state) {
        tslab_close(*state);
        return 0;
}

static bool is_live(struct tslab *pool, tslab_handle handle) {
        void *object;

        return tslab_get(pool, handle, &object, NULL) == 0;
}

typedef struct Task {
        struct tslab *pool;
        tslab_handle handle;
        int r;
} Task;

/* Runs it in a thread, which has ended when this returns. */
static int run_elsewhere(void *(*run)(void *), Task *task) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, run, task), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        return task->r;
}

static void *begin_shared(void *userdata) {
        Task *t = userdata;

        t->r = tslab_alloc_pending(t->pool, 100, TSLAB_EPOCH_CURRENT, &t->handle, NULL);
        if (t->r == 0)
                t->r = tslab_pending_share(t->pool, t->handle);
        return NULL;
}

/* 1: this thread uses the record that threads without one share; 0: its own. */
static void *uses_spare(void *userdata) {
        struct tslab_thread_stats stats = { .size = sizeof(stats) };
        Task *t = userdata;

        t->r = tslab_thread_stats(t->pool, &stats) ?: stats.is_shared != 0;
        return NULL;
}

static void *begin_unshared(void *userdata) {
        Task *t = userdata;

        t->r = tslab_alloc_pending(t->pool, 100, TSLAB_EPOCH_CURRENT, &t->handle, NULL);
        return NULL;
}

static void *share(void *userdata) {
        Task *t = userdata;

        t->r = tslab_pending_share(t->pool, t->handle);
        return NULL;
}

static void *publish(void *userdata) {
        Task *t = userdata;

        t->r = tslab_publish(t->pool, t->handle);
        return NULL;
}

static void *drop(void *userdata) {
        Task *t = userdata;

        t->r = tslab_free(t->pool, t->handle);
        return NULL;
}

/* The thread that allocated it has ended; another one publishes it, and ends, too. */
static void test_published_elsewhere(void **state) {
        Task t = { .pool = *state };

        assert_int_equal(run_elsewhere(begin_shared, &t), 0);
        assert_true(is_live(t.pool, t.handle));
        assert_int_equal(run_elsewhere(publish, &t), 0);
        assert_int_equal(run_elsewhere(publish, &t), -ENOENT);
        assert_true(is_live(t.pool, t.handle));
        assert_int_equal(tslab_free(t.pool, t.handle), 0);
}

static void test_unshared_is_of_its_thread(void **state) {
        Task t = { .pool = *state };

        assert_int_equal(tslab_alloc_pending(t.pool, 100, TSLAB_EPOCH_CURRENT, &t.handle, NULL), 0);
        assert_int_equal(run_elsewhere(publish, &t), -ENOENT);
        assert_int_equal(run_elsewhere(share, &t), -ENOENT);
        assert_int_equal(tslab_publish(t.pool, t.handle), 0);
        assert_int_equal(tslab_pending_share(t.pool, t.handle), -ENOENT);
        assert_int_equal(tslab_free(t.pool, t.handle), 0);
        assert_int_equal(run_elsewhere(begin_unshared, &t), 0);
        assert_false(is_live(t.pool, t.handle));
}

static void test_bad_handles(void **state) {
        assert_int_equal(tslab_pending_share(*state, 0), -ENOENT);
        assert_int_equal(tslab_pending_share(*state, UINT64_MAX), -ENOENT);
        assert_int_equal(tslab_publish(*state, 0), -ENOENT);
}

/* A thread may share as many as it likes, one after the other: they count for the process. */
static void test_room(void **state) {
        tslab_handle handles[N_MAX + 1];
        struct tslab *pool = *state;
        Task t = { .pool = pool };

        for (int i = 0; i < N_MAX; i++) {
                assert_int_equal(tslab_alloc_pending(pool, 64, TSLAB_EPOCH_CURRENT, &handles[i], NULL), 0);
                assert_int_equal(tslab_pending_share(pool, handles[i]), 0);
        }
        assert_int_equal(tslab_alloc_pending(pool, 64, TSLAB_EPOCH_CURRENT, &handles[N_MAX], NULL), 0);
        assert_int_equal(tslab_pending_share(pool, handles[N_MAX]), -ENOBUFS);
        assert_int_equal(tslab_pending_share(pool, handles[0]), 0); /* it is already */

        t.handle = handles[0];
        assert_int_equal(run_elsewhere(publish, &t), 0);
        assert_int_equal(tslab_pending_share(pool, handles[N_MAX]), 0);
        for (int round = 0; round < 3 * N_MAX; round++) { /* freed by any thread, they make room, too */
                t.handle = handles[1 + round % N_MAX];
                assert_int_equal(round % 2 ? run_elsewhere(drop, &t) : tslab_free(pool, t.handle), 0);
                assert_int_equal(run_elsewhere(begin_shared, &t), 0);
                handles[1 + round % N_MAX] = t.handle;
        }
        assert_int_equal(tslab_free(pool, handles[0]), 0);
}

/*
 * A revocation leaves the slots of pending objects alone, since their tasks may be writing into them. Such an object
 * makes room for no other before its task publishes or frees it.
 */
static void test_revoked_is_not_freed(void **state) {
        struct tslab *pool = *state;
        tslab_handle handles[N_MAX + 1];
        uint32_t epoch;

        assert_int_equal(tslab_epoch_reserve(pool, NULL, &epoch), 0);
        assert_int_equal(tslab_alloc_pending(pool, 64, epoch, &handles[0], NULL), 0);
        assert_int_equal(tslab_pending_share(pool, handles[0]), 0);
        assert_int_equal(tslab_epoch_close(pool, epoch, TSLAB_CLOSE_REVOKE), 0);
        assert_false(is_live(pool, handles[0]));
        for (int i = 1; i <= N_MAX; i++) {
                assert_int_equal(tslab_alloc_pending(pool, 64, TSLAB_EPOCH_CURRENT, &handles[i], NULL), 0);
                assert_int_equal(tslab_pending_share(pool, handles[i]), i < N_MAX ? 0 : -ENOBUFS);
        }
        assert_int_equal(tslab_publish(pool, handles[0]), 0);
        assert_int_equal(tslab_pending_share(pool, handles[N_MAX]), 0);
}

/* More of them than there are notes. Closing waits for the notes each time, so a few closings revoke many objects. */
static void test_revoked_and_freed(void **state) {
        Task t = { .pool = *state };
        tslab_handle handles[16];
        uint32_t epoch;

        for (int i = 0; i < 3 * N_MAX / 16; i++) {
                assert_int_equal(tslab_epoch_reserve(t.pool, NULL, &epoch), 0);
                for (int k = 0; k < 16; k++) {
                        assert_int_equal(tslab_alloc_pending(t.pool, 64, epoch, &handles[k], NULL), 0);
                        assert_int_equal(tslab_pending_share(t.pool, handles[k]), 0);
                }
                assert_int_equal(tslab_epoch_close(t.pool, epoch, TSLAB_CLOSE_REVOKE), 0);
                for (int k = 0; k < 16; k++) {
                        t.handle = handles[k];
                        assert_int_equal(k % 2 ? run_elsewhere(drop, &t) : tslab_free(t.pool, t.handle),
                                         -ESTALE);
                }
        }
}

static int share_and_die(void *userdata) {
        Task *t = userdata;
        void *slot;

        CHECK(tslab_get(t->pool, t->handle, &slot, NULL) == 0);
        CHECK(tslab_alloc_pending(t->pool, 64, TSLAB_EPOCH_CURRENT, (tslab_handle *) slot, NULL) == 0);
        CHECK(tslab_pending_share(t->pool, *(tslab_handle *) slot) == 0);
        return 0;
}

/* The pending objects of a process that dies, or that closes its pool, are freed. */
static void test_freed_with_the_process(void **state) {
        struct tslab *pool = *state;
        Task t = { .pool = pool };
        tslab_handle *left;

        assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &t.handle, (void **) &left), 0);
        assert_int_equal(test_child_run(TEST_FORK, share_and_die, &t), 0);
        assert_true(is_live(pool, *left));
        assert_int_equal(tslab_reap(pool), 1);
        assert_false(is_live(pool, *left));
        assert_int_equal(tslab_free(pool, t.handle), 0);
}

/* A pool whose records are taken, the last by this thread: all others share that of the process. */
static Task begin_without_records(void) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 1 << 20, .n_threads = 2 };
        Task t = {};

        assert_int_equal(tslab_create(&t.pool, &options), 0);
        assert_int_equal(tslab_alloc(t.pool, 64, TSLAB_EPOCH_CURRENT, &t.handle, NULL), 0);
        assert_int_equal(run_elsewhere(uses_spare, &t), 1);
        return t;
}

/* Threads that found no record left share that which shared pending objects are noted in. */
static void test_of_a_shared_record(void **state) {
        Task t = begin_without_records();

        (void) state;
        for (int i = 0; i < 3 * N_MAX; i++) {
                assert_int_equal(run_elsewhere(begin_shared, &t), 0);
                assert_int_equal(i % 2 ? tslab_publish(t.pool, t.handle) : run_elsewhere(publish, &t), 0);
                assert_true(is_live(t.pool, t.handle));
        }
        tslab_close(t.pool);
}

/* Their pending objects are shared from the beginning: threads with records of their own may free them. */
static void test_freed_of_a_shared_record(void **state) {
        Task t = begin_without_records();

        (void) state;
        for (int i = 0; i < 3 * N_MAX; i++) {
                assert_int_equal(run_elsewhere(begin_shared, &t), 0);
                assert_int_equal(tslab_free(t.pool, t.handle), 0);
        }
        tslab_close(t.pool);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_published_elsewhere, setup, teardown),
                cmocka_unit_test_setup_teardown(test_unshared_is_of_its_thread, setup, teardown),
                cmocka_unit_test_setup_teardown(test_bad_handles, setup, teardown),
                cmocka_unit_test_setup_teardown(test_room, setup, teardown),
                cmocka_unit_test_setup_teardown(test_revoked_is_not_freed, setup, teardown),
                cmocka_unit_test_setup_teardown(test_revoked_and_freed, setup, teardown),
                cmocka_unit_test_setup_teardown(test_freed_with_the_process, setup, teardown),
                cmocka_unit_test(test_of_a_shared_record),
                cmocka_unit_test(test_freed_of_a_shared_record),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
