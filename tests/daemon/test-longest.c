/*
 * A writer says over and over that all threads have ended and left full caches, or are dead. The daemon deals with a
 * few of them at a time, and answers requests in between. The test prints how long the daemon's longest step took, but
 * no speed matters: it counts the accesses that a step of the engine makes. shm is built with SHM_STEP here.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/arena/client.h"
#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch.h"
#include "shm/maintain/maintain.h"
#include "shm/slab/pages.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/test.h"

#define N_RECORDS 256U /* with TSLAB_TEST_FULL=1, 1024 */
#define N_RECORDS_FULL 1024U
#define N_REQUESTS 200U
#define ACCESSES_MAX 60000U /* in a step: about a millisecond */
#define STEPS_MAX 1000000U

enum { TRIM = 10, ROOTS };

typedef struct Fixture {
        DaemonFixture daemon;
        RawClient liar;
        uint64_t *heads; /* the heads of records that were left, or are dead */
        int log_fd; /* the daemon's output */
} Fixture;

static bool is_full(void) {
        const char *full = getenv("TSLAB_TEST_FULL");

        return full && *full && *full != '0';
}

/* ---- the liar */

/* Fills the cache with slots of every slab that there could be, as far apart as they can be. */
static void fill_cache(const ShmArena *arena, ShmCache *cache, uint32_t first) {
        for (uint32_t i = 0; i < SHM_CACHE_MAX; i++)
                cache->slots[i] = slot_id((first + i * 37) % arena->n_slabs, first % SHM_SLOTS_MAX).value;
}

/* Takes all records, once, and remembers their heads as they are when their threads are gone. */
static void take_records(Fixture *f, bool dead) {
        ShmArena *arena = &f->liar.arena;
        uint32_t n_caches = shm_arena_n_caches(arena), record;
        static ShmActor actor;

        f->heads = calloc(arena->n_records, sizeof(*f->heads));
        assert_non_null(f->heads);
        while (shm_actor_init(&actor, arena, f->liar.client, 1) == 0) {
                record = actor.id;
                for (uint32_t i = 0; i < n_caches; i++) {
                        shm_record_use_cache(actor.record, i);
                        fill_cache(arena, shm_arena_cache_at(arena, record, i), record + i);
                }
                if (dead)
                        assert_true(shm_record_mark_dead(arena, record));
                else
                        shm_record_set_left(arena, record);
                f->heads[record] = arena->heads[record].word;
        }
        arena->header->n_slabs_ever.value = arena->n_slabs;
}

static void leave_record(const Fixture *f, uint32_t record) {
        const ShmArena *arena = &f->liar.arena;
        uint32_t n_caches = shm_arena_n_caches(arena);

        for (uint32_t i = 0; i < n_caches; i++)
                shm_arena_cache_at(arena, record, i)->count = SHM_CACHE_MAX;
        for (uint32_t i = 0; i < n_caches; i++)
                shm_arena_record(arena, record)->used[i / 64] |= UINT64_C(1) << i % 64;
        /* ORDER: rel; nonsense, but all of it. */
        shm_store_rel(&arena->heads[record].word, f->heads[record]);
}

static void leave_all(const Fixture *f) {
        for (uint32_t record = 1; record < f->liar.arena.n_records; record++)
                if (f->heads[record] != 0)
                        leave_record(f, record);
}

static pid_t start_liar(const Fixture *f) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        while (pid == 0) {
                if (getppid() == 1)
                        _exit(0);
                leave_all(f);
        }
        return pid;
}

