#pragma once
/*
 * Freezing: how the maintainer comes to empty the caches of threads that use no atomics.
 *
 *     shm_freeze_begin(control, freeze, epochs)      all records, from now on
 *     shm_freeze_step(control, freeze, n, now)       records that stand still; again until it is 0
 *
 * A frozen thread goes on, uncached. A thread that was inside an operation when the freeze began keeps its caches until
 * it leaves the operation: it is pending, and the maintainer does not block on it. So is each thread, for a
 * millisecond, that the membarrier may have left out. The maintainer steps a freeze until no record is left, even if an
 * earlier maintainer began it.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shm/arena/cache-walk.h"
#include "shm/arena/record.h"

/*
 * Stores of a processor that the membarrier leaves out are seen that long after it: a store waits in a buffer for its
 * cache line, and for the stores before it, and some hundred stores, each of which misses all caches, take less than
 * 10 us. Longer would cost: meanwhile the threads work past their caches.
 */
#define SHM_STORES_USEC 1000U

typedef struct ShmFreeze {
        uint32_t n; /* records below it are concerned */
        uint32_t n_left; /* records yet to be emptied */
        uint64_t n_emptied; /* caches and records, ever: tells whether a step got on */
        uint64_t n_looks; /* at records, ever */
        uint32_t position; /* record to be looked at next, or just now */
        bool begun; /* with emptying it */
        bool unfenced; /* membarrier failed: only threads that fence for themselves are known to stand still */
        uint64_t last_usec; /* when the stores of before the last freeze are seen; 0: they are */
        uint32_t n_early; /* records that the last step met before their time */
        uint64_t look_usec; /* the next time at which those of some record are, as the last step found */
        ShmCacheWalk walk;
        uint64_t walk_epochs; /* it empties these: all that were asked for when it began */
        /* The tables count for records below n. */
        uint64_t seen_usec
                [SHM_RECORDS_MAX]; /* when its stores of before the freeze are seen; 0: they are, and: */
        uint64_t seq[SHM_RECORDS_MAX]; /* as first read after that */
        uint64_t epochs[SHM_RECORDS_MAX]; /* a bit for each epoch whose caches are not emptied yet; 0: done */
} ShmFreeze;

/* The memory may hold anything: it is not written to as a whole. */
static inline void shm_freeze_init(ShmFreeze *freeze) {
        memset(freeze, 0, offsetof(ShmFreeze, seen_usec));
}

/*
 * Publishes the epoch table (shm/epoch/attention.h), and freezes all threads, to empty their caches of these epochs.
 * The call joins a freeze that is not over, and takes up a freeze of a maintainer that died. Returns 0, or membarrier's
 * error: then steps try it again, and until it works threads that do not fence for themselves are pending.
 */
int shm_freeze_begin(ShmActor *control, ShmFreeze *freeze, uint64_t epochs);
/*
 * As shm_freeze_begin() for all epochs, but only for some records: other threads do not notice. `records` has a bit
 * for each, and room for SHM_RECORDS_MAX.
 */
int shm_freeze_begin_some(ShmActor *control, ShmFreeze *freeze, const uint64_t *records);
/* Takes up a freeze of a maintainer that died, and records that were left since. True: there are any. */
bool shm_freeze_resume(ShmActor *control, ShmFreeze *freeze);

/*
 * Goes on with up to n caches; looks at each record once at most. Returns how many records are yet to be emptied.
 * Records whose owners ended while frozen are given back. `now_usec` is by CLOCK_MONOTONIC, here and below.
 */
uint32_t shm_freeze_step(ShmActor *control, ShmFreeze *freeze, uint32_t n, uint64_t now_usec);

/* Whether all that the last step, which emptied none, left are records before their time. */
static inline bool shm_freeze_waits_for_time(const ShmFreeze *freeze) {
        return freeze->n_left > 0 && freeze->n_early >= freeze->n_left; /* the first one may count twice */
}

/* Whether it is in vain yet to look at a record that is frozen. */
bool shm_freeze_is_early(const ShmArena *arena, uint32_t record);

/* A time, and then a look at each record: after these, threads that stood still at the last freeze are emptied. */
typedef struct ShmFreezeMark {
        uint64_t usec; /* 0: the time has come, and: */
        uint64_t looks; /* the value that n_looks must have */
} ShmFreezeMark;

static inline ShmFreezeMark shm_freeze_mark(const ShmFreeze *freeze) {
        return (ShmFreezeMark){ freeze->last_usec, freeze->n_looks + freeze->n };
}

static inline bool shm_freeze_is_due(const ShmFreezeMark *mark, uint64_t now_usec) {
        return now_usec >= mark->usec;
}

static inline bool shm_freeze_has_looked(const ShmFreeze *freeze, ShmFreezeMark *mark, uint64_t now_usec) {
        if (freeze->n_left == 0)
                return true;
        if (!shm_freeze_is_due(mark, now_usec))
                return false;
        if (mark->usec != 0)
                *mark = (ShmFreezeMark){ .looks = freeze->n_looks + freeze->n };
        return freeze->n_looks >= mark->looks;
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

/*
 * Orders the maintainer's earlier stores before its later loads, as all threads see them: from *ret_usec on, or at
 * once, which is 0. False: not for all.
 */
bool shm_freeze_fence(const ShmActor *control, uint64_t *ret_usec);
/* shm_freeze_fence() for all threads, and at once: it sleeps where it must, up to 1 ms. */
void shm_freeze_fence_all(const ShmActor *control);

/*
 * One membarrier over all processes that registered for it; 0 or negative errno. The kernel may leave processors out:
 * their stores are seen after SHM_STORES_USEC.
 */
int shm_membarrier(void);
/* Sleeps until the stores that any processor executed before this call are seen. */
void shm_await_stores(void);
/* One membarrier over the threads of this process, which has registered; 0 or negative errno. */
int shm_membarrier_own(void);
/* 0, or a negative errno: shm_membarrier() does not reach this process. */
int shm_membarrier_register(void);
