#include <inttypes.h>

#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/terminal.h"
#include "daemon/ctl/view/epoch-table.h"
#include "daemon/ctl/view/table.h"

static const TableColumn columns[] = {
        { "EPOCH", TABLE_RIGHT, 0 }, { "STATE", TABLE_LEFT, 0 },      { "USE", TABLE_LEFT, 4 },
        { "OWNER", TABLE_RIGHT, 8 }, { "SLABS", TABLE_RIGHT, 6 },     { "OBJECTS", TABLE_RIGHT, 0 },
        { "LIVE", TABLE_RIGHT, 1 },  { "COMMITTED", TABLE_RIGHT, 3 }, { "RECLAIMED", TABLE_RIGHT, 7 },
        { "OLDER", TABLE_RIGHT, 5 }, { "OPENED", TABLE_LEFT, 9 },     { "AGE", TABLE_RIGHT, 2 },
        { "LABEL", TABLE_TEXT, 0 },
};

static void add_state(Table *table, const Tslab__EpochInfo *epoch) {
        table_add(table, "%s", proto_epoch_state_to_string((int) epoch->state));
        if (epoch->state == TSLAB__EPOCH_STATE__EPOCH_STATE_CLOSING)
                table_style(table, STYLE_WARN);
        if (epoch->current)
                table_style(table, STYLE_GOOD);
        table_add(table, "%s", epoch->current ? "current" : epoch->reserved ? "reserved" : "");
        if (epoch->owner_pid != 0)
                table_add(table, epoch->owner_pid > 0 ? "%d" : "?", (int) epoch->owner_pid);
        else
                table_add(table, "%s", "");
}

static void add_epoch(Table *table, const Tslab__EpochInfo *epoch) {
        uint64_t now_usec = format_now_usec();
        uint64_t older = epoch->older ? epoch->older->live_objects : 0;

        table_add(table, "%s", format_epoch(FORMAT_BUFFER, epoch_number(epoch)));
        add_state(table, epoch);
        table_add(table, "%" PRIu64, epoch->slabs);
        table_add(table, "%" PRIu64, epoch->live_objects);
        table_add(table, "%s", format_bytes(FORMAT_BUFFER, epoch->live_bytes));
        table_add(table, "%s", format_bytes(FORMAT_BUFFER, epoch->committed_bytes));
        table_add(table, "%s", format_bytes(FORMAT_BUFFER, epoch->reclaimed_bytes));
        table_add(table, "%" PRIu64, older);
        if (older > 0)
                table_style(table, STYLE_WARN);
        table_add(table, "%s", format_time(FORMAT_BUFFER, epoch->opened_usec));
        table_add(table, "%s",
                  epoch->opened_usec && now_usec > epoch->opened_usec
                          ? format_span(FORMAT_BUFFER, now_usec - epoch->opened_usec)
                          : "");
        table_add(table, "%s", epoch->label ?: "");
}

Table *epoch_table_new(void) {
        return table_new(columns, sizeof(columns) / sizeof(columns[0]));
}

void epoch_table_print(Table *table, FILE *out, Tslab__EpochInfo *const *epochs, size_t n_epochs,
                       bool legend) {
        for (size_t i = 0; i < n_epochs; ++i)
                add_epoch(table, epochs[i]);
        table_print(table, out, legend, terminal_table_width());
}
