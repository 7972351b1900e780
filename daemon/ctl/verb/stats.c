#include <inttypes.h>
#include <stdio.h>

#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/base/terminal.h"
#include "daemon/ctl/output/json-reply.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"
#include "daemon/ctl/view/epoch-table.h"
#include "daemon/ctl/view/table.h"

static void add_bytes(Table *table, const char *name, uint64_t bytes) {
        table_add(table, "%s", name);
        table_add(table, "%s", format_bytes(FORMAT_BUFFER, bytes));
}

static void add_number(Table *table, const char *name, uint64_t n) {
        table_add(table, "%s", name);
        table_add(table, "%" PRIu64, n);
}

static void print_pool(FILE *out, const Tslab__StatsReply *stats) {
        _cleanup_(table_freep) Table *table = NULL;
        const TableColumn columns[] = { { "POOL", TABLE_LEFT, 0 }, { stats->pool, TABLE_RIGHT, 0 } };

        table = table_new(columns, 2);
        add_bytes(table, "size", stats->size_bytes);
        add_bytes(table, "committed", stats->committed_bytes);
        add_bytes(table, "retained", stats->retained_bytes);
        add_bytes(table, "metadata", stats->metadata_bytes);
        add_bytes(table, "pages", stats->memfd_blocks_bytes);
        add_bytes(table, "live", stats->live_bytes);
        add_number(table, "live objects", stats->live_objects);
        add_number(table, "cached objects", stats->cached_objects);
        add_number(table, "clients", stats->clients);
        add_number(table, "threads", stats->threads);
        add_number(table, "threads sharing", stats->records_shared);
        add_number(table, "dead threads unsettled", stats->records_unsettled);
        add_number(table, "slabs ever used", stats->n_slabs_ever);
        add_number(table, "slabs", stats->n_slabs);
        table_print(table, out, arg_legend, terminal_table_width());
}

static void print_classes(FILE *out, const Tslab__StatsReply *stats) {
        static const TableColumn columns[] = {
                { "CLASS", TABLE_RIGHT, 0 },
                { "SLOTS", TABLE_RIGHT, 0 },
                { "SLABS", TABLE_RIGHT, 0 },
                { "OBJECTS", TABLE_RIGHT, 0 },
        };
        _cleanup_(table_freep) Table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));

        for (size_t i = 0; i < stats->n_classes; ++i) {
                table_add(table, "%u", stats->classes[i]->size);
                table_add(table, "%u", stats->classes[i]->slots);
                table_add(table, "%" PRIu64, stats->classes[i]->slabs);
                table_add(table, "%" PRIu64, stats->classes[i]->live_objects);
        }
        table_print(table, out, arg_legend, terminal_table_width());
}

static void add_counter(Table *table, const char *name, uint64_t n, uint64_t total, const char *of) {
        add_number(table, name, n);
        if (total > 0)
                table_add(table, "%.4g %% of %s", 100.0 * (double) n / (double) total, of);
        else
                table_add(table, "-");
}

/* Counters, and which part of what they count they are: how well the caches serve. */
static void print_counters(FILE *out, const Tslab__Counters *counters) {
        static const TableColumn columns[] = {
                { "COUNTER", TABLE_LEFT, 0 },
                { "SINCE START", TABLE_RIGHT, 0 },
                { "RATE", TABLE_LEFT, 0 },
        };
        _cleanup_(table_freep) Table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));
        uint64_t allocs = counters->allocs, frees = counters->frees;

        add_counter(table, "allocs", allocs, 0, NULL);
        add_counter(table, "frees", frees, 0, NULL);
        add_counter(table, "alloc_hits", counters->alloc_hits, allocs, "allocs");
        add_counter(table, "frees_cached", counters->frees_cached, frees, "frees");
        add_counter(table, "refills", counters->refills, allocs, "allocs");
        add_counter(table, "flushes", counters->flushes, frees, "frees");
        add_counter(table, "alloc_bypassed", counters->alloc_bypassed, allocs, "allocs");
        add_counter(table, "free_bypassed", counters->free_bypassed, frees, "frees");
        add_counter(table, "bypass_windows", counters->bypass_windows, 0, NULL);
        add_counter(table, "slabs_recycled", counters->slabs_recycled, 0, NULL);
        add_counter(table, "slabs_reclaimed", counters->slabs_reclaimed, 0, NULL);
        add_counter(table, "failures", counters->failures, allocs + counters->failures, "attempts");
        table_print(table, out, arg_legend, terminal_table_width());
}

static void print_stats(FILE *out, const Tslab__StatsReply *stats) {
        _cleanup_(table_freep) Table *epochs = epoch_table_new();

        print_pool(out, stats);
        (void) fputc('\n', out);
        epoch_table_print(epochs, out, stats->epochs, stats->n_epochs, arg_legend);
        (void) fputc('\n', out);
        print_classes(out, stats);
        if (stats->counters) {
                (void) fputc('\n', out);
                print_counters(out, stats->counters);
        }
}

CtlExit verb_stats(char **args, size_t n_args) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        CtlExit r;

        r = ask_stats(&connection, &reply);
        if (r)
                return r;

        if (arg_json)
                output_json(json_stats(reply->stats));
        else
                print_stats(output_stream(), reply->stats);
        return CTL_DONE;
}
