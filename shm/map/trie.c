/*
 * The trie: walking it, changing it
 *
 * Purpose: from a hash to the words where a leaf of that hash can be; changes by one
 *   compare-and-set each.
 *
 * Invariants
 *   1. An inner node is linked once, and never unlinked, moved or freed while its trie lives: the
 *      index keeps its peak size. A word that holds one never changes again.
 *   2. A leaf's object never changes after it is linked; a replaced or deleted leaf is unlinked
 *      first, freed then. A handle that left the trie never comes back: tags do not repeat. But a leaf
 *      that was replaced by one that is stale may come back, before anybody frees it (put_back()).
 *   3. A leaf moves only downward along the path of its hash, and stays linked while it moves: the
 *      word holds it until the compare-and-set by which an inner node that holds it takes its place.
 *   4. From 1 to 3: a handle that one downward walk along its path does not meet was not linked
 *      when the walk passed the word it could have been in, and will not be.
 *   5. In a bucket no word becomes 0 again, and a leaf of a key that has no word goes to the first
 *      that is 0: two who add the same key meet in one word, and it is that key's for good. What is
 *      deleted leaves SHM_TRIE_GONE behind, with bits by which the caller knows the key again.
 *   6. An object that is not linked yet, or about to be unlinked, is noted with root and hash:
 *      noted before its tag is odd or before the link is cut, linked or freed before the note goes.
 *   7. Any object may be revoked at any moment: its handle is stale then. Its memory is not reused while
 *      a note of a live thread names it, so a leaf or node is filled under its note; nor while a
 *      guard does, so a word is changed under a guard on its node. A word that was read counts
 *      only if its node is live after that.
 *   8. What is stale is not linked. Where a leaf goes stale between the look at its tag and the
 *      compare-and-set, its writer finds out by a second look, before it frees the leaf that was
 *      replaced, and links that one again: the key is absent for a moment only.
 *
 * Who may do what: whoever can read the arena walks; writers change words, with their own actor,
 *   outside any operation, with at most three notes at a time.
 *
 * Crash: before the compare-and-set of an exchange: the new leaf is noted and not linked, repair
 *   frees it; the old one is noted and linked, it stays. After it: the new one is linked and stays;
 *   the old one is noted and not linked, repair frees it, or somebody did. A split: the node is
 *   noted; not linked, it is freed; linked, it stays. Repair asks shm_trie_contains(). A guard is
 *   cleared by repair, which gives back the slot it names if that was revoked.
 */
#include "shm/map/trie.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define TOP_BITS 6
#define N_TOP 2
#define LOW_BITS 4
#define BITS_MIN 3 /* a node of the smallest class there can be */
#define BITS_MAX 9 /* in the largest node */

/* Between version 1, of handles, and 2, of inner nodes. */
#define FLIP (UINT64_C(3) << 30)

static bool is_inner(uint64_t value) {
        return ((uint32_t) value >> 30) == 2;
}

/* The widest node of at most `bits` that fills at least half of its class; else the widest that fits. */
static uint8_t choose_bits(const ShmArena *arena, uint8_t bits) {
        uint8_t widest;

        while (bits > BITS_MIN && (8U << bits) > shm_arena_size_max(arena))
                bits--;
        widest = bits;
        for (; bits >= BITS_MIN; bits--)
                if (arena->classes[shm_arena_class(arena, 8U << bits)].size <= 16U << bits)
                        return bits;
        return widest;
}

int shm_trie_create(ShmActor *actor, uint32_t epoch, uint64_t *ret_root) {
        const ShmPending pending = { .root = SHM_NOTE_NAMED_ROOT };
        uint64_t handle;
        void *object;
        int r;

        r = shm_object_alloc(actor, sizeof(ShmTrieRoot), epoch, &pending, &handle, &object);
        if (r)
                return r;
        *(ShmTrieRoot *) object = (ShmTrieRoot){
                .magic = SHM_TRIE_MAGIC,
                .epoch = epoch,
                .top_bits = choose_bits(actor->arena, TOP_BITS),
                .n_top = N_TOP,
                .low_bits = choose_bits(actor->arena, LOW_BITS),
        };
        *ret_root = handle;
        return 0;
}

