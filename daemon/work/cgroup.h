#pragma once
/*
 * How much memory the cgroups of this process leave.
 *
 * At the limit of a cgroup the kernel kills a process inside fallocate() instead of failing the call, so the daemon
 * asks here before it commits memory. The answer covers both hierarchies, v1 and v2, and in each all ancestors.
 */
#include <stddef.h>
#include <stdint.h>

#define CGROUP_MARGIN_SIZE (INT64_C(8) << 20)

/*
 * The smallest limit - usage, less the margin: 0 or more. INT64_MAX: there is no limit that this process can see.
 * `root` stands before /proc/self/cgroup and /sys/fs/cgroup. It is "" except in tests.
 */
int64_t cgroup_headroom(const char *root);
/* The smallest limit, as if nothing were used. */
int64_t cgroup_limit(const char *root);

/*
 * The path of the file with the memory pressure of the pool's slice, or else of this process's cgroup. -ENOENT: there
 * is no such file.
 */
int cgroup_pressure_path(const char *root, char *ret, size_t size);
