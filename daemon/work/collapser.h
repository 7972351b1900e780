#pragma once
/*
 * Huge pages of the pool, by the setting TSLAB_HUGE: see shm/keeper/huge.h. A thread has the kernel put pages together,
 * as that may take long; a pass over the pool begins each 10 s.
 */
#include "daemon/pool.h"
#include "shm/keeper/huge-obstacle.h"

typedef struct Collapser Collapser;

int collapser_new(Collapser **ret_collapser, Pool *pool);
/* Waits for the thread, which may be in the kernel. NULL-safe, returns NULL. */
Collapser *collapser_free(Collapser *collapser);

/* Starts, stops or helps the thread. About once a second. */
void collapser_tick(Collapser *collapser);

/* Bytes of the pool in huge pages, as far as the thread knows. *ret_refused: the kernel makes none, for that reason. */
uint64_t collapser_size(Collapser *collapser, bool *ret_refused, ShmHugeObstacle *ret_obstacle);
