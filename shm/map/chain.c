/*
 * Chains
 *
 * Purpose: values of any size, in objects that the entry's leaf alone owns.
 *
 *     one chunk    head:  header | key | chunk
 *     more         head:  header | key | block ---> block:  chunk, chunk, ..., block ---> block:  chunk, ...
 *
 *     put      note of the head; tag of the head odd; header, key, words = none
 *              for each block: guard the object that has the word before; the word names the block; its tag odd; guard
 *              it; words = none
 *              chunks of the head, or the block, that the thread's cache has: words name them; their tags odd; bytes;
 *              they leave the cache
 *              each other chunk: a word names it; its tag odd; guard it; bytes
 *              the head is linked (shm/map/trie-change.c), the note is dropped
 *     get      words, and bytes of all chunks; the first word is as it was before; the head is live
 *     free     the head is noted and unlinked; its first word is condemned; from the last one to the first, chunks are
 *              freed, each block after its own; the head is freed, the note is dropped
 *
 * Blocks, and no word in each chunk that names the next one: chunks are pages, and the next use of an old one is to be
 * overwritten. To read a word of each takes as long as a fifth of the copy, for its page is in no TLB (measured).
 *
 * Invariants
 *   1. Of the chunks and blocks of a head in their order, those that are live are the first ones: each is named before
 *      its tag is odd, and freed before the object that names it. So whoever begins anew finds them all.
 *   2. A head is freed after its chunks. Only a revocation makes it stale before, and all chunks with it: they are of
 *      one era.
 *   3. The first word is condemned before any chunk is freed. A reader that finds it as it was, and after that the head
 *      live, read nothing but chunks of this value.
 *   4. Words are sealed with the handle of the object that they are in, as the trie's are (shm/map/trie-word.h). Bytes
 *      that were there before, or that are another object's by now, name no live object (but for a chance of 2^-34).
 *   5. Words that were read from a block count if the block is live after that. An object is freed by its versioned
 *      handle: of several threads that free one chain one frees each chunk.
 *   6. A block or a chunk may be revoked while the chain is made. A chunk is written while its slot is in the cache, or
 *      under a guard; the words of a block under a guard, and those of the head under its note. A guard on an object
 *      that went stale says so, and the put ends.
 *   7. The numbers of chunks and blocks follow from the size of the value: walks end whatever the arena holds.
 *
 * Who may do what: a put, with its own actor, outside any operation; it uses the guard. Whoever has unlinked the head,
 *   or repairs a record that notes it, frees. Reading needs no actor.
 *
 * Crash: the note of the head leads to all blocks and chunks. An object that is named, and whose tag is not odd, is
 *   still in the record of the dead thread as any slot; nobody else can have it before that record is rolled back, and
 *   afterwards nobody looks at the head. Repair frees what is not in the map, chunks first (shm/maintain/rollback.c).
 */
#include "shm/map/chain.h"

#include <errno.h>

#include "shm/cache/batch.h"

#ifdef SHM_STEP
#define PART 1U
#define HEAD_WORDS_MAX 3U
uint32_t shm_chain_room;
#else
#define PART 128U /* blocks that one walk collects: each is 8 bytes of stack */
#define HEAD_WORDS_MAX 1U /* all heads are of one class: a hand of eviction sweeps each class */
#endif
#define WORDS_MAX (SHM_CLASS_SIZE_MAX / sizeof(ChainWord))

/* The handle of a chunk, or of the next block, sealed with that of the head or block that the word is in. */
typedef uint64_t ChainWord;

/* Bytes of each chunk but the last, and words of each block but the last. */
typedef struct Shape {
        uint32_t room, n_words;
} Shape;

