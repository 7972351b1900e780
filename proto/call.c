#include <poll.h>

#include "proto/call.h"
#include "proto/deadline.h"
#include "shm/arch/descriptor.h"

struct ProtoCall {
        int fd; /* -1: given up */
        uint64_t last_id; /* the latest request's */
        uint64_t sent_id; /* the latest request's that was sent */
};

int proto_call_new(ProtoCall **ret_call, int fd) {
        ProtoCall *call = malloc(sizeof(*call));

        if (!call)
                return -ENOMEM;

        *call = (ProtoCall){ .fd = fd };
        *ret_call = call;
        return 0;
}

ProtoCall *proto_call_free(ProtoCall *call) {
        if (call) {
                (void) proto_close(call->fd);
                free(call);
        }
        return NULL;
}

int proto_call_fd(const ProtoCall *call) {
        return call->fd;
}

/* The connection is of no more use: its next datagram could belong to any request. */
static int give_up(ProtoCall *call, int r) {
        call->fd = proto_close(call->fd);
        return r;
}

/* Returns when it may be worth to try again, or -ETIMEDOUT. */
static int wait_for(int fd, short events, uint64_t deadline) {
        struct pollfd poller = { .fd = fd, .events = events };
        uint64_t left = proto_deadline_left(deadline);
        const struct timespec limit = {
                .tv_sec = (time_t) (left / PROTO_USEC_PER_SEC),
                .tv_nsec = (long) (left % PROTO_USEC_PER_SEC) * 1000,
        };

        if (left == 0)
                return -ETIMEDOUT;
        /* EINVAL: the process may have no descriptor at all. */
        if (ppoll(&poller, 1, left == UINT64_MAX ? NULL : &limit, NULL) < 0 && errno != EINTR)
                return errno == EINVAL ? -EMFILE : -errno;

        return 0;
}

static int send_request(int fd, const ProtoRequest *request, const int *fds, size_t n_fds,
                        const struct ucred *credentials, uint64_t deadline) {
        int r;

        for (;;) {
                r = proto_request_send(fd, request, fds, n_fds, credentials);
                switch (r) {
                case PROTO_E_AGAIN:
                        r = wait_for(fd, POLLOUT, deadline);
                        if (r < 0)
                                return r;
                        break;
                case PROTO_E_OVERSIZED:
                        return -E2BIG;
                case PROTO_E_MALFORMED:
                case PROTO_E_UNKNOWN:
                case PROTO_E_BAD_FDS:
                        return -EINVAL;
                default:
                        return r;
                }
        }
}

static int receive_reply(ProtoCall *call, uint64_t deadline, ProtoReply **ret_reply, ProtoFds *ret_fds) {
        int r;

        for (;;) {
                r = proto_reply_receive(call->fd, ret_reply, ret_fds);
                switch (r) {
                case PROTO_E_AGAIN:
                        r = wait_for(call->fd, POLLIN, deadline);
                        if (r < 0)
                                return r;
                        break;
                case PROTO_E_CLOSED:
                        return give_up(call, r);
                case PROTO_E_OVERSIZED:
                case PROTO_E_MALFORMED:
                case PROTO_E_UNKNOWN:
                case PROTO_E_BAD_FDS:
                        return give_up(call, -EPROTO);
                default:
                        return r;
                }
        }
}

static bool reply_fits(const ProtoReply *reply, const ProtoRequest *request) {
        /* a body has the number of its request's */
        return reply->id == request->id && (reply->body_case == TSLAB__REPLY__BODY__NOT_SET ||
                                            (uint32_t) reply->body_case == (uint32_t) request->body_case);
}

/*
 * One reply to `request`, after late ones. A daemon that sends late ones for ever is bounded
 * by the deadline.
 */
static int next_reply(ProtoCall *call, const ProtoRequest *request, uint64_t deadline, ProtoReply **ret_reply,
                      ProtoFds *ret_fds) {
        int r;

        for (;;) {
                _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
                _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;

                r = receive_reply(call, deadline, &reply, &fds);
                if (r)
                        return r;

                if (reply->id < request->id) {
                        if (proto_deadline_left(deadline) == 0)
                                return -ETIMEDOUT;
                        continue;
                }
                if (!reply_fits(reply, request))
                        return give_up(call, -EPROTO);

                *ret_reply = proto_steal(&reply);
                *ret_fds = fds;
                fds = (ProtoFds) PROTO_FDS_INIT;
                return 0;
        }
}

static int send_call(ProtoCall *call, const ProtoRequest *request, int fd, uint64_t deadline) {
        int r = send_request(call->fd, request, &fd, fd >= 0 ? 1 : 0, NULL, deadline);

        if (r == PROTO_E_CLOSED)
                return give_up(call, r);
        if (r == 0)
                call->sent_id = request->id;
        return r;
}

