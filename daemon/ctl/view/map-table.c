#include "daemon/ctl/view/map-table.h"

#include <inttypes.h>

#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/numbers.h"
#include "daemon/ctl/base/terminal.h"

#define COLUMNS_MAX 20

/* Columns that are no rows of the table of numbers, after the numbers. */
static const TableColumn option_columns[] = {
        { "TTL", TABLE_RIGHT, 5 },
        { "STALE", TABLE_RIGHT, 9 },
        { "EVICT", TABLE_LEFT, 8 },
};

#define N_OPTIONS (sizeof(option_columns) / sizeof(option_columns[0]))

/* Entries and bytes stay on any terminal. */
Table *map_table_new(bool index) {
        static TableColumn columns[COLUMNS_MAX] = { { "MAP", TABLE_TEXT, 0 } };
        size_t n_numbers, n = 1;
        const Number *numbers = numbers_of(NUMBER_OF_MAP, &n_numbers);

        for (size_t i = 0; i < n_numbers; ++i) {
                columns[n++] = (TableColumn){ numbers[i].text, TABLE_RIGHT, i < 2 ? 0 : (unsigned) i };
                if (index && i == 1)
                        columns[n++] = (TableColumn){ "INDEX", TABLE_RIGHT, 1 };
        }
        for (size_t i = 0; index && i < N_OPTIONS; ++i)
                columns[n++] = option_columns[i];
        return table_new(columns, n);
}

static void add_map_number(Table *table, const Number *number, const Tslab__MapInfo *map) {
        uint64_t value = number_value(number, map);

        if (number->unit == NUMBER_BYTES && value == 0)
                table_add(table, "%s", "");
        else if (number->unit == NUMBER_BYTES)
                table_add(table, "%s", format_bytes(FORMAT_BUFFER, value));
        else
                table_add(table, "%" PRIu64, value);
}

static void add_map_options(Table *table, const Tslab__MapInfo *map) {
        bool sieve = map->evict == TSLAB__MAP_EVICT__MAP_EVICT_SIEVE;

        table_add(table, "%s",
                  map->ttl_msec ? format_span(FORMAT_BUFFER, map->ttl_msec * UINT64_C(1000)) : "");
        table_add(table, "%s",
                  map->stale_msec ? format_span(FORMAT_BUFFER, map->stale_msec * UINT64_C(1000)) : "");
        table_add(table, "%s", sieve ? "sieve" : "");
}

static void add_map(Table *table, const Tslab__MapInfo *map, bool index) {
        size_t n;
        const Number *numbers = numbers_of(NUMBER_OF_MAP, &n);

        table_add(table, "%s", map->map ?: "");
        for (size_t i = 0; i < n; ++i) {
                add_map_number(table, &numbers[i], map);
                if (index && i == 1)
                        table_add(table, "%s", format_bytes(FORMAT_BUFFER, map->index_bytes));
        }
        if (index)
                add_map_options(table, map);
}

void map_table_print(Table *table, FILE *out, Tslab__MapInfo *const *maps, size_t n_maps, bool index,
                     bool legend) {
        for (size_t i = 0; i < n_maps; ++i)
                add_map(table, maps[i], index);
        table_print(table, out, legend, terminal_table_width());
}
