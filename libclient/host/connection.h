#pragma once
/*
 * A pool's connection to its daemon.
 *
 * A forked child inherits its parent's connection, and uses it for one datagram only, which carries the far end of a
 * connection of the child's own.
 */
#include "libclient/pool/pool.h"

/* Connects, attaches and maps: fills in pool->arena and pool->call. */
int connection_begin(struct tslab *pool, uint32_t *ret_client);

/*
 * Attaches a forked child, over the inherited connection or else by the pool's path; the mapping
 * stays. The attach errors of <tslab.h>.
 */
int connection_attach_child(struct tslab *pool, uint32_t *ret_client);

/* Takes call_lock. If its last holder ended with it, perhaps in the middle of a request, the connection is given up. */
void connection_take_lock(struct tslab *pool);

/*
 * Makes one request. If the daemon hung up, looks for its successor first. Under call_lock of an attached pool. The
 * control errors of <tslab.h>.
 */
int connection_ask(struct tslab *pool, ProtoRequest *request, ProtoReply **ret_reply);

/*
 * If the daemon hung up: connects to its successor, and sets pool->stale if that one has another arena, or gave this
 * process up. Under call_lock. A forked child that has not attached only asks which arena the daemon has.
 */
void connection_look(struct tslab *pool);
