/* See world.h. */
#include "tests/model/world.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shm/arena/cache-walk.h"
#include "shm/arena/clock.h"
#include "shm/cache/batch.h"
#include "shm/slab/pages.h"
#include "shm/slab/tags.h"

#define UNDER_WAY 1
#define WORLD_CLIENT 1 /* all actors are threads of one process */

_Alignas(64) World world;
ShmActor world_actors[1 + MODEL_ACTORS_MAX];
ShmArena world_arena = { .fd = -1, .wake_fd = -1 };
static unsigned control_actor;

/*
 * Names
 */
static void name_record(size_t off, char *text, size_t size) {
        static const char *const names[] = { "seq", "intent", "mask", "attention", "flags", "", "", "" };
        unsigned record = (unsigned) (off / world_arena.record_stride);

        off %= world_arena.record_stride;
        if (off < 64)
                snprintf(text, size, "record %u %s", record, names[off / 8]);
        else
                snprintf(text, size, "record %u +%zu", record, off);
}

static void name_set(size_t index, char *text, size_t size) {
        static const char *const names[] = { "free", "uncommitted" };
        const ShmSetShape *shape = &world_arena.shape;
        unsigned set = (unsigned) (index / shape->stride), level = shape->n_levels - 1;
        char name[32];

        index %= shape->stride;
        while (level > 0 && index < shape->level_off[level])
                level--;
        if (set < 2)
                snprintf(name, sizeof(name), "%s", names[set]);
        else if (set < 2 + WORLD_N_EPOCHS)
                snprintf(name, sizeof(name), "of_epoch %u", set - 2);
        else
                snprintf(name, sizeof(name), "partial %u:%u",
                         (set - 2 - WORLD_N_EPOCHS) / world_arena.n_classes,
                         (set - 2 - WORLD_N_EPOCHS) % world_arena.n_classes);
        snprintf(text, size, "%s level %u word %zu", name, level, index - shape->level_off[level]);
}

static void name_header(const void *address, char *text, size_t size) {
        static const char *const names[] = {
                "n_slabs_ever",   "n_free",        "reserve_low",   "commit_allowance", "n_drained",
                "n_records_ever", "epoch_current", "control_owner", "n_unrecorded",     "totals",
        };
        size_t off = (size_t) ((const uint8_t *) address - world_arena.base);
        size_t line = (off - offsetof(ShmHeader, n_slabs_ever)) / 64;

        if (off >= offsetof(ShmHeader, epochs))
                snprintf(text, size, "epoch %zu", (off - offsetof(ShmHeader, epochs)) / sizeof(ShmEpoch));
        else
                snprintf(text, size, "%s", line < 10 ? names[line] : "header");
}

static const char *name(const void *address, char *text, size_t size) {
        const uint8_t *at = address;
        ShmArena *a = &world_arena;

        if (address == &world.pages)
                snprintf(text, size, "pages of slabs");
        else if (at >= (uint8_t *) a->tags)
                snprintf(text, size, "tag %zu:%zu", (size_t) (at - (uint8_t *) a->tags) / 256,
                         (size_t) (at - (uint8_t *) a->tags) / 4 % 64);
        else if (at >= (uint8_t *) a->lines)
                snprintf(text, size, "slab word %zu", (size_t) (at - (uint8_t *) a->lines) / 64);
        else if (at >= (uint8_t *) a->sets)
                name_set((size_t) (at - (uint8_t *) a->sets) / 8, text, size);
        else if (at >= a->records)
                name_record((size_t) (at - a->records), text, size);
        else if (at >= (uint8_t *) a->heads && at < (uint8_t *) (a->heads + a->n_records))
                snprintf(text, size, "head %zu", (size_t) (at - (uint8_t *) a->heads) / sizeof(*a->heads));
        else
                name_header(address, text, size);
        return text;
}

/*
 * Making it
 */
static uint32_t n_sets(void) {
        return 2 + WORLD_N_EPOCHS + WORLD_N_EPOCHS * world_arena.n_classes;
}

