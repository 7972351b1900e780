#pragma once
/*
 * Arena format
 *
 * Everything here is shared with other processes and with other versions of this program: fixed
 * width, no pointers, a size assert for every struct. Offsets are from the start of the arena.
 * A change of anything below changes SHM_FORMAT_VERSION.
 *
 *     header | client table | record heads | records | slab sets | slab words | slot tags | slabs
 *
 * All but the slabs is metadata. Pages of it come into being when first touched: the tables are
 * sized for the largest case and are mostly holes.
 */
#include <assert.h>
#include <stdint.h>

#include "shm/atomic.h"

#define SHM_MAGIC UINT64_C(0x6e726162616c7374) /* "tslabarn" */
#define SHM_FORMAT_VERSION 1

#define SHM_SLAB_SIZE 4096
#define SHM_SLOTS_MAX 64
#define SHM_CLASSES_MAX 16
#define SHM_CLASS_SIZE_MIN 64
#define SHM_CLASS_SIZE_MAX 4096
#define SHM_CLASS_GRANULE 16
#define SHM_EPOCHS_MAX 64
#define SHM_RECORDS_MAX 4096 /* with record 0, which is the daemon's */
#define SHM_SLABS_MAX (UINT32_C(1) << 24)
#define SHM_ROOTS_MAX 64
#define SHM_ROOT_NAME_SIZE 48
#define SHM_LABEL_SIZE 32
#define SHM_NOTES_MAX 64
#define SHM_CACHE_MAX 256
#define SHM_POOL_NAME_SIZE 40

/*
 * One epoch. `word` is what counts:
 *     state 8 | flags 8 | era 24 | version 24
 * see shm/epoch.h. Label, times and sums are for people and may be torn.
 */
typedef struct ShmEpoch {
        uint64_t word;
        uint64_t opened_usec; /* realtime */
        uint64_t closed_usec;
        uint64_t reclaimed_size; /* bytes given back, over all eras of this id */
        uint64_t era_reclaimed_size; /* the same of the last era */
        uint32_t refs;
        uint32_t owner_client; /* leased epochs: client index + 1 */
        uint8_t label[SHM_LABEL_SIZE];
        uint8_t unused[48];
} ShmEpoch;
static_assert(sizeof(ShmEpoch) == 128, "arena format");

/* A named root: `hash` is set once, by one compare-and-set, and decides the name for good. */
typedef struct ShmRoot {
        uint64_t hash;
        uint64_t handle;
        uint8_t name[SHM_ROOT_NAME_SIZE]; /* for people; written after the hash */
} ShmRoot;
static_assert(sizeof(ShmRoot) == 64, "arena format");

/* A word that many threads write has a cache line of its own. */
typedef struct ShmLine64 {
        uint64_t value;
        uint8_t unused[56];
} ShmLine64;
static_assert(sizeof(ShmLine64) == 64, "arena format");

typedef struct ShmHeader {
        /* Written once, before anyone else maps the arena. */
        uint64_t magic;
        uint32_t format_version;
        uint32_t header_size;
        uint64_t format_hash; /* of the struct sizes: catches a build that differs without saying so */
        uint64_t arena_id[2];
        uint8_t pool_key[16];
        uint64_t total_size;
        uint64_t slabs_size;
        uint32_t n_slabs;
        uint32_t n_records;
        uint32_t n_epochs;
        uint32_t n_classes;
        uint32_t class_size[SHM_CLASSES_MAX];
        uint64_t created_usec;
        uint8_t pool_name[SHM_POOL_NAME_SIZE];
        uint8_t unused[56];

        /* One line each. */
        ShmLine64 n_slabs_ever; /* slabs below it have been committed at some time; only rises */
        ShmLine64 n_free; /* FREE slabs: a hint, recounted by the daemon */
        ShmLine64 reserve_low; /* the daemon is poked when n_free falls through it; 0 = never */
        ShmLine64 commit_allowance; /* slabs that clients may still commit by themselves */
        ShmLine64 n_drained; /* slabs that drained since the daemon last looked */
        ShmLine64 n_records_ever; /* records below it have been used at some time; only rises */
        ShmLine64 epoch_current;
        ShmLine64 control_owner; /* private pools: who holds the try-lock of the control work */
        ShmLine64 n_unrecorded; /* threads that found no record and share their process's spare one */
        ShmLine64 counters[8]; /* of the daemon and of this arena as a whole, see ShmTotal */

        ShmEpoch epochs[SHM_EPOCHS_MAX];
        ShmRoot roots[SHM_ROOTS_MAX];
} ShmHeader;
static_assert(sizeof(ShmHeader) == 256 + 17 * 64 + 64 * 128 + 64 * 64, "arena format");

typedef enum ShmTotal {
        SHM_TOTAL_RECLAIMED, /* slabs given back to the system */
        SHM_TOTAL_RECYCLED, /* slabs that emptied and were FREE again */
        SHM_TOTAL_COMMITTED, /* slabs committed */
} ShmTotal;

/*
 * A process. `word` holds its whole identity, so one compare-and-set takes an entry:
 *     state 8 | pid 24 | start time 32 (clock ticks since boot, its low half)
 */
typedef struct ShmClient {
        uint64_t word;
        uint32_t uid;
        uint32_t gid;
        uint64_t attached_usec;
        uint8_t comm[16];
        uint8_t unused[24];
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
 * holds it.
 */
typedef struct ShmNote {
        uint64_t handle;
        uint64_t root;
        uint64_t hash;
        uint64_t unused;
} ShmNote;
static_assert(sizeof(ShmNote) == 32, "arena format");

/* Slots of one (epoch, class) that a thread holds: even tags, bitmap bits set. */
typedef struct ShmCache {
        uint32_t count;
        uint32_t capacity;
        uint32_t held; /* slab index + 1 of the slab this thread holds for it */
        uint32_t era;
        uint32_t adapt[8];
        uint32_t unused[4];
        uint32_t slots[SHM_CACHE_MAX];
} ShmCache;
static_assert(sizeof(ShmCache) == 64 + 4 * SHM_CACHE_MAX, "arena format");

typedef enum ShmCounter {
        SHM_COUNT_ALLOCS,
        SHM_COUNT_FREES,
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

/* A thread's record, followed by its caches: n_epochs × n_classes ShmCache. */
typedef struct ShmRecord {
        /* The owner's line, but for `attention`, which the daemon writes. */
        uint64_t seq; /* odd inside an operation; never reset */
        uint64_t intent_what; /* written last, cleared first; see shm/intent.h */
        uint64_t intent_mask;
        uint64_t attention; /* freeze bit | version of the epoch table */
        uint64_t flags; /* SHM_RECORD_FENCES: the owner fences for itself */
        uint64_t n_notes; /* notes below it may be in use */
        uint64_t unused[2];
        uint64_t counters[SHM_COUNTERS_MAX]; /* over all owners, written by the owner alone */
        uint64_t base_counters[SHM_COUNTERS_MAX]; /* as they were when the owner came */
        ShmNote notes[SHM_NOTES_MAX];
} ShmRecord;
static_assert(sizeof(ShmRecord) == 64 + 2 * 256 + 2048, "arena format");

/* A slab's state, apart from the slab. */
typedef struct ShmSlabLine {
        ShmPair word; /* see shm/slab-word.h */
        uint64_t unused[6];
} ShmSlabLine;
static_assert(sizeof(ShmSlabLine) == 64, "arena format");

/* A slab's slot tags: odd = live. */
typedef struct ShmTags {
        uint32_t tag[SHM_SLOTS_MAX];
} ShmTags;
static_assert(sizeof(ShmTags) == 256, "arena format");
