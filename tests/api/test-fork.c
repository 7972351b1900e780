#include <tslab_map.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/util/process.h"
#include "tests/util/test.h"

#define N_CHILDREN 64
#define N_CACHED 16

typedef struct Family {
        struct tslab *pool, *other;
        tslab_handle mine, theirs; /* the parent's, for children to free; the child's, for the parent */
        int i;
} Family;

static int setup(void **state) {
        Family *f = calloc(1, sizeof(*f));

        assert_int_equal(tslab_create(&f->pool, NULL), 0);
        assert_int_equal(tslab_create(&f->other, NULL), 0);
        *state = f;
        return 0;
}

static int teardown(void **state) {
        Family *f = *state;

        tslab_close(f->other);
        tslab_close(f->pool);
        free(f);
        return 0;
}

static tslab_handle alloc(struct tslab *pool) {
        tslab_handle handle;

        assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
        return handle;
}

/* Frees the parent's, and leaves one of its own in the root "child". */
static int use_pool(void *userdata) {
        Family *f = userdata;
        tslab_handle handles[100], handle;
        void *object;

        CHECK(tslab_get(f->pool, f->mine, &object, NULL) == 0);
        CHECK(strcmp(object, "parent's") == 0);
        CHECK(tslab_alloc_batch(f->pool, 64, TSLAB_EPOCH_CURRENT, handles, 100) == 100);
        CHECK(tslab_free(f->pool, f->mine) == 0);
        CHECK(tslab_free(f->pool, f->mine) == -ESTALE);
        CHECK(tslab_alloc(f->pool, 64, TSLAB_EPOCH_CURRENT, &handle, &object) == 0);
        strcpy(object, "child's");
        CHECK(tslab_root_set(f->pool, "child", 0, handle) == 0);
        CHECK(tslab_free_batch(f->pool, handles, 100) == 100);
        return 0;
}

/* Each way to fork, with a pool in use, and with one that the parent never used. */
static void test_fork_every_way(void **state) {
        Family *f = *state;
        void *object;

        for (int how = 0; how < _TEST_FORK_N; how++) {
                assert_int_equal(tslab_alloc(f->pool, 64, TSLAB_EPOCH_CURRENT, &f->mine, &object), 0);
                strcpy(object, "parent's");
                assert_int_equal(test_child_run((TestFork) how, use_pool, f), 0);
                assert_int_equal(tslab_free(f->pool, f->mine), -ESTALE);
                assert_int_equal(tslab_root_get(f->pool, "child", &f->theirs), 0);
                assert_int_equal(tslab_get(f->pool, f->theirs, &object, NULL), 0);
                assert_string_equal(object, "child's");
                assert_int_equal(tslab_root_set(f->pool, "child", f->theirs, 0), 0);
                assert_int_equal(tslab_free(f->pool, f->theirs), 0);
        }
}

