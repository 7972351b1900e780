#pragma once
/* A made-up access log: a seed gives the same text on every machine. */
#include <stddef.h>
#include <stdint.h>

/*
 * `n` lines, in the order of time, of one day: some thousand clients, few of which ask often and most of
 * which seldom; all along new ones come, old ones stop coming, and some return. *ret was got by malloc(). -ENOMEM.
 */
int traffic_make(uint64_t seed, size_t n, char **ret, size_t *ret_size);
