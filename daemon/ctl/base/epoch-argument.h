#pragma once

#include <stdint.h>

#include "daemon/ctl/base/complain.h"

/* An epoch on the command line: parse_epoch(), with complaints. */
CtlExit epoch_argument(const char *text, uint32_t *ret_epoch);
