/*
 * Repair while threads go on. A thread died in the middle of any operation, and more actors may die meanwhile, even the
 * daemon that repairs. Still the next daemon's repair leaves no slot lost or doubled.
 *
 * Record 3 is that of the dead thread, which died in front of each of its accesses in turn; actor 2 repairs.
 */
#include "shm/cache/cache.h"
#include "shm/maintain/repair.h"
#include "shm/slab/pages.h"
#include "tests/model/calls.h"
#include "tests/model/world.h"
#include "tests/util/maintain.h"

#define VICTIM 3
#define N_BATCH 2

/* The maintainer's own. */
static ShmRepair repair;
static ShmReach reach;
static size_t victim_size; /* the size that the victim allocates */
static const ShmPending *victim_pending;

/* Objects of which nobody had the handles, and pending ones, when their thread died: repair frees them. */
typedef struct Doomed {
        uint64_t handles[2 + MODEL_ACTORS_MAX];
        unsigned n;
} Doomed;

static Doomed doomed_before; /* by the victim; pre()'s */

static void doom(Doomed *doomed, SlotId id, uint32_t tag) {
        if (tag & 1)
                doomed->handles[doomed->n++] = shm_handle_make(world_arena.key, id, tag);
}

static uint32_t tag_of(SlotId id) {
        return *shm_slot_tag(&world_arena, id);
}

static void find_doomed(uint32_t record, Doomed *doomed) {
        ShmIntent intent = shm_record_intent(&world_arena, record);

        if (intent.kind == SHM_INTENT_TAKE && tag_of(intent.id) == intent.tag)
                doom(doomed, intent.id, intent.tag);
        for (unsigned i = 0; i < SHM_NOTES_MAX; i++) {
                uint64_t handle = world_actors[record].record->notes[i].handle;

                if (handle != 0 && shm_object_live(&world_arena, handle))
                        doom(doomed, shm_handle_slot(handle), shm_handle_tag(world_arena.key, handle));
        }
        for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, &world_arena, record);) {
                uint32_t n = shm_cache_walk_count(&walk);
                SlotId top = { n > 0 ? walk.cache->slots[n - 1] : 0 };

                if (n > 0 && intent.kind != SHM_INTENT_FLUSH)
                        doom(doomed, top, tag_of(top));
        }
}

static void make_caching(uint32_t record, uint32_t class) {
        world_actors[record].mode = SHM_CACHE_ON;
        model_watch(shm_arena_cache(&world_arena, record, 0, class));
}

/* Slabs of two slots; objects 0 to 2, or so many. All cache. */
static void begin(uint32_t n_slabs, uint32_t n_committed, unsigned n_objects) {
        world_init(n_slabs, n_committed, 0);
        world_set_control(2);
        reach = (ShmReach){};
        model_own(2, &repair, sizeof(repair));
        model_own(2, &reach, sizeof(reach));
        repair = (ShmRepair){};
        for (uint32_t record = 1; record <= VICTIM; record++)
                make_caching(record, 1);
        world_objects(n_objects, WORLD_SIZE_2, 0);
        victim_size = WORLD_SIZE_2;
        victim_pending = NULL;
        world_tidy();
}

static void use_cache(uint32_t record) {
        ShmActor *a = &world_actors[record];
        uint64_t handles[2];

        for (unsigned i = 0; i < 2; i++)
                shm_object_alloc(a, WORLD_SIZE_2, 0, NULL, &handles[i], NULL);
        for (unsigned i = 2; i > 0; i--) /* the next thread takes the object of the last turn first */
                shm_object_free(a, handles[i - 1]);
        world_tidy();
}

/* The victim's operations. Its handle is known if it got as far as to have one. */
static void v_alloc(void) {
        WorldObject *o = &world.objects[world_allocated(2, 0)];
        uint64_t handle;

        o->error = 1;
        o->error = shm_object_alloc(&world_actors[VICTIM], victim_size, 0, victim_pending, &handle, NULL);
        if (o->error == 0 && !victim_pending)
                o->handle = handle;
}

