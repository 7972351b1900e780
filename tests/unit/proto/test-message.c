/*
 * The protocol's messages: the refused ones, and that none of them leaks. Sockets are in
 * test-proto-socket.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/message.h"
#include "proto/path.h"
#include "proto/text.h"

static int pack_label(const char *label) {
        _cleanup_(proto_freep) uint8_t *data = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochReserve reserve = TSLAB__EPOCH_RESERVE__INIT;
        size_t size;

        request.id = 1;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_RESERVE;
        request.epoch_reserve = &reserve;
        reserve.label = (char *) label;
        return proto_request_pack(&request, 0, &data, &size);
}

/* Unpacks bytes that no sender has checked, as a peer of ill will may send them. */
static int unpack_raw(const ProtoRequest *request, size_t n_fds, uint64_t *ret_id) {
        _cleanup_(proto_request_freep) ProtoRequest *unpacked = NULL;
        uint8_t data[4096];
        size_t size = tslab__request__get_packed_size(request);

        assert_true(size <= sizeof(data));
        (void) tslab__request__pack(request, data);
        return proto_request_unpack(data, size, n_fds, &unpacked, ret_id);
}

static int unpack_reply_raw(const ProtoReply *reply, size_t n_fds) {
        _cleanup_(proto_reply_freep) ProtoReply *unpacked = NULL;
        uint8_t data[4096];
        size_t size = tslab__reply__get_packed_size(reply);

        assert_true(size <= sizeof(data));
        (void) tslab__reply__pack(reply, data);
        return proto_reply_unpack(data, size, n_fds, &unpacked);
}

static void test_request_roundtrip(void **state) {
        _cleanup_(proto_request_freep) ProtoRequest *unpacked = NULL;
        _cleanup_(proto_freep) uint8_t *data = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochClose close = TSLAB__EPOCH_CLOSE__INIT;
        uint64_t id = 0;
        size_t size;

        request.id = UINT64_MAX;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
        request.epoch_close = &close;
        close.epoch = 3 | 4095 << 8;
        close.revoke = true;
        close.wait_msec = 200;

        assert_int_equal(proto_request_pack(&request, 0, &data, &size), 0);
        assert_int_equal(proto_request_unpack(data, size, 0, &unpacked, &id), 0);
        assert_true(id == UINT64_MAX);
        assert_int_equal(unpacked->body_case, TSLAB__REQUEST__BODY_EPOCH_CLOSE);
        assert_int_equal(unpacked->epoch_close->epoch, 3 | 4095 << 8);
        assert_true(unpacked->epoch_close->revoke);
        assert_int_equal(unpacked->epoch_close->wait_msec, 200);
}

static void test_request_every_prefix(void **state) {
        static const uint8_t data[] = { 0x08, 0x07, 0xd2, 0x01, 0x06, 0x08, 0x03, 0x10, 0x01, 0x18, 0x14 };

        for (size_t i = 0; i < sizeof(data); ++i) {
                ProtoRequest *request = NULL;
                uint64_t id;

                assert_int_equal(proto_request_unpack(data, i, 0, &request, &id), PROTO_E_MALFORMED);
                assert_null(request);
                assert_int_equal(id, i == 2 ? 7 : 0);
        }
}

static void test_request_no_id(void **state) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Stats stats = TSLAB__STATS__INIT;
        uint64_t id = 9;

        request.body_case = TSLAB__REQUEST__BODY_STATS;
        request.stats = &stats;
        assert_int_equal(unpack_raw(&request, 0, &id), PROTO_E_MALFORMED);
        assert_int_equal(id, 0);
}

static void test_request_no_body(void **state) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        uint64_t id = 0;

        request.id = 9;
        assert_int_equal(unpack_raw(&request, 0, &id), PROTO_E_MALFORMED);
        assert_int_equal(id, 9);
}

