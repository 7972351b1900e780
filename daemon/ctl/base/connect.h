#pragma once

/*
 * The connection to the daemon of the pool that the command line names. These functions complain
 * about failures, and say which step helps.
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

#define CONNECTION_USEC UINT64_C(30000000) /* for requests that take the daemon no time */
#define CONNECTION_LONG UINT64_MAX /* for requests that may take any time: people interrupt those */

#define CONNECTION_SOFTWARE "tslabctl " TSLAB_VERSION

typedef struct Connection {
        ProtoCall *call;
        ProtoReply *hello;
        char *path;
        bool stands_in; /* a thread answers while the daemon's loop waits: it changes nothing, and soon hangs up */
} Connection;

#define CONNECTION_INIT                                                                                      \
        { NULL, NULL, NULL, false }

/* Finds the path of the socket alone. connection_open() finds it, too. */
CtlExit connection_find(Connection *connection);
CtlExit connection_open(Connection *connection);
void connection_deinit(Connection *connection);

/*
 * As proto_call(), but a daemon that hangs is given up after a few seconds, whatever the limit: -ETIMEDOUT. So is one
 * that waits for the lock of the pool's memory; one that is busy is not. Where the daemon hangs up, and has changed
 * nothing, it is asked once more over a new connection, unless `more` has got a part of the answer.
 */
int connection_call_quietly(Connection *connection, ProtoRequest *request, uint64_t timeout_usec,
                            ProtoCallMore more, void *userdata, ProtoReply **ret_reply, ProtoFds *ret_fds);
/* As connection_call_quietly() with complaints. */
CtlExit connection_call(Connection *connection, ProtoRequest *request, uint64_t timeout_usec,
                        ProtoCallMore more, void *userdata, ProtoReply **ret_reply);
/* As connection_call() for a request that is answered by one reply with descriptors. */
CtlExit connection_call_fds(Connection *connection, ProtoRequest *request, uint64_t timeout_usec,
                            ProtoReply **ret_reply, ProtoFds *ret_fds);

/*
 * Complains about `r`, a result of proto_call() other than 0; `reply` is set if `r` is
 * PROTO_E_REFUSED.
 */
CtlExit connection_complain(const char *path, int r, const ProtoReply *reply);

/* Says hello to the socket at `path`, as proto_call_open(), without complaints. */
int connection_try(const char *path, uint64_t timeout_usec, ProtoCall **ret_call, ProtoReply **ret_hello);
/* As connection_try(); -ECONNREFUSED where the pool is idle, and a connection would have systemd start its daemon. */
int connection_try_running(const char *path, uint64_t timeout_usec, ProtoCall **ret_call,
                           ProtoReply **ret_hello);

/*
 * Writes the beginning of a command for the pool that has this socket, "tslabctl --pool web", to be quoted in advice.
 * The pool is named even where it is the default: the advice may be followed in another shell.
 */
#define CONNECTION_COMMAND_SIZE 160
void connection_command(char ret[CONNECTION_COMMAND_SIZE], const char *path);

/*
 * Writes the name of the pool that has this socket, by the name of the file; "" if the file has
 * another name.
 */
void connection_pool_name(char *ret, size_t size, const char *path);
