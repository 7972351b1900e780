/*
 * Two defences that the rest of the file takes for granted:
 *
 *   - A reply never passes for a request, nor the other way round: each has its id where the
 *     other has none, and an id of 0 is malformed. Without that, a peer that sends the daemon the
 *     far end of its own connection (ForkAttach) would make it talk to itself for ever.
 *   - 64 KiB on the wire can become many times that in memory (an empty message within a message
 *     is 2 bytes there and a hundred here), so unpacking has a budget.
 */

#include "proto/message.h"

/* The largest list of clients takes less than a quarter of it. */
#define UNPACK_MAX (1024U * 1024U)

const char *proto_role_to_string(uint32_t role) {
        static const char *const names[] = {
                [PROTO_ROLE_READER] = "reader",
                [PROTO_ROLE_WRITER] = "writer",
                [PROTO_ROLE_OPERATOR] = "operator",
        };

        return role < sizeof(names) / sizeof(names[0]) ? names[role] : NULL;
}

const char *proto_epoch_state_to_string(int state) {
        static const char *const names[] = {
                [TSLAB__EPOCH_STATE__EPOCH_STATE_OPEN] = "open",
                [TSLAB__EPOCH_STATE__EPOCH_STATE_CLOSING] = "closing",
                [TSLAB__EPOCH_STATE__EPOCH_STATE_DRAINED] = "drained",
        };

        return state >= 0 && (size_t) state < sizeof(names) / sizeof(names[0]) ? names[state] : NULL;
}

/*
 * How many descriptors go with a message; the others carry none. A reader gets no eventfd: see
 * reply_n_fds().
 */
static const struct {
        uint32_t body;
        size_t n_fds;
} request_fds[] = {
        { TSLAB__REQUEST__BODY_FORK_ATTACH, 1 },        /* one end of the child's socketpair */
}, reply_fds[] = {
        { TSLAB__REPLY__BODY_ATTACH, 2 },               /* memfd, eventfd */
};

static size_t request_n_fds(const ProtoRequest *request) {
        if (request->body_case == TSLAB__REQUEST__BODY_SAMPLES)
                return request->samples->every != 0 ? 1 : 0;

        for (size_t i = 0; i < sizeof(request_fds) / sizeof(request_fds[0]); ++i)
                if (request_fds[i].body == request->body_case)
                        return request_fds[i].n_fds;

        return 0;
}

static size_t reply_n_fds(const ProtoReply *reply) {
        if (reply->body_case == TSLAB__REPLY__BODY_ATTACH && reply->attach->role == PROTO_ROLE_READER)
                return 1;
        if (reply->body_case == TSLAB__REPLY__BODY_SAMPLES)
                return reply->samples->attached_fd ? 1 : 0;
        if (reply->body_case == TSLAB__REPLY__BODY_CLIENTS)
                return reply->clients->has_pidfd ? 1 : 0;

        for (size_t i = 0; i < sizeof(reply_fds) / sizeof(reply_fds[0]); ++i)
                if (reply_fds[i].body == reply->body_case)
                        return reply_fds[i].n_fds;

        return 0;
}

static int request_outcome(const ProtoRequest *request, size_t n_fds) {
        if (request->id == 0)
                return PROTO_E_MALFORMED;
        /*
         * an unknown field might be the one that matters; but not in Hello, whose versions must get compared
         */
        if (request->body_case != TSLAB__REQUEST__BODY_HELLO && proto_message_has_unknown(&request->base))
                return PROTO_E_UNKNOWN;
        if (request->body_case == TSLAB__REQUEST__BODY__NOT_SET || !proto_message_is_valid(&request->base))
                return PROTO_E_MALFORMED;
        if (n_fds != request_n_fds(request))
                return PROTO_E_BAD_FDS;

        return 0;
}

static int reply_outcome(const ProtoReply *reply, size_t n_fds) {
        bool has_body = reply->body_case != TSLAB__REPLY__BODY__NOT_SET;

        if (!proto_message_is_valid(&reply->base))
                return PROTO_E_MALFORMED;
        if (reply->error != 0 && (has_body || reply->more || reply->progress))
                return PROTO_E_MALFORMED;
        if (reply->error == 0 && !has_body && !(reply->more && reply->progress))
                return reply->base.n_unknown_fields > 0 ? PROTO_E_UNKNOWN : PROTO_E_MALFORMED;
        if (n_fds != reply_n_fds(reply))
                return PROTO_E_BAD_FDS;

        return 0;
}

static int message_pack(const ProtobufCMessage *message, uint8_t **ret_data, size_t *ret_size) {
        size_t size = protobuf_c_message_get_packed_size(message);
        uint8_t *data;

        if (size > PROTO_MESSAGE_MAX)
                return PROTO_E_OVERSIZED;

        data = malloc(size);
        if (!data)
                return -ENOMEM;

        (void) protobuf_c_message_pack(message, data);
        *ret_data = data;
        *ret_size = size;
        return 0;
}

int proto_request_pack(const ProtoRequest *request, size_t n_fds, uint8_t **ret_data, size_t *ret_size) {
        int r = request_outcome(request, n_fds);

        return r ?: message_pack(&request->base, ret_data, ret_size);
}

int proto_reply_pack(const ProtoReply *reply, size_t n_fds, uint8_t **ret_data, size_t *ret_size) {
        int r = reply_outcome(reply, n_fds);

        return r ?: message_pack(&reply->base, ret_data, ret_size);
}

