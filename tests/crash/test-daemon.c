/*
 * Death of the daemon at every instruction: the real tslabd goes through a request, or through what a
 * death or a wake brings about, an instruction at a time. When one has changed the arena, what it is now
 * is copied: that is what the next daemon would find. Each copy is taken over and must be clean.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/client.h"
#include "shm/maintain/check.h"
#include "shm/maintain/drain.h"
#include "shm/maintain/freeze.h"
#include "shm/maintain/revoke.h"
#include "shm/slab.h"
#include "tests/crash/world.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/test.h"

#define N_OBJECTS 200 /* of each class; of the first half every third stays. With TSLAB_TEST_FULL=1 */
#define N_OBJECTS_SHORT 80
#define CROWD_MAX 2048
#define N_PENDING 5
#define N_LEASED 30
#define USE_EPOCH 2 /* nothing is ever asked of it */
#define CALL_USEC (300 * UINT64_C(1000000))
#define STEPS_MAX 20000000U

typedef struct Run Run;

typedef struct Work {
        const char *name;
        void (*begin)(Run *run); /* the daemon stands still, and will find this when it goes on */
        bool (*is_over)(Run *run);
        bool inside; /* a thread is in the middle of an operation */
        bool frees; /* objects of epoch 0 that are live may go */
} Work;

struct Run {
        const Work *work;
        DaemonFixture daemon;
        RawClient self, other;
        ProtoCall *control;
        pid_t victim, caller;
        uint32_t victim_client;
        int answer_fd;
        uint64_t n_live, n_revocable, n_free;
        ShmArena before, copy;
        unsigned n_instructions, n_arenas;
        ShmRepairCounts counts;
};

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

/* A client that is to die: full caches, a lease with objects, pending ones. */
static void become_victim(const DaemonFixture *daemon, int ready_fd) {
        const ShmPending pending = {};
        ProtoRequest request = PROTO_REQUEST_INIT;
        ProtoReply *reply;
        Tslab__EpochReserve body = TSLAB__EPOCH_RESERVE__INIT;
        RawClient client;
        uint64_t handle;

        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        raw_client_open(&client, daemon, 0);
        fill(&client.actor, 0);
        for (int i = 0; i < N_PENDING; i++)
                assert_int_equal(shm_object_alloc(&client.actor, 128, 0, &pending, &handle, NULL), 0);
        body.lease = true;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_RESERVE;
        request.epoch_reserve = &body;
        reply = daemon_call(client.call, &request, NULL);
        for (int i = 0; i < N_LEASED; i++)
                assert_int_equal(
                        shm_object_alloc(&client.actor, 64, reply->epoch_reserve->epoch, NULL, &handle, NULL),
                        0);
        (void) !write(ready_fd, &client.client, sizeof(client.client));
        for (;;)
                pause();
}

static void start_victim(Run *run) {
        int fds[2];

        assert_int_equal(pipe(fds), 0);
        run->victim = fork();
        assert_true(run->victim >= 0);
        if (run->victim == 0)
                become_victim(&run->daemon, fds[1]);
        close(fds[1]);
        assert_int_equal(read(fds[0], &run->victim_client, sizeof(run->victim_client)),
                         sizeof(run->victim_client));
        close(fds[0]);
}

/* ---- what is stepped through */

static void ask(Run *run, ProtoRequest *request) {
        int fds[2];

        assert_int_equal(pipe(fds), 0);
        run->caller = fork();
        assert_true(run->caller >= 0);
        if (run->caller == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                ProtoReply *reply = NULL;
                int r = proto_call(run->control, request, CALL_USEC, NULL, NULL, &reply, NULL);

                (void) !write(fds[1], &r, sizeof(r));
                _exit(0);
        }
        close(fds[1]);
        run->answer_fd = fds[0];
}

static bool is_answered(Run *run) {
        struct pollfd p = { .fd = run->answer_fd, .events = POLLIN };
        int r;

        if (poll(&p, 1, 0) == 0)
                return false;
        assert_int_equal(read(run->answer_fd, &r, sizeof(r)), sizeof(r));
        assert_int_equal(r, 0);
        close(run->answer_fd);
        assert_int_equal(waitpid(run->caller, NULL, 0), run->caller);
        return true;
}

