#pragma once
/*
 * The ledger: a second map, in which the totals of a client outlive its sessions. Its entries are in
 * an epoch of their own, reserved, so that expiring sessions does not concern them.
 */
#include <stdint.h>
#include <stdio.h>

#include <tslab_map.h>

#include "examples/demo/demo-log.h"
#include "examples/demo/demo-session.h"

#define SESSIONS_NAME "sessions"
#define LEDGER_NAME "ledger"

typedef struct Total {
        uint64_t n_requests;
        uint64_t n_sessions;
        uint64_t size;
} Total;

/* Zeros where the client is not known. -EBADMSG, errors of tslab_map_get(). */
int ledger_get(struct tslab_map *ledger, Text client, Total *ret);
/* Adds a session that is over. -EBADMSG, errors of tslab_map_replace(). */
int ledger_add(struct tslab_map *ledger, Text client, const Session *session, uint32_t epoch);

/* The sum over all clients, and how many there are. -EBADMSG, errors of tslab_map_next(). */
int ledger_sum(struct tslab_map *ledger, Total *ret, uint64_t *ret_clients);
/* "CLIENT REQUESTS" of each, in the order of bytes. The same, -ENOMEM and errors of writing. */
int ledger_dump(struct tslab_map *ledger, FILE *f);
