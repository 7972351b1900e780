/*
 * Chains
 *
 * Purpose: values of any size, in objects that the entry's leaf alone owns.
 *
 *     up to 16     head:  header | key | chunk, chunk, ... | bytes
 *     more         head:  header | key | block | bytes
 *                                        +---> block:  chunk, chunk, ..., block ---> block:  chunk, ...
 *
 * The head has the bytes that do not fill a whole chunk, if its slot has room for them. So a value of 2100 bytes is in
 * slots of 2048 and 128 bytes, where one slot would have 4096. This is done wherever two slots take a 20th less of
 * their slabs than one. Which bytes are in the head, and whether it has words for all chunks, is stored nowhere: it
 * follows from the sizes of key, value and the head's slot. If words for all chunks make the head's slot larger than a
 * slot without them and a block together, they are in a block.
 *
 *     put      note of the head; tag of the head odd; header, key, words = none, bytes
 *              for each block: guard the object that has the word for it; the word names the block; its tag odd; guard
 *              it; words = none
 *              chunks of the head, or the block, that the thread's cache has: their tags odd; words name them; bytes;
 *              they leave the cache
 *              each other chunk: a word names it; its tag odd; guard it; bytes
 *              the head is linked (shm/map/trie/trie-change.c), the note is dropped
 *     get      words, bytes of the head, and of all chunks; the first word is as it was before; the head is live
 *     free     the head is noted and unlinked; its first word is condemned; from the last one to the first, chunks are
 *              freed, each block after its own; the head is freed, the note is dropped
 *
 * A word in each chunk that names the next one would need no blocks. But then a free would read each chunk, and chunks
 * are pages that are in no TLB by then: reading one word of each takes a fifth of the time of the copy (measured).
 *
 * Invariants
 *   1. In the order of a head's chunks and blocks, the live ones come first: each is named before its tag is odd, or
 *      before its slot leaves the thread's cache, and freed before the object that names it. So a thread that begins
 *      the work anew finds them all.
 *   2. A head is freed after its chunks. Only a revocation makes it stale before that, and then all chunks, too: they
 *      are of one era.
 *   3. A thread condemns the first word before it frees any chunk. If a reader finds the first word as it was, and
 *      after that the head live, all chunks that it read were of this value.
 *   4. Words are sealed with the handle of the object that they are in, as the words of the trie are
 *      (trie-word.h). Bytes that were in the slot before, or that are another object's by now, name no live
 *      object (but for a chance of 2^-34).
 *   5. Words that were read from a block count if the block is live after that. An object is freed by its versioned
 *      handle, so of several threads that free one chain one frees each chunk.
 *   6. A block or a chunk may be revoked while the chain is made. So a thread writes a chunk while the slot is in its
 *      cache, or under a guard; words of a block under a guard; words and bytes of the head under its note. If the
 *      object is stale, the guard fails, and the put ends.
 *   7. The numbers of chunks and blocks follow from the sizes of the value and of the head's slot. So walks end,
 *      whatever the arena holds.
 *
 * Who may do what: a put makes a chain, with its own actor, outside any operation; it uses the actor's guard. The
 *   thread that unlinked the head, or that repairs a record with a note of it, frees the chain. Reading needs no actor.
 *
 * Crash: the note of the head leads to all blocks and chunks that have left the cache; others are rolled back with it.
 *   If an object is named but its tag is not odd, its slot is still in the record of the dead thread, as any other
 *   slot. Nobody else can have the slot before that record is rolled back, and afterwards nobody looks at the head. If
 *   the head is not in the map, repair frees it, chunks first (shm/maintain/rollback.c).
 */
#include "shm/map/leaf/chain.h"

#include <errno.h>

#include "shm/cache/batch.h"

#ifdef SHM_STEP
#define PART 1U
#define HEAD_WORDS_MAX 3U
uint32_t shm_chain_room, shm_chain_inline, shm_chain_short;
#else
#define PART 128U /* blocks that one walk collects: each is 8 bytes of stack */
#define HEAD_WORDS_MAX 16U
#endif
#define SAVED_SHARE 20 /* two pieces save this part of one slot at least */
#define WORDS_SHARE 64 /* for words in place of a block, a head may take this part of the value more */
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

