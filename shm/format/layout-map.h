#pragma once
/*
 * Arena format: the data on each map, apart from its entries. It is part of the format in shm/format/layout.h: the same
 * rules and the same version apply.
 */
#include <assert.h>
#include <stdint.h>

/* To be changed whenever the content of entries gets another meaning. 5: entries with tags. */
#define SHM_ENTRY_FORMAT 5

#define SHM_MAP_WAITS 16
#define SHM_MAP_HANDS 32 /* SHM_CLASSES_MAX */

typedef enum ShmMapEvict {
        SHM_MAP_EVICT_NEVER,
        SHM_MAP_EVICT_SIEVE,
} ShmMapEvict;

/*
 * It is in the root object of the map, so that a map and its options come into being at once. There are two sets; the
 * root says which one counts: see shm/map/state/options.h.
 */
typedef struct ShmMapOptionSets {
        uint64_t limit_bytes[2];
        uint32_t ttl[2]; /* milliseconds, or, with the highest bit, seconds */
        uint32_t stale_ms[2];
        uint32_t value[2]; /* 30 bits: the largest; above: ShmMapEvict */
} ShmMapOptionSets;
static_assert(sizeof(ShmMapOptionSets) == 40, "arena format");

#define SHM_MAP_TTL_MAX_MS UINT64_C(315576000000) /* ten years: what a lifetime may be */

/* A bit for each named root, of those that name maps. */
typedef struct ShmMapSet {
        uint64_t bits[4];
} ShmMapSet;
static_assert(sizeof(ShmMapSet) == 32, "arena format");

/* Entries that expire. Times are milliseconds of the pool's clock (shm/clock/pool-clock.h); 0: never, or none. */
typedef struct ShmExpiry {
        uint64_t first; /* no entry expires before; it may be too early, and during a pass too late */
        uint64_t
                help; /* the slab that the next thread looks at that helps while the maintainer stands still */
        uint64_t unused[6];
        uint64_t look_again; /* options were changed: the next pass looks at all entries with an end */
        uint64_t hand; /* the next slab of the pass under way; 0: none is */
        uint64_t begun; /* when this pass, or the last one, began */
        uint64_t looking_again; /* in this pass */
        ShmMapSet squeeze; /* maps that are full: the next pass deletes their stale values, too */
        ShmMapSet squeezing; /* in this pass */
        ShmMapSet squeezed; /* by the last pass that squeezed any, */
        uint64_t squeezed_ms; /* and when it began */
        uint64_t invalidated; /* a tag is no more: a pass that looks at all entries with an end is to come */
        uint64_t unused_more[6];
} ShmExpiry;
static_assert(sizeof(ShmExpiry) == 256, "arena format");

/* Writers count these. Entries are the inserts, less the sum of the next three. */
typedef enum ShmMapCount {
        SHM_MAP_INSERTS, /* entries that came, not those in place of another */
        SHM_MAP_DELETES, /* also of entries that were revoked */
        SHM_MAP_EXPIRATIONS,
        SHM_MAP_EVICTIONS,
        SHM_MAP_FAILURES, /* changes that failed for want of memory or room */
        SHM_MAP_BYTES, /* the size that entries take: their slots' */
        SHM_MAP_MISCOUNTED, /* to be added to entries: after a death in a change */
        _SHM_MAP_COUNT_N,
} ShmMapCount;

/* Eviction among entries of one class, see shm/map/evict/evict.c. All but the place are hints. */
typedef struct ShmMapHand {
        uint64_t place; /* the sweep and the slot that is next */
        uint32_t evicted; /* by this hand, in this sweep */
        uint32_t passed; /* entries met by this sweep, if it is a full one */
        uint32_t entries; /* met by the last full sweep */
        uint32_t put; /* entries that came in this sweep */
        uint32_t unused[2];
} ShmMapHand;
static_assert(sizeof(ShmMapHand) == 32, "arena format");

