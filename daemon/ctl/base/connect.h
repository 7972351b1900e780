#pragma once

/*
 * The connection to the daemon of the pool that was asked for. What goes wrong is complained about
 * here, with what to do next.
 *
 *      _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
 *      _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
 *
 *      r = connection_open(&connection);
 *      if (r)
 *              return r;
 *      r = connection_call(&connection, &request, CONNECTION_USEC, NULL, NULL, &reply);
 */

#include "daemon/ctl/base/complain.h"
#include "proto/call.h"

#define CONNECTION_USEC UINT64_C(30000000) /* for what takes a daemon no time */
#define CONNECTION_LONG UINT64_MAX /* for what may take it any: people interrupt it */

#define CONNECTION_SOFTWARE "tslabctl " TSLAB_VERSION

typedef struct Connection {
        ProtoCall *call;
        ProtoReply *hello;
        char *path;
} Connection;

#define CONNECTION_INIT                                                                                      \
        { NULL, NULL, NULL }

CtlExit connection_open(Connection *connection);
void connection_deinit(Connection *connection);

/* As proto_call(). */
CtlExit connection_call(Connection *connection, ProtoRequest *request, uint64_t timeout_usec,
                        ProtoCallMore more, void *userdata, ProtoReply **ret_reply);
/* The same, where the answer is one reply with descriptors. */
CtlExit connection_call_fds(Connection *connection, ProtoRequest *request, uint64_t timeout_usec,
                            ProtoReply **ret_reply, ProtoFds *ret_fds);

/* What proto_call() returned, other than 0; `reply` is set where that is PROTO_E_REFUSED. */
CtlExit connection_complain(const char *path, int r, const ProtoReply *reply);

/* Says hello to the socket at `path`, as proto_call_open(), without complaints. */
int connection_try(const char *path, uint64_t timeout_usec, ProtoCall **ret_call, ProtoReply **ret_hello);

/* The name of the pool whose socket this is, by its file name; "" if it does not say. */
void connection_pool_name(char *ret, size_t size, const char *path);
