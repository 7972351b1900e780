#pragma once
/* Requests for values by key, the same for every store. */
#include <stdint.h>

typedef struct Trace {
        uint32_t n, n_keys;
        uint32_t *keys; /* the requests, in order */
        uint32_t *sizes; /* by key: each value has one */
} Trace;

/*
 * "zipf-S": n requests for 300,000 keys, of which key i is as likely as (i + 1)^-S, with values of up to 1000 bytes,
 * all sizes equally often. "wide-S": the same with values of 64 bytes to 8 KiB, as many between 64 and 128 bytes as
 * between 4 and 8 KiB. "log": the pages of an access log, `path` or one made up of n requests; pages over 1 MiB are
 * left out.
 */
void trace_make(Trace *trace, const char *name, const char *path, uint32_t n);
void trace_free(Trace *trace);
