#pragma once
/*
 * Leaves of maps: objects that are entries, a key and a value.
 *
 * Words of a leaf that change in place are sealed in memory: xor a mix of the leaf's handle, as words of the trie's
 * nodes are (trie-word.h). A change is one compare-and-set from the words that were read while the leaf was live. If it
 * comes late, to a slot that is another leaf's by then, it fails (but for a chance of 2^-64). But an object whose owner
 * writes some bytes of such a word, or none, would leave what the change expects. So a thread guards the leaf while it
 * changes a word: then the slot is not given back by a revocation, nor by repair. And a thread that frees a leaf closes
 * these words before others can have the slot (ShmFinal).
 */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/arch/racy.h"
#include "shm/arena/root.h"
#include "shm/cache/object.h"
#include "shm/map/leaf/trie-word.h"

/* Flags. With either of the first two, a sealed word is behind the key, at a multiple of 8. */
#define SHM_LEAF_CELL 1U /* the value is that word, which changes in place */
#define SHM_LEAF_CHAINED 2U /* it and words behind it name chunks, which have the value (chain.h) */
#define SHM_LEAF_CLAIM                                                                                       \
        4U /* no entry yet: a ShmClaim is behind the key, then a stale value, if there is one */
#define SHM_LEAF_BUCKET 8U /* a cell, and a token bucket */
#define SHM_LEAF_TAG 16U /* no entry: the leaf of a tag, see shm/map/entry/tag.h */
#define SHM_LEAF_TAGS_SHIFT                                                                                  \
        5U /* how many tags the entry has: their handles are behind the key, at a multiple of 8 */
#define SHM_LEAF_TAGS (7U << SHM_LEAF_TAGS_SHIFT)
#define SHM_LEAF_TAGS_MAX 4U
#define SHM_LEAF_SHORTCUT 256U /* it may have a shortcut: see shm/map/entry/shortcut.c */
#define SHM_LEAF_ODD (SHM_LEAF_CELL | SHM_LEAF_CHAINED | SHM_LEAF_CLAIM | SHM_LEAF_TAGS)
#define SHM_LEAF_SETTLED (UINT64_C(1) << 63) /* in `expires`: the end is over, and no touch moves it */
#define SHM_LEAF_END_BITS 42 /* no end is later: 139 years */
#define SHM_LEAF_LEAVING (UINT64_C(1) << 61) /* in `expires`: it is about to be unlinked */
#define SHM_LEAF_ARRIVING (UINT64_C(1) << 60) /* in `expires`: it is not linked yet */
#define SHM_LEAF_MARKS                                                                                       \
        (SHM_LEAF_LEAVING | SHM_LEAF_ARRIVING) /* only leaves with SHM_LEAF_SHORTCUT have them */
/*
 * Bytes of the index for each entry, as shm_leaf_cost() counts them: nodes have 32 to 37 in maps of 10^4 to 10^6
 * entries, and shortcuts 16.
 */
#define SHM_INDEX_SHARE 48U
#define SHM_LEAF_VALUE_MAX (UINT32_C(16) << 20)

/*
 * Key and value follow, in this order. There is padding between the key and a sealed word, a ShmClaim, or handles of
 * tags; the stale value of a claim is behind the ShmClaim, and that is behind the tags.
 */
typedef struct ShmMapLeaf {
        uint64_t hash;
        uint64_t
                expires; /* sealed: milliseconds of the pool's clock, SHM_LEAF_SETTLED and _MARKS; 0: never */
        uint32_t value_size;
        uint32_t epoch; /* API number: the leaf's */
        uint16_t key_size;
        uint16_t flags; /* SHM_LEAF_* */
        uint32_t map; /* index of the named root + 1; 0: not known. A hint */
} ShmMapLeaf;
static_assert(sizeof(ShmMapLeaf) == 32, "arena format");

