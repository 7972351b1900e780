/*
 * The daemon is killed over and over, and clients with it, while others allocate, free and have epochs closed.
 *
 * Each worker has objects in two places. Some are in epochs of the rotation, which all workers close and nobody
 * revokes: each of these objects stays, byte for byte, until it is freed. The worker that replaces a dead one goes on
 * with the dead worker's objects. Other objects are in an epoch that the worker leases, and which it alone uses and
 * revokes: so nobody holds a pointer to a revoked object.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tslab.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/epoch/epoch.h"
#include "shm/maintain/check.h"
#include "tests/util/ctl.h"
#include "tests/util/role.h"
#include "tests/util/seed.h"
#include "tests/util/test.h"

#define N_WORKERS 3 /* the first one lives */
#define N_KILLS 20
#define N_KILLS_FULL 400
#define N_HELD 128U /* in each of the two places */
#define N_EPOCHS 8

typedef struct Held {
        volatile uint64_t handle; /* 0: nothing */
        size_t size;
} Held;

/* The notes of one worker and of its successors, in a file: it outlives them. */
typedef struct Place {
        Held held[N_HELD]; /* noted when they have their bytes */
        volatile uint32_t leaving; /* 1 + which of them is being freed, and may be stale */
        volatile uint64_t n_closed, n_revoked;
} Place;

/* ---- in a worker */

typedef struct Worker {
        struct tslab *pool;
        Place *place;
        char label[24]; /* its leases' */
        uint32_t lease; /* 0: none */
        bool ending; /* it was asked to be revoked, which may come about at any time */
        Held held[N_HELD]; /* in the lease */
} Worker;

/* The possible outcomes of a request when the daemon dies, another was faster, or all ids are leased. */
static bool is_lawful(int r) {
        return r == 0 || r == -ENOTCONN || r == -ECONNRESET || r == -ETIMEDOUT || r == -ESTALE ||
               r == -ENOSPC;
}

static int change_shared(Worker *w) {
        uint32_t old;
        int r;

        (void) tslab_epoch_current(w->pool, &old);
        r = tslab_epoch_advance(w->pool, NULL);
        if (r == 0)
                r = tslab_epoch_close(w->pool, old, 0);
        w->place->n_closed += r == 0;
        return is_lawful(r) ? 0 : r;
}

/* One may have been leased though the answer was lost. Those under this label are in no other use. */
static bool find_lease(Worker *w) {
        for (uint32_t id = 0; id < N_EPOCHS; id++) {
                struct tslab_epoch_info info = { .size = sizeof(info) };

                if (tslab_epoch_info(w->pool, id, &info) == 0 && info.state == TSLAB_EPOCH_OPEN &&
                    info.reserved && strcmp(info.label, w->label) == 0) {
                        w->lease = info.epoch;
                        return true;
                }
        }
        return false;
}

static int begin_lease(Worker *w) {
        int r;

        w->ending = false;
        if (find_lease(w))
                return 0;
        r = tslab_epoch_lease(w->pool, w->label, &w->lease);
        if (r < 0)
                w->lease = 0;
        return is_lawful(r) ? 0 : r;
}

/*
 * Again, till it is known to be done: nothing of it is looked at any more from the first time on. -EBUSY: two workers
 * lost the answers to their revocations and ask again, after the id that both had leased went round.
 */
static int end_lease(Worker *w) {
        int r;

        w->ending = true;
        r = tslab_epoch_close(w->pool, w->lease, TSLAB_CLOSE_REVOKE);
        if (r != 0 && r != -ESTALE)
                return r == -EBUSY || is_lawful(r) ? 0 : r;
        for (uint32_t i = 0; i < N_HELD; i++) {
                if (w->held[i].handle != 0 &&
                    tslab_get(w->pool, w->held[i].handle, &(void *){ NULL }, NULL) == 0)
                        return -EEXIST;
                w->held[i].handle = 0;
        }
        w->lease = 0;
        w->place->n_revoked++;
        return 0;
}

