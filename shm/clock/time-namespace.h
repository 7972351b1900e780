#pragma once
/*
 * Time namespaces. CLOCK_MONOTONIC and CLOCK_BOOTTIME, and the times that /proc tells, are ahead of the host's by an
 * offset that each namespace has for itself. Processes that share a pool may be in several.
 */
#include <stdint.h>

/*
 * How far CLOCK_BOOTTIME of this process is ahead of the host's. Without /proc it is what this process found before, or
 * else 0.
 */
int64_t shm_time_namespace_boot_ns(void);