/* At a multiple of 8 behind the key of a claim: the process that is to compute the value. Never changes. */
typedef struct ShmClaim {
        uint64_t process; /* see shm_client_identity(); that of entry `client` of the client table */
        uint64_t
                ends; /* milliseconds of the pool's clock: the claim is free then, if nothing has ended it before */
        uint64_t value_end; /* that of the stale value; 0: there is none */
        uint32_t client;
        uint32_t thread; /* tells the threads of that process apart; 0: not known */
} ShmClaim;
static_assert(sizeof(ShmClaim) == 32, "arena format");

static inline uint32_t shm_leaf_n_tags(uint32_t flags) {
        return (flags & SHM_LEAF_TAGS) >> SHM_LEAF_TAGS_SHIFT;
}

/* Where the value, or the word, is behind the head. */
static inline uint32_t shm_leaf_value_off(uint32_t key_size, uint32_t flags) {
        if (__builtin_expect(!(flags & SHM_LEAF_ODD), 1))
                return key_size;
        return ((key_size + 7U) & ~7U) + shm_leaf_n_tags(flags) * (uint32_t) sizeof(uint64_t) +
               (flags & SHM_LEAF_CLAIM ? (uint32_t) sizeof(ShmClaim) : 0);
}

/* As shm_trie_seal(), with another factor: a word of a leaf is no word of a node. */
static inline uint64_t shm_leaf_seal(uint64_t leaf) {
        return (leaf << 32 | leaf >> 32) * UINT64_C(0xd6e8feb86659fd93);
}

/* The size that the object needs; of a chain the least, with one word. */
static inline size_t shm_leaf_size(uint32_t key_size, uint32_t value_size, uint32_t flags) {
        return sizeof(ShmMapLeaf) + (size_t) shm_leaf_value_off(key_size, flags) +
               (flags & SHM_LEAF_CHAINED ? sizeof(uint64_t) : value_size);
}

/* Memory of the smallest entry. A map with a lower limit could have none. */
static inline uint32_t shm_leaf_cost_min(const ShmArena *arena) {
        return arena->classes[shm_arena_class(arena, shm_leaf_size(0, 0, 0))].share + SHM_INDEX_SHARE;
}

/* An entry that costs more has its value in chunks, which take more than one slab. */
static inline uint64_t shm_leaf_cost_unchained_max(const ShmArena *arena) {
        return arena->classes[arena->n_classes - 1].share + SHM_INDEX_SHARE;
}

/* A leaf seen in place. Read its bytes, then ask shm_map_view_live() whether they were the leaf's. */
typedef struct ShmMapView {
        uint64_t handle;
        const uint8_t *bytes; /* the key, then the value */
        ShmMapLeaf head; /* a copy; the sizes fit the object */
        uint64_t *at; /* with SHM_LEAF_CHAINED: the first word, */
        uint64_t word; /* and its content, sealed */
        uint64_t tags[SHM_LEAF_TAGS_MAX]; /* with SHM_LEAF_TAGS */
        uint64_t expires; /* as it was then, without SHM_LEAF_SETTLED and _MARKS */
        uint64_t marks; /* SHM_LEAF_MARKS, those that it had */
        uint32_t room; /* size of the slot */
        bool is_settled; /* whether it had SHM_LEAF_SETTLED */
        bool is_over; /* see shm_map_find() */
} ShmMapView;

/* False: the chain is being freed, so that its first word has another kind (shm/map/leaf/trie-word.h). */
static inline bool shm_leaf_is_whole(uint64_t leaf, uint64_t word) {
        return shm_trie_is_leaf(word ^ shm_leaf_seal(leaf));
}

/*
 * For a cell, a chain, a claim or an entry with tags: checks the sizes, and loads tags and a chain's first word. False:
 * no leaf has such sizes.
 */
