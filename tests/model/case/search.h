/*
 * The search of the slab words. A thread died before it set a hint, so no hint leads to its free memory: the search
 * finds it before an allocation fails.
 *
 * Record 3 is that of the dead thread, which died in front of each of its accesses in turn.
 */
#include "shm/cache/cache.h"
#include "tests/model/world.h"

static uint32_t n_there; /* slots that were free when the thread had died: pre()'s */
static size_t wanted_size;

static uint32_t count_free(void) {
        uint32_t n = 0;

        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&world_arena); slab++) {
                SlabWord w = shm_slab_word(&world_arena, slab);

                if (slab_word_state(w) == SLAB_FREE)
                        n += SHM_SLAB_SIZE / (uint32_t) wanted_size;
                else if (slab_word_state(w) == SLAB_PARTIAL)
                        n += (uint32_t) __builtin_popcountll(~w.low);
        }
        return n;
}

static void free_by(uint32_t record, unsigned object) {
        WorldObject *o = &world.objects[object];

        o->n_begun++;
        if (shm_object_free(&world_actors[record], o->handle) == 0)
                o->n_won++;
}

static void v_free(void) {
        free_by(3, 0);
}

static void v_free_two(void) {
        free_by(3, 0);
        free_by(3, 1);
}

static void v_alloc(void) {
        WorldObject *o = &world.objects[world_allocated(2, 0)];
        uint64_t handle;

        o->error = 1;
        o->error = shm_object_alloc(&world_actors[3], WORLD_SIZE_2, 0, NULL, &handle, NULL);
        if (o->error == 0)
                o->handle = handle;
}

static void kill_in(void (*operation)(void)) {
        model_cut(operation);
        n_there = count_free();
}

/* Objects 0 to 3 fill slabs 0 and 1, which is all there is. */
static void begin(void) {
        world_init(2, 2, 0);
        world_objects(4, WORLD_SIZE_2, 0);
        world_tidy();
        wanted_size = WORLD_SIZE_2;
}

/* Slabs of one object each: one that is freed leaves no trace in a set. */
static void pre_free(void) {
        world_init(2, 2, 0);
        world_objects(2, WORLD_SIZE_1, 0);
        world_tidy();
        wanted_size = WORLD_SIZE_1;
        kill_in(v_free_two);
}

static void pre_list(void) {
        begin();
        kill_in(v_free);
}

static void pre_empty(void) {
        begin();
        kill_in(v_free_two);
}

/* It died while it took a slot of slab 0, of which the other one is left. */
static void pre_take(void) {
        begin();
        free_by(1, 0);
        free_by(1, 1);
        kill_in(v_alloc);
}

static void pre_empty_cached(void) {
        pre_empty();
        world_set_caching(0, 1);
}

static void t_alloc(void) {
        world_alloc(0, wanted_size, SHM_EPOCH_CURRENT);
}

static void t_alloc_1(void) {
        world_alloc(1, wanted_size, SHM_EPOCH_CURRENT);
}

static void t_free_1(void) {
        world_free(1, 2);
}

static void t_nothing(void) {
}

/* Actor 0's cache, if it has one, may hold the rest of the slab. */
static void post(unsigned dead) {
        uint32_t n_wanted = 0, n_got = 0;

        world_check(dead | 1U << 2);
        for (unsigned i = 0; i < 2; i++) {
                const WorldObject *o = &world.objects[world_allocated(i, 0)];

                n_wanted += world.n_allocs[i];
                n_got += o->handle != 0;
        }
        if (dead == 0 && world_actor(0)->mode == SHM_CACHE_OFF && n_got < n_wanted && n_got < n_there)
                model_fail("%u allocations found %u of %u slots", n_wanted, n_got, n_there);
        if (dead == 0 && n_there > 0 && n_wanted > 0 && n_got == 0)
                model_fail("no memory, though there was");
}

#define SEARCH(_name, _pre, _t0, _t1, _more...)                                                              \
        {                                                                                                    \
                .name = _name, .pre = _pre, .actors = { _t0, _t1 }, .post = post, .deaths = 1,               \
                .variants = true, _more                                                                      \
        }

/* clang-format off */
static const ModelCase model_cases[] = {
        SEARCH("free", pre_free, t_alloc, t_nothing, .weak = true, .weak_preemptions = 1),
        SEARCH("free-alloc", pre_free, t_alloc, t_alloc_1, .preemptions = 3, .full_preemptions = 5),
        SEARCH("listed", pre_list, t_alloc, t_nothing, .weak = true, .weak_preemptions = 1),
        SEARCH("emptied", pre_empty, t_alloc, t_nothing, .weak = true, .weak_preemptions = 1),
        SEARCH("taken", pre_take, t_alloc, t_nothing, .weak = true, .weak_preemptions = 1),
        SEARCH("emptied-alloc", pre_empty, t_alloc, t_alloc_1, .preemptions = 2, .full_preemptions = 4),
        SEARCH("emptied-free", pre_empty, t_alloc, t_free_1, .preemptions = 2, .full_preemptions = 4),
        SEARCH("taken-alloc", pre_take, t_alloc, t_alloc_1, .preemptions = 2, .full_preemptions = 4),
        SEARCH("emptied-cached", pre_empty_cached, t_alloc, t_alloc_1, .preemptions = 2, .full_preemptions = 4),
};
/* clang-format on */
