/* dump and load: maps into a file, and back. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/base/progress.h"
#include "daemon/ctl/entry/dump-load.h"
#include "daemon/ctl/entry/dump-map.h"
#include "daemon/ctl/output/json.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"
#include "proto/cleanup.h"

/* A number that the text has only if there are any: "; 3 keys had a value, which stays". */
typedef struct Count {
        const char *name;
        uint64_t n;
        const char *one, *many, *what;
} Count;

static void show_json(uint64_t maps, uint64_t entries, const Count *more, size_t n_more) {
        json_object *o = json_new_object();

        json_add_u64(o, "maps", maps);
        json_add_u64(o, "entries", entries);
        for (size_t i = 0; i < n_more; i++)
                json_add_u64(o, more[i].name, more[i].n);
        output_json(o);
}

/* `what` is done with entries; `size`: of a file that was written, or "". */
static void show_counts(const char *what, const char *size, uint64_t maps, uint64_t entries,
                        const Count *more, size_t n_more) {
        FILE *out = output_stream();

        if (arg_json) {
                show_json(maps, entries, more, n_more);
                return;
        }
        (void) fprintf(out, "%s %s of %s%s", what, format_count(FORMAT_BUFFER, entries, "entry", "entries"),
                       format_count(FORMAT_BUFFER, maps, "map", "maps"), size);
        for (size_t i = 0; i < n_more; i++)
                if (more[i].n && more[i].what)
                        (void) fprintf(out, "; %s %s",
                                       format_count(FORMAT_BUFFER, more[i].n, more[i].one, more[i].many),
                                       more[i].what);
        (void) fprintf(out, ".\n");
}

static const Tslab__MapInfo *find_map(const Tslab__StatsReply *stats, const char *name) {
        for (size_t i = 0; i < stats->n_maps; i++)
                if (strcmp(stats->maps[i]->map, name) == 0)
                        return stats->maps[i];
        return NULL;
}

static CtlExit dump_one(DumpWriter *writer, Entries *entries, const Tslab__MapInfo *info,
                        DumpCounts *counts) {
        const struct tslab_map_options existing = { .size = sizeof(existing), .flags = TSLAB_MAP_EXISTING };
        const DumpMap options = { .limit_bytes = info->limit_bytes,
                                  .ttl_ms = info->ttl_msec,
                                  .stale_ms = info->stale_msec,
                                  .value_max = info->value_max_bytes,
                                  .evict = info->evict };
        CtlExit r = entries_open_map(entries, info->map, &existing);

        r = r ?: dump_map(writer, entries, &options, counts);
        entries_close_map(entries);
        return r;
}

static void show_dump(const DumpWriter *writer, const DumpCounts *counts) {
        const Count more[] = {
                { "bytes", writer->n_bytes, "", "", NULL },
                { "buckets_left_out", counts->buckets, "bucket", "buckets", "of rate limits left out" },
                { "tagged_left_out", counts->tagged, "entry", "entries", "with tags left out" },
                { "damaged", counts->damaged, "damaged entry", "damaged entries", "left out" },
        };
        char size[40];

        (void) snprintf(size, sizeof(size), ", %s", format_bytes(FORMAT_BUFFER, writer->n_bytes));
        show_counts("Wrote", size, counts->maps, counts->entries, more, sizeof(more) / sizeof(more[0]));
}

CtlExit verb_dump(char **args, size_t n_args) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        _cleanup_(entries_deinit) Entries entries = ENTRIES_INIT;
        _cleanup_(dump_writer_deinit) DumpWriter writer = DUMP_WRITER_INIT;
        const Tslab__StatsReply *stats;
        DumpCounts counts = {};
        CtlExit r;

        r = ask_stats(&connection, &reply);
        if (r)
                return r;
        stats = reply->stats;
        for (size_t i = 1; i < n_args; i++)
                if (!find_map(stats, args[i]))
                        return complain("there is no map '%s' in this pool", args[i]);
        r = entries_open_pool(&entries, false);
        if (r)
                return r;
        progress_begin("writing", "no file was written");
        r = dump_create(&writer, args[0]);
        for (size_t i = 0; r == CTL_DONE && i < (n_args > 1 ? n_args - 1 : stats->n_maps); i++)
                r = dump_one(&writer, &entries, n_args > 1 ? find_map(stats, args[i + 1]) : stats->maps[i],
                             &counts);
        r = r ?: dump_finish(&writer);
        progress_end();
        if (r == CTL_DONE)
                show_dump(&writer, &counts);
        return r ?: counts.damaged ? CTL_FAILED : CTL_DONE;
}

static void show_load(const LoadCounts *counts) {
        const Count more[] = {
                { "present", counts->present, "key", "keys", "had a value, which stays" },
                { "expired", counts->expired, "entry", "entries", "expired since the dump" },
                { "refused", counts->refused, "", "", NULL }, /* verb_load() complains of them */
        };

        show_counts("Loaded", "", counts->maps, counts->entries, more, sizeof(more) / sizeof(more[0]));
}

CtlExit verb_load(char **args, size_t n_args) {
        _cleanup_(entries_deinit) Entries entries = ENTRIES_INIT;
        _cleanup_(load_deinit) Load load = LOAD_INIT;
        LoadCounts counts = {};
        CtlExit r;

        r = load_open(&load, args[0], args + 1, n_args - 1);
        r = r ?: load_check(&load);
        r = r ?: entries_open_pool(&entries, true);
        r = r ?: load_run(&load, &entries, &counts);
        if (r)
                return r;
        show_load(&counts);
        if (counts.refused)
                return complain("%" PRIu64
                                " entries found no room: give the pool more memory, or the maps higher "
                                "limits, and load the file again",
                                counts.refused);
        return CTL_DONE;
}