static void stop_liar(pid_t pid) {
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* ---- the daemon */

static int setup(void **state) {
        static Fixture fixture;
        Fixture *f = &fixture;
        char threads[32];

        snprintf(threads, sizeof(threads), "--threads=%u", is_full() ? N_RECORDS_FULL : N_RECORDS);
        f->log_fd = daemon_start_logged(&f->daemon,
                                        (const char *[]){ "--size=64M", threads, "--log-level=debug", NULL });
        raw_client_open(&f->liar, &f->daemon, 0);
        take_records(f, false);
        *state = f;
        return 0;
}

static int setup_slices(void **state) {
        setenv("TSLAB_TEST_SLICES", "1", 1);
        setup(state);
        unsetenv("TSLAB_TEST_SLICES");
        return 0;
}

/* From the daemon's last message. */
static void print_longest(const Fixture *f) {
        static char text[1 << 20];
        ssize_t n = pread(f->log_fd, text, sizeof(text) - 1, 0);
        const char *line;

        assert_true(n > 0);
        line = strstr(text, "the longest turn took ");
        assert_non_null(line);
        printf("%.*s\n", (int) strcspn(line, "\n"), line);
}

static int teardown(void **state) {
        Fixture *f = *state;

        raw_client_close(&f->liar);
        daemon_stop(&f->daemon);
        print_longest(f);
        close(f->log_fd);
        free(f->heads);
        return 0;
}

/* ---- the engine, on an arena of our own */

static uint64_t n_accesses;

void shm_step(const void *address) {
        (void) address;
        n_accesses++;
}

/* All slabs are in use, in epoch 0. */
static void use_all(Fixture *f) {
        static ShmActor control, actor;
        uint64_t handle;
        uint32_t n;

        shm_actor_init_daemon(&control, &f->liar.arena);
        assert_int_equal(shm_pages_commit(&control, f->liar.arena.n_slabs, &n), 0);
        assert_int_equal(shm_actor_init(&actor, &f->liar.arena, f->liar.client, 1), 0);
        actor.mode = SHM_CACHE_OFF;
        while (shm_object_alloc(&actor, 256, 0, NULL, &handle, NULL) == 0)
                ;
        shm_actor_deinit(&actor);
}

static Fixture *new_arena(void) {
        static Fixture fixture;
        ShmGeometry g = { .slabs_size = 16 << 20,
                          .n_records = is_full() ? N_RECORDS_FULL : N_RECORDS,
                          .n_epochs = 8,
                          .n_classes = 8,
                          .class_size = { 64, 96, 128, 192, 256, 336, 400, 512 } };
        ShmClientInfo info = { .pid = 1, .start_time = 1 };

        fixture = (Fixture){};
        assert_int_equal(shm_arena_create(&fixture.liar.arena, &g, NULL), 0);
        assert_int_equal(shm_client_add(&fixture.liar.arena, &info), 0);
        fixture.liar.client = info.index;
        use_all(&fixture);
        return &fixture;
}

static int setup_arena(void **state, bool dead) {
        Fixture *f = new_arena();

        take_records(f, dead);
        leave_all(f);
        *state = f;
        return 0;
}

static int setup_left(void **state) {
        return setup_arena(state, false);
}

static int setup_dead(void **state) {
        return setup_arena(state, true);
}

static int teardown_arena(void **state) {
        Fixture *f = *state;

        shm_arena_deinit(&f->liar.arena);
        free(f->heads);
        return 0;
}

/* To its end. How many accesses its longest step makes, and all of them. */
static uint64_t run_engine(ShmMaintain *engine, uint64_t *ret_sum) {
        uint64_t now_usec = 1, next = 0, longest = 0;

        *ret_sum = 0;
        for (unsigned n = 0; next != SHM_MAINTAIN_IDLE; n++) {
                assert_true(n < STEPS_MAX);
                n_accesses = 0;
                next = shm_maintain_step(engine, now_usec);
                longest = n_accesses > longest ? n_accesses : longest;
                *ret_sum += n_accesses;
                now_usec = next > now_usec && next != SHM_MAINTAIN_IDLE ? next : now_usec + 1;
        }
        return longest;
}

static ShmMaintain *new_engine(ShmArena *arena, ShmActor *control) {
        ShmMaintain *engine = calloc(1, sizeof(*engine));

        assert_non_null(engine);
        shm_actor_init_daemon(control, arena);
        shm_maintain_init(engine, control);
        return engine;
}

static void check_steps(ShmMaintain *engine, const char *name) {
        uint64_t n, sum;

        shm_maintain_look(engine, true, 1);
        n = run_engine(engine, &sum);
        printf("%s: %llu accesses in the longest step\n", name, (unsigned long long) n);
        assert_true(n <= ACCESSES_MAX);
        free(engine);
}

static void test_steps_left(void **state) {
        Fixture *f = *state;
        static ShmActor control;

        check_steps(new_engine(&f->liar.arena, &control), "left");
        assert_true(shm_freeze_is_over(&f->liar.arena));
}

static void test_steps_dead(void **state) {
        Fixture *f = *state;
        static ShmActor control;

        check_steps(new_engine(&f->liar.arena, &control), "dead");
        assert_false(shm_repair_wanted(&f->liar.arena));
}

static void revoke_all(ShmArena *arena) {
        ShmEpochInfo info;

        for (uint32_t id = 0; id < arena->n_epochs; id++)
                assert_int_equal(shm_epoch_revoke(arena, id, true), 0);
        assert_int_equal(shm_epoch_get(arena, 0, &info), 0);
        assert_true(info.revoking);
}

static void test_steps_revoked(void **state) {
        Fixture *f = *state;
        static ShmActor control;
        ShmEpochInfo info;

        revoke_all(&f->liar.arena);
        check_steps(new_engine(&f->liar.arena, &control), "revoked");
        assert_int_equal(shm_epoch_get(&f->liar.arena, 0, &info), 0);
        assert_true(info.state == SHM_EPOCH_DRAINED && !info.revoking);
}

/* How many accesses it takes to revoke all epochs while n threads that have used caches do nothing. */
static uint64_t count_revoking(uint32_t n) {
        ShmArena *arena = &new_arena()->liar.arena;
        static ShmActor control, actor;
        ShmMaintain *engine;
        uint64_t sum;

        while (n-- > 0) {
                assert_int_equal(shm_actor_init(&actor, arena, 0, 1), 0);
                shm_record_use_cache(actor.record, 0);
        }
        revoke_all(arena);
        engine = new_engine(arena, &control);
        shm_maintain_look(engine, true, 1);
        (void) run_engine(engine, &sum);
        free(engine);
        shm_arena_deinit(arena);
        return sum;
}

/* The records are read once for many slabs. */
static void test_revoke_idle(void **state) {
        uint64_t one = count_revoking(1), many = count_revoking(N_RECORDS - 1);

        (void) state;
        printf("revoked: %llu accesses beside one thread, %llu beside %u\n", (unsigned long long) one,
               (unsigned long long) many, N_RECORDS - 1);
        assert_true(2 * many <= 3 * one);
}

/* ---- tests */

static void test_requests(void **state) {
        Fixture *f = *state;
        _cleanup_(proto_call_freep) ProtoCall *call = daemon_connect(&f->daemon, 0);
        pid_t pid = start_liar(f);

        for (unsigned i = 0; i < N_REQUESTS; i++)
                assert_int_equal(daemon_n_clients(call), 1);
        stop_liar(pid);
        (void) daemon_trim(call);
}

static void send_request(int fd, uint64_t id) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Trim trim = TSLAB__TRIM__INIT;
        Tslab__Roots roots = TSLAB__ROOTS__INIT;

        request.id = id;
        request.body_case = id == TRIM ? TSLAB__REQUEST__BODY_TRIM : TSLAB__REQUEST__BODY_ROOTS;
        if (id == TRIM)
                request.trim = &trim;
        else
                request.roots = &roots;
        assert_int_equal(proto_request_send(fd, &request, NULL, 0, NULL), 0);
}

