#pragma once

#include <json-c/json.h>

#include "daemon/ctl/top/sample.h"

/*
 * One sample as JSON: `stats` and `clients` as the verbs of these names, and rates per second since
 * the sample before.
 */
json_object *top_json(const TopSample *before, const TopSample *now, const TopAverages *averages,
                      uint64_t now_usec);
