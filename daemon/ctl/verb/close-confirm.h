#pragma once

/* Asks the user before a close that frees live objects, or breaks programs. */

#include <stddef.h>
#include <stdint.h>

#include "daemon/ctl/base/connect.h"

/*
 * Has the daemon tell the consequences of a close with these options. On a terminal the user is asked where objects
 * would be freed, or programs depend on an epoch; elsewhere a close that is surely a mistake is refused. Numbers get
 * the era that was looked at, so that no later era is closed. CTL_FAILED: nothing is to be closed.
 */
CtlExit close_confirm(Connection *connection, uint32_t *epochs, size_t n_epochs);
