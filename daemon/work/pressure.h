#pragma once
/*
 * Memory pressure: tasks of the pool's slice wait for memory. The pool then gives back its free memory; if pressure
 * goes on, it also empties the caches of its threads.
 *
 * systemd names the file to watch (MEMORY_PRESSURE_WATCH, since 254). Without that, the daemon reads `total=` of the
 * pressure file every two seconds, since a trigger takes privileges before Linux 6.5.
 */
#include "daemon/pool.h"
#include "daemon/work/maintainer.h"
#include "daemon/work/trimmer.h"

typedef struct Pressure Pressure;

int pressure_new(Pressure **ret_pressure, Pool *pool, Maintainer *maintainer, Trimmer *trimmer);
/* NULL-safe, returns NULL. */
Pressure *pressure_free(Pressure *pressure);

/* Logs a warning if the cgroups allow less memory than the pool may take. */
void pressure_compare_limit(const Pool *pool);
