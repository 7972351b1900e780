#include <stdio.h>
#include <string.h>

#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/slabs/data.h"

static MapCell cell_from(const Tslab__SlabCell *from) {
        return (MapCell){
                .free = from->free,
                .listed = from->listed,
                .held = from->held,
                .full = from->full,
                .draining = from->draining,
                .busy = from->busy,
                .slots = from->slots,
                .taken = from->taken < from->slots ? from->taken : from->slots,
                .epoch_id = from->epoch_id,
                .epoch_slabs = from->epoch_slabs,
                .class_bytes = from->class_bytes,
                .class_slabs = from->class_slabs,
        };
}

static size_t copy_sums(MapSum *ret, Tslab__SlabSum *const *sums, size_t n) {
        for (size_t i = 0; i < n; ++i)
                ret[i] = (MapSum){ sums[i]->key, sums[i]->slabs, sums[i]->slots, sums[i]->taken };
        return n;
}

/* The last cell stands for the slabs that remain. */
static void add_cell(MapData *map, const Tslab__SlabCell *from) {
        uint64_t begin = (uint64_t) map->n_cells * map->slabs_per_cell, left;
        MapCell cell = cell_from(from);

        left = map->n_slabs_ever > begin ? map->n_slabs_ever - begin : 0;
        cell.n_slabs = left < map->slabs_per_cell ? (uint32_t) left : map->slabs_per_cell;
        map->cells[map->n_cells++] = cell;
}

static void add_map_part(MapData *map, const Tslab__SlabMapReply *reply) {
        map->n_slabs = reply->n_slabs;
        map->n_slabs_ever = reply->n_slabs_ever;
        map->slabs_per_cell = reply->slabs_per_cell;
        for (size_t i = 0; i < reply->n_cells && map->n_cells < map->n_cells_max; ++i)
                add_cell(map, reply->cells[i]);
        map->n_epochs = copy_sums(map->epochs, reply->epochs, reply->n_epochs);
        map->n_classes = copy_sums(map->classes, reply->classes, reply->n_classes);
}

static int on_map_part(void *userdata, const ProtoReply *reply) {
        if (reply->body_case == TSLAB__REPLY__BODY_SLAB_MAP)
                add_map_part(userdata, reply->slab_map);
        return 0;
}

CtlExit map_data_fetch(MapData *map, size_t n_cells_max) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        Tslab__SlabMap body = TSLAB__SLAB_MAP__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        CtlExit r;

        *map = (MapData){ .n_cells_max =
                                  n_cells_max < PROTO_MAP_CELLS_MAX ? n_cells_max : PROTO_MAP_CELLS_MAX };
        map->cells = must(calloc(map->n_cells_max, sizeof(*map->cells)));
        request.body_case = TSLAB__REQUEST__BODY_SLAB_MAP;
        request.slab_map = &body;
        body.cells = (uint32_t) map->n_cells_max;

        r = ask_daemon(&connection, &request, on_map_part, map, &reply);
        if (r)
                return r;

        add_map_part(map, reply->slab_map);
        /* a valid name needs no escaping in a picture either */
        if (proto_pool_name_is_valid(connection.hello->hello->pool))
                (void) snprintf(map->pool, sizeof(map->pool), "%s", connection.hello->hello->pool);
        return CTL_DONE;
}

void map_data_deinit(MapData *map) {
        free(map->cells);
        map->cells = NULL;
}

MapCell map_data_total(const MapData *map) {
        MapCell total = {};

        for (size_t i = 0; i < map->n_cells; ++i) {
                const MapCell *cell = &map->cells[i];

                total.n_slabs += cell->n_slabs;
                total.free += cell->free;
                total.listed += cell->listed;
                total.held += cell->held;
                total.full += cell->full;
                total.draining += cell->draining;
                total.busy += cell->busy;
                total.slots += cell->slots;
                total.taken += cell->taken;
        }
        return total;
}