/* As proto_call(), until a fixed time; with `fd`, unless that is -1. The request is sent unless it was before. */
static int finish_call(ProtoCall *call, const ProtoRequest *request, int fd, uint64_t deadline,
                       ProtoCallMore more, void *userdata, ProtoReply **ret_reply, ProtoFds *ret_fds) {
        int r;

        if (call->fd < 0)
                return PROTO_E_CLOSED;
        r = request->id == call->sent_id ? 0 : send_call(call, request, fd, deadline);
        if (r)
                return r;

        for (;;) {
                _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
                _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;

                r = next_reply(call, request, deadline, &reply, &fds);
                if (r)
                        return r;

                if (!reply->more) {
                        r = reply->error ? PROTO_E_REFUSED : 0;
                        *ret_reply = proto_steal(&reply);
                        if (ret_fds) {
                                *ret_fds = fds;
                                fds = (ProtoFds) PROTO_FDS_INIT;
                        }
                        return r;
                }

                r = more ? more(userdata, reply) : 0;
                if (r)
                        return r;
                /* a stream that never pauses must not outlive the limit */
                if (proto_deadline_left(deadline) == 0)
                        return -ETIMEDOUT;
        }
}

static int call_until(ProtoCall *call, ProtoRequest *request, int fd, uint64_t deadline, ProtoCallMore more,
                      void *userdata, ProtoReply **ret_reply, ProtoFds *ret_fds) {
        request->id = ++call->last_id;
        return finish_call(call, request, fd, deadline, more, userdata, ret_reply, ret_fds);
}

int proto_call_again(ProtoCall *call, const ProtoRequest *request, uint64_t timeout_usec, ProtoCallMore more,
                     void *userdata, ProtoReply **ret_reply, ProtoFds *ret_fds) {
        return finish_call(call, request, -1, proto_deadline(timeout_usec), more, userdata, ret_reply,
                           ret_fds);
}

int proto_call(ProtoCall *call, ProtoRequest *request, uint64_t timeout_usec, ProtoCallMore more,
               void *userdata, ProtoReply **ret_reply, ProtoFds *ret_fds) {
        return call_until(call, request, -1, proto_deadline(timeout_usec), more, userdata, ret_reply,
                          ret_fds);
}

int proto_call_with_fd(ProtoCall *call, ProtoRequest *request, int fd, uint64_t timeout_usec,
                       ProtoReply **ret_reply) {
        return call_until(call, request, fd, proto_deadline(timeout_usec), NULL, NULL, ret_reply, NULL);
}

static int say_hello(ProtoCall *call, const ProtoHello *hello, uint64_t deadline, ProtoReply **ret_reply) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        ProtoHello versioned = *hello;
        int r;

        versioned.protocol_version = PROTO_VERSION;
        request.body_case = TSLAB__REQUEST__BODY_HELLO;
        request.hello = &versioned;

        r = call_until(call, &request, -1, deadline, NULL, NULL, &reply, NULL);
        if (r && r != PROTO_E_REFUSED)
                return r;
        if (r == 0 && reply->hello->protocol_version != PROTO_VERSION)
                return -EPROTONOSUPPORT;

        *ret_reply = proto_steal(&reply);
        return r;
}

int proto_call_open(ProtoCall **ret_call, const char *path, const ProtoHello *hello, uint64_t timeout_usec,
                    ProtoReply **ret_reply) {
        uint64_t deadline = proto_deadline(timeout_usec);
        _cleanup_(proto_call_freep) ProtoCall *call = NULL;
        _cleanup_(proto_closep) int fd = -1;
        int r;

        r = proto_connect(path, timeout_usec, &fd);
        if (r == PROTO_E_AGAIN)
                return -ETIMEDOUT;
        if (r)
                return r;

        r = proto_call_new(&call, fd);
        if (r < 0)
                return r;
        (void) proto_steal_fd(&fd);

        r = say_hello(call, hello, deadline, ret_reply);
        if (r)
                return r;

        *ret_call = proto_steal(&call);
        return 0;
}

int proto_call_fork_attach(ProtoCall **ret_call, int inherited_fd, const char *comm, uint64_t timeout_usec) {
        const struct ucred credentials = { .pid = getpid(), .uid = geteuid(), .gid = getegid() };
        _cleanup_(proto_call_freep) ProtoCall *call = NULL;
        _cleanup_(proto_closep) int far = -1;
        Tslab__ForkAttach fork_attach = TSLAB__FORK_ATTACH__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        int pair[2], near, r;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        far = pair[1];
        near = shm_descriptor_above_streams(pair[0]);
        if (near < 0)
                return near;

        r = proto_call_new(&call, near);
        if (r < 0) {
                (void) proto_close(near);
                return r;
        }

        /* never answered, and the ids of the parent are not ours to know */
        request.id = UINT64_MAX;
        request.body_case = TSLAB__REQUEST__BODY_FORK_ATTACH;
        request.fork_attach = &fork_attach;
        fork_attach.comm = (char *) comm;

        r = send_request(inherited_fd, &request, &far, 1, &credentials, proto_deadline(timeout_usec));
        if (r)
                return r;

        *ret_call = proto_steal(&call);
        return 0;
}
