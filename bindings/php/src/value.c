/*
 * Values of PHP as bytes, in the format that all languages share: README.md has it.
 *
 * A string is its bytes, and an integer that a counter holds is the counter. All else is one item of CBOR (RFC 8949)
 * behind the tag for "self-described CBOR", which are the bytes D9 D9 F7. So is a string that begins with these bytes.
 * Arrays and objects are a byte string of a serializer behind a tag that names it.
 */
#include "php_tslab.h"

#include <errno.h>
#include <string.h>

#include <ext/json/php_json.h>
#include <ext/standard/php_var.h>
#include <zend_smart_str.h>

#define TAG_JSON 262 /* registered: embedded JSON */
#define TAG_PHP 0x54534c01 /* our own: serialize() of PHP, igbinary, msgpack of PHP */
#define TAG_IGBINARY 0x54534c02
#define TAG_MSGPACK 0x54534c03

enum { UNSIGNED = 0, NEGATIVE = 1, BYTES = 2, TEXT = 3, TAG = 6, SIMPLE = 7 }; /* major types of CBOR */
enum { CBOR_FALSE = 20, CBOR_TRUE = 21, CBOR_NULL = 22, CBOR_DOUBLE = 27 };

static const char magic[] = { (char) 0xd9, (char) 0xd9, (char) 0xf7 };

static bool is_described(const char *data, size_t size) {
        return size >= sizeof(magic) && memcmp(data, magic, sizeof(magic)) == 0;
}

static void put_head(smart_str *to, int major, uint64_t number) {
        int n = number < 24            ? 0
                : number <= UINT8_MAX  ? 1
                : number <= UINT16_MAX ? 2
                : number <= UINT32_MAX ? 4
                                       : 8;
        int low = n == 0 ? (int) number : n == 1 ? 24 : n == 2 ? 25 : n == 4 ? 26 : 27;

        smart_str_appendc(to, (char) (major << 5 | low));
        while (n > 0)
                smart_str_appendc(to, (char) (number >> 8 * --n));
}

typedef struct Reader {
        const unsigned char *at, *end;
} Reader;

static int get_head(Reader *from, int *ret_major, uint64_t *ret_number) {
        uint64_t number = 0;
        int low, n;

        if (from->at == from->end)
                return -EBADMSG;
        *ret_major = *from->at >> 5;
        low = *from->at++ & 31;
        n = low < 24 ? 0 : low <= 27 ? 1 << (low - 24) : -1;
        if (n < 0 || from->end - from->at < n)
                return -EBADMSG;
        for (int i = 0; i < n; i++)
                number = number << 8 | *from->at++;
        *ret_number = n == 0 ? (uint64_t) low : number;
        /* A double has the major type of true, false and null: tell it apart by its length. */
        if (*ret_major == SIMPLE)
                *ret_number = low == CBOR_DOUBLE ? number : (uint64_t) low;
        return low;
}

/* Calls a function of PHP, of a serializer that is loaded. */
static int call_function(const char *name, zval *argument, zval *ret) {
        zval function;
        int r;

        ZVAL_STRING(&function, name);
        r = call_user_function(NULL, NULL, &function, ret, 1, argument) == SUCCESS && !EG(exception)
                    ? 0
                    : -EBADMSG;
        zval_ptr_dtor_str(&function);
        return r;
}

static bool has_function(const char *name) {
        return zend_hash_str_exists(CG(function_table), name, strlen(name));
}

bool php_tslab_value_is_serializer(const char *name) {
        return strcmp(name, "php") == 0 || strcmp(name, "json") == 0 || strcmp(name, "igbinary") == 0 ||
               strcmp(name, "msgpack") == 0;
}

