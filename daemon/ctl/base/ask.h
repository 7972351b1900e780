#pragma once

/* The questions that several verbs ask, or that have answers in parts. */

#include "daemon/ctl/base/connect.h"

/* Opens the connection, and asks. */
CtlExit ask_stats(Connection *connection, ProtoReply **ret_reply);
CtlExit ask_epochs(Connection *connection, ProtoReply **ret_reply);

/* The numbers of a pool whose connection is open, without complaints; 0 or as proto_call(). */
int ask_stats_quietly(ProtoCall *call, uint64_t timeout_usec, ProtoReply **ret_reply);
