/* get, put, delete, keys, maps clear and maps remove: entries of maps, for people at a terminal and for scripts. */
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/base/terminal.h"
#include "daemon/ctl/entry/entry.h"
#include "daemon/ctl/output/json.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"
#include "proto/cleanup.h"
#include "proto/text.h"

/* A value that is no text is shown as its bytes, in hexadecimal. */
static void add_value(json_object *o, const uint8_t *value, size_t size) {
        _cleanup_(proto_freep) char *text = must(malloc(2 * size + 1));

        (void) memcpy(text, value, size);
        text[size] = '\0';
        if (strlen(text) == size && proto_text_is_clean(text, size)) {
                json_add_string(o, "value", text);
                return;
        }
        for (size_t i = 0; i < size; i++)
                (void) sprintf(text + 2 * i, "%02x", value[i]);
        json_add_string(o, "value_hex", text);
}

/* A counter is a number in the machine's byte order: shown in digits. */
static bool is_counter(const struct tslab_map_info *info) {
        return (info->flags & TSLAB_MAP_COUNTER) && info->value_size == sizeof(int64_t);
}

/* Programs put values, of any users: on a terminal, a byte that could steer it is shown as '?'. */
static void print_clean(FILE *out, const void *value, size_t size) {
        _cleanup_(proto_freep) char *text = must(malloc(size + 1)), *clean = must(malloc(size + 1));
        size_t n;

        (void) memcpy(text, value, size);
        text[size] = '\0';
        for (char *zero = text; (zero = memchr(zero, '\0', (size_t) (text + size - zero)));)
                *zero = '\1';
        for (char *at = text;; at += n + 1) {
                char end;

                n = strcspn(at, "\n\t");
                end = at[n];
                at[n] = '\0';
                proto_text_clean(clean, n + 1, at);
                (void) fputs(clean, out);
                if (at + n == text + size)
                        return;
                (void) fputc(end, out);
        }
}

static void print_value(const void *value, const struct tslab_map_info *info) {
        bool terminal = isatty(STDOUT_FILENO);
        FILE *out = output_stream();
        int64_t number;

        if (is_counter(info)) {
                (void) memcpy(&number, value, sizeof(number));
                (void) fprintf(out, "%" PRId64, number);
        } else if (terminal) {
                print_clean(out, value, info->value_size);
        } else {
                (void) fwrite(value, 1, info->value_size, out);
        }
        if (terminal)
                (void) fputc('\n', out);
}

static void show_value(const char *key, const void *value, const struct tslab_map_info *info) {
        json_object *o;
        int64_t number;

        if (!arg_json) {
                print_value(value, info);
                return;
        }
        o = json_new_object();
        json_add_string(o, "key", key);
        json_add_u64(o, "size", info->value_size);
        json_add_u64(o, "epoch", info->epoch);
        json_add_u64_or_null(o, "ttl_left_msec", info->ttl_left_ms != UINT64_MAX, info->ttl_left_ms);
        if (is_counter(info)) {
                (void) memcpy(&number, value, sizeof(number));
                json_add(o, "value", json_object_new_int64(number));
        } else {
                add_value(o, value, info->value_size);
        }
        output_json(o);
}

static CtlExit begin_entry(Entries *entries, char **args, bool writes, EntryKey *ret_key) {
        CtlExit r = entry_key_parse(args[1], ret_key);

        return r ?: entries_open(entries, args[0], writes);
}

CtlExit verb_get(char **args, size_t n_args) {
        _cleanup_(entries_deinit) Entries entries = ENTRIES_INIT;
        _cleanup_(proto_freep) void *value = NULL;
        struct tslab_map_info info = { .size = sizeof(info) };
        EntryKey key = {};
        CtlExit r;

        r = begin_entry(&entries, args, false, &key);
        r = r ?: entry_get(&entries, &key, args[1], &value, &info);
        if (r == CTL_DONE)
                show_value(args[1], value, &info);
        free(key.bytes);
        return r;
}

/* At most one byte more than a value may have: a stream may have no end. */
static CtlExit read_value(size_t size_max, char **ret_value, size_t *ret_size) {
        size_t size = 0, room = 4096, n;
        char *value = must(malloc(room));

        while (size <= size_max && (n = fread(value + size, 1, room - size, stdin)) > 0) {
                size += n;
                if (size == room)
                        value = must(realloc(value, room *= 2));
        }
        *ret_value = value;
        *ret_size = size;
        return ferror(stdin) ? complain("cannot read the value: %s", strerror(errno)) : CTL_DONE;
}

CtlExit verb_put(char **args, size_t n_args) {
        _cleanup_(entries_deinit) Entries entries = ENTRIES_INIT;
        _cleanup_(proto_freep) char *value = NULL;
        EntryKey key = {};
        size_t size = 0;
        CtlExit r;

        if (arg_map_set & ~MAP_SET_TTL)
                return complain_usage("of the options of a map, 'put' takes --ttl alone");
        r = begin_entry(&entries, args, true, &key);
        if (r == CTL_DONE && n_args > 2) {
                value = must(strdup(args[2]));
                size = strlen(value);
        } else if (r == CTL_DONE) {
                r = read_value(tslab_map_size_max(entries.map), &value, &size);
        }
        r = r ?: entry_put(&entries, &key, value, size, arg_map_set ? &arg_map_ttl_msec : NULL);
        free(key.bytes);
        return r;
}

