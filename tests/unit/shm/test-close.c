/* The job that follows the closing of an epoch: its table, and its rounds on a real arena with a clock of ours. */
#include "shm/maintain/close.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "shm/cache/cache-hit.h"
#include "shm/maintain/repair.h"
#include "shm/slab/slab.h"
#include "shm/epoch/epoch-close.h"
#include "tests/util/arena.h"
#include "tests/util/maintain.h"
#include "tests/util/process.h"
#include "tests/util/test.h"

#define ID 1
#define BEGIN UINT64_C(1000000) /* by the clock */
#define MSEC UINT64_C(1000)
#define SEC UINT64_C(1000000)

static struct {
        ShmClose close;
        ShmFreeze freeze;
        uint64_t now;
        uint64_t handle; /* an object of the epoch */
} job;

static int setup(void **state) {
        if (test_arena_setup(state))
                return -1;
        memset(&job, 0, sizeof(job));
        job.close.id = ID;
        job.now = BEGIN;
        job.handle = test_alloc(*state, 64, ID);
        return 0;
}

/* No edge. */
#define NONE (-1)
#define IDLE SHM_CLOSE_IDLE
#define EMPTY SHM_CLOSE_EMPTY
#define MARK SHM_CLOSE_MARK
#define COLLECT SHM_CLOSE_COLLECT
#define WALK SHM_CLOSE_WALK
#define WAIT SHM_CLOSE_WAIT

static void test_table(void **state) {
        static const int to[_SHM_CLOSE_STATE_N][_SHM_CLOSE_EV_N] = {
                /* START, EMPTIED, REVOKES, MARKED, UNFENCED, COLLECTED, WALKED, PENDING, WAKE, DUE */
                [IDLE] = { EMPTY, NONE, NONE, NONE, NONE, NONE, NONE, NONE, WAIT, NONE },
                [EMPTY] = { NONE, WALK, MARK, NONE, NONE, NONE, NONE, NONE, NONE, NONE },
                [MARK] = { NONE, NONE, NONE, COLLECT, WALK, NONE, NONE, NONE, NONE, NONE },
                [COLLECT] = { NONE, NONE, NONE, NONE, NONE, WALK, NONE, NONE, NONE, NONE },
                [WALK] = { EMPTY, NONE, NONE, NONE, NONE, NONE, IDLE, WAIT, NONE, NONE },
                [WAIT] = { EMPTY, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, EMPTY },
        };

        for (unsigned s = 0; s < _SHM_CLOSE_STATE_N; s++)
                for (unsigned event = 0; event < _SHM_CLOSE_EV_N; event++)
                        assert_int_equal(shm_edge_to(shm_close_edges, s, event), to[s][event]);
}

/* Steps */

static void close_epoch(TestArena *t, bool revokes) {
        assert_int_equal(shm_epoch_close(&t->arena, ID, true), 0);
        if (revokes)
                assert_int_equal(shm_epoch_revoke(&t->arena, ID, false), 0);
        (void) shm_freeze_begin(&t->control, &job.freeze, UINT64_C(1) << ID);
}

static void empty_caches(TestArena *t) {
        (void) shm_freeze_step(&t->control, &job.freeze, UINT32_MAX, UINT64_MAX);
}

static void step(TestArena *t) {
        assert_true(shm_close_is_ready(&job.close, true, job.now));
        shm_close_step(&job.close, &t->control, &job.freeze, &maintain_reach, job.now);
}

/* Until the state is left: to this one. */
static void step_to(TestArena *t, ShmCloseState state) {
        ShmCloseState before = job.close.state;

        for (int i = 0; i < 1000 && job.close.state == before; i++)
                step(t);
        assert_int_equal(job.close.state, state);
}

/* Turns the maintainer as long as it has work, now or at a later time. */
static void run(TestArena *t) {
        for (int i = 0; i < 1000 && job.close.state != IDLE; i++) {
                if (job.close.state == WAIT && job.close.due_usec > job.now)
                        job.now = job.close.due_usec;
                empty_caches(t);
                step(t);
        }
        assert_int_equal(job.close.state, IDLE);
}

static ShmEpochInfo info(TestArena *t) {
        ShmEpochInfo ret;

        assert_int_equal(shm_epoch_get(&t->arena, ID, &ret), 0);
        return ret;
}

