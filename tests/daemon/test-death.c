/* Clients that die, and clients that only hang up. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/arena/client.h"
#include "shm/maintain/check.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/test.h"

static int setup(void **state) {
        static DaemonFixture daemon;

        daemon_start(&daemon, (const char *[]){ "--size=16M", "--log-level=err", NULL });
        *state = &daemon;
        return 0;
}

static int teardown(void **state) {
        daemon_stop(*state);
        return 0;
}

typedef enum Way { IDLE, INSIDE, WITH_INTENT, WITH_CACHES, HUNG_UP, LEAVING } Way;

/* A full cache, and a pending object, in every class. */
static void fill_caches(ShmActor *actor) {
        const ShmPending pending = {};
        uint64_t handles[200], handle;

        actor->mode = SHM_CACHE_ON;
        for (uint32_t class = 0; class < actor->arena->n_classes; class ++) {
                uint32_t size = actor->arena->classes[class].size;

                for (int i = 0; i < 200; i++)
                        assert_int_equal(
                                shm_object_alloc(actor, size, SHM_EPOCH_CURRENT, NULL, &handles[i], NULL), 0);
                for (int i = 0; i < 200; i++)
                        assert_int_equal(shm_object_free(actor, handles[i]), 0);
                assert_int_equal(shm_object_alloc(actor, size, SHM_EPOCH_CURRENT, &pending, &handle, NULL),
                                 0);
        }
}

/* When told to: a thread that ends while it is frozen leaves its record to the daemon. */
static void leave_frozen(RawClient *client) {
        sigset_t signals;
        int number;

        sigemptyset(&signals);
        sigaddset(&signals, SIGUSR1);
        assert_int_equal(sigwait(&signals, &number), 0);
        shm_record_set_left(&client->arena, client->actor.id);
        shm_actor_leave(&client->actor);
        _exit(0);
}

static void attach_and_stay(const DaemonFixture *daemon, Way way, int ready_fd) {
        RawClient client;
        uint64_t handle;
        void *object;

        raw_client_open(&client, daemon, 0);
        if (way == LEAVING)
                client.actor.mode = SHM_CACHE_ON; /* it has slots left over */
        assert_int_equal(shm_object_alloc(&client.actor, 64, SHM_EPOCH_CURRENT, NULL, &handle, &object), 0);
        if (way == INSIDE || way == LEAVING)
                shm_actor_enter(&client.actor);
        if (way == WITH_CACHES)
                fill_caches(&client.actor);
        if (way == WITH_INTENT)
                shm_actor_intend(&client.actor, shm_intent_other(SHM_INTENT_SLAB, 0, 0));
        if (way == HUNG_UP)
                client.call = proto_call_free(client.call);
        assert_int_equal(write(ready_fd, &handle, sizeof(handle)), sizeof(handle));
        if (way == LEAVING)
                leave_frozen(&client);
        for (;;)
                pause();
}

static pid_t start_client(const DaemonFixture *daemon, Way way, uint64_t *ret_handle) {
        int fds[2];
        pid_t pid;

        assert_int_equal(pipe(fds), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                close(fds[0]);
                alarm(600);
                attach_and_stay(daemon, way, fds[1]);
        }
        close(fds[1]);
        assert_int_equal(read(fds[0], ret_handle, sizeof(*ret_handle)), sizeof(*ret_handle));
        close(fds[0]);
        return pid;
}

