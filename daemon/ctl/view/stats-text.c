#include "daemon/ctl/view/stats-text.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/numbers.h"
#include "daemon/ctl/base/terminal.h"
#include "daemon/ctl/view/epoch-table.h"
#include "daemon/ctl/view/map-table.h"
#include "daemon/ctl/view/table.h"

#define COLUMNS_MAX 8

static void add_number(Table *table, const Number *number, const void *message) {
        uint64_t value = number_value(number, message);

        switch (number->unit) {
        case NUMBER_BYTES:
                table_add(table, "%s", format_bytes(FORMAT_BUFFER, value));
                break;
        case NUMBER_UPTIME:
                table_add(table, "%s", format_span(FORMAT_BUFFER, value));
                break;
        default:
                table_add(table, "%" PRIu64, value);
                break;
        }
}

static void print_pool(FILE *out, const Tslab__StatsReply *stats, bool legend) {
        const TableColumn columns[] = { { "POOL", TABLE_LEFT, 0 }, { stats->pool, TABLE_RIGHT, 0 } };
        _cleanup_(table_freep) Table *table = table_new(columns, 2);
        size_t n;
        const Number *numbers = numbers_of(NUMBER_OF_POOL, &n);

        for (size_t i = 0; i < n; ++i) {
                table_add(table, "%s", numbers[i].text);
                add_number(table, &numbers[i], stats);
        }
        table_print(table, out, legend, terminal_table_width());
}

static void print_epoch_table(FILE *out, const Tslab__StatsReply *stats, bool legend) {
        _cleanup_(table_freep) Table *table = epoch_table_new();

        epoch_table_print(table, out, stats->epochs, stats->n_epochs, legend);
}

static void print_map_table(FILE *out, const Tslab__StatsReply *stats, bool legend) {
        _cleanup_(table_freep) Table *table = map_table_new(false);

        map_table_print(table, out, stats->maps, stats->n_maps, false, legend);
}

static void print_class_table(FILE *out, const Tslab__StatsReply *stats, bool legend) {
        TableColumn columns[COLUMNS_MAX] = { { "CLASS", TABLE_RIGHT, 0 } };
        _cleanup_(table_freep) Table *table = NULL;
        size_t n;
        const Number *numbers = numbers_of(NUMBER_OF_CLASS, &n);

        for (size_t i = 0; i < n; ++i)
                columns[1 + i] = (TableColumn){ numbers[i].text, TABLE_RIGHT, 0 };
        table = table_new(columns, 1 + n);
        for (size_t class = 0; class < stats->n_classes; ++class) {
                table_add(table, "%u", stats->classes[class]->size);
                for (size_t i = 0; i < n; ++i)
                        add_number(table, &numbers[i], stats->classes[class]);
        }
        table_print(table, out, legend, terminal_table_width());
}

/* The share of a counter in the one that it counts a part of: it shows how well the caches serve. */
static void add_share(Table *table, const Number *number, const Tslab__Counters *counters) {
        uint64_t part = number_value(number, counters), whole = 0;

        if (number->whole && !strcmp(number->whole, NUMBER_ATTEMPTS))
                whole = counters->allocs + part;
        else if (number->whole)
                whole = number_counter(counters, number->whole);

        if (whole > 0)
                table_add(table, "%.4g %% of %s", 100.0 * (double) part / (double) whole, number->whole);
        else
                table_add(table, "%s", "");
}

static void print_counters(FILE *out, const Tslab__Counters *counters, bool legend) {
        static const TableColumn columns[] = {
                { "COUNTER", TABLE_LEFT, 0 },
                { "SINCE START", TABLE_RIGHT, 0 },
                { "RATE", TABLE_LEFT, 0 },
        };
        _cleanup_(table_freep) Table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));
        size_t n;
        const Number *numbers = numbers_of(NUMBER_OF_COUNTERS, &n);

        for (size_t i = 0; i < n; ++i) {
                table_add(table, "%s", numbers[i].text);
                add_number(table, &numbers[i], counters);
                add_share(table, &numbers[i], counters);
        }
        table_print(table, out, legend, terminal_table_width());
}

static void add_bound(Table *table, uint64_t usec) {
        if (usec == UINT64_MAX)
                table_add(table, "%s", "longer");
        else
                table_add(table, "< %" PRIu64 " us", usec);
}

static void print_calls(FILE *out, const Tslab__StatsReply *stats, bool legend) {
        static const TableColumn columns[] = {
                { "REQUEST", TABLE_LEFT, 0 },  { "ANSWERED", TABLE_RIGHT, 0 }, { "HALF IN", TABLE_RIGHT, 0 },
                { "99 % IN", TABLE_RIGHT, 0 }, { "LONGEST", TABLE_RIGHT, 0 },
        };
        _cleanup_(table_freep) Table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));

        for (size_t i = 0; i < stats->n_calls; ++i) {
                const Tslab__CallTimes *call = stats->calls[i];
                CallSummary summary = call_summary(call);

                table_add(table, "%s", call->call ?: "");
                table_add(table, "%" PRIu64, summary.n);
                add_bound(table, summary.half_usec);
                add_bound(table, summary.most_usec);
                table_add(table, "%" PRIu64 " us", call->longest_usec);
        }
        table_print(table, out, legend, terminal_table_width());
}

void stats_print(FILE *out, const Tslab__StatsReply *stats, bool legend) {
        print_pool(out, stats, legend);
        (void) fputc('\n', out);
        print_epoch_table(out, stats, legend);
        (void) fputc('\n', out);
        print_class_table(out, stats, legend);
        if (stats->n_maps > 0) {
                (void) fputc('\n', out);
                print_map_table(out, stats, legend);
        }
        if (stats->counters) {
                (void) fputc('\n', out);
                print_counters(out, stats->counters, legend);
        }
        if (stats->n_calls > 0) {
                (void) fputc('\n', out);
                print_calls(out, stats, legend);
        }
}
