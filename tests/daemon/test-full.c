/* A full arena: an error and nothing else, and all of it can be had again in any class. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tslab.h>
#include <unistd.h>

#include "shm/arena/geometry.h"
#include "tests/util/ctl.h"
#include "tests/util/role.h"
#include "tests/util/seed.h"
#include "tests/util/test.h"

#define N_SLABS 2048U
#define SLAB_SIZE 4096U
/* Processor time: the daemon gets as much, and may have a slab in its hands. */
#define PERSIST_MSEC 200
#define N_PROCESSES 4

static const uint32_t classes[] = SHM_CLASSES_DEFAULT;
#define N_CLASSES (sizeof(classes) / sizeof(classes[0]))

typedef enum Op { FILL, VERIFY, FREE } Op;

typedef struct Request {
        Op op;
        uint32_t size;
} Request;

/* ---- in a worker */

typedef struct Worker {
        struct tslab *pool;
        uint32_t size;
        uint64_t n, owner;
        tslab_handle handles[N_SLABS * 64 + 1];
} Worker;

static uint64_t now_msec(void) {
        struct timespec now;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

/* Allocates until there has been no memory for a while, writes every byte; returns the last error. */
static int64_t fill(Worker *w, uint32_t size) {
        uint64_t last = now_msec();
        void *object;
        int r = 0;

        w->size = size;
        while (r == 0 || (r == -ENOMEM && now_msec() - last < PERSIST_MSEC)) {
                if (w->n > N_SLABS * 64)
                        return -EOVERFLOW;
                r = tslab_alloc(w->pool, size, TSLAB_EPOCH_CURRENT, &w->handles[w->n], &object);
                if (r < 0)
                        continue;
                pattern_fill(object, size, w->owner, w->n++);
                last = now_msec();
        }
        return r;
}

static int64_t verify(const Worker *w) {
        void *object;

        for (uint64_t i = 0; i < w->n; i++)
                if (tslab_get(w->pool, w->handles[i], &object, NULL) < 0 ||
                    !pattern_check(object, w->size, w->owner))
                        return -EILSEQ;
        return 0;
}

static int64_t free_all(Worker *w) {
        for (; w->n > 0; w->n--)
                if (tslab_free(w->pool, w->handles[w->n - 1]) < 0)
                        return -ESTALE;
        return 0;
}

static int worker(const char *socket) {
        Worker *w = calloc(1, sizeof(*w));
        Request q;

        if (!w || tslab_open(&w->pool, socket, NULL) < 0)
                return 1;
        w->owner = (uint64_t) getpid();
        while (role_read(&q, sizeof(q))) {
                int64_t r = q.op == FILL ? fill(w, q.size) : q.op == VERIFY ? verify(w) : free_all(w);

                role_write(&r, sizeof(r));
                role_write(&w->n, sizeof(w->n));
        }
        tslab_close(w->pool);
        free(w);
        return 0;
}

/* ---- in the test */

static int setup(void **state) {
        static DaemonFixture daemon;

        daemon_start(&daemon, (const char *[]){ "--size=8M", "--log-level=err", NULL });
        *state = &daemon;
        return 0;
}

static int teardown(void **state) {
        daemon_stop(*state);
        return 0;
}

static void tell(Role *worker, Op op, uint32_t size) {
        Request q = { .op = op, .size = size };

        role_tell(worker, &q, sizeof(q));
}

/* How many objects it has now. */
static uint64_t hear(Role *worker, int64_t expected) {
        uint64_t n;
        int64_t r;

        role_hear(worker, &r, sizeof(r));
        role_hear(worker, &n, sizeof(n));
        assert_int_equal(r, expected);
        return n;
}

static void fill_and_free(const DaemonFixture *daemon, Role *worker, uint32_t size) {
        uint64_t n_all = (uint64_t) N_SLABS * (SLAB_SIZE / size < 64 ? SLAB_SIZE / size : 64);

        tell(worker, FILL, size);
        assert_int_equal(hear(worker, -ENOMEM), n_all);
        assert_int_equal(ctl_stat(daemon, "live_objects"), n_all);
        assert_int_equal(ctl_stat(daemon, "committed_bytes"), N_SLABS * SLAB_SIZE);
        ctl_check(daemon);
        tell(worker, VERIFY, 0);
        hear(worker, 0);
        tell(worker, FREE, 0);
        assert_int_equal(hear(worker, 0), 0);
        assert_int_equal(ctl_stat(daemon, "live_objects"), 0);
        ctl_check(daemon);
}

/* From each class to each other one; in a hurry, to one of them. */
static void test_full_any_class_after_any(void **state) {
        uint64_t seed = seed_get();
        size_t step = 1 + seed_below(&seed, N_CLASSES / 2 - 1) * 2;
        Role p;

        role_start(&p, "worker", ((DaemonFixture *) *state)->socket);
        for (size_t i = 0; i < N_CLASSES; i++) {
                fill_and_free(*state, &p, classes[i * step % N_CLASSES]);
                for (size_t j = 0; j < i && seed_full(); j++) {
                        fill_and_free(*state, &p, classes[j]);
                        fill_and_free(*state, &p, classes[i]);
                }
        }
        assert_int_equal(role_wait(&p), 0);
}

static void test_full_failures_are_counted(void **state) {
        uint64_t before = ctl_stat(*state, "counters", "failures");
        Role p;

        role_start(&p, "worker", ((DaemonFixture *) *state)->socket);
        fill_and_free(*state, &p, 768);
        assert_true(ctl_stat(*state, "counters", "failures") > before);
        assert_int_equal(role_wait(&p), 0);
}

/* Several at once, each with a class of its own; when none gets any more, no slab is free. */
static void test_full_processes_at_once(void **state) {
        Role p[N_PROCESSES];
        uint64_t n[N_PROCESSES], n_all = 0, seed = seed_get();

        for (size_t i = 0; i < N_PROCESSES; i++)
                role_start(&p[i], "worker", ((DaemonFixture *) *state)->socket);
        for (unsigned round = 0; round < (seed_full() ? 20 : 3); round++) {
                n_all = 0;
                for (size_t i = 0; i < N_PROCESSES; i++)
                        tell(&p[i], FILL, classes[seed_below(&seed, N_CLASSES)]);
                for (size_t i = 0; i < N_PROCESSES; i++)
                        n_all += n[i] = hear(&p[i], -ENOMEM);
                assert_int_equal(ctl_stat(*state, "live_objects"), n_all);
                assert_int_equal(ctl_stat(*state, "retained_bytes"), 0);
                assert_int_equal(ctl_stat(*state, "committed_bytes"), N_SLABS * SLAB_SIZE);
                ctl_check(*state);
                for (size_t i = 0; i < N_PROCESSES; i++)
                        tell(&p[i], VERIFY, 0);
                for (size_t i = 0; i < N_PROCESSES; i++)
                        assert_int_equal(hear(&p[i], 0), n[i]);
                for (size_t i = 0; i < N_PROCESSES; i++)
                        tell(&p[i], FREE, 0);
                for (size_t i = 0; i < N_PROCESSES; i++)
                        hear(&p[i], 0);
                fill_and_free(*state, &p[0], classes[seed_below(&seed, N_CLASSES)]);
        }
        for (size_t i = 0; i < N_PROCESSES; i++)
                assert_int_equal(role_wait(&p[i]), 0);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_full_any_class_after_any),
                cmocka_unit_test(test_full_failures_are_counted),
                cmocka_unit_test(test_full_processes_at_once),
        };

        if (argc == 3)
                return worker(argv[2]);
        return cmocka_run_group_tests(tests, setup, teardown);
}
