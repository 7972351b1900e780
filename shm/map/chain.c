/*
 * Chains
 *
 * Purpose: values of any size, in objects that the entry's leaf alone owns.
 *
 *     head:  header | key | first -----> chunk:  bytes | next -----> chunk:  bytes
 *
 *     put      note of the head; tag of the head odd; header, key, first = none
 *              for each chunk: the word before (first, or next) names it; its tag odd; guard it; next = none; bytes
 *              the head is linked (shm/map/trie-change.c), the note is dropped
 *     get      first; bytes of all chunks; first is the same; the head is live
 *     free     the head is noted and unlinked; first is condemned; chunks are freed, from the last one to the first;
 *              the head is freed, the note is dropped
 *
 * Invariants
 *   1. The chunks of a head that are live are its first ones, each named by a word of the one before: a chunk is named
 *      before its tag is odd, and freed before the one that names it. So whoever begins anew finds them all.
 *   2. A head is freed after its chunks. Only a revocation makes it stale before, and all chunks with it: they are of
 *      one era.
 *   3. The first word is condemned before any chunk is freed. A reader that finds it as it was, and after that the head
 *      live, read nothing but chunks of this value.
 *   4. Words are sealed with the handle of the object that they are in, as the trie's are (shm/map/trie-word.h). Bytes
 *      that were there before, or that are another object's by now, name no live object (but for a chance of 2^-34).
 *   5. What was read from a chunk counts if the chunk is live after that. An object is freed by its versioned handle:
 *      of several that free one chain each chunk is freed once.
 *   6. A chunk may be revoked while it is filled: it is written under a guard, also while its word is to name the next.
 *   7. The number of chunks follows from the size of the value: walks end whatever the arena holds.
 *
 * Who may do what: a put, with its own actor, outside any operation; it uses the guard. Whoever has unlinked the head,
 *   or repairs a record that notes it, frees. Reading needs no actor.
 *
 * Crash: the note of the head leads to all chunks. A chunk that is named, and whose tag is not odd, is still in the
 *   record of the dead thread as any slot; nobody else can have it before that record is rolled back, and afterwards
 *   nobody looks at the head. Repair frees what is not in the map, chunks first (shm/maintain/rollback.c).
 */
#include "shm/map/chain.h"

#include <errno.h>

#ifdef SHM_STEP
#define PART 2U
uint32_t shm_chain_room;
#else
#define PART 512U /* chunks that one walk collects */
#endif

/* Sealed with the handle of the chunk that has it, and behind its bytes; 0: no chunk follows yet. The last has none. */
typedef uint64_t ChunkNext;

static ChunkNext *next_in(const void *chunk, uint32_t room) {
        return (ChunkNext *) ((uint8_t *) chunk + room);
}

/* Bytes of chunks in a slab of the class. */
static uint32_t slab_room(const ShmClass *class) {
        return class->n_slots * (class->size - (uint32_t) sizeof(ChunkNext));
}

/* The size of a chunk with so many bytes of the value, of which `left` are still to come, these included. */
static size_t chunk_size(uint32_t n, uint32_t left) {
        return n < left ? n + sizeof(ChunkNext) : n;
}

/* The largest class that wastes less than a tenth; else the one that wastes least. */
static uint32_t chunk_class(const ShmArena *arena) {
        uint32_t best = arena->n_classes - 1;

        for (uint32_t i = arena->n_classes; i-- > 0;) {
                if (slab_room(&arena->classes[i]) * 11 >= SHM_SLAB_SIZE * 10)
                        return i;
                if (slab_room(&arena->classes[i]) > slab_room(&arena->classes[best]))
                        best = i;
        }
        return best;
}

bool shm_chain_takes_slabs(const ShmArena *arena) {
        return arena->classes[chunk_class(arena)].n_slots == 1;
}

static uint32_t chunk_room(const ShmArena *arena) {
#ifdef SHM_STEP
        if (shm_chain_room)
                return shm_chain_room;
#endif
        return arena->classes[chunk_class(arena)].size - (uint32_t) sizeof(ChunkNext);
}

