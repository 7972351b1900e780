/*
 * Eight workers in bursts, and one that gives back all slots that threads hold in advance, over and over, and
 * trims free memory: no worker loses an object, and nothing is left over.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <tslab.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/arch/atomic.h"
#include "tests/util/ctl.h"
#include "tests/util/parent.h"
#include "tests/util/seed.h"
#include "tests/util/test.h"

#define N_WORKERS 8
#define N_BURST 3000U

typedef struct Shared {
        uint64_t seed;
        uint32_t stop;
        uint64_t n_bursts, n_drains;
} Shared;

static uint8_t pattern(tslab_handle handle, uint64_t owner) {
        return (uint8_t) (handle ^ handle >> 17 ^ handle >> 33 ^ owner);
}

/* All of them filled, then all of them looked at and freed, in another order. */
static int burst(struct tslab *pool, uint64_t *random, uint64_t owner, tslab_handle *handles) {
        uint32_t n = 1 + seed_below(random, N_BURST), first = seed_below(random, n);
        size_t size = 32 + seed_below(random, 700), found;
        uint8_t *object;

        for (uint32_t i = 0; i < n; i++) {
                if (tslab_alloc(pool, size, TSLAB_EPOCH_CURRENT, &handles[i], (void **) &object) != 0)
                        return __LINE__;
                memset(object, pattern(handles[i], owner), size);
        }
        for (uint32_t i = 0; i < n; i++) {
                tslab_handle handle = handles[(first + i) % n];

                if (tslab_get(pool, handle, (void **) &object, &found) != 0 || found < size)
                        return __LINE__;
                for (size_t k = 0; k < size; k++)
                        if (object[k] != pattern(handle, owner))
                                return __LINE__;
                if (tslab_free(pool, handle) != 0)
                        return __LINE__;
        }
        return 0;
}

static int work(Shared *shared, const char *socket, uint64_t owner) {
        static tslab_handle handles[N_BURST];
        uint64_t random = shared->seed + owner;
        struct tslab *pool;
        int line = 0;

        end_with_parent();
        if (tslab_open(&pool, socket, NULL) < 0)
                return 1;
        while (line == 0 && !shm_load_rlx(&shared->stop)) {
                line = burst(pool, &random, owner, handles);
                shm_add_rlx(&shared->n_bursts, 1);
        }
        if (line != 0)
                fprintf(stderr, "worker %llu: line %d\n", (unsigned long long) owner, line);
        tslab_close(pool);
        return line != 0;
}

static void drain_until(Shared *shared, const DaemonFixture *daemon, struct tslab *pool, uint64_t deadline) {
        ProtoCall *call = daemon_connect(daemon, 3);

        while (proto_deadline_left(deadline) > 0) {
                assert_int_equal(tslab_drain(pool), 0);
                if (++shared->n_drains % 16 == 0)
                        (void) daemon_trim(call);
        }
        proto_call_free(call);
}

static void test_drain(void **state) {
        Shared *shared =
                mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pid_t pids[N_WORKERS];
        DaemonFixture daemon;
        struct tslab *pool;
        int status;

        (void) state;
        assert_ptr_not_equal(shared, MAP_FAILED);
        shared->seed = seed_get();
        daemon_start(&daemon, (const char *[]){ "--size=256M", "--retain=4M", "--log-level=warning", NULL });
        for (uint64_t i = 0; i < N_WORKERS; i++) {
                pids[i] = fork();
                assert_true(pids[i] >= 0);
                if (pids[i] == 0)
                        _exit(work(shared, daemon.socket, i + 1));
        }
        assert_int_equal(tslab_open(&pool, daemon.socket, NULL), 0);
        drain_until(shared, &daemon, pool, proto_deadline((seed_full() ? 60 : 3) * PROTO_USEC_PER_SEC));
        shm_store_rlx(&shared->stop, 1);
        for (int i = 0; i < N_WORKERS; i++) {
                assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
                assert_int_equal(status, 0);
        }
        printf("%llu bursts, drained %llu times\n", (unsigned long long) shared->n_bursts,
               (unsigned long long) shared->n_drains);
        assert_true(shared->n_bursts >= N_WORKERS && shared->n_drains > 0);
        assert_int_equal(ctl_stat(&daemon, "live_objects"), 0);
        ctl_check(&daemon);
        tslab_close(pool);
        daemon_stop(&daemon);
        munmap(shared, sizeof(*shared));
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_drain) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
