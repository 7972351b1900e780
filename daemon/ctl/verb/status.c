#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/ctl/advice/pool-hints.h"
#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/base/style.h"
#include "daemon/ctl/base/terminal.h"
#include "daemon/ctl/output/json-reply.h"
#include "daemon/ctl/output/json.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"

#define BAR_WIDTH 50 /* at most, and at least */
#define BAR_WIDTH_MIN 10
#define BAR_INDENT 12

static const Tslab__EpochInfo *current_epoch(const Tslab__StatsReply *stats) {
        for (size_t i = 0; i < stats->n_epochs; ++i)
                if (stats->epochs[i]->current)
                        return stats->epochs[i];

        return NULL;
}

static size_t count_epochs(const Tslab__StatsReply *stats, Tslab__EpochState state) {
        size_t n = 0;

        for (size_t i = 0; i < stats->n_epochs; ++i)
                n += stats->epochs[i]->state == state;
        return n;
}

static unsigned bar_width(void) {
        unsigned columns = terminal_table_width();

        if (columns == 0 || columns >= BAR_INDENT + 2 + BAR_WIDTH)
                return BAR_WIDTH;
        return columns > BAR_INDENT + 2 + BAR_WIDTH_MIN ? columns - BAR_INDENT - 2 : BAR_WIDTH_MIN;
}

static void print_arena(FILE *out, const Tslab__StatsReply *stats) {
        uint64_t used = stats_used_bytes(stats);

        (void) fprintf(out, "     Arena: %s, committed %s, of these retained %s; metadata %s\n",
                       format_bytes(FORMAT_BUFFER, stats->size_bytes),
                       format_bytes(FORMAT_BUFFER, stats->committed_bytes),
                       format_bytes(FORMAT_BUFFER, stats->retained_bytes),
                       format_bytes(FORMAT_BUFFER, stats->metadata_bytes));
        (void) fprintf(
                out, "%*s%s\n", BAR_INDENT, "",
                format_bar(FORMAT_BUFFER, bar_width(), used, stats->retained_bytes, stats->size_bytes));
        (void) fprintf(out, "   Objects: %" PRIu64 " live (%s); %s in the caches of threads\n",
                       stats->live_objects, format_bytes(FORMAT_BUFFER, stats->live_bytes),
                       format_count(FORMAT_BUFFER, stats->cached_objects, "free slot", "free slots"));
}

static void print_huge(FILE *out, const Tslab__StatsReply *stats) {
        static const char refused[] = "      Huge: the kernel makes no huge pages:\n            ";
        static const char folder[] = "/sys/kernel/mm/transparent_hugepage";

        switch (stats->huge) {
        case TSLAB__HUGE__HUGE_YES:
                (void) fprintf(out, "      Huge: %s in huge pages",
                               format_bytes(FORMAT_BUFFER, stats->huge_bytes));
                if (stats->huge_splits > 0)
                        (void) fprintf(out, "; %s a part to trims and closes",
                                       format_count(FORMAT_BUFFER, stats->huge_splits, "huge page lost",
                                                    "huge pages lost"));
                (void) fprintf(out, "\n");
                break;
        case TSLAB__HUGE__HUGE_REFUSED:
                (void) fprintf(out, "%sit is older than Linux 6.1, or has none for shared memory\n", refused);
                break;
        case TSLAB__HUGE__HUGE_DENIED:
                (void) fprintf(out, "%s%s/shmem_enabled is 'deny'\n", refused, folder);
                break;
        case TSLAB__HUGE__HUGE_SIZE_NEVER:
                (void) fprintf(out, "%s%s/hugepages-2048kB/shmem_enabled is 'never'\n", refused, folder);
                break;
        default:
                break;
        }
}

static void print_limit(FILE *out, const Tslab__StatsReply *stats) {
        if (stats->limit_bytes > 0)
                (void) fprintf(out, "     Limit: %s of memory for %s, used %s; left for the pool %s\n",
                               format_bytes(FORMAT_BUFFER, stats->limit_bytes), stats->limit_cgroup,
                               format_bytes(FORMAT_BUFFER, stats->limit_used_bytes),
                               format_bytes(FORMAT_BUFFER, stats->limit_left_bytes));
}

