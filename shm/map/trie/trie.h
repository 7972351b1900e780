#pragma once
/*
 * The trie: a lock-free hash trie, the index of the maps. Its keys are 64-bit keyed hashes.
 *
 * A word of the trie is empty, or holds a leaf, an inner node or, in buckets, SHM_TRIE_GONE (trie-word.h). An
 * inner node is an object of such words. The next bits of a hash, highest first, select the word of a node in which the
 * path of the hash continues. Below the last bit, nodes are buckets: a bucket has leaves of one and the same hash, in
 * words that are filled from the first to the last. The last word leads to the next bucket. Inner nodes with fewer than
 * two leaves below them are removed again, except nodes of the first levels and buckets (shm/map/trie/trie-shrink.c).
 *
 * The trie knows handles and hashes, not keys: a leaf is any object that begins with its hash. The caller finds out
 * whether the leaf at a cursor is the one that it seeks.
 */
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/clock/pool-clock.h"
#include "shm/cache/object.h"
#include "shm/map/leaf/trie-word.h"

#define SHM_TRIE_MAGIC 0x35697274U /* "tri5": shortcuts */
#define SHM_TRIE_LEVELS_MAX 22 /* 64 bits, 3 at a time */
#define SHM_TRIE_LOW_BITS_MAX 4 /* bits of the hash, in a node below the first levels */
#define SHM_TRIE_BUCKETS_MAX 136 /* in a chain */
#define SHM_TRIE_GONE (UINT64_C(3) << 30) /* in buckets: a leaf was here; the other bits are the caller's */

/*
 * In a note, in place of a root: repair keeps the object if any named root names it. No handle has this value, since a
 * handle has a version.
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
        uint8_t has_shortcuts; /* leaves may have SHM_LEAF_SHORTCUT; set before the first has */
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
        uint64_t shortcut_mix; /* see shm/map/entry/shortcut.c */
        uint32_t leaf_room; /* the size of the slot of the leaf read last, and probably of the next one */
        uint64_t (*now_ns)(const ShmArena *arena); /* the pool's clock */
        uint64_t (*exact_ns)(const ShmArena *arena); /* the same between its ticks, too */
        ShmTrieLevel levels[SHM_TRIE_LEVELS_MAX + 1]; /* the last: buckets */
} ShmTrie;

/* The name of the trie's map, for probes; "": it is none. */
static inline const void *shm_trie_name(const ShmTrie *trie) {
        return trie->map == 0 ? (const void *) "" : trie->arena->header->roots[trie->map - 1].name;
}

/* Where the path of a hash ended when it was walked. */
typedef struct ShmTrieCursor {
        uint64_t hash;
        uint64_t *word;
        uint64_t node; /* handle of the node that the word is in, or of the root: to be guarded by a writer */
        uint64_t raw; /* the word when last looked at, */
        uint64_t value; /* and what it says: 0, a leaf or SHM_TRIE_GONE */
        uint64_t seen; /* the live leaf that the caller looked at last; 0: none */
        uint64_t *seen_end; /* the word of its end */
        uint16_t seen_flags; /* its flags, SHM_LEAF_* */
        uint32_t depth; /* nodes above the word */
        uint32_t index; /* the word's place in its node */
        bool frozen; /* the node is being removed or renewed: to be helped with before the word can be changed */
        bool unlinked; /* the node is being renewed: the word above still has its previous version */
} ShmTrieCursor;

enum {
        _SHM_TRIE_E_SUCCESS,
        SHM_TRIE_E_CHANGED, /* the word was changed meanwhile; the cursor is where its path ends now */
        SHM_TRIE_E_LAST, /* no leaf of that hash further on */
        SHM_TRIE_E_STALE, /* the leaf that was to be linked was revoked with its epoch, or cannot be linked */
};

/*
 * Makes the root of an empty trie. The root and all later inner nodes are objects of `epoch`. The root is pending under
 * SHM_NOTE_NAMED_ROOT: name it as a root, then publish it. Errors of shm_object_alloc().
 */
int shm_trie_create(ShmActor *actor, uint32_t epoch, uint64_t *ret_root);

/* -ESTALE: no such object; -EUCLEAN: it is not the root of a trie. */
int shm_trie_open(ShmTrie *trie, ShmArena *arena, uint64_t root);

/*
 * Walks to the end of the path of `hash`. It needs no actor and writes nothing. -EIDRM: the index is gone, since its
 * epoch was revoked, or it is damaged.
 */
