#pragma once
/* The pools that are open in this process, and what its threads have in them. */
#include "libclient/pool.h"

/* Prepares this process, once. -ENOMEM, -EAGAIN (no thread key left). */
int registry_init(void);

void registry_lock(void);
void registry_unlock(void);
/* An open pool, or one of which something is left, by its number; NULL. Under the lock. */
struct tslab *registry_find(uint64_t serial);
struct tslab *registry_find_closed(uint64_t serial);

/* The entries that this process has in one arena. */
typedef struct OwnClients {
        uint32_t *clients; /* free() */
        size_t n;
        bool are_all; /* no other thread is just becoming one */
} OwnClients;

/*
 * Around attaching, from before it connects until registry_own_clients() finds it. Another thread
 * that attaches meanwhile does not claim to know all.
 */
void registry_begin_attach(void);
void registry_end_attach(void);
/* -ENOMEM. A forked child has none of its parent's. */
int registry_own_clients(const uint64_t *arena_id, OwnClients *ret);

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

/* For registry_init(): -EAGAIN. */
int thread_init(void);
/* This thread's entries of pools that are closed. */
void thread_forget_closed(void);
/* Gives a state's record back, and frees what is pending in it. */
void thread_state_deinit(ThreadState *state);
