#pragma once

/*
 * The file of a dump: maps, each followed by its entries, in blocks with checksums. Numbers are in the byte order of
 * x86-64 and AArch64, little-endian. Section DUMPS of tslabctl(1) describes it.
 *
 * A file is a row of blocks, and a block a DumpBlock and `size` bytes of records. A record is a DumpRecord, its key,
 * and its value. The first record of a file is DUMP_BEGIN, the last DUMP_END; no record is in two blocks. A file whose
 * end is missing, or of which any bit has changed, is told from a whole one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tslab_map.h>

#define DUMP_MAGIC "tslabdmp"
#define DUMP_VERSION 2

typedef struct DumpBlock {
        char magic[8];
        uint32_t version, size;
        uint64_t number; /* 0, 1, … */
        uint64_t sum; /* the checksum of the block, with 0 here: see dump_block_sum() */
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

/* A block in memory: a DumpBlock, and `used` bytes of records. */
typedef struct DumpBuffer {
        uint8_t *block;
        size_t room, used;
} DumpBuffer;

uint64_t dump_block_sum(const uint8_t *block, size_t size);
/* `room`: with the DumpBlock. */
void dump_buffer_grow(DumpBuffer *buffer, size_t room);
void dump_buffer_deinit(DumpBuffer *buffer);

/*
 * The record at *at among the records of the block, and steps on. False: there is none that is sound, as dump_add()
 * makes them; others come from damage, or from programs that make such files on purpose.
 */
bool dump_buffer_next(const DumpBuffer *buffer, size_t *at, DumpRecord *ret, const void **ret_key,
                      const void **ret_value);
