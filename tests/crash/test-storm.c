/*
 * Workers under load, killed and stopped at random moments, beside a real daemon that closes epochs and
 * checks. Whatever is published is noted in memory of the test: at the end those objects live, and no
 * others. `test-storm [seed]`; TSLAB_TEST_FULL=1: for a minute.
 */
#include <tslab.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/check.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/test.h"

#define N_WORKERS 6
#define N_KILLS 600
#define N_OBJECTS 400 /* of a worker */
#define QUICK_USEC (8 * UINT64_C(1000000))
#define FULL_USEC (60 * UINT64_C(1000000))

typedef struct Shared {
        volatile tslab_handle objects[N_WORKERS]
                                     [N_OBJECTS]; /* stale where their worker died, or freed, meanwhile */
        volatile uint64_t n_ops[N_WORKERS];
} Shared;

static Shared *shared;
static uint64_t seed;

static uint64_t mix(uint64_t x) {
        x += UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

/* Noted before it is published: one that is not noted is not live when its worker died. */
static void add(struct tslab *pool, volatile tslab_handle *place, uint64_t random) {
        tslab_handle handle;
        void *object;

        if (tslab_alloc_pending(pool, 1 + random % 768, TSLAB_EPOCH_CURRENT, &handle, &object) < 0)
                return; /* an epoch that is just closing, or no memory */
        memset(object, 0x5a, 1 + random % 768);
        *place = handle;
        (void) tslab_publish(pool, handle);
}

static void work(const DaemonFixture *daemon, unsigned worker, uint64_t random) {
        volatile tslab_handle *objects = shared->objects[worker];
        struct tslab *pool;

        setenv("TSLAB_CACHE", worker % 3 == 0 ? "adaptive" : "on", 1);
        if (tslab_open(&pool, daemon->socket, NULL) < 0)
                _exit(0); /* no record, until others are repaired */
        for (;;) {
                unsigned i = (unsigned) (random >> 20) % N_OBJECTS;

                random = mix(random);
                if (objects[i] == 0) {
                        add(pool, &objects[i], random);
                } else {
                        (void) tslab_free(pool, objects[i]);
                        objects[i] = 0;
                }
                shared->n_ops[worker]++;
        }
}

static pid_t start(const DaemonFixture *daemon, unsigned worker, uint64_t random) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                alarm(120);
                work(daemon, worker, random);
        }
        return pid;
}

static void end(pid_t pid) {
        (void) kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void expect_no_fault(const ShmArena *arena, bool at_rest) {
        ShmCheck check;

        assert_int_equal(shm_check(arena, &check), 0);
        if (check.lost_slots + check.doubled_slots == 0 &&
            (!at_rest || check.problems + check.unsettled_slots == 0))
                return;
        for (size_t i = 0; i < check.n_texts; i++)
                print_error("%s\n", check.texts[i]);
        print_error("seed %llu: %d lost, %d doubled, %d unsettled\n", (unsigned long long) seed,
                    (int) check.lost_slots, (int) check.doubled_slots, (int) check.unsettled_slots);
        fail();
}

static void close_revoke(ProtoCall *control, uint32_t epoch) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochClose body = TSLAB__EPOCH_CLOSE__INIT;

        body.epoch = epoch;
        body.revoke = true;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
        request.epoch_close = &body;
        reply = daemon_call(control, &request, NULL);
}

/* What an operator does meanwhile. */
static void operate(ProtoCall *control, const ShmArena *arena, uint64_t random) {
        switch (random % 5) {
        case 0:
                (void) daemon_advance(control);
                break;
        case 1: {
                _cleanup_(proto_reply_freep) ProtoReply *reply =
                        daemon_close(control, (shm_epoch_current(arena) + 12) % 16);
                break;
        }
        case 2:
                close_revoke(control, (shm_epoch_current(arena) + 10) % 16);
                break;
        case 3:
                (void) daemon_trim(control);
                break;
        default:
                expect_no_fault(arena, false);
        }
}

static unsigned storm(const DaemonFixture *daemon, ProtoCall *control, const ShmArena *arena, uint64_t usec) {
        uint64_t random = seed, deadline = proto_deadline(usec);
        pid_t pids[N_WORKERS];
        unsigned n = 0;

        for (unsigned i = 0; i < N_WORKERS; i++)
                pids[i] = start(daemon, i, random + i);
        while (proto_deadline_left(deadline) > 0) {
                unsigned worker = (unsigned) (random >> 8) % N_WORKERS;

                random = mix(random);
                usleep((useconds_t) (random >> 40) % 6000);
                if (random % 8 == 0)
                        kill(pids[worker], SIGSTOP);
                if (random % 8 == 1)
                        for (unsigned i = 0; i < N_WORKERS; i++)
                                kill(pids[i], SIGCONT);
                if (random % 8 > 1) {
                        end(pids[worker]);
                        pids[worker] = start(daemon, worker, random);
                        n++;
                }
                if (n % 25 == 24 && random % 8 > 1)
                        operate(control, arena, random >> 16);
        }
        for (unsigned i = 0; i < N_WORKERS; i++)
                end(pids[i]);
        return n;
}

static uint64_t count_published(const ShmArena *arena) {
        uint64_t n = 0;

        for (unsigned worker = 0; worker < N_WORKERS; worker++)
                for (unsigned i = 0; i < N_OBJECTS; i++)
                        n += shared->objects[worker][i] != 0 &&
                             shm_object_live(arena, shared->objects[worker][i]);
        return n;
}

static void test_storm(void **state) {
        const char *full = getenv("TSLAB_TEST_FULL");
        DaemonFixture daemon;
        RawClient reader;
        ProtoCall *control;
        uint64_t n_ops = 0;
        unsigned n_kills;

        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(shared, MAP_FAILED);
        daemon_start(&daemon, (const char *[]){ "--size=32M", "--threads=32", "--log-level=err", NULL });
        control = daemon_connect(&daemon, 0);
        raw_client_open(&reader, &daemon, PROTO_ROLE_READER);
        n_kills = storm(&daemon, control, &reader.arena, full ? FULL_USEC : QUICK_USEC);
        for (unsigned i = 0; i < N_WORKERS; i++)
                n_ops += shared->n_ops[i];
        WAIT_FOR(daemon_n_clients(control) == 1);
        expect_no_fault(&reader.arena, true);
        {
                _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_stats(control);

                printf("seed %llu: %u kills, %llu operations, %llu objects live\n", (unsigned long long) seed,
                       n_kills, (unsigned long long) n_ops, (unsigned long long) reply->stats->live_objects);
                assert_int_equal(reply->stats->live_objects, count_published(&reader.arena));
                assert_int_equal(reply->stats->cached_objects, 0);
        }
        assert_true(n_kills > 0); /* how many there is time for, the machine decides */
        raw_client_close(&reader);
        proto_call_free(control);
        daemon_stop(&daemon);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_storm),
        };

        seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t) time(NULL);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
