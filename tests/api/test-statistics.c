/* The library's figures of a pool, a class, an epoch and a thread. */
#include <tslab.h>
#include <tslab_map.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/util/process.h"
#include "tests/util/test.h"

static struct tslab *create(void) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 1 << 20 };
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, &options), 0);
        return pool;
}

static struct tslab_stats stats_of(struct tslab *pool) {
        struct tslab_stats stats = { .size = sizeof(stats) };

        assert_int_equal(tslab_stats(pool, &stats), 0);
        return stats;
}

static void test_stats(void **state) {
        struct tslab *pool = create();
        tslab_handle handles[100];
        struct tslab_stats stats;

        (void) state;
        assert_int_equal(tslab_alloc_batch(pool, 100, TSLAB_EPOCH_CURRENT, handles, 100), 100);
        stats = stats_of(pool);
        assert_int_equal(stats.size, sizeof(stats));
        assert_int_equal(stats.live_objects, 100);
        assert_int_equal(stats.live_bytes, 100 * 112);
        assert_int_equal(stats.allocs, 100);
        assert_int_equal(stats.frees, 0);
        assert_true(stats.committed_bytes >= 4 * 4096 && stats.slabs_taken >= 4 && stats.refills > 0);
        assert_int_equal(tslab_free_batch(pool, handles, 100), 100);
        assert_int_equal(tslab_drain(pool), 0);
        stats = stats_of(pool);
        assert_int_equal(stats.live_objects, 0);
        assert_int_equal(stats.cached_objects, 0);
        assert_int_equal(stats.frees, 100);
        assert_int_equal(stats.retained_bytes, stats.committed_bytes);
        assert_int_equal(stats.slabs_recycled, stats.slabs_taken);
        assert_true(stats.refilled_slots > 0 && stats.slabs_filled > 0);
        assert_int_equal(stats.frees_stale, 0);
        for (int i = 0; i < 5; i++)
                assert_int_equal(tslab_free(pool, handles[i]), -ESTALE);
        assert_int_equal(stats_of(pool).frees_stale, 5);
        while (tslab_alloc(pool, 768, TSLAB_EPOCH_CURRENT, handles, NULL) == 0)
                ;
        assert_true(stats_of(pool).failures > 0);
        tslab_close(pool);
}

/* A pool with classes of its own: the largest size is theirs, and one byte more is refused. */
static void test_size_and_place(void **state) {
        struct tslab_options options = {
                .size = sizeof(options), .arena_bytes = 1 << 20, .n_classes = 2, .classes = { 64, 208 }
        };
        struct tslab *pool, *other = create();
        tslab_handle handle;
        uint8_t *object;
        void *first;

        (void) state;
        assert_int_equal(tslab_create(&pool, &options), 0);
        assert_int_equal(tslab_size_max(pool), 208);
        assert_int_equal(tslab_alloc(pool, 208, TSLAB_EPOCH_CURRENT, &handle, &first), 0);
        assert_int_equal(tslab_alloc(pool, 209, TSLAB_EPOCH_CURRENT, &handle, NULL), -E2BIG);
        assert_int_equal(tslab_capacity(pool), 1 << 20);
        object = first;
        assert_true(tslab_contains(pool, object) && tslab_contains(pool, object + 207));
        assert_false(tslab_contains(other, object));
        assert_false(tslab_contains(pool, NULL) || tslab_contains(pool, &handle));
        assert_int_equal(tslab_free(pool, handle), 0);
        assert_true(tslab_contains(pool, object));
        tslab_close(pool);
        tslab_close(other);
}

