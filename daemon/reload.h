#pragma once
/* SIGHUP: reads the settings again, applies the ones that can change at run time, and logs the others. */
#include "daemon/pool.h"

void reload(Pool *pool);
