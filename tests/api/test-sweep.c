/* Private pools: maps are swept in slices, by the process that revoked an epoch or by those that come after it. */
#include <tslab_map.h>

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/api/map-pool.h"
#include "tests/util/process.h"

#define N_KEPT 1000
#define N_REVOKED 60000
#define N_MORE 600000
#define LABEL "others work"

typedef struct Revoker {
        struct tslab *pool;
        struct tslab_map *map;
        bool dies, closes;
} Revoker;

typedef struct Later {
        struct tslab *pool;
        struct tslab_map *map;
        uint32_t first;
        int64_t offset; /* seconds that its clocks are ahead */
        int go;
} Later;

static int64_t time_offset;
static Revoker *resting; /* this process is looked at while it rests */
static unsigned n_turns; /* 1: another process did control work in a rest */

static int work(void *userdata) {
        const Revoker *revoker = userdata;

        if (tslab_epoch_label(revoker->pool, TSLAB_EPOCH_CURRENT, LABEL) == 0)
                return 0;
        tslab_close(revoker->pool); /* nobody has to reap it */
        return __LINE__;
}

/* The library calls this one. Its control work may rest with the lock, too. */
__attribute__((visibility("default"))) int nanosleep(const struct timespec *time, struct timespec *ret_left) {
        Revoker *revoker = resting;

        (void) ret_left;
        resting = NULL;
        if (revoker && test_child_run(TEST_FORK, work, revoker) == 0)
                n_turns++;
        if (n_turns > 0 && revoker && revoker->dies)
                (void) kill(getpid(), SIGKILL);
        resting = n_turns == 0 ? revoker : NULL;
        return clock_nanosleep(CLOCK_MONOTONIC, 0, time, NULL) == 0 ? 0 : -1;
}

static int put_some(struct tslab_map *map, uint32_t first, uint32_t n, uint32_t epoch, uint64_t ttl_ms) {
        struct tslab_map_put_options options = {
                .size = sizeof(options),
                .epoch = epoch,
                .ttl_ms = ttl_ms,
        };

        for (uint32_t i = first; i < first + n; i++)
                CHECK(tslab_map_put_with(map, &i, sizeof(i), "value", 5, &options) == 0);
        return 0;
}

static int fill_and_revoke(void *userdata) {
        Revoker *revoker = userdata;
        uint32_t epoch;
        int r;

        CHECK(tslab_epoch_lease(revoker->pool, "lease", &epoch) == 0);
        r = put_some(revoker->map, N_KEPT, N_REVOKED, epoch, TSLAB_MAP_TTL_NONE);
        if (r)
                return r;
        resting = revoker;
        if (revoker->closes)
                tslab_close(revoker->pool);
        else
                CHECK(tslab_epoch_close(revoker->pool, epoch, TSLAB_CLOSE_REVOKE) == 0);
        return n_turns == 1 ? 0 : __LINE__;
}

/* The library calls this one, and a process that is in another time namespace gets other times from the kernel. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ret) {
        if (syscall(SYS_clock_gettime, clock, ret) < 0)
                return -1;
        if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
                ret->tv_sec += time_offset;
        return 0;
}

static int revoke_later(void *userdata) {
        const Later *later = userdata;
        uint32_t epoch;
        char byte;
        int r;

        (void) alarm(20);
        do
                r = tslab_epoch_lease(later->pool, "lease", &epoch);
        while (r == -EBUSY);
        r = r ?: put_some(later->map, later->first, 1000, epoch, TSLAB_MAP_TTL_NONE);
        if (r)
                return r;
        CHECK(read(later->go, &byte, 1) == 1);
        time_offset = later->offset;
        do
                r = tslab_epoch_close(later->pool, epoch, TSLAB_CLOSE_REVOKE);
        while (r == -EBUSY);
        CHECK(r == 0);
        return 0;
}

static struct tslab_map *make_map(struct tslab *pool) {
        struct tslab_map *map;

        assert_int_equal(tslab_map_open(&map, pool, "map", NULL), 0);
        assert_int_equal(put_some(map, 0, N_KEPT, TSLAB_EPOCH_CURRENT, TSLAB_MAP_TTL_NONE), 0);
        return map;
}

static uint64_t n_entries(struct tslab_map *map) {
        struct tslab_map_statistics statistics = { .size = sizeof(statistics) };

        assert_int_equal(tslab_map_statistics(map, &statistics), 0);
        return statistics.entries;
}

static void test_others_work_between(void **state) {
        Revoker revoker = { .pool = *state, .map = make_map(*state) };

        assert_int_equal(test_child_run(TEST_FORK, fill_and_revoke, &revoker), 0);
        assert_int_equal(n_entries(revoker.map), N_KEPT);
        assert_int_equal(tslab_reap(revoker.pool), 2); /* the worker, too */
        assert_int_equal(tslab_map_close(revoker.map), 0);
}

static void test_others_work_beside_close(void **state) {
        Revoker revoker = { .pool = *state, .map = make_map(*state), .closes = true };

        assert_int_equal(test_child_run(TEST_FORK, fill_and_revoke, &revoker), 0);
        assert_int_equal(n_entries(revoker.map), N_KEPT);
        assert_int_equal(tslab_map_close(revoker.map), 0);
}

