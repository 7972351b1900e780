#pragma once
/* The small map for cases of words that change in place: counters, and expiry by a clock that is an arena's word. */
#include "shm/map/entry/cell.h"
#include "shm/map/entry/expiry.h"
#include "shm/map/entry/map-sweep.h"
#include "shm/map/entry/take.h"
#include "shm/arena/root.h"
#include "tests/model/map-world.h"

#define END 100U /* the end of the entry that is there before */

static inline uint64_t clock_ns(const ShmArena *arena) {
        return shm_load_rlx(&arena->header->expiry.unused[0]) * SHM_NS_PER_MS;
}

static inline void set_clock(uint64_t ms) {
        shm_store_rlx(&world_arena.header->expiry.unused[0], ms);
}

/* The sum, or an error. */
static inline int add_to(unsigned actor, unsigned k, int64_t delta) {
        const ShmMapAdd add = { .delta = delta };
        ShmMapKey key = map_key(k);
        int64_t sum = 0;
        int r;

        r = shm_map_add(world_actor(actor), &map_tries[actor], &key, &add, &sum);
        return r ?: (int) sum;
}

static inline ShmMapView view_of(unsigned k) {
        ShmMapKey key = map_key(k);
        ShmMapView view = {};
        ShmTrieCursor c;

        if (shm_map_find(&map_tries[MODEL_ACTORS_MAX], &key, &c, &view) != 0)
                view.handle = 0;
        return view;
}

/* 0: absent. */
static inline int64_t sum_of(unsigned k) {
        ShmMapKey key = map_key(k);
        int64_t sum = 0;

        (void) shm_map_get(&map_tries[MODEL_ACTORS_MAX], &key, &sum, sizeof(sum), NULL);
        return sum;
}

static inline void init(void) {
        map_init(1, 0, MAP_HASH, MAP_HASH_FAR, 0);
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                map_tries[i].now_ns = map_tries[i].exact_ns = clock_ns;
        set_clock(0);
}

/* The map has a name, by which a pass finds it; nothing is counted. */
static inline void init_named(void) {
        init();
        map_must(shm_root_set(&world_arena, "map", 0, map_root));
}

static inline void note_map(unsigned actor) {
        map_tries[actor].map = shm_map_index(&world_arena, map_root) + 1;
}

#define TAKEN 100 /* results of takes and gets: the sum is so much less */

static inline void take(unsigned actor) {
        ShmMapKey key = map_key(0);
        int64_t sum = 0;
        ShmMapView view;
        ssize_t n;

        n = shm_map_take(world_actor(actor), &map_tries[actor], &key, &sum, sizeof(sum), &view);
        world.results[actor] = n < 0 ? (int) n : TAKEN + (int) sum;
}

static inline int put_ttl(unsigned actor, unsigned k, char value, ShmMapMode mode, uint64_t ttl_ms) {
        ShmMapPut p = { .mode = mode, .value = &value, .value_size = 1, .ttl_ms = ttl_ms };
        ShmMapKey key = map_key(k);

        return shm_map_put(world_actor(actor), &map_tries[actor], &key, &p, NULL);
}

static inline void touch(unsigned actor, unsigned k, uint64_t ttl_ms) {
        ShmMapKey key = map_key(k);

        world.results[actor] = shm_map_touch(world_actor(actor), &map_tries[actor], &key, ttl_ms);
}

/* The result is the value, or an error. */
static inline void get_touch(unsigned actor, unsigned k, uint64_t ttl_ms) {
        ShmMapKey key = map_key(k);
        ShmMapView view;
        char value = 0;
        ssize_t n;

        n = shm_map_get_touch(world_actor(actor), &map_tries[actor], &key, ttl_ms, &value, 1, &view);
        world.results[actor] = n < 0 ? (int) n : value;
}

/* An entry that a pass finds by the name of the map. */
static inline void init_entry(void) {
        init_named();
        note_map(MODEL_ACTORS_MAX - 1);
        map_must(put_ttl(MODEL_ACTORS_MAX - 1, 0, 'o', SHM_MAP_PUT, END));
        map_tries[MODEL_ACTORS_MAX - 1].map = 0;
}

static inline void pass_at(unsigned actor, uint64_t ms) {
        set_clock(ms);
        while (!shm_expiry_step(world_actor(actor), ms, 1))
                ;
}

static inline void t1_pass_after(void) {
        pass_at(1, END);
}

/* A thread deletes beside a maintainer that stands still, or goes on. */
static inline void help_at(unsigned actor, uint64_t ms) {
        bool deleted = false;
        uint32_t n = 0;

        set_clock(ms);
        while (n < shm_arena_n_slabs_ever(&world_arena))
                n += shm_expiry_help(world_actor(actor), ms, 1, &deleted);
}

static inline void t1_help_after(void) {
        help_at(1, END);
}
