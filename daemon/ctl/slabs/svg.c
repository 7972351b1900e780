#include <inttypes.h>

#include "daemon/ctl/base/format.h"
#include "daemon/ctl/slabs/svg.h"

#define MARGIN 32
#define GRID_WIDTH 896
#define GRID_TOP 124
#define COLUMNS_MAX 128U
#define COLUMNS_MIN 32U
#define LEGEND_ROW 24
#define LEGEND_COLUMNS 3
#define FILLS 4 /* shades of a colour */

typedef struct Grid {
        unsigned columns, rows;
        double pitch;
} Grid;

static Grid grid_of(const MapData *map) {
        unsigned columns = COLUMNS_MIN;

        while (columns < COLUMNS_MAX && (size_t) columns * columns / 2 < map->n_cells)
                columns *= 2;
        return (Grid){
                .columns = columns,
                .rows = (unsigned) ((map->n_cells + columns - 1) / columns),
                .pitch = (double) GRID_WIDTH / columns,
        };
}

typedef struct Look {
        const char *colour;
        double opacity;
} Look;

static Look look_of(const MapData *map, const MapCell *cell, MapBy by) {
        MapKind kind = map_kind(cell);
        size_t place = by == MAP_BY_PLACE ? SIZE_MAX : map_key_place(map, cell, by);
        unsigned fill = map_fill(cell, FILLS);

        if (place != SIZE_MAX)
                return (Look){ map_key_colour(place).svg, 0.28 + 0.72 * fill / FILLS };
        if (kind == MAP_PARTLY)
                return (Look){ map_kind_colour(kind).svg, 0.35 + 0.65 * fill / FILLS };
        return (Look){ map_kind_colour(kind).svg, 1 };
}

static void print_svg_head(FILE *out, const MapData *map, unsigned height, uint64_t now_usec) {
        (void) fprintf(
                out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" viewBox=\"0 0 %d %u\" "
                "font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" font-size=\"13\" fill=\"#263238\">\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
                "<text x=\"%d\" y=\"44\" font-size=\"22\" font-weight=\"bold\">Pool %s</text>\n"
                "<text x=\"%d\" y=\"44\" text-anchor=\"end\" fill=\"#607d8b\">%s</text>\n",
                GRID_WIDTH + 2 * MARGIN, height, GRID_WIDTH + 2 * MARGIN, height, MARGIN, map->pool,
                GRID_WIDTH + MARGIN, format_time(FORMAT_BUFFER, now_usec));
        (void) fprintf(out, "<text x=\"%d\" y=\"68\" fill=\"#607d8b\">%s, of which %s were ever used; ",
                       MARGIN, format_bytes(FORMAT_BUFFER, map->n_slabs * 4096),
                       format_bytes(FORMAT_BUFFER, map->n_slabs_ever * 4096));
        (void) fprintf(out, "each square is %s (%s)</text>\n",
                       format_count(FORMAT_BUFFER, map->slabs_per_cell, "slab", "slabs"),
                       format_bytes(FORMAT_BUFFER, (uint64_t) map->slabs_per_cell * 4096));
}

static double print_segment(FILE *out, const MapData *map, double x, uint64_t slabs, const char *colour) {
        double width = map->n_slabs ? (double) slabs / (double) map->n_slabs * GRID_WIDTH : 0;

        if (width > 0)
                (void) fprintf(out, "<rect x=\"%.2f\" y=\"84\" width=\"%.2f\" height=\"16\" fill=\"%s\"/>\n",
                               x, width, colour);
        return x + width;
}

/* The whole arena as one bar, in the colours of the squares. */
static void print_bar(FILE *out, const MapData *map, MapBy by) {
        static const MapKind order[] = { MAP_FULL, MAP_PARTLY, MAP_DRAINING, MAP_BUSY, MAP_FREE };
        MapCell total = map_data_total(map);
        const MapSum *sums;
        double x = MARGIN;
        size_t n;

        (void) fprintf(out, "<rect x=\"%d\" y=\"84\" width=\"%d\" height=\"16\" rx=\"3\" fill=\"%s\"/>\n",
                       MARGIN, GRID_WIDTH, map_kind_colour(MAP_UNCOMMITTED).svg);
        sums = map_sums(map, by, &n);
        for (size_t i = 0; i < n; ++i)
                x = print_segment(out, map, x, sums[i].slabs, map_key_colour(i).svg);
        for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); ++i)
                if (by == MAP_BY_PLACE || order[i] == MAP_FREE)
                        x = print_segment(out, map, x, map_kind_slabs(&total, order[i]),
                                          map_kind_colour(order[i]).svg);
}