static void print_epoch_lines(FILE *out, const Tslab__StatsReply *stats) {
        const Tslab__EpochInfo *current = current_epoch(stats);
        size_t n_closing = count_epochs(stats, TSLAB__EPOCH_STATE__EPOCH_STATE_CLOSING);

        (void) fprintf(out, "     Epoch: ");
        if (current) {
                (void) fprintf(out, "%s", format_epoch(FORMAT_BUFFER, epoch_number(current)));
                if (current->label && current->label[0])
                        (void) fprintf(out, " '%s'", current->label);
                (void) fprintf(out, ", opened %s; ",
                               format_ago(FORMAT_BUFFER, current->opened_usec, format_now_usec()));
        }
        (void) fprintf(out, "%zu open, %s%zu closing%s, %zu drained\n",
                       count_epochs(stats, TSLAB__EPOCH_STATE__EPOCH_STATE_OPEN),
                       style_begin(n_closing ? STYLE_WARN : STYLE_PLAIN), n_closing,
                       style_end(n_closing ? STYLE_WARN : STYLE_PLAIN),
                       count_epochs(stats, TSLAB__EPOCH_STATE__EPOCH_STATE_DRAINED));
}

static void print_pool_hints(FILE *out, const Hints *hints) {
        for (size_t i = 0; i < hints->n_hints; ++i)
                (void) fprintf(out, "%s%s%s%s\n", i ? "" : "\n", style_begin(STYLE_WARN), hints->hints[i],
                               style_end(STYLE_WARN));
}

static void print_keep(FILE *out, const Tslab__StatsReply *stats) {
        _cleanup_(proto_freep) char *clean = must_clean(stats->keep_file ?: "");

        if (*clean)
                (void) fprintf(out, "      Keep: maps go to %s when the pool stops\n", clean);
}

static void print_status(FILE *out, const char *path, const Tslab__StatsReply *stats, const Hints *hints) {
        Style style = hints->n_hints ? STYLE_WARN : STYLE_GOOD;
        _cleanup_(proto_freep) char *clean = must_clean(path);

        (void) fprintf(out, "%s*%s %s - tslab pool\n", style_begin(style), style_end(style), stats->pool);
        (void) fprintf(out, "    Socket: %s\n", clean);
        (void) fprintf(out, "    Daemon: pid %d, version %s, up for %s\n", stats->daemon_pid,
                       stats->daemon_version, format_span(FORMAT_BUFFER, stats->uptime_usec));
        print_arena(out, stats);
        print_huge(out, stats);
        print_limit(out, stats);
        print_keep(out, stats);
        (void) fprintf(out, "   Clients: %s; %u of %u thread records in use\n",
                       format_count(FORMAT_BUFFER, stats->clients, "process", "processes"), stats->threads,
                       stats->n_records > 0 ? stats->n_records - 1 : 0); /* one is the daemon's */
        print_epoch_lines(out, stats);
        print_pool_hints(out, hints);
}

static json_object *status_to_json(const char *path, const Tslab__StatsReply *stats, const Hints *hints) {
        json_object *o = json_stats(stats), *array = json_new_array();
        const Tslab__EpochInfo *current = current_epoch(stats);

        for (size_t i = 0; i < hints->n_hints; ++i)
                json_append_string(array, hints->hints[i]);
        json_add_string(o, "socket", path);
        json_add_u64_or_null(o, "current_epoch", current, current ? epoch_number(current) : 0);
        json_add(o, "hints", array);
        return o;
}

/* While the loop hangs, a stand-in answers. */
static CtlExit check_service(const Tslab__StatsReply *stats) {
        if (stats->page_wait_seconds == 0)
                return CTL_DONE;
        return complain("the daemon of pool '%s' has waited for %" PRIu64
                        " s for the lock of the pool's memory: %s",
                        stats->pool, stats->page_wait_seconds, stats->page_wait_cause);
}

CtlExit verb_status(char **args, size_t n_args) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        char command[CONNECTION_COMMAND_SIZE];
        Hints hints;
        CtlExit r;

        r = ask_stats(&connection, &reply);
        if (r)
                return r;
        if (arg_check)
                return check_service(reply->stats);

        connection_command(command, connection.path);
        hints_find(&hints, reply->stats, command);
        if (arg_json)
                output_json(status_to_json(connection.path, reply->stats, &hints));
        else
                print_status(output_stream(), connection.path, reply->stats, &hints);
        return CTL_DONE;
}