static void begin_close_as(Run *run, bool revoke) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochClose body = TSLAB__EPOCH_CLOSE__INIT;

        body.revoke = revoke;
        body.wait_msec = 1;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
        request.epoch_close = &body;
        ask(run, &request);
}

static void begin_close(Run *run) {
        begin_close_as(run, false);
}

static void begin_revoke(Run *run) {
        begin_close_as(run, true);
}

static void begin_advance(Run *run) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochAdvance body = TSLAB__EPOCH_ADVANCE__INIT;

        request.body_case = TSLAB__REQUEST__BODY_EPOCH_ADVANCE;
        request.epoch_advance = &body;
        ask(run, &request);
}

static void begin_reclaim(Run *run) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Trim body = TSLAB__TRIM__INIT;

        request.body_case = TSLAB__REQUEST__BODY_TRIM;
        request.trim = &body;
        ask(run, &request);
}

static uint64_t n_free(const Run *run) {
        return run->self.arena.header->n_free.value;
}

/* Takes what is free, so that the reserve is short. */
static void begin_commit(Run *run) {
        uint64_t handle;

        run->self.actor.mode = SHM_CACHE_OFF;
        while ((int64_t) n_free(run) > 2) {
                assert_int_equal(shm_object_alloc(&run->self.actor, 256, 1, NULL, &handle, NULL), 0);
                run->n_live++;
        }
        run->n_free = n_free(run);
        shm_wake(&run->self.arena);
}

static bool is_committed(Run *run) {
        return n_free(run) > run->n_free;
}

static void begin_repair(Run *run) {
        assert_int_equal(kill(run->victim, SIGKILL), 0);
        assert_int_equal(waitpid(run->victim, NULL, 0), run->victim);
        run->victim = 0;
        run->n_live -= N_PENDING + N_LEASED;
}

static bool is_repaired(Run *run) {
        ShmClientInfo info;

        return shm_client_get(&run->self.arena, run->victim_client, &info) == -ENOENT;
}

static const Work works[] = {
        { "epoch close", begin_close, is_answered, false, false },
        { "epoch close beside a thread", begin_close, is_answered, true, false },
        { "epoch close --revoke", begin_revoke, is_answered, false, true },
        { "epoch advance", begin_advance, is_answered, false, false },
        { "reclaim", begin_reclaim, is_answered, false, false },
        { "commit", begin_commit, is_committed, false, false },
        { "repair", begin_repair, is_repaired, false, false },
};

#define N_WORKS (sizeof(works) / sizeof(works[0]))

/* ---- the next daemon, on a copy */

static void end_epochs(ShmActor *control) {
        ShmEpochInfo info;

        for (uint32_t id = 0; id < control->arena->n_epochs; id++) {
                ShmRevoke sweep = { .epoch = id };
                ShmDrain drain = { .epoch = id };

                assert_int_equal(shm_epoch_get(control->arena, id, &info), 0);
                if (info.state != SHM_EPOCH_CLOSING || !(info.flags & SHM_EPOCH_DRAIN))
                        continue;
                if (info.flags & SHM_EPOCH_REVOKE)
                        assert_true(shm_revoke_step(control, &sweep, UINT32_MAX));
                assert_int_equal(sweep.kept, 0);
                assert_true(shm_drain_step(control, &drain, UINT32_MAX - 64));
        }
}

/* As daemon/takeover.c has it done; of the thread that was inside an operation, that has come to its end. */
static void take_over(Run *run, ShmArena *arena) {
        static ShmFreeze freeze;
        ShmRepairCounts counts;
        ShmRepair repair = {};
        ShmActor control;

        shm_actor_init_daemon(&control, arena);
        control.record->seq += control.record->seq & 1;
        shm_actor_enter(&control);
        shm_repair_control(&control, &counts);
        shm_actor_leave(&control);
        run->counts.slots += counts.slots;
        run->counts.slabs += counts.slabs;
        assert_int_equal(counts.unsettled, 0);
        if (run->work->begin == begin_repair) {
                (void) shm_client_release_records(arena, run->victim_client);
                (void) shm_epoch_end_leases(arena, run->victim_client);
        }
        while (!shm_repair_step(&control, &repair, 3))
                ;
        assert_int_equal(repair.counts.unsettled, 0);
        shm_arena_record(arena, run->other.actor.id)->seq += run->work->inside;
        memset(&freeze, 0, sizeof(freeze));
        (void) shm_freeze_begin(&control, &freeze, UINT64_MAX);
        assert_int_equal(shm_freeze_step(&control, &freeze, UINT32_MAX), 0);
        end_epochs(&control);
}