static void test_counts(void **state) {
        struct tslab_count count = { .size = sizeof(count) };
        struct tslab *pool = create();
        uint32_t first, second;
        tslab_handle handle;

        (void) state;
        assert_int_equal(tslab_epoch_current(pool, &first), 0);
        assert_int_equal(tslab_alloc(pool, 100, first, &handle, NULL), 0);
        assert_int_equal(tslab_alloc(pool, 700, first, &handle, NULL), 0);
        assert_int_equal(tslab_class_stats(pool, 700, &count), 0);
        assert_int_equal(count.live_objects, 1);
        assert_int_equal(count.live_bytes, 816);
        assert_int_equal(tslab_class_stats(pool, 64, &count), 0);
        assert_int_equal(count.live_objects, 0);
        assert_int_equal(tslab_class_stats(pool, 0, &count), -EINVAL);
        assert_int_equal(tslab_class_stats(pool, 4097, &count), -E2BIG);

        assert_int_equal(tslab_epoch_advance(pool, &second), 0);
        assert_int_equal(tslab_epoch_stats(pool, first, &count), 0);
        assert_int_equal(count.live_objects, 2);
        assert_true(count.slabs >= 2); /* threads hold slots in advance */
        assert_int_equal(tslab_epoch_stats(pool, TSLAB_EPOCH_CURRENT, &count), 0);
        assert_int_equal(count.live_objects, 0);
        assert_int_equal(tslab_epoch_stats(pool, 99, &count), -EINVAL);
        assert_int_equal(tslab_epoch_stats(pool, first + 256, &count), -ESTALE);
        tslab_close(pool);
}

static int count_own(void *userdata) {
        struct tslab_thread_stats stats = { .size = sizeof(stats) };
        struct tslab *pool = userdata;
        tslab_handle handle;

        CHECK(tslab_thread_stats(pool, &stats) == 0 && stats.allocs == 0 && stats.is_shared == 0);
        for (int i = 0; i < 10; i++)
                CHECK(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
        CHECK(tslab_free(pool, handle) == 0);
        CHECK(tslab_thread_stats(pool, &stats) == 0);
        CHECK(stats.allocs == 10 && stats.frees == 1 && stats.failures == 0);
        CHECK(stats.alloc_hits == 10 && stats.refills >= 1 && stats.refills <= 3);
        return 0;
}

#define N_SLABS 512
#define PER_SLAB 64

/* One object of each slab, then the next of each: a cache does not pay, and is bypassed. */
static void test_bypassed(void **state) {
        struct tslab_thread_stats own = { .size = sizeof(own) };
        struct tslab_stats all = { .size = sizeof(all) };
        tslab_handle *handles = calloc(N_SLABS * PER_SLAB, sizeof(*handles));
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 16 << 20 };
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, &options), 0);
        assert_int_equal(tslab_alloc_batch(pool, 64, TSLAB_EPOCH_CURRENT, handles, N_SLABS * PER_SLAB),
                         N_SLABS * PER_SLAB);
        for (uint32_t i = 0; i < PER_SLAB; i++)
                for (uint32_t slab = 0; slab < N_SLABS; slab++)
                        assert_int_equal(tslab_free(pool, handles[slab * PER_SLAB + i]), 0);
        assert_int_equal(tslab_thread_stats(pool, &own), 0);
        assert_int_equal(tslab_stats(pool, &all), 0);
        assert_true(own.bypass_windows > 0 && own.free_bypassed > 0);
        assert_int_equal(own.bypass_windows, all.bypass_windows);
        assert_int_equal(own.free_bypassed, all.free_bypassed);
        assert_int_equal(own.alloc_bypassed, all.alloc_bypassed);
        free(handles);
        tslab_close(pool);
}

/* Requests that no class, or no map, has room for. */
static void test_too_large(void **state) {
        struct tslab_stats stats = { .size = sizeof(stats) };
        struct tslab *pool = create();
        static char value[2000000];
        struct tslab_map *map;
        tslab_handle handle;

        (void) state;
        assert_int_equal(tslab_alloc(pool, 5000, TSLAB_EPOCH_CURRENT, &handle, NULL), -E2BIG);
        assert_int_equal(tslab_alloc(pool, 4097, TSLAB_EPOCH_CURRENT, &handle, NULL), -E2BIG);
        assert_int_equal(tslab_map_open(&map, pool, "map", NULL), 0);
        assert_int_equal(tslab_map_put(map, "key", 3, value, sizeof(value), TSLAB_EPOCH_CURRENT), -E2BIG);
        assert_int_equal(tslab_stats(pool, &stats), 0);
        assert_int_equal(stats.too_large, 2);
        assert_int_equal(stats.too_large_bytes, 5000);
        assert_int_equal(stats.values_too_large, 1);
        assert_true(stats.values_too_large_bytes > sizeof(value));
        assert_int_equal(stats.failures, 0);
        tslab_map_close(map);
        tslab_close(pool);
}

