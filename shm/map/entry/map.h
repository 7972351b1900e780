#pragma once
/*
 * Maps: a trie whose leaves are entries, each a key and a value.
 *
 * An entry is found by the pool's keyed hash of its key. A leaf does not change, but for its sealed words
 * (shm/map/leaf/leaf.h): a new value is a new leaf. The leaf's handle is the version of the value.
 */
#include <sys/types.h>

#include "shm/map/state/tally.h"
#include "shm/map/trie/trie.h"

#define SHM_MAP_EPOCH_ALL (UINT32_MAX - 1) /* for shm_map_expire() */

/* The object of the root "tslab.maps": the epoch of the indexes of all maps. Never changes. */
#define SHM_MAPS_ROOT "tslab.maps"
#define SHM_MAPS_MAGIC UINT64_C(0x7370616d2d6d6873) /* "shm-maps" */
typedef struct ShmMaps {
        uint64_t magic;
        uint32_t epoch;
        uint32_t unused;
} ShmMaps;
static_assert(sizeof(ShmMaps) == 16, "arena format");

/* The number of the epoch that the root names, which may be closed; 0: none. *ret_handle: the root's handle, or 0. */
uint32_t shm_maps_epoch(const ShmArena *arena, uint64_t *ret_handle);

typedef struct ShmMapKey {
        const void *bytes;
        uint32_t size;
        uint64_t hash;
} ShmMapKey;

/* It counts if the view is live after that. */
static inline bool shm_map_is_key(const ShmMapView *view, const ShmMapKey *key) {
        return view->head.hash == key->hash && view->head.key_size == key->size &&
               shm_racy_equal(view->bytes, key->bytes, key->size);
}

typedef enum ShmMapMode {
        SHM_MAP_PUT, /* whatever was there */
        SHM_MAP_INSERT, /* only where nothing was */
        SHM_MAP_UPDATE, /* only where something was */
        SHM_MAP_REPLACE, /* only where `expected` was; 0: nothing */
        SHM_MAP_EXACT, /* as REPLACE, also where the time of `expected` is over; for claims */
} ShmMapMode;

typedef struct ShmMapPut {
        ShmMapMode mode;
        uint64_t expected;
        const void *value;
        uint32_t value_size;
        uint32_t epoch; /* as for shm_object_alloc() */
        uint64_t ttl_ms; /* SHM_MAP_TTL_DEFAULT: the map's; SHM_MAP_TTL_NONE */
        uint64_t end_ms; /* on the pool's clock, in place of a lifetime; 0: `ttl_ms` counts */
        uint16_t flags; /* SHM_LEAF_*; of a cell `value` is its 8 bytes */
        const ShmClaim *claim; /* with SHM_LEAF_CLAIM; `value`: the stale one */
        const uint64_t *tags; /* the entry has them, see shm/map/entry/tag.h; a claim: for its stale value */
        uint32_t n_tags; /* SHM_LEAF_TAGS_MAX at most */
} ShmMapPut;

enum {
        _SHM_MAP_E_SUCCESS,
        SHM_MAP_E_ABSENT, /* the word at the cursor is free for the key */
        SHM_MAP_E_TAKEN, /* the key is absent, and another is at the cursor */
};

#define SHM_MAP_VALUE_MAX_DEFAULT (UINT32_C(1) << 20)

/* Largest sum of a key's and a value's size that fits one object. Larger values are chains. */
static inline size_t shm_map_size_max(const ShmArena *arena) {
        return shm_arena_size_max(arena) - sizeof(ShmMapLeaf);
}

static inline size_t shm_map_key_max(const ShmArena *arena) {
        return (shm_map_size_max(arena) & ~(size_t) 7) - sizeof(uint64_t);
}

/* The largest key that can be claimed: its claim has room for a stale value, in chunks. */
static inline size_t shm_map_claim_key_max(const ShmArena *arena) {
        return shm_map_key_max(arena) - sizeof(ShmClaim);
}

/* Largest value that the map takes. */
uint32_t shm_map_value_max(const ShmTrie *trie);

/*
 * 0, SHM_MAP_E_ABSENT, SHM_MAP_E_TAKEN; -EIDRM: the map is no more. After 0 the view is one of a leaf that was live; if
 * its is_over is set, the entry is absent to users of the map.
 */
