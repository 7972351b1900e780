#pragma once
/*
 * Walking a trie, for the files of this folder. For nodes that are removed or renewed under a walk see
 * shm/map/trie/trie-shrink.c.
 */
#include <errno.h>

#include "shm/map/trie/trie.h"

/* Whether the object of a handle that was found plausible is there still. */
static inline bool trie_live(const ShmArena *arena, uint64_t handle) {
        /* ORDER: acq, pairs with shm_uncached_free(); callers read the object before, or write after. */
        return shm_load_acq(shm_slot_tag(arena, shm_handle_slot(handle))) ==
               shm_handle_tag(arena->key, handle);
}

static inline ShmTrieRoot *trie_root(const ShmTrie *trie) {
        return (ShmTrieRoot *) (trie->arena->slabs + trie->root_off);
}

/* Whether a leaf may have SHM_LEAF_SHORTCUT. */
static inline bool trie_has_shortcuts(const ShmTrie *trie) {
        /* ORDER: rlx; set before such a leaf is linked, and so before it is found. */
        return shm_load_rlx(&trie_root(trie)->has_shortcuts) != 0;
}

static inline const ShmTrieLevel *trie_level(const ShmTrie *trie, uint32_t depth) {
        return &trie->levels[depth < trie->n_levels ? depth : trie->n_levels];
}

/* Whether nodes of this depth are ever removed. The depth is the number of inner nodes from the first one to this. */
static inline bool trie_is_removable(const ShmTrie *trie, uint32_t depth) {
        return depth > trie->n_fixed && depth <= trie->n_levels;
}

/*
 * Whether a walk over all words has passed over more than there can be. There is a limit, since others may put nodes
 * ahead of the walk for ever, and remove others behind it.
 */
static inline bool trie_is_too_long(const ShmTrie *trie, uint64_t n_words) {
        return n_words >
               16 * (uint64_t) (shm_arena_n_slabs_ever(trie->arena) + 1) * (SHM_SLAB_SIZE / sizeof(uint64_t));
}

/* SHM_TRIE_E_CHANGED: the node is stale, and what was read may be of another object. */
static inline int trie_load(const ShmTrie *trie, ShmTrieCursor *c) {
        /* ORDER: acq, pairs with shm_trie_exchange() and shm_trie_split(); what it names is written. */
        c->raw = shm_load_acq(c->word);
        c->value = c->raw ^ shm_trie_seal(c->node);
        return trie_live(trie->arena, c->node) ? 0 : SHM_TRIE_E_CHANGED;
}

/* Whether the trie was removed. What a thread finds in it without a walk from the root counts only if it was not. */
static inline bool trie_is_removed(const ShmTrie *trie) {
        /* ORDER: acq, pairs with shm_trie_remove(); after the words that were found. */
        return shm_trie_is_frozen(shm_load_acq(&trie_root(trie)->word) ^ shm_trie_seal(trie->root));
}

static inline void trie_begin(const ShmTrie *trie, ShmTrieCursor *c, uint64_t hash) {
        *c = (ShmTrieCursor){ .hash = hash, .word = &trie_root(trie)->word, .node = trie->root };
}

/* The seal of the cursor's node. Its word is not frozen. */
static inline uint64_t trie_cursor_seal(const ShmTrieCursor *c) {
        return c->raw ^ c->value;
}

/* Puts `value` into the word at the cursor. The caller guards the node. False: the word has changed. */
static inline bool trie_swap(const ShmTrieCursor *c, uint64_t value) {
        uint64_t expected = c->raw;

        /* ORDER: acqrel, pairs with trie_load(); what it names is written and noted, or settled, before. */
        return shm_cas_acqrel(c->word, &expected, value ^ trie_cursor_seal(c));
}

/* As trie_swap(), with a guard of its own. False also if the node is stale. */
static inline bool trie_change(ShmActor *actor, const ShmTrieCursor *c, uint64_t value) {
        bool done = shm_actor_guard(actor, c->node) && trie_swap(c, value);

        shm_actor_unguard(actor);
        return done;
}

/* The word one level up, from which the walk came. */
typedef struct TrieLink {
        uint64_t *word;
        uint64_t raw;
        uint64_t node;
} TrieLink;

static inline bool trie_link_holds(const ShmTrie *trie, TrieLink above) {
        /* ORDER: acq, pairs with shm_trie_help(); after what was read below it. */
        return shm_load_acq(above.word) == above.raw && trie_live(trie->arena, above.node);
}

/*
 * Called when the node at the cursor is not live under the handle that the link above has. 0: the node is being
 * renewed, and the cursor is of its next version; SHM_TRIE_E_CHANGED: begin at the root; -EIDRM: it was revoked.
 */
int trie_load_renewed(const ShmTrie *trie, TrieLink above, ShmTrieCursor *c);

/*
 * The address of a node; NULL if no node of the level can have this handle. The class of the slab is not looked up:
 * whatever it is, the address is inside the slab.
 */
static inline uint64_t *trie_node(const ShmTrie *trie, uint64_t handle, const ShmTrieLevel *level) {
        SlotId id = shm_handle_slot(handle);

        if (!shm_handle_plausible(trie->arena, handle) || slot_id_slot(id) >= level->n_slots)
                return NULL;
        return (uint64_t *) (shm_arena_slab(trie->arena, slot_id_slab(id)) +
                             slot_id_slot(id) * level->stride);
}

/* Goes one level down, from a word that holds an inner node. The depth is bounded: a damaged arena may have circles. */
static inline __attribute__((always_inline)) int trie_down(const ShmTrie *trie, ShmTrieCursor *c) {
        const ShmTrieLevel *level = trie_level(trie, c->depth);
        uint64_t *node = trie_node(trie, c->value ^ SHM_TRIE_FLIP, level);
        TrieLink above = { c->word, c->raw, c->node };

        if (!node || c->depth >= trie->n_levels + SHM_TRIE_BUCKETS_MAX)
                return -EIDRM;
        c->index = (uint32_t) (c->hash >> level->shift) & level->mask;
        c->word = node + c->index;
        c->node = c->value ^ SHM_TRIE_FLIP;
        c->depth++;
        c->unlinked = false;
        return trie_load(trie, c) == 0 ? 0 : trie_load_renewed(trie, above, c);
}
