/*
 * Both decoders of the protocol, with every number of descriptors. A message that they accept must pass
 * again when it is packed: the limits are the same on both sides.
 */

#include <stdlib.h>

#include "proto/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
        if (!condition)
                abort();
}

static void fuzz_request(const uint8_t *data, size_t size, size_t n_fds) {
        _cleanup_(proto_request_freep) ProtoRequest *request = NULL, *again = NULL;
        _cleanup_(proto_freep) uint8_t *packed = NULL;
        uint64_t id = 0, id_again = 0;
        size_t packed_size;

        if (proto_request_unpack(data, size, n_fds, &request, &id))
                return;

        require(id != 0);
        require(proto_request_pack(request, n_fds, &packed, &packed_size) == 0);
        require(proto_request_unpack(packed, packed_size, n_fds, &again, &id_again) == 0);
        require(id == id_again && request->body_case == again->body_case);
}

static void fuzz_reply(const uint8_t *data, size_t size, size_t n_fds) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL, *again = NULL;
        _cleanup_(proto_freep) uint8_t *packed = NULL;
        size_t packed_size;

        if (proto_reply_unpack(data, size, n_fds, &reply))
                return;

        require(proto_reply_pack(reply, n_fds, &packed, &packed_size) == 0);
        require(proto_reply_unpack(packed, packed_size, n_fds, &again) == 0);
        require(reply->id == again->id && reply->body_case == again->body_case);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        for (size_t n_fds = 0; n_fds <= PROTO_FDS_MAX; ++n_fds) {
                fuzz_request(data, size, n_fds);
                fuzz_reply(data, size, n_fds);
        }
        return 0;
}