static inline bool shm_map_view_word(ShmMapView *view) {
        const ShmMapLeaf *head = &view->head;

        if (shm_leaf_size(head->key_size, head->value_size, head->flags) > view->room ||
            head->value_size > SHM_LEAF_VALUE_MAX ||
            (head->flags & SHM_LEAF_CELL && head->value_size != sizeof(uint64_t)) ||
            shm_leaf_n_tags(head->flags) > SHM_LEAF_TAGS_MAX)
                return false;
        shm_racy_copy_out(view->tags, view->bytes + ((head->key_size + 7U) & ~7U),
                          shm_leaf_n_tags(head->flags) * sizeof(uint64_t));
        if (head->flags & SHM_LEAF_CHAINED) {
                view->at = (uint64_t *) (view->bytes + shm_leaf_value_off(head->key_size, head->flags));
                /* ORDER: acq, pairs with shm_chain_fill(); chunks are read after it. */
                view->word = shm_load_acq(view->at);
        }
        return true;
}

/* -ESTALE: no live object, or none that can be a leaf. */
static inline int shm_map_view(const ShmArena *arena, uint64_t handle, ShmMapView *ret) {
        uint64_t end;
        size_t size;
        void *object;
        int r;

        r = shm_object_get(arena, handle, &object, &size);
        if (r)
                return r;
        ret->handle = handle;
        ret->bytes = (const uint8_t *) object + sizeof(ShmMapLeaf);
        ret->room = (uint32_t) size;
        /* ORDER: acq, pairs with seal_words(); read whole, and before the rest. */
        end = shm_load_acq(&((ShmMapLeaf *) object)->expires) ^ shm_leaf_seal(handle);
        ret->expires = end & ~(SHM_LEAF_SETTLED | SHM_LEAF_MARKS);
        ret->marks = end & SHM_LEAF_MARKS;
        ret->is_settled = end & SHM_LEAF_SETTLED;
        shm_racy_copy(&ret->head, object, sizeof(ret->head));
        if (__builtin_expect(!(ret->head.flags & SHM_LEAF_ODD), 1)) {
                if (sizeof(ShmMapLeaf) + ret->head.key_size + (uint64_t) ret->head.value_size <= size)
                        return 0;
        } else if (shm_map_view_word(ret)) {
                return 0;
        }
        /* ORDER: acq, pairs with shm_uncached_free(); if it was overwritten, its unlinking is seen. */
        shm_fence_acq();
        return -ESTALE;
}

/*
 * As shm_map_view(), where the leaf's slot is as large as guessed. The guess saves the look at the slab's line, a
 * cache miss in a large map. Three things prove it. `expires` has the seal of this leaf: of the bytes in other slots,
 * only a cell of this leaf that stands at 0 has it. The hash is that of the key that is looked for, which such a
 * cell's leaf has elsewhere. And a leaf of that size is in slots of that size: slot 0 is at the same place for each.
 * False: the guess is wrong, or it is the leaf of another key, or has an end, or is not whole.
 */
static inline bool shm_map_view_guessed(const ShmArena *arena, uint64_t handle, uint64_t hash, uint32_t room,
                                        ShmMapView *ret) {
        SlotId id = shm_handle_slot(handle);
        uint8_t *object = shm_arena_slab(arena, slot_id_slab(id)) + slot_id_slot(id) * room;
        uint64_t size;

        /* A slot of that size may not fit. Only bytes of a live object: reading a hole would make its page. */
        if (room < sizeof(ShmMapLeaf) || (slot_id_slot(id) + 1U) * room > SHM_SLAB_SIZE ||
            !shm_handle_plausible(arena, handle) ||
            /* ORDER: acq, pairs with shm_uncached_alloc(); the bytes are read after it. */
            shm_load_acq(shm_slot_tag(arena, id)) != shm_handle_tag(arena->key, handle))
                return false;
        /* ORDER: acq, pairs with leaf_arrive(); before the rest. What led here may be older than the leaf. */
        if (shm_load_acq(&((ShmMapLeaf *) object)->expires) != shm_leaf_seal(handle))
                return false;
        shm_racy_copy(&ret->head, object, sizeof(ret->head));
        size = sizeof(ShmMapLeaf) + ret->head.key_size + (uint64_t) ret->head.value_size;
        if (ret->head.hash != hash || ret->head.flags & SHM_LEAF_ODD || size > room ||
            arena->classes[shm_arena_class(arena, size)].size != room)
                return false;
        ret->handle = handle;
        ret->bytes = object + sizeof(ShmMapLeaf);
        ret->room = room;
        ret->expires = 0;
        ret->marks = 0;
        ret->is_settled = false;
        return true;
}

