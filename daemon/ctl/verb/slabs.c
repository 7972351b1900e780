#include <stdio.h>
#include <string.h>

#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/base/style.h"
#include "daemon/ctl/base/terminal.h"
#include "daemon/ctl/slabs/data.h"
#include "daemon/ctl/slabs/svg.h"
#include "daemon/ctl/slabs/slabs-text.h"
#include "daemon/ctl/output/json.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"

#define JSON_CELLS 1024

static json_object *cell_to_json(const MapCell *cell) {
        json_object *o = json_new_object();

        json_add_u64(o, "slabs", cell->n_slabs);
        json_add_u64(o, "free", cell->free);
        json_add_u64(o, "listed", cell->listed);
        json_add_u64(o, "held", cell->held);
        json_add_u64(o, "full", cell->full);
        json_add_u64(o, "draining", cell->draining);
        json_add_u64(o, "busy", cell->busy);
        json_add_u64(o, "slots", cell->slots);
        json_add_u64(o, "taken", cell->taken);
        json_add_u64_or_null(o, "epoch_id", cell->epoch_slabs > 0, cell->epoch_id);
        json_add_u64_or_null(o, "class_size", cell->class_slabs > 0, cell->class_bytes);
        return o;
}

static json_object *sums_to_json(const MapSum *sums, size_t n, const char *key) {
        json_object *array = json_new_array();

        for (size_t i = 0; i < n; ++i) {
                json_object *o = json_new_object();

                json_add_u64(o, key, sums[i].key);
                json_add_u64(o, "slabs", sums[i].slabs);
                json_add_u64(o, "slots", sums[i].slots);
                json_add_u64(o, "taken", sums[i].taken);
                json_append(array, o);
        }
        return array;
}

static void print_map_json(const MapData *map) {
        json_object *o = json_new_object(), *cells = json_new_array();

        for (size_t i = 0; i < map->n_cells; ++i)
                json_append(cells, cell_to_json(&map->cells[i]));
        json_add_string(o, "pool", map->pool);
        json_add_u64(o, "n_slabs", map->n_slabs);
        json_add_u64(o, "n_slabs_ever", map->n_slabs_ever);
        json_add_u64(o, "slabs_per_cell", map->slabs_per_cell);
        json_add(o, "cells", cells);
        json_add(o, "epochs", sums_to_json(map->epochs, map->n_epochs, "id"));
        json_add(o, "classes", sums_to_json(map->classes, map->n_classes, "size"));
        output_json(o);
}

static CtlExit write_svg(const MapData *map) {
        FILE *file;
        int error;

        if (!strcmp(arg_svg, "-")) {
                map_svg_print(output_stream(), map, arg_by, format_now_usec());
                return CTL_DONE;
        }

        file = fopen(arg_svg, "we");
        if (!file)
                return complain("cannot write %s: %s", arg_svg, strerror(errno));
        map_svg_print(file, map, arg_by, format_now_usec());
        error = ferror(file);
        if (fclose(file) != 0 || error)
                return complain("cannot write %s: %s", arg_svg, strerror(errno ?: EIO));
        return CTL_DONE;
}

CtlExit verb_slabs(char **args, size_t n_args) {
        TerminalSize size = terminal_size();
        MapText how = {
                .by = arg_by,
                .columns = size.columns,
                .utf8 = terminal_is_utf8(),
                .coloured = style_coloured(),
                .legend = arg_legend,
        };
        _cleanup_(map_data_deinit) MapData map = {};
        CtlExit r;

        if (arg_json && arg_svg)
                return complain_usage("--json and --svg are two outputs: give one of them");

        r = map_data_fetch(&map, arg_svg    ? MAP_SVG_CELLS
                                 : arg_json ? JSON_CELLS
                                            : map_text_n_cells(size.columns, size.rows));
        if (r)
                return r;

        if (arg_svg)
                return write_svg(&map);
        if (arg_json)
                print_map_json(&map);
        else
                map_text_print(output_stream(), &map, &how);
        return CTL_DONE;
}
