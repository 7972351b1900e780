#pragma once

/*
 * The client side: one connection, one request at a time, waiting for the answer.
 *
 *      _cleanup_(proto_call_freep) ProtoCall *call = NULL;
 *      _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
 *
 *      hello.software = (char *)"tslabctl 1.0";
 *      r = proto_call_open(&call, path, &hello, timeout_usec, &reply);
 *      if (r == PROTO_E_REFUSED)
 *              return complain(reply->error, reply->message);
 *
 * Threads: nothing here locks and nothing is global; callers serialise their calls on one
 * ProtoCall. Fork: the child must not call with a ProtoCall of its parent, only use proto_call_fd()
 * of it for proto_call_fork_attach(), and free it.
 *
 * Time limits are of the whole call, in microseconds; UINT64_MAX: none. Signals do not cut a call
 * short, and SIGPIPE is never raised.
 *
 * Outcomes of all calls, beside those named with each:
 *
 * PROTO_E_REFUSED      answered with an error; *ret_reply is set: ->error is a negative errno,
 *                      ->message a sentence
 * PROTO_E_CLOSED       the daemon hung up, now or in an earlier call; free and open anew
 * -ETIMEDOUT           no answer in time; the connection stays usable, and a late answer is skipped
 * -EPROTO              the daemon does not speak this protocol; the connection is given up
 * -ENOMEM, -ENOBUFS, -ETOOMANYREFS, -EMFILE, ...
 */

#include <stdint.h>

#include "proto/message.h"

typedef struct ProtoCall ProtoCall;
typedef Tslab__Hello ProtoHello;

#define PROTO_HELLO_INIT TSLAB__HELLO__INIT

/*
 * Gets each reply of a call but the last: the replies with `more`, which hold progress, a part of a long
 * list, or an event. The call ends at once when it returns other than 0, with that value; the rest
 * of the answer is skipped later.
 */
typedef int (*ProtoCallMore)(void *userdata, const ProtoReply *reply);

/*
 * Connects to the socket at `path` and says hello; `protocol_version` is filled in. *ret_reply has
 * the daemon's hello. -EPROTONOSUPPORT: the daemon speaks another version. -EINVAL: a field of hello
 * breaks a limit. Errors of proto_connect(), where no room in time is -ETIMEDOUT.
 */
int proto_call_open(ProtoCall **ret_call, const char *path, const ProtoHello *hello, uint64_t timeout_usec,
                    ProtoReply **ret_reply);

/*
 * In a forked child: sends ForkAttach over `inherited_fd`, the connection of the parent, with
 * credentials of this process. The new ProtoCall needs no hello. Nobody answers yet: a
 * reply to Attach shows that the daemon agreed, and PROTO_E_CLOSED there that it did not. -EPERM:
 * credentials of this process cannot be sent.
 */
int proto_call_fork_attach(ProtoCall **ret_call, int inherited_fd, const char *comm, uint64_t timeout_usec);

/*
 * A ProtoCall on a connected socket, which it owns from then on. -ENOMEM: `fd` stays the caller's.
 */
int proto_call_new(ProtoCall **ret_call, int fd);
/* Hangs up. NULL-safe, returns NULL. */
ProtoCall *proto_call_free(ProtoCall *call);

/* The socket, or -1 once it was given up. Stays the property of `call`. */
int proto_call_fd(const ProtoCall *call);

/*
 * Sends `request` (its id is set here) and waits for the last reply to it. `more` may be NULL: such
 * replies are dropped. `ret_fds` may be NULL: descriptors are closed. -EINVAL: the request breaks a
 * limit (-E2BIG: in size).
 */
int proto_call(ProtoCall *call, ProtoRequest *request, uint64_t timeout_usec, ProtoCallMore more,
               void *userdata, ProtoReply **ret_reply, ProtoFds *ret_fds);
/*
 * Goes on with a proto_call() that ended with -ETIMEDOUT, and was the latest: waits for the answer again. The request
 * is as that call left it.
 */
int proto_call_again(ProtoCall *call, const ProtoRequest *request, uint64_t timeout_usec, ProtoCallMore more,
                     void *userdata, ProtoReply **ret_reply, ProtoFds *ret_fds);
/* As proto_call() with a descriptor, which stays the caller's. */
int proto_call_with_fd(ProtoCall *call, ProtoRequest *request, int fd, uint64_t timeout_usec,
                       ProtoReply **ret_reply);

static inline void proto_call_freep(ProtoCall **call) {
        (void) proto_call_free(*call);
}