int shm_map_find(const ShmTrie *trie, const ShmMapKey *key, ShmTrieCursor *ret_cursor, ShmMapView *ret_view);

/*
 * As shm_map_find() for a put, which has an actor. In a bucket it makes stale leaves on the way unusable, so that
 * from then on the word that it finds is the key's own.
 */
int shm_map_find_place(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, ShmTrieCursor *ret_cursor,
                       ShmMapView *ret_view);

/*
 * Copies bytes inside the value. They count if the view is live after that. -EUCLEAN: the entry is damaged, or was
 * freed meanwhile.
 */
int shm_map_copy(const ShmTrie *trie, const ShmMapView *view, uint32_t offset, void *buffer, uint32_t size);

/*
 * Copies the value out. -ENOENT, -EMSGSIZE (the buffer is too small; ret_view has the size), -EIDRM, -EUCLEAN (the
 * entry is damaged). ret_view may be NULL. Do not use its bytes.
 */
ssize_t shm_map_get(const ShmTrie *trie, const ShmMapKey *key, void *buffer, size_t size,
                    ShmMapView *ret_view);
/* Looks the key's entry up, as a get does, and copies nothing. -ENOENT, -EIDRM. */
int shm_map_look(const ShmTrie *trie, const ShmMapKey *key, ShmMapView *ret_view);
/*
 * Copies bytes of the value of a leaf that was looked up, from `offset` on, and returns how many. -ESTALE: it is no
 * leaf of this map, or no longer. -EUCLEAN.
 */
ssize_t shm_map_read(const ShmTrie *trie, uint64_t leaf, uint32_t offset, void *buffer, size_t size);

/*
 * Brings the entries of several keys, and the nodes on the way to them, into the processor's cache, all at one time,
 * for calls that follow soon. It decides nothing.
 */
#define SHM_MAP_PREFETCH_MAX SHM_TRIE_PREFETCH_MAX
void shm_map_prefetch(const ShmTrie *trie, const ShmMapKey *keys, uint32_t n);

/*
 * -EEXIST (INSERT), -ENOENT (UPDATE), -EAGAIN (REPLACE), -E2BIG, -ENOSPC (the map would exceed its limit, and does not
 * evict; or in all its time it had more than 900 keys with this hash), -EIDRM, errors of shm_object_alloc().
 */
int shm_map_put(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, const ShmMapPut *put,
                uint64_t *ret_version);
/* Counts a change that failed for lack of memory or room, and that is not tried again. */
void shm_map_count_failure(ShmActor *actor, const ShmTrie *trie);

/* Counts a put whose key and value have no room in any map of the pool; -E2BIG. */
int shm_map_refuse_large(ShmActor *actor, size_t key_size, size_t value_size);

/*
 * -ENOENT (also where a claim was removed, unless `expected` names it), -EAGAIN (`expected` is not 0, and it is
 * another), -EIDRM, -ENOBUFS, -EROFS.
 */
int shm_map_delete(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, uint64_t expected);

/*
 * Deletes the entries of an epoch (era 0: any era of that id; SHM_MAP_EPOCH_ALL: any epoch), and forgets entries that
 * are stale. One call looks at the next n_max leaves, or at fewer where many words of the index are empty. Returns how
 * many it deleted; scan->done says whether that was all. -EIDRM, -ENOBUFS, -EROFS.
 */
ssize_t shm_map_expire(ShmActor *actor, const ShmTrie *trie, uint32_t epoch, ShmTrieScan *scan,
                       uint32_t n_max);

/*
 * Forgets the stale entries among the next n_max leaves, and counts the others for the census. It moves `scan`, and
 * fails, as shm_map_expire() does.
 */
ssize_t shm_map_clean(ShmActor *actor, const ShmTrie *trie, ShmTrieScan *scan, uint32_t n_max,
                      ShmMapCensus *census);

/*
 * Finds the next entry. 1: its key was copied to `buffer`, and behind it its value, if `size` is enough for both. 0:
 * there is no more. -EMSGSIZE: `size` is not enough for the key of the entry at *ret, and the scan stays before it.
 * -EIDRM, -EUCLEAN.
 */
int shm_map_next(const ShmTrie *trie, ShmTrieScan *scan, void *buffer, size_t size, ShmMapView *ret);

/* How many entries there are. -EIDRM. */
ssize_t shm_map_count(const ShmTrie *trie);