static void check_clean(const Run *run, const ShmArena *arena) {
        ShmCheck c;

        assert_int_equal(shm_check(arena, &c), 0);
        if (c.problems == 0 && c.unsettled_slots == 0)
                return;
        for (size_t i = 0; i < c.n_texts; i++)
                print_error("%s, instruction %u: %s\n", run->work->name, run->n_instructions, c.texts[i]);
        print_error("%s, instruction %u: %d lost, %d doubled, %d unsettled, %d hints\n", run->work->name,
                    run->n_instructions, (int) c.lost_slots, (int) c.doubled_slots, (int) c.unsettled_slots,
                    (int) c.wrong_hints);
        fail();
}

static void use(const Run *run, ShmArena *arena) {
        uint64_t handles[SHM_CLASSES_MAX], n_live = world_count_live(arena);
        static ShmActor actor;

        assert_int_equal(shm_actor_init(&actor, arena, run->self.client, 4), 0);
        actor.mode = SHM_CACHE_ON;
        for (uint32_t i = 0; i < arena->n_classes; i++)
                assert_int_equal(
                        shm_object_alloc(&actor, arena->classes[i].size, USE_EPOCH, NULL, &handles[i], NULL),
                        0);
        assert_int_equal(world_count_live(arena), n_live + arena->n_classes);
        for (uint32_t i = 0; i < arena->n_classes; i++)
                assert_int_equal(shm_object_free(&actor, handles[i]), 0);
        check_clean(run, arena);
}

static void check_arena(Run *run, ShmArena *arena) {
        uint64_t n_live;

        take_over(run, arena);
        check_clean(run, arena);
        n_live = world_count_live(arena);
        if (n_live != run->n_live && !(run->work->frees && n_live + run->n_revocable == run->n_live)) {
                print_error("%s, instruction %u: %d objects of %d\n", run->work->name, run->n_instructions,
                            (int) n_live, (int) run->n_live);
                fail();
        }
        use(run, arena);
}

/* What the dead one gave back is somebody else's before the next comes, and must stay so. */
static void check_crowded_arena(Run *run, ShmArena *arena) {
        static uint64_t handles[CROWD_MAX];
        static ShmActor actor;
        uint32_t n = 0;

        assert_int_equal(shm_actor_init(&actor, arena, run->self.client, 5), 0);
        actor.mode = SHM_CACHE_OFF;
        while (n < CROWD_MAX && shm_object_alloc(&actor, 256, USE_EPOCH, NULL, &handles[n], NULL) == 0)
                n++;
        take_over(run, arena);
        check_clean(run, arena);
        for (uint32_t i = 0; i < n; i++)
                if (!shm_object_live(arena, handles[i])) {
                        print_error("%s, instruction %u: another's object was freed\n", run->work->name,
                                    run->n_instructions);
                        fail();
                }
}

/* ---- stepping */

static void attach(Run *run) {
        int status;

        assert_int_equal(ptrace(PTRACE_SEIZE, run->daemon.pid, NULL, NULL), 0);
        assert_int_equal(ptrace(PTRACE_INTERRUPT, run->daemon.pid, NULL, NULL), 0);
        assert_int_equal(waitpid(run->daemon.pid, &status, 0), run->daemon.pid);
        assert_true(WIFSTOPPED(status));
}

static void step(Run *run) {
        int status;

        assert_int_equal(ptrace(PTRACE_SINGLESTEP, run->daemon.pid, NULL, NULL), 0);
        assert_int_equal(waitpid(run->daemon.pid, &status, 0), run->daemon.pid);
        assert_true(WIFSTOPPED(status));
        assert_true(++run->n_instructions < STEPS_MAX);
}

