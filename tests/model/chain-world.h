#pragma once
/* The small map for cases of values in chains: each chunk has a few bytes. */
#include "shm/map/leaf/chain.h"
#include "tests/model/map-world.h"

#define CHAIN_ROOM 8
#define CHAIN_SIZE_MAX 25

/* The value that a case puts. */
typedef struct Value {
        uint32_t size;
        unsigned n_objects; /* head, blocks and chunks */
        uint32_t head_bytes;
        unsigned n_short; /* objects where memory is short: the head is of class 1; 0: as many as ever */
} Value;

static const Value in_one = { 1, 1, 0, 0 }, in_head = { 17, 1 + 3, 0, 0 },
                   in_blocks = { CHAIN_SIZE_MAX, 1 + 2 + 4, 0, 0 }, in_two = { 13, 1 + 1, 8, 0 },
                   in_three_or_two = { 13, 1 + 2, 0, 1 + 1 },
                   in_blocks_or_head = { CHAIN_SIZE_MAX, 1 + 2 + 4, 0, 1 + 3 };
static const Value *value;
static unsigned chain_n_others; /* objects that pre() made beside */

/* For pre(). */
static inline void chain_set(const Value *v) {
        shm_chain_room = CHAIN_ROOM;
        shm_chain_inline = v->head_bytes;
        shm_chain_short = v->n_short ? WORLD_SIZE_4 : 0;
        value = v;
        chain_n_others = 0;
}

/* The value's byte: each chunk has one of its own, and each letter has others. */
static inline char chain_byte(char c, ssize_t i) {
        return (char) (c ^ i / CHAIN_ROOM << 5);
}

static inline int chain_put_as(ShmActor *actor, const ShmTrie *trie, unsigned k, char c, uint32_t epoch) {
        char bytes[CHAIN_SIZE_MAX];
        ShmMapPut p = { .mode = SHM_MAP_PUT, .value = bytes, .value_size = value->size, .epoch = epoch };
        ShmMapKey key = map_key(k);

        for (uint32_t i = 0; i < value->size; i++)
                bytes[i] = chain_byte(c, i);
        return shm_map_put(actor, trie, &key, &p, NULL);
}

/* The letter that the whole value is made from; 0: absent; or an error. */
static inline int chain_get_by(const ShmTrie *trie, unsigned k) {
        ShmMapKey key = map_key(k);
        char bytes[CHAIN_SIZE_MAX];
        ssize_t n = shm_map_get(trie, &key, bytes, sizeof(bytes), NULL);

        for (ssize_t i = 1; i < n; i++)
                if (bytes[i] != chain_byte(bytes[0], i))
                        return -EBADMSG;
        return n == value->size ? bytes[0] : n == -ENOENT ? 0 : n < 0 ? (int) n : -EBADMSG;
}

/* There is room for so many objects more. Returns one of those that take the others. */
static inline uint64_t chain_fill_up(unsigned n_left) {
        uint64_t handles[28], handle;
        unsigned n = 0;

        while (shm_object_alloc(&world_actors[1], 64, 0, NULL, &handle, NULL) == 0)
                handles[n++] = handle;
        chain_n_others += n - n_left;
        for (unsigned i = 0; i < n_left; i++)
                map_must(shm_object_free(&world_actors[1], handles[--n]));
        return handles[0];
}

/* How many objects the entry of a key is, and their bytes. */
static inline unsigned chain_objects(unsigned k, uint64_t *ret_bytes) {
        ShmMapKey key = map_key(k);
        ShmTrieCursor c;
        ShmMapView view;
        unsigned n;

        map_must(shm_map_find(&map_tries[MODEL_ACTORS_MAX], &key, &c, &view));
        n = view.room == WORLD_SIZE_4 ? value->n_objects : value->n_short;
        *ret_bytes = (n - 1) * SLOT_COST(WORLD_SIZE_4) + ENTRY_COST(view.room);
        return n;
}

/* An actor. Somebody else uses what is free. */
static inline void t2_alloc(void) {
        uint64_t handle;
        void *object;

        world.results[2] = shm_object_alloc(world_actor(2), 64, 0, NULL, &handle, &object);
        for (unsigned i = 0; world.results[2] == 0 && i < 2; i++)
                /* ORDER: rlx; a step, with which those of others do not commute. */
                shm_store_rlx((uint64_t *) object + i, UINT64_C(0x7777777777777777));
}

/*
 * For post(). All live objects are root, index, entries with their blocks and chunks, and the others. Returns the bytes
 * of all entries.
 */
static inline uint64_t chain_check(unsigned n_keys) {
        const ShmTrie *trie = &map_tries[MODEL_ACTORS_MAX];
        uint64_t live = map_check_slots(), index = map_check_index(), n_objects = 0, sum = 0, bytes;
        unsigned found = 0;

        for (unsigned k = 0; k < n_keys; k++) {
                int got = chain_get_by(trie, k);

                if (got < 0)
                        model_fail("get: %d", got);
                if (got == 0)
                        continue;
                found++;
                n_objects += chain_objects(k, &bytes);
                sum += bytes;
        }
        if (shm_map_count(trie) != found)
                model_fail("%zd entries, %u are found by their keys", shm_map_count(trie), found);
        if (live != index + chain_n_others + n_objects)
                model_fail("%lu objects are live, %lu of them of the index", (unsigned long) live,
                           (unsigned long) index);
        return sum;
}
