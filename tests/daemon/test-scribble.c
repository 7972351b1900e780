/*
 * A client that writes over the arena ruins the pool, and nothing else: the daemon goes on answering.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/slab/slab.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/parent.h"
#include "tests/util/test.h"

#define N_ROUNDS 12
#define N_REGIONS 7

static uint64_t random_state;

static uint64_t next_random(void) {
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        return random_state;
}

/* Words of one kind or another over [at, at + size). */
static void scribble(void *at, size_t size, unsigned how) {
        uint64_t *words = at;

        for (size_t i = 0; i < size / 8; i++)
                switch (how % 4) {
                case 0:
                        words[i] = next_random();
                        break;
                case 1:
                        words[i] = UINT64_MAX;
                        break;
                case 2:
                        words[i] ^= UINT64_C(1) << next_random() % 64;
                        break;
                default:
                        if (next_random() % 4 == 0)
                                words[i] = next_random() & next_random() & next_random();
                }
}

/* Any answer will do; but there must be one. */
static void ask(ProtoCall *call, ProtoRequest *request) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        int r = proto_call(call, request, DAEMON_TIMEOUT_USEC, NULL, NULL, &reply, NULL);

        if (r != 0 && r != PROTO_E_REFUSED)
                print_error("request %u: %d\n", request->body_case, r);
        assert_true(r == 0 || r == PROTO_E_REFUSED);
}

static void ask_all(ProtoCall *call) {
        Tslab__EpochList list = TSLAB__EPOCH_LIST__INIT;
        Tslab__EpochAdvance advance = TSLAB__EPOCH_ADVANCE__INIT;
        Tslab__EpochClose close = TSLAB__EPOCH_CLOSE__INIT;
        Tslab__EpochReserve reserve = TSLAB__EPOCH_RESERVE__INIT;
        Tslab__EpochLabel label = TSLAB__EPOCH_LABEL__INIT;
        Tslab__Stats stats = TSLAB__STATS__INIT;
        Tslab__Clients clients = TSLAB__CLIENTS__INIT;
        Tslab__SlabMap slab_map = TSLAB__SLAB_MAP__INIT;
        Tslab__Trim trim = TSLAB__TRIM__INIT;
        Tslab__Check check = TSLAB__CHECK__INIT;
        Tslab__Roots roots = TSLAB__ROOTS__INIT;
        ProtoRequest requests[] = {
                { .body_case = TSLAB__REQUEST__BODY_EPOCH_LIST, .epoch_list = &list },
                { .body_case = TSLAB__REQUEST__BODY_STATS, .stats = &stats },
                { .body_case = TSLAB__REQUEST__BODY_CLIENTS, .clients = &clients },
                { .body_case = TSLAB__REQUEST__BODY_SLAB_MAP, .slab_map = &slab_map },
                { .body_case = TSLAB__REQUEST__BODY_ROOTS, .roots = &roots },
                { .body_case = TSLAB__REQUEST__BODY_CHECK, .check = &check },
                { .body_case = TSLAB__REQUEST__BODY_EPOCH_ADVANCE, .epoch_advance = &advance },
                { .body_case = TSLAB__REQUEST__BODY_EPOCH_RESERVE, .epoch_reserve = &reserve },
                { .body_case = TSLAB__REQUEST__BODY_EPOCH_LABEL, .epoch_label = &label },
                { .body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE, .epoch_close = &close },
                { .body_case = TSLAB__REQUEST__BODY_TRIM, .trim = &trim },
        };

        label.label = (char *) "a";
        close.wait_msec = 1;
        close.revoke = next_random() % 2;
        check.repair = next_random() % 2;
        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
                ProtoRequest request = PROTO_REQUEST_INIT;

                requests[i].base = request.base;
                close.epoch = next_random() % 4;
                ask(call, &requests[i]);
        }
}

typedef struct Region {
        void *at;
        size_t size;
} Region;

/* All that is shared but the slabs; only the beginning of tables that are mostly holes. */
static void find_regions(const ShmArena *arena, Region *ret) {
        uint8_t *header = (uint8_t *) arena->header;

        ret[0] = (Region){ header, sizeof(ShmHeader) };
        ret[1] = (Region){ arena->clients, 16 * sizeof(ShmClient) };
        ret[2] = (Region){ arena->heads, 64 * sizeof(ShmRecordHead) };
        ret[3] = (Region){ arena->records, 2 * arena->record_stride };
        ret[4] = (Region){ arena->sets, (uint8_t *) arena->lines - (uint8_t *) arena->sets };
        ret[5] = (Region){ arena->lines, 1024 * sizeof(ShmSlabLine) };
        ret[6] = (Region){ arena->tags, 1024 * sizeof(ShmTags) };
}

