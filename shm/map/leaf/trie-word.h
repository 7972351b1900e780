#pragma once
/*
 * Words of the trie's nodes, as values. The two bits in which a handle has its version say which kind it is:
 *
 *     0    empty, if all other bits are 0; else a frozen leaf
 *     1    a leaf: its handle
 *     2    an inner node: its handle with 2 in place of 1
 *     3    in buckets SHM_TRIE_GONE; elsewhere frozen: an inner node, or, if all other bits are 0, an empty word
 *
 * In memory a word is sealed: its value xor a mix of the handle of the node that it is in. A value that was read from
 * a node is therefore found nowhere else: not in that node's slot once it is another object, nor in the node itself
 * after it was renewed. So a compare-and-set that comes late fails (but for a chance of 2^-62).
 */
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/format/handle.h"

#define SHM_TRIE_KIND (UINT64_C(3) << 30)
#define SHM_TRIE_INNER (UINT32_C(2) << 30) /* the kind of an inner node, in the low half of a word */
#define SHM_TRIE_FREEZE (UINT64_C(1) << 30) /* leaf and inner node: frozen or not */
#define SHM_TRIE_FROZEN_EMPTY SHM_TRIE_KIND
/* Turns the handle of an inner node into the value of a word that names it, and back. */
#define SHM_TRIE_FLIP SHM_TRIE_KIND

/*
 * In memory, without a seal: the trie was removed, and the word is settled for good (shm/map/trie/trie-remove.c). It
 * reads as frozen above the buckets, and as SHM_TRIE_GONE in buckets.
 */
#define SHM_TRIE_CLOSED UINT64_MAX

static inline uint32_t shm_trie_kind(uint64_t value) {
        return (uint32_t) value >> 30;
}

static inline bool shm_trie_is_leaf(uint64_t value) {
        return shm_trie_kind(value) == SHM_HANDLE_VERSION;
}

static inline bool shm_trie_is_inner(uint64_t value) {
        return shm_trie_kind(value) == 2;
}

/*
 * The rotation puts the tag into the low half, from where it reaches all bits of the product. So the seals of one slot
 * do not differ in a pattern in which handles differ, too.
 */
static inline uint64_t shm_trie_seal(uint64_t node) {
        return (node << 32 | node >> 32) * UINT64_C(0x9e3779b97f4a7c15) & ~SHM_TRIE_KIND;
}

/* These three are for words above the buckets. */
static inline bool shm_trie_is_frozen(uint64_t value) {
        return shm_trie_kind(value) == 3 || (shm_trie_kind(value) == 0 && value != 0);
}

static inline uint64_t shm_trie_freeze(uint64_t value) {
        return value == 0 ? SHM_TRIE_FROZEN_EMPTY : value ^ SHM_TRIE_FREEZE;
}

static inline uint64_t shm_trie_thaw(uint64_t value) {
        return value == SHM_TRIE_FROZEN_EMPTY ? 0 : value ^ SHM_TRIE_FREEZE;
}

/* There is one handle whose frozen word could not be told from an empty one: it is not linked. */
static inline bool shm_trie_can_link(uint64_t handle) {
        return (handle & ~SHM_TRIE_KIND) != 0;
}
