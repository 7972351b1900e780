#include "proto/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/cleanup.h"
#include "proto/text.h"

/* A caller's stack may have no room for these: it may be that of a thread of 16 KiB. */
typedef struct Look {
        char dir[PATH_MAX], path[PATH_MAX];
        char cgroups[8192], text[8192];
        int shortage; /* a file could not be read for want of descriptors or memory: it may name a limit; or 0 */
} Look;

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

/* Other errors mean that there is no such file for this process. */
static int read_looked_for(Look *look, char *buffer, size_t size) {
        int r = read_file(look->path, buffer, size);

        if (r == -EMFILE || r == -ENFILE || r == -ENOMEM)
                look->shortage = r;
        return r;
}

static int read_number(Look *look, const char *file, uint64_t *ret) {
        char text[32], *end;
        unsigned long long number;

        if ((size_t) snprintf(look->path, sizeof(look->path), "%s/%s", look->dir, file) >=
                    sizeof(look->path) ||
            read_looked_for(look, text, sizeof(text)) < 0)
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

static uint64_t read_cache_size(Look *look, const Hierarchy *h) {
        char *line;

        look->text[0] = '\n';
        if ((size_t) snprintf(look->path, sizeof(look->path), "%s/memory.stat", look->dir) >=
                    sizeof(look->path) ||
            read_looked_for(look, look->text + 1, sizeof(look->text) - 1) < 0)
                return 0;
        line = strstr(look->text, h->cache_line);
        return line ? strtoull(line + strlen(h->cache_line), NULL, 10) : 0;
}

/*
 * Near its limit a cgroup may be full of pages of files, which the kernel drops before it refuses memory: they do not
 * count as used. While twice the margin is left, they are not read, since there is room in any case.
 */
static void leave_out_cache(Look *look, CgroupRoom *room, const Hierarchy *h) {
        uint64_t cache = room_size(room) <= 2 * CGROUP_MARGIN_SIZE ? read_cache_size(look, h) : 0;

        room->used = cache < (uint64_t) room->used ? room->used - (int64_t) cache : 0;
}

/* Looks at one cgroup. In v1, a cgroup without a limit has one that no machine can reach. */
static void look_at_cgroup(Look *look, CgroupRoom *room, const Hierarchy *h, size_t base, bool whole) {
        CgroupRoom here = {};
        uint64_t limit, used = 0;

        if (read_number(look, h->limit_file, &limit) || (!whole && read_number(look, h->usage_file, &used)) ||
            limit >= (uint64_t) INT64_MAX / 2 || used >= (uint64_t) INT64_MAX / 2)
                return;
        here.limit = (int64_t) limit;
        here.used = (int64_t) used;
        if (!whole)
                leave_out_cache(look, &here, h);
        if (room->limit != INT64_MAX && room_size(&here) >= room_size(room))
                return;
        proto_text_clean(here.path, sizeof(here.path), look->dir[base] ? look->dir + base : "/");
        *room = here;
}

/* From the cgroup at `path` up to the mount point. A cgroup that a namespace hides does not count. */
static void look_upwards(Look *look, CgroupRoom *room, const char *root, const Hierarchy *h, const char *path,
                         bool whole) {
        const size_t size = sizeof(look->dir);
        size_t base;
        int n;

        n = snprintf(look->dir, size, "%s%s", root, h->mount);
        base = (size_t) n;
        if (snprintf(look->dir + base, size - base, "%s", path) >= (int) (size - base))
                return;
        for (;;) {
                char *slash;

                look_at_cgroup(look, room, h, base, whole);
                slash = strrchr(look->dir + base, '/');
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
static void look_by_line(Look *look, CgroupRoom *room, const char *root, char *line, bool whole) {
        char *controllers = strchr(line, ':'), *path;

        path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
                return;
        controllers++;
        *path++ = 0;
        if (strstr(path, "/.."))
                return; /* outside of our namespace */
        if (!strncmp(line, "0:", 2) && *controllers == 0) {
                look_upwards(look, room, root, &v2, path, whole);
                look_upwards(look, room, root, &v2_hybrid, path, whole);
        } else if (has_controller(controllers, strlen(controllers), "memory")) {
                look_upwards(look, room, root, &v1, path, whole);
        }
}

static void look_at_all(Look *look, CgroupRoom *ret, const char *root, bool whole) {
        char *rest = NULL;

        if ((size_t) snprintf(look->path, sizeof(look->path), "%s/proc/self/cgroup", root) >=
                    sizeof(look->path) ||
            read_looked_for(look, look->cgroups, sizeof(look->cgroups)) < 0)
                return;
        for (char *line = strtok_r(look->cgroups, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
                look_by_line(look, ret, root, line, whole);
}

/* With `whole`, as if nothing were used. */
static int find_least_room(CgroupRoom *ret, const char *root, bool whole) {
        Look *look = mmap(NULL, sizeof(*look), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        int r;

        if (look == MAP_FAILED)
                return -ENOMEM;
        *ret = (CgroupRoom){ .limit = INT64_MAX };
        look_at_all(look, ret, root, whole);
        r = look->shortage;
        munmap(look, sizeof(*look));
        return r;
}

int cgroup_find_room(CgroupRoom *ret, const char *root) {
        return find_least_room(ret, root, false);
}

int64_t cgroup_room_left(const CgroupRoom *room) {
        int64_t left = room_size(room);

        if (room->limit == INT64_MAX)
                return INT64_MAX;
        return left > CGROUP_MARGIN_SIZE ? left - CGROUP_MARGIN_SIZE : 0;
}

int64_t cgroup_headroom(const char *root) {
        CgroupRoom room;
        int r = cgroup_find_room(&room, root);

        return r ? r : cgroup_room_left(&room);
}

int64_t cgroup_limit(const char *root) {
        CgroupRoom room;
        int r = find_least_room(&room, root, true);

        return r ? r : room.limit;
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
