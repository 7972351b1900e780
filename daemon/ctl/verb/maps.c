/* maps, and maps set. */
#include <stdio.h>
#include <string.h>

#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/output/json-reply.h"
#include "daemon/ctl/output/json.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"
#include "daemon/ctl/view/map-table.h"
#include "proto/text.h"

static CtlExit admit_map(const char *name) {
        if (!*name || !proto_text_is_clean(name, PROTO_MAP_NAME_MAX))
                return complain_usage(
                        "'%s' cannot be a map: these have names of 1 to %d bytes of printable text", name,
                        PROTO_MAP_NAME_MAX);
        return CTL_DONE;
}

static json_object *map_with_index(const Tslab__MapInfo *map) {
        json_object *o = json_map(map);

        json_add_u64(o, "index_bytes", map->index_bytes);
        return o;
}

static void print_maps_json(const Tslab__MapsReply *reply) {
        json_object *array = json_new_array();

        for (size_t i = 0; i < reply->n_maps; ++i)
                json_append(array, map_with_index(reply->maps[i]));
        output_json(array);
}

static void print_maps(Table *table, const Tslab__MapsReply *reply) {
        FILE *out = output_stream();

        map_table_print(table, out, reply->maps, reply->n_maps, true, arg_legend);
        if (arg_legend)
                (void) fprintf(out, "%s%s.\n", reply->n_maps ? "\n" : "",
                               format_count(FORMAT_BUFFER, reply->n_maps, "map", "maps"));
}

CtlExit verb_maps(char **args, size_t n_args) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        _cleanup_(table_freep) Table *table = map_table_new(true);
        Tslab__Maps maps = TSLAB__MAPS__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        CtlExit r;

        request.body_case = TSLAB__REQUEST__BODY_MAPS;
        request.maps = &maps;
        if (n_args > 0)
                maps.map = args[0];
        r = table_select(table, arg_columns);
        r = r || n_args == 0 ? r : admit_map(args[0]);
        r = r ?: ask_slow(&connection, &request, "measuring the indexes", NULL, &reply);
        if (r)
                return r;
        if (arg_json)
                print_maps_json(reply->maps);
        else
                print_maps(table, reply->maps);
        return CTL_DONE;
}

static void print_map_options(FILE *out, const Tslab__MapInfo *map) {
        const char *full = map->evict == TSLAB__MAP_EVICT__MAP_EVICT_SIEVE
                                   ? "entries that were not read for long go"
                                   : "puts fail";

        (void) fprintf(out, "Map '%s': ", map->map ?: "");
        if (map->limit_bytes)
                (void) fprintf(out, "at most %s, then %s", format_bytes(FORMAT_BUFFER, map->limit_bytes),
                               full);
        else
                (void) fprintf(out, "no limit; where the pool is full, %s", full);
        if (map->limit_bytes && map->bytes > map->limit_bytes)
                (void) fprintf(out, "; it has %s in %s now", format_bytes(FORMAT_BUFFER, map->bytes),
                               format_count(FORMAT_BUFFER, map->entries, "entry", "entries"));
        if (map->ttl_msec)
                (void) fprintf(out, "; entries live for %s unless their put says otherwise",
                               format_span(FORMAT_BUFFER, map->ttl_msec * UINT64_C(1000)));
        if (map->stale_msec)
                (void) fprintf(out, "; they are kept for %s after their end",
                               format_span(FORMAT_BUFFER, map->stale_msec * UINT64_C(1000)));
        if (map->value_max_bytes)
                (void) fprintf(out, "; values have at most %s",
                               format_bytes(FORMAT_BUFFER, map->value_max_bytes));
        (void) fprintf(out, ".\n");
}

CtlExit verb_maps_set(char **args, size_t n_args) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        Tslab__MapSet set = TSLAB__MAP_SET__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        CtlExit r;

        if (arg_map_set == 0)
                return complain_usage("there is nothing to change: give --limit, --evict, --ttl, --stale or "
                                      "--value-max");
        request.body_case = TSLAB__REQUEST__BODY_MAP_SET;
        request.map_set = &set;
        set.map = args[0];
        set.set = arg_map_set;
        set.limit_bytes = arg_map_limit;
        set.ttl_msec = arg_map_ttl_msec;
        set.stale_msec = (uint32_t) arg_map_stale_msec;
        set.value_max_bytes = (uint32_t) arg_map_value_max;
        set.evict = arg_map_sieve ? TSLAB__MAP_EVICT__MAP_EVICT_SIEVE : TSLAB__MAP_EVICT__MAP_EVICT_NEVER;
        r = admit_map(args[0]);
        r = r ?: ask_daemon(&connection, &request, NULL, NULL, &reply);
        if (r)
                return r;
        if (arg_json)
                output_json(json_map(reply->map_set->info));
        else
                print_map_options(output_stream(), reply->map_set->info);
        return CTL_DONE;
}
