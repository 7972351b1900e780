#pragma once
/*
 * The reserve: slabs that the daemon commits ahead of demand. Clients then find slabs with pages, which the daemon's
 * cgroup pays for. Clients wake the daemon when fewer slabs than the low mark are free. The daemon then fills up to
 * the high mark, which doubles while wakes follow soon on one another, and halves while there are none.
 */
#include <stdint.h>

#include "daemon/pool.h"

typedef struct Reserve Reserve;

int reserve_new(Reserve **ret_reserve, Pool *pool);
/* NULL-safe, returns NULL. */
Reserve *reserve_free(Reserve *reserve);

/* A client woke the daemon. */
void reserve_notify(Reserve *reserve);
/* The daemon itself took free slabs: fills the reserve if they are few now. */
void reserve_check(Reserve *reserve);
void reserve_tick(Reserve *reserve);
/* All free slabs are about to be given back: fills nothing until a client needs slabs. */
void reserve_sleep(Reserve *reserve);

/* The number of FREE slabs, by the counter of the arena, which may be off. */
uint32_t reserve_n_free(const Reserve *reserve);
/* The number of free slabs that no trim in the background takes. */
uint32_t reserve_high(const Reserve *reserve);