uint32_t shm_chain_size_max(const ShmArena *arena) {
        uint64_t n = (uint64_t) SHM_CHAIN_CHUNKS_MAX * chunk_room(arena);

        return n < SHM_LEAF_VALUE_MAX ? (uint32_t) n : SHM_LEAF_VALUE_MAX;
}

uint64_t shm_chain_cost(const ShmArena *arena, uint32_t value_size) {
        uint32_t room = chunk_room(arena), n = value_size / room, last = value_size % room ?: room;

        n -= value_size % room == 0;
        return (uint64_t) n * arena->classes[shm_arena_class(arena, room + sizeof(ChunkNext))].size +
               arena->classes[shm_arena_class(arena, last)].size;
}

/* NULL: no chunk can be there. Nothing is read: whether the chunk is live is seen by the head. */
static const uint8_t *chunk_at(const ShmArena *arena, uint64_t handle, size_t size) {
        uint32_t class = shm_arena_class(arena, size);
        SlotId id = shm_handle_slot(handle);

        if (!shm_handle_plausible(arena, handle) || slot_id_slot(id) >= arena->classes[class].n_slots)
                return NULL;
        return shm_slot_address(arena, id, class);
}

/*
 * Chunks of the value that a put replaces are fetched while others are copied. The walk that frees them would wait for
 * each: only a chunk tells where the next one is. Returns the handle; 0: no chunk can be there.
 */
static uint64_t fetch_chunk(const ShmArena *arena, uint64_t handle, uint32_t room) {
        const uint8_t *chunk = chunk_at(arena, handle, room + sizeof(ChunkNext));
        SlotId id = shm_handle_slot(handle);

        if (!chunk)
                return 0;
        __builtin_prefetch(next_in(chunk, room));
        __builtin_prefetch(shm_slot_tag(arena, id));
        __builtin_prefetch(&arena->lines[slot_id_slab(id)]);
        return handle;
}

/* The same of the chunk after that, if it is still one, and not the last. */
static uint64_t fetch_next_chunk(const ShmArena *arena, uint64_t handle, uint32_t room) {
        const uint8_t *chunk = chunk_at(arena, handle, room + sizeof(ChunkNext));
        uint64_t next;

        if (!chunk)
                return 0;
        next = shm_peek_rlx(next_in(chunk, room)); /* ORDER: rlx; a guess, nothing is decided by it. */
        return fetch_chunk(arena, next ^ shm_leaf_seal(handle), room);
}

int shm_chain_fill(ShmActor *actor, uint64_t head, uint64_t *word, uint32_t epoch, const void *value,
                   uint32_t size, uint64_t replaced) {
        ShmPending pending = { .link = word, .seal = shm_leaf_seal(head) };
        uint32_t room = chunk_room(actor->arena), n;
        const uint8_t *from = value;
        uint64_t old = fetch_chunk(actor->arena, replaced, room);
        int r = 0;

        for (; size > 0; from += n, size -= n) {
                uint64_t handle;
                void *chunk;

                old = fetch_next_chunk(actor->arena, old, room);
                n = size < room ? size : room;
                r = shm_object_alloc(actor, chunk_size(n, size), epoch, &pending, &handle, &chunk);
                if (r)
                        break;
                if (!shm_actor_guard(actor, handle))
                        return -ESTALE;
                pending = (ShmPending){ .link = next_in(chunk, room), .seal = shm_leaf_seal(handle) };
                if (n < size)
                        /* ORDER: rlx; the head is linked after it. */
                        shm_store_rlx(pending.link, pending.seal);
                shm_racy_copy(chunk, from, n); /* as a leaf is filled */
        }
        shm_actor_unguard(actor);
        return r;
}

