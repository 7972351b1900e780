#include <string.h>

#include "proto/path.h"
#include "proto/text.h"
#include "proto/validate.h"

#define EPOCH_ID_MAX 63U
#define ERA_MAX 0xffffffU
#define FIELD_MAX ((1U << 29) - 1) /* protobuf's */

/*
 * The first rule that matches is the one; without `message`, it matches the field in every message.
 */
typedef struct FieldRule {
        const char *message;
        const char *field;
        int64_t min;
        uint64_t max;
} FieldRule;

/* The length of strings and bytes. */
static const FieldRule length_rules[] = {
        { "Attach", "arena_id", 0, PROTO_ARENA_ID_SIZE }, /* bytes_are_valid() */
        { NULL, "arena_id", PROTO_ARENA_ID_SIZE, PROTO_ARENA_ID_SIZE },
        { NULL, "call", 1, PROTO_CALL_NAME_MAX },
        { NULL, "comm", 0, PROTO_COMM_MAX },
        { NULL, "daemon_version", 0, PROTO_SOFTWARE_MAX },
        { NULL, "keep_file", 0, PROTO_TEXT_MAX },
        { NULL, "kind", 1, PROTO_KIND_MAX },
        { NULL, "label", 0, PROTO_LABEL_MAX },
        { NULL, "limit_cgroup", 0, PROTO_TEXT_MAX },
        { "MapInfo", "map", 1, PROTO_MAP_NAME_MAX },
        { NULL, "map", 0, PROTO_MAP_NAME_MAX },
        { NULL, "message", 0, PROTO_ERROR_TEXT_MAX },
        { NULL, "name", 0, PROTO_ROOT_NAME_MAX },
        { NULL, "pool", 0, PROTO_POOL_NAME_MAX },
        { NULL, "page_wait_cause", 0, PROTO_TEXT_MAX },
        { NULL, "problems", 0, PROTO_TEXT_MAX },
        { NULL, "settings_error", 0, PROTO_ERROR_TEXT_MAX },
        { NULL, "software", 0, PROTO_SOFTWARE_MAX },
        { NULL, "text", 0, PROTO_TEXT_MAX },
};

/* How often repeated fields may stand. */
static const FieldRule count_rules[] = {
        { NULL, "asked", 0, PROTO_ASKED_MAX },     { NULL, "classes", 0, PROTO_CLASSES_MAX },
        { NULL, "clients", 0, PROTO_CLIENTS_MAX }, { NULL, "epochs", 0, PROTO_EPOCHS_MAX },
        { NULL, "cells", 0, PROTO_CELLS_MAX },     { NULL, "problems", 0, PROTO_PROBLEMS_MAX },
        { NULL, "calls", 0, PROTO_CALLS_MAX },     { NULL, "counts", 0, PROTO_CALL_COUNTS_MAX },
        { NULL, "maps", 0, PROTO_ROOTS_MAX },      { NULL, "roots", 0, PROTO_ROOTS_MAX },
};

/*
 * The value of numbers. Fields that are not here are counts, times and the like, where any value
 * may be shown.
 */
