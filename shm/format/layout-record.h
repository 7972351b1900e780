#pragma once
/*
 * Arena format: who uses the arena, and what each thread holds. Part of shm/format/layout.h's format: the
 * same rules, the same version.
 */
#include <assert.h>
#include <stdint.h>

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
        uint64_t holds; /* epochs that it has references to, a bit for each id */
        uint32_t role; /* as in the protocol: 1 reader, 2 writer, 3 operator; 0: not known */
        uint32_t unused;
        uint64_t program; /* a number of the program that the process executes; 0: not known */
} ShmClient;
static_assert(sizeof(ShmClient) == 64, "arena format");

/*
 * Who uses record i. Dense and apart from the records, so that looking for a free one does not
 * bring every record's pages into being.
 *     state 8 | client 24 | tid 32
 */
typedef struct ShmRecordHead {
        uint64_t word;
        uint8_t unused[56];
} ShmRecordHead;
static_assert(sizeof(ShmRecordHead) == 64, "arena format");

/*
 * An object that its allocator may still take back: pending until published, or (root != 0) linked
 * into, or just taken out of, the trie of that root. After a death it is freed, unless that trie
 * holds it; root SHM_NOTE_NAMED_ROOT: unless a named root names it (shm_trie_contains() knows both).
 */
typedef struct ShmNote {
        uint64_t handle;
        uint64_t root;
        uint64_t hash;
        uint64_t unused;
} ShmNote;
static_assert(sizeof(ShmNote) == 32, "arena format");

/* How well caching has paid since a window began; times that it goes uncached because it did not. */
typedef struct ShmCacheWindow {
        uint32_t bypass; /* operations still to go uncached */
        uint32_t n_words; /* slab words changed */
        uint32_t n_slots; /* slots that moved by them */
        uint32_t hits; /* the record's count of hits when the window began, low half */
} ShmCacheWindow;
static_assert(sizeof(ShmCacheWindow) == 16, "arena format");

/*
 * Slots of one (epoch, class) that a thread holds: even tags, bitmap bits set. Its owner writes it;
 * the daemon while it is frozen. Zeros are an empty cache that has no room yet.
 */
typedef struct ShmCache {
        uint32_t count;
        uint32_t room; /* pushes go up to here: the capacity, or 0 to send them the slow way */
        uint32_t held; /* slab index + 1 of the slab this thread holds for it */
        uint32_t capacity; /* up to SHM_CACHE_MAX; 0: never used */
        uint32_t last; /* a refill or a flush: one after the other says it is too small */
        uint8_t requested_next; /* of `requested` */
        uint8_t requested
                [11]; /* sizes requested lately, where it was refilled, in granules less 1; 0: none */
        ShmCacheWindow alloc, free;
        uint32_t slots[SHM_CACHE_MAX];
} ShmCache;
static_assert(sizeof(ShmCache) == 64 + 4 * SHM_CACHE_MAX, "arena format");

typedef enum ShmCounter {
        SHM_COUNT_ALLOCS_UNCACHED, /* whose sum with the hits is all of them */
        SHM_COUNT_FREES_UNCACHED,
        SHM_COUNT_ALLOC_HITS,
        SHM_COUNT_FREES_CACHED,
        SHM_COUNT_REFILLS,
        SHM_COUNT_FLUSHES,
        SHM_COUNT_ALLOC_BYPASSED,
        SHM_COUNT_FREE_BYPASSED,
        SHM_COUNT_BYPASS_WINDOWS,
        SHM_COUNT_SLABS_TAKEN,
        SHM_COUNT_SLABS_RECYCLED,
        SHM_COUNT_SLABS_COMMITTED,
        SHM_COUNT_STALE, /* handles refused */
        SHM_COUNT_FAILURES, /* allocations refused for want of memory */
        SHM_COUNT_FLUSHED_SLOTS,
        SHM_COUNT_REFILLED_SLOTS,
        SHM_COUNTERS_MAX = 32,
} ShmCounter;

#define SHM_RECORD_FENCES UINT64_C(1)

/* A thread's record, followed by its caches: n_epochs × n_classes ShmCache. */
typedef struct ShmRecord {
        /* The owner's line, but for `attention`, which the daemon writes. */
        uint64_t seq; /* odd inside an operation; never reset */
        uint64_t intent_what; /* written last, cleared first; see shm/format/intent.h */
        uint64_t intent_mask;
        uint64_t attention; /* freeze bit | version of the epoch table */
        uint64_t flags; /* SHM_RECORD_FENCES: the owner fences for itself */
        uint64_t guard; /* handle of an object that the owner is about to write into; see shm_actor_guard() */
        uint64_t n_notes; /* notes at or above it were never used; only rises */
        uint64_t unused;
        uint64_t counters[SHM_COUNTERS_MAX]; /* over all owners, written by the owner alone */
        uint64_t base_counters[SHM_COUNTERS_MAX]; /* as they were when the owner came */
        uint64_t used[SHM_CACHES_MAX / 64]; /* caches that were ever used: others are not to be read */
        ShmNote notes[SHM_NOTES_MAX];
} ShmRecord;
static_assert(sizeof(ShmRecord) == 64 + 2 * 256 + 128 + 2048, "arena format");
