#pragma once

/* Reads the blocks of a dump's file, one after the other. */

#include "daemon/ctl/base/complain.h"
#include "daemon/ctl/entry/dump-format.h"

typedef struct DumpReader {
        const char *path;
        int fd;
        uint64_t size; /* the file's, as it was opened */
        uint64_t number, n_bytes; /* blocks and bytes that were read */
} DumpReader;

#define DUMP_READER_INIT                                                                                     \
        { .fd = -1 }

/* Complains about its failures. */
CtlExit dump_open(DumpReader *reader, const char *path);
/* The text that ends "FILE …" if it fails; NULL: a block, whose sum the caller checks, or the end: *ret_end. */
const char *dump_read_block(DumpReader *reader, DumpBuffer *buffer, bool *ret_end);
/* Whether the block is as it was written. */
bool dump_sum_is_right(const DumpBuffer *buffer);
void dump_rewind(DumpReader *reader);
void dump_reader_deinit(DumpReader *reader);