static bool is_taken(const TestArena *t) {
        SlotId id = shm_handle_slot(job.handle);

        return shm_slab_word(&t->arena, slot_id_slab(id)).low & slot_id_mask(id);
}

static void test_round(void **state) {
        TestArena *t = *state;

        assert_false(shm_close_is_ready(&job.close, true, UINT64_MAX));
        close_epoch(t, false);
        shm_close_start(&job.close, job.now);
        assert_int_equal(job.close.state, EMPTY);
        assert_int_equal(job.close.n_starts, 1);
        assert_false(shm_close_is_ready(&job.close, false, UINT64_MAX));
        empty_caches(t);
        step_to(t, WALK);
        assert_true(shm_close_is_ready(&job.close, false, 0));
        step_to(t, IDLE);
        assert_int_equal(job.close.walked.n_left, 1);
        assert_int_equal(job.close.n_rounds, 1);
        assert_int_equal(job.close.n_walked, 1);
        assert_int_equal(job.close.n_settled, 1);
        assert_int_equal(job.close.objects, 0);
        assert_int_equal(job.close.reclaimed_size, 0);
        assert_int_equal(info(t).state, SHM_EPOCH_CLOSING);
        /* Its last object is freed: the slab drained. */
        assert_int_equal(shm_object_free(&t->actor, job.handle), 0);
        shm_close_wake(&job.close, job.now);
        run(t);
        assert_int_equal(job.close.walked.n_left, 0);
        assert_int_equal(job.close.n_rounds, 2);
        assert_int_equal(job.close.reclaimed_size, SHM_SLAB_SIZE);
        assert_int_equal(info(t).state, SHM_EPOCH_DRAINED);
}

static void test_round_revokes(void **state) {
        TestArena *t = *state;

        close_epoch(t, true);
        shm_close_start(&job.close, job.now);
        empty_caches(t);
        step_to(t, MARK);
        assert_true(shm_object_live(&t->arena, job.handle));
        assert_true(shm_close_is_ready(&job.close, false, 0));
        step_to(t, COLLECT);
        assert_false(shm_object_live(&t->arena, job.handle));
        assert_true(is_taken(t));
        assert_true(info(t).revoking);
        assert_true(shm_close_checks(&job.close));
        step_to(t, WALK);
        assert_false(shm_close_checks(&job.close));
        assert_false(is_taken(t));
        assert_false(info(t).revoking);
        step_to(t, IDLE);
        assert_int_equal(job.close.objects, 1);
        assert_int_equal(job.close.reclaimed_size, SHM_SLAB_SIZE);
        assert_int_equal(job.close.n_settled, 1);
        assert_int_equal(info(t).state, SHM_EPOCH_DRAINED);
        assert_int_equal(info(t).reclaimed_size, SHM_SLAB_SIZE);
}

/* A request while it is in some state */

/* Brings it there; WAIT: for a thread that is inside an operation. */
static void bring_to(TestArena *t, ShmCloseState state) {
        if (state == IDLE)
                return;
        if (state == WAIT)
                shm_actor_enter(&t->actor);
        close_epoch(t, state != WAIT);
        shm_close_start(&job.close, job.now);
        empty_caches(t);
        while (job.close.state != state)
                step(t);
}

static void begin_again(void **state) {
        assert_int_equal(test_arena_teardown(state), 0);
        assert_int_equal(setup(state), 0);
}

static void test_start(void **state) {
        static const struct {
                ShmCloseState to;
                unsigned n_rounds; /* when it is over */
        } table[_SHM_CLOSE_STATE_N] = {
                [IDLE] = { EMPTY, 1 }, [EMPTY] = { EMPTY, 1 }, /* one round for both */
                [MARK] = { MARK, 2 },  [COLLECT] = { COLLECT, 2 },
                [WALK] = { WALK, 2 },  [WAIT] = { EMPTY, 2 },
        };

        for (unsigned s = 0; s < _SHM_CLOSE_STATE_N; s++) {
                TestArena *t = *state;
                bool again = table[s].n_rounds == 2 && s != WAIT;

                bring_to(t, s);
                if (s == IDLE || s == WAIT)
                        close_epoch(t, true);
                job.close.wait_usec = 77;
                shm_close_start(&job.close, job.now);
                assert_int_equal(job.close.state, table[s].to);
                assert_int_equal(job.close.n_starts, s == IDLE ? 1 : 2);
                assert_int_equal(job.close.wait_usec, 20);
                if (s == WAIT)
                        shm_actor_leave(&t->actor);
                while (again && job.close.n_rounds == 0)
                        step(t);
                if (again) {
                        assert_int_equal(job.close.state, EMPTY);
                        assert_int_equal(job.close.n_walked, 1);
                        assert_int_equal(job.close.n_settled, 1);
                }
                run(t);
                assert_int_equal(job.close.n_rounds, table[s].n_rounds);
                assert_int_equal(job.close.n_walked, job.close.n_starts);
                assert_int_equal(job.close.n_settled, job.close.n_starts);
                assert_int_equal(info(t).state, SHM_EPOCH_DRAINED);
                begin_again(state);
        }
}