static bool bits_fit(const ShmArena *arena, uint8_t bits) {
        return bits >= BITS_MIN && bits <= BITS_MAX && (8U << bits) <= shm_arena_size_max(arena);
}

static ShmTrieLevel level_make(const ShmArena *arena, uint32_t bits, uint32_t used, uint32_t shift) {
        const ShmClass *class = &arena->classes[shm_arena_class(arena, 8U << bits)];

        return (ShmTrieLevel){
                .shift = (uint8_t) shift,
                .mask = (uint16_t) ((1U << used) - 1),
                .n_words = (uint16_t) (1U << bits),
                .n_slots = (uint16_t) class->n_slots,
                .stride = class->size,
        };
}

static void levels_init(ShmTrie *trie, const ShmTrieRoot *root) {
        uint32_t left = 64, n = 0;

        while (left > 0) {
                uint32_t bits = n < root->n_top ? root->top_bits : root->low_bits;
                uint32_t used = bits < left ? bits : left;

                left -= used;
                trie->levels[n++] = level_make(trie->arena, bits, used, left);
        }
        trie->levels[n] = level_make(trie->arena, root->low_bits, 0, 0);
        trie->n_levels = n;
}

int shm_trie_open(ShmTrie *trie, ShmArena *arena, uint64_t handle) {
        ShmTrieRoot root;
        void *object;
        int r;

        r = shm_object_get(arena, handle, &object, NULL);
        if (r)
                return r;
        r = shm_object_copy(arena, handle, 0, &root, sizeof(root));
        if (r)
                return r;
        if (root.magic != SHM_TRIE_MAGIC || !bits_fit(arena, root.top_bits) ||
            !bits_fit(arena, root.low_bits))
                return -EUCLEAN;
        *trie = (ShmTrie){
                .arena = arena,
                .root = handle,
                .root_off = (uint64_t) ((uint8_t *) object - arena->slabs),
                .epoch = root.epoch,
        };
        levels_init(trie, &root);
        return 0;
}

/* Whether the object is still there; the handle was found plausible. */
static inline bool is_live(const ShmArena *arena, uint64_t handle) {
        /* ORDER: acq, pairs with shm_uncached_free(); callers read the object before, or write after. */
        return shm_load_acq(shm_slot_tag(arena, shm_handle_slot(handle))) ==
               shm_handle_tag(arena->key, handle);
}

static inline ShmTrieRoot *root_of(const ShmTrie *trie) {
        return (ShmTrieRoot *) (trie->arena->slabs + trie->root_off);
}

static inline const ShmTrieLevel *level_at(const ShmTrie *trie, uint32_t depth) {
        return &trie->levels[depth < trie->n_levels ? depth : trie->n_levels];
}

/* NULL: no object. That its class is the level's is not looked up: it stays inside its slab. */
static inline uint64_t *node_at(const ShmTrie *trie, uint64_t value, const ShmTrieLevel *level) {
        uint64_t handle = value ^ FLIP;
        SlotId id = shm_handle_slot(handle);

        if (!shm_handle_plausible(trie->arena, handle) || slot_id_slot(id) >= level->n_slots)
                return NULL;
        return (uint64_t *) (shm_arena_slab(trie->arena, slot_id_slab(id)) +
                             slot_id_slot(id) * level->stride);
}

/* -EIDRM: the node is stale, and the word may be another object's. */
static inline int load_word(const ShmTrie *trie, ShmTrieCursor *c) {
        /* ORDER: acq, pairs with shm_trie_exchange() and shm_trie_split(); the object it names is written. */
        c->value = shm_load_acq(c->word);
        return is_live(trie->arena, c->node) ? 0 : -EIDRM;
}

