#pragma once
/*
 * How much memory the cgroups of this process leave.
 *
 * At the limit of a cgroup the kernel kills a process inside fallocate() instead of failing the call. So the daemon
 * asks here before it commits memory, and so do the processes of a private pool. The answer covers both hierarchies, v1
 * and v2, and in each all ancestors.
 */
#include <stddef.h>
#include <stdint.h>

#define CGROUP_MARGIN_SIZE (INT64_C(8) << 20)

#define CGROUP_PATH_SIZE 256

/* The cgroup that leaves the least memory, of all that this process is in. */
typedef struct CgroupRoom {
        int64_t limit; /* INT64_MAX: there is none that this process can see */
        int64_t used; /* near the limit, without pages of files that nobody used lately */
        char path
                [CGROUP_PATH_SIZE]; /* from the mount point on, "/" for the cgroup there; cut if it is too long */
} CgroupRoom;

/*
 * `root` stands before /proc/self/cgroup and /sys/fs/cgroup. It is "" except in tests. -EMFILE, -ENFILE, -ENOMEM: not
 * all could be read, so there may be less room, or a limit where none was found.
 */
int cgroup_find_room(CgroupRoom *ret, const char *root);
/* limit - used, less the margin: 0 or more. INT64_MAX: there is no limit. */
int64_t cgroup_room_left(const CgroupRoom *room);
/* As cgroup_room_left() for the cgroup that leaves the least; or the errors of cgroup_find_room(). */
int64_t cgroup_headroom(const char *root);
/* The smallest limit, as if nothing were used; or the errors of cgroup_find_room(). */
int64_t cgroup_limit(const char *root);

/*
 * The path of the file with the memory pressure of the pool's slice, or else of this process's cgroup. -ENOENT: there
 * is no such file.
 */
int cgroup_pressure_path(const char *root, char *ret, size_t size);