void world_init(uint32_t n_slabs, uint32_t n_committed, uint32_t n_allowed) {
        ShmGeometry geometry = {
                .slabs_size = (uint64_t) n_slabs * SHM_SLAB_SIZE,
                .n_records = 1 + MODEL_ACTORS_MAX,
                .n_epochs = WORLD_N_EPOCHS,
                .n_classes = 3,
                .class_size = { WORLD_SIZE_4, WORLD_SIZE_2, WORLD_SIZE_1 },
        };
        uint32_t n;

        shm_arena_deinit(&world_arena);
        memset(&world, 0, sizeof(world));
        control_actor = MODEL_ACTORS_MAX;
        if (shm_arena_create(&world_arena, &geometry, NULL) != 0)
                model_fail("cannot make an arena");
        world_arena.key = 0; /* handles are then easy to read */

        model_memory(world_arena.base, (size_t) (world_arena.slabs - world_arena.base));
        model_private(&world, sizeof(world));
        model_names(name);
        for (uint32_t i = 0; i < WORLD_N_EPOCHS; i++)
                model_watch(&world_arena.header->epochs[i]);

        shm_actor_init_daemon(&world_actors[0], &world_arena);
        world_actors[0].process = 1 + WORLD_CLIENT;
        for (uint32_t i = 1; i <= MODEL_ACTORS_MAX; i++)
                if (shm_actor_init(&world_actors[i], &world_arena, WORLD_CLIENT, i) != 0)
                        model_fail("cannot get a record");
        while (n_committed > 0) {
                if (shm_pages_commit(&world_actors[0], n_committed, &n) != 0)
                        model_fail("cannot commit slabs");
                n_committed -= n;
        }
        world_arena.header->commit_allowance.value = n_allowed;
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++)
                model_own(i, world_actor(i), WORLD_ACTOR_SIZE);
}

void world_set_control(unsigned actor) {
        control_actor = actor;
        model_own(actor, world_actor(actor), WORLD_ACTOR_SIZE);
}

ShmActor *world_actor(unsigned actor) {
        return &world_actors[actor == control_actor ? 0 : actor + 1];
}

void world_set_caching(unsigned actor, uint32_t class) {
        world_actor(actor)->mode = SHM_CACHE_ON;
        model_watch(shm_arena_cache(&world_arena, world_actor(actor)->id, 0, class));
}

void world_set_late(unsigned actor) {
        model_delay(actor, world_arena.base, (size_t) (world_arena.slabs - world_arena.base));
}

bool world_is_own(void) {
        return world_actors[0].process == 1 + WORLD_CLIENT;
}

void world_set_other(void) {
        world_actors[0].process = 2 + WORLD_CLIENT;
}

void world_leave_out(unsigned actor) {
        world_set_late(actor);
        model_leave_out(actor);
        world_set_other();
}

void world_pass_time(void) {
        model_pass_time();
        world.passed_usec += SHM_STORES_USEC;
}

void world_fence(void) {
        uint64_t usec;

        if (!shm_freeze_fence(&world_actors[0], &usec))
                model_fail("no membarrier");
        if (usec != 0)
                world_pass_time();
}

void world_look(ShmFreeze *freeze) {
        if (!world_is_own()) {
                (void) shm_freeze_step(&world_actors[0], freeze, 4, shm_monotonic_usec());
                world_pass_time();
        }
        for (unsigned i = 0; i < 2; i++)
                (void) shm_freeze_step(&world_actors[0], freeze, 4, shm_monotonic_usec());
}

void world_set_capacity(uint32_t record, uint32_t class, uint32_t capacity) {
        ShmCache *cache = shm_arena_cache(&world_arena, record, 0, class);

        shm_arena_record(&world_arena, record)->used[0] |= UINT64_C(1) << class;
        cache->capacity = cache->room = capacity;
}

void world_fill_cache(uint32_t record, uint32_t n, size_t size) {
        ShmActor *a = &world_actors[record];
        uint64_t handles[WORLD_FILL_MAX];

        for (uint32_t i = 0; i < n; i++)
                if (shm_object_alloc(a, size, 0, NULL, &handles[i], NULL) != 0)
                        model_fail("cannot fill the cache of record %u", record);
        for (uint32_t i = 0; i < n; i++)
                shm_object_free(a, handles[i]);
        world_tidy();
}

