#pragma once
/*
 * The trie: a lock-free hash trie of 64-bit keyed hashes, the index of the maps.
 *
 * A word of it holds nothing, a leaf, an inner node, or (in buckets) SHM_TRIE_GONE: see shm/map/trie-word.h. An inner
 * node is an object of nothing but words; the hash's next bits, highest first, say in which one the path of the hash
 * goes on. Below the last bit nodes are buckets: leaves of one and the same hash, in words filled from the first to the
 * last, which leads on to a next bucket. Inner nodes with less than two leaves below them are removed again, but for
 * the first levels and the buckets (shm/map/trie-shrink.c).
 *
 * The trie knows handles and hashes, not keys: a leaf is any object that begins with its hash.
 * Whether the leaf at a cursor is the one that is sought, its caller finds out.
 */
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/pool-clock.h"
#include "shm/cache/object.h"
#include "shm/map/trie-word.h"

#define SHM_TRIE_MAGIC 0x34697274U /* "tri4": options change at once */
#define SHM_TRIE_LEVELS_MAX 22 /* 64 bits, 3 at a time */
#define SHM_TRIE_BUCKETS_MAX 136 /* in a chain */
#define SHM_TRIE_GONE (UINT64_C(3) << 30) /* in buckets: a leaf was here; the other bits are the caller's */

/*
 * In a note, in place of a root: the object is kept if any named root names it. A handle has a
 * version, so this is none.
 */
#define SHM_NOTE_NAMED_ROOT UINT64_C(1)

/* The root object. All but `word` and the options is written once, before the root is linked anywhere. */
typedef struct ShmTrieRoot {
        uint32_t magic;
        uint32_t options_version;
        uint64_t word; /* the first word, above all levels */
        uint32_t epoch; /* API number of the epoch of root and inner nodes */
        uint8_t top_bits; /* bits of the hash for each of the first n_top levels */
        uint8_t n_top;
        uint8_t low_bits; /* for each level below; 1 << low_bits is also the size of a bucket */
        uint8_t unused;
        ShmMapOptionSets options; /* the map's */
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
        uint32_t n_fixed; /* the first levels, whose nodes stay */
        uint32_t map; /* index of its named root + 1, see shm_map_attach(); 0: nothing is counted */
        uint32_t leaf_room; /* the size of the slot of the leaf read last, and probably of the next one */
        uint64_t (*now_ns)(const ShmArena *arena); /* the pool's clock */
        uint64_t (*exact_ns)(const ShmArena *arena); /* the same between its ticks, too */
        ShmTrieLevel levels[SHM_TRIE_LEVELS_MAX + 1]; /* the last: buckets */
} ShmTrie;

/* Where the path of a hash ended when it was walked. */
typedef struct ShmTrieCursor {
        uint64_t hash;
        uint64_t *word;
        uint64_t node; /* handle of the node that the word is in, or of the root: to be guarded by a writer */
        uint64_t raw; /* the word when last looked at, */
        uint64_t value; /* and what it says: 0, a leaf or SHM_TRIE_GONE */
        uint64_t plain; /* a leaf that is known to have no chunks; 0: none */
        uint32_t depth; /* nodes above the word */
        uint32_t index; /* the word's place in its node */
        bool frozen; /* the node is being removed: to be helped with before the word can be changed */
} ShmTrieCursor;

enum {
        _SHM_TRIE_E_SUCCESS,
        SHM_TRIE_E_CHANGED, /* the word was changed meanwhile; the cursor is where its path ends now */
        SHM_TRIE_E_LAST, /* no leaf of that hash further on */
        SHM_TRIE_E_STALE, /* the leaf that was to be linked is stale, since its epoch was revoked, or cannot be */
};

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
/*
 * Several paths that are to be walked soon: what lies on them is on its way into the processor's cache, all at one
 * time. Decides nothing.
 */
