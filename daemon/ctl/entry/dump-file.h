#pragma once

/*
 * The file of a dump: maps, each followed by its entries, in blocks with checksums. Numbers are in the byte order of
 * x86-64 and AArch64, little-endian. Section DUMPS of tslabctl(1) describes it.
 *
 * A file is a row of blocks, and a block a DumpBlock and `size` bytes of records. A record is a DumpRecord, its key,
 * and its value. The first record of a file is DUMP_BEGIN, the last DUMP_END; no record is in two blocks. A file whose
 * end is missing, or of which any bit has changed, is told from a whole one.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tslab_map.h>

#include "daemon/ctl/base/complain.h"

#define DUMP_MAGIC "tslabdmp"
#define DUMP_VERSION 2

typedef struct DumpBlock {
        char magic[8];
        uint32_t version, size;
        uint64_t number; /* 0, 1, … */
        uint64_t sum; /* the checksum of the block, with 0 here: see block_sum() */
} DumpBlock;

enum {
        DUMP_BEGIN = 1, /* the value: a uint64_t, milliseconds since 1970, by which lifetimes count */
        DUMP_MAP = 2, /* the key: its name; the value: a DumpMap */
        DUMP_VALUE = 3, /* an entry of the map before it */
        DUMP_COUNTER = 4, /* a counter of that map; the value is an int64_t */
        DUMP_END = 5, /* the value: a uint64_t, how many records come before it */
};

typedef struct DumpRecord {
        uint32_t kind, key_size;
        uint64_t value_size;
        uint64_t ttl_left_ms; /* UINT64_MAX: no end */
} DumpRecord;

typedef struct DumpMap {
        uint64_t limit_bytes, ttl_ms;
        uint32_t stale_ms, value_max, evict, unused; /* as in tslab_map_options */
} DumpMap;

typedef struct DumpBuffer {
        uint8_t *block; /* a DumpBlock, and `used` bytes of records */
        size_t room, used;
} DumpBuffer;

typedef struct DumpFile {
        const char *path;
        char *temporary; /* the name of the file that is written, where it has one before it is whole */
        int fd;
        DumpBuffer now;
        size_t at; /* where the next record begins that is read */
        DumpBuffer ahead; /* while `reads_ahead`, it belongs to the thread, as do fd, number and n_read */
        pthread_t reader;
        bool reads_ahead;
        CtlExit ahead_result;
        uint64_t number, n_records, n_bytes,
                n_read; /* n_bytes: all that were written, or were found to be there */
        uint64_t n_begun; /* bytes that the disk was given */
        bool has_ended, is_checked;
} DumpFile;

#define DUMP_FILE_INIT                                                                                       \
        { .fd = -1 }

/*
 * Writing. The file appears as a whole, with dump_finish(), and only its owner can read it. All functions complain
 * about their failures.
 */
CtlExit dump_create(DumpFile *file, const char *path);
/* Room for a key of any size, and for most values: for tslab_map_next(), before dump_add_here(). */
CtlExit dump_room(DumpFile *file, void **ret, size_t *ret_size);
/* The key and the value are in that room. */
void dump_add_here(DumpFile *file, const DumpRecord *record);
CtlExit dump_add(DumpFile *file, const DumpRecord *record, const void *key, const void *value);
CtlExit dump_finish(DumpFile *file);

/* Reading. */
CtlExit dump_open(DumpFile *file, const char *path);
/* Reads all of it, and complains unless it is whole; then begins anew. */
CtlExit dump_check(DumpFile *file);
/* Begins anew. */
void dump_rewind(DumpFile *file);
/* *ret_value NULL: that was the last one. Key and value stay until the next call. */
CtlExit dump_next(DumpFile *file, DumpRecord *ret, const void **ret_key, const void **ret_value);

/* Removes the file, unless it was finished. */
void dump_deinit(DumpFile *file);