static void test_request_unknown_body(void **state) {
        static const uint8_t data[] = { 0x08, 0x2a, 0xf2, 0x07, 0x00 }; /* id 42, field 126 */
        ProtoRequest *request = NULL;
        uint64_t id = 0;

        assert_int_equal(proto_request_unpack(data, sizeof(data), 0, &request, &id), PROTO_E_UNKNOWN);
        assert_int_equal(id, 42);
        assert_null(request);
        /* descriptors beside it do not change the answer */
        assert_int_equal(proto_request_unpack(data, sizeof(data), 2, &request, &id), PROTO_E_UNKNOWN);
}

static void test_request_unknown_option(void **state) {
        /* trim with a field 99 = 1: it might have said "dry run" */
        static const uint8_t trim[] = { 0x08, 0x2a, 0x92, 0x02, 0x03, 0x98, 0x06, 0x01 };
        /* hello with protocol_version 2 and the same */
        static const uint8_t hello[] = { 0x08, 0x2a, 0x82, 0x01, 0x05, 0x08, 0x02, 0x98, 0x06, 0x01 };
        _cleanup_(proto_request_freep) ProtoRequest *request = NULL;
        uint64_t id = 0;

        assert_int_equal(proto_request_unpack(trim, sizeof(trim), 0, &request, &id), PROTO_E_UNKNOWN);
        assert_int_equal(id, 42);
        assert_int_equal(proto_request_unpack(hello, sizeof(hello), 0, &request, &id), 0);
        assert_int_equal(request->hello->protocol_version, 2);
}

static void test_request_reply_is_none(void **state) {
        _cleanup_(proto_freep) uint8_t *data = NULL;
        ProtoReply reply = PROTO_REPLY_INIT;
        ProtoRequest *request = NULL;
        Tslab__EpochLabelReply label = TSLAB__EPOCH_LABEL_REPLY__INIT;
        uint64_t id = 9;
        size_t size;

        reply.id = 5;
        reply.body_case = TSLAB__REPLY__BODY_EPOCH_LABEL;
        reply.epoch_label = &label;
        assert_int_equal(proto_reply_pack(&reply, 0, &data, &size), 0);
        assert_int_equal(proto_request_unpack(data, size, 0, &request, &id), PROTO_E_MALFORMED);
        assert_int_equal(id, 0);
}

static void test_request_is_no_reply(void **state) {
        static const uint8_t data[] = { 0x08, 0x07, 0x92, 0x02, 0x00 }; /* trim */
        ProtoReply *reply = NULL;

        assert_int_equal(proto_reply_unpack(data, sizeof(data), 0, &reply), PROTO_E_MALFORMED);
}

static void test_request_fds(void **state) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__ForkAttach fork_attach = TSLAB__FORK_ATTACH__INIT;
        Tslab__Attach attach = TSLAB__ATTACH__INIT;
        uint64_t id;

        request.id = 1;
        request.body_case = TSLAB__REQUEST__BODY_FORK_ATTACH;
        request.fork_attach = &fork_attach;
        assert_int_equal(unpack_raw(&request, 0, &id), PROTO_E_BAD_FDS);
        assert_int_equal(unpack_raw(&request, 1, &id), 0);
        assert_int_equal(unpack_raw(&request, 2, &id), PROTO_E_BAD_FDS);

        request.body_case = TSLAB__REQUEST__BODY_ATTACH;
        request.attach = &attach;
        assert_int_equal(unpack_raw(&request, 0, &id), 0);
        assert_int_equal(unpack_raw(&request, 1, &id), PROTO_E_BAD_FDS);
        assert_int_equal(id, 1);
}

static void test_reply_fds(void **state) {
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__AttachReply attach = TSLAB__ATTACH_REPLY__INIT;

        reply.id = 1;
        reply.body_case = TSLAB__REPLY__BODY_ATTACH;
        reply.attach = &attach;
        attach.role = PROTO_ROLE_READER;
        assert_int_equal(unpack_reply_raw(&reply, 0), PROTO_E_BAD_FDS);
        assert_int_equal(unpack_reply_raw(&reply, 1), 0);
        assert_int_equal(unpack_reply_raw(&reply, 2), PROTO_E_BAD_FDS);
        attach.role = PROTO_ROLE_WRITER;
        assert_int_equal(unpack_reply_raw(&reply, 1), PROTO_E_BAD_FDS);
        assert_int_equal(unpack_reply_raw(&reply, 2), 0);
        attach.role = 4;
        assert_int_equal(unpack_reply_raw(&reply, 2), PROTO_E_MALFORMED);
}

