/* maps top: the largest entries of a map, found in one walk over it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/entry/entry.h"
#include "daemon/ctl/output/json.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"
#include "proto/cleanup.h"

#define ROWS_DEFAULT 10
#define ROWS_MAX 10000

typedef struct Row {
        char *key;
        uint64_t size, ttl_left_ms;
        uint32_t epoch;
} Row;

/* The largest entries so far, the largest one first. */
typedef struct Largest {
        Row *rows;
        size_t n, max;
} Largest;

static void largest_deinit(Largest *l) {
        for (size_t i = 0; i < l->n; i++)
                free(l->rows[i].key);
        free(l->rows);
}

/* Takes the key, or frees it. Of entries of one size, the ones that were met first stay. */
static void largest_add(Largest *l, char *key, const struct tslab_map_info *info) {
        size_t at = l->n;

        while (at > 0 && l->rows[at - 1].size < info->value_size)
                at--;
        if (at == l->max) {
                free(key);
                return;
        }
        if (l->n == l->max)
                free(l->rows[--l->n].key);
        for (size_t i = l->n++; i > at; i--)
                l->rows[i] = l->rows[i - 1];
        l->rows[at] = (Row){ key, info->value_size, info->ttl_left_ms, info->epoch };
}

static CtlExit largest_find(Largest *l, Entries *entries) {
        struct tslab_map_cursor cursor = {};
        CtlExit r = CTL_DONE;

        for (;;) {
                struct tslab_map_info info = { .size = sizeof(info) };
                char *key = NULL;
                int next = entry_next(entries, &cursor, &key, &info);

                if (next == 1) {
                        largest_add(l, key, &info);
                        continue;
                }
                free(key);
                if (next != -EUCLEAN)
                        return next < 0 ? CTL_FAILED : r;
                r = CTL_FAILED;
        }
}

static void print_json(const Largest *l) {
        json_object *array = json_new_array();

        for (size_t i = 0; i < l->n; i++) {
                const Row *row = &l->rows[i];
                json_object *o = json_new_object();

                json_add_string(o, "key", row->key);
                json_add_u64(o, "size", row->size);
                json_add_u64(o, "epoch", row->epoch);
                json_add_u64_or_null(o, "ttl_left_msec", row->ttl_left_ms != UINT64_MAX, row->ttl_left_ms);
                json_append(array, o);
        }
        output_json(array);
}

/* A key comes last and as a whole, so that it can be typed as it is shown. */
static void print_text(const Largest *l) {
        FILE *out = output_stream();

        if (arg_legend && l->n > 0)
                (void) fprintf(out, "%10s %10s  KEY\n", "SIZE", "TTL");
        for (size_t i = 0; i < l->n; i++) {
                const Row *row = &l->rows[i];
                bool ends = row->ttl_left_ms != UINT64_MAX;

                (void) fprintf(out, "%10s %10s  %s\n", format_bytes(FORMAT_BUFFER, row->size),
                               ends ? format_span(FORMAT_BUFFER, row->ttl_left_ms * UINT64_C(1000)) : "-",
                               row->key);
        }
}

CtlExit verb_maps_top(char **args, size_t n_args) {
        _cleanup_(entries_deinit) Entries entries = ENTRIES_INIT;
        _cleanup_(largest_deinit) Largest largest = { .max = arg_count ?: ROWS_DEFAULT };
        CtlExit r;

        if (largest.max > ROWS_MAX)
                return complain_usage("'maps top' shows %d entries at most", ROWS_MAX);
        largest.rows = must(calloc(largest.max, sizeof(*largest.rows)));
        r = entries_open(&entries, args[0], false);
        if (r)
                return r;
        r = largest_find(&largest, &entries);
        if (r == CTL_FAILED && largest.n == 0)
                return r;
        if (arg_json)
                print_json(&largest);
        else
                print_text(&largest);
        return r;
}