static inline bool shm_map_view_is_claim(const ShmMapView *view) {
        return view->head.flags & SHM_LEAF_CLAIM;
}

static inline bool shm_map_view_has_tags(const ShmMapView *view) {
        return view->head.flags & SHM_LEAF_TAGS;
}

/* Whether key and value would fit one object together. They may be in two all the same. */
static inline bool shm_map_view_is_small(const ShmArena *arena, const ShmMapView *view) {
        return shm_leaf_size(view->head.key_size, view->head.value_size, 0) <= shm_arena_size_max(arena);
}

/* The word of a leaf that is a cell. */
static inline uint64_t *shm_map_view_cell(const ShmMapView *view) {
        return (uint64_t *) (view->bytes + shm_leaf_value_off(view->head.key_size, SHM_LEAF_CELL));
}

static inline uint64_t *shm_map_view_end(const ShmMapView *view) {
        return (uint64_t *) (view->bytes - sizeof(ShmMapLeaf) + offsetof(ShmMapLeaf, expires));
}

/* The content of a closed end: no end has all bits set. */
static inline uint64_t shm_leaf_closed(uint64_t leaf) {
        return ~shm_leaf_seal(leaf);
}

/*
 * The words to be closed when the leaf is freed. That of a cell takes a keyed hash of the handle: a word derived from
 * the last value could be one that it had before.
 */
static inline ShmFinal shm_map_view_final(const ShmArena *arena, const ShmMapView *view) {
        ShmFinal final = {
                .word = shm_map_view_end(view),
                .closed = shm_leaf_closed(view->handle),
        };

        if (__builtin_expect(view->head.flags & SHM_LEAF_CELL, 0)) {
                final.taken = shm_map_view_cell(view);
                final.taken_closed = shm_hash(arena, &view->handle, sizeof(view->handle));
        }
        return final;
}

/* Copies the value out. It counts if the view is live after that. */
static inline void shm_map_view_copy(const ShmMapView *view, void *buffer) {
        uint64_t value;

        if (__builtin_expect(!(view->head.flags & SHM_LEAF_CELL), 1)) {
                shm_racy_copy_out(buffer,
                                  view->bytes + shm_leaf_value_off(view->head.key_size, view->head.flags),
                                  view->head.value_size);
                return;
        }
        /* ORDER: acq, pairs with shm_map_add(); the value at some moment. */
        value = shm_load_acq(shm_map_view_cell(view)) ^ shm_leaf_seal(view->handle);
        memcpy(buffer, &value, sizeof(value));
}

static inline bool shm_map_view_live(const ShmArena *arena, const ShmMapView *view) {
        uint32_t *tag = shm_slot_tag(arena, shm_handle_slot(view->handle));

        /* ORDER: acq, pairs with shm_uncached_free(); the bytes are read before the tag is again. */
        shm_fence_acq();
        if (view->head.flags & SHM_LEAF_CHAINED) {
                /* ORDER: acq, pairs with shm_chain_free_chunks(); before any chunk was freed. */
                if (shm_load_acq(view->at) != view->word || !shm_leaf_is_whole(view->handle, view->word))
                        return false;
        }
        /* ORDER: acq, pairs with shm_uncached_free(); its unlinking before that is seen hereafter. */
        return shm_load_acq(tag) == shm_handle_tag(arena->key, view->handle);
}
