#pragma once
/*
 * Arena format
 *
 * Other processes and other versions of this program share everything here: members have fixed width and are
 * no pointers, and every struct has an assert of its size. Offsets are from the start of the arena.
 * A change of anything below changes SHM_FORMAT_VERSION.
 *
 *     header | client table | record heads | records | marks, slab sets | slab words | slot tags | shortcuts | slabs
 *
 * All but the slabs is metadata. The kernel allocates a page of it when it is first touched: the tables are
 * sized for the largest case and are mostly holes.
 */
#include <assert.h>
#include <stdint.h>

#include "shm/arch/atomic.h"
#include "shm/format/layout-map.h"

#define SHM_MAGIC UINT64_C(0x6e726162616c7374) /* "tslabarn" */
#define SHM_FORMAT_VERSION 7

#define SHM_SLAB_SIZE 4096
#define SHM_HUGE_SIZE (UINT64_C(2) << 20) /* bytes of a huge page: see shm/keeper/huge.h */
#define SHM_SLOTS_MAX 64
#define SHM_CHANGED_SLABS 256U /* slabs that have a mark together: see shm/slab/changed.h */
#define SHM_CLASSES_MAX 32
#define SHM_CLASS_SIZE_MIN 64
#define SHM_CLASS_SIZE_MAX 4096
#define SHM_CLASS_GRANULE 16
#define SHM_EPOCHS_MAX 64
#define SHM_RECORDS_MAX 4096 /* with record 0, which is the daemon's */
#define SHM_SLABS_MAX (UINT32_C(1) << 24)
#define SHM_ROOTS_MAX 255 /* with a map of each, all fit one message, and a byte has the index + 1 */
#define SHM_ROOT_NAME_SIZE 48
#define SHM_LABEL_SIZE 32
#define SHM_NOTES_MAX 64
#define SHM_CACHE_MAX 256
#define SHM_CACHES_MAX (SHM_EPOCHS_MAX * SHM_CLASSES_MAX)
#define SHM_CACHE_GROUP 8 /* classes whose caches stand together, see shm/format/layout-record.h */
#define SHM_POOL_NAME_SIZE 40

/*
 * One epoch. Its state is `word`, see shm/format/epoch-word.h. Label, times and sums are for people to read and
 * may be torn.
 */
typedef struct ShmEpoch {
        uint64_t word;
        uint64_t opened_usec; /* realtime */
        uint64_t closed_usec;
        uint64_t reclaimed_size; /* bytes dropped, over all eras of this id */
        uint64_t era_reclaimed_size; /* bytes dropped of the last era */
        uint32_t floor_era; /* no slab is of an earlier era, and no thread can add one */
        uint32_t owner_client; /* leased epochs: client index + 1 */
        uint8_t label[SHM_LABEL_SIZE];
        uint64_t revoke_older; /* a range of earlier eras to be revoked: to 32 | from 32; 0: none */
        uint32_t revoke_from; /* with SHM_EPOCH_REVOKE in the word: from this era to the newest */
        uint8_t unused[36];
} ShmEpoch;
static_assert(sizeof(ShmEpoch) == 128, "arena format");

/* A named root: see shm/arena/root.c. */
typedef struct ShmRoot {
        union {
                ShmPair word;
                struct {
                        uint64_t hash; /* the name's, with flags: see shm/arena/root.c; 0: never used */
                        uint64_t handle; /* 0: the entry is free */
                };
        };
        uint8_t name[SHM_ROOT_NAME_SIZE]; /* for people */
} ShmRoot;
static_assert(sizeof(ShmRoot) == 64, "arena format");

/* A word that many threads write has a cache line of its own. */
typedef struct ShmLine64 {
        uint64_t value;
        uint8_t unused[56];
} ShmLine64;
static_assert(sizeof(ShmLine64) == 64, "arena format");

/* High-water marks, for people to read: the daemon counts at intervals and raises them. */
typedef struct ShmHighWater {
        uint64_t since_usec; /* realtime; 0: nothing was counted so far */
        uint64_t n_looks; /* times that the daemon counted */
        uint64_t committed_slabs;
        uint64_t used_slabs; /* committed and not FREE */
        uint64_t retained_slabs; /* FREE */
        uint64_t swing_slabs; /* the largest rise of slabs in use after a fall: see high_water_raise_used() */
        uint64_t fallen_slabs; /* the fewest slabs in use since their peak */
        uint64_t clients;
        uint64_t threads;
        uint64_t class_slabs[SHM_CLASSES_MAX];
        uint64_t class_objects[SHM_CLASSES_MAX]; /* live objects and slots in caches */
} ShmHighWater;
static_assert(sizeof(ShmHighWater) == 73 * 8, "arena format");

