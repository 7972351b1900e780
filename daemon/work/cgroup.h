#pragma once
/*
 * How much memory the cgroups of this process leave.
 *
 * At the limit of a cgroup the kernel kills inside fallocate() instead of failing, so who commits
 * asks here first. Both hierarchies are looked at, v1 and v2, and in each all ancestors.
 */
#include <stddef.h>
#include <stdint.h>

#define CGROUP_MARGIN_SIZE (INT64_C(8) << 20)

/*
 * The least of limit - usage, less the margin: 0 or more. INT64_MAX: there is no limit, or none
 * that we can see. `root` stands before /proc/self/cgroup and /sys/fs/cgroup; "" but in tests.
 */
int64_t cgroup_headroom(const char *root);
/* The least limit alone. */
int64_t cgroup_limit(const char *root);

/*
 * Where the memory pressure of this process's cgroup stands, or that of the pool's slice above it.
 * -ENOENT: nowhere.
 */
int cgroup_pressure_path(const char *root, char *ret, size_t size);