/* The largest class that wastes less than a tenth of a slab; if there is none, the class that wastes least. */
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

/*
 * How many blocks name all chunks: at least one. Each block but the last names one chunk less than it has words, since
 * its last word names the next block.
 */
static uint32_t chain_blocks(Shape shape, uint32_t n_chunks) {
        return n_chunks <= shape.n_words ? 1 : (n_chunks - 1 + shape.n_words - 2) / (shape.n_words - 1);
}

/* How many of `left` chunks are named by so many words. If these are not all, the last word names the next block. */
static uint32_t words_chunks(uint32_t n_words, uint32_t left) {
        return left <= n_words ? left : n_words - 1;
}

/* The number of words in a block that names `left` chunks, or the first of them. */
static uint32_t block_words(Shape shape, uint32_t left) {
        return left <= shape.n_words ? left : shape.n_words;
}

static uint32_t words_size(uint32_t n_words) {
        return n_words * (uint32_t) sizeof(ChainWord);
}

/* The parts of a value: bytes in the head, bytes in chunks, and the numbers of chunks and of words in the head. */
typedef struct Rest {
        uint32_t head_bytes, size, n_chunks, n_words;
} Rest;

/*
 * How many bytes of the value fit a head beside n words. `most`: its room for bytes, and for all words but the first.
 */
static uint32_t head_most(uint32_t most, uint32_t n) {
#ifdef SHM_STEP
        if (shm_chain_room)
                return shm_chain_short && most >= shm_chain_short ? shm_chain_room : shm_chain_inline;
#endif
        return most - words_size(n - 1);
}

/* Whether a head has n words of its own: they are few enough, and there is room for them. */
static bool head_names(uint32_t most, uint32_t n) {
        return n <= HEAD_WORDS_MAX && words_size(n - 1) <= most;
}

static Rest chain_rest(const ShmArena *arena, Shape shape, const ShmMapLeaf *head, uint32_t room) {
        size_t size = shm_leaf_size(head->key_size, head->value_size, head->flags);
        uint32_t most = size < room ? room - (uint32_t) size : 0, n_words = 1;
        uint32_t n = head->value_size / shape.room, bytes = head->value_size - n * shape.room;

        if (n > 0 && head_names(most, n) && bytes <= head_most(most, n))
                n_words = n;
        else if (head_names(most, n + 1))
                n_words = n + 1;
        most = head_most(most, n_words);
        if (bytes > most) {
                bytes = most;
                n++;
        }
        return (Rest){ bytes, head->value_size - bytes, n > 0 ? n : 1, n_words }; /* 0: the head is damaged */
}

uint32_t shm_chain_head_bytes(const ShmArena *arena, const ShmMapLeaf *head, uint32_t room) {
        return chain_rest(arena, chain_shape(arena), head, room).head_bytes;
}

uint32_t shm_chain_size_max(const ShmArena *arena) {
        uint64_t n = (uint64_t) SHM_CHAIN_CHUNKS_MAX * chain_shape(arena).room;

        return n < SHM_LEAF_VALUE_MAX ? (uint32_t) n : SHM_LEAF_VALUE_MAX;
}

static uint64_t slot_cost(const ShmArena *arena, uint32_t size) {
        return size > 0 ? arena->classes[shm_arena_class(arena, size)].size : 0;
}

/* The memory of a slot of so many bytes. */
static uint64_t slot_memory(const ShmArena *arena, uint32_t size) {
        return size > 0 ? arena->classes[shm_arena_class(arena, size)].share : 0;
}

static uint64_t blocks_cost(const ShmArena *arena, Shape shape, uint32_t n_chunks) {
        uint32_t n_more = chain_blocks(shape, n_chunks) - 1;

        return n_more * slot_memory(arena, words_size(shape.n_words)) +
               slot_memory(arena, words_size(n_chunks - n_more * (shape.n_words - 1)));
}

