/* Eight processes with four threads each on a daemon's pool; see churn.h. Afterwards nothing is lost. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "tests/stress/churn.h"
#include "tests/util/ctl.h"
#include "tests/util/parent.h"
#include "tests/util/seed.h"
#include "tests/util/test.h"

#define N_PROCESSES 8U
#define N_THREADS 4U
#define N_ROUNDS 20000U /* in a thread's life: then another one begins */

typedef struct Thread {
        Churn *churn;
        struct tslab *pool;
        uint64_t owner;
} Thread;

static void *run_thread(void *userdata) {
        Thread *thread = userdata;

        churn_run(thread->churn, thread->pool, thread->owner, N_ROUNDS);
        return NULL;
}

/* Threads come and go. */
static void run_threads(Churn *churn, struct tslab *pool, uint64_t owner) {
        Thread threads[N_THREADS];
        pthread_t ids[N_THREADS];

        for (uint64_t generation = 0; generation == 0 || !churn_stopped(churn); generation++) {
                for (uint64_t i = 0; i < N_THREADS; i++) {
                        threads[i] = (Thread){ churn, pool, owner << 8 | i | generation << 16 };
                        if (pthread_create(&ids[i], NULL, run_thread, &threads[i]) != 0)
                                abort();
                }
                for (uint64_t i = 0; i < N_THREADS; i++)
                        pthread_join(ids[i], NULL);
        }
}

/* Nothing is open in the parent that could be inherited. */
static int run_process(Churn *churn, const char *socket, uint64_t owner) {
        struct tslab *pool;
        int r;

        end_with_parent();
        r = tslab_open(&pool, socket, NULL);
        if (r < 0) {
                fprintf(stderr, "process %llu: open: %s\n", (unsigned long long) owner, strerror(-r));
                return 1;
        }
        run_threads(churn, pool, owner);
        tslab_close(pool);
        return 0;
}

static void churn(const char *size) {
        Churn *churn = mmap(NULL, sizeof(*churn), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pid_t pids[N_PROCESSES];
        DaemonFixture daemon;
        struct tslab *pool;
        int status;

        assert_ptr_not_equal(churn, MAP_FAILED);
        churn->seed = seed_get();
        daemon_start(&daemon, (const char *[]){ size, "--epochs=8", "--log-level=warning", NULL });
        for (uint64_t i = 0; i < N_PROCESSES; i++) {
                pids[i] = fork();
                assert_true(pids[i] >= 0);
                if (pids[i] == 0)
                        _exit(run_process(churn, daemon.socket, i + 1));
        }
        assert_int_equal(tslab_open(&pool, daemon.socket, NULL), 0);
        churn_epochs(churn, pool, churn_now_msec() + (seed_full() ? 30000 : 2500));
        for (size_t i = 0; i < N_PROCESSES; i++) {
                assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
                assert_int_equal(status, 0);
        }

        churn_print(churn);
        assert_int_equal(churn->failed, 0);
        ctl_check(&daemon);
        assert_int_equal(ctl_stat(&daemon, "live_objects"), churn->n_allocs - churn->n_frees);
        churn_clear(churn, pool);
        assert_int_equal(churn->failed, 0);
        assert_int_equal(churn->n_allocs, churn->n_frees);
        assert_int_equal(ctl_stat(&daemon, "live_objects"), 0);
        ctl_check(&daemon);
        assert_true(churn->n_handed > 0);
        assert_true(churn->n_refused > 0);
        pool = tslab_close(pool);
        WAIT_FOR(ctl_stat(&daemon, "clients") == 0);
        assert_int_equal(ctl_stat(&daemon, "threads"), 0);
        daemon_stop(&daemon);
        munmap(churn, sizeof(*churn));
}

static void test_churn_with_room(void **state) {
        churn("--size=256M");
}

/* Where all collide, and memory is short. */
static void test_churn_in_a_small_arena(void **state) {
        churn("--size=2M");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_churn_with_room),
                cmocka_unit_test(test_churn_in_a_small_arena),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