static int change_lease(Worker *w) {
        int r = 0;

        if (w->lease != 0)
                r = end_lease(w);
        return r == 0 && w->lease == 0 ? begin_lease(w) : r;
}

static int drop(Worker *w, Held *held) {
        void *object;
        int r;

        if (held->handle == 0)
                return 0;
        r = tslab_get(w->pool, held->handle, &object, NULL);
        if (r == 0 && !pattern_check(object, held->size, held->handle))
                r = -EILSEQ;
        if (r == 0)
                r = tslab_free(w->pool, held->handle);
        held->handle = 0;
        return r;
}

static int drop_shared(Worker *w, uint32_t i) {
        int r;

        w->place->leaving = i + 1;
        r = drop(w, &w->place->held[i]);
        w->place->leaving = 0;
        return r;
}

static int take(Worker *w, Held *held, uint32_t epoch, uint64_t random) {
        size_t size = 16 + random % 753;
        uint64_t handle;
        void *object;
        int r;

        r = tslab_alloc(w->pool, size, epoch, &handle, &object);
        if (r == 0) {
                pattern_fill(object, size, handle, random);
                held->size = size;
                held->handle = handle;
        }
        return r == -ENOMEM || (r == -ESHUTDOWN && epoch == TSLAB_EPOCH_CURRENT) ? 0 : r;
}

static int use_one(Worker *w, uint64_t random) {
        bool shared = random >> 63 || w->lease == 0 || w->ending;
        uint32_t i = random % N_HELD;
        Held *held = shared ? &w->place->held[i] : &w->held[i];
        int r;

        r = shared ? drop_shared(w, i) : drop(w, held);
        if (r == 0 && (random >> 32) % 3 != 0)
                r = take(w, held, shared ? TSLAB_EPOCH_CURRENT : w->lease, random >> 34);
        return r;
}

static bool is_told_to_end(void) {
        struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };

        return poll(&p, 1, 0) > 0;
}

static int churn(Worker *w, uint64_t seed) {
        int r = 0;

        for (uint64_t i = 0; r == 0 && (i % 64 != 0 || !is_told_to_end()); i++) {
                uint64_t random = seed_next(&seed);

                r = use_one(w, random);
                if (r == 0 && i % 2000 == 0)
                        r = random >> 40 & 1 ? change_shared(w) : change_lease(w);
        }
        for (uint32_t i = 0; r == 0 && i < N_HELD; i++) {
                r = drop_shared(w, i);
                if (r == 0 && !w->ending)
                        r = drop(w, &w->held[i]);
        }
        return r;
}

/* The worker before may have freed the object that it was about to free. */
static int inherit(Worker *w) {
        int r = 0;

        if (w->place->leaving != 0)
                r = drop_shared(w, w->place->leaving - 1);
        return r == -ESTALE ? 0 : r;
}

static Place *map_place(const char *path) {
        int fd = open(path, O_RDWR | O_CLOEXEC);
        Place *place = mmap(NULL, sizeof(*place), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        close(fd);
        return place;
}

static int worker(const char *socket, const char *path, const char *number) {
        static Worker w;
        int r;

        w.place = map_place(path);
        snprintf(w.label, sizeof(w.label), "worker %s", number);
        if (w.place == MAP_FAILED || tslab_open(&w.pool, socket, NULL) < 0)
                return 1;
        r = 0;
        role_write(&r, sizeof(r));
        r = inherit(&w);
        if (r == 0)
                r = churn(&w, strtoull(number, NULL, 10) * UINT64_C(0x9e3779b97f4a7c15));
        if (r < 0)
                fprintf(stderr, "%s: %s\n", w.label, strerror(-r));
        (void) tslab_close(w.pool);
        return r < 0;
}

/* ---- in the test */

typedef struct Fixture {
        DaemonFixture daemon;
        Role workers[N_WORKERS];
        RawClient self;
        Place *places[N_WORKERS];
        uint64_t seed;
        unsigned n_started, n_killed;
} Fixture;

static void path_of(const Fixture *f, unsigned i, char *ret, size_t size) {
        snprintf(ret, size, "%s/place-%u", f->daemon.dir, i);
}

static void make_place(Fixture *f, unsigned i) {
        char path[96];
        int fd;

        path_of(f, i, path, sizeof(path));
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, sizeof(Place)), 0);
        close(fd);
        f->places[i] = map_place(path);
        assert_ptr_not_equal(f->places[i], MAP_FAILED);
}

