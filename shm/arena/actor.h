#pragma once
/*
 * An actor is a thread's private view of its record: pointers, and copies of the state that it saw last. Only
 * one thread uses an actor at a time. Below are the stores that every operation makes into its record: these
 * are plain stores, without locked instructions.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/arena.h"
#include "shm/format/slab-word.h"

typedef enum ShmCacheMode {
        SHM_CACHE_ADAPTIVE, /* operations go past a cache for a while where it does not pay */
        SHM_CACHE_ON,
        SHM_CACHE_OFF,
        SHM_CACHE_SPARING, /* off, and no free slab is taken while another one has a slot */
} ShmCacheMode;

/* The values that an allocation needs for its size. */
typedef struct ShmSizeOf {
        ShmCache *cache; /* the cache for the size in the current epoch */
        uint32_t cache_off; /* bytes from an epoch's first cache to its cache for the size */
        uint32_t size_more; /* size of the class, less SHM_CLASS_SIZE_MIN */
} ShmSizeOf;
static_assert(sizeof(ShmSizeOf) == SHM_CLASS_GRANULE, "a size is the offset of its entry");

/* The cache for slots of a class of an open epoch; indexed by the class and epoch bits of their slab's word. */
typedef struct ShmPlaceOf {
        uint32_t key; /* class, epoch and era, as in the word; UINT32_MAX: the epoch is not open */
        uint32_t cache_off; /* in the actor's caches */
} ShmPlaceOf;
static_assert(SLAB_CACHED_MASK < UINT32_MAX, "a place has all of a key");

static inline uint32_t shm_place_index(uint32_t class, uint32_t epoch) {
        return epoch * SHM_CLASSES_MAX + class;
}

/* That of a slab, by the class and epoch in its word, or in a key. */
static inline uint32_t shm_place_index_of(uint64_t high) {
        return high >> SLAB_CLASS_SHIFT & (SHM_EPOCHS_MAX * SHM_CLASSES_MAX - 1);
}
static_assert(1 << (SLAB_EPOCH_SHIFT - SLAB_CLASS_SHIFT) == SHM_CLASSES_MAX,
              "they stand side by side in the word");

/* A path of a map's index that is to be shortened: see shm/map/trie/trie-shrink.c. */
typedef struct ShmKeptPath {
        uint64_t note; /* the handle in its note, which is no object's; 0: there is none */
        uint64_t root, hash;
} ShmKeptPath;

/* The counter or bucket that was found last, and the word of its map's index that named it: see cell.c. */
typedef struct ShmFoundCell {
        uint64_t root; /* the map; 0: there is no such cell */
        uint64_t leaf;
        const uint8_t *key; /* the leaf's, */
        uint64_t *cell; /* and its word */
        uint32_t key_size, flags; /* as in the leaf */
        uint64_t expires; /* the end of the leaf, as last seen; not sealed */
        uint64_t node; /* the node of the index that it was in, */
        uint64_t *word; /* and the word there */
} ShmFoundCell;

/* How this thread takes turns with others that change the same counter or bucket: see shm/map/entry/cell.c. */
typedef struct ShmCellTurn {
        uint64_t leaf; /* the cell that this thread used last, */
        uint64_t value; /* as it left it */
        uint64_t n; /* its own changes since it last found that another thread had changed the cell, */
        uint64_t begun; /* and when that was, in ticks; 0: never */
} ShmCellTurn;

/* Why slabs could not be committed. */
typedef enum ShmShortage {
        SHM_SHORTAGE_POOL, /* all slabs are committed */
        SHM_SHORTAGE_LIMIT, /* the cgroups leave no memory for more */
        SHM_SHORTAGE_SYSTEM, /* the system has no memory */
} ShmShortage;

#define SHM_RECENT_MAX 64U

/* The last search for entries to evict that found none: see shm/map/evict/evict.c. */
typedef struct ShmVainSearch {
        uint64_t stamp;
        uint64_t until_ms;
} ShmVainSearch;

/* A value that had no room in the pool, not even without the entries that may go: see shm/map/evict/evict.c. */
typedef struct ShmUnfit {
        uint64_t cost;
        uint64_t n_free; /* slabs that were free then */
        uint64_t until_ms;
} ShmUnfit;