static void test_wake(void **state) {
        static const struct {
                ShmCloseState to;
                unsigned n_rounds;
        } table[_SHM_CLOSE_STATE_N] = {
                [IDLE] = { WAIT, 1 }, [EMPTY] = { EMPTY, 1 }, /* the round has not begun */
                [MARK] = { MARK, 2 }, [COLLECT] = { COLLECT, 2 }, [WALK] = { WALK, 2 }, [WAIT] = { WAIT, 2 },
        };

        for (unsigned s = 0; s < _SHM_CLOSE_STATE_N; s++) {
                TestArena *t = *state;
                uint64_t due;

                bring_to(t, s);
                due = job.close.due_usec;
                shm_close_wake(&job.close, job.now);
                assert_int_equal(job.close.state, table[s].to);
                assert_true(job.close.woken);
                assert_int_equal(job.close.n_starts, s == IDLE ? 0 : 1);
                if (s != IDLE)
                        assert_int_equal(job.close.due_usec, due);
                if (s == WAIT)
                        shm_actor_leave(&t->actor);
                run(t);
                assert_false(job.close.woken);
                assert_int_equal(job.close.n_rounds, table[s].n_rounds);
                assert_int_equal(job.close.n_settled, job.close.n_starts);
                begin_again(state);
        }
}

/* Waiting */

/* For a thread: later each time, and the round comes when it has moved on. */
static void test_pending(void **state) {
        TestArena *t = *state;

        bring_to(t, WAIT);
        assert_int_equal(job.close.n_pending, 1);
        assert_int_equal(job.close.n_walked, 1);
        assert_int_equal(job.close.n_settled, 0);
        assert_int_equal(info(t).state, SHM_EPOCH_CLOSING);
        assert_int_equal(job.close.due_usec, BEGIN + 20);
        for (uint64_t wait = 40; wait <= 200000; wait *= 2) {
                job.now = job.close.due_usec - 1;
                assert_false(shm_close_is_ready(&job.close, true, job.now));
                job.now++;
                step(t);
                assert_int_equal(job.close.state, WAIT);
                assert_int_equal(job.close.due_usec - job.now, wait < 100 * MSEC ? wait : 100 * MSEC);
        }
        assert_int_equal(job.close.n_rounds, 1);
        shm_actor_leave(&t->actor);
        job.now = job.close.due_usec;
        step_to(t, EMPTY);
        run(t);
        assert_int_equal(job.close.n_rounds, 2);
        assert_int_equal(job.close.n_settled, 1);
}

/* Slabs that drain while it waits: another round, though the thread is where it was. */
static void test_pending_woken(void **state) {
        TestArena *t = *state;

        bring_to(t, WAIT);
        job.now = job.close.due_usec;
        step(t);
        assert_int_equal(job.close.state, WAIT);
        job.close.due_usec = job.now + SEC;
        /* Not before the last walk has been over for a while. */
        shm_close_wake(&job.close, job.now);
        job.now = BEGIN + 10 * MSEC;
        assert_int_equal(job.close.due_usec, job.now);
        step_to(t, EMPTY);
        step_to(t, WALK);
        step_to(t, WAIT);
        assert_int_equal(job.close.n_rounds, 2);
        assert_int_equal(job.close.n_pending, 1);
        shm_actor_leave(&t->actor);
        run(t);
        assert_int_equal(job.close.n_settled, 1);
}

