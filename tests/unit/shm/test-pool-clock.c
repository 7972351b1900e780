/*
 * The pool's clock on clocks of the test's own: --wrap=clock_gettime. A reading takes a microsecond. The host may be
 * suspended, and the wall clock set, before any reading.
 */
#include "shm/clock/pool-clock.h"

#include "shm/arena/arena.h"
#include "shm/map/entry/expiry.h"
#include "tests/util/test.h"

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

#define TICK_NS (4 * SHM_NS_PER_MS)

static uint64_t monotonic_ns, suspended_ns, wall_ns; /* wall_ns: at boot */
static uint64_t n_readings, jump_at; /* the reading before which a jump comes; 0: none */
static uint64_t jump_suspended_ns, jump_wall_ns;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret) {
        uint64_t ns;

        if (++n_readings == jump_at) {
                suspended_ns += jump_suspended_ns;
                wall_ns += jump_suspended_ns + jump_wall_ns;
        }
        monotonic_ns += 1000;
        ns = monotonic_ns;
        if (clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_REALTIME_COARSE)
                ns -= ns % TICK_NS;
        ns += clock == CLOCK_BOOTTIME ? suspended_ns : 0;
        ns += clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? wall_ns : 0;
        *ret = (struct timespec){ .tv_sec = (time_t) (ns / SHM_NS_PER_S),
                                  .tv_nsec = (long) (ns % SHM_NS_PER_S) };
        return 0;
}

static int setup(void **state) {
        (void) state;
        shm_clock = (ShmClock){};
        monotonic_ns = 1000 * SHM_NS_PER_S;
        suspended_ns = 0;
        wall_ns = UINT64_C(1700000000) * SHM_NS_PER_S;
        jump_at = 0;
        jump_suspended_ns = jump_wall_ns = 0;
        return 0;
}

/* Reads the clock. It is right if it is the time at some moment of the call, by the last tick. */
static void check_clock(void) {
        uint64_t before = monotonic_ns + suspended_ns, now = shm_clock_ns(NULL), exact;

        assert_true(now + TICK_NS + SHM_NS_PER_MS > before);
        assert_true(now <= monotonic_ns + suspended_ns + SHM_NS_PER_MS);
        exact = shm_clock_exact_ns(NULL);
        assert_true(exact >= now);
        assert_true(exact <= monotonic_ns + suspended_ns + SHM_NS_PER_MS);
}

static void test_clock_suspended_before(void **state) {
        suspended_ns = 3600 * SHM_NS_PER_S;
        wall_ns += suspended_ns;
        check_clock();
        (void) state;
}

/* At whichever reading the jump comes: the first use, the next one, or one in a later tick. */
static void check_jump_at_each_reading(void) {
        uint64_t suspended = jump_suspended_ns, wall = jump_wall_ns;

        for (uint64_t at = 1; at < 40; at++)
                for (uint64_t ticks = 0; ticks < 2; ticks++) {
                        setup(NULL);
                        jump_suspended_ns = suspended;
                        jump_wall_ns = wall;
                        jump_at = n_readings + at;
                        for (uint32_t i = 0; i < 10; i++) {
                                check_clock();
                                monotonic_ns += ticks * TICK_NS;
                        }
                }
}

static void test_clock_suspension(void **state) {
        jump_suspended_ns = 3600 * SHM_NS_PER_S;
        check_jump_at_each_reading();
        (void) state;
}

/* The pool's clock goes on as before, to the nanosecond. */
static void test_clock_wall_clock_is_set(void **state) {
        uint64_t lead;

        check_clock();
        lead = shm_clock.lead.low;
        for (int64_t by = -1; by <= 1; by += 2) {
                wall_ns += (uint64_t) by * 5000 * SHM_NS_PER_S;
                check_clock();
                assert_true(shm_clock.lead.low == lead);
        }
        jump_wall_ns = -(uint64_t) 5000 * SHM_NS_PER_S;
        check_jump_at_each_reading();
        (void) state;
}

/* The wall clock is back at its old distance, but for a nanosecond. */
static void test_clock_suspended_and_set(void **state) {
        jump_suspended_ns = 3600 * SHM_NS_PER_S;
        jump_wall_ns = 1 - jump_suspended_ns;
        check_jump_at_each_reading();
        (void) state;
}

static void test_clock_reads_one_clock_in_a_tick(void **state) {
        uint64_t before;

        monotonic_ns -= monotonic_ns % TICK_NS;
        check_clock();
        (void) shm_clock_ns(NULL);
        before = n_readings;
        for (uint32_t i = 0; i < 10; i++)
                (void) shm_clock_ns(NULL);
        assert_int_equal(n_readings - before, 10);
        (void) state;
}

/*
 * A call that would fail does not wait for the next tick: at 4 ms a tick, a pool may be full by then of entries whose
 * time is over. A pass that begins so is not older than the tick says.
 */
static void test_entries_expire_within_a_tick(void **state) {
        static ShmHeader header;
        ShmArena arena = { .header = &header };
        uint64_t now_ms, tick_ms;

        monotonic_ns += TICK_NS - monotonic_ns % TICK_NS;
        tick_ms = shm_clock_ns(&arena) / SHM_NS_PER_MS;
        header.expiry = (ShmExpiry){ .first = tick_ms + 2, .begun = tick_ms };
        assert_false(shm_expiry_due(&arena, true, &now_ms));
        monotonic_ns += 3 * SHM_NS_PER_MS;
        assert_int_equal(shm_clock_ns(&arena) / SHM_NS_PER_MS, tick_ms);
        assert_false(shm_expiry_due(&arena, false, &now_ms));
        assert_true(shm_expiry_due(&arena, true, &now_ms));
        assert_int_equal(now_ms, tick_ms + 3);
        header.expiry = (ShmExpiry){ .first = tick_ms, .begun = tick_ms + 3 };
        assert_false(shm_expiry_due(&arena, false, &now_ms));
        header.expiry.begun = tick_ms + 1000; /* damage */
        assert_true(shm_expiry_due(&arena, false, &now_ms));
        (void) state;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(test_clock_suspended_before, setup),
                cmocka_unit_test_setup(test_clock_suspension, setup),
                cmocka_unit_test_setup(test_clock_wall_clock_is_set, setup),
                cmocka_unit_test_setup(test_clock_suspended_and_set, setup),
                cmocka_unit_test_setup(test_clock_reads_one_clock_in_a_tick, setup),
                cmocka_unit_test_setup(test_entries_expire_within_a_tick, setup),
        };

        return cmocka_run_group_tests_name("pool-clock", tests, NULL, NULL);
}
