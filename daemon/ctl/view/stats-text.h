#pragma once

/* `tslabctl stats` for people: the rows of daemon/ctl/base/numbers.h, in one table for each scope. */

#include <stdbool.h>
#include <stdio.h>

#include "proto/message.h"

void stats_print(FILE *out, const Tslab__StatsReply *stats, bool legend);
