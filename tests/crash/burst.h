#pragma once
/*
 * A worker that spends its time in operations of several steps: it allocates many objects at once, does not look at
 * them, and frees them at once, so that caches are filled and flushed all the time. Its objects are in an epoch that
 * nobody closes: each is live until its worker frees it. Their handles are in memory that outlives the worker, so that
 * the next worker goes on with them.
 */
#include <stdbool.h>
#include <stdint.h>
#include <tslab.h>

#define BURST_MAX 600

typedef struct Burst {
        tslab_handle handles[BURST_MAX]; /* as the library wrote them, 0 before */
        volatile bool freeing; /* any of them may be stale */
        volatile uint64_t n_stale; /* objects that somebody else freed */
} Burst;

/* Frees the objects that the worker before left. */
void burst_inherit(Burst *burst, struct tslab *pool);
/* How many were allocated and freed again. */
uint32_t burst_once(Burst *burst, struct tslab *pool, uint32_t epoch, uint64_t random);
