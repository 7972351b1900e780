#pragma once
/*
 * The hands of a map that evicts. Each class has one: a word with its place in a sweep over all slabs. See
 * shm/map/evict/evict.c. Only the files of eviction include this.
 */
#include <assert.h>

#include "shm/map/trie/trie-walk.h"

/* The place of a hand, from the highest bit: */
#define SWEEP_SHIFT 32 /* 32 bits: the number of its sweep */
#define SLAB_SHIFT 7 /* 25 bits: the next slab; at the end of a sweep the number of slabs */
#define SLOT_SHIFT 1 /* 6 bits: the next slot in that slab */
#define PLACE_YOUNG UINT64_C(1) /* the sweep is a young one */
#define LEAD_MAX 2 /* sweeps; a class that is ahead by as many gets a slab of the class that is behind */

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
        /* Bits of classes that the pool does not have are from stray writes. */
        return shm_hint_load(&state_of(trie)->classes) & ((UINT64_C(1) << trie->arena->n_classes) - 1);
}

static inline ShmMapHand *hand_of(const ShmTrie *trie, uint32_t class) {
        return &state_of(trie)->hands[class];
}

static inline uint64_t hand_load(const ShmTrie *trie, uint32_t class) {
        /* ORDER: rlx; a compare-and-set with this value decides. */
        return shm_load_rlx(&hand_of(trie, class)->place);
}

/* Looks first: the bits mostly have the right value already, and then nothing is written. */
static inline void bits_set(uint64_t *word, uint64_t mask) {
        if (~shm_hint_load(word) & mask)
                (void) shm_or_sc(word, mask); /* ORDER: sc; before the leaf is linked. */
}

static inline void bits_clear(uint64_t *word, uint64_t mask) {
        if (shm_hint_load(word) & mask)
                (void) shm_and_sc(word, ~mask); /* ORDER: sc; before the leaf is linked. */
}

/* Moves the hand from *w to `next`. False: another thread moved it, and *w is its place now. */
bool shm_hand_move(const ShmTrie *trie, uint32_t class, uint64_t *w, uint64_t next);

/* No slab is left for the hand: it moves to the end of its sweep or, if it is there already, begins the next sweep. */
void shm_hand_end(const ShmTrie *trie, uint32_t class, uint64_t *w);

/* The class whose hand is furthest behind. *ret_last: its place; *ret_first: that of the hand furthest ahead. */
uint32_t shm_hand_hindmost(const ShmTrie *trie, uint64_t *ret_last, uint64_t *ret_first);

/*
 * The class of shm_hand_hindmost(), for an eviction, and the place of its hand. While the hand is there, no other is
 * further behind. So a thread that finds it moved asks again: else it would move a hand ahead of the others. If the
 * hand is more than LEAD_MAX sweeps behind, since evictions for memory moved the others alone, it skips an even number
 * of sweeps: so the bits of young entries keep their meaning.
 */
uint32_t shm_hand_next_class(const ShmTrie *trie, uint64_t *ret_w);
