#pragma once
/* SIGHUP: reads the settings again, applies what can change at run time, names what can't. */
#include "daemon/pool.h"

void reload(Pool *pool);
