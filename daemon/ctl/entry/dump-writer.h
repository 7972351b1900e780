#pragma once

/*
 * Writes the file of a dump. It appears as a whole, with dump_finish(), and only its owner can read it. While the
 * caller fills a block, a thread writes the one before it. All functions complain about their failures.
 */

#include <pthread.h>

#include "daemon/ctl/base/complain.h"
#include "daemon/ctl/entry/dump-format.h"

typedef struct DumpWriter {
        const char *path;
        char *temporary; /* the name of the file, where it has one before it is whole */
        int fd;
        DumpBuffer now;
        uint64_t number, n_records; /* blocks and records that were added */
        pthread_t thread;
        bool is_writing; /* the members below are the thread's then, and so is fd */
        DumpBuffer behind; /* the block that is written */
        int error; /* the last write's, or 0 */
        uint64_t n_bytes; /* that were written */
        uint64_t n_begun; /* that the disk was told to begin with */
} DumpWriter;

#define DUMP_WRITER_INIT                                                                                     \
        { .fd = -1 }

CtlExit dump_create(DumpWriter *writer, const char *path);
/* Room for a key of any size, and for most values: for tslab_map_next(), before dump_add_here(). */
CtlExit dump_room(DumpWriter *writer, void **ret, size_t *ret_size);
/* The key and the value are in that room. */
void dump_add_here(DumpWriter *writer, const DumpRecord *record);
CtlExit dump_add(DumpWriter *writer, const DumpRecord *record, const void *key, const void *value);
/* Afterwards n_bytes is the size of the file. */
CtlExit dump_finish(DumpWriter *writer);

/* Removes the file, unless it was finished. */
void dump_writer_deinit(DumpWriter *writer);
