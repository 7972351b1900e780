#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>

#include "daemon/ctl/connect.h"
#include "daemon/ctl/format.h"
#include "daemon/ctl/json.h"
#include "daemon/ctl/json-reply.h"
#include "daemon/ctl/options.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/table.h"
#include "daemon/ctl/verbs.h"

/* Where the parts of a long answer are gathered. */
typedef struct Gathered {
        Table *table;
        json_object *array;
} Gathered;

static void add_user(Table *table, uint32_t uid) {
        const struct passwd *user = getpwuid(uid);

        if (user)
                table_add(table, "%s", user->pw_name);
        else
                table_add(table, "%u", uid);
}

static void add_row(Table *table, const Tslab__ClientInfo *client) {
        /* of one that has not attached, the numbers mean nothing */
        bool attached = !client->control_only;
        const uint64_t numbers[] = {
                client->threads,        client->allocs,          client->frees,
                client->cached_objects, client->pending_objects, client->held_slabs,
        };

        table_add(table, attached ? "%u" : "", client->client);
        table_add(table, client->pid ? "%d" : "?", client->pid);
        add_user(table, client->uid);
        table_add(table, "%s", client->comm ?: "");
        table_add(table, "%s", proto_role_to_string(client->role) ?: "");
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); ++i)
                table_add(table, attached ? "%" PRIu64 : "", numbers[i]);
        table_add(table, "%s", format_ago(FORMAT_BUFFER, client->attached_usec, format_now_usec()));
}

static void gather(Gathered *gathered, const Tslab__ClientsReply *reply) {
        for (size_t i = 0; reply && i < reply->n_clients; ++i) {
                if (gathered->array)
                        json_append(gathered->array, json_client(reply->clients[i]));
                else
                        add_row(gathered->table, reply->clients[i]);
        }
}

static int on_more(void *userdata, const ProtoReply *reply) {
        if (reply->body_case == TSLAB__REPLY__BODY_CLIENTS)
                gather(userdata, reply->clients);
        return 0;
}

static void print(Gathered *gathered) {
        size_t n = table_n_rows(gathered->table);

        if (gathered->array) {
                output_json(proto_steal(&gathered->array));
                return;
        }

        table_print(gathered->table, output_stream(), arg_legend && n > 0);
        if (arg_legend)
                (void) fprintf(output_stream(), "%s%s.\n", n ? "\n" : "",
                               format_count(FORMAT_BUFFER, n, "client", "clients"));
}

CtlExit verb_clients(char **args, size_t n_args) {
        static const TableColumn columns[] = {
                { "CLIENT", TABLE_RIGHT },  { "PID", TABLE_RIGHT },   { "USER", TABLE_LEFT },
                { "COMMAND", TABLE_LEFT },  { "ROLE", TABLE_LEFT },   { "THREADS", TABLE_RIGHT },
                { "ALLOCS", TABLE_RIGHT },  { "FREES", TABLE_RIGHT }, { "CACHED", TABLE_RIGHT },
                { "PENDING", TABLE_RIGHT }, { "HELD", TABLE_RIGHT },  { "SINCE", TABLE_LEFT },
        };
        _cleanup_(table_freep) Table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        Tslab__Clients clients = TSLAB__CLIENTS__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Gathered gathered = { .table = table };
        CtlExit r;

        request.body_case = TSLAB__REQUEST__BODY_CLIENTS;
        request.clients = &clients;
        gathered.array = arg_json ? json_new_array() : NULL;

        r = connection_open(&connection);
        r = r ?: connection_call(&connection, &request, CONNECTION_USEC, on_more, &gathered, &reply);
        if (r == CTL_DONE) {
                gather(&gathered, reply->clients);
                print(&gathered);
        }
        (void) json_object_put(gathered.array);
        return r;
}
