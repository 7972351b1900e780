#pragma once
/* The pools that are open in this process, and what its threads have in them. */
#include "libclient/pool.h"

/* Prepares this process, once. -ENOMEM, -EAGAIN (no thread key left). */
int registry_init(void);

/* Gives the pool its serial and makes it known; from then on threads may get states in it. */
void registry_add(struct tslab *pool);
/* After this no thread that ends touches the pool. */
void registry_remove(struct tslab *pool);

/* Keeps what is left of a closed pool within reach, for leak checkers. */
void registry_keep(struct tslab *pool);

/* A number that no state in this process or those it was forked from has had. */
uint64_t registry_token(void);

/* Gives a state's record back, and frees what is pending in it. */
void thread_state_deinit(ThreadState *state);
