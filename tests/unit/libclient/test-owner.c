/* Owners of control work in a private pool that end in the middle of it, or stand still there. */
#include "libclient/host/control.h"
#include "libclient/host/private-expiry.h"
#include "libclient/pool/enter.h"
#include "libclient/pool/attach.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tslab_map.h>
#include <unistd.h>

#include "shm/owner/owner.h"
#include "tests/util/parent.h"
#include "tests/util/process.h"
#include "tests/util/test.h"

#define PAGE 4096U
#define N_SLEEPS_MAX 100 /* a call that waits for the owner sleeps a thousand times */
#define N_ROUNDS 8
#define N_PUTS 30000 /* more than the pool takes */
#define EXPIRED_USEC 30000 /* after that entries of a millisecond are over by any clock's tick */

static struct tslab *create(void) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 1 << 20, .n_threads = 8 };
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, &options), 0);
        return pool;
}

/* ---- A thread that a handler ends */

static struct {
        struct tslab *pool;
        Lock *lock; /* taken before the call that ends */
        uint32_t epoch; /* has an object */
} inside;

/* The record of control work cannot be written. */
static void protect_record(const struct tslab *pool, int protection) {
        uintptr_t record = (uintptr_t) shm_arena_record(&pool->arena, 0);

        assert_int_equal(mprotect((void *) (record / PAGE * PAGE), PAGE, protection), 0);
}

static void on_fault(int signal) {
        (void) signal;
        protect_record(inside.pool, PROT_READ | PROT_WRITE);
        pthread_exit(NULL);
}

static void *end_inside(void *userdata) {
        if (inside.lock)
                (void) lock_take(inside.lock);
        (void) tslab_epoch_close(inside.pool, inside.epoch, TSLAB_CLOSE_REVOKE);
        return userdata;
}

