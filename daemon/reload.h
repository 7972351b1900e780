#pragma once
/* SIGHUP: reads the settings again, applies what can change at run time, names what can't. */
#include "daemon/manager.h"

void reload(Manager *manager);