static const FieldRule number_rules[] = {
        { "Request", "id", 1, UINT64_MAX },
        { "Reply", "id", 1, UINT64_MAX },
        { "Reply", "error", -4095, 0 },
        { NULL, "protocol_version", 1, UINT32_MAX },
        { NULL, "want_role", 0, 3 },
        { NULL, "role", 1, 3 },
        { NULL, "client", 0, 4095 },
        { NULL, "waits_for", 0, 4096 },
        { "Attach", "entry", 0, 4096 },
        { "Event", "pid", -1, INT32_MAX },
        { NULL, "pid", 0, INT32_MAX },
        { NULL, "owner_pid", -1, INT32_MAX },
        { "EpochCloseReply", "oldest_era", 0, ERA_MAX },
        { "EpochCloseReply", "newest_era", 0, ERA_MAX },
        { NULL, "daemon_pid", 0, INT32_MAX },
        { NULL, "epoch", 0, EPOCH_ID_MAX | ERA_MAX << 8 },
        { "EpochAdvance", "expected", 0, EPOCH_ID_MAX | ERA_MAX << 8 },
        { "EpochInfo", "id", 0, EPOCH_ID_MAX },
        { "EpochInfo", "era", 0, ERA_MAX },
        { "EpochInfo", "state", 1, 3 },
        { NULL, "size", 0, 4096 },
        { "ClassInfo", "slots", 0, 64 },
        { "SlabMap", "cells", 0, PROTO_MAP_CELLS_MAX },
        { "SlabMapReply", "slabs_per_cell", 1, UINT32_MAX },
        { NULL, "epoch_id", 0, EPOCH_ID_MAX },
        { NULL, "class_bytes", 0, 4096 },
        { NULL, "evict", 0, 1 },
        { NULL, "near", 0, 2 },
        { "MapSet", "set", 0, 31 },
        { NULL, "ttl_msec", 0, PROTO_MAP_TTL_MSEC_MAX },
        { NULL, "wait_msec", 0, PROTO_WAIT_MSEC_MAX },
        { NULL, "wait_drained_msec", 0, PROTO_WAIT_MSEC_MAX },
};

#define FIND_RULE(_rules, _message, _field)                                                                  \
        find_rule((_rules), sizeof(_rules) / sizeof((_rules)[0]), (_message), (_field))

static const FieldRule *find_rule(const FieldRule *rules, size_t n_rules, const char *message,
                                  const char *field) {
        for (size_t i = 0; i < n_rules; ++i)
                if (!strcmp(rules[i].field, field) &&
                    (!rules[i].message || !strcmp(rules[i].message, message)))
                        return &rules[i];

        return NULL;
}

static bool value_within(const FieldRule *rule, size_t n) {
        return (int64_t) n >= rule->min && n <= rule->max;
}

static bool text_is_valid(const char *message, const char *field, const char *text) {
        const FieldRule *rule = FIND_RULE(length_rules, message, field);

        return rule && proto_text_is_clean(text, rule->max) && value_within(rule, text ? strlen(text) : 0);
}

static bool bytes_are_valid(const char *message, const char *field, const ProtobufCBinaryData *bytes) {
        const FieldRule *rule = FIND_RULE(length_rules, message, field);

        /* an arena id is whole, or, where that is allowed, absent */
        return rule && value_within(rule, bytes->len) && (bytes->len == 0 || bytes->len == rule->max);
}

static bool unsigned_is_valid(const char *message, const char *field, uint64_t value) {
        const FieldRule *rule = FIND_RULE(number_rules, message, field);

        if (!strcmp(field, "epoch") && (value & 0xff) > EPOCH_ID_MAX)
                return false;

        return !rule || ((rule->min <= 0 || value >= (uint64_t) rule->min) && value <= rule->max);
}

static bool signed_is_valid(const char *message, const char *field, int64_t value) {
        const FieldRule *rule = FIND_RULE(number_rules, message, field);

        return !rule || (value >= rule->min && (value < 0 || (uint64_t) value <= rule->max));
}

static bool value_is_valid(const char *message, const ProtobufCFieldDescriptor *field, const void *value) {
        switch (field->type) {
        case PROTOBUF_C_TYPE_BOOL:
                return true;
        case PROTOBUF_C_TYPE_UINT32:
        case PROTOBUF_C_TYPE_FIXED32:
                return unsigned_is_valid(message, field->name, *(const uint32_t *) value);
        case PROTOBUF_C_TYPE_UINT64:
        case PROTOBUF_C_TYPE_FIXED64:
                return unsigned_is_valid(message, field->name, *(const uint64_t *) value);
        case PROTOBUF_C_TYPE_SINT32:
        case PROTOBUF_C_TYPE_ENUM:
                return signed_is_valid(message, field->name, *(const int32_t *) value);
        case PROTOBUF_C_TYPE_STRING:
                return text_is_valid(message, field->name, *(char *const *) value);
        case PROTOBUF_C_TYPE_BYTES:
                return bytes_are_valid(message, field->name, value);
        case PROTOBUF_C_TYPE_MESSAGE:
                return *(ProtobufCMessage *const *) value &&
                       proto_message_is_valid(*(ProtobufCMessage *const *) value);
        default:
                return false; /* a type that the protocol does not use so far */
        }
}