static void run_end_inside(struct tslab *pool, Lock *lock) {
        const struct sigaction action = { .sa_handler = on_fault };
        struct sigaction before;
        tslab_handle handle;
        pthread_t thread;
        void *result;

        assert_int_equal(tslab_epoch_reserve(pool, "ends", &inside.epoch), 0);
        assert_int_equal(tslab_alloc(pool, 64, inside.epoch, &handle, NULL), 0);
        assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
        inside.pool = pool;
        inside.lock = lock;
        protect_record(pool, PROT_READ);
        assert_int_equal(pthread_create(&thread, NULL, end_inside, &inside), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
        assert_null(result);
}

static int advance(void *userdata) {
        CHECK(tslab_epoch_advance(userdata, NULL) == 0);
        return 0;
}

static void test_exit_in_control(void **state) {
        struct tslab *pool = create();

        (void) state;
        run_end_inside(pool, NULL);
        assert_int_equal(tslab_epoch_advance(pool, NULL), 0);
        run_end_inside(pool, NULL);
        assert_int_equal(test_child_run(TEST_FORK, advance, pool), 0);
        assert_int_equal(tslab_reap(pool), 1);
        run_end_inside(pool, NULL);
        assert_int_equal(tslab_reap(pool), 0);
        tslab_close(pool);
}

/* Nobody waits for a call that ended. */
static void test_exit_in_control_close(void **state) {
        struct tslab *pool = create();

        (void) state;
        run_end_inside(pool, NULL);
        tslab_close(pool);
}

/* A thread ends with each of the locks of its process. */
static void test_exit_with_lock(void **state) {
        struct tslab *pool = create();
        Lock *locks[] = { &pool->local->attach_lock, &pool->local->call_lock, &pool->local->spare_lock,
                          &pool->local->refs_lock };

        (void) state;
        for (unsigned i = 0; i < sizeof(locks) / sizeof(locks[0]); i++) {
                run_end_inside(pool, locks[i]);
                assert_true(lock_take(locks[i]));
                lock_release(locks[i]);
                assert_false(lock_take(locks[i]));
                lock_release(locks[i]);
        }
        tslab_close(pool);
}

/* ---- A process that ends, executes another program, or stops */

typedef enum Fate { DIES, EXECUTES, STOPS, _FATE_N } Fate;

typedef struct Child {
        struct tslab *pool;
        Fate fate;
        bool controls, pends;
        tslab_handle *pending; /* shared */
        int ready[2];
} Child;

static void *control(void *userdata) {
        ShmActor *control;

        if (control_begin(userdata, true, &control) != 0)
                return NULL;
        for (;;)
                pause();
}

/* Another thread has control work, as exec leaves only the thread that calls it. */
static int be_owner(void *userdata) {
        Child *child = userdata;
        pthread_t thread;

        end_with_parent(); /* a test that fails leaves none that is stopped */
        CHECK(pool_attach(child->pool) == 0);
        if (child->pends)
                CHECK(tslab_alloc_pending(child->pool, 64, TSLAB_EPOCH_CURRENT, child->pending, NULL) == 0);
        if (child->controls)
                CHECK(pthread_create(&thread, NULL, control, child->pool) == 0);
        while (child->controls && shm_owner_state(shm_owner_load(&child->pool->arena)) != SHM_OWNER_HELD)
                usleep(100);
        if (child->fate == EXECUTES) {
                CHECK(dup2(child->ready[1], STDOUT_FILENO) == STDOUT_FILENO);
                /* Not a third program: in the middle of an exec, nobody can tell which program a process executes. */
                execl("/bin/sh", "sh", "-c", "echo; kill -STOP $$", NULL);
                return __LINE__;
        }
        CHECK(write(child->ready[1], "\n", 1) == 1);
        kill(getpid(), child->fate == DIES ? SIGKILL : SIGSTOP);
        return 0;
}

static pid_t begin_owner(Child *child, struct tslab *pool, Fate fate, bool controls, bool pends) {
        int status;
        pid_t pid;
        char c;

        *child = (Child){ .pool = pool, .fate = fate, .controls = controls, .pends = pends };
        child->pending = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(child->pending, MAP_FAILED);
        assert_int_equal(pipe(child->ready), 0);
        pid = test_child_start(TEST_FORK, be_owner, child);
        close(child->ready[1]);
        assert_int_equal(read(child->ready[0], &c, 1), 1);
        if (fate == DIES)
                assert_int_equal(waitid(P_PID, (id_t) pid, &(siginfo_t){}, WEXITED | WNOWAIT), 0);
        if (fate == STOPS)
                assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
        return pid;
}

static void end_owner(Child *child, pid_t pid) {
        (void) kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        close(child->ready[0]);
        (void) munmap(child->pending, PAGE);
}

/* Reaped at once, whether or not it was in control work, though the other program lives. */
static void end_and_reap(Fate fate, bool controls) {
        struct tslab *pool = create();
        Child child;
        pid_t pid = begin_owner(&child, pool, fate, controls, true);
        void *object;

        assert_int_equal(tslab_get(pool, *child.pending, &object, NULL), 0);
        assert_int_equal(tslab_reap(pool), 1);
        assert_int_equal(tslab_get(pool, *child.pending, &object, NULL), -ESTALE);
        assert_int_equal(tslab_control_owner(pool), 0);
        assert_int_equal(tslab_reap(pool), 0);
        end_owner(&child, pid);
        tslab_close(pool);
}

static void test_dead_process(void **state) {
        (void) state;
        end_and_reap(DIES, false);
        end_and_reap(DIES, true);
}

static void test_exec(void **state) {
        (void) state;
        end_and_reap(EXECUTES, false);
        end_and_reap(EXECUTES, true);
}

/* Others find out by themselves that the owner is gone. */
static void test_gone_owner_bars_nobody(void **state) {
        (void) state;
        for (Fate fate = DIES; fate <= EXECUTES; fate++) {
                struct tslab *pool = create();
                struct tslab_map *map;
                Child child;
                pid_t pid = begin_owner(&child, pool, fate, true, false);

                assert_int_equal(tslab_control_owner(pool), pid);
                assert_int_equal(tslab_map_open(&map, pool, "map", NULL), 0);
                assert_int_equal(tslab_control_owner(pool), 0);
                assert_int_equal(tslab_reap(pool), 1);
                end_owner(&child, pid);
                tslab_map_close(map);
                tslab_close(pool);
        }
}

static long n_sleeps(void) {
        struct rusage usage;

        assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
        return usage.ru_nvcsw;
}

/* Nothing that needs control work waits for it. */
static void test_stopped_owner(void **state) {
        struct tslab *pool = create();
        struct tslab_map *map;
        long n_before;
        Child child;
        pid_t pid = begin_owner(&child, pool, STOPS, true, false);

        (void) state;
        assert_int_equal(tslab_epoch_advance(pool, NULL), -EBUSY);
        assert_int_equal(tslab_reap(pool), -EBUSY);
        n_before = n_sleeps();
        assert_int_equal(tslab_map_open(&map, pool, "map", NULL), -EBUSY);
        assert_true(n_sleeps() - n_before < N_SLEEPS_MAX);
        assert_int_equal(tslab_control_owner(pool), pid);
        end_owner(&child, pid);
        assert_int_equal(tslab_reap(pool), 1);
        tslab_close(pool);
}

static int put(struct tslab_map *map, uint32_t key) {
        const struct tslab_map_put_options options = { .size = sizeof(options),
                                                       .epoch = TSLAB_EPOCH_CURRENT,
                                                       .ttl_ms = 1 };

        return tslab_map_put_with(map, &key, sizeof(key), "value", 5, &options);
}

/* No put is refused while all entries have expired. */
static void test_puts_beside_stopped_owner(void **state) {
        struct tslab *pool = create();
        struct tslab_map *map;
        Child child;
        pid_t pid;

        (void) state;
        assert_int_equal(tslab_map_open(&map, pool, "map", NULL), 0);
        pid = begin_owner(&child, pool, STOPS, true, false);
        for (uint32_t key = 0; key < N_PUTS; key++)
                if (put(map, key) != 0) {
                        usleep(EXPIRED_USEC);
                        assert_int_equal(put(map, key), 0);
                }
        end_owner(&child, pid);
        assert_int_equal(tslab_reap(pool), 1);
        tslab_map_close(map);
        tslab_close(pool);
}

static uint64_t n_entries(struct tslab_map *map) {
        struct tslab_map_statistics s = { .size = sizeof(s) };

        assert_int_equal(tslab_map_statistics(map, &s), 0);
        return s.entries;
}

/* Others have the memory before the call has another try, and their entries are over by then: it deletes these, too. */
static void test_others_are_faster(void **state) {
        struct tslab *pool = create();
        HostRetry retry = {};
        struct tslab_map *map;
        Child child;
        pid_t pid;

        (void) state;
        assert_int_equal(tslab_map_open(&map, pool, "map", NULL), 0);
        pid = begin_owner(&child, pool, STOPS, true, false);
        for (unsigned i = 0; i < N_ROUNDS; i++) {
                for (uint32_t key = 0; key < 100; key++)
                        assert_int_equal(put(map, key), 0);
                usleep(EXPIRED_USEC);
                while (n_entries(map) > 0)
                        assert_true(expiry_delete(pool, &retry));
        }
        end_owner(&child, pid);
        assert_int_equal(tslab_reap(pool), 1);
        tslab_map_close(map);
        tslab_close(pool);
}

/* Entries end after a look that found none, and before the call's last attempt, which others make fail. */
static void test_over_after_a_look(void **state) {
        struct tslab *pool = create();
        struct tslab_map *map;
        Child child;
        pid_t pid = 0;

        (void) state;
        assert_int_equal(tslab_map_open(&map, pool, "map", NULL), 0);
        for (unsigned beside = 0; beside < 2; beside++) {
                HostRetry retry = { .n_slices = 1 }; /* it has slept for a slice */

                if (beside)
                        pid = begin_owner(&child, pool, STOPS, true, false);
                assert_int_equal(put(map, 1), 0);
                assert_true(expiry_delete(pool, &retry));
                usleep(EXPIRED_USEC);
                for (unsigned i = 0; n_entries(map) > 0; i++) {
                        assert_true(i < 3);
                        assert_true(expiry_delete(pool, &retry));
                }
        }
        end_owner(&child, pid);
        assert_int_equal(tslab_reap(pool), 1);
        tslab_map_close(map);
        tslab_close(pool);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_exit_in_control),
                cmocka_unit_test(test_exit_in_control_close),
                cmocka_unit_test(test_exit_with_lock),
                cmocka_unit_test(test_dead_process),
                cmocka_unit_test(test_exec),
                cmocka_unit_test(test_gone_owner_bars_nobody),
                cmocka_unit_test(test_stopped_owner),
                cmocka_unit_test(test_puts_beside_stopped_owner),
                cmocka_unit_test(test_others_are_faster),
                cmocka_unit_test(test_over_after_a_look),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