static void v_free(void) {
        WorldObject *o = &world.objects[0];

        o->n_begun++;
        if (shm_object_free(&world_actors[VICTIM], o->handle) == 0)
                o->n_won++;
}

static void v_drain(void) {
        ShmActor *a = &world_actors[VICTIM];

        shm_actor_enter(a);
        (void) shm_cache_drain(a);
        shm_actor_leave(a);
}

static void kill_in(void (*operation)(void)) {
        model_cut(operation);
        doomed_before = (Doomed){};
        find_doomed(VICTIM, &doomed_before);
        if (!shm_record_mark_dead(&world_arena, VICTIM))
                model_fail("the record cannot be made DEAD");
}

static void pre_pop(void) {
        begin(3, 3, 3);
        use_cache(VICTIM);
        kill_in(v_alloc);
}

static void pre_refill(void) {
        begin(3, 3, 3);
        kill_in(v_alloc);
}

/* So small a cache that the slab is held. */
static void pre_hold(void) {
        begin(3, 3, 3);
        world_set_capacity(VICTIM, 0, 4);
        make_caching(VICTIM, 0);
        make_caching(1, 0);
        victim_size = WORLD_SIZE_4;
        kill_in(v_alloc);
}

static void pre_uncached(void) {
        begin(3, 3, 3);
        world_actors[VICTIM].mode = SHM_CACHE_OFF;
        kill_in(v_alloc);
}

/* With a note, which repair goes by. */
static void pre_pending(void) {
        static const ShmPending pending = {};

        begin(3, 3, 3);
        world_actors[VICTIM].mode = SHM_CACHE_OFF;
        victim_pending = &pending;
        kill_in(v_alloc);
}

static void pre_commit(void) {
        begin(3, 2, 3);
        world_arena.header->commit_allowance.value = SHM_COMMIT_RUN_MAX;
        victim_size = WORLD_SIZE_4;
        kill_in(v_alloc);
}

/* Actor 0 frees by way of its cache, too. */
static void pre_free(void) {
        begin(4, 4, 3);
        use_cache(1);
        kill_in(v_free);
}

static void pre_free_uncached(void) {
        begin(3, 3, 3);
        world_actors[VICTIM].mode = SHM_CACHE_OFF;
        kill_in(v_free);
}

/* The slots belong to the one slab that is not full. */
static void pre_flush(void) {
        begin(3, 3, 4);
        use_cache(VICTIM);
        kill_in(v_drain);
}

/* The victim gave its slots back, and actor 1 has them in its cache, when it died. */
static void v_flush_moved(void) {
        ShmActor *a = &world_actors[VICTIM];
        ShmCache *cache = shm_arena_cache(&world_arena, VICTIM, 0, 1);
        uint32_t n = cache->count;

        v_drain();
        use_cache(2);
        cache->count = n;
        a->record->seq++;
        a->record->intent_what = shm_intent_other(SHM_INTENT_FLUSH, VICTIM, 1 << 9 | n);
}

static void pre_moved(void) {
        begin(3, 3, 4);
        use_cache(VICTIM);
        v_flush_moved();
        world_set_capacity(1, 1, 4);
        doomed_before = (Doomed){};
        shm_record_mark_dead(&world_arena, VICTIM);
}

/* Actors */

static void t_repair(void) {
        uint32_t budget;

        repair = (ShmRepair){};
        do
                budget = 4 * SHM_CACHE_MAX;
        while (!shm_repair_step(world_actor(2), &repair, &reach, &budget));
}

static void t_free_same(void) {
        world_free(0, 0);
}

/* In the end */

