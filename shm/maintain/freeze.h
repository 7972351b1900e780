#pragma once
/*
 * Freezing: how the maintainer comes to empty the caches of threads that use no atomics.
 *
 *     shm_freeze_begin(control, freeze, epochs)      all records, from now on
 *     shm_freeze_step(control, freeze, n)            records that stand still; again until it is 0
 *
 * A frozen thread goes on, uncached. A thread that was inside an operation when the freeze began keeps its caches until
 * it leaves the operation: it is pending, and the maintainer does not block on it. The maintainer steps a freeze until
 * no record is left, even if an earlier maintainer began it.
 */
#include <stdint.h>

#include "shm/arena/cache-walk.h"
#include "shm/arena/record.h"

typedef struct ShmFreeze {
        uint32_t n; /* records below it are concerned */
        uint32_t n_left; /* records yet to be emptied */
        uint64_t n_emptied; /* caches and records, ever: tells whether a step got on */
        uint64_t n_looks; /* at records, ever */
        uint32_t position; /* record to be looked at next, or just now */
        bool begun; /* with emptying it */
        bool unfenced; /* membarrier failed: only threads that fence for themselves are known to stand still */
        ShmCacheWalk walk;
        uint64_t walk_epochs; /* it empties these: all that were asked for when it began */
        uint64_t seq[SHM_RECORDS_MAX]; /* as first read */
        uint64_t epochs[SHM_RECORDS_MAX]; /* a bit for each epoch whose caches are not emptied yet; 0: done */
} ShmFreeze;

/*
 * Publishes the epoch table (shm/epoch/attention.h), and freezes all threads, to empty their caches of these epochs.
 * The call joins a freeze that is not over, and takes up a freeze of a maintainer that died. Returns 0, or membarrier's
 * error: then steps try it again, and until it works threads that do not fence for themselves are pending.
 */
int shm_freeze_begin(ShmActor *control, ShmFreeze *freeze, uint64_t epochs);
/*
 * The same for all epochs, but only for some records: other threads do not notice. `records` has a bit for each, and
 * room for SHM_RECORDS_MAX.
 */
int shm_freeze_begin_some(ShmActor *control, ShmFreeze *freeze, const uint64_t *records);
/* Takes up a freeze of a maintainer that died, and records that were left since. True: there are any. */
bool shm_freeze_resume(ShmActor *control, ShmFreeze *freeze);

/*
 * Goes on with up to n caches; looks at each record once at most. Returns how many records are yet to be emptied.
 * Records whose owners ended while frozen are given back.
 */
uint32_t shm_freeze_step(ShmActor *control, ShmFreeze *freeze, uint32_t n);

/* The value that n_looks will have once each record was looked at after this call. */
static inline uint64_t shm_freeze_looks_due(const ShmFreeze *freeze) {
        return freeze->n_looks + freeze->n;
}

static inline bool shm_freeze_has_looked(const ShmFreeze *freeze, uint64_t due) {
        return freeze->n_left == 0 || freeze->n_looks >= due;
}

/* No record is frozen, or left to be emptied: no thread is pending since any earlier freeze. */
bool shm_freeze_is_over(const ShmArena *arena);

/* Counts records yet to be emptied that wait for their thread, or for a membarrier that works. */
uint32_t shm_freeze_pending(const ShmActor *control, const ShmFreeze *freeze);

/*
 * Counts the records yet to be emptied of this epoch. *ret_pending: how many of these shm_freeze_pending() would count.
 */
uint32_t shm_freeze_left(const ShmActor *control, const ShmFreeze *freeze, uint32_t epoch,
                         uint32_t *ret_pending);

/* Orders the maintainer's earlier stores before its later loads, as all threads see them. False: not for all. */
bool shm_freeze_fence(const ShmArena *arena);

/* One membarrier over all processes that registered for it; 0 or negative errno. It takes 40 to 100 us. */
int shm_membarrier(void);
/* One membarrier over the threads of this process, which has registered; 0 or negative errno. */
int shm_membarrier_own(void);
/* 0, or a negative errno: shm_membarrier() does not reach this process. */
int shm_membarrier_register(void);
