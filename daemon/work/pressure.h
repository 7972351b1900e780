#pragma once
/*
 * Memory pressure: tasks of the pool's slice wait for memory. The pool then gives up what it
 * retains; where that was not enough, its threads' caches too.
 *
 * systemd says what to watch (MEMORY_PRESSURE_WATCH, since 254); else `total=` of the pressure file
 * is read every two seconds, as a trigger takes privileges before Linux 6.5.
 */
#include "daemon/pool.h"
#include "daemon/work/maintainer.h"
#include "daemon/work/trimmer.h"

typedef struct Pressure Pressure;

int pressure_new(Pressure **ret_pressure, Pool *pool, Maintainer *maintainer, Trimmer *trimmer);
/* NULL-safe, returns NULL. */
Pressure *pressure_free(Pressure *pressure);

/* Says so where the cgroups allow less than the pool may take. */
void pressure_compare_limit(const Pool *pool);
