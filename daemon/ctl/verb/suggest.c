#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "daemon/ctl/advice/advice.h"
#include "daemon/ctl/advice/limits.h"
#include "daemon/ctl/advice/settings-file.h"
#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/output/json.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"
#include "proto/cleanup.h"

#define VALUE_SIZE SETTING_VALUE_SIZE
#define EARLY_USEC (UINT64_C(600) * 1000000)

static const char *size_text(char *buffer, uint64_t bytes) {
        static const char units[] = "KMG";
        uint64_t n = bytes;
        int unit = -1;

        while (n > 0 && n % 1024 == 0 && unit < 2) {
                n /= 1024;
                unit++;
        }
        (void) snprintf(buffer, VALUE_SIZE, unit < 0 ? "%" PRIu64 "%.0s" : "%" PRIu64 "%.1s", n,
                        unit < 0 ? "" : units + unit);
        return buffer;
}

static const char *number_text(char *buffer, uint64_t n) {
        (void) snprintf(buffer, VALUE_SIZE, "%" PRIu64, n);
        return buffer;
}

static const char *classes_text(char *buffer, const AdviceClasses *classes) {
        int n = 0;

        buffer[0] = 0;
        for (uint32_t i = 0; i < classes->n; ++i)
                n += snprintf(buffer + n, VALUE_SIZE - (size_t) n, "%s%u", i ? "," : "", classes->sizes[i]);
        return buffer;
}

/* One setting, as all of them are shown. An empty value: the daemon does not say enough. */
typedef struct Setting {
        const char *name;
        char value[VALUE_SIZE], current[VALUE_SIZE];
        const char *why;
        uint64_t saved_bytes, unreserved_bytes;
        bool changed;
} Setting;

enum {
        LINE_RETAIN,
        LINE_SIZE,
        LINE_CLASSES,
        LINE_THREADS,
        N_LINES,
};

static void set_number(Setting *line, const char *name, const AdviceNumber *number,
                       const char *(*text)(char *buffer, uint64_t n)) {
        *line = (Setting){
                .name = name,
                .why = number->why,
                .saved_bytes = number->saved_bytes,
                .unreserved_bytes = number->unreserved_bytes,
                .changed = number->value != number->current,
        };
        (void) text(line->value, number->value);
        (void) text(line->current, number->current);
}

static void set_classes(Setting *line, const AdviceClasses *classes, const Tslab__Peaks *peaks) {
        AdviceClasses current = {};

        for (size_t i = 0; i < peaks->n_classes && i < ADVICE_CLASSES_MAX; ++i)
                current.sizes[current.n++] = peaks->classes[i]->size;
        *line = (Setting){
                .name = "TSLAB_CLASSES",
                .why = classes->why,
                .saved_bytes = classes->saved_bytes,
                .changed = classes->changed,
        };
        (void) classes_text(line->value, classes);
        (void) classes_text(line->current, &current);
}

static void print_saved(FILE *out, const Setting *line) {
        if (line->saved_bytes > 0)
                (void) fprintf(out, "; this would have saved %s",
                               format_bytes(FORMAT_BUFFER, line->saved_bytes));
        if (line->unreserved_bytes > 0)
                (void) fprintf(out, "%s %s of address space",
                               line->saved_bytes > 0 ? ", and" : "; this would have saved",
                               format_bytes(FORMAT_BUFFER, line->unreserved_bytes));
}

static void print_line(FILE *out, const Setting *line) {
        (void) fprintf(out, "\n# %c%s.\n", toupper((unsigned char) line->why[0]), line->why + 1);
        if (line->changed) {
                (void) fprintf(out, "# It is %s", line->current);
                print_saved(out, line);
        } else {
                (void) fprintf(out, "# As it is");
        }
        (void) fprintf(out, ".\n%s=%s\n", line->name, line->value);
}

/* Says how long the pool was watched, and since when there are samples. */
static void print_head(FILE *out, const Tslab__StatsReply *stats) {
        const Tslab__Peaks *peaks = stats->peaks;

        if (peaks->looks > 0)
                (void) fprintf(
                        out,
                        "# Settings that would have fitted pool %s since %s (seen %s, with at most %s\n"
                        "# attached), for /etc/tslab/%s.conf. All but TSLAB_RETAIN need a new pool.\n",
                        stats->pool, format_time(FORMAT_BUFFER, peaks->since_usec),
                        format_count(FORMAT_BUFFER, peaks->looks, "time", "times"),
                        format_count(FORMAT_BUFFER, peaks->clients, "client", "clients"), stats->pool);
        else
                (void) fprintf(
                        out,
                        "# Settings of pool %s as they are: its daemon looks at it about once a second, "
                        "and has\n# not looked so far.\n",
                        stats->pool);
        if (stats->uptime_usec < EARLY_USEC)
                (void) fprintf(
                        out,
                        "# The daemon started %s ago, and has samples of sizes only since then: ask again "
                        "after a\n# real load.\n",
                        format_span(FORMAT_BUFFER, stats->uptime_usec));
}

/* A command would need the name quoted: it is a client's. */
static void print_map_limit(FILE *out, const Tslab__MapInfo *map, const AdviceLimit *limit) {
        char text[VALUE_SIZE];

        (void) fprintf(out, "\n# Map '%s': %s.\n# Its limit is %s.", map->map ?: "", limit->why,
                       size_text(text, map->limit_bytes));
        if (limit->changed)
                (void) fprintf(out, " 'tslabctl maps set MAP --limit=%s' doubles it.",
                               size_text(text, limit->value));
        (void) fputc('\n', out);
}

