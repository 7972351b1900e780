#include "tests/crash/daemon-work.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/cache/cache.h"
#include "shm/arena/client.h"
#include "shm/maintain/freeze.h"
#include "shm/slab/slab.h"
#include "tests/crash/crash-world.h"
#include "tests/util/parent.h"
#include "tests/util/test.h"

#define N_OBJECTS 200 /* in each class; of the first half every third stays. With TSLAB_TEST_FULL=1 */
#define N_OBJECTS_SHORT 80
#define N_PENDING 5
#define N_LEASED 30
#define N_LOST 35 /* in full slabs, half of which they are */
#define QUIET_USEC (30 * UINT64_C(1000000))
#define CALL_USEC (300 * UINT64_C(1000000))

/* ---- the pool */

static void fill(ShmActor *actor, uint32_t epoch) {
        const char *full = getenv("TSLAB_TEST_FULL");
        uint32_t n = full && *full && *full != '0' ? N_OBJECTS : N_OBJECTS_SHORT;
        static uint64_t handles[N_OBJECTS];

        actor->mode = SHM_CACHE_ON;
        for (uint32_t class = 0; class < actor->arena->n_classes; class ++) {
                uint32_t size = actor->arena->classes[class].size;

                for (uint32_t i = 0; i < n; i++)
                        assert_int_equal(shm_object_alloc(actor, size, epoch, NULL, &handles[i], NULL), 0);
                for (uint32_t i = 0; i < n; i++)
                        if (i % 3 != 0 || i > n / 2)
                                assert_int_equal(shm_object_free(actor, handles[i]), 0);
        }
}

static uint32_t reserve(ProtoCall *call, bool lease) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochReserve body = TSLAB__EPOCH_RESERVE__INIT;

        body.lease = lease;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_RESERVE;
        request.epoch_reserve = &body;
        reply = daemon_call(call, &request, NULL);
        return reply->epoch_reserve->epoch;
}

/* A client that is to die, or to leave: full caches, a lease with objects, pending ones. */
static void be_victim(const DaemonFixture *daemon, int fd) {
        const ShmPending pending = {};
        RawClient client;
        uint64_t handle;
        uint32_t epoch;
        char byte;

        end_with_parent();
        raw_client_open(&client, daemon, 0);
        fill(&client.actor, 0);
        for (int i = 0; i < N_PENDING; i++)
                assert_int_equal(shm_object_alloc(&client.actor, 128, 0, &pending, &handle, NULL), 0);
        epoch = reserve(client.call, true);
        for (int i = 0; i < N_LEASED; i++)
                assert_int_equal(shm_object_alloc(&client.actor, 64, epoch, NULL, &handle, NULL), 0);
        (void) !write(fd, &client.client, sizeof(client.client));
        if (read(fd, &byte, 1) == 1) {
                raw_client_close(&client);
                (void) !write(fd, &byte, 1);
        }
        for (;;)
                pause();
}

static void start_victim(DaemonPool *pool) {
        int fds[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        pool->victim = fork();
        assert_true(pool->victim >= 0);
        if (pool->victim == 0)
                be_victim(&pool->daemon, fds[1]);
        close(fds[1]);
        pool->victim_fd = fds[0];
        assert_int_equal(read(fds[0], &pool->victim_client, sizeof(pool->victim_client)),
                         sizeof(pool->victim_client));
}

static uint64_t count_epoch(const ShmArena *arena, uint32_t epoch, uint32_t era) {
        uint64_t n = 0;

        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(arena); slab++) {
                SlabWord w = shm_slab_word(arena, slab);

                if (slab_word_epoch(w) == epoch && (era == 0 || slab_word_era(w) == era))
                        for (uint32_t i = 0; i < SHM_SLOTS_MAX; i++)
                                n += arena->tags[slab].tag[i] & 1;
        }
        return n;
}

