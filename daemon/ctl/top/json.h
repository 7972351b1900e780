#pragma once

#include <json-c/json.h>

#include "daemon/ctl/top/sample.h"

/* One look: `stats` as of that verb, `clients`, and rates per second since the look before. */
json_object *top_json(const TopSample *before, const TopSample *now, uint64_t now_usec);
