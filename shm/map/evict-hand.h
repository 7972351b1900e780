#pragma once
/*
 * The hands of a map that evicts: for each class a word, its place in a sweep over all slabs (shm/map/evict.c). For the
 * files of eviction.
 */
#include <assert.h>

#include "shm/map/trie-walk.h"

/* The place of a hand, from the highest bit: */
#define SWEEP_SHIFT 32 /* 32: the number of its sweep */
#define SLAB_SHIFT 7 /* 25: the slab that is next; at the end of a sweep one more than any has */
#define SLOT_SHIFT 1 /* 6: its slot that is next */
#define PLACE_YOUNG UINT64_C(1) /* the sweep is a young one */
#define LEAD_MAX 2 /* sweeps that a class may be ahead of another, until it gets a slab of that */

static_assert(SHM_MAP_HANDS == SHM_CLASSES_MAX, "a hand for each class");
static_assert(SHM_SLABS_MAX < 1 << 25 && SHM_SLOTS_MAX <= 1 << 6, "they fit a place");

typedef struct ShmHand {
        uint32_t sweep, slab, slot;
        bool young;
} ShmHand;

static inline ShmHand hand_unpack(uint64_t w) {
        return (ShmHand){
                .sweep = (uint32_t) (w >> SWEEP_SHIFT),
                .slab = (uint32_t) (w >> SLAB_SHIFT) & (2 * SHM_SLABS_MAX - 1),
                .slot = (uint32_t) (w >> SLOT_SHIFT) & (SHM_SLOTS_MAX - 1),
                .young = w & PLACE_YOUNG,
        };
}

static inline uint64_t hand_pack(ShmHand h) {
        return (uint64_t) h.sweep << SWEEP_SHIFT | (uint64_t) h.slab << SLAB_SHIFT |
               (uint64_t) h.slot << SLOT_SHIFT | (h.young ? PLACE_YOUNG : 0);
}

/* How many sweeps hand a is ahead of b; below 0: behind. */
static inline int32_t sweeps_ahead(uint64_t a, uint64_t b) {
        return (int32_t) ((uint32_t) (a >> SWEEP_SHIFT) - (uint32_t) (b >> SWEEP_SHIFT));
}

static inline ShmMapState *state_of(const ShmTrie *trie) {
        return &trie->arena->header->maps[trie->map - 1];
}

static inline uint64_t classes_in_use(const ShmTrie *trie) {
        /* ORDER: rlx; a hint. Classes beyond are scribbles. */
        return shm_load_rlx(&state_of(trie)->classes) & ((UINT64_C(1) << trie->arena->n_classes) - 1);
}

static inline ShmMapHand *hand_of(const ShmTrie *trie, uint32_t class) {
        return &state_of(trie)->hands[class];
}

static inline uint64_t hand_load(const ShmTrie *trie, uint32_t class) {
        /* ORDER: rlx; it is decided on by compare-and-set. */
        return shm_load_rlx(&hand_of(trie, class)->place);
}

/* All slabs of the arena are in SHM_MAP_RANGES ranges, of 2^n slabs each. */
static inline uint32_t range_shift(const ShmArena *arena) {
        uint32_t last = arena->n_slabs - 1;

        return last < SHM_MAP_RANGES ? 0 : 32 - (uint32_t) __builtin_clz(last / SHM_MAP_RANGES);
}

/* Bits that are mostly as they should be are not written. */
static inline void bits_set(uint64_t *word, uint64_t mask) {
        if (~shm_load_rlx(word) & mask) /* ORDER: rlx; a look. */
                (void) shm_or_sc(word, mask); /* ORDER: sc; before the leaf is linked. */
}

static inline void bits_clear(uint64_t *word, uint64_t mask) {
        if (shm_load_rlx(word) & mask) /* ORDER: rlx; a look. */
                (void) shm_and_sc(word, ~mask); /* ORDER: sc; before the leaf is linked. */
}

/* False: others moved it, and *w is where it is now. */
bool shm_hand_move(const ShmTrie *trie, uint32_t class, uint64_t *w, uint64_t next);

/* No slab is left for the hand: it waits at the end until those of other classes are there; then a sweep begins. */
void shm_hand_end(const ShmTrie *trie, uint32_t class, uint64_t *w);

/* The class whose hand is behind those of the others. *ret_first: the place of the first. */
uint32_t shm_hand_hindmost(const ShmTrie *trie, uint64_t *ret_last, uint64_t *ret_first);

/*
 * That class, to be evicted from. Where it is sweeps behind, since the others worked for memory, it catches up at once;
 * by an even number, so that young entries stay young.
 */
uint32_t shm_hand_next_class(const ShmTrie *trie);
