#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/complain.h"
#include "daemon/ctl/base/format.h"
#include "daemon/ctl/top/rows.h"

static const TopColumn epoch_columns[] = {
        { "EPOCH", 6, false, true }, { "OBJECTS", 9, false, false },   { "OBJ/S", 8, false, false },
        { "LIVE", 8, false, false }, { "COMMITTED", 9, false, false }, { "SLABS", 7, false, false },
        { "STATE", 8, true, true },  { "AGE", 9, false, false },       { "LABEL", 10, true, true },
};
static const TopColumn class_columns[] = {
        { "SIZE", 6, false, true },  { "OBJECTS", 9, false, false }, { "OBJ/S", 8, false, false },
        { "LIVE", 8, false, false }, { "SLABS", 8, false, false },   { "FILL", 5, false, false },
};
static const TopColumn client_columns[] = {
        { "PID", 8, false, true },      { "ALLOC/S", 8, false, false }, { "FREE/S", 8, false, false },
        { "COMMAND", 15, true, true },  { "CACHED", 8, false, false },  { "HELD", 6, false, false },
        { "PENDING", 7, false, false }, { "RECORDS", 7, false, false }, { "ALLOCS", 8, false, false },
};

static const TopColumn map_columns[] = {
        { "MAP", 12, true, true },       { "HITS", 15, false, false },    { "ENTRIES", 9, false, false },
        { "BYTES", 8, false, false },    { "HIT/S", 8, false, false },    { "MISS/S", 8, false, false },
        { "INSERT/S", 8, false, false }, { "EXPIRE/S", 8, false, false }, { "EVICT/S", 8, false, false },
        { "FAILED", 7, false, false },   { "LIMIT", 8, false, false },
};

#define N(_array) (sizeof(_array) / sizeof((_array)[0]))

const TopColumn *top_columns(TopView view, size_t *ret_n) {
        switch (view) {
        case TOP_CLASSES:
                *ret_n = N(class_columns);
                return class_columns;
        case TOP_CLIENTS:
                *ret_n = N(client_columns);
                return client_columns;
        case TOP_MAPS:
                *ret_n = N(map_columns);
                return map_columns;
        default:
                *ret_n = N(epoch_columns);
                return epoch_columns;
        }
}

size_t top_default_sort(TopView view) {
        return view == TOP_MAPS ? 2 : view == TOP_CLIENTS ? 1 : 0;
}

char *top_format_number(char *buffer, size_t size, double number) {
        static const char units[] = " kMGTP";
        double size_of = number < 0 ? -number : number;
        size_t unit = 0;

        while (size_of >= 999.5 && units[unit + 1]) {
                size_of /= 1000;
                number /= 1000;
                unit++;
        }
        if (unit == 0)
                (void) snprintf(buffer, size, "%.0f", size_of < 0.5 ? 0 : number);
        else
                (void) snprintf(buffer, size, "%.*f%c", size_of < 99.95 ? 1 : 0, number, units[unit]);
        return buffer;
}

static void set_cell_count(TopCell *cell, double number) {
        cell->number = number;
        (void) top_format_number(cell->text, sizeof(cell->text), number);
}

static void set_bytes(TopCell *cell, uint64_t bytes) {
        cell->number = (double) bytes;
        (void) snprintf(cell->text, sizeof(cell->text), "%.40s", format_bytes(FORMAT_BUFFER, bytes));
}

__attribute__((format(printf, 3, 4))) static void set_text(TopCell *cell, double number, const char *format,
                                                           ...) {
        va_list arguments;

        cell->number = number;
        va_start(arguments, format);
        (void) vsnprintf(cell->text, sizeof(cell->text), format, arguments);
        va_end(arguments);
}

static const Tslab__EpochInfo *find_epoch(const TopSample *sample, const Tslab__EpochInfo *like) {
        for (size_t i = 0; sample->reply && i < top_stats(sample)->n_epochs; ++i)
                if (top_stats(sample)->epochs[i]->id == like->id &&
                    top_stats(sample)->epochs[i]->era == like->era)
                        return top_stats(sample)->epochs[i];
        return NULL;
}

