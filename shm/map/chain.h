#pragma once
/*
 * Chains: values that do not fit one object, or would waste much of it. The leaf, which is called the head then, has
 * SHM_LEAF_CHAINED; its key is followed by padding to 8 bytes and words that name chunks, objects that are full of the
 * value's bytes. If there are more than 16, or the head has no room for their words, one word names the first block
 * instead: an object of such words, the last of which names the next block. Behind the words, the first bytes of the
 * value may have the rest of the head's slot.
 */
#include "shm/map/leaf.h"

#define SHM_CHAIN_CHUNKS_MAX 16384U

#ifdef SHM_STEP
extern uint32_t shm_chain_room; /* cases of the explorer make chunks small; 0: as large as elsewhere */
extern uint32_t shm_chain_inline; /* bytes of the value in the head then */
/* Heads with so much room have all of the rest; so has a head where memory is short. 0: there are no such heads. */
extern uint32_t shm_chain_short;
#endif

/* A leaf of this size or less is never in two pieces: a second one costs each get a cache miss. */
#define SHM_CHAIN_WHOLE_MAX 816U

/*
 * The size that the head of a chain needs; 0: key and value are better one object. `key_size`: with a claim, if any.
 * Memory that is short is in empty slabs: each piece may need one of its own, so that there are as few as can be.
 */
uint32_t shm_chain_head_size_large(const ShmArena *arena, uint32_t key_size, uint32_t value_size,
                                   bool is_short);
static inline uint32_t shm_chain_head_size(const ShmArena *arena, uint32_t key_size, uint32_t value_size,
                                           bool is_short) {
#ifndef SHM_STEP
        size_t whole = shm_leaf_size(key_size, value_size, 0);

        if (__builtin_expect(whole <= SHM_CHAIN_WHOLE_MAX && whole <= shm_arena_size_max(arena), 1))
                return 0;
#endif
        return shm_chain_head_size_large(arena, key_size, value_size, is_short);
}

/* Largest value of any entry in this arena, whatever the map allows. */
uint32_t shm_chain_size_max(const ShmArena *arena);

/* How many bytes of the value are in a head whose slot has the size `room`: the first ones. */
uint32_t shm_chain_head_bytes(const ShmArena *arena, const ShmMapLeaf *head, uint32_t room);

/* The size of the slots of chunks and blocks. */
uint64_t shm_chain_cost(const ShmArena *arena, const ShmMapLeaf *head, uint32_t room);

/*
 * Makes the value of a head, not sealed, that has none and that this thread has noted; `words`: those of the head, in
 * a slot of the size `room`. Errors of shm_object_alloc(), -ESTALE also where a chunk was revoked meanwhile: what there
 * is so far is to be freed.
 */
int shm_chain_fill(ShmActor *actor, uint64_t handle, const ShmMapLeaf *head, uint32_t room, uint64_t *words,
                   const void *value);

/*
 * Copies bytes [offset, offset + size) of the value of a view with SHM_LEAF_CHAINED, inside the value. They count if
 * shm_map_view_live() says so after that. -EUCLEAN: the chain is broken, or was freed meanwhile.
 */
int shm_chain_copy(const ShmArena *arena, const ShmMapView *view, uint32_t offset, void *buffer,
                   uint32_t size);

/* Whether each chunk but the last is a slab of its own. */
bool shm_chain_takes_slabs(const ShmArena *arena);

/* Frees the chunks of a leaf that is noted and linked nowhere, if it has any. Others may do so at the same time. */
void shm_chain_free_chunks(ShmActor *actor, uint64_t leaf);
/* The same, then the leaf. As shm_object_free(). */
int shm_chain_free(ShmActor *actor, uint64_t leaf);