typedef struct ShmHeader {
        /*
         * Written once, by the process that makes the arena, before another process maps it. Up to arena_id all
         * formats are alike, so that a daemon of another format recognizes the memory of the last daemon.
         */
        uint64_t magic;
        uint32_t format_version;
        uint32_t header_size;
        uint64_t format_hash; /* hash of struct sizes, SHM_ENTRY_FORMAT and more: see format_hash() */
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
        uint32_t n_shortcut_pages; /* in use, see shm/map/entry/shortcut.c */
        uint32_t n_shortcut_pages_made; /* no page from this one on has memory */
        uint8_t unused[48];

        /* Each has a cache line of its own. */
        ShmLine64 n_slabs_ever; /* slabs below this index were committed at some time; only rises */
        ShmLine64 n_free; /* FREE slabs: a hint, which the daemon recounts */
        ShmLine64 reserve_low; /* a client wakes the daemon when n_free falls below it; 0: never */
        ShmLine64 commit_allowance; /* slabs that clients may commit; SHM_ALLOWANCE_MAX: no limit known */
        ShmLine64 n_drained; /* slabs that drained since the daemon last looked */
        ShmLine64 n_records_ever; /* records below this index were used at some time; only rises */
        ShmLine64 epoch_current;
        ShmLine64 control_owner; /* private pools: see shm/owner/owner.h */
        ShmLine64 attention; /* version of the epoch table, shifted as in ShmRecord.attention */
        ShmLine64 caches_wanted; /* a client out of memory raises it: the maintainer is to empty all caches */
        ShmLine64 caches_given; /* the value of caches_wanted for which the maintainer last did so */
        ShmLine64 n_unrecorded; /* threads that found no record and share the spare one of their process */
        ShmLine64 counters[2]; /* sums over the arena, see ShmTotal */
        ShmExpiry expiry;
        ShmHighWater high_water;
        uint64_t
                n_miscounts; /* sum of `miscounts` of all maps: while it is 0 nobody looks at `maps` for them */
        ShmMapSet evicting; /* maps that evict; a hint, see shm/map/evict/evict-from.c */
        uint32_t polled; /* futex word of threads that wait for any claim: see shm/map/state/wait.c */
        uint8_t unused_peaks[12];
        ShmMapSweeps sweeps; /* private pools: the owner of control work goes on with them */
        ShmEpoch epochs[SHM_EPOCHS_MAX];
        ShmRoot roots[SHM_ROOTS_MAX];
        ShmMapState maps[SHM_ROOTS_MAX]; /* state of the map that the root with this index names */
} ShmHeader;
static_assert(sizeof(ShmHeader) == 320 + 24 * 64 + sizeof(ShmExpiry) + sizeof(ShmMapSweeps) + 64 * 128 +
                                           SHM_ROOTS_MAX * (64 + 1216),
              "arena format");

typedef enum ShmTotal {
        SHM_TOTAL_RECLAIMED, /* slabs whose pages were dropped */
        SHM_TOTAL_SPLIT, /* huge pages of which some pages were dropped, and not all: see ShmSplits */
} ShmTotal;

/* A slab's state, outside of the slab. */
typedef struct ShmSlabLine {
        ShmPair word; /* see shm/format/slab-word.h */
        uint64_t expires_first; /* no entry in this slab expires before; see ShmExpiry.first */
        uint32_t tag_floor; /* where versions go on while the tags may have no page; see shm/slab/tags.c */
        uint32_t unused;
        /* Entries of maps that evict, see shm/map/evict/evict.c. A bit for each slot: */
        uint64_t visited; /* used since the hand passed */
        uint64_t young[2]; /* put in a sweep with this low bit, and not passed since */
        uint64_t maps; /* the bits of maps that have, or had, entries in this slab: shm_set_line_bit() */
} ShmSlabLine;
static_assert(sizeof(ShmSlabLine) == 64, "arena format");

/* A slab's slot tags: odd = live. While the slab is UNCOMMITTED they may have no page, and count for nothing. */
typedef struct ShmTags {
        uint32_t tag[SHM_SLOTS_MAX];
} ShmTags;
static_assert(sizeof(ShmTags) == 256, "arena format");

/* A slab's share of the table of shortcuts: enough for its entries, if they are small. See shm/map/entry/shortcut.c. */
typedef struct ShmShortcuts {
        uint64_t words[32];
} ShmShortcuts;
static_assert(sizeof(ShmShortcuts) == 256, "arena format");

#define SHM_ALLOWANCE_MAX (INT64_MAX / 2) /* clients that draw some of it, and return that, may add to it */
#define SHM_SLAB_COST (SHM_SLAB_SIZE + sizeof(ShmSlabLine) + sizeof(ShmTags)) /* bytes, with its metadata */
