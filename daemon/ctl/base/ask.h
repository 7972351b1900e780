#pragma once

/* Questions to the daemon of the pool that the command line names. */

#include "daemon/ctl/base/connect.h"

/* Opens the connection and asks; `more` as for proto_call(). */
CtlExit ask_daemon(Connection *connection, ProtoRequest *request, ProtoCallMore more, void *userdata,
                   ProtoReply **ret_reply);
/*
 * The same for a request that may take the daemon any time: shows its progress, and waits until the
 * user interrupts it. `text` and `when_interrupted` as for progress_begin().
 */
CtlExit ask_slow(Connection *connection, ProtoRequest *request, const char *text,
                 const char *when_interrupted, ProtoReply **ret_reply);

CtlExit ask_stats(Connection *connection, ProtoReply **ret_reply);
/* Asks a pool whose connection is open, without complaints; 0 or as proto_call(). */
int ask_stats_quietly(ProtoCall *call, uint64_t timeout_usec, ProtoReply **ret_reply);

/* The memory of slabs that are committed and not free. */
uint64_t stats_used_bytes(const Tslab__StatsReply *stats);