static void end_client(pid_t pid) {
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Objects that it shared stay; its entry and its record go. */
static void check_death(DaemonFixture *daemon, Way way) {
        _cleanup_(proto_call_freep) ProtoCall *control = daemon_connect(daemon, 0);
        RawClient reader;
        uint64_t handle;
        pid_t pid;

        raw_client_open(&reader, daemon, PROTO_ROLE_READER);
        WAIT_FOR(daemon_n_clients(control) == 1);
        pid = start_client(daemon, way, &handle);
        assert_int_equal(daemon_n_clients(control), 2);
        end_client(pid);
        WAIT_FOR(daemon_n_clients(control) == 1);
        assert_true(shm_object_live(&reader.arena, handle));
        {
                _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_stats(control);

                assert_int_equal(reply->stats->threads, 0);
        }
        raw_client_close(&reader);
}

static void test_death(void **state) {
        check_death(*state, IDLE);
}

static void test_death_inside(void **state) {
        check_death(*state, INSIDE);
}

static void test_death_after_hang_up(void **state) {
        check_death(*state, HUNG_UP);
}

/* Stopped, and not connected, is alive. */
static void test_stopped(void **state) {
        DaemonFixture *daemon = *state;
        _cleanup_(proto_call_freep) ProtoCall *control = daemon_connect(daemon, 0);
        uint64_t handle;
        pid_t pid;

        WAIT_FOR(daemon_n_clients(control) == 0);
        pid = start_client(daemon, HUNG_UP, &handle);
        assert_int_equal(kill(pid, SIGSTOP), 0);
        usleep(1200000); /* a tick */
        assert_int_equal(daemon_n_clients(control), 1);
        end_client(pid);
        WAIT_FOR(daemon_n_clients(control) == 0);
}

static void test_death_with_intent(void **state) {
        check_death(*state, WITH_INTENT);
}

/* Its cached slots and its pending objects are free again. */
static void test_death_with_caches(void **state) {
        DaemonFixture *daemon = *state;
        _cleanup_(proto_call_freep) ProtoCall *control = daemon_connect(daemon, 0);
        RawClient other;
        uint64_t handle, live;
        ShmCheck check;
        pid_t pid;

        raw_client_open(&other, daemon, 0);
        {
                _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_stats(control);

                live = reply->stats->live_objects;
        }
        pid = start_client(daemon, WITH_CACHES, &handle);
        end_client(pid);
        WAIT_FOR(daemon_n_clients(control) == 1);
        assert_int_equal(shm_check(&other.arena, &check), 0);
        assert_int_equal(check.problems + check.in_flight_slots, 0);
        {
                _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_stats(control);

                assert_int_equal(reply->stats->live_objects, live + 1); /* that it shared */
                assert_int_equal(reply->stats->cached_objects, 0);
        }
        raw_client_close(&other);
}

static uint32_t n_in_flight(ProtoCall *control) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_stats(control);

        return reply->stats->records_unsettled;
}

/* A thread that is stopped may yet claim the slot: the dead one's record is kept until that is settled. */
static void test_death_in_flight(void **state) {
        DaemonFixture *daemon = *state;
        _cleanup_(proto_call_freep) ProtoCall *control = daemon_connect(daemon, 0);
        RawClient other;
        uint64_t handle;
        SlotId id;
        pid_t pid;

        raw_client_open(&other, daemon, 0);
        WAIT_FOR(daemon_n_clients(control) == 1);
        pid = start_client(daemon, WITH_CACHES, &handle);
        id.value = shm_arena_cache(&other.arena, 2, 0, 0)->slots[0];
        shm_actor_intend_mask(&other.actor, slot_id_mask(id));
        shm_actor_intend(&other.actor, shm_intent_other(SHM_INTENT_CLAIM, slot_id_slab(id), 0));
        end_client(pid);
        WAIT_FOR(shm_record_owner(&other.arena, 2).state == SHM_RECORD_ROLLED_BACK);
        usleep(1200000); /* a tick */
        assert_int_equal(shm_record_owner(&other.arena, 2).state, SHM_RECORD_ROLLED_BACK);
        assert_int_equal(daemon_n_clients(control), 2);
        assert_int_equal(n_in_flight(control), 1);
        shm_actor_intend(&other.actor, 0);
        WAIT_FOR(daemon_n_clients(control) == 1);
        assert_int_equal(n_in_flight(control), 0);
        raw_client_close(&other);
}

#define N_BYTES 700

/* Two objects that were pending; the second one was published. */
typedef struct Pair {
        uint64_t pending, published;
} Pair;

static uint8_t byte_of(uint64_t handle, size_t i) {
        return (uint8_t) (handle >> i % 8 * 8 ^ i * 31);
}

static uint64_t make_pending(ShmActor *actor, size_t size) {
        const ShmPending pending = {};
        uint64_t handle;
        uint8_t *bytes;
        void *object;

        assert_int_equal(shm_object_alloc(actor, size, SHM_EPOCH_CURRENT, &pending, &handle, &object), 0);
        bytes = object;
        for (size_t i = 0; i < size; i++)
                bytes[i] = byte_of(handle, i);
        return handle;
}