int shm_trie_seek(const ShmTrie *trie, uint64_t hash, ShmTrieCursor *ret);
/*
 * Brings the nodes on several paths into the processor's cache, all at one time, for walks that follow soon. It decides
 * nothing.
 */
#define SHM_TRIE_PREFETCH_MAX 16U
void shm_trie_prefetch(const ShmTrie *trie, const uint64_t *hashes, uint32_t n);
/* Looks at the cursor's word again, and walks on to the end of the path. -EIDRM. */
int shm_trie_reload(const ShmTrie *trie, ShmTrieCursor *cursor);
/* Moves to the next word where a leaf of the same hash may be: 0, SHM_TRIE_E_LAST, -EIDRM. */
int shm_trie_next(const ShmTrie *trie, ShmTrieCursor *cursor);
/* Whether the cursor is in a bucket. There a word serves one key for good: a leaf, then the leaves that replace it. */
static inline bool shm_trie_in_bucket(const ShmTrie *trie, const ShmTrieCursor *cursor) {
        return cursor->depth > trie->n_levels;
}

/*
 * Puts an inner node in place of the value at the cursor, which is another leaf or SHM_TRIE_GONE. That value moves one
 * level down, into the node, and `leaf` gets the word of its hash there. `leaf` is pending under this root and the
 * cursor's hash.
 *
 * 0: `leaf` is linked, and no longer pending. SHM_TRIE_E_CHANGED: it is still pending, since both need the same word
 * one level down, too, or since another thread changed the cursor's word: seek again. Otherwise nothing was done:
 * SHM_TRIE_E_STALE, -EIDRM, -ENOSPC (more leaves of one hash than a trie holds), errors of shm_object_alloc()
 * (-ESHUTDOWN is about the trie's own epoch).
 */
int shm_trie_split(ShmActor *actor, const ShmTrie *trie, ShmTrieCursor *cursor, uint64_t leaf);

/*
 * Puts `value` into the word at the cursor. It is a leaf that is pending under this root and hash, or a vacancy: 0, or
 * in a bucket a value with SHM_TRIE_GONE. 0: the new leaf is no longer pending, and the old one is freed. Otherwise
 * nothing was done, and the leaf is still pending: SHM_TRIE_E_CHANGED, SHM_TRIE_E_STALE, -EIDRM, -ENOBUFS (no note is
 * free).
 */
int shm_trie_exchange(ShmActor *actor, const ShmTrie *trie, ShmTrieCursor *cursor, uint64_t value);

/*
 * Removes the leaf at the cursor, as shm_trie_exchange() with that vacancy does, and closes a word of the leaf. If
 * final->done is false, somebody else freed the leaf, with its epoch or by its handle.
 */
int shm_trie_take(ShmActor *actor, const ShmTrie *trie, ShmTrieCursor *cursor, uint64_t vacancy,
                  ShmFinal *final);

/*
 * Whether the path of `hash` holds this very handle, as leaf or inner node. One walk decides, even while others write:
 * see shm/map/trie/trie-walk.c. It never fails: an object that is no trie holds nothing.
 */
bool shm_trie_contains(ShmArena *arena, uint64_t root, uint64_t hash, uint64_t handle);

/*
 * Finds the next leaf, in the order of hashes. 1: found; 0: there is no more or, without scan->done, the scan pauses.
 * Start with a scan of zeros. A leaf that is in the trie throughout is met exactly once, even while others write. The
 * leaf may be stale: *ret_hash is then its hash, or another one on the same path. -EIDRM is also the end of a scan that
 * passed more words than there can be: in a damaged trie, nodes may share the nodes below them.
 */
int shm_trie_scan(const ShmTrie *trie, ShmTrieScan *scan, ShmTrieCursor *ret, uint64_t *ret_hash);

/* The memory of root and inner nodes, counted in steps while others write. Begin with zeros. */
typedef struct ShmTrieSize {
        uint64_t bytes; /* the slots of root and inner nodes that were met */
        uint64_t n_words; /* passed over since it began */
        uint32_t depth; /* nodes of the path that is walked */
        struct {
                uint64_t handle;
                uint32_t next, n_words; /* the word that is next, and how many there are */
        } path[SHM_TRIE_LEVELS_MAX + SHM_TRIE_BUCKETS_MAX];
} ShmTrieSize;

/* Passes over at most n words. True: the count is complete, or the trie is gone. It writes nothing. */
bool shm_trie_size_step(const ShmTrie *trie, ShmTrieSize *size, uint32_t n);