/* About to wait for what comes next. */
static bool is_idle(const Run *run) {
        struct user_regs_struct regs;
        long code;

        assert_int_equal(ptrace(PTRACE_GETREGS, run->daemon.pid, NULL, &regs), 0);
        if (regs.rax != SYS_epoll_wait && regs.rax != SYS_epoll_pwait && regs.rax != SYS_epoll_pwait2)
                return false;
        code = ptrace(PTRACE_PEEKTEXT, run->daemon.pid, (void *) regs.rip, NULL);
        return (code & 0xffff) == 0x050f; /* syscall */
}

/* Slabs themselves are nobody's concern here, and may be holes. */
static size_t metadata_size(const ShmArena *arena) {
        return (size_t) (arena->slabs - arena->base);
}

static void look(Run *run) {
        const ShmArena *arena = &run->self.arena;
        size_t size = metadata_size(arena);

        if (memcmp(run->before.base, arena->base, size) == 0)
                return;
        memcpy(run->before.base, arena->base, size);
        memcpy(run->copy.base, arena->base, size);
        run->n_arenas++;
        check_arena(run, &run->copy);
        memcpy(run->copy.base, run->before.base, size);
        check_crowded_arena(run, &run->copy);
}

static void step_through(Run *run) {
        world_copy_init(&run->before, &run->self.arena);
        world_copy_init(&run->copy, &run->self.arena);
        check_arena(run, &run->copy);
        while (!run->work->is_over(run)) {
                step(run);
                look(run);
        }
        while (!is_idle(run)) {
                step(run);
                look(run);
        }
        world_copy_deinit(&run->before);
        world_copy_deinit(&run->copy);
}

/* ---- all of it */

static uint64_t count_epoch(const ShmArena *arena, uint32_t epoch) {
        uint64_t n = 0;

        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(arena); slab++)
                for (uint32_t i = 0;
                     slab_word_epoch(shm_slab_word(arena, slab)) == epoch && i < SHM_SLOTS_MAX; i++)
                        n += arena->tags[slab].tag[i] & 1;
        return n;
}

static void open_run(Run *run) {
        daemon_start(&run->daemon, (const char *[]){ "--size=512K", "--threads=6", "--epochs=6",
                                                     "--classes=64,128,256", "--log-level=err", NULL });
        raw_client_open(&run->self, &run->daemon, 0);
        raw_client_open(&run->other, &run->daemon, 0);
        run->control = daemon_connect(&run->daemon, 0);
        fill(&run->self.actor, 0);
        fill(&run->other.actor, 0);
        start_victim(run);
        usleep(50000); /* less is left to do beside */
        attach(run);
        run->n_live = world_count_live(&run->self.arena);
        run->n_revocable = count_epoch(&run->self.arena, 0);
}

static void close_run(Run *run) {
        assert_int_equal(ptrace(PTRACE_DETACH, run->daemon.pid, NULL, NULL), 0);
        if (run->victim != 0) {
                kill(run->victim, SIGKILL);
                assert_int_equal(waitpid(run->victim, NULL, 0), run->victim);
        }
        WAIT_FOR(is_repaired(run));
        check_clean(run, &run->self.arena);
        run->control = proto_call_free(run->control);
        raw_client_close(&run->self);
        raw_client_close(&run->other);
        daemon_stop(&run->daemon);
}

static void test_work(const Work *work, unsigned *n_all) {
        static Run run;

        run = (Run){ .work = work };
        open_run(&run);
        if (work->inside)
                shm_actor_enter(&run.other.actor);
        work->begin(&run);
        step_through(&run);
        if (work->inside)
                shm_actor_leave(&run.other.actor);
        close_run(&run);
        printf("%-30s %7u instructions, %5u arenas; of its own the dead left %llu slots, %llu slabs\n",
               work->name, run.n_instructions, run.n_arenas, (unsigned long long) run.counts.slots,
               (unsigned long long) run.counts.slabs);
        assert_true(run.n_instructions > 1000 && run.n_arenas > 0);
        *n_all += run.n_instructions;
}

static void test_every_instruction(void **state) {
        const char *only = getenv("TSLAB_TEST_OPERATION");
        unsigned n = 0;

        for (size_t i = 0; i < N_WORKS; i++)
                if (!only || !strcmp(only, works[i].name))
                        test_work(&works[i], &n);
        printf("%zu works of the daemon, %u instructions\n", N_WORKS, n);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_instruction),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
