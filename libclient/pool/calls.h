#pragma once
/*
 * Threads in the middle of a call: between pool_begin() and pool_end() a pool stays open. They nest. For tslab_close(),
 * each such thread has a slot with its number, since a thread may end there without pool_end().
 */
#include "libclient/pool/pool.h"

/* -EBADF: the pool was closed. */
int pool_begin(struct tslab *pool);
void pool_end(struct tslab *pool);

/* Whether a thread is in a call, other than those that ended there. After the pool was closed. */
bool calls_any(struct tslab *pool);
/* This thread ended in a call of the pool, and is in a destructor now: nobody is to wait for that call. */
void calls_forget(struct tslab *pool);

static inline bool pool_is_closed(const struct tslab *pool) {
        return shm_load_rlx(&pool->serial) == POOL_CLOSED; /* ORDER: rlx; the caller's fences order it. */
}
