#pragma once

/* Maps into a file, and back, beside programs that use them. */

#include "daemon/ctl/entry/dump-file.h"
#include "daemon/ctl/entry/entry.h"

typedef struct DumpCounts {
        uint64_t maps, entries;
        uint64_t buckets; /* buckets of tslab_map_limit(), which are left out */
        uint64_t tagged; /* entries with tags, which are left out: without tags none can be invalidated */
        uint64_t damaged; /* entries whose values a stray write has damaged, which are left out */
        uint64_t present; /* keys that had a value, which stays */
        uint64_t expired; /* since the dump */
        uint64_t refused; /* entries for which there was no memory or room */
} DumpCounts;

/* Adds the map that is open in `entries`, with all entries that are there from the first to the last. */
CtlExit dump_map(DumpFile *file, Entries *entries, const DumpMap *options, DumpCounts *counts);

/* Puts entries of a file that was checked into the maps of these names, or into all; makes maps that are absent. */
CtlExit dump_load(DumpFile *file, Entries *entries, char **names, size_t n_names, DumpCounts *counts);