/* One level down, from a word that holds an inner node. Bounded: a scribbled arena may have circles. */
static inline int cursor_down(const ShmTrie *trie, ShmTrieCursor *c) {
        const ShmTrieLevel *level = level_at(trie, c->depth);
        uint64_t *node = node_at(trie, c->value, level);

        if (!node || c->depth >= trie->n_levels + SHM_TRIE_BUCKETS_MAX)
                return -EIDRM;
        c->index = (uint32_t) (c->hash >> level->shift) & level->mask;
        c->word = node + c->index;
        c->node = c->value ^ FLIP;
        c->depth++;
        return load_word(trie, c);
}

static inline int cursor_descend(const ShmTrie *trie, ShmTrieCursor *c) {
        int r = 0;

        while (r == 0 && is_inner(c->value))
                r = cursor_down(trie, c);
        return r;
}

int shm_trie_reload(const ShmTrie *trie, ShmTrieCursor *c) {
        return load_word(trie, c) ?: cursor_descend(trie, c);
}

int shm_trie_seek(const ShmTrie *trie, uint64_t hash, ShmTrieCursor *ret) {
        if (!is_live(trie->arena, trie->root))
                return -EIDRM;
        *ret = (ShmTrieCursor){ .hash = hash, .word = &root_of(trie)->word, .node = trie->root };
        return shm_trie_reload(trie, ret);
}

static bool bucket_goes_on(const ShmTrie *trie, const ShmTrieCursor *c) {
        return shm_trie_in_bucket(trie, c) && c->value != 0 &&
               c->index + 1U < trie->levels[trie->n_levels].n_words;
}

int shm_trie_next(const ShmTrie *trie, ShmTrieCursor *c) {
        if (!bucket_goes_on(trie, c))
                return SHM_TRIE_E_LAST;
        c->index++;
        c->word++;
        return shm_trie_reload(trie, c);
}

/* The word of a new node to which the leaf at the cursor moves. */
static int find_room(const ShmTrie *trie, const ShmTrieCursor *c, const ShmTrieLevel *level, uint32_t *ret) {
        uint64_t hash;
        int r;

        *ret = 0;
        if (level->mask == 0)
                return 0;
        r = shm_object_copy(trie->arena, c->value, 0, &hash, sizeof(hash));
        if (r)
                return r;
        *ret = (uint32_t) (hash >> level->shift) & level->mask;
        return 0;
}

/*
 * A leaf that went stale between the look at its tag and its compare-and-set, and took the place of another:
 * that one is linked again, so that the key keeps its value. False: the leaf is live; it replaced none, which is
 * as if it had been revoked a moment later; or somebody else has changed the word since.
 */
static bool put_back(const ShmTrie *trie, const ShmTrieCursor *c, uint64_t leaf) {
        uint64_t expected = leaf;

        return shm_trie_is_leaf(leaf) && shm_trie_is_leaf(c->value) && !is_live(trie->arena, leaf) &&
               /* ORDER: acqrel, pairs with load_word(); the old leaf is as it was. */
               shm_cas_acqrel(c->word, &expected, c->value);
}

/*
 * Puts `value` in place of the value that the cursor saw. SHM_TRIE_E_CHANGED; SHM_TRIE_E_STALE: the object
 * that `value` names is stale; -EIDRM: the word's node is.
 */
static int link_word(ShmActor *actor, const ShmTrie *trie, const ShmTrieCursor *c, uint64_t value) {
        uint64_t expected = c->value, handle = is_inner(value) ? value ^ FLIP : value;
        int r = SHM_TRIE_E_CHANGED;

        if (!shm_actor_guard(actor, c->node))
                return -EIDRM;
        if (shm_trie_is_leaf(handle) && !is_live(trie->arena, handle))
                r = SHM_TRIE_E_STALE;
        /* ORDER: acqrel, pairs with load_word(); the object is written, and noted, before it is linked. */
        else if (shm_cas_acqrel(c->word, &expected, value))
                r = put_back(trie, c, value) ? SHM_TRIE_E_STALE : 0;
        shm_actor_unguard(actor);
        return r;
}

