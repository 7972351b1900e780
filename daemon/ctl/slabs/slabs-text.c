/*
 * With colour, the character of a cell says how full it is and the colour shows its kind. Without
 * colour, the character says how full it is, or for --by its epoch or class.
 */
#include <inttypes.h>

#include "daemon/ctl/base/format.h"
#include "daemon/ctl/slabs/slabs-text.h"

#define LEGEND_ROWS 9U /* title, empty lines, kinds, prompt */
#define N_FILLS 8

static const char *const kinds_utf8[_MAP_KIND_N] = { "·", "░", "▄", "█", "▓", "~" };
static const char *const kinds_ascii[_MAP_KIND_N] = { ".", "-", "5", "#", "%", "~" };
static const char *const fills_utf8[N_FILLS + 1] = { "░", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
static const char *const fills_ascii[N_FILLS + 1] = { "-", "1", "2", "3", "4", "5", "6", "7", "#" };

size_t map_text_n_cells(unsigned columns, unsigned rows) {
        return (size_t) columns * (rows > LEGEND_ROWS + 4 ? rows - LEGEND_ROWS : 4);
}

/* Classes begin with letters: digits would look like their sizes. */
static const char *key_character(MapBy by, size_t place) {
        static const char characters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        static char one[2];

        place += by == MAP_BY_CLASS ? 10 : 0;
        one[0] = place < sizeof(characters) - 1 ? characters[place] : '?';
        return one;
}

static const char *kind_glyph(const MapText *how, const MapCell *cell, MapKind kind) {
        if (kind == MAP_PARTLY || (kind == MAP_FULL && cell->taken < cell->slots))
                return (how->utf8 ? fills_utf8 : fills_ascii)[map_fill(cell, N_FILLS)];
        return (how->utf8 ? kinds_utf8 : kinds_ascii)[kind];
}

static void print_coloured(FILE *out, const MapText *how, unsigned colour, const char *text) {
        if (how->coloured)
                (void) fprintf(out, "\033[38;5;%um%s", colour, text);
        else
                (void) fputs(text, out);
}

static void print_cell(FILE *out, const MapData *map, const MapText *how, const MapCell *cell) {
        MapKind kind = map_kind(cell);
        size_t place = how->by == MAP_BY_PLACE ? SIZE_MAX : map_key_place(map, cell, how->by);

        if (place == SIZE_MAX)
                print_coloured(out, how, map_kind_colour(kind).terminal, kind_glyph(how, cell, kind));
        else if (!how->coloured)
                (void) fputs(key_character(how->by, place), out);
        else
                print_coloured(out, how, map_key_colour(place).terminal,
                               (how->utf8 ? fills_utf8 : fills_ascii)[map_fill(cell, N_FILLS)]);
}

static void print_end(FILE *out, const MapText *how) {
        (void) fprintf(out, "%s\n", how->coloured ? "\033[0m" : "");
}

static void print_title(FILE *out, const MapData *map) {
        (void) fprintf(out, "%s: %s, %s ever used; each character is %s (%s)\n\n",
                       map->pool[0] ? map->pool : "pool", format_bytes(FORMAT_BUFFER, map->n_slabs * 4096),
                       format_bytes(FORMAT_BUFFER, map->n_slabs_ever * 4096),
                       format_count(FORMAT_BUFFER, map->slabs_per_cell, "slab", "slabs"),
                       format_bytes(FORMAT_BUFFER, (uint64_t) map->slabs_per_cell * 4096));
}

/* Entries of a legend stand side by side where they fit. */
static void begin_entry(FILE *out, const MapText *how, unsigned *column) {
        unsigned width = 34;

        if (*column > 0 && *column + width > how->columns) {
                (void) fputc('\n', out);
                *column = 0;
        }
        *column += width;
}

static void print_text_entry(FILE *out, const MapText *how, unsigned colour, const char *glyph,
                             const char *name, uint64_t slabs, const char *more) {
        print_coloured(out, how, colour, glyph);
        (void) fprintf(out, "%s %-13s %9" PRIu64 " %-8s", how->coloured ? "\033[0m" : "", name, slabs, more);
}

static void print_kinds(FILE *out, const MapData *map, const MapText *how) {
        MapCell total = map_data_total(map);
        unsigned column = 0;

        for (MapKind kind = MAP_UNCOMMITTED; kind < _MAP_KIND_N; ++kind) {
                if (how->by != MAP_BY_PLACE && kind != MAP_UNCOMMITTED && kind != MAP_FREE)
                        continue;
                begin_entry(out, how, &column);
                print_text_entry(out, how, map_kind_colour(kind).terminal,
                                 (how->utf8 ? kinds_utf8 : kinds_ascii)[kind], map_kind_name(kind),
                                 map_kind_slabs(&total, kind), "slabs");
        }
        (void) fputc('\n', out);
}

static void print_keys(FILE *out, const MapData *map, const MapText *how) {
        unsigned column = 0;
        const MapSum *sums;
        size_t n;

        sums = map_sums(map, how->by, &n);
        for (size_t i = 0; i < n; ++i) {
                const char *glyph = !how->coloured ? key_character(how->by, i) : how->utf8 ? "█" : "#";
                char share[32];

                (void) snprintf(share, sizeof(share), "%u%%",
                                sums[i].slots ? (unsigned) (sums[i].taken * 100 / sums[i].slots) : 0);
                begin_entry(out, how, &column);
                print_text_entry(out, how, map_key_colour(i).terminal, glyph,
                                 map_key_name(FORMAT_BUFFER, how->by, sums[i].key), sums[i].slabs, share);
        }
        if (n > 0)
                (void) fputc('\n', out);
}

void map_text_print(FILE *out, const MapData *map, const MapText *how) {
        if (how->legend)
                print_title(out, map);
        for (size_t i = 0; i < map->n_cells; ++i) {
                print_cell(out, map, how, &map->cells[i]);
                if ((i + 1) % how->columns == 0 || i + 1 == map->n_cells)
                        print_end(out, how);
        }
        if (!how->legend)
                return;
        (void) fputc('\n', out);
        print_kinds(out, map, how);
        print_keys(out, map, how);
}
