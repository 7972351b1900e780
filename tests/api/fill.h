#pragma once
/* How much a small pool has room for. */
#include <tslab.h>

#include "tests/util/test.h"

#define FILL_MAX 20000

/* Takes all objects of 64 bytes that there are, and frees them; returns how many. */
static inline int fill(struct tslab *pool) {
        static tslab_handle handles[FILL_MAX];
        int n = 0;

        while (n < FILL_MAX && tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handles[n], NULL) == 0)
                n++;
        for (int i = 0; i < n; i++)
                assert_int_equal(tslab_free(pool, handles[i]), 0);
        return n;
}
