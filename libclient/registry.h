#pragma once
/* The pools that are open in this process, and what its threads have in them. */
#include "libclient/pool.h"

/* Prepares this process, once. -ENOMEM, -EAGAIN (no thread key left). */
int registry_init(void);

/* Gives the pool its serial and makes it known; from then on threads may get states in it. */
void registry_add(struct tslab *pool);
/* After this no thread that ends touches the pool. */
void registry_remove(struct tslab *pool);

/* The same for a pool of which something will be left. */
void registry_close(struct tslab *pool);
/*
 * What is left is ready. It is given up when all threads that had a state in the pool have ended, or
 * have used enough other pools to forget it, and CLOSED_MSEC have passed for those that had none.
 */
void registry_keep(struct tslab *pool);
/* No address space is left: gives up what can be, waiting some CLOSED_MSEC at most. False: there was nothing. */
bool registry_give_up(void);

/* Gives up the address space that a closed pool has left. */
void pool_give_up(struct tslab *pool);

/* A number that no state in this process or those it was forked from has had. */
uint64_t registry_token(void);

/* Gives a state's record back, and frees what is pending in it. */
void thread_state_deinit(ThreadState *state);
