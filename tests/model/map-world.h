/* A small map for cases: entries of one byte under three keys, whose hashes the case chooses. */
#include <errno.h>
#include <string.h>

#include "shm/maintain/repair.h"
#include "shm/map/map.h"
#include "tests/model/world.h"
#include "tests/util/maintain.h"

#define MAP_HASH UINT64_C(1)
#define MAP_HASH_NEAR UINT64_C(2) /* the node at the first level has two leaves in one line */
#define MAP_HASH_FAR (UINT64_C(1) << 58)

static uint64_t map_root;
static ShmTrie map_tries[MODEL_ACTORS_MAX + 1]; /* each actor's; the last is post()'s */
static uint64_t map_hashes[3];

static inline void map_must(int r) {
        if (r)
                model_fail("error %d", r);
}

static ShmMapKey map_key(unsigned i) {
        static const char names[3] = { 'a', 'b', 'c' };

        return (ShmMapKey){ &names[i], 1, map_hashes[i] };
}

static inline int map_put_as(ShmActor *actor, const ShmTrie *trie, unsigned k, char value, ShmMapMode mode,
                             uint64_t expected, uint32_t epoch) {
        ShmMapPut p = {
                .mode = mode, .expected = expected, .value = &value, .value_size = 1, .epoch = epoch
        };
        ShmMapKey key = map_key(k);

        return shm_map_put(actor, trie, &key, &p, NULL);
}

/* For actors; the result is in world.results. */
static inline void map_put(unsigned actor, unsigned k, char value, ShmMapMode mode, uint32_t epoch) {
        world.results[actor] =
                map_put_as(world_actor(actor), &map_tries[actor], k, value, mode, world.notes[0], epoch);
}

static inline void map_delete(unsigned actor, unsigned k) {
        ShmMapKey key = map_key(k);

        world.results[actor] = shm_map_delete(world_actor(actor), &map_tries[actor], &key, 0);
}

/* For pre(). An empty map; its index is in an epoch of its own, or shares one with values. */
static inline void map_init(uint32_t n_slabs, uint32_t index_epoch, uint64_t h0, uint64_t h1, uint64_t h2) {
        world_init(n_slabs, n_slabs, 0);
        map_hashes[0] = h0;
        map_hashes[1] = h1;
        map_hashes[2] = h2;
        map_must(shm_trie_create(&world_actors[0], shm_epoch_number(index_epoch, 1), &map_root));
        map_must(shm_object_publish(&world_actors[0], map_root));
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                map_must(shm_trie_open(&map_tries[i], &world_arena, map_root));
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++)
                model_own(i, &map_tries[i], sizeof(ShmTrie));
}

/* An entry that is there before. */
static inline void map_entry(unsigned k, char value, uint32_t epoch) {
        map_must(map_put_as(&world_actors[0], &map_tries[MODEL_ACTORS_MAX], k, value, SHM_MAP_INSERT, 0,
                            epoch));
}

/* Objects are part of the memory too. Plain stores write the first two lines of each slot. */
static inline uint8_t *map_line(uint32_t slab, uint32_t slot, uint32_t line) {
        return world_arena.slabs + slab * SHM_SLAB_SIZE + slot * WORLD_SIZE_4 + line * 64;
}

static inline void map_ready(uint32_t n_slabs) {
        model_memory(world_arena.base,
                     (size_t) (world_arena.slabs - world_arena.base) + (size_t) n_slabs * SHM_SLAB_SIZE);
        for (uint32_t slab = 0; slab < n_slabs; slab++)
                for (uint32_t slot = 0; slot < 4; slot++)
                        for (uint32_t line = 0; line < 2; line++)
                                model_watch(map_line(slab, slot, line));
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++)
                world.results[i] = 99;
}

/*
 * Zeros in all of an object of one slot a slab. A store to a word that some map also uses is a step: others'
 * accesses do not commute with it.
 */
static inline void map_wipe(uint64_t handle) {
        uint32_t slab = slot_id_slab(shm_handle_slot(handle));

        for (uint32_t slot = 0; slot < 4; slot++) {
                uint64_t *words = (uint64_t *) map_line(slab, slot, 0);

                memset(words, 0, 128);
                shm_store_rlx(&words[1], 0);
                shm_store_rlx(&words[2], 0);
        }
}

