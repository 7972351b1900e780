/*
 * The process that covers a near cache, by storing the time until which copies are valid, dies or is stopped in the
 * middle of a call: it begins a cover, renews it, drops a copy or a claim, or ends the cover. After its death no copy
 * is covered for longer than it had stored, and another process begins anew. If it goes on after a stop, the time it
 * was about to store covers nothing. If one process is stopped as it begins, another one begins, too: one of them
 * covers. A process that is stopped in a fill, while the epoch of its claim ends, is told that the fill failed.
 *
 * The test stops the process at instructions; in long calls, whose parts tests/crash/test-daemon.c goes through, at
 * system calls. Every run tries some of them; with TSLAB_TEST_FULL=1 as many as STEPS_MAX allows.
 */
#include <tslab_near.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "libclient/pool/pool.h"
#include "shm/maintain/check.h"
#include "shm/near/cover.h"
#include "tests/crash/crash-trace.h"
#include "tests/util/test.h"

#define SHORT 12 /* steps of a call, each for a kill and a stop */
#define STEPS_MAX 1000000
#define FILL_STRIDE 16 /* instructions of a fill between two stops */
#define STOP_USEC 30000 /* longer than a tick of coarse clocks, by which covers are too short */
#define COVER_USEC UINT64_C(60000000)
#define LONGER_USEC UINT64_C(5000000)

typedef struct Run {
        const Operation *operation;
        bool is_long;
        Trace trace;
        struct tslab *pool;
        struct tslab_near *giver, *program; /* the first is the child's */
        uint64_t until_usec; /* as far as the child ever covers */
        struct tslab_near_claim claim; /* that of the key b */
        char buffer[64];
        unsigned n_steps;
} Run;

static Run run;

static uint64_t now_usec(clockid_t clock) {
        struct timespec now;

        (void) clock_gettime(clock, &now);
        return (uint64_t) now.tv_sec * 1000000 + (uint64_t) now.tv_nsec / 1000;
}

/* ---- in the child */

static int enter_nothing(World *world) {
        return tslab_near_drop(run.giver, "none", 4);
}

static int run_begin(World *world) {
        return tslab_near_begin(run.giver, NULL);
}

static int enter_cover(World *world) {
        return run_begin(world) ?: tslab_near_cover(run.giver, run.until_usec - LONGER_USEC);
}

static int run_cover(World *world) {
        return tslab_near_cover(run.giver, run.until_usec);
}

static int run_drop_copy(World *world) {
        return tslab_near_drop(run.giver, "a", 1);
}

static int run_drop_claim(World *world) {
        return tslab_near_drop(run.giver, "b", 1);
}

static int run_end(World *world) {
        return tslab_near_end(run.giver);
}

static const struct {
        Operation operation;
        bool is_long;
} calls[] = {
        { { "begin", .enter = enter_nothing, .run = run_begin }, true },
        { { "cover", .enter = enter_cover, .run = run_cover }, false },
        { { "drop a copy", .enter = enter_cover, .run = run_drop_copy }, false },
        { { "drop a claim", .enter = enter_cover, .run = run_drop_claim }, false },
        { { "end", .enter = enter_cover, .run = run_end }, true },
};

/* ---- in a program */

static ssize_t get(const char *key, struct tslab_near_claim *ret_claim) {
        return tslab_near_get(run.program, key, 1, run.buffer, sizeof(run.buffer), 0, ret_claim);
}

static void put_copy(const char *value) {
        struct tslab_near_claim claim;

        assert_int_equal(get("a", &claim), -ENOENT);
        assert_int_not_equal(claim.copy, 0);
        assert_int_equal(tslab_near_fill(run.program, "a", 1, &claim, NULL, value, strlen(value), 0), 0);
        assert_int_equal(get("a", &claim), strlen(value));
}

static bool begins(void) {
        return run.operation->run == run_begin;
}

/* No clock is covered for longer than the child has ever said. */
static void expect_bound(void) {
        const ShmArena *arena = &run.pool->arena;
        uint64_t left_ms = (run.until_usec - now_usec(CLOCK_BOOTTIME)) / 1000, handle;
        ShmCover cover;

        if (tslab_root_get(run.pool, "near.near", &handle) != 0 || shm_cover_load(arena, handle, &cover) != 0)
                return;
        assert_in_range(cover.until.monotonic_ms, 0, now_usec(CLOCK_MONOTONIC) / 1000 + left_ms);
        assert_in_range(cover.until.real_ms, 0, now_usec(CLOCK_REALTIME) / 1000 + left_ms);
}

static void expect_clean(void) {
        ShmCheck c;

        assert_int_equal(shm_check(&run.pool->arena, &c), 0);
        for (size_t i = 0; i < c.n_texts; i++)
                print_error("%s, step %u: %s\n", run.operation->name, run.n_steps, c.texts[i]);
        assert_int_equal(c.problems + c.in_flight_slots, 0);
}

