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

/*
 * Locks, each of one byte. A process loses those of the POSIX kind when it closes any descriptor of the file, and
 * clients may send a daemon such descriptors. So the lock that tells that the pool is served belongs to the open file.
 * The kernel does not tell which process has a lock of that kind, so there is also one of the POSIX kind.
 */
enum {
        BYTE_SERVED,
        BYTE_PID,
        BYTE_STARTS, /* locked until the daemon listens; daemons of earlier builds do not lock it */
};

static struct flock lock_of(short type, off_t byte) {
        return (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
}

int proto_served_mark(const char *path) {
        struct flock served = lock_of(F_RDLCK, BYTE_SERVED), pid = lock_of(F_RDLCK, BYTE_PID);
        struct flock starts = lock_of(F_RDLCK, BYTE_STARTS);
        _cleanup_(proto_closep) int fd = -1;

        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0644);
        if (fd < 0 || fchmod(fd, 0644) < 0 || fcntl(fd, F_OFD_SETLK, &served) < 0 ||
            fcntl(fd, F_SETLK, &pid) < 0 || fcntl(fd, F_SETLK, &starts) < 0)
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

/* Any user can lock the file, too: a process counts only if it is of the user who made the file, or of root. */
static pid_t find_daemon(int fd, off_t byte) {
        struct flock lock = lock_of(F_WRLCK, byte);
        struct stat file, process;
        char path[32];

        if (fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK || lock.l_pid <= 0)
                return 0;
        (void) snprintf(path, sizeof(path), "/proc/%d", (int) lock.l_pid);
        if (fstat(fd, &file) < 0 || stat(path, &process) < 0)
                return 0;
        return process.st_uid == file.st_uid || process.st_uid == 0 ? lock.l_pid : 0;
}

static int open_mark(const char *path) {
        return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
}

int proto_served_listens(int mark_fd) {
        struct flock starts = lock_of(F_UNLCK, BYTE_STARTS);

        return fcntl(mark_fd, F_SETLK, &starts) < 0 ? -errno : 0;
}

bool proto_served_starts(const char *socket_path) {
        _cleanup_(proto_freep) char *path = NULL;
        _cleanup_(proto_closep) int fd = -1;

        fd = find_mark(socket_path, &path) < 0 ? -1 : open_mark(path);
        return fd >= 0 && find_daemon(fd, BYTE_STARTS) > 0;
}

ProtoServed proto_served(const char *socket_path, pid_t *ret_pid) {
        struct flock lock = lock_of(F_WRLCK, BYTE_SERVED);
        _cleanup_(proto_freep) char *path = NULL;
        _cleanup_(proto_closep) int fd = -1;

        *ret_pid = 0;
        if (find_mark(socket_path, &path) < 0)
                return PROTO_SERVED_UNKNOWN;
        fd = open_mark(path);
        if (fd < 0)
                return errno == ENOENT ? served_without_mark(path) : PROTO_SERVED_UNKNOWN;
        if (fcntl(fd, F_GETLK, &lock) < 0)
                return PROTO_SERVED_UNKNOWN;
        if (lock.l_type == F_UNLCK)
                return PROTO_SERVED_DIED;
        *ret_pid = find_daemon(fd, BYTE_PID);
        return PROTO_SERVED_YES;
}