uint64_t shm_chain_cost(const ShmArena *arena, const ShmMapLeaf *head, uint32_t room) {
        Shape shape = chain_shape(arena);
        Rest rest = chain_rest(arena, shape, head, room);
        uint32_t n = rest.n_chunks, last = rest.size - (n - 1) * shape.room;

        return (n - 1) * slot_memory(arena, shape.room) + slot_memory(arena, last) +
               (rest.n_words < n ? blocks_cost(arena, shape, n) : 0);
}

/* The part of a slab that a slot of the class takes. */
static uint32_t slot_share(const ShmArena *arena, uint32_t class) {
        return SHM_SLAB_SIZE / arena->classes[class].n_slots;
}

/* The head has the whole rest. It takes a slot of the class of chunks, if slabs of that class have several. */
static uint32_t head_short(const ShmArena *arena, uint32_t whole) {
        const ShmClass *chunk = &arena->classes[chunk_class(arena)];

        return chunk->n_slots > 1 && chunk->size > whole ? chunk->size : whole;
}

/*
 * The size of a head that has the whole rest; or of one that has a slot of the class below, so that a small chunk has
 * the bytes that do not fit.
 */
static uint32_t head_split(const ShmArena *arena, uint32_t size, uint32_t rest, bool is_short) {
        uint32_t class = shm_arena_class(arena, size + rest), whole = arena->classes[class].size;
        uint32_t less = class > 0 ? arena->classes[class - 1].size : 0, both,
                 share = slot_share(arena, class);

        if (is_short)
                return head_short(arena, whole);
        if (less <= size || whole <= SHM_CHAIN_WHOLE_MAX)
                return whole;
        both = slot_share(arena, class - 1) + slot_share(arena, shm_arena_class(arena, rest - (less - size)));
        return both + share / SAVED_SHARE <= share ? less : whole;
}

/* How much larger a head is with words for n chunks. 0: a block takes less, or the head has no room for the words. */
static uint32_t head_more(const ShmArena *arena, uint32_t size, uint32_t value_size, uint32_t n,
                          bool is_short) {
        uint32_t more = n > 0 ? words_size(n - 1) : 0;

        if (n > HEAD_WORDS_MAX || size + more > shm_arena_size_max(arena))
                return 0;
        return is_short || slot_cost(arena, size + more) <= slot_cost(arena, size) +
                                                                    slot_cost(arena, words_size(n)) +
                                                                    value_size / WORDS_SHARE
                       ? more
                       : 0;
}

uint32_t shm_chain_head_size_large(const ShmArena *arena, uint32_t key_size, uint32_t value_size,
                                   bool is_short) {
        uint32_t whole = (uint32_t) shm_leaf_size(key_size, value_size, 0), max = shm_arena_size_max(arena);
        uint32_t size = (uint32_t) shm_leaf_size(key_size, value_size, SHM_LEAF_CHAINED), split, full;
        Shape shape = chain_shape(arena);
        uint32_t n = value_size / shape.room, rest = value_size - n * shape.room;

#ifdef SHM_STEP
        if (shm_chain_room) {
                uint32_t bytes = is_short && shm_chain_short ? shm_chain_short : shm_chain_inline;

                return value_size <= shm_chain_room
                               ? 0
                               : size + head_more(arena, size, value_size, n + (rest > bytes), is_short) +
                                         bytes;
        }
#endif
        full = size + head_more(arena, size + rest, value_size, n, is_short);
        split = full + rest <= max ? head_split(arena, full, rest, is_short)
                                   : size + head_more(arena, size, value_size, n + (rest > 0), is_short);
        if (whole > max)
                return split;
        return value_size < shape.room && split < arena->classes[shm_arena_class(arena, whole)].size ? split
                                                                                                     : 0;
}

/* A chain that is being made. */
typedef struct Fill {
        ShmActor *actor;
        Shape shape;
        uint32_t epoch;
        ShmPending pending; /* the word that is to name the next object */
        uint64_t owner; /* the head, or the block, that has this word */
        const uint8_t *from;
        uint32_t left; /* bytes still to be copied, */
        uint32_t n_left; /* in so many chunks */
} Fill;

/* The owner has words now, which name nothing. The caller has a guard on the owner, or a note of it. */
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
        f->n_left -= n;
}