void daemon_pool_open(DaemonPool *pool, const DaemonWork *work) {
        *pool = (DaemonPool){ .work = work };
        assert_int_equal(setenv("LD_BIND_NOW", "1", 1), 0); /* for the stepper */
        daemon_start(&pool->daemon, (const char *[]){ "--size=512K", "--threads=6", "--epochs=6",
                                                      "--classes=64,128,256", "--log-level=err", NULL });
        raw_client_open(&pool->self, &pool->daemon, 0);
        raw_client_open(&pool->other, &pool->daemon, 0);
        pool->control = daemon_connect(&pool->daemon, 0);
        pool->use_epoch = reserve(pool->control, false);
        fill(&pool->self.actor, 0);
        fill(&pool->other.actor, 0);
        start_victim(pool);
        if (work->inside)
                shm_actor_enter(&pool->other.actor);
        if (work->prepare)
                work->prepare(pool);
        pool->n_live = world_count_live(&pool->self.arena);
        for (uint32_t id = 0; id < pool->self.arena.n_epochs; id++)
                assert_int_equal(shm_epoch_get(&pool->self.arena, id, &pool->epochs[id]), 0);
}

static bool is_ended(DaemonPool *pool) {
        ShmClientInfo info;

        return shm_client_get(&pool->self.arena, pool->victim_client, &info) == -ENOENT;
}

static void kill_victim(DaemonPool *pool) {
        assert_int_equal(kill(pool->victim, SIGKILL), 0);
        assert_int_equal(waitpid(pool->victim, NULL, 0), pool->victim);
        close(pool->victim_fd);
        pool->victim = 0;
}

/* ---- requests */

static void ask(DaemonPool *pool, ProtoRequest *request) {
        int fds[2];

        assert_int_equal(pipe(fds), 0);
        pool->caller = fork();
        assert_true(pool->caller >= 0);
        if (pool->caller == 0) {
                ProtoReply *reply = NULL;
                int r;

                end_with_parent();
                r = proto_call(pool->control, request, CALL_USEC, NULL, NULL, &reply, NULL);
                (void) !write(fds[1], &r, sizeof(r));
                _exit(0);
        }
        close(fds[1]);
        pool->answer_fd = fds[0];
}

static bool is_answered(DaemonPool *pool) {
        struct pollfd p = { .fd = pool->answer_fd, .events = POLLIN };
        int r;

        if (pool->caller == 0)
                return true;
        if (poll(&p, 1, 0) == 0)
                return false;
        assert_int_equal(read(pool->answer_fd, &r, sizeof(r)), sizeof(r));
        assert_int_equal(r, 0);
        close(pool->answer_fd);
        assert_int_equal(waitpid(pool->caller, NULL, 0), pool->caller);
        pool->caller = 0;
        return true;
}

static void ask_close(DaemonPool *pool, uint32_t epoch, bool revokes, bool older) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochClose body = TSLAB__EPOCH_CLOSE__INIT;

        body.epoch = epoch;
        body.revoke = revokes;
        body.older = older;
        body.wait_msec = 1;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
        request.epoch_close = &body;
        ask(pool, &request);
}

static void begin_close(DaemonPool *pool) {
        ask_close(pool, 0, false, false);
}

static void begin_revoke(DaemonPool *pool) {
        pool->n_revocable = count_epoch(&pool->self.arena, 0, 0);
        ask_close(pool, 0, true, false);
}

/* Objects of 0:1, and of 0:2, which is open. */
static void prepare_ring(DaemonPool *pool) {
        while ((daemon_advance(pool->control) & 0xff) != 0)
                ;
        fill(&pool->self.actor, 0);
}

static void begin_revoke_earlier(DaemonPool *pool) {
        pool->n_revocable = count_epoch(&pool->self.arena, 0, 1);
        assert_true(pool->n_revocable > 0 && count_epoch(&pool->self.arena, 0, 2) > 0);
        ask_close(pool, shm_epoch_number(0, 1), true, false);
}

static void begin_revoke_older(DaemonPool *pool) {
        pool->n_revocable = count_epoch(&pool->self.arena, 0, 0);
        ask_close(pool, 0, true, true);
}

/* The newest era alone: objects of earlier eras stay. */
static void begin_revoke_newest(DaemonPool *pool) {
        pool->n_revocable = count_epoch(&pool->self.arena, 0, 2);
        ask_close(pool, 0, true, false);
}