/* ---- a case */

/* The child is about to make its call; there is a copy of "a" and a claim of "b". */
static void begin_case(void) {
        const struct tslab_options options = { .size = sizeof(options), .arena_bytes = 2 << 20 };

        assert_int_equal(tslab_create(&run.pool, &options), 0);
        assert_int_equal(tslab_near_open(&run.giver, run.pool, "near", NULL), 0);
        assert_int_equal(tslab_near_open(&run.program, run.pool, "near", NULL), 0);
        run.until_usec = now_usec(CLOCK_BOOTTIME) + COVER_USEC;
        trace_start(&run.trace, NULL, run.operation);
        if (begins())
                return;
        put_copy("old");
        assert_int_equal(get("b", &run.claim), -ENOENT);
        assert_int_not_equal(run.claim.copy, 0);
}

/* False: the call is over. */
static bool step(void) {
        int signal;

        return run.is_long ? trace_run(&run.trace, &signal) : trace_step(&run.trace);
}

static bool step_to(unsigned n) {
        for (run.n_steps = 0; run.n_steps < n; run.n_steps++)
                if (!step())
                        return false;
        return true;
}

static void end_case(void) {
        assert_null(tslab_near_close(run.program));
        assert_null(tslab_near_close(run.giver));
        assert_null(tslab_close(run.pool));
}

/* The child is dead: its copies go with it, and its place is free. */
static void expect_new_beginning(void) {
        struct tslab_near_claim claim;

        expect_bound();
        assert_true(tslab_reap(run.pool) >= 0);
        assert_int_equal(get("a", &claim), -ENOENT);
        assert_int_equal(claim.copy, 0);
        if (run.claim.copy)
                assert_int_equal(tslab_near_fill(run.program, "b", 1, &run.claim, NULL, "old", 3, 0),
                                 -EAGAIN);
        assert_int_equal(tslab_near_begin(run.giver, NULL), 0);
        assert_int_equal(tslab_near_cover(run.giver, run.until_usec), 0);
        put_copy("new");
        assert_int_equal(get("b", &claim), -ENOENT);
        assert_int_not_equal(claim.copy, 0);
        expect_clean();
}

static void kill_at(unsigned n) {
        begin_case();
        (void) step_to(n);
        trace_kill(&run.trace);
        expect_new_beginning();
        end_case();
}

/* The call has done all that it is for. */
static void expect_done(void) {
        struct tslab_near_claim claim;
        ssize_t n = get("a", &claim);

        assert_int_equal(run.trace.shared->result, 0);
        assert_int_equal(
                n, run.operation->run == run_cover || run.operation->run == run_drop_claim ? 3 : -ENOENT);
        assert_true((claim.copy != 0) == (run.operation->run == run_drop_copy));
        if (run.operation->run == run_drop_claim || run.operation->run == run_end)
                assert_int_equal(tslab_near_fill(run.program, "b", 1, &run.claim, NULL, "old", 3, 0),
                                 -EAGAIN);
        expect_bound();
}

static void stop_at(unsigned n) {
        struct tslab_near_claim claim;

        begin_case();
        if (step_to(n)) {
                (void) usleep(STOP_USEC);
                expect_bound();
                /* The cover ends before the work that takes long, and after a look at its giver. */
                if (begins() || (run.operation->run == run_end && n > 2))
                        assert_int_equal(get("a", &claim), -ENOENT);
                trace_finish(&run.trace);
        }
        expect_done();
        trace_kill(&run.trace);
        expect_new_beginning();
        end_case();
}

static unsigned count_steps(void) {
        begin_case();
        (void) step_to(UINT32_MAX);
        assert_int_equal(run.trace.shared->result, 0);
        trace_kill(&run.trace);
        end_case();
        return run.n_steps;
}

static void test_call(TraceShared *shared, const Operation *operation, bool is_long, bool full) {
        unsigned n, n_cases = 0;
        uint64_t stride;

        run = (Run){ .operation = operation, .is_long = is_long, .trace.shared = shared };
        n = count_steps();
        stride = full ? (uint64_t) n * n / STEPS_MAX + 1 : n / SHORT + 1;
        for (uint64_t i = stride / 2; i < n; i += stride, n_cases++) {
                kill_at((unsigned) i);
                stop_at((unsigned) i);
        }
        printf("%-14s %6u %s, killed and stopped at %u\n", operation->name, n,
               is_long ? "moments" : "instructions", n_cases);
        (void) fflush(stdout);
        assert_true(n_cases > 0);
}

/* ---- another process that begins */