static void pend_and_stay(const DaemonFixture *daemon, ShmCacheMode mode, int ready_fd) {
        Pair pairs[2];
        RawClient client;

        raw_client_open(&client, daemon, 0);
        client.actor.mode = mode;
        for (int i = 0; i < 2; i++) {
                pairs[i].pending = make_pending(&client.actor, i == 0 ? 64 : N_BYTES);
                pairs[i].published = make_pending(&client.actor, i == 0 ? 64 : N_BYTES);
                assert_int_equal(shm_object_publish(&client.actor, pairs[i].published), 0);
        }
        assert_int_equal(write(ready_fd, pairs, sizeof(pairs)), sizeof(pairs));
        for (;;)
                pause();
}

static void check_bytes(const ShmArena *arena, uint64_t handle, size_t size) {
        const uint8_t *bytes;
        void *object = NULL;

        assert_int_equal(shm_object_get(arena, handle, &object, NULL), 0);
        bytes = object;
        for (size_t i = 0; i < size; i++)
                assert_int_equal(bytes[i], byte_of(handle, i));
}

static void check_pending(const DaemonFixture *daemon, ShmCacheMode mode) {
        _cleanup_(proto_call_freep) ProtoCall *control = daemon_connect(daemon, 0);
        RawClient other;
        Pair pairs[2];
        int fds[2];
        pid_t pid;

        raw_client_open(&other, daemon, 0);
        assert_int_equal(pipe(fds), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                alarm(600);
                pend_and_stay(daemon, mode, fds[1]);
        }
        close(fds[1]);
        assert_int_equal(read(fds[0], pairs, sizeof(pairs)), sizeof(pairs));
        close(fds[0]);
        assert_true(shm_object_live(&other.arena, pairs[0].pending));
        end_client(pid);
        WAIT_FOR(daemon_n_clients(control) == 1);
        for (int i = 0; i < 2; i++) {
                size_t size = i == 0 ? 64 : N_BYTES;

                assert_int_equal(shm_object_free(&other.actor, pairs[i].pending), -ESTALE);
                check_bytes(&other.arena, pairs[i].published, size);
                assert_int_equal(shm_object_free(&other.actor, pairs[i].published), 0);
        }
        raw_client_close(&other);
}

/* A killed process's pending objects are free; its published ones are there, byte for byte. */
static void test_death_pending(void **state) {
        check_pending(*state, SHM_CACHE_ON);
        check_pending(*state, SHM_CACHE_OFF);
}

/*
 * The process is gone before its record, which it left while it was frozen, is finished: by the drainer, so that
 * there is nothing to repair.
 */
static void test_death_left(void **state) {
        DaemonFixture *daemon = *state;
        _cleanup_(proto_call_freep) ProtoCall *control = daemon_connect(daemon, 0);
        sigset_t signals;
        uint64_t handle;
        pid_t pid;

        sigemptyset(&signals);
        sigaddset(&signals, SIGUSR1);
        assert_int_equal(sigprocmask(SIG_BLOCK, &signals, NULL), 0); /* also in the child, till it waits */
        WAIT_FOR(daemon_n_clients(control) == 0);
        for (uint32_t epoch = 1; epoch <= 3; epoch++) {
                _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;

                pid = start_client(daemon, LEAVING, &handle);
                reply = daemon_close(control, epoch);
                assert_int_equal(reply->epoch_close->pending_threads, 1);
                assert_int_equal(kill(pid, SIGUSR1), 0);
                assert_int_equal(waitpid(pid, NULL, 0), pid);
                WAIT_FOR(daemon_n_clients(control) == 0);
        }
        assert_int_equal(sigprocmask(SIG_UNBLOCK, &signals, NULL), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_death_left),        cmocka_unit_test(test_death),
                cmocka_unit_test(test_death_inside),      cmocka_unit_test(test_death_after_hang_up),
                cmocka_unit_test(test_stopped),           cmocka_unit_test(test_death_with_intent),
                cmocka_unit_test(test_death_with_caches), cmocka_unit_test(test_death_in_flight),
                cmocka_unit_test(test_death_pending),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