static void begin_advance(DaemonPool *pool) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochAdvance body = TSLAB__EPOCH_ADVANCE__INIT;

        request.body_case = TSLAB__REQUEST__BODY_EPOCH_ADVANCE;
        request.epoch_advance = &body;
        ask(pool, &request);
}

static void begin_reserve(DaemonPool *pool) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochReserve body = TSLAB__EPOCH_RESERVE__INIT;

        request.body_case = TSLAB__REQUEST__BODY_EPOCH_RESERVE;
        request.epoch_reserve = &body;
        ask(pool, &request);
}

static void begin_trim(DaemonPool *pool) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Trim body = TSLAB__TRIM__INIT;

        request.body_case = TSLAB__REQUEST__BODY_TRIM;
        request.trim = &body;
        ask(pool, &request);
}

/* Slots that are nobody's. */
static void lose(DaemonPool *pool) {
        ShmArena *arena = &pool->self.arena;
        uint64_t handles[2];

        pool->self.actor.mode = SHM_CACHE_OFF;
        for (int i = 0; i < N_LOST; i++) {
                for (int k = 0; k < 2; k++)
                        assert_int_equal(shm_object_alloc(&pool->self.actor, 128, 0, NULL, &handles[k], NULL),
                                         0);
                ++*shm_slot_tag(arena, shm_handle_slot(handles[0]));
                pool->n_live++;
        }
}

static void begin_check(DaemonPool *pool) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Check body = TSLAB__CHECK__INIT;

        lose(pool);
        body.repair = true;
        request.body_case = TSLAB__REQUEST__BODY_CHECK;
        request.check = &body;
        ask(pool, &request);
}

/* ---- wakes */

static uint64_t n_free(const DaemonPool *pool) {
        return pool->self.arena.header->n_free.value;
}

/* Takes all free slabs, so that the reserve is short. */
static void begin_commit(DaemonPool *pool) {
        uint64_t handle;

        pool->self.actor.mode = SHM_CACHE_OFF;
        while ((int64_t) n_free(pool) > 2) {
                assert_int_equal(
                        shm_object_alloc(&pool->self.actor, 256, pool->use_epoch, NULL, &handle, NULL), 0);
                pool->n_live++;
        }
        pool->n_free = n_free(pool);
        shm_wake(&pool->self.arena);
}

static bool is_committed(DaemonPool *pool) {
        return n_free(pool) > pool->n_free;
}

/* As a client that is out of memory does. */
static void begin_empty_caches(DaemonPool *pool) {
        pool->self.arena.header->caches_wanted.value++;
        shm_wake(&pool->self.arena);
}

static bool are_emptied(DaemonPool *pool) {
        const ShmHeader *header = pool->self.arena.header;

        return header->caches_given.value == header->caches_wanted.value;
}

/* ---- ends */

static bool is_quiet(const ShmArena *arena) {
        ShmEpochInfo info;

        for (uint32_t id = 0; id < arena->n_epochs; id++)
                if (shm_epoch_get(arena, id, &info) != 0 || info.revoking)
                        return false;
        return shm_freeze_is_over(arena) && !shm_repair_wanted(arena);
}

/* The epochs that it leased are revoked, too. */
static bool is_ended_and_quiet(DaemonPool *pool) {
        return is_ended(pool) && is_quiet(&pool->self.arena);
}

static void begin_repair(DaemonPool *pool) {
        kill_victim(pool);
        pool->n_live -= N_PENDING + N_LEASED;
}

/* It gives its records back itself; its lease ends with the connection. */
static void begin_leave(DaemonPool *pool) {
        char byte = 0;

        assert_int_equal(write(pool->victim_fd, &byte, 1), 1);
        assert_int_equal(read(pool->victim_fd, &byte, 1), 1);
        pool->n_live -= N_PENDING + N_LEASED;
}

static void prepare_left(DaemonPool *pool) {
        assert_int_equal(shm_actor_init(&pool->leaver, &pool->self.arena, pool->self.client, 3), 0);
        pool->leaver_id = pool->leaver.id;
        fill(&pool->leaver, 0);
}