static void seed(void) {
        const char *text = getenv("TSLAB_TEST_SEED");

        random_state = text ? strtoull(text, NULL, 0) : UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t) getpid();
        printf("TSLAB_TEST_SEED=0x%llx\n", (unsigned long long) random_state);
}

static void test_scribble(void **state) {
        Region regions[N_REGIONS];

        seed();
        for (unsigned round = 0; round < N_ROUNDS; round++) {
                DaemonFixture fixture;
                RawClient client;
                uint64_t handle;
                void *object;

                daemon_start(&fixture, (const char *[]){ "--size=8M", "--epochs=4", "--threads=63",
                                                         "--retain=0", "--log-level=err", NULL });
                raw_client_open(&client, &fixture, 0);
                for (unsigned i = 0; i < 5000; i++)
                        assert_int_equal(shm_object_alloc(&client.actor, 64 + i % 700, SHM_EPOCH_CURRENT,
                                                          NULL, &handle, &object),
                                         0);
                find_regions(&client.arena, regions);
                for (unsigned i = 0; i < 2 * N_REGIONS; i++) {
                        scribble(regions[i % N_REGIONS].at, regions[i % N_REGIONS].size,
                                 round + i / N_REGIONS);
                        shm_wake(&client.arena);
                        ask_all(client.call);
                }
                client.call = proto_call_free(client.call);
                shm_arena_deinit(&client.arena);
                assert_true(daemon_answers(&fixture));
                daemon_stop(&fixture);
        }
}

/* For ever: one word at a time, now and then waking the daemon. */
static void scribble_on(const ShmArena *arena) {
        Region regions[N_REGIONS];

        find_regions(arena, regions);
        for (;;) {
                const Region *r = &regions[next_random() % N_REGIONS];

                scribble((uint8_t *) r->at + next_random() % (r->size / 8) * 8, 8, (unsigned) next_random());
                if (next_random() % 1024 == 0)
                        shm_wake(arena);
        }
}

/* Uses the pool as far as it goes: it may be refused, or crash. */
static void use(const DaemonFixture *daemon, int ready) {
        RawClient client;
        uint64_t handles[64];

        raw_client_open(&client, daemon, 0);
        (void) !write(ready, "", 1);
        for (unsigned i = 0;; i++) {
                if (i >= 64)
                        (void) shm_object_free(&client.actor, handles[i % 64]);
                (void) shm_object_alloc(&client.actor, 64 + i % 700, SHM_EPOCH_CURRENT, NULL,
                                        &handles[i % 64], NULL);
        }
}

static pid_t begin(const ShmArena *arena, const DaemonFixture *daemon, int ready) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid != 0)
                return pid;
        /* Else cmocka would go on with the next test in the child. The child's output says nothing new. */
        setenv("CMOCKA_TEST_ABORT", "1", 1);
        end_with_parent();
        (void) freopen("/dev/null", "w", stderr);
        if (arena)
                scribble_on(arena);
        else
                use(daemon, ready);
        _exit(1);
}

static void end(pid_t pid) {
        (void) kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* One that is attached, or dead already, is killed: then there is something to repair. */
static void kill_one(const DaemonFixture *daemon) {
        int pipes[2];
        pid_t pid;

        assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
        pid = begin(NULL, daemon, pipes[1]);
        close(pipes[1]);
        (void) !read(pipes[0], &(char){ 0 }, 1);
        close(pipes[0]);
        end(pid);
}

/* While the daemon is at work, and clients die of it or otherwise. */
static void test_scribble_beside(void **state) {
        DaemonFixture fixture;
        RawClient client;
        pid_t scribbler;

        seed();
        daemon_start(&fixture, (const char *[]){ "--size=8M", "--epochs=4", "--threads=63", "--retain=0",
                                                 "--log-level=err", NULL });
        raw_client_open(&client, &fixture, 0);
        scribbler = begin(&client.arena, NULL, -1);
        for (unsigned round = 0; round < N_ROUNDS; round++) {
                kill_one(&fixture);
                ask_all(client.call);
                kill_one(&fixture);
        }
        end(scribbler);
        client.call = proto_call_free(client.call);
        shm_arena_deinit(&client.arena);
        assert_true(daemon_answers(&fixture));
        daemon_stop(&fixture);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_scribble),
                cmocka_unit_test(test_scribble_beside),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
