#pragma once
/*
 * SIGHUP: reads the settings again, applies the ones that can change at run time, and logs the others. The caller tells
 * systemd that the daemon is ready again.
 */
#include "daemon/pool.h"

void reload(Pool *pool);