static void test_reply_shape(void **state) {
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__Progress progress = TSLAB__PROGRESS__INIT;
        Tslab__TrimReply trim = TSLAB__TRIM_REPLY__INIT;

        reply.id = 1;
        assert_int_equal(unpack_reply_raw(&reply, 0), PROTO_E_MALFORMED);
        reply.error = -ESTALE;
        assert_int_equal(unpack_reply_raw(&reply, 0), 0);
        reply.more = true;
        assert_int_equal(unpack_reply_raw(&reply, 0), PROTO_E_MALFORMED);
        reply.more = false;
        reply.error = ESTALE;
        assert_int_equal(unpack_reply_raw(&reply, 0), PROTO_E_MALFORMED);
        reply.error = -4096;
        assert_int_equal(unpack_reply_raw(&reply, 0), PROTO_E_MALFORMED);
        reply.error = -ESTALE;
        reply.body_case = TSLAB__REPLY__BODY_TRIM;
        reply.trim = &trim;
        assert_int_equal(unpack_reply_raw(&reply, 0), PROTO_E_MALFORMED);
        reply.error = 0;
        assert_int_equal(unpack_reply_raw(&reply, 0), 0);
        reply.body_case = TSLAB__REPLY__BODY__NOT_SET;
        reply.progress = &progress;
        assert_int_equal(unpack_reply_raw(&reply, 0), PROTO_E_MALFORMED);
        reply.more = true;
        assert_int_equal(unpack_reply_raw(&reply, 0), 0);
}

static void test_reply_unknown_body(void **state) {
        static const uint8_t data[] = { 0x10, 0x01, 0xf2, 0x07, 0x00 };
        ProtoReply *reply = NULL;

        assert_int_equal(proto_reply_unpack(data, sizeof(data), 0, &reply), PROTO_E_UNKNOWN);
}

/* Found by the fuzzer: a field number of 0, which only an overlong form can carry. */
static void test_reply_field_zero(void **state) {
        static const uint8_t data[] = { 0x10, 0x01, 0x92, 0x02, 0x03, 0x82, 0x00, 0x00 };
        ProtoReply *reply = NULL;

        assert_int_equal(proto_reply_unpack(data, sizeof(data), 0, &reply), PROTO_E_MALFORMED);
}

/* The reader of a reply need not ask whether a part of it is there. */
static void test_reply_missing_message(void **state) {
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__WatchReply watch = TSLAB__WATCH_REPLY__INIT;
        Tslab__Event event = TSLAB__EVENT__INIT;

        reply.id = 1;
        reply.more = true;
        reply.body_case = TSLAB__REPLY__BODY_WATCH;
        reply.watch = &watch;
        assert_int_equal(unpack_reply_raw(&reply, 0), PROTO_E_MALFORMED);
        watch.event = &event;
        assert_int_equal(unpack_reply_raw(&reply, 0), PROTO_E_MALFORMED); /* no kind */
        event.kind = (char *) "death";
        assert_int_equal(unpack_reply_raw(&reply, 0), 0);
}

