/*
 * A process dies, or is stopped, while it takes or gives back a reference to an epoch. The last process that gives one
 * back is told so, whichever era the other process was after. A reference that is noted counts until its process is
 * dead.
 *
 * Every run tries some instructions of the call; with TSLAB_TEST_FULL=1 all of them.
 */
#include <tslab.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/crash/crash-trace.h"
#include "tests/util/test.h"

#define N_EPOCHS 2
#define STRIDE 5 /* instructions between two meetings */

static struct tslab *pool;
static uint32_t first; /* the number that the child has */

/* ---- in the child */

static int attach(World *world) {
        tslab_handle handle;
        int r;

        r = tslab_alloc(pool, 64, first, &handle, NULL);
        return r ?: tslab_free(pool, handle);
}

static int take(World *world) {
        return tslab_epoch_ref(pool, first);
}

static int attach_take(World *world) {
        return attach(world) ?: take(world);
}

static int give_back(World *world) {
        return tslab_epoch_unref(pool, first);
}

static const Operation taking = { "taking", .enter = attach, .run = take };
static const Operation giving_back = { "giving back", .enter = attach_take, .run = give_back };

/* ---- in the test */

static void pool_make(void) {
        struct tslab_options options = {
                .size = sizeof(options),
                .arena_bytes = UINT64_C(1) << 20,
                .n_threads = 8,
                .n_epochs = N_EPOCHS,
        };

        assert_int_equal(tslab_create(&pool, &options), 0);
        assert_int_equal(tslab_epoch_current(pool, &first), 0);
}

/* Starts the child, which stands still after `n` instructions of the call. False: the call was over before. */
static bool stop_at(Trace *trace, const Operation *operation, unsigned n) {
        pool_make();
        trace_start(trace, NULL, operation);
        for (unsigned i = 0; i < n; i++)
                if (!trace_step(trace))
                        return false;
        return true;
}

/* The child is gone. */
static void expect_none(uint32_t number) {
        assert_int_equal(tslab_reap(pool), 1);
        assert_int_equal(tslab_epoch_refs(pool, number), 0);
        assert_null(tslab_close(pool));
}

/* The same id, opened anew. */
static uint32_t next_era(void) {
        uint32_t number;

        do
                assert_int_equal(tslab_epoch_advance(pool, &number), 0);
        while ((number & 0xff) != (first & 0xff));
        return number;
}

static void come_and_go(uint32_t number, int n_others) {
        assert_int_equal(tslab_epoch_refs(pool, number), n_others);
        assert_int_equal(tslab_epoch_ref(pool, number), 0);
        assert_int_equal(tslab_epoch_refs(pool, number), n_others + 1);
        assert_int_equal(tslab_epoch_unref(pool, number), n_others);
}

/* Its epoch is opened anew meanwhile. Nobody waits for it, and it counts for nobody wherever it stands still again. */
static bool meet_next_era(Trace *trace, const Operation *operation, unsigned n) {
        bool inside = stop_at(trace, operation, n);
        uint32_t number = next_era();

        come_and_go(number, 0);
        for (bool goes_on = inside; goes_on; goes_on = trace_step(trace))
                assert_int_equal(tslab_epoch_refs(pool, number), 0);
        assert_true(trace->shared->result == 0 || trace->shared->result == -ESTALE);
        come_and_go(number, 0);
        trace_kill(trace);
        expect_none(number);
        return inside;
}

/* In its own era: it counts or not, and then for sure. */
static bool meet_same_era(Trace *trace, const Operation *operation, unsigned n) {
        bool inside = stop_at(trace, operation, n);
        int n_others = tslab_epoch_refs(pool, first);

        assert_in_range(n_others, 0, 1);
        come_and_go(first, n_others);
        if (inside)
                trace_finish(trace);
        assert_int_equal(trace->shared->result, 0);
        come_and_go(first, operation == &taking);
        trace_kill(trace);
        expect_none(first);
        return inside;
}

/* Both are about to leave: one of them is told that it is the last. */
static bool leave_both(Trace *trace, const Operation *operation, unsigned n) {
        bool inside;
        int told;

        pool_make();
        assert_int_equal(tslab_epoch_ref(pool, first), 0);
        trace_start(trace, NULL, operation);
        for (inside = true; n > 0 && inside; n--)
                inside = trace_step(trace);
        told = tslab_epoch_unref(pool, first);
        assert_in_range(told, 0, 1);
        if (inside)
                trace_finish(trace);
        assert_in_range(trace->shared->result, 0, 1);
        assert_true(told == 0 || trace->shared->result == 0);
        trace_kill(trace);
        expect_none(first);
        return inside;
}

static bool die(Trace *trace, const Operation *operation, unsigned n) {
        bool inside = stop_at(trace, operation, n);

        trace_kill(trace);
        expect_none(first);
        return inside;
}

typedef bool (*Meet)(Trace *, const Operation *, unsigned);

static void meet_everywhere(const char *name, const Operation *operation, Meet meet) {
        const char *full = getenv("TSLAB_TEST_FULL");
        unsigned n = 0, stride = full && *full && *full != '0' ? 1 : STRIDE;
        Trace trace = { .shared = trace_shared_new() };

        while (meet(&trace, operation, n))
                n += stride;
        printf("%s, %s: met at each %u of %u instructions\n", operation->name, name, stride, n);
        assert_true(n > 50);
        munmap(trace.shared, sizeof(*trace.shared));
}

static void test_ref_next_era(void **state) {
        meet_everywhere("the next era", &taking, meet_next_era);
}

static void test_ref_same_era(void **state) {
        meet_everywhere("the same era", &taking, meet_same_era);
}

static void test_ref_death(void **state) {
        meet_everywhere("a death", &taking, die);
}

static void test_unref_next_era(void **state) {
        meet_everywhere("the next era", &giving_back, meet_next_era);
}

static void test_unref_same_era(void **state) {
        meet_everywhere("the same era", &giving_back, meet_same_era);
}

static void test_unref_both(void **state) {
        meet_everywhere("the other leaves, too", &giving_back, leave_both);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_ref_next_era),   cmocka_unit_test(test_ref_same_era),
                cmocka_unit_test(test_ref_death),      cmocka_unit_test(test_unref_next_era),
                cmocka_unit_test(test_unref_same_era), cmocka_unit_test(test_unref_both),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