static uint64_t next_answer(int fd) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        struct pollfd p = { .fd = fd, .events = POLLIN };
        ProtoFds fds;

        assert_int_equal(poll(&p, 1, 60000), 1);
        assert_int_equal(proto_reply_receive(fd, &reply, &fds), 0);
        assert_int_equal(reply->error, 0);
        return reply->id;
}

/* Each turn of the loop does as little as there is. */
static void test_between_steps(void **state) {
        Fixture *f = *state;
        _cleanup_(proto_call_freep) ProtoCall *call = daemon_connect(&f->daemon, 0);
        int fd = proto_call_fd(call);

        daemon_hold(&f->daemon);
        leave_all(f);
        send_request(fd, TRIM); /* empties all caches */
        send_request(fd, ROOTS);
        daemon_release(&f->daemon);
        assert_int_equal(next_answer(fd), ROOTS);
        assert_int_equal(next_answer(fd), TRIM);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_steps_left, setup_left, teardown_arena),
                cmocka_unit_test_setup_teardown(test_steps_dead, setup_dead, teardown_arena),
                cmocka_unit_test_setup_teardown(test_steps_revoked, setup_dead, teardown_arena),
                cmocka_unit_test(test_revoke_idle),
                cmocka_unit_test_setup_teardown(test_requests, setup, teardown),
                cmocka_unit_test_setup_teardown(test_between_steps, setup_slices, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
