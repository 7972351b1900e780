/*
 * An epoch is closed while 16 threads of 4 processes are busy. On few cores most of them are preempted in the middle of
 * an operation. After that operation they keep no slot and no slab of the epoch, though they go on.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <signal.h>
#include <sys/wait.h>
#include <tslab.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/epoch/epoch.h"
#include "tests/util/ctl.h"
#include "tests/util/parent.h"
#include "tests/util/test.h"

#define N_PROCESSES 4
#define N_THREADS 4
#define N_BURST 40
#define N_ROUNDS 5
#define BUSY 2000U /* operations of each thread in an epoch, before it is closed */

typedef struct Shared {
        uint32_t epoch; /* where all allocate; with its era */
        uint32_t stop;
        uint32_t failed; /* a line */
        uint64_t n_ops[N_PROCESSES * N_THREADS];
} Shared;

typedef struct Thread {
        Shared *shared;
        struct tslab *pool;
        uint32_t number;
        pthread_t id;
} Thread;

/* Sizes of several classes; an epoch that is closed meanwhile is no fault. */
static int burst(Thread *t) {
        uint32_t epoch = shm_load_rlx(&t->shared->epoch);
        tslab_handle handles[N_BURST];
        int n = 0, r = 0;

        while (n < N_BURST && r == 0) {
                r = tslab_alloc(t->pool, 64 + 100 * (size_t) (n % 8), epoch, &handles[n], NULL);
                n += r == 0;
        }
        if (r != 0 && r != -ESHUTDOWN && r != -ESTALE)
                return __LINE__;
        while (n-- > 0)
                if (tslab_free(t->pool, handles[n]) != 0)
                        return __LINE__;
        return 0;
}

static void *work(void *userdata) {
        Thread *t = userdata;
        int line = 0;

        while (line == 0 && !shm_load_rlx(&t->shared->stop)) {
                line = burst(t);
                shm_add_rlx(&t->shared->n_ops[t->number], N_BURST);
        }
        if (line != 0)
                shm_store_rlx(&t->shared->failed, (uint32_t) line);
        return NULL;
}

static int run_process(Shared *shared, const char *socket, uint32_t process) {
        Thread threads[N_THREADS];
        struct tslab *pool;

        end_with_parent();
        if (tslab_open(&pool, socket, NULL) < 0)
                return 1;
        for (uint32_t i = 0; i < N_THREADS; i++) {
                threads[i] = (Thread){ .shared = shared, .pool = pool, .number = process * N_THREADS + i };
                if (pthread_create(&threads[i].id, NULL, work, &threads[i]) != 0)
                        return 2;
        }
        for (uint32_t i = 0; i < N_THREADS; i++)
                pthread_join(threads[i].id, NULL);
        tslab_close(pool);
        return 0;
}

/* Slots and slabs that records hold of the epoch. */
static uint64_t count_held(const ShmArena *arena, uint32_t id) {
        uint64_t n = 0;

        for (uint32_t record = 1; record < shm_arena_n_records_ever(arena); record++)
                for (uint32_t class = 0; class < arena->n_classes; class ++) {
                        const ShmCache *cache = shm_arena_cache(arena, record, id, class);

                        n += shm_load_rlx(&cache->count) + (shm_load_rlx(&cache->held) != 0);
                }
        return n;
}

static bool all_busy(const Shared *shared, const uint64_t *before) {
        for (int i = 0; i < N_PROCESSES * N_THREADS; i++)
                if (shm_load_rlx(&shared->n_ops[i]) < before[i] + BUSY)
                        return false;
        return true;
}

static void wait_busy(const Shared *shared) {
        uint64_t before[N_PROCESSES * N_THREADS];

        for (int i = 0; i < N_PROCESSES * N_THREADS; i++)
                before[i] = shm_load_rlx(&shared->n_ops[i]);
        WAIT_FOR(all_busy(shared, before) || shm_load_rlx(&shared->failed) != 0);
        assert_int_equal(shared->failed, 0);
}

/* They allocate in `next` from then on. */
static void close_under(const Shared *shared, const RawClient *eye, struct tslab *pool, uint32_t epoch) {
        uint32_t id = epoch & 0xff;
        ShmEpochInfo info;

        assert_int_equal(tslab_epoch_close(pool, epoch, 0), 0);
        WAIT_FOR(count_held(&eye->arena, id) == 0);
        WAIT_FOR(shm_epoch_get(&eye->arena, id, &info) == 0 && info.state == SHM_EPOCH_DRAINED);
        wait_busy(shared);
        assert_int_equal(count_held(&eye->arena, id), 0); /* nor do they come back */
}

static uint32_t reserve(struct tslab *pool) {
        uint32_t epoch;

        assert_int_equal(tslab_epoch_reserve(pool, "busy", &epoch), 0);
        return epoch;
}

static void test_close_busy(void **state) {
        Shared *shared =
                mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        uint32_t epoch, old;
        pid_t pids[N_PROCESSES];
        DaemonFixture daemon;
        struct tslab *pool;
        RawClient eye;
        int status;

        (void) state;
        assert_ptr_not_equal(shared, MAP_FAILED);
        daemon_start(&daemon, (const char *[]){ "--size=64M", "--retain=0", "--log-level=warning", NULL });
        for (uint32_t i = 0; i < N_PROCESSES; i++) {
                pids[i] = fork();
                assert_true(pids[i] >= 0);
                if (pids[i] == 0)
                        _exit(run_process(shared, daemon.socket, i));
        }
        assert_int_equal(tslab_open(&pool, daemon.socket, NULL), 0);
        raw_client_open(&eye, &daemon, 1);
        epoch = reserve(pool);
        for (int round = 0; round < N_ROUNDS; round++) {
                shm_store_rlx(&shared->epoch, epoch);
                wait_busy(shared);
                assert_true(count_held(&eye.arena, epoch & 0xff) > 0);
                old = epoch;
                epoch = reserve(pool);
                close_under(shared, &eye, pool, old);
        }
        shm_store_rlx(&shared->stop, 1);
        for (int i = 0; i < N_PROCESSES; i++) {
                assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
                assert_int_equal(status, 0);
        }
        assert_int_equal(shared->failed, 0);
        ctl_check(&daemon);
        assert_int_equal(ctl_stat(&daemon, "live_objects"), 0);
        raw_client_close(&eye);
        tslab_close(pool);
        daemon_stop(&daemon);
        munmap(shared, sizeof(*shared));
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_close_busy) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
