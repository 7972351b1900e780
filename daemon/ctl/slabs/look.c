#include <stdio.h>

#include "daemon/ctl/base/format.h"
#include "daemon/ctl/slabs/look.h"

uint64_t map_kind_slabs(const MapCell *cell, MapKind kind) {
        uint64_t committed =
                (uint64_t) cell->free + cell->listed + cell->held + cell->full + cell->draining + cell->busy;

        switch (kind) {
        case MAP_FREE:
                return cell->free;
        case MAP_PARTLY:
                return (uint64_t) cell->listed + cell->held;
        case MAP_FULL:
                return cell->full;
        case MAP_DRAINING:
                return cell->draining;
        case MAP_BUSY:
                return cell->busy;
        default:
                return cell->n_slabs > committed ? cell->n_slabs - committed : 0;
        }
}

/* Slabs of several kinds together are partly used, unless most are of one kind. */
MapKind map_kind(const MapCell *cell) {
        MapKind best = MAP_UNCOMMITTED;

        for (MapKind kind = MAP_FREE; kind < _MAP_KIND_N; ++kind)
                if (map_kind_slabs(cell, kind) > 0 &&
                    (best == MAP_UNCOMMITTED || map_kind_slabs(cell, kind) > map_kind_slabs(cell, best)))
                        best = kind;
        return best;
}

const char *map_kind_name(MapKind kind) {
        static const char *const names[_MAP_KIND_N] = {
                [MAP_UNCOMMITTED] = "not committed", [MAP_FREE] = "free",
                [MAP_PARTLY] = "partly taken",       [MAP_FULL] = "full",
                [MAP_DRAINING] = "draining",         [MAP_BUSY] = "changing",
        };

        return names[kind];
}

unsigned map_fill(const MapCell *cell, unsigned steps) {
        unsigned fill;

        if (cell->taken == 0 || cell->slots == 0)
                return 0;
        if (cell->taken >= cell->slots)
                return steps;

        fill = (unsigned) ((uint64_t) cell->taken * steps / cell->slots);
        return fill > 0 ? fill : 1;
}

MapColour map_kind_colour(MapKind kind) {
        static const MapColour colours[_MAP_KIND_N] = {
                [MAP_UNCOMMITTED] = { 240, "#eceff1" }, [MAP_FREE] = { 250, "#b0bec5" },
                [MAP_PARTLY] = { 39, "#64b5f6" },       [MAP_FULL] = { 27, "#1565c0" },
                [MAP_DRAINING] = { 208, "#ef6c00" },    [MAP_BUSY] = { 201, "#8e24aa" },
        };

        return colours[kind];
}

MapColour map_key_colour(size_t place) {
        static const MapColour colours[] = {
                { 33, "#1f77b4" },  { 208, "#ff7f0e" }, { 34, "#2ca02c" },  { 160, "#d62728" },
                { 134, "#9467bd" }, { 137, "#8c564b" }, { 212, "#e377c2" }, { 44, "#17becf" },
                { 142, "#bcbd22" }, { 25, "#0b3d91" },  { 22, "#0b6e3f" },  { 88, "#7f1d1d" },
                { 99, "#6d4aff" },  { 220, "#f2c200" }, { 73, "#5f9ea0" },  { 205, "#d81b60" },
        };

        return colours[place % (sizeof(colours) / sizeof(colours[0]))];
}

const MapSum *map_sums(const MapData *map, MapBy by, size_t *ret_n) {
        switch (by) {
        case MAP_BY_EPOCH:
                *ret_n = map->n_epochs;
                return map->epochs;
        case MAP_BY_CLASS:
                *ret_n = map->n_classes;
                return map->classes;
        default:
                *ret_n = 0;
                return NULL;
        }
}

size_t map_key_place(const MapData *map, const MapCell *cell, MapBy by) {
        uint32_t key = by == MAP_BY_EPOCH ? cell->epoch_id : cell->class_bytes;
        const MapSum *sums;
        size_t n;

        sums = map_sums(map, by, &n);
        for (size_t i = 0; cell->epoch_slabs > 0 && i < n; ++i)
                if (sums[i].key == key)
                        return i;
        return SIZE_MAX;
}

char *map_key_name(char *buffer, MapBy by, uint32_t key) {
        if (by == MAP_BY_EPOCH)
                (void) snprintf(buffer, FORMAT_SIZE, "epoch %u", key);
        else
                (void) snprintf(buffer, FORMAT_SIZE, "%u bytes", key);
        return buffer;
}