int shm_trie_split(ShmActor *actor, const ShmTrie *trie, ShmTrieCursor *c) {
        const ShmTrieLevel *level = level_at(trie, c->depth);
        const ShmPending pending = { .root = trie->root, .hash = c->hash };
        uint64_t handle, *node;
        uint32_t index;
        void *object;
        int r;

        if (c->depth >= trie->n_levels + SHM_TRIE_BUCKETS_MAX)
                return -ENOSPC;
        if (find_room(trie, c, level, &index) != 0)
                return shm_trie_reload(trie, c) ?: SHM_TRIE_E_CHANGED;
        r = shm_object_alloc(actor, level->n_words * sizeof(uint64_t), trie->epoch, &pending, &handle,
                             &object);
        if (r)
                return r == -ESTALE ? -ESHUTDOWN : r;
        node = object;
        memset(node, 0, level->n_words * sizeof(uint64_t));
        node[index] = c->value;

        r = link_word(actor, trie, c, handle ^ FLIP);
        if (r)
                (void) shm_object_free(actor, handle);
        (void) shm_actor_unnote(actor, handle);
        if (r < 0)
                return r;
        return shm_trie_reload(trie, c) ?: (r == 0 ? 0 : SHM_TRIE_E_CHANGED);
}

int shm_trie_exchange(ShmActor *actor, const ShmTrie *trie, ShmTrieCursor *c, uint64_t value) {
        uint64_t old = shm_trie_is_leaf(c->value) ? c->value : 0;
        int r;

        if (old) {
                r = shm_actor_note(actor, old, trie->root, c->hash);
                if (r)
                        return r;
        }
        r = link_word(actor, trie, c, value);
        if (r) {
                if (old)
                        (void) shm_actor_unnote(actor, old);
                return r == SHM_TRIE_E_CHANGED ? (shm_trie_reload(trie, c) ?: r) : r;
        }
        c->value = value;
        /* Stale where somebody else freed it, with its epoch or by its handle: then it is free. */
        if (old) {
                (void) shm_object_free(actor, old);
                (void) shm_actor_unnote(actor, old);
        }
        if (shm_trie_is_leaf(value))
                (void) shm_actor_unnote(actor, value);
        return 0;
}

/* Any root: the asker is about a dead thread's object, which no longer moves. */
static bool is_named(const ShmArena *arena, uint64_t handle) {
        for (uint32_t i = 0; i < SHM_ROOTS_MAX; i++)
                /* ORDER: acq, pairs with shm_root_set(); a root that is named stays as it is. */
                if (shm_load_acq(&arena->header->roots[i].handle) == handle)
                        return true;
        return false;
}

bool shm_trie_contains(ShmArena *arena, uint64_t root, uint64_t hash, uint64_t handle) {
        ShmTrieCursor c;
        ShmTrie trie;

        if (root == SHM_NOTE_NAMED_ROOT)
                return is_named(arena, handle);
        if (shm_trie_open(&trie, arena, root) != 0)
                return false;
        c = (ShmTrieCursor){ .hash = hash, .word = &root_of(&trie)->word, .node = root };
        for (;;) {
                int r = load_word(&trie, &c);

                while (r == 0 && is_inner(c.value) && c.value != (handle ^ FLIP))
                        r = cursor_down(&trie, &c);
                if (r)
                        return false;
                if (c.value == handle || c.value == (handle ^ FLIP))
                        return true;
                if (!bucket_goes_on(&trie, &c))
                        return false;
                c.index++;
                c.word++;
        }
}
