#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/base/pools.h"
#include "daemon/ctl/base/terminal.h"
#include "daemon/ctl/output/json.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"
#include "daemon/ctl/view/table.h"
#include "proto/path.h"

/* Time for each pool: a stopped one must not keep the others from being shown. */
#define ASK_USEC UINT64_C(2000000)

typedef struct Pool {
        char name[PROTO_POOL_NAME_MAX + 1];
        const char *path;
        const char *state;
        ProtoReply *stats; /* NULL: not known */
} Pool;

static const char *state_of(int r) {
        switch (r) {
        case 0:
        case PROTO_E_REFUSED: /* the daemon refuses the numbers to this user, but it runs */
                return "running";
        case -ECONNREFUSED:
        case -ENOENT:
                return "dead";
        case -EACCES:
        case -EPERM:
                return "denied";
        case -ETIMEDOUT:
        case PROTO_E_CLOSED:
                return "silent";
        default:
                return "foreign";
        }
}

static Style state_style(const char *state) {
        if (!strcmp(state, "running"))
                return STYLE_GOOD;
        if (!strcmp(state, "dead"))
                return STYLE_BAD;
        return STYLE_WARN;
}

static void ask_pool(Pool *pool) {
        _cleanup_(proto_call_freep) ProtoCall *call = NULL;
        _cleanup_(proto_reply_freep) ProtoReply *hello = NULL, *reply = NULL;
        int r;

        r = connection_try(pool->path, ASK_USEC, &call, &hello);
        if (r == PROTO_E_REFUSED) {
                pool->state = "denied";
                return;
        }
        if (r == 0)
                r = ask_stats_quietly(call, ASK_USEC, &reply);

        pool->state = state_of(r);
        if (r == 0)
                pool->stats = proto_steal(&reply);
}

static void add_pool_row(Table *table, const Pool *pool) {
        const Tslab__StatsReply *stats = pool->stats ? pool->stats->stats : NULL;

        table_add(table, "%s", pool->name);
        table_add(table, "%s", pool->state);
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

static void print_pool_table(Table *table, const Pool *pools, size_t n_pools) {
        FILE *out = output_stream();

        for (size_t i = 0; i < n_pools; ++i)
                add_pool_row(table, &pools[i]);
        table_print(table, out, arg_legend && n_pools > 0, terminal_table_width());
        if (arg_legend)
                (void) fprintf(out, "%s%s.\n", n_pools ? "\n" : "",
                               format_count(FORMAT_BUFFER, n_pools, "pool", "pools"));
}

static json_object *pool_to_json(const Pool *pool) {
        const Tslab__StatsReply *stats = pool->stats ? pool->stats->stats : NULL;
        json_object *o = json_new_object();

        json_add_string(o, "pool", pool->name);
        json_add_string(o, "socket", pool->path);
        json_add_string(o, "state", pool->state);
        json_add_u64_or_null(o, "size_bytes", stats, stats ? stats->size_bytes : 0);
        json_add_u64_or_null(o, "used_bytes", stats, stats ? stats_used_bytes(stats) : 0);
        json_add_u64_or_null(o, "committed_bytes", stats, stats ? stats->committed_bytes : 0);
        json_add_u64_or_null(o, "clients", stats, stats ? stats->clients : 0);
        return o;
}

static void print_pools_json(const Pool *pools, size_t n_pools) {
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
        Pool *pools;
        CtlExit r;

        r = table_select(table, arg_columns);
        if (r)
                return r;
        r = pools_find(&found);
        pools = must(calloc(found.n_paths + 1, sizeof(*pools)));

        for (size_t i = 0; i < found.n_paths; ++i) {
                pools[i].path = found.paths[i];
                connection_pool_name(pools[i].name, sizeof(pools[i].name), pools[i].path);
                ask_pool(&pools[i]);
        }

        if (arg_json)
                print_pools_json(pools, found.n_paths);
        else
                print_pool_table(table, pools, found.n_paths);

        for (size_t i = 0; i < found.n_paths; ++i)
                pools[i].stats = proto_reply_free(pools[i].stats);
        free(pools);
        return r;
}
