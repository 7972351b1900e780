#pragma once

/* Questions to the daemon of the pool that the command line names. */

#include "daemon/ctl/base/connect.h"

/* Opens the connection and asks; `more` as for proto_call(). */
CtlExit ask_daemon(Connection *connection, ProtoRequest *request, ProtoCallMore more, void *userdata,
                   ProtoReply **ret_reply);
/*
 * As ask_daemon() for a request that may take the daemon long: shows its progress and waits until the user
 * interrupts it. It hands `text` and `when_interrupted` to
 * progress_begin().
 */
CtlExit ask_slow(Connection *connection, ProtoRequest *request, const char *text,
                 const char *when_interrupted, ProtoReply **ret_reply);

CtlExit ask_stats(Connection *connection, ProtoReply **ret_reply);
/* Asks a pool to which a connection is open, without complaints; returns 0 or as proto_call(). */
int ask_stats_quietly(ProtoCall *call, uint64_t timeout_usec, ProtoReply **ret_reply);

/* The number that the library uses for an epoch and its era. */
uint32_t epoch_number(const Tslab__EpochInfo *epoch);
/* The bytes of committed slabs that are in use. */
uint64_t stats_used_bytes(const Tslab__StatsReply *stats);
