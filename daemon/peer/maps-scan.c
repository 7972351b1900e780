#include "daemon/peer/maps-scan.h"

#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/cleanup.h"

/* ---- In the child */

static bool is_line_of_arena(const char *line, const struct stat *arena) {
        unsigned major_id, minor_id;
        uintmax_t inode;

        return sscanf(line, "%*x-%*x %*s %*x %x:%x %ju", &major_id, &minor_id, &inode) == 3 &&
               makedev(major_id, minor_id) == arena->st_dev && inode == arena->st_ino;
}

static MapsFound read_maps(pid_t pid, const struct stat *arena) {
        char path[32], *line = NULL;
        MapsFound found = MAPS_UNKNOWN;
        size_t size = 0;
        FILE *maps;

        (void) snprintf(path, sizeof(path), "/proc/%d/maps", (int) pid);
        maps = fopen(path, "re");
        if (!maps)
                return MAPS_UNKNOWN;
        while (found != MAPS_MAPPED && getline(&line, &size, maps) > 0)
                found = is_line_of_arena(line, arena) ? MAPS_MAPPED : MAPS_UNMAPPED;
        if (found == MAPS_UNMAPPED && ferror(maps))
                found = MAPS_UNKNOWN;
        free(line);
        (void) fclose(maps);
        return found;
}

static _Noreturn void read_maps_and_exit(pid_t pid, const struct stat *arena, pid_t parent) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(MAPS_UNKNOWN);
        /* The child must not keep connections open that the daemon closes. */
        (void) syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0);
        _exit((int) read_maps(pid, arena));
}

/* ---- In the daemon */

static int on_child_end(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        MapsScan *scan = userdata;
        int status = 0;

        (void) waitpid(scan->child, &status, 0);
        scan->child = 0;
        maps_scan_stop(scan);
        scan->on_done(scan, WIFEXITED(status) ? (MapsFound) WEXITSTATUS(status) : MAPS_UNKNOWN);
        return 0;
}

void maps_scan_start(MapsScan *scan, sd_event *event, pid_t pid, int arena_fd) {
        pid_t parent = getpid();
        struct stat arena;
        int fd;

        if (fstat(arena_fd, &arena) < 0)
                return;
        scan->child = fork();
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
        scan->source = sd_event_source_disable_unref(scan->source);
        if (scan->child == 0)
                return;
        maps_scan_kill(scan);
        (void) waitpid(scan->child, NULL, 0);
        scan->child = 0;
}
