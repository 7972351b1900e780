/*
 * The child shares the table of descriptors with the daemon. With a copy of its own, the kernel would close the copies
 * at its end: a peer may have sent a descriptor of a file system whose close() never ends, and the daemon would never
 * end its wait for the child. So the child closes the file that it opens, and the daemon closes it after a child that
 * it has killed.
 */
#include "daemon/peer/maps-scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/peer/closer.h"
#include "proto/cleanup.h"

#define PATH_SIZE 32
#define LINE_SIZE 128 /* enough for all that comes before the path */

static void print_path(char ret[PATH_SIZE], pid_t pid) {
        (void) snprintf(ret, PATH_SIZE, "/proc/%d/maps", (int) pid);
}

/* ---- In the child, which takes no lock: another thread may have held it */

static bool is_line_of_arena(const char *line, const struct stat *arena) {
        unsigned major_id, minor_id;
        uintmax_t inode;

        return sscanf(line, "%*x-%*x %*s %*x %x:%x %ju", &major_id, &minor_id, &inode) == 3 &&
               makedev(major_id, minor_id) == arena->st_dev && inode == arena->st_ino;
}

static MapsFound read_maps(int fd, const struct stat *arena) {
        char buffer[4096], line[LINE_SIZE] = "";
        MapsFound found = MAPS_UNKNOWN;
        size_t used = 0;
        ssize_t n;

        while ((n = read(fd, buffer, sizeof(buffer))) > 0)
                for (ssize_t i = 0; i < n; i++) {
                        if (buffer[i] != '\n' && used < sizeof(line) - 1)
                                line[used++] = buffer[i];
                        if (buffer[i] != '\n')
                                continue;
                        line[used] = 0;
                        if (is_line_of_arena(line, arena))
                                return MAPS_MAPPED;
                        found = MAPS_UNMAPPED;
                        used = 0;
                }
        return n < 0 ? MAPS_UNKNOWN : found;
}

static _Noreturn void read_maps_and_exit(pid_t pid, const struct stat *arena, pid_t parent) {
        MapsFound found = MAPS_UNKNOWN;
        char path[PATH_SIZE];
        int fd;

        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(MAPS_UNKNOWN);
        print_path(path, pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
                found = read_maps(fd, arena);
        (void) proto_close(fd);
        _exit((int) found);
}

/* ---- In the daemon */

static void close_dir(DIR **dir) {
        if (*dir)
                (void) closedir(*dir);
}

/* The path of a process that has ended goes on with " (deleted)". */
static bool is_file_at(int dir_fd, const char *entry, const char *path) {
        char name[PATH_SIZE];
        ssize_t n = readlinkat(dir_fd, entry, name, sizeof(name) - 1);

        name[n > 0 ? n : 0] = 0;
        return !strncmp(name, path, strlen(path));
}

/* Closes the descriptor that a killed child left open. The process may also have sent one that has the same path. */
static void close_maps(pid_t pid) {
        _cleanup_(close_dir) DIR *dir = opendir("/proc/self/fd");
        const struct dirent *entry;
        char path[PATH_SIZE];

        print_path(path, pid);
        while (dir && (entry = readdir(dir)))
                if (!closer_holds(atoi(entry->d_name)) && is_file_at(dirfd(dir), entry->d_name, path))
                        (void) close(atoi(entry->d_name));
}

static int on_child_end(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        MapsScan *scan = userdata;
        int status = 0;

        (void) waitpid(scan->child, &status, 0);
        scan->child = 0;
        maps_scan_stop(scan);
        if (WIFSIGNALED(status))
                close_maps(scan->pid);
        scan->on_done(scan, WIFEXITED(status) ? (MapsFound) WEXITSTATUS(status) : MAPS_UNKNOWN);
        return 0;
}

void maps_scan_start(MapsScan *scan, sd_event *event, pid_t pid, int arena_fd) {
        pid_t parent = getpid();
        struct stat arena;
        int fd;

        if (fstat(arena_fd, &arena) < 0)
                return;
        scan->pid = pid;
        scan->child = (pid_t) syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
        if (scan->child == 0)
                read_maps_and_exit(pid, &arena, parent);
        if (scan->child < 0) {
                scan->child = 0;
                return;
        }
        fd = (int) syscall(SYS_pidfd_open, scan->child, 0);
        if (fd < 0 || sd_event_add_io(event, &scan->source, fd, EPOLLIN, on_child_end, scan) < 0 ||
            sd_event_source_set_io_fd_own(scan->source, true) < 0) {
                (void) proto_close(fd);
                maps_scan_stop(scan);
        }
}

void maps_scan_kill(const MapsScan *scan) {
        (void) kill(scan->child, SIGKILL);
}

void maps_scan_stop(MapsScan *scan) {
        int status = 0;

        scan->source = sd_event_source_disable_unref(scan->source);
        if (scan->child == 0)
                return;
        maps_scan_kill(scan);
        (void) waitpid(scan->child, &status, 0);
        if (WIFSIGNALED(status))
                close_maps(scan->pid);
        scan->child = 0;
}