unsigned world_object(size_t size, uint32_t epoch) {
        unsigned i = 0;

        while (world.objects[i].handle != 0)
                i++;
        if (i >= WORLD_N_PRE ||
            shm_object_alloc(&world_actors[0], size, epoch, NULL, &world.objects[i].handle, NULL))
                model_fail("cannot make object %u", i);
        return i;
}

unsigned world_objects(unsigned n, size_t size, uint32_t epoch) {
        unsigned first = world_object(size, epoch);

        while (--n > 0)
                world_object(size, epoch);
        return first;
}

void world_tidy(void) {
        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&world_arena); slab++)
                for (uint32_t set = 0; set < n_sets(); set++)
                        shm_set_remove(&world_arena, set, slab);
}

/*
 * Operations of actors
 */
/* One that lives: it may have been revoked by now. */
static bool lacks_page(uint64_t handle) {
        SlotId id = shm_handle_slot(handle);

        return *shm_slot_tag(&world_arena, id) == shm_handle_tag(world_arena.key, handle) &&
               !(world.pages >> slot_id_slab(id) & 1);
}

void world_begin_alloc(unsigned actor, unsigned k) {
        world.objects[world_allocated(actor, k)].error = UNDER_WAY;
}

void world_end_alloc(unsigned actor, unsigned k, uint64_t handle, int error) {
        WorldObject *o = &world.objects[world_allocated(actor, k)];

        o->error = error;
        o->handle = handle;
        if (handle != 0 && lacks_page(handle))
                model_fail("object %lx has no page", (unsigned long) handle);
}

int world_alloc(unsigned actor, size_t size, uint32_t epoch) {
        unsigned k = world.n_allocs[actor]++;
        uint64_t handle = 0;
        int r;

        world_begin_alloc(actor, k);
        r = shm_object_alloc(world_actor(actor), size, epoch, NULL, &handle, NULL);
        world_end_alloc(actor, k, handle, r);
        return r;
}

void world_begin_batch(unsigned actor, unsigned n) {
        world.n_allocs[actor] = n;
        for (unsigned i = 0; i < n; i++)
                world_begin_alloc(actor, i);
}

void world_end_batch(unsigned actor, unsigned n, const uint64_t *handles, size_t done) {
        for (unsigned i = 0; i < n; i++)
                world_end_alloc(actor, i, i < done ? handles[i] : 0, i < done ? 0 : -ENOMEM);
}

void world_batch_alloc(unsigned actor, unsigned n, size_t size, uint32_t epoch) {
        uint64_t handles[WORLD_N_ALLOCS] = {};

        world_begin_batch(actor, n);
        world_end_batch(actor, n, handles, shm_batch_alloc(world_actor(actor), size, epoch, handles, n));
}

void world_batch_free(unsigned actor, unsigned n, unsigned first) {
        WorldObject *objects = &world.objects[first];
        uint64_t handles[WORLD_N_PRE] = {};
        size_t done;

        for (unsigned i = 0; i < n; i++) {
                handles[i] = objects[i].handle;
                objects[i].n_begun++;
        }
        done = shm_batch_free(world_actor(actor), handles, n);
        for (unsigned i = 0; i < n; i++)
                if (i < done)
                        objects[i].n_won++;
                else
                        objects[i].n_begun--;
}

int world_free(unsigned actor, unsigned object) {
        WorldObject *o = &world.objects[object];
        int r;

        o->n_begun++;
        r = shm_object_free(world_actor(actor), o->handle);
        if (r == 0)
                o->n_won++;
        else if (r == -ESTALE)
                o->n_stale++;
        else
                model_fail("freeing object %u: error %d", object, r);
        return r;
}

/*
 * Conditions
 */
static ShmIntent intent_of(unsigned actor) {
        return shm_record_intent(&world_arena, world_actor(actor)->id);
}