int shm_chain_copy(const ShmArena *arena, const ShmMapView *view, uint32_t offset, void *buffer,
                   uint32_t size) {
        uint64_t handle = view->word ^ shm_leaf_seal(view->handle);
        uint32_t room = chunk_room(arena), left = view->head.value_size, n;
        uint8_t *to = buffer;

        for (; size > 0 && left > 0; left -= n) {
                const uint8_t *chunk;
                uint32_t k;

                n = left < room ? left : room;
                chunk = chunk_at(arena, handle, chunk_size(n, left));
                if (!chunk)
                        return -EUCLEAN;
                if (n < left)
                        /* ORDER: rlx; whether it counts is seen by the head, later. */
                        handle = shm_load_rlx(next_in(chunk, room)) ^ shm_leaf_seal(handle);
                if (offset >= n) {
                        offset -= n;
                        continue;
                }
                k = n - offset < size ? n - offset : size;
                shm_racy_copy(to, chunk + offset, k);
                to += k;
                size -= k;
                offset = 0;
        }
        return 0;
}

/* A chunk that is live and not the last one, and the handle of the next one, or 0. */
static bool chunk_next(const ShmArena *arena, uint64_t handle, uint32_t room, uint64_t *ret) {
        void *chunk;
        size_t size;

        if (shm_object_get(arena, handle, &chunk, &size) != 0 || size < room + sizeof(ChunkNext))
                return false;
        /* ORDER: acq, pairs with shm_uncached_free(); the word is read before the tag is again. */
        *ret = shm_load_acq(next_in(chunk, room)) ^ shm_leaf_seal(handle);
        return shm_object_live(arena, handle);
}

/* The last PART of the first n_max live chunks of n_all, in a ring; returns how many are live. */
static uint32_t walk_chunks(const ShmArena *arena, uint64_t handle, uint32_t n_max, uint32_t n_all,
                            uint64_t *ring) {
        uint32_t n = 0, room = chunk_room(arena);

        while (n < n_max && handle != 0) {
                uint64_t next = 0;

                if (n + 1 < n_all ? !chunk_next(arena, handle, room, &next) : !shm_object_live(arena, handle))
                        break;
                ring[n++ % PART] = handle;
                handle = next;
        }
        return n;
}

static void free_chunks(ShmActor *actor, uint64_t first, uint32_t n_all) {
        uint32_t n_max = n_all, n, k;
        uint64_t ring[PART];

        do {
                n = walk_chunks(actor->arena, first, n_max, n_all, ring);
                for (k = 0; k < PART && k < n; k++)
                        (void) shm_object_free(actor, ring[(n - 1 - k) % PART]);
                n_max = n - k;
        } while (n_max > 0);
}

/* False: the leaf is gone. */
static bool condemn_chain(const ShmArena *arena, const ShmMapView *view, uint64_t *ret_first) {
        uint64_t seal = shm_leaf_seal(view->handle), raw = view->word, first = raw ^ seal;

        /* ORDER: acqrel, pairs with shm_map_view_live(); before the first chunk's tag is even. */
        while (shm_trie_is_leaf(first) && !shm_cas_acqrel(view->at, &raw, first ^ SHM_TRIE_FLIP ^ seal))
                first = raw ^ seal;
        *ret_first = shm_trie_is_leaf(first) ? first : first ^ SHM_TRIE_FLIP;
        return shm_trie_is_leaf(*ret_first) && shm_object_live(arena, view->handle);
}

void shm_chain_free_chunks(ShmActor *actor, uint64_t leaf) {
        uint32_t room = chunk_room(actor->arena);
        ShmMapView view;
        uint64_t first;

        if (shm_map_view(actor->arena, leaf, &view) != 0 || !(view.head.flags & SHM_LEAF_CHAINED))
                return;
        if (condemn_chain(actor->arena, &view, &first))
                free_chunks(actor, first, (view.head.value_size + room - 1) / room);
}

int shm_chain_free(ShmActor *actor, uint64_t leaf) {
        shm_chain_free_chunks(actor, leaf);
        return shm_object_free(actor, leaf);
}
