#pragma once
/*
 * Chains: values that do not fit one object, or would waste much of it. The leaf of such an entry is called the head,
 * and has SHM_LEAF_CHAINED. Its key is followed by padding to 8 bytes, and by words that name chunks. A chunk is an
 * object that has nothing but bytes of the value. If there are more than 16 chunks, or the head has no room for their
 * words, it has one word, which names the first block. A block is an object of such words, and its last word names the
 * next block. Behind the words, the rest of the head's slot may have the first bytes of the value.
 */
#include "shm/map/leaf/leaf.h"

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
 * The size that the head of a chain needs; 0: key and value are better in one object. `key_size` includes the claim, if
 * there is one. `is_short`: memory is short. Then perhaps only whole slabs are free, and each piece needs one of its
 * own. So there are as few pieces as possible.
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

/* The largest value of any entry in this arena, whatever the options of maps allow. */
uint32_t shm_chain_size_max(const ShmArena *arena);

/* How many bytes of the value are in a head whose slot has the size `room`. They are the first ones. */
uint32_t shm_chain_head_bytes(const ShmArena *arena, const ShmMapLeaf *head, uint32_t room);

/* The memory of the slots of chunks and blocks, as shm_leaf_cost() counts it. */
uint64_t shm_chain_cost(const ShmArena *arena, const ShmMapLeaf *head, uint32_t room);

/*
 * Makes the value of a head that has none yet, and that this thread has noted. `head`: not sealed; `words`: those of
 * the head, in a slot of the size `room`. Errors of shm_object_alloc(); -ESTALE also if a chunk was revoked meanwhile.
 * After an error, free the part that was made.
 */
int shm_chain_fill(ShmActor *actor, uint64_t handle, const ShmMapLeaf *head, uint32_t room, uint64_t *words,
                   const void *value);

/*
 * Copies bytes [offset, offset + size) of a value. The range is inside the value, and the view has SHM_LEAF_CHAINED.
 * The bytes count if shm_map_view_live() says so after that. -EUCLEAN: the chain is damaged, or was freed meanwhile.
 */
int shm_chain_copy(const ShmArena *arena, const ShmMapView *view, uint32_t offset, void *buffer,
                   uint32_t size);

/* Whether each chunk but the last is a slab of its own. */
bool shm_chain_takes_slabs(const ShmArena *arena);

/* Frees the chunks, if any, of a leaf that is noted and linked nowhere. Others may do so at the same time. */
void shm_chain_free_chunks(ShmActor *actor, uint64_t leaf);
/* Frees the chunks, then the leaf. Errors of shm_object_free(). */
int shm_chain_free(ShmActor *actor, uint64_t leaf);