/* For post(): it lives, and nobody has written into it; 0: there is none. */
static inline void map_check_wiped(uint64_t handle) {
        uint32_t slab = slot_id_slab(shm_handle_slot(handle));

        if (handle != 0 && !shm_object_live(&world_arena, handle))
                model_fail("the victim was freed");
        for (uint32_t i = 0; handle != 0 && i < 8 * 64; i++)
                if (map_line(slab, i / 128, i / 64 % 2)[i % 64] != 0)
                        model_fail("the victim was written into");
}

/* The value, 0 where the key is absent; or an error other than that. */
static inline int map_get_by(const ShmTrie *trie, unsigned k) {
        ShmMapKey key = map_key(k);
        char value[8];
        ssize_t n = shm_map_get(trie, &key, value, sizeof(value), NULL);

        return n == 1 ? value[0] : n == -ENOENT ? 0 : n < 0 ? (int) n : -EBADMSG;
}

static inline char map_get(unsigned k) {
        int value = map_get_by(&map_tries[MODEL_ACTORS_MAX], k);

        if (value < 0)
                model_fail("get: %d", value);
        return (char) value;
}

/* For post(). */
static inline void map_repair(unsigned dead) {
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++)
                if ((dead >> i & 1) && world_actor(i)->id != 0)
                        (void) shm_record_mark_dead(&world_arena, world_actor(i)->id);
        (void) maintain_repair(&world_actors[0]);
        if (shm_repair_wanted(&world_arena))
                model_fail("repair is not over");
}

/* Each slot is free, or live; nobody has noted or guarded any more. Returns how many are live. */
static inline uint64_t map_check_slots(void) {
        uint64_t live = 0;

        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&world_arena); slab++) {
                SlabWord w = shm_slab_word(&world_arena, slab);
                bool in_use = slab_word_state(w) >= SLAB_PARTIAL && slab_word_state(w) <= SLAB_DRAINING;

                for (uint32_t slot = 0; slot < 4; slot++) {
                        bool odd = world_arena.tags[slab].tag[slot] & 1;
                        bool taken = in_use && (w.low >> slot & 1) &&
                                     !(shm_slab_class(&world_arena, w)->tail_mask >> slot & 1);

                        live += odd;
                        if (odd != taken)
                                model_fail("slot %u:%u is %s and its tag %s", slab, slot,
                                           taken ? "taken" : "free", odd ? "odd" : "even");
                }
        }
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++) {
                const ShmRecord *r = world_actor(i)->record;

                for (unsigned n = 0; n < SHM_NOTES_MAX; n++)
                        if (r->notes[n].handle)
                                model_fail("actor %u: a note is left", i);
                if (r->guard)
                        model_fail("actor %u: a guard is left", i);
        }
        return live;
}

static inline uint64_t map_n_inner(uint64_t value, uint32_t depth) {
        const ShmTrie *t = &map_tries[MODEL_ACTORS_MAX];
        uint32_t level = depth < t->n_levels ? depth : t->n_levels;
        uint64_t n = 1, *words;
        void *object;

        if (((uint32_t) value >> 30) != 2)
                return 0;
        if (shm_object_get(&world_arena, value ^ UINT64_C(3) << 30, &object, NULL) != 0)
                model_fail("a linked inner node is stale");
        words = object;
        for (uint32_t i = 0; i < t->levels[level].n_words; i++)
                n += map_n_inner(words[i], depth + 1);
        return n;
}

/* The live objects are root, index, entries and n_others, and each entry is found by its key. */
static inline void map_check(unsigned n_keys, uint64_t n_others) {
        uint64_t live = map_check_slots(), index, found = 0;
        ssize_t n = shm_map_count(&map_tries[MODEL_ACTORS_MAX]);
        void *object;

        map_must(shm_object_get(&world_arena, map_root, &object, NULL));
        index = 1 + map_n_inner(((ShmTrieRoot *) object)->word, 0);
        for (unsigned k = 0; k < n_keys; k++)
                found += map_get(k) != 0;
        if ((uint64_t) n != found)
                model_fail("%zd entries, %lu are found by their keys", n, (unsigned long) found);
        if (live != index + found + n_others)
                model_fail("%lu objects are live, should be %lu", (unsigned long) live,
                           (unsigned long) (index + found + n_others));
}
