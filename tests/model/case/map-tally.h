/*
 * Threads add their tallies to the state of a map, with deaths. Either the totals are right, or the map is known to be
 * miscounted.
 */
#include "shm/map/state/tally.h"
#include "tests/model/world.h"

#define MAP 1 /* index + 1 of its root, as in a record */
#define OTHER 2
#define N 4 /* entries of 64 bytes: each thread counted two of them */

static void pre_tally(void) {
        world_init(1, 1, 0);
        for (unsigned i = 0; i < 2; i++)
                world_actor(i)->record->tally = (ShmMapTally){
                        .map = MAP,
                        .counts = { [SHM_MAP_INSERTS] = N / 2, [SHM_MAP_BYTES] = N / 2 * 64 },
                };
}

/* The other map gets an entry, which is in the tally from then on. */
static void turn(unsigned actor) {
        ShmTrie trie = { .arena = &world_arena, .map = OTHER };

        shm_tally_begin(world_actor(actor), &trie);
        shm_tally_add(world_actor(actor), &trie, SHM_MAP_INSERTS, 1);
        shm_tally_end(world_actor(actor), &trie);
}

static void t0_turn(void) {
        turn(0);
}

static void t1_turn(void) {
        turn(1);
}

static bool is_known(uint64_t map) {
        return world_actor(0)->record->map == map || world_actor(1)->record->map == map;
}

static void check_totals(uint64_t map, uint64_t entries, uint64_t bytes) {
        ShmMapTotals t;

        shm_map_counts(&world_arena, (uint32_t) map - 1, &t);
        if (!is_known(map) && (t.entries != entries || t.bytes != bytes))
                model_fail("map %lu: %lu entries, %lu bytes", (unsigned long) map, (unsigned long) t.entries,
                           (unsigned long) t.bytes);
}

static void post_tally(unsigned dead) {
        check_totals(MAP, N, N * 64);
        if (dead != 0)
                return;
        check_totals(OTHER, 2, 0);
        if (is_known(MAP) || is_known(OTHER))
                model_fail("a record names a map still");
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "turn-turn", .pre = pre_tally, .actors = { t0_turn, t1_turn },
          .post = post_tally, .deaths = 2, .preemptions = 3, .full_preemptions = 5, .weak = true },
};
/* clang-format on */
