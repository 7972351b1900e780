/* A small map for cases: entries of one byte under a few keys, whose hashes the case chooses. */
#include <errno.h>
#include <string.h>

#include "shm/epoch/epoch-close.h"
#include "shm/maintain/repair.h"
#include "shm/maintain/revoke.h"
#include "shm/map/entry/map.h"
#include "tests/model/world.h"
#include "tests/api/entry-cost.h"
#include "tests/util/maintain.h"
#include "tests/util/map-options.h"
#include "tests/util/trie.h"

#define MAP_HASH UINT64_C(1)
#define MAP_HASH_FAR (UINT64_C(1) << 60)

#define MAP_N_LEFT 3 /* words of a slot that the hashes of cases lead to, and ends of leaves */
#define MAP_N_LEFT_CELL 6 /* and the word of a counter */
#define map_left world.objects[WORLD_N_PRE].handle /* digest of those of a slab, see map_wipe() */
#define map_victim world.notes[1] /* an object into which nobody but its owner writes */

/* The shape of the index. Nodes that stay have 16 words, others 8: no more than a case needs. */
typedef enum MapShape {
        MAP_FIXED, /* two levels stay */
        MAP_SHRINKS, /* none does */
} MapShape;

static MapShape map_shape;
static uint64_t map_root;
static ShmTrie map_tries[MODEL_ACTORS_MAX + 1]; /* each actor's; the last is post()'s */
static uint64_t map_hashes[4]; /* map_init() sets three of them */
static unsigned
        map_n_left; /* so many words of a slot its next owner leaves as they were; map_init() sets it */

static inline void map_must(int r) {
        if (r)
                model_fail("error %d", r);
}