/* The two low bits of `roughly`: a total was corrected beside changes, and may be off by some of them. */
#define SHM_MAP_ROUGH_BYTES UINT64_C(1)
#define SHM_MAP_ROUGH_ENTRIES UINT64_C(2)

/* Zeros: nothing is known. */
typedef struct ShmMapState {
        /* Rises when a thread dies in a change of the map, or a map is made anew: its entries are to be counted. */
        uint64_t miscounts;
        uint64_t counted; /* the value of `miscounts` when the maintainer last began to count */
        uint64_t classes; /* a bit for each class that entries are, or were, in */
        uint64_t full_ms; /* until then the pool is taken to be full: on the pool's clock, in milliseconds */
        uint64_t unused[4];
        uint32_t waits[SHM_MAP_WAITS]; /* futex words, by hash of the key */
        ShmMapHand hands[SHM_MAP_HANDS]; /* by class */
        uint64_t counts[7]; /* ShmMapCount: sums modulo 2^64, but for the tallies of threads */
        /* SHM_MAP_ROUGH_*, and since when the map did not change: see tally.c. 0: the totals are exact. */
        uint64_t roughly;
} ShmMapState;
static_assert(sizeof(ShmMapState) == 64 + 64 + 1024 + 64 && _SHM_MAP_COUNT_N <= 7, "arena format");

/* In the record of a thread: its gets of one map. */
typedef struct ShmMapGets {
        uint64_t hits, misses;
} ShmMapGets;
static_assert(sizeof(ShmMapGets) == 16, "arena format");

/*
 * In the record of a thread: changes that are not yet added to the map's state. They are of one map at a time, and stay
 * when the record gets another owner.
 */
typedef struct ShmMapTally {
        uint64_t counts[7]; /* ShmMapCount */
        uint64_t map; /* index + 1; 0: none */
} ShmMapTally;
static_assert(sizeof(ShmMapTally) == 64 && _SHM_MAP_COUNT_N <= 7, "arena format");

/* Where a scan is: leaves from this hash on, and from this position among leaves of that hash, are still to come. */
typedef struct ShmTrieScan {
        uint64_t hash;
        uint32_t position;
        uint32_t done;
        uint64_t n_words; /* passed over since it began */
        uint64_t pause; /* the n_words at which it pauses; 0: nowhere */
} ShmTrieScan;
static_assert(sizeof(ShmTrieScan) == 32, "arena format");

/* Counting a map anew, by a walk while writers go on. */
typedef struct ShmMapCensus {
        uint64_t asked; /* `miscounts` when it began */
        uint64_t entries_before, bytes_before; /* the totals, but for what the walk itself takes out */
        uint64_t
                changes_before; /* entries that ever came or went, and those that the walk itself takes out */
        uint64_t entries, bytes; /* met by the walk */
} ShmMapCensus;
static_assert(sizeof(ShmMapCensus) == 48, "arena format");

/* A walk over maps that takes stale entries out, see shm/map/entry/map-sweep.h. Zeros: it has not begun. */
typedef struct ShmMapSweep {
        uint32_t root; /* the named root that is looked at next */
        uint8_t opened; /* it names a map, which is swept: */
        uint8_t miscounted_only; /* not all maps: those in a change of which a thread died */
        uint8_t done;
        uint8_t unused;
        ShmTrieScan scan;
        ShmMapCensus census;
} ShmMapSweep;
static_assert(sizeof(ShmMapSweep) == 88, "arena format");

/* One such walk after another. */
typedef struct ShmMapSweeps {
        uint64_t asked; /* rises when all maps are to be swept */
        uint64_t begun; /* `asked` when the last walk began */
        uint64_t ended; /* `begun` of the last one that ended; another is wanted if `asked` is more */
        uint64_t moved_usec; /* private pools: when a process last did a part of one, on the wall clock */
        ShmMapSweep sweep;
        uint32_t counting; /* shm_map_miscounts() when the last walk began */
        uint32_t counted; /* `counting` of the last one that ended; another is wanted if it rose since */
} ShmMapSweeps;
static_assert(sizeof(ShmMapSweeps) == 128, "arena format");
