/*
 * The wall clock is set by years, forward and back, for this process and not for the daemon: lifetimes, stale values,
 * claims, buckets and covers go by clocks that nobody sets, also after a new daemon has taken over the memory.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <tslab_near.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "tests/daemon/small-daemon.h"

#define YEAR (INT64_C(365) * 24 * 3600)
#define LONG_MS 600000U
#define SHORT_MS 50U
#define COVER_MS 1000

static int64_t wall_ahead; /* seconds */

/* In place of the C library's, for libtslab as well. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ret) {
        long r = syscall(SYS_clock_gettime, clock, ret);

        if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
                ret->tv_sec += wall_ahead;
        return (int) r;
}

typedef struct Fixture {
        DaemonFixture *daemon;
        struct tslab *pool;
        struct tslab_map *map;
} Fixture;

static void setup_map(Fixture *f, void *daemon) {
        const struct tslab_map_options options = { .size = sizeof(options), .stale_ms = LONG_MS };

        wall_ahead = 0;
        f->daemon = daemon;
        f->pool = small_daemon_open(daemon, 0);
        assert_int_equal(tslab_map_open(&f->map, f->pool, "clock", &options), 0);
}

static void teardown_map(Fixture *f) {
        wall_ahead = 0;
        assert_null(tslab_map_close(f->map));
        assert_null(tslab_close(f->pool));
}

static void put(Fixture *f, const char *key, uint64_t ttl_ms) {
        const struct tslab_map_put_options options = { .size = sizeof(options),
                                                       .epoch = TSLAB_EPOCH_CURRENT,
                                                       .ttl_ms = ttl_ms };

        assert_int_equal(tslab_map_put_with(f->map, key, strlen(key), "v", 1, &options), 0);
}

static ssize_t get(Fixture *f, const char *key, uint32_t accept, struct tslab_map_info *ret) {
        char buffer[8];

        *ret = (struct tslab_map_info){ .size = sizeof(*ret), .accept = accept };
        return tslab_map_get_with(f->map, key, strlen(key), buffer, sizeof(buffer), ret);
}

static void assert_long(Fixture *f) {
        struct tslab_map_info info;

        assert_int_equal(get(f, "long", 0, &info), 1);
        assert_in_range(info.ttl_left_ms, LONG_MS - 60000, LONG_MS);
}

/* Ends by its own clock, and is there as a stale value from then on. */
static void assert_short_ends(Fixture *f) {
        struct tslab_map_info info;

        WAIT_FOR(get(f, "short", 0, &info) == -ENOENT);
        assert_int_equal(get(f, "short", TSLAB_MAP_STALE, &info), 1);
        assert_true(info.flags & TSLAB_MAP_STALE);
}

/* A bucket of two, one a minute: empty for all that the wall clock says. */
static void assert_bucket_empty(Fixture *f) {
        uint64_t retry_ms;

        assert_int_equal(tslab_map_limit(f->map, "bucket", 6, 1.0 / 60, 2, 1, &retry_ms), 1);
        assert_in_range(retry_ms, 1, 60000);
}

static void assert_claim_stands(Fixture *f, tslab_handle claim) {
        tslab_handle seen;

        assert_int_equal(tslab_map_claim(f->map, "claim", 5, TSLAB_EPOCH_CURRENT, &seen), -EBUSY);
        assert_true(seen == claim);
}

/* The next daemon takes the memory from this process. */
static void adopt(Fixture *f) {
        char argument[32];

        (void) snprintf(argument, sizeof(argument), "--adopt=%d", (int) getpid());
        daemon_kill(f->daemon);
        daemon_restart(f->daemon, (const char *[]){ "--size=16M", "--log-level=warning", argument, NULL });
        assert_false(tslab_stale(f->pool));
}

static void test_clock_set(void **state) {
        static const int64_t years[] = { 10, -20, 100, -56 };
        tslab_handle claim;
        uint64_t retry_ms;
        Fixture f;

        setup_map(&f, *state);
        put(&f, "long", LONG_MS);
        assert_int_equal(tslab_map_limit(f.map, "bucket", 6, 1.0 / 60, 2, 2, &retry_ms), 0);
        for (size_t i = 0; i < sizeof(years) / sizeof(years[0]); i++) {
                wall_ahead = 0;
                put(&f, "short", SHORT_MS);
                assert_int_equal(tslab_map_claim(f.map, "claim", 5, TSLAB_EPOCH_CURRENT, &claim), 0);
                wall_ahead = years[i] * YEAR;
                assert_long(&f);
                assert_bucket_empty(&f);
                assert_claim_stands(&f, claim);
                assert_short_ends(&f);
                if (i % 2 == 0)
                        adopt(&f);
                assert_long(&f);
                assert_claim_stands(&f, claim);
                assert_int_equal(tslab_map_delete_version(f.map, "claim", 5, claim), 0);
                assert_int_equal(tslab_map_touch(f.map, "long", 4, LONG_MS), 0);
        }
        teardown_map(&f);
}

static int cover(struct tslab_near *near) {
        struct timespec now;

        (void) clock_gettime(CLOCK_BOOTTIME, &now);
        return tslab_near_cover(near,
                                (uint64_t) (now.tv_sec * 1000000 + now.tv_nsec / 1000 + COVER_MS * 1000));
}

/* Set ahead, a cover is over until it is given again; set back, it lasts no longer. */
static void test_clock_set_near(void **state) {
        struct tslab *pool = small_daemon_open(*state, 0);
        struct tslab_near *near;
        struct tslab_near_claim claim;
        char buffer[8];

        wall_ahead = 0;
        assert_int_equal(tslab_near_open(&near, pool, "near", NULL), 0);
        assert_int_equal(tslab_near_begin(near, NULL), 0);
        assert_int_equal(cover(near), 0);
        assert_int_equal(tslab_near_get(near, "k", 1, buffer, sizeof(buffer), 0, &claim), -ENOENT);
        assert_int_equal(tslab_near_fill(near, "k", 1, &claim, NULL, "v", 1, 0), 0);

        wall_ahead = YEAR;
        assert_int_equal(tslab_near_get(near, "k", 1, buffer, sizeof(buffer), 0, &claim), -ENOENT);
        assert_true(claim.copy == 0);
        assert_int_equal(cover(near), 0);
        assert_int_equal(tslab_near_get(near, "k", 1, buffer, sizeof(buffer), 0, &claim), 1);
        wall_ahead = -20 * YEAR;
        WAIT_FOR(tslab_near_get(near, "k", 1, buffer, sizeof(buffer), 0, &claim) == -ENOENT);
        assert_true(claim.copy == 0);
        assert_null(tslab_near_close(near));
        assert_null(tslab_close(pool));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_clock_set),
                cmocka_unit_test(test_clock_set_near),
        };

        return cmocka_run_group_tests(tests, small_daemon_setup, small_daemon_teardown);
}
