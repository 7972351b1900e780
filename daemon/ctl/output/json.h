#pragma once

/*
 * Functions that build JSON values and end the program if memory runs out. An object owns the values
 * added to it.
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

json_object *json_new_object(void);
json_object *json_new_array(void);

/* A NULL value is null. */
void json_add(json_object *object, const char *name, json_object *value);
void json_add_u64(json_object *object, const char *name, uint64_t value);
/* null unless `known` */
void json_add_u64_or_null(json_object *object, const char *name, bool known, uint64_t value);
void json_add_bool(json_object *object, const char *name, bool value);
/* NULL is "": protobuf does not tell the two apart. */
void json_add_string(json_object *object, const char *name, const char *value);

void json_append(json_object *array, json_object *value);
void json_append_string(json_object *array, const char *value);
