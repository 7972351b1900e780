#pragma once
/*
 * Chains: values that do not fit one object. The leaf, which is called the head then, has SHM_LEAF_CHAINED; its key is
 * followed by padding to 8 bytes and a word that names the first chunk. Each chunk names the next one by its last 8
 * bytes: the bytes of the value stand before them, aligned as the slot is, since a copy is a tenth slower otherwise.
 */
#include "shm/map/leaf.h"

#define SHM_CHAIN_CHUNKS_MAX 16384U

#ifdef SHM_STEP
extern uint32_t shm_chain_room; /* cases of the explorer make chunks small; 0: as large as elsewhere */
#endif

/* Whether a value is to be a chain. */
static inline bool shm_chain_wanted(const ShmArena *arena, uint32_t key_size, uint32_t value_size) {
#ifdef SHM_STEP
        if (shm_chain_room)
                return value_size > shm_chain_room;
#endif
        return shm_leaf_size(key_size, value_size, 0) > shm_arena_size_max(arena);
}

/* Largest value of any entry in this arena, whatever the map allows. */
uint32_t shm_chain_size_max(const ShmArena *arena);

/* The size of the slots of the chunks. */
uint64_t shm_chain_cost(const ShmArena *arena, uint32_t value_size);

/*
 * Appends the value to a head without chunks that this thread has noted; `word`: that of the head. Errors of
 * shm_object_alloc(), -ESTALE also where a chunk was revoked meanwhile: what there is so far is to be freed.
 * `replaced`: the first chunk of the value that the caller frees next, or 0; a hint.
 */
int shm_chain_fill(ShmActor *actor, uint64_t head, uint64_t *word, uint32_t epoch, const void *value,
                   uint32_t size, uint64_t replaced);

/*
 * Copies bytes [offset, offset + size) of the value of a view with SHM_LEAF_CHAINED, inside the value. They count if
 * shm_map_view_live() says so after that. -EUCLEAN: the chain is broken, or was freed meanwhile.
 */
int shm_chain_copy(const ShmArena *arena, const ShmMapView *view, uint32_t offset, void *buffer,
                   uint32_t size);

/* Whether each chunk but the last is a slab of its own. */
bool shm_chain_takes_slabs(const ShmArena *arena);

/* The first chunk of a view's value; 0: it has none, or they are being freed. */
static inline uint64_t shm_chain_first(const ShmMapView *view) {
        if (!(view->head.flags & SHM_LEAF_CHAINED) || !shm_leaf_is_whole(view->handle, view->word))
                return 0;
        return view->word ^ shm_leaf_seal(view->handle);
}

/* Frees the chunks of a leaf that is noted and linked nowhere, if it has any. Others may do so at the same time. */
void shm_chain_free_chunks(ShmActor *actor, uint64_t leaf);
/* The same, then the leaf. As shm_object_free(). */
int shm_chain_free(ShmActor *actor, uint64_t leaf);