/* Bytes of chunks in a slab of the class. */
static uint32_t slab_room(const ShmClass *class) {
        return class->n_slots * class->size;
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

static Shape chain_shape(const ShmArena *arena) {
        uint32_t room = arena->classes[chunk_class(arena)].size;

#ifdef SHM_STEP
        if (shm_chain_room)
                return (Shape){ .room = shm_chain_room, .n_words = 3 };
#endif
        return (Shape){ .room = room, .n_words = room / (uint32_t) sizeof(ChainWord) };
}

/* One at least, whatever a damaged head says. */
static uint32_t chain_chunks(Shape shape, uint32_t value_size) {
        return value_size > 0 ? (value_size - 1) / shape.room + 1 : 1;
}

/* Blocks for chunks that the head does not name: one at least, and no last one for the sake of one chunk. */
static uint32_t chain_blocks(Shape shape, uint32_t n_chunks) {
        return n_chunks <= shape.n_words ? 1 : (n_chunks - 1 + shape.n_words - 2) / (shape.n_words - 1);
}

/* How many of `left` chunks so many words name. If not all of them, the last word names the next block. */
static uint32_t words_chunks(uint32_t n_words, uint32_t left) {
        return left <= n_words ? left : n_words - 1;
}

/* Words of a block that is to name `left` chunks, or the first of them. */
static uint32_t block_words(Shape shape, uint32_t left) {
        return left <= shape.n_words ? left : shape.n_words;
}

static uint32_t words_size(uint32_t n_words) {
        return n_words * (uint32_t) sizeof(ChainWord);
}

uint32_t shm_chain_words(const ShmArena *arena, const ShmMapLeaf *head) {
        uint32_t n = chain_chunks(chain_shape(arena), head->value_size);
        size_t size = shm_leaf_size(head->key_size, head->value_size, head->flags);

        return n <= HEAD_WORDS_MAX && size + words_size(n - 1) <= shm_arena_size_max(arena) ? n : 1;
}

uint32_t shm_chain_size_max(const ShmArena *arena) {
        uint64_t n = (uint64_t) SHM_CHAIN_CHUNKS_MAX * chain_shape(arena).room;

        return n < SHM_LEAF_VALUE_MAX ? (uint32_t) n : SHM_LEAF_VALUE_MAX;
}

static uint64_t slot_cost(const ShmArena *arena, uint32_t size) {
        return size > 0 ? arena->classes[shm_arena_class(arena, size)].size : 0;
}

static uint64_t blocks_cost(const ShmArena *arena, Shape shape, uint32_t n_chunks) {
        uint32_t n_more = chain_blocks(shape, n_chunks) - 1;

        return n_more * slot_cost(arena, words_size(shape.n_words)) +
               slot_cost(arena, words_size(n_chunks - n_more * (shape.n_words - 1)));
}

uint64_t shm_chain_cost(const ShmArena *arena, const ShmMapLeaf *head) {
        Shape shape = chain_shape(arena);
        uint32_t n = chain_chunks(shape, head->value_size), last = head->value_size - (n - 1) * shape.room;

        return (n - 1) * slot_cost(arena, shape.room) + slot_cost(arena, last) +
               (shm_chain_words(arena, head) < n ? blocks_cost(arena, shape, n) : 0);
}

/* A chain that is being made. */
typedef struct Fill {
        ShmActor *actor;
        Shape shape;
        uint32_t epoch;
        ShmPending pending; /* the word that is to name the next object */
        uint64_t owner; /* the head, or the block, that has this word */
        const uint8_t *from;
        uint32_t left; /* bytes still to be copied */
} Fill;

/* The owner has words now, which name nothing. Under its guard, or its note. */
static void fill_clear_words(Fill *f, uint64_t owner, ChainWord *words, uint32_t n) {
        f->owner = owner;
        f->pending = (ShmPending){ .link = words, .seal = shm_leaf_seal(owner) };
        for (uint32_t i = 0; i < n; i++)
                shm_store_rlx(&words[i], f->pending.seal); /* ORDER: rlx; the head is linked after it. */
}

static void fill_advance(Fill *f, uint32_t n, uint32_t size) {
        f->pending.link += n;
        f->from += size;
        f->left -= size;
}

/* Full chunks, as many as the cache has. Returns how many. */
static uint32_t fill_full_chunks(Fill *f, uint32_t n_max) {
        const ShmBatchFill fill = {
                .words = f->pending.link,
                .seal = f->pending.seal,
                .from = f->from,
                .size = f->shape.room,
        };
        uint32_t full = f->left / f->shape.room, n;

        n = shm_batch_fill(f->actor, f->epoch, &fill, n_max < full ? n_max : full);
        fill_advance(f, n, n * f->shape.room);
        return n;
}

static int fill_chunk(Fill *f) {
        uint32_t size = f->left < f->shape.room ? f->left : f->shape.room;
        uint64_t handle;
        void *chunk;
        int r;

        r = shm_object_alloc(f->actor, size, f->epoch, &f->pending, &handle, &chunk);
        if (r)
                return r;
        if (!shm_actor_guard(f->actor, handle))
                return -ESTALE;
        shm_racy_copy(chunk, f->from, size); /* as a leaf is filled */
        fill_advance(f, 1, size);
        return 0;
}

static int fill_words(Fill *f, uint32_t n_words) {
        uint32_t n = words_chunks(n_words, chain_chunks(f->shape, f->left)), k;
        int r;

        for (; n > 0; n -= k) {
                if (!shm_actor_guard(f->actor, f->owner))
                        return -ESTALE;
                k = fill_full_chunks(f, n);
                if (k > 0)
                        continue;
                r = fill_chunk(f);
                if (r)
                        return r;
                k = 1;
        }
        return 0;
}

static int fill_block(Fill *f) {
        uint32_t n_words = block_words(f->shape, chain_chunks(f->shape, f->left));
        uint64_t block;
        void *object;
        int r;

        if (!shm_actor_guard(f->actor, f->owner))
                return -ESTALE;
        r = shm_object_alloc(f->actor, words_size(n_words), f->epoch, &f->pending, &block, &object);
        if (r)
                return r;
        if (!shm_actor_guard(f->actor, block))
                return -ESTALE;
        fill_clear_words(f, block, object, n_words);
        return fill_words(f, n_words);
}

int shm_chain_fill(ShmActor *actor, uint64_t handle, const ShmMapLeaf *head, uint64_t *words,
                   const void *value) {
        uint32_t n_words = shm_chain_words(actor->arena, head);
        Fill f;
        int r;

        f.actor = actor;
        f.shape = chain_shape(actor->arena);
        f.epoch = head->epoch;
        f.from = value;
        f.left = head->value_size;
        fill_clear_words(&f, handle, words, n_words);
        r = fill_words(&f, n_words);
        while (r == 0 && f.left > 0)
                r = fill_block(&f);
        shm_actor_unguard(actor);
        return r;
}

/* NULL: no such object can be there. Nothing is read: whether it is live is seen by the head. */
static const void *object_at(const ShmArena *arena, uint64_t handle, size_t size) {
        uint32_t class = shm_arena_class(arena, size);
        SlotId id = shm_handle_slot(handle);

        if (!shm_handle_plausible(arena, handle) || slot_id_slot(id) >= arena->classes[class].n_slots)
                return NULL;
        return shm_slot_address(arena, id, class);
}

static uint64_t word_handle(uint64_t owner, const ChainWord *word) {
        /* ORDER: rlx; whether it counts is seen by the head, later. */
        return shm_load_rlx(word) ^ shm_leaf_seal(owner);
}

/* The bytes of the chunks that a head names, or a block. */
typedef struct Part {
        uint64_t owner;
        const ChainWord *words;
        uint32_t size;
} Part;

static int part_copy(const ShmArena *arena, const Part *part, uint32_t room, uint32_t offset, uint8_t *to,
                     uint32_t size) {
        while (size > 0) {
                uint32_t i = offset / room, left = part->size - i * room, n = left < room ? left : room;
                uint32_t k = n - offset % room < size ? n - offset % room : size;
                const uint8_t *chunk = object_at(arena, word_handle(part->owner, &part->words[i]), n);

                if (!chunk)
                        return -EUCLEAN;
                shm_racy_copy(to, chunk + offset % room, k);
                to += k;
                offset += k;
                size -= k;
        }
        return 0;
}

/* Whether the head has room for its words. */
static bool head_fits(const ShmMapView *view, uint32_t n_words) {
        return shm_leaf_size(view->head.key_size, view->head.value_size, view->head.flags) +
                       words_size(n_words - 1) <=
               view->room;
}

int shm_chain_copy(const ShmArena *arena, const ShmMapView *view, uint32_t offset, void *buffer,
                   uint32_t size) {
        Part part = { .owner = view->handle, .words = view->at };
        uint32_t left = view->head.value_size, n_words = shm_chain_words(arena, &view->head);
        Shape shape = chain_shape(arena);
        uint8_t *to = buffer;

        if (!head_fits(view, n_words))
                return -EUCLEAN;
        for (;;) {
                uint32_t n_left = chain_chunks(shape, left), n = words_chunks(n_words, n_left), k = 0;

                part.size = n < n_left ? n * shape.room : left;
                if (offset < part.size)
                        k = part.size - offset < size ? part.size - offset : size;
                if (part_copy(arena, &part, shape.room, offset, to, k) != 0)
                        return -EUCLEAN;
                offset -= offset < part.size ? offset : part.size;
                to += k;
                size -= k;
                if (size == 0 || n == n_left)
                        return 0;
                left -= part.size;
                n_words = block_words(shape, n_left - n);
                part.owner = word_handle(part.owner, &part.words[n]);
                part.words = object_at(arena, part.owner, words_size(n_words));
                if (!part.words)
                        return -EUCLEAN;
        }
}

/* The last PART of the first n_max live blocks of n_all, in a ring; returns how many are live. */
static uint32_t walk_blocks(const ShmArena *arena, uint64_t block, uint32_t n_max, uint32_t n_all,
                            uint64_t *ring) {
        uint32_t off = words_size(chain_shape(arena).n_words - 1), n = 0;

        while (n < n_max && block != 0) {
                ChainWord next = 0;

                if (n + 1 < n_all ? shm_object_copy(arena, block, off, &next, sizeof(next)) != 0
                                  : !shm_object_live(arena, block))
                        break;
                ring[n++ % PART] = block;
                block = next ^ shm_leaf_seal(block);
        }
        return n;
}

/* Chunks that are not live follow all that are: they were not made, or freed from the last one on. */
static uint32_t count_live(const ShmArena *arena, const uint64_t *handles, uint32_t n_all) {
        uint32_t n = 0;

        if (shm_object_live(arena, handles[n_all - 1]))
                return n_all;
        while (n < n_all && shm_object_live(arena, handles[n]))
                n++;
        return n;
}

/* False: the object is gone. */
static bool read_handles(const ShmArena *arena, uint64_t owner, uint32_t off, uint64_t *handles, uint32_t n) {
        if (shm_object_copy(arena, owner, off, handles, words_size(n)) != 0)
                return false;
        for (uint32_t i = 0; i < n; i++)
                handles[i] ^= shm_leaf_seal(owner);
        return true;
}

static void free_chunks(ShmActor *actor, const uint64_t *handles, uint32_t n) {
        for (n = count_live(actor->arena, handles, n); n > 0; n--)
                (void) shm_object_free(actor, handles[n - 1]);
}

/* A block that names n chunks goes with them. */
static void free_block(ShmActor *actor, uint64_t block, uint32_t n) {
        uint64_t handles[WORDS_MAX];

        if (!read_handles(actor->arena, block, 0, handles, n))
                return;
        free_chunks(actor, handles, n);
        (void) shm_object_free(actor, block);
}

static void free_blocks(ShmActor *actor, uint64_t first, Shape shape, uint32_t n_chunks) {
        uint32_t n_all = chain_blocks(shape, n_chunks), n_max = n_all, n, k;
        uint64_t ring[PART];

        do {
                n = walk_blocks(actor->arena, first, n_max, n_all, ring);
                for (k = 0; k < PART && k < n; k++) {
                        uint32_t i = n - 1 - k;

                        free_block(actor, ring[i % PART],
                                   words_chunks(shape.n_words, n_chunks - i * (shape.n_words - 1)));
                }
                n_max = n - k;
        } while (n_max > 0);
}

/* The chunks that the head itself names. `first`: the first of them, whose word was condemned. */
static void free_head_chunks(ShmActor *actor, const ShmMapView *view, uint64_t first, uint32_t n) {
        uint32_t off = (uint32_t) ((const uint8_t *) view->at - (view->bytes - sizeof(ShmMapLeaf)));
        uint64_t handles[HEAD_WORDS_MAX];

        if (!read_handles(actor->arena, view->handle, off, handles, n))
                return;
        handles[0] = first;
        free_chunks(actor, handles, n);
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
        Shape shape = chain_shape(actor->arena);
        ShmMapView view;
        uint64_t first;
        uint32_t n;

        if (shm_map_view(actor->arena, leaf, &view) != 0 || !(view.head.flags & SHM_LEAF_CHAINED) ||
            !condemn_chain(actor->arena, &view, &first))
                return;
        n = chain_chunks(shape, view.head.value_size);
        if (shm_chain_words(actor->arena, &view.head) == n)
                free_head_chunks(actor, &view, first, n);
        else
                free_blocks(actor, first, shape, n);
}

int shm_chain_free(ShmActor *actor, uint64_t leaf) {
        shm_chain_free_chunks(actor, leaf);
        return shm_object_free(actor, leaf);
}
