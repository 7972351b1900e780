#pragma once

/*
 * The limits of the protocol's fields, in one place. They are kept by name of message
 * and field, and a walk over protobuf-c's descriptors applies them, so that a field cannot be
 * forgotten: text without a limit is refused (and tests/unit/proto/test-message.c checks that all text has one).
 */

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

/* Bytes, without the final 0. */
#define PROTO_COMM_MAX 15
#define PROTO_LABEL_MAX 31
#define PROTO_KIND_MAX 31
#define PROTO_SOFTWARE_MAX 63
#define PROTO_TEXT_MAX 255
#define PROTO_ROOT_NAME_MAX 255
#define PROTO_MAP_NAME_MAX 43
#define PROTO_ERROR_TEXT_MAX 1023
#define PROTO_ARENA_ID_SIZE 16

/* Entries in one message; longer lists go into several replies. */
#define PROTO_EPOCHS_MAX 64
#define PROTO_CLASSES_MAX 32
#define PROTO_PROBLEMS_MAX 64
#define PROTO_CLIENTS_MAX 256
#define PROTO_ROOTS_MAX 255
#define PROTO_CALLS_MAX 32
#define PROTO_CALL_NAME_MAX 31
#define PROTO_CALL_COUNTS_MAX 16
#define PROTO_ASKED_MAX 256
#define PROTO_CELLS_MAX 256

/* In all replies of one map. */
#define PROTO_MAP_CELLS_MAX 65536U

#define PROTO_WAIT_MSEC_MAX 86400000U
#define PROTO_MAP_TTL_MSEC_MAX UINT64_C(315576000000) /* ten years */
#define PROTO_MAP_VALUE_MAX (16U << 20) /* bytes, whatever the map allows */

/* All that a message holds is within its limits. */
bool proto_message_is_valid(const ProtobufCMessage *message);

/* Whether the message, or one in it, came with fields that this version does not know. */
bool proto_message_has_unknown(const ProtobufCMessage *message);

/*
 * For the tests: text or bytes or repeated, and there is a limit for it. Others have one or need
 * none.
 */
bool proto_field_has_limit(const char *message, const ProtobufCFieldDescriptor *field);
