#pragma once
/* The small map for cases of values in chains: each chunk has a few bytes. */
#include "shm/map/chain.h"
#include "tests/model/map-world.h"

#define CHAIN_ROOM 8
#define CHAIN_SIZE_MAX 25

/* The value that a case puts. */
typedef struct Value {
        uint32_t size;
        unsigned n_objects; /* head, blocks and chunks */
        uint32_t head_bytes;
} Value;

static const Value in_one = { 1, 1, 0 }, in_head = { 17, 1 + 3, 0 },
                   in_blocks = { CHAIN_SIZE_MAX, 1 + 2 + 4, 0 }, in_two = { 13, 1 + 1, 8 };
static const Value *value;
static unsigned chain_n_others; /* objects that pre() made beside */

/* For pre(). */
static inline void chain_set(const Value *v) {
        shm_chain_room = CHAIN_ROOM;
        shm_chain_inline = v->head_bytes;
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

/* For post(). All live objects are root, index, entries with their blocks and chunks, and the others. */
static inline void chain_check(unsigned n_keys) {
        const ShmTrie *trie = &map_tries[MODEL_ACTORS_MAX];
        uint64_t live = map_check_slots(), index = map_check_index();
        unsigned found = 0;

        for (unsigned k = 0; k < n_keys; k++) {
                int got = chain_get_by(trie, k);

                if (got < 0)
                        model_fail("get: %d", got);
                found += got != 0;
        }
        if (shm_map_count(trie) != found)
                model_fail("%zd entries, %u are found by their keys", shm_map_count(trie), found);
        if (live != index + chain_n_others + found * value->n_objects)
                model_fail("%lu objects are live, %lu of them of the index", (unsigned long) live,
                           (unsigned long) index);
}
