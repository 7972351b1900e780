/* The daemon is killed over and over, and clients with it, while others allocate, free and have epochs closed. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tslab.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/check.h"
#include "tests/util/ctl.h"
#include "tests/util/role.h"
#include "tests/util/seed.h"
#include "tests/util/test.h"

#define N_WORKERS 3 /* the first one lives */
#define N_KILLS 20
#define N_KILLS_FULL 400
#define N_HELD 256U
#define N_EPOCHS 6

/* ---- in a worker */

typedef struct Held {
        uint64_t handle;
        size_t size;
} Held;

/* What may come of a request when the daemon dies, or another was faster. */
static bool is_lawful(int r) {
        return r == 0 || r == -ENOTCONN || r == -ECONNRESET || r == -ETIMEDOUT || r == -ESTALE;
}

static int change_epochs(struct tslab *pool, uint64_t random) {
        uint32_t old, epoch;
        int r;

        (void) tslab_epoch_current(pool, &old);
        r = tslab_epoch_advance(pool, &epoch);
        if (r == 0)
                r = tslab_epoch_close(pool, old, random % 4 == 0 ? TSLAB_CLOSE_REVOKE : 0);
        return is_lawful(r) ? 0 : r;
}

/* Another may have revoked it. */
static int drop(struct tslab *pool, Held *held, uint64_t owner) {
        void *object;
        int r;

        if (held->handle == 0)
                return 0;
        r = tslab_get(pool, held->handle, &object, NULL);
        if (r == 0 && !pattern_check(object, held->size, owner))
                /* Revoked just now, it may be somebody else's: then the handle is stale. */
                r = tslab_get(pool, held->handle, &object, NULL) == 0 ? -EILSEQ : -ESTALE;
        if (r == 0)
                r = tslab_free(pool, held->handle);
        held->handle = 0;
        return r == -ESTALE ? 0 : r;
}

static int take(struct tslab *pool, Held *held, uint64_t random, uint64_t owner) {
        void *object;
        int r;

        held->size = 16 + random % 753;
        r = tslab_alloc(pool, held->size, TSLAB_EPOCH_CURRENT, &held->handle, &object);
        if (r == 0)
                pattern_fill(object, held->size, owner, held->handle);
        else
                held->handle = 0;
        return r == -ESHUTDOWN || r == -ENOMEM ? 0 : r;
}

static bool is_told_to_end(void) {
        struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };

        return poll(&p, 1, 0) > 0;
}

static int churn(struct tslab *pool, uint64_t owner) {
        uint64_t seed = owner * UINT64_C(0x9e3779b97f4a7c15);
        static Held held[N_HELD];
        int r = 0;

        for (uint64_t i = 0; r == 0 && (i % 64 != 0 || !is_told_to_end()); i++) {
                uint64_t random = seed_next(&seed);
                Held *h = &held[random % N_HELD];

                r = drop(pool, h, owner);
                if (r == 0 && (random >> 32) % 3 != 0)
                        r = take(pool, h, random >> 34, owner);
                if (r == 0 && i % 2000 == 1999)
                        r = change_epochs(pool, random >> 40);
        }
        for (uint32_t i = 0; r == 0 && i < N_HELD; i++)
                r = drop(pool, &held[i], owner);
        return r;
}

static int worker(const char *socket, const char *owner) {
        struct tslab *pool;
        int r;

        if (tslab_open(&pool, socket, NULL) < 0)
                return 1;
        r = 0;
        role_write(&r, sizeof(r));
        r = churn(pool, strtoull(owner, NULL, 10));
        if (r < 0)
                fprintf(stderr, "worker %s: %s\n", owner, strerror(-r));
        (void) tslab_close(pool);
        return r < 0;
}

/* ---- in the test */

typedef struct Fixture {
        DaemonFixture daemon;
        Role workers[N_WORKERS];
        RawClient self;
        uint64_t seed, n_started;
        unsigned n_killed;
} Fixture;

static void start_worker(Fixture *f, unsigned i) {
        char owner[24];
        int r;

        snprintf(owner, sizeof(owner), "%d", (int) ++f->n_started);
        role_start(&f->workers[i], "worker", f->daemon.socket, owner);
        role_hear(&f->workers[i], &r, sizeof(r));
}

static void kill_worker(Fixture *f, unsigned i) {
        assert_int_equal(kill(f->workers[i].pid, SIGKILL), 0);
        assert_int_equal(role_wait(&f->workers[i]), -SIGKILL);
        f->n_killed++;
}

/* Nothing is lost, nothing doubled, though all go on. */
static void check_busy(const Fixture *f) {
        ShmCheck c;

        assert_int_equal(shm_check(&f->self.arena, &c), 0);
        for (size_t i = 0; i < c.n_texts; i++)
                print_error("%s\n", c.texts[i]);
        assert_int_equal(c.lost_slots + c.doubled_slots, 0);
}

static void kill_and_adopt(Fixture *f) {
        unsigned victim = 1 + seed_below(&f->seed, N_WORKERS - 1), when = seed_below(&f->seed, 4);
        char from[32];

        usleep(1000 + seed_below(&f->seed, 60000));
        if (when == 1)
                kill_worker(f, victim);
        daemon_kill(&f->daemon);
        if (when == 2)
                kill_worker(f, victim);
        snprintf(from, sizeof(from), "--adopt=%d", (int) f->workers[0].pid);
        daemon_restart(&f->daemon,
                       (const char *[]){ "--size=16M", "--epochs=6", "--log-level=err", from, NULL });
        if (when == 1 || when == 2)
                start_worker(f, victim);
        check_busy(f);
}

static void revoke_all(const Fixture *f) {
        char id[8];

        for (unsigned i = 0; i < N_EPOCHS; i++) {
                snprintf(id, sizeof(id), "%u", i);
                assert_int_equal(ctl_run(&f->daemon, NULL, "epoch", "close", "--revoke", id), 0);
        }
}

static void test_kills(void **state) {
        static Fixture f;
        int n = seed_full() ? N_KILLS_FULL : N_KILLS;

        f.seed = seed_get();
        daemon_start(&f.daemon, (const char *[]){ "--size=16M", "--epochs=6", "--log-level=err", NULL });
        raw_client_open(&f.self, &f.daemon, 0);
        for (unsigned i = 0; i < N_WORKERS; i++)
                start_worker(&f, i);
        for (int i = 0; i < n; i++)
                kill_and_adopt(&f);
        for (unsigned i = 0; i < N_WORKERS; i++)
                assert_int_equal(role_wait(&f.workers[i]), 0);
        WAIT_FOR(ctl_stat(&f.daemon, "clients") == 1);
        ctl_check(&f.daemon);
        revoke_all(&f);
        assert_int_equal(ctl_stat(&f.daemon, "live_objects"), 0);
        for (unsigned i = 0; i < N_EPOCHS; i++) {
                char id[8];

                snprintf(id, sizeof(id), "%u", i);
                WAIT_FOR(ctl_stat(&f.daemon, "epochs", id, "slabs") == 0);
        }
        ctl_check(&f.daemon);
        print_message("%d daemons and %u clients were killed\n", n, f.n_killed);
        raw_client_close(&f.self);
        daemon_stop(&f.daemon);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kills),
        };

        if (argc == 4)
                return worker(argv[2], argv[3]);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
