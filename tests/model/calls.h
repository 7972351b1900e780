#pragma once
/*
 * Calls for the actors of cases, in slabs of two slots. Functions whose name ends in 1 are for actor 1, all others for
 * actor 0. Object 1 is there for one of them to free.
 */
#include "shm/cache/cache.h"
#include "tests/model/world.h"

/* For pre(): objects 0 to 2 are in slabs 0 and 1; actor 0 has both slots of slab 2 in its cache. */
static inline void calls_init(uint32_t n_slabs) {
        world_init(n_slabs, n_slabs, 0);
        world_set_caching(0, 1);
        world_objects(3, WORLD_SIZE_2, 0);
        world_tidy();
        world_fill_cache(1, 2, WORLD_SIZE_2);
}

static inline void calls_drain(unsigned actor) {
        ShmActor *a = world_actor(actor);

        shm_actor_enter(a);
        (void) shm_cache_drain(a);
        shm_actor_leave(a);
}

static inline void t_nothing(void) {
}

static inline void t_alloc(void) {
        world_alloc(0, WORLD_SIZE_2, SHM_EPOCH_CURRENT);
}

static inline void t_alloc_1(void) {
        world_alloc(1, WORLD_SIZE_2, SHM_EPOCH_CURRENT);
}

static inline void t_free(void) {
        world_free(0, 1);
}

static inline void t_free_1(void) {
        world_free(1, 1);
}

static inline void t_alloc_free(void) {
        if (world_alloc(0, WORLD_SIZE_2, SHM_EPOCH_CURRENT) == 0)
                world_free(0, world_allocated(0, 0));
}

static inline void t_alloc_free_1(void) {
        if (world_alloc(1, WORLD_SIZE_2, SHM_EPOCH_CURRENT) == 0)
                world_free(1, world_allocated(1, 0));
}

static inline void t_drain(void) {
        calls_drain(0);
}

static inline void t_drain_1(void) {
        calls_drain(1);
}