/* The next daemon's repair, of all the dead, with nobody in between. */
static void post(unsigned dead) {
        Doomed doomed = doomed_before;
        ShmRepairCounts counts;
        ShmActor control;

        shm_actor_init_daemon(&control, &world_arena);
        maintain_repair_control(&control, &counts);
        for (unsigned i = 0; i < 2; i++)
                if (dead >> i & 1) {
                        find_doomed(world_actor(i)->id, &doomed);
                        (void) shm_record_mark_dead(&world_arena, world_actor(i)->id);
                }
        (void) maintain_repair(&control);
        (void) maintain_repair(&control);

        for (uint32_t i = 1; i <= VICTIM; i++)
                if ((i == VICTIM || dead >> (i - 1) & 1) &&
                    shm_record_owner(&world_arena, i).state != SHM_RECORD_UNUSED)
                        model_fail("record %u of the dead is not free", i);
        for (unsigned i = 0; i < doomed.n; i++)
                if (shm_object_live(&world_arena, doomed.handles[i]))
                        model_fail("object %lx is live, and nobody has its handle",
                                   (unsigned long) doomed.handles[i]);
        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&world_arena); slab++) {
                SlabWord w = shm_slab_word(&world_arena, slab);

                if (slab_word_state(w) == SLAB_ACTIVE && slab_word_holder(w) == 0)
                        model_fail("slab %u stays with control", slab);
        }
        world_check(dead | 1U << MODEL_ACTORS_MAX); /* the victim is dead in any case */
}

static void t_batch_alloc(void) {
        world_batch_alloc(0, N_BATCH, WORLD_SIZE_2, SHM_EPOCH_CURRENT);
}

/* The victim was freeing object 0. */
static void t_batch_free(void) {
        world_batch_free(0, N_BATCH, 1);
}

#define REPAIR(_name, _pre, _t0, _t1, _more...)                                                              \
        {                                                                                                    \
                .name = _name, .pre = _pre, .actors = { _t0, _t1, t_repair }, .post = post, .deaths = 1,     \
                .variants = true, _more                                                                      \
        }

/* clang-format off */
static const ModelCase model_cases[] = {
        REPAIR("pop", pre_pop, t_alloc, t_nothing, .preemptions = 1),
        REPAIR("refill", pre_refill, t_alloc, t_nothing, .full_preemptions = 2, .full_only = true),
        REPAIR("hold", pre_hold, t_alloc, t_nothing, .preemptions = 1, .full_preemptions = 3),
        REPAIR("uncached", pre_uncached, t_alloc, t_nothing, .preemptions = 2, .full_preemptions = 3),
        REPAIR("pending", pre_pending, t_alloc, t_nothing, .preemptions = 1, .full_preemptions = 2),
        REPAIR("commit", pre_commit, t_alloc, t_nothing, .preemptions = 1),
        REPAIR("free", pre_free, t_free_same, t_nothing, .weak = true),
        REPAIR("free-uncached", pre_free_uncached, t_free_same, t_nothing, .weak = true),
        REPAIR("flush", pre_flush, t_alloc, t_nothing, .preemptions = 1, .full_preemptions = 3),
        { .name = "moved",
          .pre = pre_moved,
          .actors = { t_alloc, t_drain_1, t_repair },
          .post = post,
          .deaths = 1,
          .preemptions = 2,
          .full_preemptions = 3 },
        REPAIR("pop-batch-alloc", pre_pop, t_batch_alloc, t_nothing, .preemptions = 1, .full_preemptions = 2,
               .weak = true, .weak_preemptions = 1),
        REPAIR("free-batch-free", pre_free, t_batch_free, t_nothing, .preemptions = 1, .full_preemptions = 2),
        REPAIR("flush-batch-alloc", pre_flush, t_batch_alloc, t_nothing, .preemptions = 1, .full_preemptions = 2,
               .weak = true, .weak_preemptions = 1),
        REPAIR("pop-beside-two", pre_pop, t_alloc, t_free_1, .full_preemptions = 1, .full_only = true),
        REPAIR("flush-beside-two", pre_flush, t_alloc, t_alloc_1, .full_preemptions = 1, .full_only = true),
};
/* clang-format on */
