#pragma once

/*
 * The processes that are connected, copied out of replies, in an order that is asked for.
 *
 *      _cleanup_(client_list_deinit) ClientList list = {};
 *
 *      client_list_add(&list, reply->clients);
 *      client_list_sort(&list, sort);
 */

#include <stdbool.h>
#include <stddef.h>

#include "proto/message.h"

/* The columns of 'clients', by name. */
typedef enum ClientField {
        CLIENT_FIELD_CACHED,
        CLIENT_FIELD_HELD,
        CLIENT_FIELD_PENDING,
        CLIENT_FIELD_ALLOCS,
        CLIENT_FIELD_FREES,
        CLIENT_FIELD_RECORDS,
        CLIENT_FIELD_THREADS, /* the older name of the same */
        CLIENT_FIELD_CLIENT,
        CLIENT_FIELD_PID,
        CLIENT_FIELD_USER,
        CLIENT_FIELD_COMMAND,
        CLIENT_FIELD_ROLE,
        CLIENT_FIELD_SINCE,
        _CLIENT_FIELD_N,
} ClientField;

typedef struct ClientSort {
        ClientField field;
        bool reverse;
} ClientSort;

typedef struct ClientList {
        Tslab__ClientInfo *clients; /* each with a comm of its own */
        size_t n_clients;
} ClientList;

/* "cached", or "-cached" for the other way round; false: no such field. */
bool client_sort_parse(const char *text, ClientSort *ret);
/* "cached, held, ...", for people. */
const char *client_sort_names(void);

/* Copies; `reply` may be NULL. */
void client_list_add(ClientList *list, const Tslab__ClientsReply *reply);
/*
 * Counts and times go from the largest down, the rest from the lowest up. Where the field is the
 * same, processes that cache and hold most come first, then the order is by client and pid. Processes
 * that have not attached come last.
 */
void client_list_sort(ClientList *list, ClientSort sort);
/* The client with the claim that a thread of this one waits for; NULL: none. */
const Tslab__ClientInfo *client_list_waited(const ClientList *list, const Tslab__ClientInfo *client);
void client_list_deinit(ClientList *list);
