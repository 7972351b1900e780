#pragma once
/*
 * The reserve: slabs that are committed ahead of demand, so that clients meet pages that are there
 * and paid for by the daemon's cgroup. Clients wake us when fewer than `low` are free; we fill up
 * to `high`, which doubles while they come back soon, and halves while they stay away.
 */
#include <stdint.h>

#include "daemon/pool.h"

typedef struct Reserve Reserve;

int reserve_new(Reserve **ret_reserve, Pool *pool);
/* NULL-safe, returns NULL. */
Reserve *reserve_free(Reserve *reserve);

/* A client asked. */
void reserve_wake(Reserve *reserve);
/* Free slabs may have become few by our own doing. */
void reserve_look(Reserve *reserve);
void reserve_tick(Reserve *reserve);
/* All free slabs are to go, and not come back before a client needs them. */
void reserve_sleep(Reserve *reserve);

/* FREE slabs, as far as is known; what is counted in the arena may be wrong. */
uint32_t reserve_n_free(const Reserve *reserve);
/* What is kept by all means. */
uint32_t reserve_high(const Reserve *reserve);
