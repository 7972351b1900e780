/*
 * Caches that have no room or no slot: a free that makes room, capacities that change, operations that go past
 * the cache, and threads that empty their own caches before they call memory exhausted. No slot is lost, and no
 * cache has more slots, or more room, than its capacity.
 */
#include "shm/cache/cache-drain.h"
#include "shm/cache/cache.h"
#include "tests/model/world.h"

static ShmCache *cache_of(unsigned actor) {
        return shm_arena_cache(&world_arena, world_actor(actor)->id, 0, 1);
}

/* Objects 0 to 3 fill slabs 0 and 1; actor 0's cache, which has room for two, holds slab 2. One slab is free. */
static void pre_full(void) {
        world_init(4, 4, 0);
        world_set_caching(0, 1);
        world_set_caching(1, 1);
        world_objects(4, WORLD_SIZE_2, 0);
        world_set_capacity(1, 1, 4);
        world_fill_cache(1, 2, WORLD_SIZE_2);
        cache_of(0)->capacity = cache_of(0)->room = 2;
        cache_of(0)->last = SHM_CACHE_LAST_FLUSH; /* another one changes no capacity */
        if (cache_of(0)->count != 2)
                model_fail("%u slots are cached", cache_of(0)->count);
}

/* No slab is free. Threads that try have caches of the classes that they want, too. */
static void pre_full_last(void) {
        pre_full();
        model_watch(shm_arena_cache(&world_arena, 1, 0, 2));
        model_watch(shm_arena_cache(&world_arena, 2, 0, 0));
        world_object(WORLD_SIZE_1, 0);
        world_tidy();
}

/* The cache was refilled last: a free that finds no room doubles it. Caches of small pools do not grow. */
static void pre_grows(void) {
        pre_full();
        cache_of(0)->last = SHM_CACHE_LAST_REFILL;
        world_arena.n_slabs = 4096;
}

/* Twelve slots of slabs 1 to 3 are in actor 0's cache, more than it may keep of a class that it evicts from. */
static void pre_long(void) {
        world_init(4, 4, 0);
        world_set_caching(0, 0);
        world_set_caching(1, 0);
        world_objects(3, WORLD_SIZE_4, 0);
        world_set_capacity(1, 0, 16);
        world_fill_cache(1, 12, WORLD_SIZE_4);
}

/* Frees go past the cache. */
static void pre_long_bypass(void) {
        pre_long();
        shm_arena_cache(&world_arena, 1, 0, 0)->room = 0;
        shm_arena_cache(&world_arena, 1, 0, 0)->free.bypass = 2;
}

/* The flush ends a window in which caching did not pay: frees then go past the cache. */
static void pre_ends_window(void) {
        pre_full();
        world_actor(0)->mode = SHM_CACHE_ADAPTIVE;
        cache_of(0)->free.n_slots = cache_of(0)->free.n_words = 300;
}

/* One more free goes past the cache; then it has room again. */
static void pre_free_bypass(void) {
        pre_full();
        cache_of(0)->capacity = 4;
        cache_of(0)->room = 0;
        cache_of(0)->free.bypass = 2;
}

/* The cache is empty, and one more allocation goes past it. */
static void pre_alloc_bypass(void) {
        ShmActor *a;

        pre_full();
        a = world_actor(0);
        shm_actor_enter(a);
        (void) shm_cache_drain(a);
        shm_actor_leave(a);
        cache_of(0)->alloc.bypass = 1;
        world_tidy();
}

static void pre_late(void) {
        pre_full();
        world_set_late(0);
        world_set_late(1);
}

static void pre_last_late(void) {
        pre_full_last();
        world_set_late(0);
        world_set_late(1);
}

static void t_free(void) {
        world_free(0, 0);
}

static void t_free_two(void) {
        world_free(0, 0);
        world_free(0, 2);
}

static void t_free_alloc(void) {
        world_free(0, 0);
        world_alloc(0, WORLD_SIZE_2, SHM_EPOCH_CURRENT);
}

static void t_alloc_two(void) {
        for (unsigned i = 0; i < 2; i++)
                world_alloc(0, WORLD_SIZE_2, SHM_EPOCH_CURRENT);
}

/* No slab is left for this class, except the cached slots. */
static void t_want(void) {
        world_alloc(0, WORLD_SIZE_1, SHM_EPOCH_CURRENT);
}

