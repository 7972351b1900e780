#pragma once
/* The pools that are open in this process, and its threads' states in them. */
#include "libclient/pool.h"

/* Prepares this process; may be called again, also after a failure. -ENOMEM, -EAGAIN (no thread key left). */
int registry_init(void);

/* Gives the pool its serial and makes it known; from then on threads may get states in it. */
void registry_add(struct tslab *pool);
/* After this no thread that ends touches the pool. */
void registry_remove(struct tslab *pool);

/* For a thread that ended in a call of the pool, and is in a destructor now: nobody is to wait for that call. */
void registry_end_call(struct tslab *pool);
/* registry_remove() for a pool that leaves remains, at which threads may still look. */
void registry_close(struct tslab *pool);
/*
 * The remains are ready. They are given up when all threads that had a state in the pool have ended, or
 * have used enough other pools to forget it, and CLOSED_MSEC have passed for threads that had none.
 */
void registry_keep(struct tslab *pool);
/* For lack of address space: gives up remains, and waits some CLOSED_MSEC at most. False: there were none. */
bool registry_give_up(void);

/* Unmaps the remains of a closed pool. */
void pool_give_up(struct tslab *pool);

/* A number that no state in this process or its ancestors has had. */
uint64_t registry_token(void);

/* Gives a state's record back, and frees its pending objects. */
void thread_state_deinit(ThreadState *state);