static ShmMapKey map_key(unsigned i) {
        static const char names[4] = { 'a', 'b', 'c', 'd' };

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

static inline void map_shape_root(void) {
        ShmTrieRoot *root;
        void *object;

        map_must(shm_object_get(&world_arena, map_root, &object, NULL));
        root = object;
        root->n_top = map_shape == MAP_SHRINKS ? 0 : 2;
        root->top_bits = 4;
        root->low_bits = map_shape == MAP_SHRINKS ? 3 : 4;
}

/* For pre(). An empty map; its index is in an epoch of its own, or shares one with values. */
static inline void map_init(uint32_t n_slabs, uint32_t index_epoch, uint64_t h0, uint64_t h1, uint64_t h2) {
        world_init(n_slabs, n_slabs, 0);
        map_n_left = MAP_N_LEFT;
        map_hashes[0] = h0;
        map_hashes[1] = h1;
        map_hashes[2] = h2;
        map_must(shm_trie_create(&world_actors[0], shm_epoch_number(index_epoch, 1), &map_root));
        map_shape_root();
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

/*
 * Where the index has epoch 1, and slab 0: leaves one empty slab, and one slot for a leaf in a slab of other objects of
 * epoch 0. A leaf takes the empty slab, which is still in the set of slabs with slots for leaves, before that slot.
 * Returns how many objects there are in epoch 0; *ret_n: in epoch 1, beside the index.
 */
static inline unsigned map_make_tight(unsigned *ret_n) {
        uint64_t handles[16], handle;
        unsigned n = 0, n_free = 0;
        uint32_t slab;

        for (*ret_n = 0; slab_word_state(shm_slab_word(&world_arena, 0)) != SLAB_FULL; ++*ret_n)
                map_must(shm_object_alloc(&world_actors[1], WORLD_SIZE_4, 1, NULL, &handle, NULL));
        while (shm_object_alloc(&world_actors[1], WORLD_SIZE_4, 0, NULL, &handles[n], NULL) == 0)
                n++;
        slab = slot_id_slab(shm_handle_slot(handles[n - 5]));
        for (unsigned i = 0; i < n; i++)
                if (i == n - 1 || slot_id_slab(shm_handle_slot(handles[i])) == slab) {
                        map_must(shm_object_free(&world_actors[1], handles[i]));
                        n_free++;
                }
        if (world_arena.header->n_free.value != 1)
                model_fail("not one slab is empty");
        return n - n_free;
}

/* Objects are part of the memory too. Of each slot as many lines as a node has are also written by plain stores. */
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

/* A slot's words that its new owner leaves are looked at, the others are cleared. Adds to the digest. */
static inline void map_wipe_slot(uint32_t slab, uint32_t slot) {
        uint64_t *words = (uint64_t *) map_line(slab, slot, 0);

        for (unsigned i = 0; i < map_n_left; i++)
                map_left = map_left * UINT64_C(0x9e3779b97f4a7c15) + shm_load_rlx(&words[i]);
        if (!model_weak)
                memset(words + map_n_left, 0, 128 - map_n_left * sizeof(*words));
        for (unsigned i = map_n_left; model_weak && i < 128 / sizeof(*words); i++)
                shm_store_rlx(&words[i], 0);
}

/*
 * For actors: an object over the whole slab. Its owner leaves words that were a map's as they were, since an object is
 * not zeroed, and clears the others. A write that comes late finds there what it expects. To look at such a word is a
 * step: others' accesses do not commute with it. So is a store under a weak memory.
 */
static inline void map_wipe(uint64_t handle) {
        map_left = 0;
        for (uint32_t slot = 0; slot < 4; slot++)
                map_wipe_slot(slot_id_slab(shm_handle_slot(handle)), slot);
}

/* The same for an object in one slot. */
static inline void map_wipe_one(uint64_t handle) {
        SlotId id = shm_handle_slot(handle);

        map_left = 0;
        map_wipe_slot(slot_id_slab(id), slot_id_slot(id));
}

/* The digest of the words that were left, as they are now. */
static inline uint64_t map_digest_slot(uint32_t slab, uint32_t slot, uint64_t left) {
        const uint64_t *words = (const uint64_t *) map_line(slab, slot, 0);

        for (unsigned i = 0; i < map_n_left; i++)
                left = left * UINT64_C(0x9e3779b97f4a7c15) + words[i];
        for (unsigned i = map_n_left; i < 128 / sizeof(*words); i++)
                if (words[i] != 0)
                        model_fail("the victim was written into");
        return left;
}

static inline void map_check_victim(uint64_t handle, uint32_t first, uint32_t end) {
        uint64_t left = 0;

        if (!shm_object_live(&world_arena, handle))
                model_fail("the victim was freed");
        for (uint32_t slot = first; slot < end; slot++)
                left = map_digest_slot(slot_id_slab(shm_handle_slot(handle)), slot, left);
        if (left != map_left)
                model_fail("the victim was written into");
}

/* For post(): the object lives, and nobody has written into it; 0: there is none. */
static inline void map_check_wiped(uint64_t handle) {
        if (handle != 0)
                map_check_victim(handle, 0, 4);
}

static inline void map_check_wiped_one(uint64_t handle) {
        uint32_t slot = slot_id_slot(shm_handle_slot(handle));

        if (handle != 0)
                map_check_victim(handle, slot, slot + 1);
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

/* Each slot is free, or live; no note and no guard is left. Returns how many are live. */
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

/* A revocation of epoch 1. Its own state, where an actor revokes: model_own(). */
static struct {
        ShmRevoke revoke;
        ShmReach reach;
} map_control;

static inline void map_begin_revoke(void) {
        map_must(shm_epoch_revoke(&world_arena, shm_epoch_number(1, 1), false));
        world_fence();
}

/* One round. */
static inline void map_go_on_revoking(ShmActor *actor) {
        uint32_t budget = UINT32_MAX;

        map_control.revoke = (ShmRevoke){};
        if (!shm_epoch_revoking(&world_arena, 1, &map_control.revoke.eras))
                model_fail("nothing is revoked");
        while (!shm_revoke_mark(actor, &map_control.revoke, 1))
                ;
        world_fence(); /* after tags, before guards */
        while (!shm_revoke_collect(actor, &map_control.revoke, &map_control.reach, &budget))
                budget = UINT32_MAX;
}

static inline void map_revoke(ShmActor *actor) {
        map_begin_revoke();
        map_go_on_revoking(actor);
}

/* Returns how many objects root and index are. */
static inline uint64_t map_check_index(void) {
        TrieCount count = trie_count(&map_tries[MODEL_ACTORS_MAX]);

        if (count.n_stale)
                model_fail("a linked inner node is stale");
        if (count.n_sparse)
                model_fail("%lu nodes are not removed", (unsigned long) count.n_sparse);
        return 1 + count.n_nodes;
}

/* The live objects are root, index, entries and n_others, and each entry is found by its key. */
static inline void map_check(unsigned n_keys, uint64_t n_others) {
        uint64_t live = map_check_slots(), index = map_check_index(), found = 0;
        ssize_t n = shm_map_count(&map_tries[MODEL_ACTORS_MAX]);

        for (unsigned k = 0; k < n_keys; k++)
                found += map_get(k) != 0;
        if ((uint64_t) n != found)
                model_fail("%zd entries, %lu are found by their keys", n, (unsigned long) found);
        if (live != index + found + n_others)
                model_fail("%lu objects are live, should be %lu", (unsigned long) live,
                           (unsigned long) (index + found + n_others));
}