CtlExit verb_delete(char **args, size_t n_args) {
        _cleanup_(entries_deinit) Entries entries = ENTRIES_INIT;
        EntryKey key = {};
        CtlExit r;

        r = begin_entry(&entries, args, true, &key);
        r = r ?: entry_delete(&entries, &key, args[1]);
        free(key.bytes);
        return r;
}

static CtlExit confirm_clear(const Entries *entries) {
        struct tslab_map_statistics s = { .size = sizeof(s) };
        int r = tslab_map_statistics(entries->map, &s);

        if (r < 0)
                return entries_complain(entries, r);
        if (!isatty(STDIN_FILENO))
                return complain_usage(
                        "'maps clear' deletes all entries: give --yes where nobody can be asked");
        (void) fprintf(stderr,
                       "%" PRIu64 " entries of map '%s' are deleted, for every program. Go on? [y/N] ",
                       s.entries, entries->name);
        return terminal_answers_yes() ? CTL_DONE : complain("nothing was deleted");
}

CtlExit verb_maps_clear(char **args, size_t n_args) {
        _cleanup_(entries_deinit) Entries entries = ENTRIES_INIT;
        json_object *o;
        uint64_t n = 0;
        CtlExit r;

        r = entries_open(&entries, args[0], true);
        if (r == CTL_DONE && !arg_yes)
                r = confirm_clear(&entries);
        r = r ?: entries_delete_all(&entries, &n);
        if (r)
                return r;
        if (!arg_json) {
                (void) fprintf(output_stream(), "Deleted %s of map '%s'.\n",
                               format_count(FORMAT_BUFFER, n, "entry", "entries"), args[0]);
                return CTL_DONE;
        }
        o = json_new_object();
        json_add_string(o, "map", args[0]);
        json_add_u64(o, "deleted", n);
        output_json(o);
        return CTL_DONE;
}

static CtlExit confirm_remove(const Entries *entries) {
        struct tslab_map_statistics s = { .size = sizeof(s) };
        int r = tslab_map_statistics(entries->map, &s);

        if (r < 0)
                return entries_complain(entries, r);
        if (!isatty(STDIN_FILENO))
                return complain_usage(
                        "'maps remove' removes the map with all its entries: give --yes where nobody "
                        "can be asked");
        (void) fprintf(stderr, "Map '%s' is removed, with %s, for every program. Go on? [y/N] ",
                       entries->name, format_count(FORMAT_BUFFER, s.entries, "entry", "entries"));
        return terminal_answers_yes() ? CTL_DONE : complain("nothing was removed");
}

CtlExit verb_maps_remove(char **args, size_t n_args) {
        _cleanup_(entries_deinit) Entries entries = ENTRIES_INIT;
        json_object *o;
        CtlExit r;

        r = entries_open(&entries, args[0], true);
        if (r == CTL_DONE && !arg_yes)
                r = confirm_remove(&entries);
        if (r == CTL_DONE) {
                int error = tslab_map_remove(entries.pool, args[0]);

                r = error < 0 ? entries_complain(&entries, error) : CTL_DONE;
        }
        if (r)
                return r;
        if (!arg_json) {
                (void) fprintf(output_stream(),
                               "Removed map '%s'. Its memory goes back in the next seconds.\n", args[0]);
                return CTL_DONE;
        }
        o = json_new_object();
        json_add_string(o, "map", args[0]);
        output_json(o);
        return CTL_DONE;
}

#define KEYS_PART 1000 /* keys between two flushes */

/* Backslashes are part of a key as it is shown. */
static bool is_match(const char *key) {
        return !arg_match || fnmatch(arg_match, key, FNM_NOESCAPE) == 0;
}

/* Where nobody pages, keys come as they are met. True: nobody reads on. */
static bool show_key(const char *key, uint64_t n) {
        bool gone = false;

        (void) fprintf(output_stream(), "%s\n", key);
        if (n % KEYS_PART == 0 && !(arg_pager && isatty(STDOUT_FILENO)))
                return output_flush_part(&gone) || gone;
        return false;
}

CtlExit verb_keys(char **args, size_t n_args) {
        _cleanup_(entries_deinit) Entries entries = ENTRIES_INIT;
        struct tslab_map_cursor cursor = {};
        json_object *array;
        bool gone = false;
        uint64_t n = 0;
        CtlExit r;
        int next;

        r = entries_open(&entries, args[0], false);
        if (r)
                return r;
        array = json_new_array();
        for (next = 1; !gone && (arg_count == 0 || n < arg_count);) {
                struct tslab_map_info info = { .size = sizeof(info) };
                _cleanup_(proto_freep) char *key = NULL;

                next = entry_next(&entries, &cursor, &key, &info);
                if (next != 1 && next != -EUCLEAN)
                        break;
                if (next != 1)
                        r = CTL_FAILED;
                if (!is_match(key))
                        continue;
                n++;
                if (arg_json)
                        json_append_string(array, key);
                else
                        gone = show_key(key, n);
        }
        if (arg_json && (next >= 0 || next == -EUCLEAN))
                output_json(array);
        else
                (void) json_object_put(array);
        return next < 0 ? CTL_FAILED : r;
}