/* Nobody has the lock then: the rest is in the arena. */
static struct tslab_map *kill_between(struct tslab *pool) {
        Revoker revoker = { .pool = pool, .map = make_map(pool), .dies = true };

        assert_int_equal(test_child_run(TEST_FORK, fill_and_revoke, &revoker), -SIGKILL);
        assert_true(n_entries(revoker.map) > N_KEPT);
        return revoker.map;
}

static void test_reap_ends_sweep(void **state) {
        struct tslab_map *map = kill_between(*state);

        assert_int_equal(tslab_reap(*state), 2);
        assert_int_equal(n_entries(map), N_KEPT);
        assert_int_equal(tslab_map_close(map), 0);
}

static void test_next_revocation_ends_sweep(void **state) {
        struct tslab_map *map = kill_between(*state);
        uint32_t epoch;

        assert_int_equal(tslab_epoch_reserve(*state, "other", &epoch), 0);
        assert_true(n_entries(map) > N_KEPT);
        assert_int_equal(put_some(map, N_KEPT + N_REVOKED, 1, epoch, TSLAB_MAP_TTL_NONE), 0);
        assert_int_equal(tslab_epoch_close(*state, epoch, TSLAB_CLOSE_REVOKE), 0);
        assert_int_equal(n_entries(map), N_KEPT);
        assert_int_equal(tslab_map_close(map), 0);
}

static void test_writers_end_sweep(void **state) {
        struct tslab_map *map = kill_between(*state);

        for (unsigned i = 0; n_entries(map) > N_KEPT + 100; i++) {
                assert_true(i < 10000);
                assert_int_equal(put_some(map, i % 8, 1, TSLAB_EPOCH_CURRENT, 1), 0);
                sleep_ms(2);
        }
        assert_int_equal(tslab_map_close(map), 0);
}

/* Processes wait for the end of a sweep that takes dozens of slices, and their clocks differ by an hour. */
static void test_time_namespaces(void **state) {
        enum { N = 3 };
        struct tslab_map *map = make_map(*state);
        Later later[N];
        pid_t pids[N];
        int go[2];

        assert_int_equal(put_some(map, N_KEPT, N_MORE, TSLAB_EPOCH_CURRENT, TSLAB_MAP_TTL_NONE), 0);
        assert_int_equal(pipe(go), 0);
        for (unsigned i = 0; i < N; i++) {
                later[i] = (Later){ .pool = *state,
                                    .map = map,
                                    .first = (i + 1) * 1000000,
                                    .offset = i * 3600,
                                    .go = go[0] };
                pids[i] = test_child_start(TEST_FORK, revoke_later, &later[i]);
        }
        assert_int_equal(write(go[1], "123", N), N);
        for (unsigned i = 0; i < N; i++)
                assert_int_equal(test_child_wait(pids[i]), 0);
        assert_int_equal(n_entries(map), N_KEPT + N_MORE);
        (void) close(go[0]);
        (void) close(go[1]);
        assert_int_equal(tslab_map_close(map), 0);
}

static uint64_t committed(struct tslab *pool) {
        struct tslab_stats stats = { .size = sizeof(stats) };

        assert_int_equal(tslab_stats(pool, &stats), 0);
        return stats.committed_bytes;
}

/* The memory of a map that was removed goes back to the system, although the program only uses maps. */
static void test_removed_goes_back(void **state) {
        struct tslab_options options = { .size = sizeof(options),
                                         .arena_bytes = 64 << 20,
                                         .retain_bytes = 1 << 20 };
        char value[4000] = "";
        struct tslab_map *map;
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, &options), 0);
        assert_int_equal(tslab_map_open(&map, pool, "large", NULL), 0);
        for (uint32_t i = 0; i < 12000; i++)
                assert_int_equal(tslab_map_put(map, &i, sizeof(i), value, sizeof(value), TSLAB_EPOCH_CURRENT),
                                 0);
        tslab_map_close(map);
        assert_true(committed(pool) > 48000000);
        assert_int_equal(tslab_map_remove(pool, "large"), 0);
        assert_int_equal(tslab_map_open(&map, pool, "small", NULL), 0);
        for (uint32_t i = 0; committed(pool) > 8 << 20; i++) {
                assert_true(i < 5000); /* one trim in two seconds would take eight times as long */
                for (uint32_t key = 0; key < 100; key++)
                        assert_int_equal(
                                tslab_map_put(map, &key, sizeof(key), &i, sizeof(i), TSLAB_EPOCH_CURRENT), 0);
                nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
        }
        tslab_map_close(map);
        tslab_close(pool);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, map_pool_setup, map_pool_teardown)

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_removed_goes_back),
                TEST(others_work_between),
                TEST(others_work_beside_close),
                TEST(reap_ends_sweep),
                TEST(next_revocation_ends_sweep),
                TEST(writers_end_sweep),
                TEST(time_namespaces),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