/* The caches of an actor, and how many slots at the top of one are as FLUSH of one of the dead leaves them. */
static uint32_t n_flushing(unsigned dead, uint32_t record, uint32_t index, uint32_t count) {
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++) {
                ShmIntent intent = intent_of(i);
                uint32_t k = intent.arg & 0x1ff;

                if ((dead >> i & 1) && intent.kind == SHM_INTENT_FLUSH && slot_id_slab(intent.id) == record &&
                    intent.arg >> 9 == index)
                        return k < count ? k : count;
        }
        return 0;
}

static bool flushes_slab(unsigned dead, uint32_t slab) {
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++)
                for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, &world_arena, world_actor(i)->id);) {
                        uint32_t n = shm_cache_walk_count(&walk);
                        uint32_t k = n_flushing(dead, world_actor(i)->id, walk.index, n);

                        for (uint32_t at = n - k; at < n; at++)
                                if (walk.cache->slots[at] >> 6 == slab)
                                        return true;
                }
        return false;
}

/* How many top slots of a dead actor's cache may be live: as an allocation that it died in leaves them. */
static uint32_t n_popping(const ShmCacheWalk *walk, uint32_t n) {
        uint32_t k = 0;

        while (k < n && shm_load_rlx(shm_slot_tag(&world_arena, shm_cache_walk_slot(walk, n - 1 - k))) & 1)
                k++;
        return k > 0 ? k : 1;
}

/* In how many caches the slot is; *ret_loose: in a place where it may be anything, or be live already. */
static uint32_t n_cached(unsigned dead, SlotId id, bool *ret_loose) {
        uint32_t result = 0;

        *ret_loose = false;
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++)
                for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, &world_arena, world_actor(i)->id);) {
                        uint32_t n = shm_cache_walk_count(&walk);
                        uint32_t k = n_flushing(dead, world_actor(i)->id, walk.index, n);
                        uint32_t popping = dead >> i & 1 ? n_popping(&walk, n) : 0;

                        for (uint32_t at = 0; at < n; at++) {
                                bool loose = at >= n - k || at + popping >= n;

                                if (walk.cache->slots[at] != id.value)
                                        continue;
                                *ret_loose = *ret_loose || loose;
                                result += !loose;
                        }
                }
        return result;
}

static bool is_held(uint32_t record, uint32_t slab) {
        for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, &world_arena, record);)
                if (walk.cache->held == slab + 1)
                        return true;
        return false;
}

bool world_names_slab(unsigned dead, uint32_t slab) {
        if (flushes_slab(dead, slab))
                return true;
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++) {
                ShmIntent intent = intent_of(i);
                uint32_t first = slot_id_slab(intent.id), n = intent.kind == SHM_INTENT_RUN ? intent.arg : 1;

                if ((dead >> i & 1) && intent.kind != SHM_INTENT_NONE && intent.kind != SHM_INTENT_FLUSH &&
                    slab >= first && slab - first < n)
                        return true;
        }
        return false;
}

static bool is_dead_record(unsigned dead, uint32_t record) {
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++)
                if ((dead >> i & 1) && world_actor(i)->id == record)
                        return true;
        return false;
}

/* Whether the intent of one of the dead accounts for a slot that is taken and has this tag. */
static bool names_slot(unsigned dead, SlotId id, uint32_t tag) {
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++) {
                ShmIntent intent = intent_of(i);
                bool same = intent.id.value == id.value;

                if (!(dead >> i & 1))
                        continue;
                if ((intent.kind == SHM_INTENT_TAKE && same && (tag | 1) == intent.tag) ||
                    (intent.kind == SHM_INTENT_FREE && same && tag == intent.tag + 1) ||
                    (intent.kind == SHM_INTENT_CLAIM && slot_id_slab(intent.id) == slot_id_slab(id) &&
                     (intent.mask & slot_id_mask(id)) && !(tag & 1)))
                        return true;
        }
        return false;
}

typedef enum Fate { FATE_LIVE, FATE_GONE, FATE_EITHER } Fate;