static int serialize(zval *value, smart_str *to, uint32_t *ret_tag) {
        const char *name = TSLAB_G(serializer);
        zval bytes;
        int r;

        if (strcmp(name, "json") == 0) {
                *ret_tag = TAG_JSON;
                r = php_json_encode(to, value, PHP_JSON_UNESCAPED_SLASHES | PHP_JSON_UNESCAPED_UNICODE);
                /* It makes 0 of INF and NAN, and only notes that. */
                return r == SUCCESS && JSON_G(error_code) == PHP_JSON_ERROR_NONE ? 0 : -EBADMSG;
        }
        if ((strcmp(name, "igbinary") == 0 && has_function("igbinary_serialize")) ||
            (strcmp(name, "msgpack") == 0 && has_function("msgpack_pack"))) {
                *ret_tag = *name == 'i' ? TAG_IGBINARY : TAG_MSGPACK;
                r = call_function(*name == 'i' ? "igbinary_serialize" : "msgpack_pack", value, &bytes);
                if (r == 0 && Z_TYPE(bytes) == IS_STRING)
                        smart_str_append(to, Z_STR(bytes));
                else
                        r = -EBADMSG;
                zval_ptr_dtor(&bytes);
                return r;
        }
        php_serialize_data_t data;

        *ret_tag = TAG_PHP;
        PHP_VAR_SERIALIZE_INIT(data);
        php_var_serialize(to, value, &data);
        PHP_VAR_SERIALIZE_DESTROY(data);
        return EG(exception) ? -EBADMSG : 0;
}

static int pack_serialized(zval *value, smart_str *to) {
        smart_str bytes = { 0 };
        uint32_t tag;
        int r;

        r = serialize(value, &bytes, &tag);
        if (r == 0) {
                smart_str_0(&bytes);
                put_head(to, TAG, tag);
                put_head(to, tag == TAG_JSON ? TEXT : BYTES, ZSTR_LEN(bytes.s));
                smart_str_append(to, bytes.s);
        }
        smart_str_free(&bytes);
        return r;
}

/*
 * Makes the bytes of a value. *ret_held is NULL, or a string that the caller releases when it is done with them. If
 * the value cannot be serialized, the call returns -EBADMSG, with an exception unless the serializer gave none.
 */
int php_tslab_value_pack(zval *value, const char **ret_data, size_t *ret_size, zend_string **ret_held) {
        smart_str to = { 0 };
        double number;
        uint64_t bits;
        int r = 0;

        ZVAL_DEREF(value);
        if (EXPECTED(Z_TYPE_P(value) == IS_STRING) && !is_described(Z_STRVAL_P(value), Z_STRLEN_P(value))) {
                *ret_data = Z_STRVAL_P(value);
                *ret_size = Z_STRLEN_P(value);
                *ret_held = NULL;
                return 0;
        }
        smart_str_appendl(&to, magic, sizeof(magic));
        switch (Z_TYPE_P(value)) {
        case IS_UNDEF:
        case IS_NULL:
                put_head(&to, SIMPLE, CBOR_NULL);
                break;
        case IS_FALSE:
                put_head(&to, SIMPLE, CBOR_FALSE);
                break;
        case IS_TRUE:
                put_head(&to, SIMPLE, CBOR_TRUE);
                break;
        case IS_LONG:
                if (Z_LVAL_P(value) >= 0)
                        put_head(&to, UNSIGNED, (uint64_t) Z_LVAL_P(value));
                else
                        put_head(&to, NEGATIVE, ~(uint64_t) Z_LVAL_P(value));
                break;
        case IS_DOUBLE:
                number = Z_DVAL_P(value);
                memcpy(&bits, &number, sizeof(bits));
                smart_str_appendc(&to, (char) (SIMPLE << 5 | CBOR_DOUBLE));
                for (int i = 7; i >= 0; i--)
                        smart_str_appendc(&to, (char) (bits >> 8 * i));
                break;
        case IS_STRING:
                put_head(&to, BYTES, Z_STRLEN_P(value));
                smart_str_append(&to, Z_STR_P(value));
                break;
        default:
                r = pack_serialized(value, &to);
        }
        if (r < 0) {
                smart_str_free(&to);
                return r;
        }
        smart_str_0(&to);
        *ret_data = ZSTR_VAL(to.s);
        *ret_size = ZSTR_LEN(to.s);
        *ret_held = to.s;
        return 0;
}

static int unserialize(const unsigned char *data, size_t size, zval *ret) {
        php_unserialize_data_t memory;
        int r;

        PHP_VAR_UNSERIALIZE_INIT(memory);
        ZVAL_NULL(ret);
        r = php_var_unserialize(ret, &data, data + size, &memory) ? 0 : -EBADMSG;
        PHP_VAR_UNSERIALIZE_DESTROY(memory);
        if (r < 0 || EG(exception)) {
                zval_ptr_dtor(ret);
                return -EBADMSG;
        }
        /* A reference to the root is no value that can be handed out. */
        if (Z_ISREF_P(ret))
                zend_unwrap_reference(ret);
        return 0;
}

