#pragma once

/*
 * A dump's file into the maps of a pool. The file is read twice: load_check() looks at all of it before load_run()
 * puts the first entry. Threads do the work, a block each at a time; the file's maps begin in any of them.
 */

#include "daemon/ctl/entry/dump-reader.h"
#include "daemon/ctl/entry/entry.h"

typedef struct LoadCounts {
        uint64_t maps, entries;
        uint64_t present; /* keys that had a value, which stays */
        uint64_t expired; /* since the dump */
        uint64_t refused; /* entries for which there was no memory or room */
} LoadCounts;

typedef struct Load {
        DumpReader reader;
        char **names; /* the maps that are wanted; none: all */
        size_t n_names;
        uint64_t sums; /* the checked blocks' sums, added up */
} Load;

#define LOAD_INIT                                                                                            \
        { .reader = DUMP_READER_INIT }

/* All functions complain about their failures. The names stay the caller's. */
CtlExit load_open(Load *load, const char *path, char **names, size_t n_names);
/* Unless the file is whole, and has all maps that are wanted. */
CtlExit load_check(Load *load);
/* Puts the entries of a file that was checked; makes maps that are absent. */
CtlExit load_run(Load *load, Entries *entries, LoadCounts *ret);
void load_deinit(Load *load);