/* From a record that others had before, a thread gets only the counts since then. */
static void test_thread_stats(void **state) {
        struct tslab *pool = create();

        (void) state;
        for (int i = 0; i < 3; i++) {
                assert_int_equal(test_child_run(TEST_FORK, count_own, pool), 0);
                assert_int_equal(tslab_reap(pool), 1);
        }
        assert_int_equal(count_own(pool), 0);
        tslab_close(pool);
}

/* The slow way: 1000 objects take some hundred refills and flushes, each second one timed. */
static void test_slow(void **state) {
        struct tslab_options options = { .size = sizeof(options), .time_slow = 2 };
        struct tslab_thread_stats stats = { .size = sizeof(stats) };
        static tslab_handle handles[1000];
        struct tslab *pool;

        (void) state;
        assert_int_equal(tslab_create(&pool, &options), 0);
        for (int i = 0; i < 1000; i++)
                assert_int_equal(tslab_alloc(pool, 700, TSLAB_EPOCH_CURRENT, &handles[i], NULL), 0);
        for (int i = 0; i < 1000; i++)
                assert_int_equal(tslab_free(pool, handles[i]), 0);
        assert_int_equal(tslab_thread_stats(pool, &stats), 0);
        assert_true(stats.slow_allocs >= stats.refills && stats.slow_allocs > 2);
        assert_int_equal(stats.slow_allocs_timed, stats.slow_allocs / 2);
        assert_true(stats.slow_alloc_max_ns > 0 && stats.slow_alloc_max_ns <= stats.slow_allocs_ns);
        assert_true(stats.slow_frees > 2);
        assert_int_equal(stats.slow_frees_timed, stats.slow_frees / 2);
        assert_true(stats.slow_free_max_ns > 0 && stats.slow_free_max_ns <= stats.slow_frees_ns);
        tslab_close(pool);
        options.time_slow = 0;
        assert_int_equal(tslab_create(&pool, &options), 0);
        assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handles[0], NULL), 0);
        assert_int_equal(tslab_thread_stats(pool, &stats), 0);
        assert_int_equal(stats.slow_allocs, 1);
        assert_int_equal(stats.slow_allocs_timed, 0);
        tslab_close(pool);
}

/* The struct of a program that knows fewer fields, or more. */
static void test_sizes(void **state) {
        struct {
                struct tslab_stats known;
                uint64_t later;
        } stats = { .known.size = sizeof(stats), .later = 7 };
        struct tslab *pool = create();

        (void) state;
        assert_int_equal(tslab_stats(pool, &stats.known), 0);
        assert_int_equal(stats.known.size, sizeof(stats));
        assert_int_equal(stats.later, 0);
        memset(&stats, 0xff, sizeof(stats));
        stats.known.size = offsetof(struct tslab_stats, cached_objects);
        assert_int_equal(tslab_stats(pool, &stats.known), 0);
        assert_int_equal(stats.known.live_objects, 0);
        assert_int_equal(stats.known.cached_objects, UINT64_MAX);
        stats.known.size = 8;
        assert_int_equal(tslab_stats(pool, &stats.known), -EINVAL);
        tslab_close(pool);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_stats),          cmocka_unit_test(test_counts),
                cmocka_unit_test(test_thread_stats),   cmocka_unit_test(test_slow),
                cmocka_unit_test(test_bypassed),       cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_size_and_place), cmocka_unit_test(test_too_large),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
