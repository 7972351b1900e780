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

#include "shm/arch/atomic.h"

#define SHM_MAGIC UINT64_C(0x6e726162616c7374) /* "tslabarn" */
#define SHM_FORMAT_VERSION 2

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
#define SHM_CACHES_MAX (SHM_EPOCHS_MAX * SHM_CLASSES_MAX)
#define SHM_POOL_NAME_SIZE 40

/*
 * One epoch. `word` is what counts, see shm/format/epoch-word.h. Label, times and sums are for people and may be torn.
 */
typedef struct ShmEpoch {
        uint64_t word;
        uint64_t opened_usec; /* realtime */
        uint64_t closed_usec;
        uint64_t reclaimed_size; /* bytes given back, over all eras of this id */
        uint64_t era_reclaimed_size; /* the same of the last era */
        uint32_t floor_era; /* no slab is of an era before it, and no thread may add one */
        uint32_t owner_client; /* leased epochs: client index + 1 */
        uint8_t label[SHM_LABEL_SIZE];
        uint64_t
                revoke_older; /* eras before the newest whose objects are to be freed: to 32 | from 32; 0: none */
        uint32_t revoke_from; /* with SHM_EPOCH_REVOKE in the word: from this era to the newest */
        uint8_t unused[36];
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

/* High-water marks, for people: written by the daemon, which counts now and then. */
typedef struct ShmHighWater {
        uint64_t since_usec; /* realtime; 0: none so far */
        uint64_t n_looks;
        uint64_t committed_slabs;
        uint64_t used_slabs; /* committed and not FREE */
        uint64_t retained_slabs; /* FREE */
        uint64_t swing_slabs; /* by which used_slabs rose after it had fallen */
        uint64_t fallen_slabs; /* the least used_slabs since their peak */
        uint64_t clients;
        uint64_t threads;
        uint64_t class_slabs[SHM_CLASSES_MAX];
        uint64_t class_objects[SHM_CLASSES_MAX]; /* with those in caches */
} ShmHighWater;
static_assert(sizeof(ShmHighWater) == 41 * 8, "arena format");

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
        ShmLine64
                commit_allowance; /* slabs that clients may still commit by themselves; INT64_MAX: no limit known */
        ShmLine64 n_drained; /* slabs that drained since the daemon last looked */
        ShmLine64 n_records_ever; /* records below it have been used at some time; only rises */
        ShmLine64 epoch_current;
        ShmLine64 control_owner; /* private pools: who holds the try-lock of the control work */
        ShmLine64 attention; /* version of the epoch table, in its place in ShmRecord.attention */
        ShmLine64 caches_wanted; /* raised by who is out of memory: control is to empty all caches */
        ShmLine64 caches_given; /* what caches_wanted was when control last did */
        ShmLine64 n_unrecorded; /* threads that found no record and share their process's spare one */
        ShmLine64 counters[2]; /* of the daemon and of this arena as a whole, see ShmTotal */
        ShmHighWater high_water;
        uint8_t unused_peaks[56];

        ShmEpoch epochs[SHM_EPOCHS_MAX];
        ShmRoot roots[SHM_ROOTS_MAX];
} ShmHeader;
static_assert(sizeof(ShmHeader) == 256 + 20 * 64 + 64 * 128 + 64 * 64, "arena format");

typedef enum ShmTotal {
        SHM_TOTAL_RECLAIMED, /* slabs given back to the system */
} ShmTotal;

/* A slab's state, apart from the slab. */
typedef struct ShmSlabLine {
        ShmPair word; /* see shm/format/slab-word.h */
        uint64_t unused[6];
} ShmSlabLine;
static_assert(sizeof(ShmSlabLine) == 64, "arena format");

/* A slab's slot tags: odd = live. */
typedef struct ShmTags {
        uint32_t tag[SHM_SLOTS_MAX];
} ShmTags;
static_assert(sizeof(ShmTags) == 256, "arena format");