/* The freeze that concerns both is over for the one, and waits for the other. */
static bool is_thawed_beside(const DaemonPool *pool, uint32_t record, uint32_t other) {
        uint64_t attention = shm_arena_record(&pool->self.arena, other)->attention;

        return attention & SHM_ATTENTION_FREEZE &&
               shm_arena_record(&pool->self.arena, record)->attention == (attention & ~SHM_ATTENTION_FREEZE);
}

/* A freeze waits for the thread that is inside. This one's record was emptied and thawed; then it filled up again. */
static void prepare_left_thawed(DaemonPool *pool) {
        prepare_left(pool);
        begin_trim(pool);
        WAIT_FOR(is_thawed_beside(pool, pool->leaver_id, pool->other.actor.id));
        fill(&pool->leaver, 0);
}

/* A thread that ended with full caches; its record is not frozen. */
static void begin_left(DaemonPool *pool) {
        shm_record_set_left(&pool->self.arena, pool->leaver_id);
        shm_wake(&pool->self.arena);
}

static bool is_finished(DaemonPool *pool) {
        return shm_record_owner(&pool->self.arena, pool->leaver_id).state == SHM_RECORD_UNUSED;
}

/* ---- all */

/* A round took as long as it was stepped through, and the daemon rests after it. */
void daemon_pool_quiet(DaemonPool *pool) {
        uint64_t deadline = proto_deadline(QUIET_USEC);

        if (pool->work->inside)
                shm_actor_leave(&pool->other.actor);
        WAIT_FOR(is_answered(pool));
        if (pool->victim != 0)
                kill_victim(pool);
        WAIT_FOR(is_ended(pool));
        while (!is_quiet(&pool->self.arena)) {
                assert_true(proto_deadline_left(deadline) > 0);
                usleep(2000);
        }
}

void daemon_pool_close(DaemonPool *pool) {
        pool->control = proto_call_free(pool->control);
        raw_client_close(&pool->self);
        raw_client_close(&pool->other);
        daemon_stop(&pool->daemon);
}

#define WORK(_name, _prepare, _begin, _is_over, ...)                                                         \
        { .name = _name, .prepare = _prepare, .begin = _begin, .is_over = _is_over, ##__VA_ARGS__ }

const DaemonWork daemon_works[] = {
        WORK("epoch close", NULL, begin_close, is_answered, .closes = true),
        WORK("epoch close beside a thread", NULL, begin_close, is_answered, .closes = true, .inside = true),
        WORK("epoch close --revoke", NULL, begin_revoke, is_answered, .closes = true),
        WORK("epoch close --revoke beside a thread", NULL, begin_revoke, is_answered, .closes = true,
             .inside = true),
        WORK("revoke of an earlier era", prepare_ring, begin_revoke_earlier, is_answered),
        WORK("revoke of the newest era alone", prepare_ring, begin_revoke_newest, is_answered,
             .closes = true),
        WORK("epoch close --revoke --older", prepare_ring, begin_revoke_older, is_answered, .closes = true),
        WORK("epoch advance", NULL, begin_advance, is_answered, .opens = true),
        WORK("epoch reserve", NULL, begin_reserve, is_answered, .opens = true),
        WORK("trim", NULL, begin_trim, is_answered),
        WORK("caches that a client wants", NULL, begin_empty_caches, are_emptied),
        WORK("check --repair", NULL, begin_check, is_answered, .repairs = true),
        WORK("commit", NULL, begin_commit, is_committed),
        WORK("end of a lease", NULL, begin_leave, is_ended_and_quiet, .ends = true),
        WORK("repair of a dead client", NULL, begin_repair, is_ended_and_quiet, .ends = true),
        WORK("record that was left", prepare_left, begin_left, is_finished),
        WORK("record that was left in a freeze", prepare_left_thawed, begin_left, is_finished,
             .inside = true),
};

const unsigned n_daemon_works = sizeof(daemon_works) / sizeof(daemon_works[0]);