static Fate fate(const WorldObject *o) {
        if (o->n_won > 0)
                return FATE_GONE;
        if (o->n_begun > o->n_won + o->n_stale)
                return o->n_stale > 0 ? FATE_GONE : FATE_EITHER;
        return FATE_LIVE;
}

static void check_objects(void) {
        for (unsigned i = 0; i < WORLD_N_OBJECTS; i++) {
                const WorldObject *o = &world.objects[i];
                bool live = o->handle != 0 && shm_object_live(&world_arena, o->handle);

                if (o->n_won > 1)
                        model_fail("object %u was freed %u times", i, o->n_won);
                if (o->handle != 0 && fate(o) == FATE_LIVE && !live)
                        model_fail("object %u is gone, nobody freed it", i);
                if (fate(o) == FATE_GONE && live)
                        model_fail("object %u was freed and is there still", i);
                for (unsigned j = 0; j < i && live; j++)
                        if (world.objects[j].handle == o->handle)
                                model_fail("objects %u and %u are one", i, j);
        }
}

static bool is_owned(SlotId id, uint32_t tag) {
        for (unsigned i = 0; i < WORLD_N_OBJECTS; i++)
                if (world.objects[i].handle == shm_handle_make(world_arena.key, id, tag))
                        return true;
        return false;
}

/* Died after the object was made everyone's, before its handle was returned: one each. */
static uint32_t n_unreturned(void) {
        uint32_t n = 0;

        for (unsigned i = 0; i < WORLD_N_OBJECTS; i++)
                n += world.objects[i].error == UNDER_WAY;
        return n;
}

/* Returns how many live ones are known to nobody. */
static uint32_t check_slots(unsigned dead, uint32_t slab, SlabWord w) {
        SlabState state = slab_word_state(w);
        bool in_use = state >= SLAB_PARTIAL && state <= SLAB_DRAINING;
        uint32_t n = in_use ? world_arena.classes[slab_word_class(w)].n_slots : SHM_SLOTS_MAX;
        uint32_t n_unknown = 0;

        for (uint32_t slot = 0; slot < n; slot++) {
                SlotId id = slot_id(slab, slot);
                uint32_t tag = shm_load_rlx(shm_slot_tag(&world_arena, id));
                bool taken = w.low & slot_id_mask(id), loose;
                uint32_t n_in = n_cached(dead, id, &loose);
                bool named = names_slot(dead, id, tag) || loose;

                if (!taken && (tag & 1))
                        model_fail("slot %u:%u is live and free", slab, slot);
                if (n_in > 1 || (n_in == 1 && (!in_use || !taken || (tag & 1))))
                        model_fail("slot %u:%u is in %u caches, and %s", slab, slot, n_in,
                                   taken ? "taken" : "free in its slab");
                if (taken && (tag & 1) && !is_owned(id, tag) && !named)
                        n_unknown++;
                if (taken && !(tag & 1) && n_in == 0 && !named)
                        model_fail("slot %u:%u is lost", slab, slot);
        }
        return n_unknown;
}

