#pragma once

/*
 * Numbers of pools as text for a monitoring system: OpenMetrics 1.0, or the older text format of
 * Prometheus, which has other names for counters and another end.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "proto/message.h"

#define METRICS_TYPE_OPEN "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define METRICS_TYPE_PLAIN "text/plain; version=0.0.4; charset=utf-8"

typedef struct MetricsPool {
        const char *name;
        ProtoReply *reply; /* to Stats; NULL: none came, and the pool is shown as down */
        bool denied; /* this user may not ask the daemon: it is not known whether it works */
} MetricsPool;

void metrics_print(FILE *out, const MetricsPool *pools, size_t n_pools, bool open);