typedef struct Budget {
        size_t left;
        bool no_memory;
} Budget;

static void *budget_alloc(void *data, size_t size) {
        Budget *budget = data;
        void *p;

        if (size > budget->left)
                return NULL;

        budget->left -= size;
        p = malloc(size);
        if (!p)
                budget->no_memory = true;
        return p;
}

/* Freed memory does not come back to the budget: it bounds work as well as memory. */
static void budget_free(void *data, void *p) {
        (void) data;
        free(p);
}

static int message_unpack(const ProtobufCMessageDescriptor *descriptor, const void *data, size_t size,
                          ProtobufCMessage **ret_message) {
        Budget budget = { .left = UNPACK_MAX };
        ProtobufCAllocator allocator = {
                .alloc = budget_alloc,
                .free = budget_free,
                .allocator_data = &budget,
        };
        ProtobufCMessage *message;

        if (size > PROTO_MESSAGE_MAX)
                return PROTO_E_OVERSIZED;

        message = protobuf_c_message_unpack(descriptor, &allocator, size, data);
        if (!message)
                return budget.no_memory ? -ENOMEM : PROTO_E_MALFORMED;

        *ret_message = message;
        return 0;
}

int proto_request_unpack(const void *data, size_t size, size_t n_fds, ProtoRequest **ret_request,
                         uint64_t *ret_id) {
        _cleanup_(proto_request_freep) ProtoRequest *request = NULL;
        ProtobufCMessage *message = NULL;
        int r;

        r = message_unpack(&tslab__request__descriptor, data, size, &message);
        if (r < 0)
                return r;
        if (r > 0) {
                *ret_id = 0;
                return r;
        }

        request = (ProtoRequest *) message;
        *ret_id = request->id;
        r = request_outcome(request, n_fds);
        if (r)
                return r;

        *ret_request = proto_steal(&request);
        return 0;
}

int proto_reply_unpack(const void *data, size_t size, size_t n_fds, ProtoReply **ret_reply) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtobufCMessage *message = NULL;
        int r;

        r = message_unpack(&tslab__reply__descriptor, data, size, &message);
        if (r)
                return r;

        reply = (ProtoReply *) message;
        r = reply_outcome(reply, n_fds);
        if (r)
                return r;

        *ret_reply = proto_steal(&reply);
        return 0;
}

int proto_request_send(int fd, const ProtoRequest *request, const int *fds, size_t n_fds,
                       const struct ucred *credentials) {
        _cleanup_(proto_freep) uint8_t *data = NULL;
        size_t size;
        int r;

        r = proto_request_pack(request, n_fds, &data, &size);
        return r ?: proto_send(fd, data, size, fds, n_fds, credentials);
}

int proto_reply_send(int fd, const ProtoReply *reply, const int *fds, size_t n_fds) {
        _cleanup_(proto_freep) uint8_t *data = NULL;
        size_t size;
        int r;

        r = proto_reply_pack(reply, n_fds, &data, &size);
        return r ?: proto_send(fd, data, size, fds, n_fds, NULL);
}

/* On the heap: threads of clients may have stacks that are smaller than a message. */
static int datagram_receive(int fd, uint8_t **ret_data, size_t *ret_size, ProtoFds *ret_fds,
                            struct ucred *ret_credentials) {
        _cleanup_(proto_freep) uint8_t *data = malloc(PROTO_MESSAGE_MAX);
        int r;

        if (!data)
                return -ENOMEM;

        r = proto_receive(fd, data, PROTO_MESSAGE_MAX, ret_size, ret_fds, ret_credentials);
        if (r)
                return r;

        *ret_data = proto_steal(&data);
        return 0;
}

int proto_request_receive(int fd, ProtoRequest **ret_request, uint64_t *ret_id, ProtoFds *ret_fds,
                          struct ucred *ret_credentials) {
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
        _cleanup_(proto_freep) uint8_t *data = NULL;
        struct ucred credentials;
        size_t size;
        int r;

        r = datagram_receive(fd, &data, &size, &fds, &credentials);
        if (r > 0)
                *ret_id = 0;
        if (r)
                return r;

        r = proto_request_unpack(data, size, fds.n_fds, ret_request, ret_id);
        if (r)
                return r;

        *ret_fds = fds;
        fds = (ProtoFds) PROTO_FDS_INIT;
        if (ret_credentials)
                *ret_credentials = credentials;
        return 0;
}

int proto_reply_receive(int fd, ProtoReply **ret_reply, ProtoFds *ret_fds) {
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
        _cleanup_(proto_freep) uint8_t *data = NULL;
        size_t size;
        int r;

        r = datagram_receive(fd, &data, &size, &fds, NULL);
        if (r)
                return r;

        r = proto_reply_unpack(data, size, fds.n_fds, ret_reply);
        if (r)
                return r;

        *ret_fds = fds;
        fds = (ProtoFds) PROTO_FDS_INIT;
        return 0;
}

ProtoRequest *proto_request_free(ProtoRequest *request) {
        if (request)
                tslab__request__free_unpacked(request, NULL);

        return NULL;
}

ProtoReply *proto_reply_free(ProtoReply *reply) {
        if (reply)
                tslab__reply__free_unpacked(reply, NULL);

        return NULL;
}
