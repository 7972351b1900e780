#include "proto/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/cleanup.h"
#include "proto/text.h"

typedef struct Hierarchy {
        const char *mount;
        const char *limit_file, *usage_file;
        const char *cache_line; /* pages of files that nobody used lately, in memory.stat */
} Hierarchy;

/* If both hierarchies are mounted, the unified one has a mount point of its own. */
static const Hierarchy v1 = { "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                              "\ntotal_inactive_file " };
static const Hierarchy v2 = { "/sys/fs/cgroup", "memory.max", "memory.current", "\ninactive_file " };
static const Hierarchy v2_hybrid = { "/sys/fs/cgroup/unified", "memory.max", "memory.current",
                                     "\ninactive_file " };

static int read_file(const char *path, char *buffer, size_t size) {
        _cleanup_(proto_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        ssize_t n;

        if (fd < 0)
                return -errno;
        n = read(fd, buffer, size - 1);
        if (n < 0)
                return -errno;
        buffer[n] = 0;
        return 0;
}

static int read_number(const char *dir, const char *file, uint64_t *ret) {
        char path[PATH_MAX], text[32], *end;
        unsigned long long number;

        if ((size_t) snprintf(path, sizeof(path), "%s/%s", dir, file) >= sizeof(path) ||
            read_file(path, text, sizeof(text)) < 0)
                return -ENOENT;
        errno = 0;
        number = strtoull(text, &end, 10); /* "max" is no number: there is no limit */
        if (errno != 0 || end == text)
                return -ENOENT;
        *ret = number;
        return 0;
}

static int64_t room_size(const CgroupRoom *room) {
        return room->used < room->limit ? room->limit - room->used : 0;
}

static uint64_t read_cache_size(const Hierarchy *h, const char *dir) {
        char path[PATH_MAX], text[8192] = "\n", *line;

        if ((size_t) snprintf(path, sizeof(path), "%s/memory.stat", dir) >= sizeof(path) ||
            read_file(path, text + 1, sizeof(text) - 1) < 0)
                return 0;
        line = strstr(text, h->cache_line);
        return line ? strtoull(line + strlen(h->cache_line), NULL, 10) : 0;
}

/*
 * Near its limit a cgroup may be full of pages of files, which the kernel drops before it refuses memory: they do not
 * count as used. While twice the margin is left, they are not read, since there is room in any case.
 */
static void leave_out_cache(CgroupRoom *room, const Hierarchy *h, const char *dir) {
        uint64_t cache = room_size(room) <= 2 * CGROUP_MARGIN_SIZE ? read_cache_size(h, dir) : 0;

        room->used = cache < (uint64_t) room->used ? room->used - (int64_t) cache : 0;
}

/* Looks at one cgroup. In v1, a cgroup without a limit has one that no machine can reach. */
static void look_at_cgroup(CgroupRoom *room, const Hierarchy *h, const char *dir, size_t base, bool whole) {
        CgroupRoom here = {};
        uint64_t limit, used = 0;

        if (read_number(dir, h->limit_file, &limit) || (!whole && read_number(dir, h->usage_file, &used)) ||
            limit >= (uint64_t) INT64_MAX / 2 || used >= (uint64_t) INT64_MAX / 2)
                return;
        here.limit = (int64_t) limit;
        here.used = (int64_t) used;
        if (!whole)
                leave_out_cache(&here, h, dir);
        if (room->limit != INT64_MAX && room_size(&here) >= room_size(room))
                return;
        proto_text_clean(here.path, sizeof(here.path), dir[base] ? dir + base : "/");
        *room = here;
}

/* From the cgroup at `path` up to the mount point. A cgroup that a namespace hides does not count. */
static void look_upwards(CgroupRoom *room, const char *root, const Hierarchy *h, const char *path,
                         bool whole) {
        char dir[PATH_MAX];
        size_t base;
        int n;

        n = snprintf(dir, sizeof(dir), "%s%s", root, h->mount);
        base = (size_t) n;
        if (snprintf(dir + base, sizeof(dir) - base, "%s", path) >= (int) (sizeof(dir) - base))
                return;
        for (;;) {
                char *slash;

                look_at_cgroup(room, h, dir, base, whole);
                slash = strrchr(dir + base, '/');
                if (!slash)
                        return;
                *slash = 0;
        }
}

static bool has_controller(const char *list, size_t size, const char *name) {
        size_t n = strlen(name);

        for (const char *at = list; at < list + size;) {
                const char *end = memchr(at, ',', (size_t) (list + size - at));

                end = end ?: list + size;
                if ((size_t) (end - at) == n && !memcmp(at, name, n))
                        return true;
                at = end + 1;
        }
        return false;
}

/* "HIERARCHY:CONTROLLERS:PATH"; v2 is the hierarchy 0, without controllers. */
static void look_by_line(CgroupRoom *room, const char *root, char *line, bool whole) {
        char *controllers = strchr(line, ':'), *path;

        path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
                return;
        controllers++;
        *path++ = 0;
        if (strstr(path, "/.."))
                return; /* outside of our namespace */
        if (!strncmp(line, "0:", 2) && *controllers == 0) {
                look_upwards(room, root, &v2, path, whole);
                look_upwards(room, root, &v2_hybrid, path, whole);
        } else if (has_controller(controllers, strlen(controllers), "memory")) {
                look_upwards(room, root, &v1, path, whole);
        }
}

/* With `whole`, as if nothing were used. */
static void find_least_room(CgroupRoom *ret, const char *root, bool whole) {
        char path[PATH_MAX], text[8192], *rest = NULL;

        *ret = (CgroupRoom){ .limit = INT64_MAX };
        if ((size_t) snprintf(path, sizeof(path), "%s/proc/self/cgroup", root) >= sizeof(path) ||
            read_file(path, text, sizeof(text)) < 0)
                return;
        for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
                look_by_line(ret, root, line, whole);
}

void cgroup_find_room(CgroupRoom *ret, const char *root) {
        find_least_room(ret, root, false);
}

int64_t cgroup_room_left(const CgroupRoom *room) {
        int64_t left = room_size(room);

        if (room->limit == INT64_MAX)
                return INT64_MAX;
        return left > CGROUP_MARGIN_SIZE ? left - CGROUP_MARGIN_SIZE : 0;
}

int64_t cgroup_headroom(const char *root) {
        CgroupRoom room;

        cgroup_find_room(&room, root);
        return cgroup_room_left(&room);
}

int64_t cgroup_limit(const char *root) {
        CgroupRoom room;

        find_least_room(&room, root, true);
        return room.limit;
}

/* The slice of the pool also counts the stalls of clients, if they are put into the slice. */
static void go_to_slice(char *path) {
        char *slash = strrchr(path, '/'), *name;
        size_t n;

        if (!slash || slash == path)
                return;
        *slash = 0;
        name = strrchr(path, '/');
        n = strlen(path);
        if (!name || strncmp(name, "/tslab-", 7) != 0 || strcmp(path + n - 6, ".slice") != 0)
                *slash = '/';
}

int cgroup_pressure_path(const char *root, char *ret, size_t size) {
        const char *mounts[] = { v2.mount, v2_hybrid.mount };
        char path[PATH_MAX], text[8192], *line;

        if ((size_t) snprintf(path, sizeof(path), "%s/proc/self/cgroup", root) >= sizeof(path) ||
            read_file(path, text, sizeof(text)) < 0)
                return -ENOENT;
        line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
        if (!line)
                return -ENOENT;
        line += *line == '\n' ? 4 : 3;
        line[strcspn(line, "\n")] = 0;
        if (strstr(line, "/.."))
                return -ENOENT; /* outside of our namespace */
        go_to_slice(line);
        for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
                if ((size_t) snprintf(ret, size, "%s%s%s/memory.pressure", root, mounts[i], line) >= size)
                        return -ENAMETOOLONG;
                if (access(ret, R_OK) == 0)
                        return 0;
        }
        return -ENOENT;
}
