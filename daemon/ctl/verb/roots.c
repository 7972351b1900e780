#include <inttypes.h>
#include <stdio.h>

#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/base/terminal.h"
#include "daemon/ctl/output/json-reply.h"
#include "daemon/ctl/output/json.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"
#include "daemon/ctl/view/table.h"

static void print_root_table(FILE *out, const Tslab__RootsReply *reply) {
        static const TableColumn columns[] = {
                { "NAME", TABLE_TEXT, 0 },
                { "HANDLE", TABLE_LEFT, 0 },
                { "SIZE", TABLE_RIGHT, 0 },
                { "STATE", TABLE_LEFT, 0 },
        };
        _cleanup_(table_freep) Table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));

        for (size_t i = 0; i < reply->n_roots; ++i) {
                const Tslab__RootInfo *root = reply->roots[i];

                table_add(table, "%s", root->name);
                table_add(table, "0x%016" PRIx64, root->handle);
                table_add(table, root->stale ? "" : "%u", root->size);
                table_add(table, "%s", root->stale ? "stale" : "live");
                table_style(table, root->stale ? STYLE_WARN : STYLE_PLAIN);
        }

        table_print(table, out, arg_legend && reply->n_roots > 0, terminal_table_width());
        if (arg_legend)
                (void) fprintf(out, "%s%s.\n", reply->n_roots ? "\n" : "",
                               format_count(FORMAT_BUFFER, reply->n_roots, "root", "roots"));
}

static void print_roots_json(const Tslab__RootsReply *reply) {
        json_object *array = json_new_array();

        for (size_t i = 0; i < reply->n_roots; ++i)
                json_append(array, json_root(reply->roots[i]));
        output_json(array);
}

CtlExit verb_roots(char **args, size_t n_args) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        Tslab__Roots roots = TSLAB__ROOTS__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        CtlExit r;

        request.body_case = TSLAB__REQUEST__BODY_ROOTS;
        request.roots = &roots;

        r = ask_daemon(&connection, &request, NULL, NULL, &reply);
        if (r)
                return r;

        if (arg_json)
                print_roots_json(reply->roots);
        else
                print_root_table(output_stream(), reply->roots);
        return CTL_DONE;
}
