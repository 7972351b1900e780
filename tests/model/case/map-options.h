/*
 * An actor loads the options of a map while another changes all of them twice, and may die. It loads all options of one
 * change, never a mixture, and a change that returned stays.
 */
#include "tests/model/map-world.h"

/* The n-th set of options: each is n. */
static ShmMapOptions set_of(uint32_t n) {
        return (ShmMapOptions){
                .limit_bytes = n, .ttl_ms = n, .stale_ms = n, .value_max = n, .evict = n & 1
        };
}

static bool is_set(const ShmMapOptions *options) {
        const ShmMapOptions set = set_of((uint32_t) options->ttl_ms);

        return options->limit_bytes == set.limit_bytes && options->ttl_ms == set.ttl_ms &&
               options->stale_ms == set.stale_ms && options->value_max == set.value_max &&
               options->evict == set.evict;
}

static void store_set(unsigned actor, uint32_t n) {
        const ShmMapOptions set = set_of(n);

        shm_map_options_store(trie_root(&map_tries[actor]), &set);
}

static void pre_set(void) {
        map_init(1, 0, MAP_HASH, MAP_HASH_FAR, 0);
        store_set(0, 1);
        map_ready(1);
}

static void t0_load(void) {
        const ShmMapOptions options = shm_map_options(&map_tries[0]);

        world.results[0] = is_set(&options) ? (int) options.ttl_ms : -EUCLEAN;
}

static void t1_store_twice(void) {
        world.results[1] = 1;
        store_set(1, 2);
        world.results[1] = 2;
        store_set(1, 3);
        world.results[1] = 3;
}

static void post_load(unsigned dead) {
        const ShmMapOptions options = shm_map_options(&map_tries[MODEL_ACTORS_MAX]);

        map_repair(dead);
        if (!is_set(&options))
                model_fail("the options are a mixture");
        if ((int) options.ttl_ms < world.results[1] || (int) options.ttl_ms > world.results[1] + 1)
                model_fail("change %d is over, the options are those of %d", world.results[1],
                           (int) options.ttl_ms);
        if (!(dead & 1) && (world.results[0] < 1 || world.results[0] > (int) options.ttl_ms))
                model_fail("loaded %d, the options are those of %d", world.results[0], (int) options.ttl_ms);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "options-load", .pre = pre_set, .actors = { t0_load, t1_store_twice },
          .post = post_load, .deaths = 1, .preemptions = 4, .full_preemptions = 6, .weak = true },
};
/* clang-format on */