static void test_limit_strings(void **state) {
        assert_int_equal(pack_label(""), 0);
        assert_int_equal(pack_label(NULL), 0);
        assert_int_equal(pack_label("sessions \xc3\xa9\xe2\x82\xac"), 0);
        assert_int_equal(pack_label("0123456789012345678901234567890"), 0);
        assert_int_equal(pack_label("01234567890123456789012345678901"), PROTO_E_MALFORMED);
        assert_int_equal(pack_label("a\nb"), PROTO_E_MALFORMED);
        assert_int_equal(pack_label("\x1b[2J"), PROTO_E_MALFORMED);
        assert_int_equal(pack_label("\x7f"), PROTO_E_MALFORMED);
        assert_int_equal(pack_label("\xc2\x9b"), PROTO_E_MALFORMED); /* C1 */
        assert_int_equal(pack_label("\xff"), PROTO_E_MALFORMED);
        assert_int_equal(pack_label("\xc0\xaf"), PROTO_E_MALFORMED); /* overlong */
        assert_int_equal(pack_label("\xe0\x80\xaf"), PROTO_E_MALFORMED);
        assert_int_equal(pack_label("\xed\xa0\x80"), PROTO_E_MALFORMED); /* surrogate */
        assert_int_equal(pack_label("\xf4\x90\x80\x80"), PROTO_E_MALFORMED);
        assert_int_equal(pack_label("\xe2\x82"), PROTO_E_MALFORMED); /* cut off */
        assert_int_equal(pack_label("\xe2\x80\xae"), PROTO_E_MALFORMED); /* bidi override */
        assert_int_equal(pack_label("\xe2\x80\x8f"), PROTO_E_MALFORMED); /* right-to-left mark */
        assert_int_equal(pack_label("\xd8\x9c"), PROTO_E_MALFORMED); /* Arabic letter mark */
        assert_int_equal(pack_label("\xef\xbb\xbf"), PROTO_E_MALFORMED); /* shown by no terminal */
        assert_int_equal(pack_label("\x9b"), PROTO_E_MALFORMED); /* CSI of Latin-1 */
        assert_int_equal(pack_label("\xe2\x80\x8d"), 0); /* a joiner, which languages need */
}

static void test_limit_numbers(void **state) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochClose close = TSLAB__EPOCH_CLOSE__INIT;
        Tslab__Hello hello = TSLAB__HELLO__INIT;
        uint64_t id;

        request.id = 1;
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
        request.epoch_close = &close;
        close.epoch = 63 | 0xffffffU << 8;
        assert_int_equal(unpack_raw(&request, 0, &id), 0);
        close.epoch = 64;
        assert_int_equal(unpack_raw(&request, 0, &id), PROTO_E_MALFORMED);
        close.epoch = 64 | 1 << 8;
        assert_int_equal(unpack_raw(&request, 0, &id), PROTO_E_MALFORMED);
        close.epoch = 0;
        close.wait_msec = PROTO_WAIT_MSEC_MAX + 1;
        assert_int_equal(unpack_raw(&request, 0, &id), PROTO_E_MALFORMED);

        request.body_case = TSLAB__REQUEST__BODY_HELLO;
        request.hello = &hello;
        assert_int_equal(unpack_raw(&request, 0, &id), PROTO_E_MALFORMED);
        hello.protocol_version = 1;
        assert_int_equal(unpack_raw(&request, 0, &id), 0);
        hello.want_role = 4;
        assert_int_equal(unpack_raw(&request, 0, &id), PROTO_E_MALFORMED);
}

static void test_limit_arena_id(void **state) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Attach attach = TSLAB__ATTACH__INIT;
        uint8_t arena_id[17] = { 1 };
        uint64_t id;

        request.id = 1;
        request.body_case = TSLAB__REQUEST__BODY_ATTACH;
        request.attach = &attach;
        attach.arena_id.data = arena_id;
        for (size_t i = 0; i <= sizeof(arena_id); ++i) {
                attach.arena_id.len = i;
                assert_int_equal(unpack_raw(&request, 0, &id), i == 0 || i == 16 ? 0 : PROTO_E_MALFORMED);
        }
}

static void test_limit_entry(void **state) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Attach attach = TSLAB__ATTACH__INIT;
        uint64_t id;

        request.id = 1;
        request.body_case = TSLAB__REQUEST__BODY_ATTACH;
        request.attach = &attach;
        attach.entry = 4096;
        assert_int_equal(unpack_raw(&request, 0, &id), 0);
        attach.entry = 4097;
        assert_int_equal(unpack_raw(&request, 0, &id), PROTO_E_MALFORMED);
}