static void print_grid(FILE *out, const MapData *map, const Grid *grid, MapBy by) {
        double side = grid->pitch * 0.88;

        for (size_t i = 0; i < map->n_cells; ++i) {
                Look look = look_of(map, &map->cells[i], by);

                (void) fprintf(out,
                               "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" rx=\"%.2f\" "
                               "fill=\"%s\"",
                               MARGIN + (double) (i % grid->columns) * grid->pitch,
                               GRID_TOP + (double) (i / grid->columns) * grid->pitch, side, side, side / 8,
                               look.colour);
                if (look.opacity < 1)
                        (void) fprintf(out, " fill-opacity=\"%.2f\"", look.opacity);
                (void) fputs("/>\n", out);
        }
}

/* The next entry of the legend, at its place. */
static void print_svg_entry(FILE *out, unsigned *n, double top, const char *colour, const char *name,
                            uint64_t slabs, const char *more) {
        double x = MARGIN + (double) (*n % LEGEND_COLUMNS) * (GRID_WIDTH / LEGEND_COLUMNS);
        double y = top + (double) (*n / LEGEND_COLUMNS) * LEGEND_ROW;

        (void) fprintf(out,
                       "<rect x=\"%.2f\" y=\"%.2f\" width=\"14\" height=\"14\" rx=\"2\" fill=\"%s\"/>\n"
                       "<text x=\"%.2f\" y=\"%.2f\">%s</text>\n"
                       "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"end\" fill=\"#607d8b\">%s%s</text>\n",
                       x, y, colour, x + 22, y + 12, name, x + GRID_WIDTH / LEGEND_COLUMNS - 24, y + 12,
                       format_count(FORMAT_BUFFER, slabs, "slab", "slabs"), more);
        ++*n;
}

static void print_legend(FILE *out, const MapData *map, MapBy by, double top) {
        MapCell total = map_data_total(map);
        const MapSum *sums;
        unsigned n = 0;
        size_t n_sums;

        sums = map_sums(map, by, &n_sums);
        for (size_t i = 0; i < n_sums; ++i) {
                char more[32];

                (void) snprintf(more, sizeof(more), ", %u%% taken",
                                sums[i].slots ? (unsigned) (sums[i].taken * 100 / sums[i].slots) : 0);
                print_svg_entry(out, &n, top, map_key_colour(i).svg,
                                map_key_name(FORMAT_BUFFER, by, sums[i].key), sums[i].slabs, more);
        }
        for (MapKind kind = MAP_UNCOMMITTED; kind < _MAP_KIND_N; ++kind)
                if (by == MAP_BY_PLACE || kind == MAP_UNCOMMITTED || kind == MAP_FREE)
                        print_svg_entry(out, &n, top, map_kind_colour(kind).svg, map_kind_name(kind),
                                        map_kind_slabs(&total, kind), "");
}

static unsigned legend_rows(const MapData *map, MapBy by) {
        size_t n;

        (void) map_sums(map, by, &n);
        n += by == MAP_BY_PLACE ? _MAP_KIND_N : 2;
        return (unsigned) (n + LEGEND_COLUMNS - 1) / LEGEND_COLUMNS;
}

void map_svg_print(FILE *out, const MapData *map, MapBy by, uint64_t now_usec) {
        Grid grid = grid_of(map);
        double legend_top = GRID_TOP + grid.rows * grid.pitch + 24;

        print_svg_head(out, map, (unsigned) legend_top + legend_rows(map, by) * LEGEND_ROW + MARGIN / 2,
                       now_usec);
        print_bar(out, map, by);
        print_grid(out, map, &grid, by);
        print_legend(out, map, by, legend_top);
        (void) fputs("</svg>\n", out);
}
