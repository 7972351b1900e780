#include "proto/served.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/cleanup.h"
#include "proto/path.h"
#include "proto/state-file.h"

int proto_served_mark(const char *path) {
        const struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
        _cleanup_(proto_closep) int fd = -1;

        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0644);
        if (fd < 0 || fchmod(fd, 0644) < 0 || fcntl(fd, F_SETLK, &lock) < 0)
                return -errno;
        return proto_steal_fd(&fd);
}

/* The file of the pool that has this socket, DIR/POOL.sock. -ENOENT: the socket has another name. */
static int find_mark(const char *socket_path, char **ret_path) {
        const char *slash = strrchr(socket_path, '/'), *base = slash ? slash + 1 : socket_path;
        _cleanup_(proto_freep) char *dir = NULL;
        char pool[PROTO_POOL_NAME_MAX + 1];
        size_t n = strlen(base);

        if (n < 6 || n - 5 > PROTO_POOL_NAME_MAX || strcmp(base + n - 5, ".sock") != 0)
                return -ENOENT;
        (void) snprintf(pool, sizeof(pool), "%.*s", (int) (n - 5), base);
        dir = slash ? strndup(socket_path, (size_t) (slash - socket_path)) : strdup(".");
        return dir ? proto_state_file(dir, pool, PROTO_SERVED_SUFFIX, ret_path) : -ENOMEM;
}

/* Where systemd binds the sockets, a directory of root's has these files in a directory of their own. */
static ProtoServed served_without_mark(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash && slash - path > 5 && !strncmp(slash - 5, "/lock", 5) ? PROTO_SERVED_NO
                                                                            : PROTO_SERVED_UNKNOWN;
}

ProtoServed proto_served(const char *socket_path, pid_t *ret_pid) {
        struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
        _cleanup_(proto_freep) char *path = NULL;
        _cleanup_(proto_closep) int fd = -1;

        *ret_pid = 0;
        if (find_mark(socket_path, &path) < 0)
                return PROTO_SERVED_UNKNOWN;
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
                return errno == ENOENT ? served_without_mark(path) : PROTO_SERVED_UNKNOWN;
        if (fcntl(fd, F_GETLK, &lock) < 0)
                return PROTO_SERVED_UNKNOWN;
        if (lock.l_type == F_UNLCK)
                return PROTO_SERVED_DIED;
        *ret_pid = lock.l_pid > 0 ? lock.l_pid : 0;
        return PROTO_SERVED_YES;
}