static void start_worker(Fixture *f, unsigned i) {
        char path[96], number[24];
        int r;

        path_of(f, i, path, sizeof(path));
        snprintf(number, sizeof(number), "%u", ++f->n_started);
        role_start(&f->workers[i], "worker", f->daemon.socket, path, number);
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
                       (const char *[]){ "--size=16M", "--epochs=8", "--log-level=err", from, NULL });
        if (when == 1 || when == 2)
                start_worker(f, victim);
        check_busy(f);
}

/* Revokes the epoch in all eras. */
static void revoke_all(const Fixture *f) {
        _cleanup_(proto_call_freep) ProtoCall *call = daemon_connect(&f->daemon, 0);

        for (unsigned i = 0; i < N_EPOCHS; i++) {
                _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
                ProtoRequest request = PROTO_REQUEST_INIT;
                Tslab__EpochClose body = TSLAB__EPOCH_CLOSE__INIT;

                body.epoch = i;
                body.revoke = body.older = true;
                request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
                request.epoch_close = &body;
                reply = daemon_call(call, &request, NULL);
        }
}

/* No revocation stays begun: it would refuse others of its id for ever. */
static void check_revoked(const Fixture *f) {
        for (uint32_t i = 0; i < N_EPOCHS; i++) {
                ShmRevoking revoking;

                WAIT_FOR(!shm_epoch_revoking(&f->self.arena, i, &revoking));
        }
}

static void report(const Fixture *f, int n_daemons) {
        unsigned long long n_closed = 0, n_revoked = 0;

        for (unsigned i = 0; i < N_WORKERS; i++) {
                n_closed += f->places[i]->n_closed;
                n_revoked += f->places[i]->n_revoked;
        }
        print_message("%d daemons and %u clients were killed, %llu epochs closed and %llu revoked\n",
                      n_daemons, f->n_killed, n_closed, n_revoked);
}

static void test_kills(void **state) {
        static Fixture f;
        int n = seed_full() ? N_KILLS_FULL : N_KILLS;

        f.seed = seed_get();
        daemon_start(&f.daemon, (const char *[]){ "--size=16M", "--epochs=8", "--log-level=err", NULL });
        raw_client_open(&f.self, &f.daemon, 0);
        for (unsigned i = 0; i < N_WORKERS; i++) {
                make_place(&f, i);
                start_worker(&f, i);
        }
        for (int i = 0; i < n; i++)
                kill_and_adopt(&f);
        for (unsigned i = 0; i < N_WORKERS; i++)
                assert_int_equal(role_wait(&f.workers[i]), 0);
        WAIT_FOR(ctl_stat(&f.daemon, "clients") == 1);
        ctl_check(&f.daemon);
        check_revoked(&f);
        revoke_all(&f);
        assert_int_equal(ctl_stat(&f.daemon, "live_objects"), 0);
        for (unsigned i = 0; i < N_EPOCHS; i++) {
                char id[8];

                snprintf(id, sizeof(id), "%u", i);
                WAIT_FOR(ctl_stat(&f.daemon, "epochs", id, "slabs") == 0);
        }
        ctl_check(&f.daemon);
        report(&f, n);
        raw_client_close(&f.self);
        daemon_stop(&f.daemon);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kills),
        };

        if (argc == 5)
                return worker(argv[2], argv[3], argv[4]);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