static void check_place(unsigned dead, uint32_t slab, SlabWord w) {
        SlabState state = slab_word_state(w);
        const ShmClass *class = shm_slab_class(&world_arena, w);
        uint32_t n_taken = (uint32_t) __builtin_popcountll(w.low & ~class->tail_mask);
        bool in_use = state >= SLAB_PARTIAL && state <= SLAB_DRAINING, right = true;

        if (state >= _SLAB_STATE_N)
                model_fail("slab %u: state %u", slab, (unsigned) state);
        if (state == SLAB_PARTIAL || state == SLAB_DRAINING)
                right = w.low != class->tail_mask && (w.low != UINT64_MAX || state == SLAB_DRAINING);
        if (state == SLAB_FULL)
                right = w.low == UINT64_MAX;
        if ((in_use || state == SLAB_FREE) && !(world_arena.lines[slab].tag_floor & 1))
                model_fail("slab %u is %s, and its tags do not count", slab, slab_state_to_string(state));
        if (slab_word_is_sparse(w) != (state == SLAB_PARTIAL && n_taken <= (class->n_slots + 2) / 4))
                model_fail("slab %u is %s with %u slots taken, and%s sparse", slab,
                           slab_state_to_string(state), n_taken, slab_word_is_sparse(w) ? "" : " not");
        if (!right || (in_use ? (w.low & class->tail_mask) != class->tail_mask : w.low != 0))
                model_fail("slab %u is %s with bitmap %lx", slab, slab_state_to_string(state),
                           (unsigned long) w.low);

        if ((state == SLAB_ACTIVE || state == SLAB_BUSY) && !is_dead_record(dead, slab_word_holder(w)) &&
            !is_held(slab_word_holder(w), slab))
                model_fail("slab %u is left %s by record %u", slab, slab_state_to_string(state),
                           slab_word_holder(w));
        if (state == SLAB_BUSY && !world_names_slab(dead, slab))
                model_fail("slab %u is busy, no intent names it", slab);
        if ((in_use || state == SLAB_FREE) && slab < 64 && !(world.tag_pages >> slab / SHM_TAGS_PER_PAGE & 1))
                model_fail("slab %u is %s without a page of tags", slab, slab_state_to_string(state));
        if ((in_use || state == SLAB_FREE) && slab < 64 && !(world.pages >> slab & 1))
                model_fail("slab %u is %s without pages", slab, slab_state_to_string(state));
}

/* No handle that ever was fits a later object of its slot, whatever became of the slab meanwhile. */
static void check_versions(void) {
        for (unsigned i = 0; i < WORLD_N_OBJECTS; i++) {
                uint64_t handle = world.objects[i].handle;
                SlotId id = shm_handle_slot(handle);
                uint32_t version, floor;

                if (handle == 0 || slot_id_slab(id) >= shm_arena_n_slabs_ever(&world_arena))
                        continue;
                floor = world_arena.lines[slot_id_slab(id)].tag_floor;
                version = floor & 1 ? *shm_slot_tag(&world_arena, id) : floor;
                if ((int32_t) (version - shm_handle_tag(world_arena.key, handle)) < 0)
                        model_fail("object %u: slot %u:%u goes on with version %u", i, slot_id_slab(id),
                                   slot_id_slot(id), version);
        }
}

void world_repair_hints(unsigned dead, uint32_t slab) {
        for (uint32_t set = 0; set < n_sets() && world_names_slab(dead, slab); set++)
                shm_set_repair(&world_arena, set, slab);
}

static void check_hints(uint32_t slab) {
        SlabWord w = shm_slab_word(&world_arena, slab);

        for (uint32_t set = 0; set < n_sets(); set++) {
                char text[64];

                if (!shm_set_wants(&world_arena, set, w) || shm_set_has(&world_arena, set, slab))
                        continue;
                name_set(set * world_arena.shape.stride, text, sizeof(text));
                model_fail("slab %u is %s and not in the set: %s", slab,
                           slab_state_to_string(slab_word_state(w)), text);
        }
}

void world_check(unsigned dead) {
        uint32_t n_free = 0, n_unknown = 0;

        check_objects();
        check_versions();
        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&world_arena); slab++)
                world_repair_hints(dead, slab);
        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&world_arena); slab++) {
                SlabWord w = shm_slab_word(&world_arena, slab);

                check_place(dead, slab, w);
                n_unknown += check_slots(dead, slab, w);
                check_hints(slab);
                n_free += slab_word_state(w) == SLAB_FREE;
        }
        if (n_unknown > n_unreturned())
                model_fail("%u objects are live whose handles nobody has", n_unknown);
        if (dead == 0 && shm_load_rlx(&world_arena.header->n_free.value) != n_free)
                model_fail("%u slabs are free, n_free is %lu", n_free,
                           (unsigned long) world_arena.header->n_free.value);
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++)
                if (!(dead >> i & 1) &&
                    (world_actor(i)->record->intent_what != 0 || (world_actor(i)->record->seq & 1)))
                        model_fail("actor %u ended with an intent, or inside an operation", i);
}
