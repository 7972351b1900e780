#pragma once
/*
 * Arena format: the processes that use the arena, and the slots and objects that each thread holds. It is part
 * of the format in shm/format/layout.h: the same rules and the same version apply.
 */
#include <assert.h>
#include <stdint.h>

#include "shm/format/counters.h"
#include "shm/format/layout.h"

/*
 * A process. `word` holds its whole identity, so one compare-and-set takes an entry:
 *     state 8 (ShmClientState) | pid 24 | start time 32 (clock ticks since boot, its low half)
 */
typedef struct ShmClient {
        uint64_t word;
        uint32_t uid;
        uint32_t gid;
        uint64_t attached_usec;
        uint8_t comm[16];
        uint64_t holds; /* epochs to which the process has references, a bit for each id; see ShmHolds */
        uint32_t role; /* as in the protocol: 1 reader, 2 writer, 3 operator; 0: not known */
        /* For people. The number of tasks that wait 19 | client + 1 with the claim that one waits for 13 */
        uint32_t waits;
        uint64_t program; /* number of the program image, which changes with exec; 0: not known */
} ShmClient;
static_assert(sizeof(ShmClient) == 64, "arena format");

/*
 * The references of a process to epochs; they stand behind all entries of the table. The era of each id counts if the
 * bit in `holds` is set. Only the process itself writes it. It has a page only once a bit was set.
 */
typedef struct ShmHolds {
        uint32_t era[SHM_EPOCHS_MAX];
} ShmHolds;
static_assert(sizeof(ShmHolds) == 4 * SHM_EPOCHS_MAX, "arena format");

/*
 * The owner of record i. The heads are in an array apart from the records, so that a search for a free
 * record does not touch, and so allocate, the pages of every record.
 *     state 8 | client 24 | tid 32
 */
typedef struct ShmRecordHead {
        uint64_t word;
        uint64_t since; /* clock ticks since boot when the thread took the record; 0: not known */
        /* While the record is frozen, by the pool's clock: when the stores of before are seen. 0: nobody knows. */
        uint64_t seen_usec;
        uint32_t waits_for; /* client + 1 with the claim that the owner waits for; 0: none. For people */
        uint8_t unused[36];
} ShmRecordHead;
static_assert(sizeof(ShmRecordHead) == 64, "arena format");

/*
 * An object that repair frees if the thread dies. With root 0 the object is pending until it is published.
 * Else it is being linked into, or was just taken out of, the trie of that root, and repair frees it unless
 * that trie contains it. With root SHM_NOTE_NAMED_ROOT repair frees it unless a named root refers to it.
 * shm_trie_contains() answers both questions.
 */
typedef struct ShmNote {
        uint64_t handle;
        uint64_t root;
        uint64_t hash;
        uint64_t unused;
} ShmNote;
static_assert(sizeof(ShmNote) == 32, "arena format");

/* How well a cache has paid since the current window began. Where it did not, `bypass` operations go past it. */
typedef struct ShmCacheWindow {
        uint32_t bypass; /* operations still to go uncached */
        uint32_t n_words; /* slab words that refills, or flushes, changed */
        uint32_t n_slots; /* slots that these moved */
        uint32_t hits; /* the record's count of hits when the window began, low half */
} ShmCacheWindow;
static_assert(sizeof(ShmCacheWindow) == 16, "arena format");

/*
 * Slots of one (epoch, class) that a thread holds: their tags are even, their bits in the bitmap set. The
 * owner of the record writes it or, while the record is frozen, the maintainer. Zeros are an empty cache
 * without room.
 */
typedef struct ShmCache {
        uint32_t count;
        uint32_t room; /* frees push while the count is below it: the capacity, or 0 for the slow path */
        uint32_t held; /* slab index + 1 of the slab that the thread holds (ACTIVE) for it; 0: none */
        uint32_t capacity; /* up to SHM_CACHE_MAX; 0: never used */
        uint32_t last; /* a refill or a flush; when the two alternate, the cache is too small */
        uint8_t requested_next; /* index into `requested` */
        uint8_t requested[11]; /* requested sizes, sampled, in granules less 1; 0: none */
        ShmCacheWindow alloc, free;
        uint32_t slots[SHM_CACHE_MAX];
} ShmCache;
static_assert(sizeof(ShmCache) == 64 + 4 * SHM_CACHE_MAX, "arena format");

static_assert(SHM_COUNTERS_N <= SHM_COUNTERS_MAX, "arena format");

#define SHM_RECORD_FENCES UINT64_C(1)

/* A thread's record, followed by its caches; for their order see shm_cache_group(). */
typedef struct ShmRecord {
        /* Only the owner writes this cache line, except `attention`, which only the maintainer writes. */
        uint64_t seq; /* odd inside an operation; never reset */
        uint64_t intent_what; /* written last, cleared first; see shm/format/intent.h */
        uint64_t intent_mask;
        uint64_t attention; /* freeze bit | version of the epoch table */
        uint64_t flags; /* SHM_RECORD_FENCES: membarrier does not reach the owner, which fences instead */
        uint64_t guard; /* handle of an object that the owner is about to write into; see shm_actor_guard() */
        uint64_t n_notes; /* notes at or above this index were never used; only rises */
        uint64_t
                map; /* index + 1 of the map that the owner changes; it is miscounted if the owner dies; 0: none */
        ShmMapTally tally;
        uint64_t counters[SHM_COUNTERS_MAX]; /* sums over all owners; only the present owner writes them */
        uint64_t base_counters[SHM_COUNTERS_MAX]; /* the counters when the present owner took the record */
        uint64_t used[SHM_CACHES_MAX / 64]; /* a bit for each cache that was ever used; read no other */
        ShmNote notes[SHM_NOTES_MAX];
        /* Sums over all owners, as `counters`; the last one is unused. */
        ShmMapGets map_gets[SHM_ROOTS_MAX + 1];
        uint8_t unused[1152]; /* so the pages of caches can go by themselves */
} ShmRecord;
static_assert(sizeof(ShmRecord) == 2 * SHM_SLAB_SIZE, "arena format");

/*
 * The caches of a record stand in groups, each with up to SHM_CACHE_GROUP classes of each epoch. So if a thread uses
 * small classes alone, the caches of large ones have no pages.
 *
 *     epoch 0: class 0 to 7 | epoch 1: class 0 to 7 | ...        epoch 0: class 8 to 15 | epoch 1: class 8 to 15 | ...
 */
static inline uint32_t shm_cache_group(uint32_t n_classes) {
        return n_classes < SHM_CACHE_GROUP ? n_classes : SHM_CACHE_GROUP;
}

/* The number of places for caches in a record; some have no class. */
static inline uint32_t shm_n_caches(uint32_t n_epochs, uint32_t n_classes) {
        return n_epochs * ((n_classes + SHM_CACHE_GROUP - 1) / SHM_CACHE_GROUP) * shm_cache_group(n_classes);
}
