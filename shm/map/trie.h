#pragma once
/*
 * The trie: a lock-free hash trie of 64-bit keyed hashes, the index of the maps.
 *
 * A word of it is 0, a leaf's handle, an inner node's handle with version 2 in place of 1, or
 * (in buckets) SHM_TRIE_GONE. An inner node is an object of nothing but words; which one a hash goes on to is
 * said by the hash's next bits, highest first. Below the last bit nodes are buckets: leaves of one
 * and the same hash, in words filled from the first to the last, which leads on to a next bucket.
 *
 * The trie knows handles and hashes, not keys: a leaf is any object that begins with its hash.
 * Whether the leaf at a cursor is the one that is sought, its caller finds out.
 */
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/cache/object.h"

#define SHM_TRIE_MAGIC UINT64_C(0x656972742d6d6873) /* "shm-trie" */
#define SHM_TRIE_LEVELS_MAX 22 /* 64 bits, 3 at a time */
#define SHM_TRIE_BUCKETS_MAX 64 /* in a chain */
#define SHM_TRIE_GONE (UINT64_C(3) << 30) /* in buckets: a leaf was here; the other bits are the caller's */

/*
 * In a note, in place of a root: the object is kept if any named root names it. A handle has a
 * version, so this is none.
 */
#define SHM_NOTE_NAMED_ROOT UINT64_C(1)

/* The root object. All but `word` is written once, before the root is linked anywhere. */
typedef struct ShmTrieRoot {
        uint64_t magic;
        uint64_t word; /* the first word, above all levels */
        uint32_t epoch; /* API number of the epoch of root and inner nodes */
        uint8_t top_bits; /* bits of the hash for each of the first n_top levels */
        uint8_t n_top;
        uint8_t low_bits; /* for each level below; 1 << low_bits is also the size of a bucket */
        uint8_t unused;
        uint64_t unused2[5];
} ShmTrieRoot;
static_assert(sizeof(ShmTrieRoot) == 64, "arena format");

typedef struct ShmTrieLevel {
        uint8_t shift; /* bits of the hash that belong to lower levels */
        uint16_t mask;
        uint16_t n_words; /* words in a node; the last level may use fewer */
        uint16_t n_slots; /* in a slab of such nodes */
        uint32_t stride; /* from one such node to the next */
} ShmTrieLevel;

/* One process's view of a trie: the root, checked, and a private copy of its shape. */
typedef struct ShmTrie {
        ShmArena *arena;
        uint64_t root;
        uint64_t root_off; /* the root object's offset from the first slab */
        uint32_t epoch;
        uint32_t n_levels;
        uint32_t
                leaf_class; /* the class of the leaf last read, and probably of the next one: for prefetching */
        ShmTrieLevel levels[SHM_TRIE_LEVELS_MAX + 1]; /* the last: buckets */
} ShmTrie;

/* Where the path of a hash ended when it was walked. */
typedef struct ShmTrieCursor {
        uint64_t hash;
        uint64_t *word;
        uint64_t node; /* handle of the node that the word is in, or of the root: to be guarded by a writer */
        uint64_t value; /* the word's, when last looked at: 0, a leaf or SHM_TRIE_GONE */
        uint32_t depth; /* nodes above the word */
        uint32_t index; /* the word's place in its node */
} ShmTrieCursor;

/* Where a scan is: leaves from (hash, position among those of that hash) on are still to come. */
typedef struct ShmTrieScan {
        uint64_t hash;
        uint32_t position;
        uint32_t done;
} ShmTrieScan;

enum {
        _SHM_TRIE_E_SUCCESS,
        SHM_TRIE_E_CHANGED, /* the word was changed meanwhile; the cursor is where its path ends now */
        SHM_TRIE_E_LAST, /* no leaf of that hash further on */
        SHM_TRIE_E_STALE, /* the leaf that was to be linked is stale: its epoch was revoked */
};

static inline bool shm_trie_is_leaf(uint64_t value) {
        return ((uint32_t) value >> 30) == SHM_HANDLE_VERSION;
}

/*
 * A root of an empty trie whose root and inner nodes are, and will be, in `epoch`. It is pending
 * under SHM_NOTE_NAMED_ROOT: to be named, then published. Errors of shm_object_alloc().
 */
int shm_trie_create(ShmActor *actor, uint32_t epoch, uint64_t *ret_root);

/* -ESTALE: no such object; -EUCLEAN: it is not the root of a trie. */
int shm_trie_open(ShmTrie *trie, ShmArena *arena, uint64_t root);

/*
 * To the end of the path of `hash`. -EIDRM: the index is no more (its epoch was revoked), or damaged.
 * Needs no actor and writes nothing.
 */
int shm_trie_seek(const ShmTrie *trie, uint64_t hash, ShmTrieCursor *ret);
/* Looks at the cursor's word again, and walks on to the end of the path. -EIDRM. */
int shm_trie_reload(const ShmTrie *trie, ShmTrieCursor *cursor);
/* To where another leaf of the same hash may be: 0, SHM_TRIE_E_LAST, -EIDRM. */
int shm_trie_next(const ShmTrie *trie, ShmTrieCursor *cursor);
/* Whether the cursor is where a word belongs to one leaf, and its successors, for good. */
static inline bool shm_trie_in_bucket(const ShmTrie *trie, const ShmTrieCursor *cursor) {
        return cursor->depth > trie->n_levels;
}

/*
 * Makes room beside the leaf (or SHM_TRIE_GONE) at the cursor: moves it one level down, into a new
 * inner node. The cursor is then at the end of its path again. 0, SHM_TRIE_E_CHANGED, -EIDRM,
 * -ENOSPC (more leaves of one hash than a trie holds), errors of shm_object_alloc() (-ESHUTDOWN: of
 * the trie's own epoch).
 */
int shm_trie_split(ShmActor *actor, const ShmTrie *trie, ShmTrieCursor *cursor);

/*
 * Puts `value` where the cursor is: a leaf, pending under this root and hash, or nothing, which is 0,
 * but in a bucket has SHM_TRIE_GONE set. When done, the leaf is no longer pending, and the one that
 * was there is freed. SHM_TRIE_E_CHANGED, SHM_TRIE_E_STALE, -EIDRM, -ENOBUFS (no note left): nothing
 * was done, the leaf is pending still.
 */
int shm_trie_exchange(ShmActor *actor, const ShmTrie *trie, ShmTrieCursor *cursor, uint64_t value);

/*
 * Whether the path of `hash` holds this very handle, as leaf or inner node. One walk decides, also
 * beside others that write: see trie.c. Never fails: of what is no trie, the answer is no.
 */
bool shm_trie_contains(ShmArena *arena, uint64_t root, uint64_t hash, uint64_t handle);

/*
 * The next leaf, in the order of hashes: 1, 0 (no more), -EIDRM. Start with a ShmTrieScan of
 * zeros. A leaf that is in the trie throughout is met exactly once, whatever others do beside.
 * The leaf may be stale; *ret_hash is its hash, or where stale one that shares its path.
 */
int shm_trie_scan(const ShmTrie *trie, ShmTrieScan *scan, ShmTrieCursor *ret, uint64_t *ret_hash);
