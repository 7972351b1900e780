#pragma once
/*
 * Samples of allocations, with their call stacks, for `tslabctl leaks`: if TSLAB_SAMPLE=N is in the environment, each
 * Nth allocation of this process is noted in a memfd that the daemon keeps. Such a process takes the slow path for all
 * its calls; others pay nothing.
 */
#include "libclient/pool/pool.h"

/*
 * Makes the sampler of this process, which has attached, if one is wanted; under attach_lock.
 * Without memory, or with a daemon that takes none, there is none.
 */
void sampler_begin(struct tslab *pool);
/* Gives it to a new daemon; under call_lock. */
void sampler_offer(struct tslab *pool);
/*
 * The pool is closed, and no call is left in it: gives up the descriptor, and in a forked child that has not attached
 * all of its parent's sampler. Threads may still look whether there is one.
 */
void sampler_close(struct tslab *pool);
/* NULL-safe, returns NULL. */
Sampler *sampler_free(Sampler *sampler);
/* As sampler_free() in a forked child for its parent's sampler: the child did not inherit the mapping. */
Sampler *sampler_forget(Sampler *sampler);

__attribute__((noinline)) void sampler_note_slow(struct tslab *pool, tslab_handle handle, size_t size);

static inline bool sampler_is_on(const struct tslab *pool) {
        return __builtin_expect(pool->local->sampler != NULL, 0);
}

/* `handle` was allocated; between pool_enter() and pool_leave(). */
static inline void sampler_note(struct tslab *pool, tslab_handle handle, size_t size) {
        if (sampler_is_on(pool))
                sampler_note_slow(pool, handle, size);
}
