#include "tests/crash/burst.h"

#include <string.h>

static uint32_t allocate(Burst *burst, struct tslab *pool, uint32_t epoch, uint64_t random) {
        uint32_t n = 1 + random % BURST_MAX;
        size_t size = 1 + (random >> 16) % 768;
        ssize_t done;

        if (random >> 32 & 1) {
                done = tslab_alloc_batch(pool, size, epoch, burst->handles, n);
                return done < 0 ? 0 : (uint32_t) done;
        }
        for (uint32_t i = 0; i < n; i++)
                if (tslab_alloc(pool, size, epoch, &burst->handles[i], NULL) < 0)
                        return i;
        return n;
}

static void forget(Burst *burst, uint32_t n) {
        memset(burst->handles, 0, n * sizeof(burst->handles[0]));
        burst->freeing = false;
}

/* A killed process's stores are there afterwards, in program order. */
void burst_inherit(Burst *burst, struct tslab *pool) {
        bool freeing = burst->freeing;

        burst->freeing = true;
        for (uint32_t i = 0; i < BURST_MAX; i++)
                if (burst->handles[i] != 0 && tslab_free(pool, burst->handles[i]) < 0 && !freeing)
                        burst->n_stale++;
        forget(burst, BURST_MAX);
}

uint32_t burst_once(Burst *burst, struct tslab *pool, uint32_t epoch, uint64_t random) {
        uint32_t n = allocate(burst, pool, epoch, random);

        burst->freeing = true;
        if (tslab_free_batch(pool, burst->handles, n) != (ssize_t) n)
                burst->n_stale++;
        forget(burst, n);
        return n;
}