/* A round that was woken, not started, while there is such a thread: it waits as long as a started one. */
static void test_woken_pending(void **state) {
        TestArena *t = *state;

        shm_actor_enter(&t->actor);
        close_epoch(t, false);
        empty_caches(t);
        shm_close_wake(&job.close, job.now);
        step_to(t, EMPTY);
        step_to(t, WALK);
        step_to(t, WAIT);
        assert_int_equal(job.close.n_pending, 1);
        for (uint64_t wait = 40; wait <= 200000; wait *= 2) {
                assert_int_equal(job.close.due_usec - job.now, wait < 100 * MSEC ? wait : 100 * MSEC);
                job.now = job.close.due_usec;
                step(t);
                assert_int_equal(job.close.state, WAIT);
        }
        shm_actor_leave(&t->actor);
        run(t);
}

/* A slot in a thread's hand: rounds that rest in between, until the thread has put it down. */
static void test_kept(void **state) {
        TestArena *t = *state;

        assert_int_equal(shm_actor_note(&t->actor, job.handle, 0, 0), 0);
        bring_to(t, WALK);
        step_to(t, WAIT);
        assert_int_equal(job.close.n_pending, 0);
        assert_int_equal(job.close.revoke.kept, 1);
        assert_int_equal(job.close.n_settled, 0);
        assert_true(info(t).revoking);
        assert_true(is_taken(t));
        assert_int_equal(job.close.due_usec, BEGIN + 10 * MSEC);
        for (int i = 0; i < 15; i++) {
                job.now = job.close.due_usec;
                step_to(t, EMPTY);
                step_to(t, MARK);
                step_to(t, COLLECT);
                step_to(t, WALK);
                step_to(t, WAIT);
        }
        assert_int_equal(job.close.due_usec, job.now + SEC);
        assert_int_equal(job.close.n_rounds, 16);
        assert_int_equal(shm_actor_unnote(&t->actor, job.handle), 0);
        run(t);
        assert_int_equal(job.close.n_rounds, 17);
        assert_int_equal(job.close.objects, 1);
        assert_false(info(t).revoking);
        assert_int_equal(info(t).state, SHM_EPOCH_DRAINED);
}

/* A dead thread may have been about to add a slab: its repair comes before the last walk. */
static void test_unrepaired(void **state) {
        TestArena *t = *state;

        assert_int_equal(shm_object_free(&t->actor, job.handle), 0);
        close_epoch(t, false);
        empty_caches(t);
        assert_true(shm_record_mark_dead(&t->arena, t->actor.id));
        shm_close_start(&job.close, job.now);
        step_to(t, WALK);
        step_to(t, WAIT);
        assert_int_equal(job.close.n_pending, 0);
        assert_int_equal(job.close.n_settled, 0);
        assert_int_equal(info(t).state, SHM_EPOCH_CLOSING);
        assert_int_equal(maintain_repair(&t->control).records, 1);
        run(t);
        assert_int_equal(job.close.n_rounds, 2);
        assert_int_equal(info(t).state, SHM_EPOCH_DRAINED);
}

/*
 * After a walk it rests for ten times as long as the round took, within limits; slabs that drain meanwhile
 * change nothing.
 */
static void test_rest(void **state) {
        static const struct {
                uint64_t took, rest;
        } table[] = {
                { 0, 10 * MSEC },          { 999, 10 * MSEC },          { 1001, 10010 },
                { 30 * MSEC, 300 * MSEC }, { 999 * MSEC, 9990 * MSEC }, { 2 * SEC, 10 * SEC },
        };
        TestArena *t = *state;
        uint64_t over;

        close_epoch(t, false);
        empty_caches(t);
        for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
                shm_close_start(&job.close, job.now);
                step_to(t, WALK);
                job.now += table[i].took;
                step_to(t, IDLE);
                over = job.now;
                shm_close_wake(&job.close, over + 5);
                assert_int_equal(job.close.due_usec, over + table[i].rest);
                job.now = over + table[i].rest;
                step_to(t, EMPTY);
                step_to(t, WALK);
                step_to(t, IDLE);
                /* By then it has rested for long enough. */
                shm_close_wake(&job.close, job.now + 20 * SEC);
                assert_int_equal(job.close.due_usec, job.now + 20 * SEC);
        }
        /* Where two rounds follow without a pause, the second is measured by itself. */
        shm_close_start(&job.close, job.now);
        step_to(t, WALK);
        shm_close_start(&job.close, job.now);
        job.now += SEC / 2;
        step_to(t, EMPTY);
        step_to(t, WALK);
        job.now += 2 * MSEC;
        step_to(t, IDLE);
        assert_int_equal(job.close.rest_usec, 20 * MSEC);
}

