#include <inttypes.h>
#include <string.h>

#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/base/terminal.h"
#include "daemon/ctl/leaks/leaks.h"
#include "daemon/ctl/view/table.h"
#include "proto/cleanup.h"

#define HOLDINGS_SHOWN 16U
#define GROUPS_SHOWN 20U
#define NAMED_MAX 3U /* clients of a group */

static void print_holdings(FILE *out, const Leaks *leaks) {
        static const TableColumn columns[] = {
                { "EPOCH", TABLE_LEFT, 0 },  { "STATE", TABLE_LEFT, 1 },    { "OPENED", TABLE_LEFT, 2 },
                { "CLASS", TABLE_RIGHT, 0 }, { "OBJECTS", TABLE_RIGHT, 0 }, { "BYTES", TABLE_RIGHT, 0 },
        };
        _cleanup_(table_freep) Table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));
        uint64_t now = format_now_usec();

        for (size_t i = 0; i < leaks->n_holdings && i < HOLDINGS_SHOWN; ++i) {
                const LeaksHolding *h = &leaks->holdings[i];

                table_add(table, "%s%s", format_epoch(FORMAT_BUFFER, h->epoch), h->older ? " and older" : "");
                table_add(table, "%s", h->state);
                table_add(table, "%s", format_ago(FORMAT_BUFFER, h->opened_usec, now));
                table_add(table, "%u", h->size);
                table_add(table, "%" PRIu64, h->n_objects);
                table_add(table, "%s", format_bytes(FORMAT_BUFFER, h->n_objects * h->size));
        }
        table_print(table, out, arg_legend && leaks->n_holdings > 0, terminal_table_width());
        if (leaks->n_holdings > HOLDINGS_SHOWN && arg_legend)
                (void) fprintf(out, "... and %zu more.\n", leaks->n_holdings - HOLDINGS_SHOWN);
        if (leaks->n_holdings == 0 && arg_legend)
                (void) fprintf(out, "No live objects.\n");
}

/* A process of another pid namespace has no number here. */
static const char *format_pid(char buffer[12], int32_t pid) {
        (void) snprintf(buffer, 12, pid > 0 ? "%d" : "?", pid);
        return buffer;
}

static void print_clients(FILE *out, const Leaks *leaks) {
        if (leaks->n_clients == 0 && arg_legend)
                (void) fprintf(
                        out, "\nNo client samples. To see where objects come from, start one with "
                             "TSLAB_SAMPLE=100 in its\nenvironment: each 100th allocation is noted then.\n");
        for (size_t i = 0; i < leaks->n_clients; ++i) {
                const LeaksClient *c = &leaks->clients[i];
                char pid[12];

                (void) fprintf(out, "%sProcess %s (%s)%s: 1 of %u allocations sampled, ", i ? "" : "\n",
                               format_pid(pid, c->pid), c->comm, c->gone ? ", gone" : "", c->every);
                if (c->unreadable)
                        (void) fprintf(out, "but its samples cannot be read.\n");
                else
                        (void) fprintf(out, "%" PRIu64 " so far, %" PRIu64 " live.\n", c->samples.n_taken,
                                       c->samples.n_live);
        }
}

static bool named_before(const StackGroup *group, size_t i) {
        for (size_t j = 0; j < i; ++j)
                if (group->samples[j].source == group->samples[i].source)
                        return true;
        return false;
}

static void print_group_clients(FILE *out, const Leaks *leaks, const StackGroup *group) {
        size_t n = 0;

        for (size_t i = 0; i < group->n_samples && n <= NAMED_MAX; ++i) {
                const LeaksClient *c = &leaks->clients[group->samples[i].source];
                char pid[12];

                if (named_before(group, i))
                        continue;
                if (n++ == NAMED_MAX)
                        (void) fprintf(out, " and others");
                else
                        (void) fprintf(out, "%s %s (%s%s)", n > 1 ? "," : "", c->comm,
                                       format_pid(pid, c->pid), c->gone ? ", gone" : "");
        }
}

static void print_frame(FILE *out, Leaks *leaks, const StackFrame *frame) {
        Symbol symbol;
        const char *path = leaks_symbol(leaks, frame, &symbol), *base = path ? strrchr(path, '/') : NULL;

        base = base ? base + 1 : path;
        if (symbol.name[0])
                (void) fprintf(out, "      %s+0x%" PRIx64, symbol.name, symbol.offset);
        else
                (void) fprintf(out, "      %s+0x%" PRIx64, base ?: "?", frame->offset);
        if (symbol.file[0])
                (void) fprintf(out, "  %s:%d", symbol.file, symbol.line);
        else if (symbol.name[0] && base)
                (void) fprintf(out, "  (%s)", base);
        (void) fputc('\n', out);
}

static void print_group(FILE *out, Leaks *leaks, const StackGroup *group) {
        uint64_t now = format_now_usec();

        (void) fprintf(out, "\nAbout %s, %s, from %s; the oldest %s, the newest %s;",
                       format_count(FORMAT_BUFFER, group->n_objects, "object", "objects"),
                       format_bytes(FORMAT_BUFFER, group->n_bytes),
                       format_count(FORMAT_BUFFER, group->n_samples, "sample", "samples"),
                       format_ago(FORMAT_BUFFER, group->oldest_usec, now),
                       format_ago(FORMAT_BUFFER, group->newest_usec, now));
        print_group_clients(out, leaks, group);
        (void) fprintf(out, "\n");
        for (uint32_t i = 0; i < group->samples->n_frames; ++i)
                print_frame(out, leaks, &group->samples->frames[i]);
}

void leaks_print(FILE *out, Leaks *leaks) {
        const Stacks *stacks = &leaks->stacks;

        print_holdings(out, leaks);
        print_clients(out, leaks);
        for (size_t i = 0; i < stacks->n_groups && i < GROUPS_SHOWN; ++i)
                print_group(out, leaks, &stacks->groups[i]);
        if (stacks->n_groups > GROUPS_SHOWN && arg_legend)
                (void) fprintf(out, "\n... and %zu more stacks; --json has all.\n",
                               stacks->n_groups - GROUPS_SHOWN);
}
