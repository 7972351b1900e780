/*
 * Counts of a map that were corrected beside changes, and are off by some of these: the daemon counts again when nobody
 * has changed the map for two seconds. In a private pool, a process that does control work has it counted.
 */
#include <tslab_map.h>

#include "libclient/map.h"
#include "proto/deadline.h"
#include "tests/daemon/small-daemon.h"

#define N_ENTRIES 10U
#define WRONG 5U /* entries that are not there */

static struct tslab_map *open_map(struct tslab *pool) {
        struct tslab_map *map;

        assert_int_equal(tslab_map_open(&map, pool, "map", NULL), 0);
        for (uint32_t i = 0; i < N_ENTRIES; i++)
                assert_int_equal(tslab_map_put(map, &i, sizeof(i), "v", 1, TSLAB_EPOCH_CURRENT), 0);
        return map;
}

/* As the end of a census beside changes leaves it. */
static void make_rough(struct tslab_map *map) {
        ShmHeader *header = map->pool->arena.header;
        ShmMapState *state = &header->maps[map->trie.map - 1];

        (void) shm_add_rlx(&state->counts[SHM_MAP_MISCOUNTED], WRONG);
        shm_store_rel(&state->roughly, SHM_MAP_ROUGH_BYTES | SHM_MAP_ROUGH_ENTRIES);
        (void) shm_add_acqrel(&header->n_miscounts, 1);
}

static uint64_t n_counted(struct tslab_map *map) {
        struct tslab_map_statistics s = { .size = sizeof(s) };

        assert_int_equal(tslab_map_statistics(map, &s), 0);
        return s.entries;
}

static void test_map_counts_daemon(void **state) {
        struct tslab *pool = small_daemon_open(*state, 0);
        struct tslab_map *map = open_map(pool);

        make_rough(map);
        assert_int_equal(n_counted(map), N_ENTRIES + WRONG);
        WAIT_FOR(n_counted(map) == N_ENTRIES);
        tslab_map_close(map);
        tslab_close(pool);
}

static void test_map_counts_private(void **state) {
        const struct tslab_options options = { .size = sizeof(options), .arena_bytes = 1 << 20 };
        struct tslab_map *map;
        struct tslab *pool;

        (void) state;
        assert_int_equal(tslab_create(&pool, &options), 0);
        map = open_map(pool);
        make_rough(map);
        WAIT_FOR(tslab_epoch_label(pool, TSLAB_EPOCH_CURRENT, "") == 0 && n_counted(map) == N_ENTRIES);
        tslab_map_close(map);
        tslab_close(pool);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_map_counts_daemon),
                cmocka_unit_test(test_map_counts_private),
        };

        return cmocka_run_group_tests(tests, small_daemon_setup, small_daemon_teardown);
}