/* Fills full chunks, as many as the cache has, or the last chunk of the value. Returns how many. */
static uint32_t fill_from_cache(Fill *f, uint32_t n_max) {
        uint32_t full = f->n_left - (f->left < f->n_left * f->shape.room), n;
        uint32_t size = full > 0 ? f->shape.room : f->left;
        const ShmBatchFill fill = {
                .words = f->pending.link,
                .seal = f->pending.seal,
                .from = f->from,
                .size = size,
        };

        n = shm_batch_fill(f->actor, f->epoch, &fill, full == 0 ? 1 : n_max < full ? n_max : full);
        fill_advance(f, n, n * size);
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
        uint32_t n = words_chunks(n_words, f->n_left), k;
        int r;

        for (; n > 0; n -= k) {
                if (!shm_actor_guard(f->actor, f->owner))
                        return -ESTALE;
                k = fill_from_cache(f, n);
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
        uint32_t n_words = block_words(f->shape, f->n_left);
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

int shm_chain_fill(ShmActor *actor, uint64_t handle, const ShmMapLeaf *head, uint32_t room, uint64_t *words,
                   const void *value) {
        Shape shape = chain_shape(actor->arena);
        Rest rest = chain_rest(actor->arena, shape, head, room);
        Fill f;
        int r;

        f.actor = actor;
        f.shape = shape;
        f.epoch = head->epoch;
        f.from = (const uint8_t *) value + rest.head_bytes;
        f.left = rest.size;
        f.n_left = rest.n_chunks;
        fill_clear_words(&f, handle, words, rest.n_words);
        shm_racy_copy(words + rest.n_words, value, rest.head_bytes);
        r = fill_words(&f, rest.n_words);
        while (r == 0 && f.n_left > 0)
                r = fill_block(&f);
        shm_actor_unguard(actor);
        return r;
}

/* NULL: no such object can be there. Nothing is read: the caller checks later that the head is live. */
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

/* Words of a head, or of a block, and the number of bytes in the chunks that they name. */
typedef struct Part {
        uint64_t owner;
        const ChainWord *words;
        uint32_t size;
} Part;

/* The address and the size of a chunk. */
static const uint8_t *part_chunk(const ShmArena *arena, const Part *part, uint32_t room, uint32_t i,
                                 uint32_t *ret_size) {
        uint32_t left = part->size - i * room;

        *ret_size = left < room ? left : room;
        return object_at(arena, word_handle(part->owner, &part->words[i]), *ret_size);
}

/* Neighbouring chunks are copied in one piece, as in a put. */
static int part_copy(const ShmArena *arena, const Part *part, uint32_t room, uint32_t offset, uint8_t *to,
                     uint32_t size) {
        uint32_t i = offset / room, skip = offset - i * room, n = 0, k;
        const uint8_t *next = size > 0 ? part_chunk(arena, part, room, i, &n) : NULL;

        for (; size > 0; size -= k, skip = 0) {
                const uint8_t *from = next;
                uint32_t run = 0;

                do {
                        if (!from)
                                return -EUCLEAN;
                        run += n;
                        next = run - skip < size ? part_chunk(arena, part, room, ++i, &n) : NULL;
                } while (next == from + run);
                k = run - skip < size ? run - skip : size;
                shm_racy_copy(to, from + skip, k);
                to += k;
        }
        return 0;
}

int shm_chain_copy(const ShmArena *arena, const ShmMapView *view, uint32_t offset, void *buffer,
                   uint32_t size) {
        Part part = { .owner = view->handle, .words = view->at };
        Shape shape = chain_shape(arena);
        Rest rest = chain_rest(arena, shape, &view->head, view->room);
        uint32_t left = rest.size, n_left = rest.n_chunks, n_words = rest.n_words;
        uint8_t *to = buffer;

        if (offset < rest.head_bytes) {
                uint32_t n = rest.head_bytes - offset < size ? rest.head_bytes - offset : size;

                shm_racy_copy_out(to, (const uint8_t *) (view->at + n_words) + offset, n);
                to += n;
                size -= n;
                offset = rest.head_bytes;
        }
        offset -= rest.head_bytes;
        for (;;) {
                uint32_t n = words_chunks(n_words, n_left), k = 0;

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
                n_left -= n;
                n_words = block_words(shape, n_left);
                part.owner = word_handle(part.owner, &part.words[n]);
                part.words = object_at(arena, part.owner, words_size(n_words));
                if (!part.words)
                        return -EUCLEAN;
        }
}

/*
 * Walks over the first n_max blocks of n_all, while they are live. The ring has the last PART of them. Returns how many
 * are live.
 */
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

/* Counts the live chunks, which come first: the others were not made, or were freed, from the last one on. */
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

/*
 * The tags are fetched together: the locked instructions that change them would wait for one tag after the other. So a
 * put of 64 KiB takes an eighth less in a program whose other data fill the processor's caches, and 2 % more in a
 * program that does nothing else.
 */
static void free_chunks(ShmActor *actor, const uint64_t *handles, uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                shm_slot_prefetch(actor->arena, shm_handle_slot(handles[i]));
        for (n = count_live(actor->arena, handles, n); n > 0; n--)
                (void) shm_object_free(actor, handles[n - 1]);
}

/* Frees the n chunks that a block names, then the block. */
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

/* Frees the chunks that the head itself names. `first`: the first of them; its word is condemned already. */
static void free_head_chunks(ShmActor *actor, const ShmMapView *view, uint64_t first, uint32_t n) {
        uint32_t off = (uint32_t) ((const uint8_t *) view->at - (view->bytes - sizeof(ShmMapLeaf)));
        uint64_t handles[HEAD_WORDS_MAX];

        if (n == 1) {
                (void) shm_object_free(actor, first);
                return;
        }
        if (!read_handles(actor->arena, view->handle, off, handles, n))
                return;
        handles[0] = first;
        free_chunks(actor, handles, n);
}

/*
 * Condemns the first word, which changes this one time: if another word is there, somebody else has condemned it. What
 * is there is not looked at, since the slot may be another object's by then. False: the leaf is gone.
 */
static bool condemn_chain(const ShmArena *arena, const ShmMapView *view, uint64_t *ret_first) {
        uint64_t seal = shm_leaf_seal(view->handle), raw = view->word, first = raw ^ seal;

        /* ORDER: acq, pairs with shm_uncached_free(); before the tag: the word that was read was this leaf's. */
        shm_fence_acq();
        if (!shm_object_live(arena, view->handle))
                return false;
        if (shm_trie_is_leaf(first))
                /* ORDER: acqrel, pairs with shm_map_view_live(); before the first chunk's tag is even. */
                (void) shm_cas_acqrel(view->at, &raw, first ^ SHM_TRIE_FLIP ^ seal);
        else
                first ^= SHM_TRIE_FLIP;
        *ret_first = first;
        return shm_trie_is_leaf(first) && shm_object_live(arena, view->handle);
}

/* Frees no chunk where the leaf has no chain. */
static void free_all_chunks(ShmActor *actor, const ShmMapView *view) {
        Shape shape = chain_shape(actor->arena);
        uint64_t first;
        Rest rest;

        if (!(view->head.flags & SHM_LEAF_CHAINED) || !condemn_chain(actor->arena, view, &first))
                return;
        rest = chain_rest(actor->arena, shape, &view->head, view->room);
        if (rest.n_words >= rest.n_chunks)
                free_head_chunks(actor, view, first, rest.n_chunks);
        else
                free_blocks(actor, first, shape, rest.n_chunks);
}

void shm_chain_free_chunks(ShmActor *actor, uint64_t leaf) {
        ShmMapView view;

        if (shm_map_view(actor->arena, leaf, &view) == 0)
                free_all_chunks(actor, &view);
}

int shm_chain_free(ShmActor *actor, uint64_t leaf) {
        ShmMapView view;
        ShmFinal final;

        if (shm_map_view(actor->arena, leaf, &view) != 0)
                return shm_object_free(actor, leaf);
        free_all_chunks(actor, &view);
        final = shm_map_view_final(actor->arena, &view);
        return shm_object_finish(actor, leaf, &final);
}