static size_t value_size(const ProtobufCFieldDescriptor *field) {
        switch (field->type) {
        case PROTOBUF_C_TYPE_STRING:
        case PROTOBUF_C_TYPE_MESSAGE:
                return sizeof(void *);
        case PROTOBUF_C_TYPE_BYTES:
                return sizeof(ProtobufCBinaryData);
        case PROTOBUF_C_TYPE_UINT64:
        case PROTOBUF_C_TYPE_FIXED64:
                return sizeof(uint64_t);
        default:
                return sizeof(uint32_t);
        }
}

/*
 * The values of a field: an array of them, which is empty for an optional field that is not there.
 */
static const uint8_t *field_values(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                                   size_t *ret_n) {
        const uint8_t *base = (const uint8_t *) message, *value = base + field->offset;

        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
                *ret_n = *(const size_t *) (base + field->quantifier_offset);
                return *(uint8_t *const *) value;
        }

        *ret_n = 1;
        if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
                *ret_n = *(const uint32_t *) (base + field->quantifier_offset) == field->id;
        } else if (field->type == PROTOBUF_C_TYPE_MESSAGE &&
                   (!strcmp(field->name, "progress") || !strcmp(field->name, "peaks"))) {
                /*
                 * Only these messages within messages may be missing: users may rely on the others.
                 */
                *ret_n = *(ProtobufCMessage *const *) value ? 1 : 0;
        }
        return value;
}

static bool field_is_valid(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
        const char *name = message->descriptor->short_name;
        const uint8_t *values;
        size_t n;

        values = field_values(message, field, &n);
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
                const FieldRule *rule = FIND_RULE(count_rules, name, field->name);

                if (!rule || n > rule->max)
                        return false;
        }

        for (size_t i = 0; i < n; ++i)
                if (!value_is_valid(name, field, values + i * value_size(field)))
                        return false;

        return true;
}

/* protobuf-c lets numbers of fields pass, in overlong form, that it could not pack. */
static bool unknown_are_valid(const ProtobufCMessage *message) {
        for (size_t i = 0; i < message->n_unknown_fields; ++i)
                if (message->unknown_fields[i].tag < 1 || message->unknown_fields[i].tag > FIELD_MAX)
                        return false;

        return true;
}

bool proto_message_is_valid(const ProtobufCMessage *message) {
        if (!unknown_are_valid(message))
                return false;

        for (size_t i = 0; i < message->descriptor->n_fields; ++i)
                if (!field_is_valid(message, &message->descriptor->fields[i]))
                        return false;

        return true;
}

bool proto_message_has_unknown(const ProtobufCMessage *message) {
        if (message->n_unknown_fields > 0)
                return true;

        for (size_t i = 0; i < message->descriptor->n_fields; ++i) {
                const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
                const uint8_t *values;
                size_t n;

                if (field->type != PROTOBUF_C_TYPE_MESSAGE)
                        continue;
                values = field_values(message, field, &n);
                for (size_t j = 0; j < n; ++j)
                        if (proto_message_has_unknown(((ProtobufCMessage *const *) values)[j]))
                                return true;
        }

        return false;
}

bool proto_field_has_limit(const char *message, const ProtobufCFieldDescriptor *field) {
        if (field->label == PROTOBUF_C_LABEL_REPEATED && !FIND_RULE(count_rules, message, field->name))
                return false;
        if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_BYTES)
                return FIND_RULE(length_rules, message, field->name);

        return true;
}
