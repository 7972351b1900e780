#pragma once
/* As much JSON as the demo needs. A program that needs more should use a library. */
#include <stdint.h>

/* A number that is a member of the outermost object. -ENOENT. */
int json_find_number(const char *text, const char *name, uint64_t *ret);
