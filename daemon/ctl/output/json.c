#include <stdlib.h>

#include "daemon/ctl/base/complain.h"
#include "daemon/ctl/output/json.h"
#include "proto/cleanup.h"

json_object *json_new_object(void) {
        return must(json_object_new_object());
}

json_object *json_new_array(void) {
        return must(json_object_new_array());
}

void json_add(json_object *object, const char *name, json_object *value) {
        if (json_object_object_add(object, name, value) < 0)
                (void) must(NULL);
}

void json_add_u64(json_object *object, const char *name, uint64_t value) {
        json_add(object, name, must(json_object_new_uint64(value)));
}

void json_add_u64_or_null(json_object *object, const char *name, bool known, uint64_t value) {
        json_add(object, name, known ? must(json_object_new_uint64(value)) : NULL);
}

void json_add_bool(json_object *object, const char *name, bool value) {
        json_add(object, name, must(json_object_new_boolean(value)));
}

/* Paths are any bytes, and JSON is UTF-8. */
static json_object *json_new_text(const char *text) {
        _cleanup_(proto_freep) char *clean = must_clean(text);

        return must(json_object_new_string(clean));
}

void json_add_string(json_object *object, const char *name, const char *value) {
        json_add(object, name, json_new_text(value ?: ""));
}

void json_append(json_object *array, json_object *value) {
        if (json_object_array_add(array, value) < 0)
                (void) must(NULL);
}

void json_append_string(json_object *array, const char *value) {
        json_append(array, json_new_text(value ?: ""));
}