static void t_shorten(void) {
        shm_cache_shorten(world_actor(0), slab_key(0, 0, 1), 0);
}

static void t_shorten_free(void) {
        t_shorten();
        world_free(0, 0);
}

static void t_alloc_1(void) {
        world_alloc(1, WORLD_SIZE_2, SHM_EPOCH_CURRENT);
}

static void t_want_1(void) {
        world_alloc(1, WORLD_SIZE_4, SHM_EPOCH_CURRENT);
}

static void t_free_same(void) {
        world_free(1, 0);
}

static void t_free_other(void) {
        world_free(1, 1);
}

/* All slots of the wanted slab came from actor 0 alone. */
static void post_wanted(unsigned dead) {
        world_check(dead);
        if (dead == 0 && world.objects[world_allocated(0, 0)].error != 0)
                model_fail("no memory, though the thread's own cache held it");
}

/* A cache never holds more than it may, nor less room than nothing. */
static void check(const ShmCache *cache, unsigned dead) {
        world_check(dead);
        if (!(dead & 1) && cache->free.bypass > 0 && cache->room != 0)
                model_fail("frees go past a cache that has room");
        if (cache->count > cache->capacity || cache->room > cache->capacity ||
            cache->capacity > SHM_CACHE_MAX)
                model_fail("the cache holds %u of %u, with room for %u", cache->count, cache->capacity,
                           cache->room);
}

static void post(unsigned dead) {
        check(cache_of(0), dead);
}

static void post_grown(unsigned dead) {
        post(dead);
        if (!(dead & 1) && (cache_of(0)->capacity != 4 || cache_of(0)->room != 4))
                model_fail("the cache did not grow: capacity %u, room %u", cache_of(0)->capacity,
                           cache_of(0)->room);
}

static void post_short(unsigned dead) {
        const ShmCache *cache = shm_arena_cache(&world_arena, 1, 0, 0);

        check(cache, dead);
        if (!(dead & 1) && (cache->capacity != 8 || cache->count > 5))
                model_fail("%u slots are left of 12", cache->count);
}

#define ROOM(_name, _pre, _t0, _t1, _post, _more...)                                                         \
        { .name = _name, .pre = _pre, .actors = { _t0, _t1 }, .post = _post, .deaths = 2, _more }

/* clang-format off */
static const ModelCase model_cases[] = {
        ROOM("flush-alloc", pre_full, t_free, t_alloc_1, post, .weak = true),
        ROOM("flush-free-same", pre_full, t_free, t_free_same, post, .weak = true),
        ROOM("flush-free-other", pre_full, t_free, t_free_other, post, .weak = true),
        ROOM("flush-flush", pre_full, t_free_two, t_alloc_1, post, .weak = true),
        ROOM("flush-refill", pre_full, t_free_alloc, t_alloc_1, post, .weak = true),
        ROOM("flush-late", pre_late, t_free, t_alloc_1, post, .late = 2),
        ROOM("grow", pre_grows, t_free_two, t_free_same, post_grown, .weak = true),
        ROOM("shorten-alloc", pre_long, t_shorten, t_want_1, post_short),
        ROOM("shorten-free", pre_long, t_shorten_free, t_free_same, post_short, .weak = true),
        ROOM("shorten-bypass", pre_long_bypass, t_shorten_free, t_free_other, post_short, .weak = true),
        ROOM("window", pre_ends_window, t_free_two, t_alloc_1, post, .weak = true),
        ROOM("bypass-free", pre_free_bypass, t_free_two, t_alloc_1, post, .weak = true),
        ROOM("bypass-free-same", pre_free_bypass, t_free_two, t_free_same, post, .weak = true),
        ROOM("bypass-alloc", pre_alloc_bypass, t_alloc_two, t_alloc_1, post),
        ROOM("bypass-alloc-free", pre_alloc_bypass, t_alloc_two, t_free_other, post, .weak = true),
        ROOM("want", pre_full_last, t_want, t_free_other, post_wanted, .weak = true),
        ROOM("want-alloc", pre_full_last, t_want, t_alloc_1, world_check, .preemptions = 3),
        ROOM("want-want", pre_full_last, t_want, t_want_1, world_check, .preemptions = 3),
        ROOM("want-late", pre_last_late, t_want, t_free_other, post_wanted, .late = 2),
};
/* clang-format on */