/* Since the epoch was opened, as in `epoch list`. */
static uint64_t age_usec(const Tslab__EpochInfo *epoch, uint64_t now_usec) {
        return epoch->opened_usec && epoch->opened_usec < now_usec ? now_usec - epoch->opened_usec : 0;
}

static void make_epoch(TopRow *row, const Tslab__EpochInfo *epoch, const TopSample *before,
                       const TopSample *now, uint64_t now_usec) {
        const Tslab__EpochInfo *old = find_epoch(before, epoch);
        uint64_t age = age_usec(epoch, now_usec);
        TopCell *c = row->cells;

        set_text(&c[0], epoch->id, "%.40s", format_epoch(FORMAT_BUFFER, epoch_number(epoch)));
        set_cell_count(&c[1], (double) epoch->live_objects);
        set_cell_count(&c[2], top_change(before, now, old ? old->live_objects : 0, epoch->live_objects));
        set_bytes(&c[3], epoch->live_bytes);
        set_bytes(&c[4], epoch->committed_bytes);
        set_cell_count(&c[5], (double) epoch->slabs);
        set_text(&c[6], 0, "%s",
                 epoch->current ? "current" : proto_epoch_state_to_string((int) epoch->state) ?: "");
        set_text(&c[7], (double) age, "%.40s", format_span(FORMAT_BUFFER, age));
        set_text(&c[8], 0, "%s", epoch->label ?: "");
}

static void make_class(TopRow *row, size_t i, const TopSample *before, const TopSample *now) {
        const Tslab__ClassInfo *class = top_stats(now)->classes[i];
        uint64_t slots = class->slabs * class->slots, old = 0;
        TopCell *c = row->cells;

        if (before->reply && i < top_stats(before)->n_classes)
                old = top_stats(before)->classes[i]->live_objects;
        set_text(&c[0], class->size, "%u", class->size);
        set_cell_count(&c[1], (double) class->live_objects);
        set_cell_count(&c[2], top_change(before, now, old, class->live_objects));
        set_bytes(&c[3], class->live_objects * class->size);
        set_cell_count(&c[4], (double) class->slabs);
        set_text(&c[5], slots ? (double) class->live_objects / (double) slots : 0, "%u%%",
                 slots ? (unsigned) (class->live_objects * 100 / slots) : 0);
}

/* An index is used again, so it is the same client only if it attached at the same time. */
static const TopClient *find_client(const TopSample *sample, const TopClient *like) {
        for (size_t i = 0; i < sample->n_clients; ++i)
                if (sample->clients[i].client == like->client &&
                    sample->clients[i].attached_usec == like->attached_usec)
                        return &sample->clients[i];
        return NULL;
}

static void make_client(TopRow *row, const TopClient *client, const TopSample *before, const TopSample *now) {
        const TopClient *old = find_client(before, client);
        TopCell *c = row->cells;

        set_text(&c[0], client->pid, client->pid ? "%d" : "?", client->pid);
        set_cell_count(&c[1], old ? top_rate(before, now, old->allocs, client->allocs) : 0);
        set_cell_count(&c[2], old ? top_rate(before, now, old->frees, client->frees) : 0);
        set_text(&c[3], 0, "%s", client->comm);
        set_cell_count(&c[4], (double) client->cached);
        set_cell_count(&c[5], (double) client->held);
        set_cell_count(&c[6], (double) client->pending);
        set_cell_count(&c[7], client->threads);
        set_cell_count(&c[8], (double) client->allocs);
}

static const Tslab__MapInfo *find_map(const TopSample *sample, const char *name) {
        for (size_t i = 0; sample->reply && i < top_stats(sample)->n_maps; ++i)
                if (!strcmp(top_stats(sample)->maps[i]->map, name))
                        return top_stats(sample)->maps[i];
        return NULL;
}

