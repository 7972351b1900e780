#pragma once
/* The little JSON that the demo needs; programs with a need for more use a library. */
#include <stdint.h>

/* A number that is a member of the outermost object. -ENOENT. */
int json_find_number(const char *text, const char *name, uint64_t *ret);
