#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "daemon/ctl/base/ask-pools.h"
#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/base/terminal.h"
#include "daemon/ctl/output/json.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"
#include "daemon/ctl/view/table.h"

static Style state_style(PoolState state) {
        switch (state) {
        case POOL_RUNNING:
                return STYLE_GOOD;
        case POOL_IDLE:
                return STYLE_PLAIN;
        case POOL_DEAD:
                return STYLE_BAD;
        default:
                return STYLE_WARN;
        }
}

static void add_pool_row(Table *table, const AskedPool *pool) {
        const Tslab__StatsReply *stats = pool->stats ? pool->stats->stats : NULL;

        table_add(table, "%s", pool->name);
        table_add(table, "%s", pool_state_to_string(pool->state));
        table_style(table, state_style(pool->state));
        table_add(table, "%s", stats ? format_bytes(FORMAT_BUFFER, stats->size_bytes) : "");
        table_add(table, "%s", stats ? format_bytes(FORMAT_BUFFER, stats_used_bytes(stats)) : "");
        table_add(table, "%s", stats ? format_bytes(FORMAT_BUFFER, stats->committed_bytes) : "");
        if (stats)
                table_add(table, "%u", stats->clients);
        else
                table_add(table, "%s", "");
        table_add(table, "%s", pool->path);
}

static void print_pool_table(Table *table, const AskedPool *pools, size_t n_pools) {
        FILE *out = output_stream();

        for (size_t i = 0; i < n_pools; ++i)
                add_pool_row(table, &pools[i]);
        table_print(table, out, arg_legend && n_pools > 0, terminal_table_width());
        if (arg_legend)
                (void) fprintf(out, "%s%s.\n", n_pools ? "\n" : "",
                               format_count(FORMAT_BUFFER, n_pools, "pool", "pools"));
}

static json_object *pool_to_json(const AskedPool *pool) {
        const Tslab__StatsReply *stats = pool->stats ? pool->stats->stats : NULL;
        json_object *o = json_new_object();

        json_add_string(o, "pool", pool->name);
        json_add_string(o, "socket", pool->path);
        json_add_string(o, "state", pool_state_to_string(pool->state));
        json_add_u64_or_null(o, "size_bytes", stats, stats ? stats->size_bytes : 0);
        json_add_u64_or_null(o, "used_bytes", stats, stats ? stats_used_bytes(stats) : 0);
        json_add_u64_or_null(o, "committed_bytes", stats, stats ? stats->committed_bytes : 0);
        json_add_u64_or_null(o, "clients", stats, stats ? stats->clients : 0);
        return o;
}

static void print_pools_json(const AskedPool *pools, size_t n_pools) {
        json_object *array = json_new_array();

        for (size_t i = 0; i < n_pools; ++i)
                json_append(array, pool_to_json(&pools[i]));
        output_json(array);
}

CtlExit verb_list(char **args, size_t n_args) {
        static const TableColumn columns[] = {
                { "POOL", TABLE_LEFT, 0 },   { "STATE", TABLE_LEFT, 0 },      { "SIZE", TABLE_RIGHT, 1 },
                { "USED", TABLE_RIGHT, 0 },  { "COMMITTED", TABLE_RIGHT, 3 }, { "CLIENTS", TABLE_RIGHT, 2 },
                { "SOCKET", TABLE_TEXT, 4 },
        };
        _cleanup_(table_freep) Table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));
        _cleanup_(pools_deinit) Pools found = POOLS_INIT;
        AskedPool *pools;
        CtlExit r;

        r = table_select(table, arg_columns);
        if (r)
                return r;
        r = pools_find(&found);
        pools = pools_ask(&found);
        if (arg_json)
                print_pools_json(pools, found.n_paths);
        else
                print_pool_table(table, pools, found.n_paths);

        (void) pools_asked_free(pools, found.n_paths);
        return r;
}