static int begin_beside(unsigned n_moments, unsigned n_instructions) {
        int other;

        begin_case();
        if (step_to(n_moments))
                for (unsigned i = 0; i < n_instructions && trace_step(&run.trace); i++)
                        ;
        other = tslab_near_begin(run.program, NULL);
        trace_finish(&run.trace);
        assert_true(other == 0 || other == -EBUSY);
        assert_int_equal(run.trace.shared->result, other == 0 ? -EBUSY : 0);
        assert_int_equal(tslab_near_end(run.program), 0);
        trace_kill(&run.trace);
        expect_new_beginning();
        end_case();
        return other;
}

static void test_two_begin(void **state) {
        static const Operation begin = { "begin", .enter = enter_nothing, .run = run_begin };
        static const unsigned instructions[] = { 0, 50, 200, 800 };
        unsigned n;

        run = (Run){ .operation = &begin, .is_long = true, .trace.shared = trace_shared_new() };
        n = count_steps();
        for (unsigned i = 0; i <= n; i++)
                for (size_t k = 0; k < sizeof(instructions) / sizeof(instructions[0]); k++)
                        (void) begin_beside(i, instructions[k]);
}

/* ---- a process that stands still as it fills */

static int enter_fill(World *world) {
        (void) tslab_near_get(run.giver, "b", 1, run.buffer, sizeof(run.buffer), 0, &run.claim);
        return run.claim.copy != 0 ? 0 : -EAGAIN;
}

static int run_fill(World *world) {
        return tslab_near_fill(run.giver, "b", 1, &run.claim, NULL, "old", 3, 0);
}

/* The child's era cannot end while it is inside an operation. */
static bool is_inside(void) {
        const ShmArena *arena = &run.pool->arena;

        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++)
                if (shm_load_acq(&shm_arena_record(arena, i)->seq) & 1)
                        return true;
        return false;
}

static void begin_cover(void) {
        assert_int_equal(tslab_near_begin(run.program, NULL), 0);
        assert_int_equal(tslab_near_cover(run.program, run.until_usec), 0);
}

/*
 * The cover ends meanwhile, and another one has the next era of its epoch, before the fill goes on, or after it.
 * False: the fill takes fewer instructions.
 */
static bool fill_past(unsigned n_instructions, bool in_next_era) {
        struct tslab_near_claim claim;
        bool there = true;
        int r;

        run.until_usec = now_usec(CLOCK_BOOTTIME) + COVER_USEC;
        assert_int_equal(tslab_near_open(&run.program, run.pool, "near", NULL), 0);
        assert_int_equal(tslab_near_open(&run.giver, run.pool, "near", NULL), 0);
        begin_cover();
        trace_start(&run.trace, NULL, run.operation);
        for (unsigned i = 0; i < n_instructions && there; i++)
                there = trace_step(&run.trace) && !is_inside();
        if (there) {
                assert_int_equal(tslab_near_end(run.program), 0);
                if (in_next_era)
                        begin_cover();
                trace_finish(&run.trace);
                r = run.trace.shared->result;
                assert_true(r == 0 || r == -EAGAIN);
                if (!in_next_era)
                        begin_cover();
                assert_int_equal(get("b", &claim), -ENOENT);
                assert_int_not_equal(claim.copy, 0);
        }
        trace_kill(&run.trace);
        assert_true(tslab_reap(run.pool) >= 0);
        expect_clean();
        assert_null(tslab_near_close(run.giver));
        assert_null(tslab_near_close(run.program));
        return there;
}

static void test_cover_ends_as_a_process_fills(void **state) {
        static const Operation fill = { "fill", .enter = enter_fill, .run = run_fill };
        const struct tslab_options options = { .size = sizeof(options), .arena_bytes = 2 << 20 };
        unsigned n = 0;

        run = (Run){ .operation = &fill, .trace.shared = trace_shared_new() };
        assert_int_equal(tslab_create(&run.pool, &options), 0);
        while (fill_past(n, n / FILL_STRIDE % 2 == 0))
                n += FILL_STRIDE;
        printf("%-14s stopped at %u instructions\n", fill.name, n / FILL_STRIDE);
        assert_true(n > 0);
        assert_null(tslab_close(run.pool));
}

static void test_giver_dies_or_stands_still(void **state) {
        const char *full = getenv("TSLAB_TEST_FULL"), *only = getenv("TSLAB_TEST_OPERATION");
        TraceShared *shared = trace_shared_new();

        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
                if (!only || strcmp(only, calls[i].operation.name) == 0)
                        test_call(shared, &calls[i].operation, calls[i].is_long,
                                  full && *full && *full != '0');
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_giver_dies_or_stands_still),
                cmocka_unit_test(test_two_begin),
                cmocka_unit_test(test_cover_ends_as_a_process_fills),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