static void test_limit_counts(void **state) {
        _cleanup_(proto_freep) uint8_t *data = NULL;
        static char problem[PROTO_TEXT_MAX + 1], *problems[PROTO_PROBLEMS_MAX + 1];
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__CheckReply check = TSLAB__CHECK_REPLY__INIT;
        size_t size;

        memset(problem, 'x', PROTO_TEXT_MAX);
        for (size_t i = 0; i <= PROTO_PROBLEMS_MAX; ++i)
                problems[i] = problem;
        reply.id = 1;
        reply.body_case = TSLAB__REPLY__BODY_CHECK;
        reply.check = &check;
        check.problems = problems;
        check.n_problems = PROTO_PROBLEMS_MAX + 1;
        assert_int_equal(proto_reply_pack(&reply, 0, &data, &size), PROTO_E_MALFORMED);
        check.n_problems = PROTO_PROBLEMS_MAX;
        assert_int_equal(proto_reply_pack(&reply, 0, &data, &size), 0);
}

/*
 * All that is allowed fits: the largest list of clients goes into one datagram, and comes out of it within the
 * budget.
 */
static void test_limit_largest_fits(void **state) {
        _cleanup_(proto_reply_freep) ProtoReply *unpacked = NULL;
        _cleanup_(proto_freep) uint8_t *data = NULL;
        static Tslab__ClientInfo clients[PROTO_CLIENTS_MAX], *list[PROTO_CLIENTS_MAX];
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__ClientsReply body = TSLAB__CLIENTS_REPLY__INIT;
        size_t size;

        for (size_t i = 0; i < PROTO_CLIENTS_MAX; ++i) {
                clients[i] = (Tslab__ClientInfo) TSLAB__CLIENT_INFO__INIT;
                clients[i].client = 4095;
                clients[i].pid = INT32_MAX;
                clients[i].uid = clients[i].gid = clients[i].threads = UINT32_MAX;
                clients[i].role = PROTO_ROLE_OPERATOR;
                clients[i].comm = (char *) "0123456789abcde";
                clients[i].allocs = clients[i].frees = clients[i].cached_objects = UINT64_MAX;
                clients[i].pending_objects = clients[i].held_slabs = clients[i].attached_usec = UINT64_MAX;
                clients[i].control_only = true;
                list[i] = &clients[i];
        }
        reply.id = UINT64_MAX;
        reply.body_case = TSLAB__REPLY__BODY_CLIENTS;
        reply.clients = &body;
        body.n_clients = PROTO_CLIENTS_MAX;
        body.clients = list;

        assert_int_equal(proto_reply_pack(&reply, 0, &data, &size), 0);
        assert_int_equal(proto_reply_unpack(data, size, 0, &unpacked), 0);
        assert_int_equal(unpacked->clients->n_clients, PROTO_CLIENTS_MAX);
}

static void test_unpack_oversized(void **state) {
        static uint8_t data[PROTO_MESSAGE_MAX + 1];
        ProtoRequest *request = NULL;
        ProtoReply *reply = NULL;
        uint64_t id = 9;

        assert_int_equal(proto_request_unpack(data, sizeof(data), 0, &request, &id), PROTO_E_OVERSIZED);
        assert_int_equal(id, 0);
        assert_int_equal(proto_reply_unpack(data, sizeof(data), 0, &reply), PROTO_E_OVERSIZED);
}

/* A datagram full of the smallest fields would take megabytes: it is refused before. */
static void test_unpack_budget(void **state) {
        static uint8_t data[PROTO_MESSAGE_MAX];
        ProtoRequest *request = NULL;
        ProtoReply *reply = NULL;
        uint64_t id = 9;

        data[0] = 0x08;
        data[1] = 0x01;
        for (size_t i = 2; i + 1 < sizeof(data); i += 2) {
                data[i] = 0x78; /* field 15, unknown */
                data[i + 1] = 0x01;
        }
        assert_int_equal(proto_request_unpack(data, sizeof(data), 0, &request, &id), PROTO_E_MALFORMED);
        assert_int_equal(id, 0);

        /* an epoch list with 32 thousand empty epochs */
        memcpy(data, (uint8_t[]){ 0x10, 0x01, 0xc2, 0x01, 0xf4, 0xff, 0x03 }, 7);
        for (size_t i = 7; i + 1 < sizeof(data); i += 2) {
                data[i] = 0x0a;
                data[i + 1] = 0x00;
        }
        assert_int_equal(proto_reply_unpack(data, sizeof(data), 0, &reply), PROTO_E_MALFORMED);
        assert_null(reply);
}

