#pragma once

#include "daemon/ctl/advice/advice.h"

/* What sizes of classes would have held the objects there were in the least memory. */
void advice_find_classes(AdviceClasses *ret, const Tslab__StatsReply *stats);