/* Limits of maps are no settings: they stand in remarks. */
static void print_lines(FILE *out, const Tslab__StatsReply *stats, const Setting *lines) {
        AdviceLimit limit;

        print_head(out, stats);
        for (size_t i = 0; i < N_LINES; ++i)
                if (lines[i].value[0])
                        print_line(out, &lines[i]);
        for (size_t i = 0; i < stats->n_maps; ++i)
                if (stats->maps[i]->limit_bytes) {
                        advice_find_limit(&limit, stats->maps[i], stats);
                        print_map_limit(out, stats->maps[i], &limit);
                }
}

static json_object *line_to_json(const Setting *line) {
        json_object *o = json_new_object();

        json_add_string(o, "name", line->name);
        json_add_string(o, "value", line->value);
        json_add_string(o, "current", line->current);
        json_add_bool(o, "changed", line->changed);
        json_add_u64(o, "saved_bytes", line->saved_bytes);
        json_add_u64(o, "unreserved_bytes", line->unreserved_bytes);
        json_add_string(o, "why", line->why);
        return o;
}

static json_object *limits_to_json(const Tslab__StatsReply *stats) {
        json_object *array = json_new_array();
        AdviceLimit limit;

        for (size_t i = 0; i < stats->n_maps; ++i) {
                const Tslab__MapInfo *map = stats->maps[i];
                json_object *o;

                if (!map->limit_bytes)
                        continue;
                advice_find_limit(&limit, map, stats);
                o = json_new_object();
                json_add_string(o, "map", map->map);
                json_add_u64(o, "value_bytes", limit.value);
                json_add_u64(o, "current_bytes", map->limit_bytes);
                json_add_bool(o, "changed", limit.changed);
                json_add_string(o, "why", limit.why);
                json_append(array, o);
        }
        return array;
}

static json_object *lines_to_json(const Tslab__StatsReply *stats, const Setting *lines) {
        json_object *o = json_new_object(), *array = json_new_array();

        for (size_t i = 0; i < N_LINES; ++i)
                if (lines[i].value[0])
                        json_append(array, line_to_json(&lines[i]));
        json_add_string(o, "pool", stats->pool);
        json_add_u64(o, "since_usec", stats->peaks->since_usec);
        json_add_u64(o, "looks", stats->peaks->looks);
        json_add(o, "settings", array);
        json_add(o, "map_limits", limits_to_json(stats));
        return o;
}

static size_t take_changes(SettingsChange *ret, const Setting *lines) {
        size_t n = 0;

        for (size_t i = 0; i < N_LINES; ++i)
                if (lines[i].changed)
                        ret[n++] = (SettingsChange){ .name = lines[i].name, .value = lines[i].value };
        return n;
}

static void print_changes(FILE *out, const Tslab__StatsReply *stats, const SettingsChange *changes, size_t n,
                          const char *backup) {
        _cleanup_(proto_freep) char *path = must_clean(arg_write), *old = must_clean(backup);

        if (n == 0)
                (void) fprintf(out,
                               "%s stays as it is: no other settings would have fitted pool %s better.\n",
                               path, stats->pool);
        for (size_t i = 0; i < n; ++i)
                (void) fprintf(out, "%s: %s=%s (%s%s)\n", path, changes[i].name, changes[i].value,
                               changes[i].line ? "was " : "a new line", changes[i].was);
        if (*backup)
                (void) fprintf(out, "The old file is %s.\n", old);
        if (n > 0)
                (void) fprintf(
                        out,
                        "'systemctl reload tslabd@%s' applies TSLAB_RETAIN. Other settings need a new pool: "
                        "see tslab.conf(5).\n",
                        stats->pool);
}

static json_object *changes_to_json(const SettingsChange *changes, size_t n, const char *backup) {
        json_object *o = json_new_object(), *array = json_new_array();

        for (size_t i = 0; i < n; ++i) {
                json_object *change = json_new_object();

                json_add_string(change, "name", changes[i].name);
                json_add_string(change, "value", changes[i].value);
                json_add_string(change, "was", changes[i].was);
                json_append(array, change);
        }
        json_add_string(o, "file", arg_write);
        json_add_string(o, "backup", backup);
        json_add(o, "changes", array);
        return o;
}

static CtlExit write_lines(const Tslab__StatsReply *stats, const Setting *lines) {
        SettingsChange changes[N_LINES];
        size_t n = take_changes(changes, lines);
        char backup[SETTINGS_BACKUP_SIZE];
        CtlExit r;

        r = settings_file_merge(arg_write, changes, &n, backup);
        if (r)
                return r;
        if (arg_json)
                output_json(changes_to_json(changes, n, backup));
        else
                print_changes(output_stream(), stats, changes, n, backup);
        return CTL_DONE;
}

CtlExit verb_suggest(char **args, size_t n_args) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        const Tslab__StatsReply *stats;
        Setting lines[N_LINES];
        Advice advice;
        CtlExit r;

        r = ask_stats(&connection, &reply);
        if (r)
                return r;
        stats = reply->stats;
        if (!stats->peaks)
                return complain(
                        "the daemon keeps no high-water marks: it is older than this tslabctl; restart it");

        advice_find(&advice, stats);
        set_number(&lines[LINE_RETAIN], "TSLAB_RETAIN", &advice.retain, size_text);
        set_number(&lines[LINE_SIZE], "TSLAB_SIZE", &advice.size, size_text);
        set_classes(&lines[LINE_CLASSES], &advice.classes, stats->peaks);
        set_number(&lines[LINE_THREADS], "TSLAB_THREADS", &advice.threads, number_text);
        if (arg_write)
                return write_lines(stats, lines);
        if (arg_json)
                output_json(lines_to_json(stats, lines));
        else
                print_lines(output_stream(), stats, lines);
        return CTL_DONE;
}