/* Without membarrier */

static int refuse_membarrier(void) {
        struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* the number of the call */
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { .len = sizeof(filter) / sizeof(filter[0]), .filter = filter };

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0;
}

static void round_of(TestArena *t, ShmCloseState *ret, unsigned n) {
        for (unsigned i = 0; i < n; i++) {
                shm_close_step(&job.close, &t->control, &job.freeze, &maintain_reach, job.now);
                ret[i] = job.close.state;
        }
}

/* It fails after the tags are even: no slot goes back before all threads see that. */
static int without_membarrier(void *userdata) {
        TestArena *t = userdata;
        ShmCloseState s[5];
        uint64_t usec;

        CHECK(refuse_membarrier() == 0);
        CHECK(shm_membarrier() == -EPERM);
        CHECK(!shm_freeze_fence(&t->control, &usec));
        round_of(t, s, 2);
        CHECK(s[0] == WALK && s[1] == WAIT);
        CHECK(job.close.unfenced && job.close.n_settled == 0 && job.close.n_walked == 1);
        CHECK(!shm_object_live(&t->arena, job.handle) && is_taken(t));
        CHECK(job.close.due_usec == BEGIN + 10 * MSEC);
        job.now = job.close.due_usec;
        round_of(t, s, 4);
        CHECK(s[0] == EMPTY && s[1] == MARK && s[2] == WALK && s[3] == WAIT);
        /* Its only thread fences for itself from now on. */
        t->actor.record->flags |= SHM_RECORD_FENCES;
        CHECK(shm_freeze_fence(&t->control, &usec) && usec == 0);
        job.now = job.close.due_usec;
        round_of(t, s, 5);
        CHECK(s[0] == EMPTY && s[1] == MARK && s[2] == COLLECT && s[3] == WALK && s[4] == IDLE);
        CHECK(!is_taken(t));
        CHECK(!job.close.unfenced && job.close.n_settled == 1);
        return 0;
}

static void test_unfenced(void **state) {
        TestArena *t = *state;

        bring_to(t, MARK);
        assert_int_equal(test_child_run(TEST_FORK, without_membarrier, t), 0);
}

/* It fails as the freeze begins: threads that do not fence for themselves are pending until it works. */
static int freeze_without_membarrier(void *userdata) {
        TestArena *t = userdata;
        uint32_t n_pending;

        CHECK(refuse_membarrier() == 0);
        CHECK(shm_freeze_begin(&t->control, &job.freeze, UINT64_C(1) << ID) == -EPERM);
        CHECK(shm_freeze_step(&t->control, &job.freeze, UINT32_MAX, UINT64_MAX) == 1);
        CHECK(shm_freeze_left(&t->control, &job.freeze, ID, &n_pending) == 1 && n_pending == 1);
        t->actor.record->flags |= SHM_RECORD_FENCES;
        CHECK(shm_freeze_left(&t->control, &job.freeze, ID, &n_pending) == 1 && n_pending == 0);
        shm_actor_enter(&t->actor);
        CHECK(shm_freeze_begin(&t->control, &job.freeze, UINT64_C(1) << ID) == -EPERM);
        CHECK(shm_freeze_step(&t->control, &job.freeze, UINT32_MAX, UINT64_MAX) == 1);
        shm_actor_leave(&t->actor);
        CHECK(shm_freeze_step(&t->control, &job.freeze, UINT32_MAX, UINT64_MAX) == 0);
        CHECK(!(t->actor.record->attention & SHM_ATTENTION_FREEZE));
        return 0;
}

static void test_freeze_unfenced(void **state) {
        assert_int_equal(test_child_run(TEST_FORK, freeze_without_membarrier, *state), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(table),   TEST(round),         TEST(round_revokes),   TEST(start), TEST(wake),
                TEST(pending), TEST(pending_woken), TEST(woken_pending),   TEST(kept),  TEST(unrepaired),
                TEST(rest),    TEST(unfenced),      TEST(freeze_unfenced),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
