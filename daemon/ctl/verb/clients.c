#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>

#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/base/terminal.h"
#include "daemon/ctl/output/json-reply.h"
#include "daemon/ctl/output/json.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"
#include "daemon/ctl/view/client-list.h"
#include "daemon/ctl/view/table.h"

static void add_user(Table *table, uint32_t uid) {
        const struct passwd *user = getpwuid(uid);

        if (user)
                table_add(table, "%s", user->pw_name);
        else
                table_add(table, "%u", uid);
}

/* "812": one thread or task waits for a claim of process 812; "812 (3)": of three that wait one does. */
static void add_wait(Table *table, const Tslab__ClientInfo *client, const ClientList *list) {
        const Tslab__ClientInfo *other = client_list_waited(list, client);
        char pid[16] = "?";

        if (other && other->pid)
                (void) snprintf(pid, sizeof(pid), "%d", other->pid);
        if (client->waiting > 1)
                table_add(table, "%s (%u)", pid, client->waiting);
        else
                table_add(table, "%s", client->waiting ? pid : "");
}

static void add_client_row(Table *table, const Tslab__ClientInfo *client, const ClientList *list) {
        /* the numbers of a process that has not attached mean nothing */
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
        add_wait(table, client, list);
        table_add(table, "%s", format_ago(FORMAT_BUFFER, client->attached_usec, format_now_usec()));
}

static int on_clients_part(void *userdata, const ProtoReply *reply) {
        if (reply->body_case == TSLAB__REPLY__BODY_CLIENTS)
                client_list_add(userdata, reply->clients);
        return 0;
}

static CtlExit ask_clients(ClientList *list) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        Tslab__Clients clients = TSLAB__CLIENTS__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        CtlExit r;

        request.body_case = TSLAB__REQUEST__BODY_CLIENTS;
        request.clients = &clients;
        r = ask_daemon(&connection, &request, on_clients_part, list, &reply);
        if (r == CTL_DONE)
                client_list_add(list, reply->clients);
        return r;
}

static void print_clients_json(const ClientList *list) {
        json_object *array = json_new_array();

        for (size_t i = 0; i < list->n_clients; ++i)
                json_append(array,
                            json_client(&list->clients[i], client_list_waited(list, &list->clients[i])));
        output_json(array);
}

static void print_client_table(Table *table, const ClientList *list) {
        size_t n = list->n_clients;

        for (size_t i = 0; i < n; ++i)
                add_client_row(table, &list->clients[i], list);
        table_print(table, output_stream(), arg_legend && n > 0, terminal_table_width());
        if (arg_legend)
                (void) fprintf(output_stream(), "%s%s.\n", n ? "\n" : "",
                               format_count(FORMAT_BUFFER, n, "client", "clients"));
}

static CtlExit parse_sort(ClientSort *ret) {
        if (!arg_sort || client_sort_parse(arg_sort, ret))
                return CTL_DONE;
        return complain_usage("'%s' is nothing to sort by; --sort takes one of: %s", arg_sort,
                              client_sort_names());
}

CtlExit verb_clients(char **args, size_t n_args) {
        static const TableColumn columns[] = {
                { "CLIENT", TABLE_RIGHT, 6 },  { "PID", TABLE_RIGHT, 0 },   { "USER", TABLE_LEFT, 7 },
                { "COMMAND", TABLE_TEXT, 0 },  { "ROLE", TABLE_LEFT, 9 },   { "RECORDS", TABLE_RIGHT, 3 },
                { "ALLOCS", TABLE_RIGHT, 2 },  { "FREES", TABLE_RIGHT, 5 }, { "CACHED", TABLE_RIGHT, 0 },
                { "PENDING", TABLE_RIGHT, 4 }, { "HELD", TABLE_RIGHT, 1 },  { "WAITS FOR", TABLE_LEFT, 10 },
                { "SINCE", TABLE_LEFT, 8 },
        };
        _cleanup_(table_freep) Table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));
        ClientSort sort = { .field = CLIENT_FIELD_CACHED };
        _cleanup_(client_list_deinit) ClientList list = {};
        CtlExit r;

        r = parse_sort(&sort);
        r = r ?: table_select(table, arg_columns);
        r = r ?: ask_clients(&list);
        if (r)
                return r;

        client_list_sort(&list, sort);
        if (arg_json)
                print_clients_json(&list);
        else
                print_client_table(table, &list);
        return CTL_DONE;
}