static size_t check_limits_of(const ProtobufCMessageDescriptor *message) {
        size_t n = 1;

        for (size_t i = 0; i < message->n_fields; ++i) {
                const ProtobufCFieldDescriptor *field = &message->fields[i];

                if (!proto_field_has_limit(message->short_name, field))
                        fail_msg("no limit for %s.%s", message->name, field->name);
                if (field->type == PROTOBUF_C_TYPE_MESSAGE)
                        n += check_limits_of(field->descriptor);
        }
        return n;
}

static void test_every_field_has_a_limit(void **state) {
        assert_true(check_limits_of(&tslab__request__descriptor) > 10);
        assert_true(check_limits_of(&tslab__reply__descriptor) > 10);
}

/* proto_call() and the table of descriptors rely on it. */
static void test_every_reply_has_the_number_of_its_request(void **state) {
        const ProtobufCMessageDescriptor *reply = &tslab__reply__descriptor;

        for (size_t i = 0; i < reply->n_fields; ++i) {
                const ProtobufCFieldDescriptor *field = &reply->fields[i], *twin;

                if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
                        continue;
                twin = protobuf_c_message_descriptor_get_field(&tslab__request__descriptor, field->id);
                assert_non_null(twin);
                assert_string_equal(field->name, twin->name);
        }
}

static void test_text_clean(void **state) {
        char text[16];

        proto_text_clean(text, sizeof(text), "a\nb\x1b\xff\xc3\xa9");
        assert_string_equal(text, "a?b??\xc3\xa9");
        proto_text_clean(text, 4, "ab\xe2\x82\xac");
        assert_string_equal(text, "ab");
        proto_text_clean(text, 6, "ab\xe2\x82\xac");
        assert_string_equal(text, "ab\xe2\x82\xac");
        proto_text_clean(text, 1, "abc");
        assert_string_equal(text, "");
        proto_text_clean(text, sizeof(text), NULL);
        assert_string_equal(text, "");
        proto_text_clean(text, sizeof(text), "\xe2\x82");
        assert_string_equal(text, "??");
}

static void test_names(void **state) {
        assert_string_equal(proto_role_to_string(PROTO_ROLE_OPERATOR), "operator");
        assert_null(proto_role_to_string(0));
        assert_null(proto_role_to_string(4));
        assert_string_equal(proto_epoch_state_to_string(TSLAB__EPOCH_STATE__EPOCH_STATE_DRAINED), "drained");
        assert_null(proto_epoch_state_to_string(-1));
        assert_null(proto_epoch_state_to_string(4));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_request_roundtrip),
                cmocka_unit_test(test_request_every_prefix),
                cmocka_unit_test(test_request_no_id),
                cmocka_unit_test(test_request_no_body),
                cmocka_unit_test(test_request_unknown_body),
                cmocka_unit_test(test_request_unknown_option),
                cmocka_unit_test(test_request_reply_is_none),
                cmocka_unit_test(test_request_is_no_reply),
                cmocka_unit_test(test_request_fds),
                cmocka_unit_test(test_reply_fds),
                cmocka_unit_test(test_reply_shape),
                cmocka_unit_test(test_reply_unknown_body),
                cmocka_unit_test(test_reply_field_zero),
                cmocka_unit_test(test_reply_missing_message),
                cmocka_unit_test(test_limit_strings),
                cmocka_unit_test(test_limit_numbers),
                cmocka_unit_test(test_limit_arena_id),
                cmocka_unit_test(test_limit_entry),
                cmocka_unit_test(test_limit_counts),
                cmocka_unit_test(test_limit_largest_fits),
                cmocka_unit_test(test_unpack_oversized),
                cmocka_unit_test(test_unpack_budget),
                cmocka_unit_test(test_every_field_has_a_limit),
                cmocka_unit_test(test_every_reply_has_the_number_of_its_request),
                cmocka_unit_test(test_text_clean),
                cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
