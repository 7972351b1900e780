#include "daemon/ctl/view/client-list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/base/complain.h"

typedef int (*Compare)(const Tslab__ClientInfo *a, const Tslab__ClientInfo *b);

static int compare_u64(uint64_t a, uint64_t b) {
        return (a > b) - (a < b);
}

#define COMPARE(_name, _sign, _member)                                                                       \
        static int compare_##_name(const Tslab__ClientInfo *a, const Tslab__ClientInfo *b) {                 \
                return _sign compare_u64(a->_member, b->_member);                                            \
        }

COMPARE(cached, -, cached_objects)
COMPARE(held, -, held_slabs)
COMPARE(pending, -, pending_objects)
COMPARE(allocs, -, allocs)
COMPARE(frees, -, frees)
COMPARE(threads, -, threads)
COMPARE(client, +, client)
COMPARE(user, +, uid)
COMPARE(role, -, role)
COMPARE(since, -, attached_usec)

static int compare_pid(const Tslab__ClientInfo *a, const Tslab__ClientInfo *b) {
        return (a->pid > b->pid) - (a->pid < b->pid);
}

static int compare_command(const Tslab__ClientInfo *a, const Tslab__ClientInfo *b) {
        return strcmp(a->comm, b->comm);
}

static const struct {
        const char *name;
        Compare compare;
} fields[_CLIENT_FIELD_N] = {
        [CLIENT_FIELD_CACHED] = { "cached", compare_cached },
        [CLIENT_FIELD_HELD] = { "held", compare_held },
        [CLIENT_FIELD_PENDING] = { "pending", compare_pending },
        [CLIENT_FIELD_ALLOCS] = { "allocs", compare_allocs },
        [CLIENT_FIELD_FREES] = { "frees", compare_frees },
        [CLIENT_FIELD_RECORDS] = { "records", compare_threads },
        [CLIENT_FIELD_THREADS] = { "threads", compare_threads },
        [CLIENT_FIELD_CLIENT] = { "client", compare_client },
        [CLIENT_FIELD_PID] = { "pid", compare_pid },
        [CLIENT_FIELD_USER] = { "user", compare_user },
        [CLIENT_FIELD_COMMAND] = { "command", compare_command },
        [CLIENT_FIELD_ROLE] = { "role", compare_role },
        [CLIENT_FIELD_SINCE] = { "since", compare_since },
};

bool client_sort_parse(const char *text, ClientSort *ret) {
        bool reverse = text[0] == '-';

        for (ClientField i = 0; i < _CLIENT_FIELD_N; ++i)
                if (!strcmp(text + reverse, fields[i].name)) {
                        *ret = (ClientSort){ .field = i, .reverse = reverse };
                        return true;
                }
        return false;
}

const char *client_sort_names(void) {
        static char names[128];

        names[0] = '\0';
        for (ClientField i = 0; i < _CLIENT_FIELD_N; ++i) {
                (void) strncat(names, i ? ", " : "", sizeof(names) - strlen(names) - 1);
                (void) strncat(names, fields[i].name, sizeof(names) - strlen(names) - 1);
        }
        return names;
}

void client_list_add(ClientList *list, const Tslab__ClientsReply *reply) {
        size_t n = reply ? reply->n_clients : 0;

        if (n == 0)
                return;
        list->clients = must(realloc(list->clients, (list->n_clients + n) * sizeof(*list->clients)));
        for (size_t i = 0; i < n; ++i) {
                Tslab__ClientInfo *client = &list->clients[list->n_clients++];

                *client = *reply->clients[i];
                client->comm = must(strdup(client->comm ?: ""));
        }
}

/* qsort() hands no argument through. */
static ClientSort sorting;

static int compare_clients(const void *x, const void *y) {
        static const ClientField then[] = { CLIENT_FIELD_CACHED, CLIENT_FIELD_HELD, CLIENT_FIELD_CLIENT,
                                            CLIENT_FIELD_PID };
        const Tslab__ClientInfo *a = x, *b = y;
        int r = (int) a->control_only - (int) b->control_only;

        if (r == 0)
                r = (sorting.reverse ? -1 : 1) * fields[sorting.field].compare(a, b);
        for (size_t i = 0; i < sizeof(then) / sizeof(then[0]) && r == 0; ++i)
                r = fields[then[i]].compare(a, b);
        return r;
}

void client_list_sort(ClientList *list, ClientSort sort) {
        sorting = sort;
        if (list->n_clients > 0)
                qsort(list->clients, list->n_clients, sizeof(*list->clients), compare_clients);
}

const Tslab__ClientInfo *client_list_waited(const ClientList *list, const Tslab__ClientInfo *client) {
        for (size_t i = 0; client->waits_for > 0 && i < list->n_clients; ++i)
                if (!list->clients[i].control_only && list->clients[i].client == client->waits_for - 1)
                        return &list->clients[i];
        return NULL;
}

void client_list_deinit(ClientList *list) {
        for (size_t i = 0; i < list->n_clients; ++i)
                free(list->clients[i].comm);
        free(list->clients);
        *list = (ClientList){};
}