static int unpack_tagged(Reader *from, uint64_t tag, zval *ret) {
        uint64_t size;
        zval bytes;
        int major, r;

        r = get_head(from, &major, &size);
        if (r < 0)
                return r;
        if ((major != BYTES && major != TEXT) || size != (uint64_t) (from->end - from->at))
                return -EBADMSG;
        switch (tag) {
        case TAG_PHP:
                return unserialize(from->at, size, ret);
        case TAG_JSON:
                r = php_json_decode_ex(ret, (const char *) from->at, size, PHP_JSON_OBJECT_AS_ARRAY, 512);
                return r == SUCCESS && !EG(exception) ? 0 : -EBADMSG;
        case TAG_IGBINARY:
        case TAG_MSGPACK: {
                const char *name = tag == TAG_IGBINARY ? "igbinary_unserialize" : "msgpack_unpack";

                if (!has_function(name))
                        return -EBADMSG;
                ZVAL_STRINGL(&bytes, (const char *) from->at, size);
                r = call_function(name, &bytes, ret);
                zval_ptr_dtor_str(&bytes);
                /* It makes null or false of bytes that it cannot read. */
                if (r == 0 && Z_TYPE_P(ret) != IS_ARRAY && Z_TYPE_P(ret) != IS_OBJECT) {
                        zval_ptr_dtor(ret);
                        r = -EBADMSG;
                }
                return r;
        }
        default:
                return -EBADMSG;
        }
}

static int unpack_described(const char *data, size_t size, zval *ret) {
        Reader from = { (const unsigned char *) data + sizeof(magic), (const unsigned char *) data + size };
        uint64_t number;
        double value;
        int major, low;

        low = get_head(&from, &major, &number);
        if (low < 0)
                return low;
        switch (major) {
        case UNSIGNED:
        case NEGATIVE:
                if (from.at != from.end || number > INT64_MAX)
                        return -EBADMSG;
                ZVAL_LONG(ret, major == UNSIGNED ? (zend_long) number : (zend_long) ~number);
                return 0;
        case BYTES:
        case TEXT:
                if (number != (uint64_t) (from.end - from.at))
                        return -EBADMSG;
                ZVAL_STRINGL(ret, (const char *) from.at, number);
                return 0;
        case TAG:
                return unpack_tagged(&from, number, ret);
        case SIMPLE:
                if (from.at != from.end)
                        return -EBADMSG;
                if (low == CBOR_DOUBLE) {
                        memcpy(&value, &number, sizeof(value));
                        ZVAL_DOUBLE(ret, value);
                } else if (number == CBOR_FALSE || number == CBOR_TRUE) {
                        ZVAL_BOOL(ret, number == CBOR_TRUE);
                } else if (number == CBOR_NULL) {
                        ZVAL_NULL(ret);
                } else {
                        return -EBADMSG;
                }
                return 0;
        default:
                return -EBADMSG;
        }
}

/*
 * Makes a value of bytes, and releases these; `flags` are those of the entry. -EBADMSG: they are no value, or of a
 * class that fails; then *ret is null.
 */
int php_tslab_value_unpack(zend_string *data, uint32_t flags, zval *ret) {
        int64_t number;
        int r = 0;

        if (EXPECTED(!(flags & TSLAB_MAP_COUNTER) && !is_described(ZSTR_VAL(data), ZSTR_LEN(data)))) {
                ZVAL_STR(ret, data);
                return 0;
        }
        if (!(flags & TSLAB_MAP_COUNTER)) {
                r = unpack_described(ZSTR_VAL(data), ZSTR_LEN(data), ret);
        } else if (ZSTR_LEN(data) == sizeof(number)) {
                memcpy(&number, ZSTR_VAL(data), sizeof(number));
                ZVAL_LONG(ret, number);
        } else {
                r = -EBADMSG;
        }
        zend_string_release(data);
        if (UNEXPECTED(r < 0))
                ZVAL_NULL(ret); /* parts of it may have been there, and be freed */
        return r;
}
