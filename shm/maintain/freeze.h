#pragma once
/*
 * Freezing: how control comes to empty the caches of threads that use no atomics. Control work.
 *
 *     shm_freeze_begin(control, freeze, epochs)      all records, from now on
 *     shm_freeze_step(control, freeze, n)            those that stand still; again until it is 0
 *
 * A frozen thread goes on, uncached. One that was inside an operation when the freeze began keeps
 * its caches until it has left it: it is pending, and nobody waits for it.
 */
#include <stdint.h>

#include "shm/record.h"

typedef struct ShmFreeze {
        uint32_t n; /* records below it are concerned */
        uint32_t position; /* where the next step goes on */
        uint64_t seq[SHM_RECORDS_MAX]; /* as first read */
        uint64_t epochs[SHM_RECORDS_MAX]; /* whose caches are to be emptied yet, a bit for each; 0: done */
} ShmFreeze;

/*
 * Tells all threads that the epoch table changed. What they allocate in operations that begin
 * after this follows the new one.
 */
void shm_freeze_publish(ShmArena *arena);

/*
 * The same, and freezes them, to empty their caches of these epochs. A freeze that is not over is
 * joined; one of a control that died is taken up. 0, or what membarrier said.
 */
int shm_freeze_begin(ShmActor *control, ShmFreeze *freeze, uint64_t epochs);

/* Goes on with up to n records. Returns how many are yet to be emptied. */
uint32_t shm_freeze_step(ShmActor *control, ShmFreeze *freeze, uint32_t n);

/* Empties records whose owners ended while frozen, and gives them back. Returns how many. */
uint32_t shm_freeze_finish_left(ShmActor *control);

/* Of the records yet to be emptied, those whose thread is inside an operation since before. */
uint32_t shm_freeze_pending(const ShmActor *control, const ShmFreeze *freeze);

/* Records yet to be emptied of this epoch. */
uint32_t shm_freeze_left(const ShmFreeze *freeze, uint32_t epoch);

/* One membarrier over all processes that registered for it; 0 or negative errno. */
int shm_membarrier(void);
int shm_membarrier_register(void);
