/*
 * Notes: while its allocator may still take an object back, a note names the object, from before it is live until it is
 * published or freed. So after a death each live object belongs to somebody, or a note or an intent names it, or it is
 * in the slot on top of a cache.
 */
#include <errno.h>

#include "shm/cache/cache.h"
#include "tests/model/calls.h"
#include "tests/model/world.h"

static const ShmPending pending = {};

/* Actor 0 is to allocate: from its cache, if it has any. */
static void pre_uncached(void) {
        world_init(3, 3, 0);
        world_objects(3, WORLD_SIZE_2, 0);
        world_tidy();
}

static void pre_cached(void) {
        pre_uncached();
        world_set_caching(0, 1);
        world_set_caching(1, 1);
        world_fill_cache(1, 2, WORLD_SIZE_2);
}

/* The cache is empty: it is refilled first. */
static void pre_refill(void) {
        pre_uncached();
        world_set_caching(0, 1);
        world_set_caching(1, 1);
}

/* All notes are taken: by handles that never were. */
static void fill_notes(void) {
        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++)
                world_actor(0)->record->notes[i].handle = UINT64_MAX - i;
}

static void pre_uncached_full(void) {
        pre_uncached();
        fill_notes();
}

static void pre_cached_full(void) {
        pre_cached();
        fill_notes();
}

static void pre_refill_full(void) {
        pre_refill();
        fill_notes();
}

static void pre_uncached_late(void) {
        pre_uncached();
        world_set_late(0);
        world_set_late(1);
}

static void pre_cached_late(void) {
        pre_cached();
        world_set_late(0);
        world_set_late(1);
}

/* Nobody has the handle but its allocator: until then it is under way to the world's check. */
static uint64_t alloc_pending(unsigned k) {
        WorldObject *o = &world.objects[world_allocated(0, k)];
        uint64_t handle = 0;
        int r;

        o->error = 1;
        r = shm_object_alloc(world_actor(0), WORLD_SIZE_2, SHM_EPOCH_CURRENT, &pending, &handle, NULL);
        if (r)
                o->error = r;
        return handle;
}

static void publish(unsigned k, uint64_t handle) {
        WorldObject *o = &world.objects[world_allocated(0, k)];

        if (shm_object_publish(world_actor(0), handle) != 0)
                model_fail("object %lx was noted, and is not", (unsigned long) handle);
        o->handle = handle;
        o->error = 0;
}

static void t_alloc_publish(void) {
        uint64_t handle = alloc_pending(0);

        if (handle != 0)
                publish(0, handle);
}

/* The second note is in another place than the first, which is then free again. */
static void t_two(void) {
        uint64_t first = alloc_pending(0), second = alloc_pending(1);

        if (first != 0)
                publish(0, first);
        if (second != 0)
                publish(1, second);
}

/* As a thread does that ends. */
static void t_alloc_take_back(void) {
        if (alloc_pending(0) == 0)
                return;
        shm_cache_free_pending(world_actor(0));
        world.objects[world_allocated(0, 0)].error = 0;
}

static void t_refused(void) {
        if (alloc_pending(0) != 0 || world.objects[world_allocated(0, 0)].error != -ENOBUFS)
                model_fail("allocated without a note");
}

/* Live, though nobody may have its handle: the dead thread's record says so. */
static bool is_accounted_for(uint64_t handle) {
        ShmIntent intent = shm_record_intent(&world_arena, world_actor(0)->id);
        SlotId id = shm_handle_slot(handle);
        ShmCache *cache = shm_arena_cache(&world_arena, world_actor(0)->id, 0, 1);

        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++)
                if (shm_record_note(world_actor(0)->record, i) == handle)
                        return true;
        return (intent.kind == SHM_INTENT_TAKE && intent.id.value == id.value) ||
               (cache->count > 0 && cache->slots[cache->count - 1] == id.value);
}

static bool is_known(uint64_t handle) {
        for (unsigned i = 0; i < WORLD_N_OBJECTS; i++)
                if (world.objects[i].handle == handle)
                        return true;
        return false;
}

/* A note whose object is somebody's stands only where its owner died between the two. */
static void check_notes(unsigned dead) {
        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++) {
                uint64_t handle = shm_record_note(world_actor(0)->record, i);

                if (handle != 0 && shm_handle_plausible(&world_arena, handle) && !(dead & 1))
                        model_fail("a note of object %lx stays", (unsigned long) handle);
        }
}

static void post(unsigned dead) {
        for (uint32_t slot = 0; slot < shm_arena_n_slabs_ever(&world_arena) * SHM_SLOTS_MAX; slot++) {
                uint32_t tag = *shm_slot_tag(&world_arena, (SlotId){ slot });
                uint64_t handle = shm_handle_make(world_arena.key, (SlotId){ slot }, tag);

                if ((tag & 1) && !(dead & 2) && !is_known(handle) &&
                    !((dead & 1) && is_accounted_for(handle)))
                        model_fail("object %lx is live, and nobody has it", (unsigned long) handle);
        }
        check_notes(dead);
        world_check(dead);
}

#define NOTES(_name, _pre, _t0, _t1, _more...)                                                               \
        { .name = _name, .pre = _pre, .actors = { _t0, _t1 }, .post = post, .deaths = 2, _more }

/* clang-format off */
static const ModelCase model_cases[] = {
        NOTES("pop", pre_cached, t_alloc_publish, t_free_1, .weak = true, .weak_preemptions = 1),
        NOTES("pop-two", pre_cached, t_two, t_alloc_1, .weak = true, .weak_preemptions = 1),
        NOTES("pop-late", pre_cached_late, t_alloc_publish, t_free_1, .late = 3),
        NOTES("refill", pre_refill, t_alloc_publish, t_alloc_1),
        NOTES("uncached", pre_uncached, t_alloc_publish, t_alloc_1, .weak = true, .weak_preemptions = 1),
        NOTES("uncached-late", pre_uncached_late, t_alloc_publish, t_free_1, .late = 3),
        NOTES("take-back", pre_cached, t_alloc_take_back, t_alloc_1, .weak = true, .weak_preemptions = 1),
        NOTES("take-back-uncached", pre_uncached, t_alloc_take_back, t_alloc_1),
        NOTES("full", pre_cached_full, t_refused, t_alloc_1, .weak = true, .weak_preemptions = 1),
        NOTES("full-refill", pre_refill_full, t_refused, t_free_1, .weak = true, .weak_preemptions = 1),
        NOTES("full-uncached", pre_uncached_full, t_refused, t_alloc_1),
};
/* clang-format on */
