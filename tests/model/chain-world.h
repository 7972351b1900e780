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

static const Value in_head = { 17, 1 + 3, 0 }, in_blocks = { CHAIN_SIZE_MAX, 1 + 2 + 4, 0 },
                   in_two = { 13, 1 + 1, 8 };
static const Value *value;

/* For pre(). */
static inline void chain_set(const Value *v) {
        shm_chain_room = CHAIN_ROOM;
        shm_chain_inline = v->head_bytes;
        value = v;
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
