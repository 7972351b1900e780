#pragma once

/* One map into a dump's file, beside programs that use it. */

#include "daemon/ctl/entry/dump-writer.h"
#include "daemon/ctl/entry/entry.h"

typedef struct DumpCounts {
        uint64_t maps, entries;
        uint64_t buckets; /* buckets of tslab_map_limit(), which are left out */
        uint64_t tagged; /* entries with tags, which are left out: without tags none can be invalidated */
        uint64_t damaged; /* entries whose values a stray write has damaged, which are left out */
} DumpCounts;

/* Adds the map that is open in `entries`, with all entries that are there from the first to the last. */
CtlExit dump_map(DumpWriter *writer, Entries *entries, const DumpMap *options, DumpCounts *counts);
