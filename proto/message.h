#pragma once

/*
 * Messages: protobuf on one side, checked structs on the other. A message that was received is within
 * the limits of "proto/validate.h", has a body where one must be, all messages within messages set
 * (but `progress`), and the right number of descriptors. Sending applies the same checks.
 *
 *      ProtoRequest request = PROTO_REQUEST_INIT;
 *      Tslab__Trim trim = TSLAB__TRIM__INIT;
 *
 *      request.id = 7;
 *      request.body_case = TSLAB__REQUEST__BODY_TRIM;
 *      request.trim = &trim;
 *      r = proto_request_send(fd, &request, NULL, 0, NULL);
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proto/cleanup.h"
#include "proto/socket.h"
#include "proto/tslab.pb-c.h"
#include "proto/validate.h"

#define PROTO_VERSION 1U

typedef Tslab__Request ProtoRequest;
typedef Tslab__Reply ProtoReply;

#define PROTO_REQUEST_INIT TSLAB__REQUEST__INIT
#define PROTO_REPLY_INIT TSLAB__REPLY__INIT

/* Each includes the rights of the one before. */
enum {
        PROTO_ROLE_READER = 1,
        PROTO_ROLE_WRITER = 2,
        PROTO_ROLE_OPERATOR = 3,
};

/* "reader", "open" and so on; NULL for other values. */
const char *proto_role_to_string(uint32_t role);
const char *proto_epoch_state_to_string(int state);

/*
 * To bytes, which the caller frees. The outcome PROTO_E_MALFORMED says that a limit is broken, as
 * by a label that is too long; PROTO_E_BAD_FDS that `n_fds` is not the number which goes with this
 * message. PROTO_E_OVERSIZED; -ENOMEM.
 */
int proto_request_pack(const ProtoRequest *request, size_t n_fds, uint8_t **ret_data, size_t *ret_size);
int proto_reply_pack(const ProtoReply *reply, size_t n_fds, uint8_t **ret_data, size_t *ret_size);

/*
 * From bytes, with which `n_fds` descriptors came. *ret_id is set whenever the return value is not
 * negative: to 0 when the id cannot be read.
 *
 * PROTO_E_UNKNOWN      the daemon answers *ret_id with -EOPNOTSUPP and goes on
 * PROTO_E_MALFORMED    the daemon may answer *ret_id with -EBADMSG if it is not 0, and hangs up
 * PROTO_E_BAD_FDS      the same
 * PROTO_E_OVERSIZED    over PROTO_MESSAGE_MAX; the same
 * -ENOMEM
 */
int proto_request_unpack(const void *data, size_t size, size_t n_fds, ProtoRequest **ret_request,
                         uint64_t *ret_id);
int proto_reply_unpack(const void *data, size_t size, size_t n_fds, ProtoReply **ret_reply);

/* Pack and proto_send(). The descriptors stay the caller's. */
int proto_request_send(int fd, const ProtoRequest *request, const int *fds, size_t n_fds,
                       const struct ucred *credentials);
int proto_reply_send(int fd, const ProtoReply *reply, const int *fds, size_t n_fds);

/*
 * proto_receive() and unpack: the outcomes of both. Unless 0 is returned, all descriptors that came
 * are closed. ret_credentials may be NULL. *ret_id as above, also 0 for the outcomes of
 * proto_receive().
 */
int proto_request_receive(int fd, ProtoRequest **ret_request, uint64_t *ret_id, ProtoFds *ret_fds,
                          struct ucred *ret_credentials);
int proto_reply_receive(int fd, ProtoReply **ret_reply, ProtoFds *ret_fds);

/* For received messages only. NULL-safe, return NULL. */
ProtoRequest *proto_request_free(ProtoRequest *request);
ProtoReply *proto_reply_free(ProtoReply *reply);

static inline void proto_request_freep(ProtoRequest **request) {
        (void) proto_request_free(*request);
}

static inline void proto_reply_freep(ProtoReply **reply) {
        (void) proto_reply_free(*reply);
}