typedef struct ShmActor {
        /* The fast path uses these members, in this order. */
        ShmRecord *record;
        uint64_t attention; /* that of the record when the copies were made; UINT64_MAX: take the slow path */
        uint8_t *caches; /* the caches of the record */
        uint64_t size_max; /* size of the largest class */
        uint32_t *tags;
        uint8_t *slabs;
        ShmSlabLine *lines;
        uint64_t handle_bits; /* pool key and version, as in every handle of the pool */
        uint64_t n_slots_ever; /* slots of slabs that were ever used; may lag behind */
        uint64_t freed_key; /* the key of the slot that the fast path freed last; UINT64_MAX: none */
        ShmCache *freed_cache; /* the cache that has it */
        uint64_t freed_next; /* id of that slot, and above it the tag of its next object: to be checked */

        ShmArena *arena;
        uint32_t id; /* index of the record */
        uint32_t epoch_stride; /* bytes from a cache to that of the same class in the next epoch */
        uint32_t process; /* in record 0: the client at control work, + 1; 0: a daemon */
        bool fences; /* membarrier does not reach this thread: it takes the slow path and fences */
        ShmCacheMode mode;
        uint32_t emptied; /* index + 1 of the slab that it made FREE last; for pools without a daemon */
        uint32_t n_recent, recent_end; /* `recent` is a ring: how many it has, and where the next one goes */
        uint32_t recent[SHM_RECENT_MAX]; /* slabs that it made FREE; others may have taken them since */
        ShmShortage shortage; /* when its last commit failed */
        ShmVainSearch vain;
        ShmUnfit unfit;
        uint64_t searched_msec; /* when it last searched the slab words themselves, */
        uint32_t searched; /* and the slab that comes next */
        uint64_t seen; /* the record's attention when the copies were made */
        bool keeps_path; /* its owner calls shm_trie_settle() before it gives the record back */
        ShmKeptPath kept;
        ShmFoundCell found;
        ShmCellTurn turn;
        uint32_t current; /* API number of the current epoch; UINT32_MAX: it is not open */
        uint32_t numbers[SHM_EPOCHS_MAX]; /* API numbers of open epochs, or UINT32_MAX */
        ShmSizeOf sizes[SHM_GRANULES_MAX]; /* by (size - 1) / SHM_CLASS_GRANULE */
        ShmPlaceOf places[SHM_EPOCHS_MAX * SHM_CLASSES_MAX]; /* see shm_place_index() */
} ShmActor;

/*
 * Operations. `seq` is odd between enter and leave. The maintainer first changes the epoch's word or `attention`,
 * then issues a membarrier, then reads `seq`: an operation that began before the change is one whose `seq` is odd.
 */
static inline void shm_record_enter(ShmRecord *record) {
        /* ORDER: rlx; only the owner writes it; the maintainer's membarrier puts it before every later load. */
        shm_store_rlx(&record->seq, shm_load_rlx(&record->seq) + 1);
        shm_compiler_barrier();
}

static inline void shm_record_leave(ShmRecord *record) {
        /* ORDER: rel, pairs with shm_freeze_step(); all accesses of the operation are before. ORDER: rlx; ours. */
        shm_store_rel(&record->seq, shm_load_rlx(&record->seq) + 1);
}

static inline void shm_actor_enter(ShmActor *actor) {
        shm_record_enter(actor->record);
}

static inline void shm_actor_leave(ShmActor *actor) {
        shm_record_leave(actor->record);
}

/* Both stores are release: an intent stands before the change that it describes, and is cleared after it. */
static inline void shm_actor_intend(ShmActor *actor, uint64_t what) {
        /* ORDER: rel, pairs with shm_record_intent(); the change that the old intent describes is before. */
        shm_store_rel(&actor->record->intent_what, what);
        shm_compiler_barrier();
}

static inline void shm_actor_intend_mask(ShmActor *actor, uint64_t mask) {
        /* ORDER: rel, pairs with shm_record_intent(); before the intent_what that it belongs to. */
        shm_store_rel(&actor->record->intent_mask, mask);
        shm_compiler_barrier();
}

static inline void shm_actor_count(ShmActor *actor, ShmCounter counter, uint64_t n) {
        uint64_t *c = &actor->record->counters[counter];

        /* ORDER: rlx; only this thread writes it, others read it for statistics. */
        shm_store_rlx(c, shm_load_rlx(c) + n);
}

/* A request of `size` bytes was refused. `counter` is one of the two that has a largest size. */
static inline void shm_actor_count_too_large(ShmActor *actor, ShmCounter counter, uint64_t size) {
        uint64_t *max = &actor->record->counters[counter + SHM_COUNT_TOO_LARGE_MAX - SHM_COUNT_TOO_LARGE];

        shm_actor_count(actor, counter, 1);
        if (shm_load_rlx(max) < size) /* ORDER: rlx; as above. */
                shm_store_rlx(max, size); /* ORDER: rlx; as above. */
}