static int first_use(void *userdata) {
        Family *f = userdata;
        tslab_handle handle;

        CHECK(tslab_alloc(f->other, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
        CHECK(tslab_free(f->other, handle) == 0);
        CHECK(tslab_close(f->other) == NULL);
        return 0;
}

/* The parent made no call yet that needs a record. */
static void test_fork_before_use(void **state) {
        for (int how = 0; how < _TEST_FORK_N; how++)
                assert_int_equal(test_child_run((TestFork) how, first_use, *state), 0);
}

static int fork_on(void *userdata) {
        Family *f = userdata;
        TestFork how = (TestFork) (f->i++ % _TEST_FORK_N);

        if (f->i < 10)
                return test_child_run(how, fork_on, f);
        return test_child_run(how, use_pool, f);
}

/* Nine generations that make no call, and one that does. */
static void test_fork_grandchildren(void **state) {
        Family *f = *state;
        void *object;

        assert_int_equal(tslab_alloc(f->pool, 64, TSLAB_EPOCH_CURRENT, &f->mine, &object), 0);
        strcpy(object, "parent's");
        assert_int_equal(test_child_run(TEST_FORK, fork_on, f), 0);
        assert_int_equal(tslab_free(f->pool, f->mine), -ESTALE);
}

static int chrooted(void *userdata) {
        char dir[] = "/tmp/tslab-test-XXXXXX";

        CHECK(mkdtemp(dir) != NULL);
        CHECK(chdir(dir) == 0 && rmdir(dir) == 0); /* nothing is left of it */
        CHECK(chroot(".") == 0);
        CHECK(access("/tmp", F_OK) < 0);
        CHECK(setgid(65534) == 0);
        CHECK(setuid(65534) == 0);
        return use_pool(userdata);
}

static void test_fork_then_chroot_setuid(void **state) {
        Family *f = *state;
        void *object;

        if (geteuid() != 0)
                skip();
        assert_int_equal(tslab_alloc(f->pool, 64, TSLAB_EPOCH_CURRENT, &f->mine, &object), 0);
        strcpy(object, "parent's");
        assert_int_equal(test_child_run(TEST_FORK, chrooted, f), 0);
}

static int two_pools(void *userdata) {
        Family *f = userdata;
        struct tslab *third;
        tslab_handle a, b, c;

        CHECK(tslab_create(&third, NULL) == 0);
        for (int i = 0; i < 1000; i++) {
                CHECK(tslab_alloc(f->pool, 64, TSLAB_EPOCH_CURRENT, &a, NULL) == 0);
                CHECK(tslab_alloc(f->other, 64, TSLAB_EPOCH_CURRENT, &b, NULL) == 0);
                CHECK(tslab_alloc(third, 64, TSLAB_EPOCH_CURRENT, &c, NULL) == 0);
                CHECK(tslab_free(f->other, a) == -ESTALE);
                CHECK(tslab_free(third, b) == -ESTALE);
                CHECK(tslab_free(f->pool, c) == -ESTALE);
                CHECK(tslab_free(f->pool, a) == 0);
                CHECK(tslab_free(f->other, b) == 0);
                CHECK(tslab_free(third, c) == 0);
        }
        CHECK(tslab_close(third) == NULL);
        CHECK(tslab_close(f->pool) == NULL); /* its own view of it alone */
        CHECK(tslab_alloc(f->other, 64, TSLAB_EPOCH_CURRENT, &b, NULL) == 0);
        CHECK(tslab_free(f->other, b) == 0);
        return 0;
}

static void test_fork_two_pools(void **state) {
        Family *f = *state;
        tslab_handle handle = alloc(f->pool), other = alloc(f->other);

        for (int how = 0; how < _TEST_FORK_N; how++)
                assert_int_equal(test_child_run((TestFork) how, two_pools, f), 0);
        assert_int_equal(tslab_free(f->pool, handle), 0);
        assert_int_equal(tslab_free(f->other, other), 0);
}

static int many(void *userdata) {
        Family *f = userdata;
        tslab_handle *shared, handle;
        void *object;

        CHECK(tslab_get(f->pool, f->theirs, &object, NULL) == 0);
        shared = object;
        for (int i = 0; i < 1000; i++) {
                CHECK(tslab_alloc(f->pool, 100, TSLAB_EPOCH_CURRENT, &handle, &object) == 0);
                memset(object, f->i, 100);
                for (int at = 0; at < 100; at++)
                        CHECK(((uint8_t *) object)[at] == f->i);
                if (i < 999)
                        CHECK(tslab_free(f->pool, handle) == 0);
        }
        CHECK(tslab_free(f->pool, shared[f->i]) == 0); /* the parent's */
        shared[f->i] = handle;
        return 0;
}

static void test_fork_many(void **state) {
        Family *f = *state;
        pid_t pids[N_CHILDREN];
        tslab_handle *shared;
        void *object;

        assert_int_equal(tslab_alloc(f->pool, sizeof(*shared) * N_CHILDREN, 0, &f->theirs, &object), 0);
        shared = object;
        for (int i = 0; i < N_CHILDREN; i++)
                shared[i] = alloc(f->pool);
        for (f->i = 0; f->i < N_CHILDREN; f->i++)
                pids[f->i] = test_child_start((TestFork) (f->i % _TEST_FORK_N), many, f);
        for (int i = 0; i < N_CHILDREN; i++)
                assert_int_equal(test_child_wait(pids[i]), 0);
        for (int i = 0; i < N_CHILDREN; i++) {
                assert_int_equal(tslab_get(f->pool, shared[i], &object, NULL), 0);
                assert_int_equal(((uint8_t *) object)[99], i);
                assert_int_equal(tslab_free(f->pool, shared[i]), 0);
        }
}

static int close_pool(void *userdata) {
        Family *f = userdata;
        tslab_handle handle;

        CHECK(tslab_publish(f->pool, f->mine) == -ENOENT); /* pending in the parent */
        CHECK(tslab_alloc_pending(f->pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
        CHECK(tslab_root_set(f->pool, "pending", 0, handle) == 0);
        CHECK(tslab_close(f->pool) == NULL);
        return 0;
}

/* Closing frees the child's pending objects, and none of the parent's. */
static void test_fork_close(void **state) {
        Family *f = *state;
        tslab_handle handle;

        assert_int_equal(tslab_alloc_pending(f->pool, 64, TSLAB_EPOCH_CURRENT, &f->mine, NULL), 0);
        assert_int_equal(test_child_run(TEST_FORK, close_pool, f), 0);
        assert_int_equal(tslab_root_get(f->pool, "pending", &handle), 0);
        assert_int_equal(tslab_free(f->pool, handle), -ESTALE);
        assert_int_equal(tslab_publish(f->pool, f->mine), 0);
        assert_int_equal(tslab_free(f->pool, f->mine), 0);
}

static int only_close(void *userdata) {
        CHECK(tslab_close(((Family *) userdata)->pool) == NULL);
        return 0;
}

/* A child that closes without having attached gives back nothing, for nothing was its own. */
static void test_fork_close_unused(void **state) {
        Family *f = *state;
        tslab_handle handle = alloc(f->pool);

        assert_int_equal(tslab_alloc_pending(f->pool, 64, TSLAB_EPOCH_CURRENT, &f->mine, NULL), 0);
        assert_int_equal(test_child_run(TEST_FORK, only_close, f), 0);
        assert_int_equal(tslab_publish(f->pool, f->mine), 0);
        assert_int_equal(tslab_free(f->pool, f->mine), 0);
        assert_int_equal(tslab_free(f->pool, handle), 0);
}

/* Two records: the parent's spare one and its own. The child finds none, and can read nonetheless. */
static int without_record(void *userdata) {
        Family *f = userdata;
        tslab_handle handle;
        uint8_t buffer[64];
        void *object;

        CHECK(tslab_alloc(f->pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == -EUSERS);
        CHECK(tslab_free(f->pool, f->mine) == -EUSERS);
        CHECK(tslab_epoch_advance(f->pool, NULL) == -EUSERS);
        CHECK(tslab_get(f->pool, f->mine, &object, NULL) == 0);
        CHECK(tslab_read(f->pool, f->mine, buffer, sizeof(buffer)) == 64);
        CHECK(tslab_root_set(f->pool, "read", 0, f->mine) == 0);
        return 0;
}

static void test_fork_no_record_left(void **state) {
        struct tslab_options options = { .size = sizeof(options), .n_threads = 2 };
        Family f = {};

        (void) state;
        assert_int_equal(tslab_create(&f.pool, &options), 0);
        f.mine = alloc(f.pool);
        assert_int_equal(test_child_run(TEST_FORK, without_record, &f), 0);
        assert_int_equal(tslab_free(f.pool, f.mine), 0);
        tslab_close(f.pool);
}

/* Children that close leave nothing: more of them, one after the other, than there are records. */
static void test_fork_close_leaves_nothing(void **state) {
        struct tslab_options options = { .size = sizeof(options), .n_threads = 4 };
        Family f = {};

        (void) state;
        assert_int_equal(tslab_create(&f.pool, &options), 0);
        f.other = f.pool;
        f.mine = alloc(f.pool);
        for (int i = 0; i < 20; i++)
                assert_int_equal(test_child_run((TestFork) (i % _TEST_FORK_N), first_use, &f), 0);
        assert_int_equal(tslab_free(f.pool, f.mine), 0);
        tslab_close(f.pool);
}

/* All that is left is in the cache of the parent, which asked for others' slots just now. */
static int takes_cached(void *userdata) {
        const Family *f = userdata;
        tslab_handle handles[N_CACHED];

        for (unsigned i = 0; i < N_CACHED; i++)
                CHECK(tslab_alloc(f->pool, 64, TSLAB_EPOCH_CURRENT, &handles[i], NULL) == 0);
        for (unsigned i = 0; i < N_CACHED; i++)
                CHECK(tslab_free(f->pool, handles[i]) == 0);
        CHECK(tslab_close(f->pool) == NULL);
        return 0;
}

static void test_fork_full_but_caches(void **state) {
        struct tslab_options options = { .size = sizeof(options),
                                         .arena_bytes = 1 << 20,
                                         .cache = TSLAB_CACHE_ON };
        static tslab_handle handles[(1 << 20) / 64];
        Family f = {};
        unsigned n = 0;

        (void) state;
        assert_int_equal(tslab_create(&f.pool, &options), 0);
        while (tslab_alloc(f.pool, 64, TSLAB_EPOCH_CURRENT, &handles[n], NULL) == 0)
                n++;
        for (int how = 0; how < _TEST_FORK_N; how++) {
                for (unsigned i = 0; i < N_CACHED; i++)
                        assert_int_equal(tslab_free(f.pool, handles[--n]), 0);
                assert_int_equal(test_child_run((TestFork) how, takes_cached, &f), 0);
                while (tslab_alloc(f.pool, 64, TSLAB_EPOCH_CURRENT, &handles[n], NULL) == 0)
                        n++;
        }
        assert_int_equal(n, sizeof(handles) / sizeof(handles[0]));
        tslab_close(f.pool);
}

typedef struct TakeOver {
        struct tslab *pool;
        pthread_barrier_t barrier;
        int r;
} TakeOver;

static void *fill_record(void *userdata) {
        TakeOver *t = userdata;
        tslab_handle handle;

        for (int i = 0; i < 64 && t->r == 0; i++)
                t->r = tslab_alloc_pending(t->pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL);
        pthread_barrier_wait(&t->barrier);
        pthread_barrier_wait(&t->barrier); /* keeps its record until then */
        return NULL;
}

/*
 * The parent gives its records back, and a new thread of the child gets the one that the forking
 * thread had. The two must not take each other's for theirs: each has room for 64 that are pending.
 */
static int take_over_record(void *userdata) {
        Family *f = userdata;
        TakeOver t = { .pool = f->pool };
        tslab_handle handle;
        pthread_t thread;
        char byte;

        CHECK(read(f->i, &byte, 1) == 1); /* the parent has closed the pool */
        CHECK(pthread_barrier_init(&t.barrier, NULL, 2) == 0);
        CHECK(pthread_create(&thread, NULL, fill_record, &t) == 0);
        pthread_barrier_wait(&t.barrier);
        CHECK(t.r == 0);
        for (int i = 0; i < 64; i++)
                CHECK(tslab_alloc_pending(f->pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
        CHECK(tslab_alloc_pending(f->pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == -ENOBUFS);
        pthread_barrier_wait(&t.barrier);
        CHECK(pthread_join(thread, NULL) == 0);
        return 0;
}

static void test_fork_record_taken_over(void **state) {
        Family f = {};
        int pipes[2];
        pid_t pid;

        (void) state;
        assert_int_equal(tslab_create(&f.pool, NULL), 0);
        f.mine = alloc(f.pool);
        assert_int_equal(pipe(pipes), 0);
        f.i = pipes[0];
        pid = test_child_start(TEST_FORK, take_over_record, &f);
        tslab_close(f.pool);
        assert_int_equal(write(pipes[1], "x", 1), 1);
        assert_int_equal(test_child_wait(pid), 0);
        close(pipes[0]);
        close(pipes[1]);
}

static int control(void *userdata) {
        Family *f = userdata;
        uint32_t epoch;

        CHECK(tslab_epoch_advance(f->pool, &epoch) == 0);
        CHECK(tslab_epoch_close(f->pool, epoch, 0) == 0);
        CHECK(tslab_epoch_advance(f->pool, NULL) == 0);
        return 0;
}

static void test_fork_control(void **state) {
        Family *f = *state;

        for (int how = 0; how < _TEST_FORK_N; how++) {
                assert_int_equal(test_child_run((TestFork) how, control, f), 0);
                assert_int_equal(control(f), 0);
        }
}

typedef struct Waits {
        struct tslab *pool;
        struct tslab_map *map;
        struct tslab_waiter *waiter;
} Waits;

static int next_wait(struct tslab_waiter *waiter, uint64_t *ret_wait) {
        struct pollfd fd = { .fd = tslab_waiter_fd(waiter), .events = POLLIN };
        int result;

        CHECK(poll(&fd, 1, -1) == 1);
        CHECK(tslab_waiter_next(waiter, ret_wait, &result) == 1);
        return result;
}

static int wait_in_child(void *userdata) {
        Waits *w = userdata;
        struct tslab_waiter *own;
        tslab_handle version;
        uint64_t wait;
        int result;

        CHECK(tslab_waiter_add(w->waiter, w->map, "key", 3, 0, 0, &wait) == -EBADF);
        CHECK(tslab_waiter_next(w->waiter, &wait, &result) == -EBADF);
        CHECK(tslab_waiter_cancel(w->waiter, 0) == -EBADF);
        CHECK(tslab_waiter_open(&own, w->pool) == 0);
        CHECK(tslab_waiter_next(w->waiter, &wait, &result) == -EBADF);
        CHECK(tslab_waiter_close(w->waiter) == NULL);
        CHECK(tslab_map_claim(w->map, "child", 5, TSLAB_EPOCH_CURRENT, &version) == 0);
        CHECK(tslab_waiter_add(own, w->map, "child", 5, version, 1, &wait) == 0);
        CHECK(next_wait(own, &wait) == -ETIMEDOUT);
        CHECK(tslab_waiter_close(own) == NULL);
        return 0;
}

/* The parent's waits go on beside a child, which has none of them. TSan lets no such child have a thread. */
static void test_fork_beside_waits(void **state) {
        Family *f = *state;
        Waits w = { .pool = f->pool };
        tslab_handle version;
        uint64_t wait, told;
        int result;

        assert_int_equal(tslab_map_open(&w.map, w.pool, "m", NULL), 0);
        assert_int_equal(tslab_waiter_open(&w.waiter, w.pool), 0);
        assert_int_equal(tslab_map_claim(w.map, "key", 3, TSLAB_EPOCH_CURRENT, &version), 0);
        assert_int_equal(tslab_waiter_add(w.waiter, w.map, "key", 3, version, 600000, &wait), 0);
        assert_int_equal(test_child_run(TEST_FORK, wait_in_child, &w), 0);
        assert_int_equal(tslab_waiter_next(w.waiter, &told, &result), 0);
        assert_int_equal(tslab_map_delete_version(w.map, "key", 3, version), 0);
        assert_int_equal(next_wait(w.waiter, &told), 0);
        assert_true(told == wait);
        tslab_waiter_close(w.waiter);
        tslab_map_close(w.map);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                TEST(test_fork_every_way),
                TEST(test_fork_before_use),
                TEST(test_fork_grandchildren),
                TEST(test_fork_then_chroot_setuid),
                TEST(test_fork_two_pools),
                TEST(test_fork_many),
                TEST(test_fork_close),
                TEST(test_fork_close_unused),
                TEST(test_fork_control),
                TEST(test_fork_beside_waits),
                cmocka_unit_test(test_fork_no_record_left),
                cmocka_unit_test(test_fork_full_but_caches),
                cmocka_unit_test(test_fork_record_taken_over),
                cmocka_unit_test(test_fork_close_leaves_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