#define SHM_TRIE_PREFETCH_MAX 16U
void shm_trie_prefetch(const ShmTrie *trie, const uint64_t *hashes, uint32_t n);
/* Looks at the cursor's word again, and walks on to the end of the path. -EIDRM. */
int shm_trie_reload(const ShmTrie *trie, ShmTrieCursor *cursor);
/* To where another leaf of the same hash may be: 0, SHM_TRIE_E_LAST, -EIDRM. */
int shm_trie_next(const ShmTrie *trie, ShmTrieCursor *cursor);
/* Where a word belongs to one leaf, and its successors, for good. */
static inline bool shm_trie_in_bucket(const ShmTrie *trie, const ShmTrieCursor *cursor) {
        return cursor->depth > trie->n_levels;
}

/* An object for an inner node at the cursor; it is pending. Errors of shm_object_alloc(). */
int shm_trie_alloc_node(ShmActor *actor, const ShmTrie *trie, const ShmTrieCursor *c, uint64_t *ret_handle,
                        void **ret_object);
/*
 * Makes room for a leaf of the cursor's hash, pending under this root and hash, beside another (or SHM_TRIE_GONE) at
 * the cursor, which is moved one level down, into a new inner node. 0: the leaf is there, too, and no longer pending.
 * SHM_TRIE_E_CHANGED: the leaf is pending still, since they share the word one level down, too, or the cursor's was
 * changed: seek again. SHM_TRIE_E_STALE, -EIDRM, -ENOSPC (more leaves of one hash than a trie holds), errors of
 * shm_object_alloc() (-ESHUTDOWN: of the trie's own epoch): nothing was done.
 */
int shm_trie_split(ShmActor *actor, const ShmTrie *trie, ShmTrieCursor *cursor, uint64_t leaf);

/*
 * Puts `value` where the cursor is: a leaf, pending under this root and hash, or nothing, which is 0,
 * but in a bucket has SHM_TRIE_GONE set. When done, the leaf is no longer pending, and the one that
 * was there is freed. SHM_TRIE_E_CHANGED, SHM_TRIE_E_STALE, -EIDRM, -ENOBUFS (no note left): nothing
 * was done, the leaf is pending still.
 */
int shm_trie_exchange(ShmActor *actor, const ShmTrie *trie, ShmTrieCursor *cursor, uint64_t value);

/*
 * Removes the leaf at the cursor, as shm_trie_exchange() with that vacancy does, and closes a word of it. final->done
 * may be false: somebody else freed the leaf, with its epoch or by its handle.
 */
int shm_trie_take(ShmActor *actor, const ShmTrie *trie, ShmTrieCursor *cursor, uint64_t vacancy,
                  ShmFinal *final);

/*
 * Whether the path of `hash` holds this very handle, as leaf or inner node. One walk decides, also
 * beside others that write: see trie-walk.c. Never fails: of what is no trie, the answer is no.
 */
bool shm_trie_contains(ShmArena *arena, uint64_t root, uint64_t hash, uint64_t handle);

/*
 * The next leaf, in the order of hashes: 1, 0 (no more, or a pause before scan->done), -EIDRM. Start with a scan of
 * zeros. A leaf that is in the trie throughout is met exactly once, whatever others do beside.
 * -EIDRM also of a scan that is longer than there are words for, since nodes share what is below them.
 * The leaf may be stale; *ret_hash is its hash, or where stale one that shares its path.
 */
int shm_trie_scan(const ShmTrie *trie, ShmTrieScan *scan, ShmTrieCursor *ret, uint64_t *ret_hash);

/* The memory of root and inner nodes, counted in steps, beside others that write. Begin with zeros. */
typedef struct ShmTrieSize {
        uint64_t bytes; /* the slots of root and inner nodes that were met */
        uint64_t n_words; /* passed over since it began */
        uint32_t depth; /* nodes of the path that is walked */
        struct {
                uint64_t handle;
                uint32_t next, n_words; /* the word that is next, and how many there are */
        } path[SHM_TRIE_LEVELS_MAX + SHM_TRIE_BUCKETS_MAX];
} ShmTrieSize;

/* Passes over n words at most. True: it is done, or the trie is no more. Nothing is written. */
bool shm_trie_size_step(const ShmTrie *trie, ShmTrieSize *size, uint32_t n);
