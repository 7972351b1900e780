#pragma once
/* The pools that are open in this process, and the remains of closed ones. */
#include "libclient/pool/pool.h"

/* May be called again, also after a failure. -ENOMEM. */
int registry_init(void);

/* Gives the pool its serial and makes it known; from then on threads may get states in it. */
void registry_add(struct tslab *pool);
/* After this no thread that ends touches the pool. */
void registry_remove(struct tslab *pool);
/* registry_remove() for a pool that leaves remains, at which threads may still look. */
void registry_close(struct tslab *pool);
/*
 * The remains are ready. They are given up when all threads that had a state in the pool have ended, or
 * have used enough other pools to forget it, and CLOSED_MSEC have passed for threads that had none.
 */
void registry_keep(struct tslab *pool);
/* For lack of address space: gives up remains, and waits some CLOSED_MSEC at most. False: there were none. */
bool registry_give_up(void);

/* A number that no state in this process or its ancestors has had. */
uint64_t registry_token(void);

/* Counts an entry that is about to have a state in this process. */
void registry_count(struct tslab *pool, ThreadCache *entry);

void registry_take_lock(void);
void registry_release_lock(void);
/* Under the lock. */

/* The open pool that has this serial; NULL: there is none. */
struct tslab *registry_find(uint64_t serial);
/* For each pool, open or closed. */
void registry_each(void (*f)(struct tslab *pool));
/* Takes an entry off the count. One that was counted in a parent process is not counted here. */
void registry_drop(const ThreadCache *entry);