/* The share of lookups that hit since the last look, as a bar: maps under each other are a histogram. */
static void set_hits(TopCell *cell, uint64_t hits, uint64_t misses) {
        uint64_t all = hits + misses, percent = all ? 100 * hits / all : 0;

        if (all == 0)
                set_text(cell, -1, "%s", "");
        else
                set_text(cell, (double) percent, "%.30s %3u%%",
                         format_bar(FORMAT_BUFFER, 10, percent, 0, 100), (unsigned) percent);
}

static void make_map(TopRow *row, const Tslab__MapInfo *map, const TopSample *before, const TopSample *now) {
        const Tslab__MapInfo *old = find_map(before, map->map) ?: map;
        TopCell *c = row->cells;

        set_text(&c[0], 0, "%s", map->map);
        set_hits(&c[1], map->hits >= old->hits ? map->hits - old->hits : 0,
                 map->misses >= old->misses ? map->misses - old->misses : 0);
        set_cell_count(&c[2], (double) map->entries);
        set_bytes(&c[3], map->bytes);
        set_cell_count(&c[4], top_rate(before, now, old->hits, map->hits));
        set_cell_count(&c[5], top_rate(before, now, old->misses, map->misses));
        set_cell_count(&c[6], top_rate(before, now, old->inserts, map->inserts));
        set_cell_count(&c[7], top_rate(before, now, old->expirations, map->expirations));
        set_cell_count(&c[8], top_rate(before, now, old->evictions, map->evictions));
        set_cell_count(&c[9], (double) map->failures);
        set_bytes(&c[10], map->limit_bytes);
}

static size_t count_rows(TopView view, const TopSample *now) {
        switch (view) {
        case TOP_CLIENTS:
                return now->n_clients;
        case TOP_CLASSES:
                return top_stats(now)->n_classes;
        case TOP_MAPS:
                return top_stats(now)->n_maps;
        default:
                return top_stats(now)->n_epochs;
        }
}

void top_rows_make(TopRows *ret, TopView view, const TopSample *before, const TopSample *now,
                   uint64_t now_usec) {
        size_t n = count_rows(view, now);

        *ret = (TopRows){ .rows = must(calloc(n + 1, sizeof(*ret->rows))), .n_rows = n };
        for (size_t i = 0; i < n; ++i) {
                if (view == TOP_CLIENTS)
                        make_client(&ret->rows[i], &now->clients[i], before, now);
                else if (view == TOP_CLASSES)
                        make_class(&ret->rows[i], i, before, now);
                else if (view == TOP_MAPS)
                        make_map(&ret->rows[i], top_stats(now)->maps[i], before, now);
                else
                        make_epoch(&ret->rows[i], top_stats(now)->epochs[i], before, now, now_usec);
        }
}

static int compare_rows(const TopCell *a, const TopCell *b, const TopColumn *column) {
        if (column->left)
                return strcmp(a->text, b->text);
        return (a->number > b->number) - (a->number < b->number);
}

void top_rows_sort(TopRows *rows, TopView view, size_t column, bool reverse) {
        const TopColumn *columns;
        size_t n;
        int sign;

        columns = top_columns(view, &n);
        assert(column < n);
        sign = columns[column].ascending == reverse ? -1 : 1;

        /* insertion sort: the rows are few, and equal ones keep their order */
        for (size_t i = 1; i < rows->n_rows; ++i) {
                TopRow row = rows->rows[i];
                size_t j = i;

                while (j > 0 && sign * compare_rows(&rows->rows[j - 1].cells[column], &row.cells[column],
                                                    &columns[column]) >
                                        0) {
                        rows->rows[j] = rows->rows[j - 1];
                        j--;
                }
                rows->rows[j] = row;
        }
}

void top_rows_deinit(TopRows *rows) {
        free(rows->rows);
        *rows = (TopRows){};
}
