#include "daemon/ctl/base/lost.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/cleanup.h"
#include "proto/path.h"
#include "proto/state-file.h"
#include "shm/arena/arena.h"

#define DAEMON_ARENAS_MAX 64U

typedef struct LostSearch {
        char link[PROTO_POOL_NAME_MAX + 32]; /* the name of the memory in /proc */
        const char *arena_id;
        struct statx memfd; /* tells the device that all of them are on */
        ino_t of_daemons
                [DAEMON_ARENAS_MAX]; /* arenas that a tslabd has open; those of another directory, too */
        size_t n_of_daemons;
        bool found; /* a client */
} LostSearch;

static void close_proc(DIR **dir) {
        if (*dir)
                (void) closedir(*dir);
}

static bool is_daemon(pid_t pid) {
        char path[32], comm[16] = "";
        FILE *file;

        (void) snprintf(path, sizeof(path), "/proc/%d/comm", (int) pid);
        file = fopen(path, "re");
        if (!file)
                return false;
        if (!fgets(comm, sizeof(comm), file))
                comm[0] = 0;
        (void) fclose(file);
        return !strcmp(comm, "tslabd\n");
}

static bool is_of_daemon(const LostSearch *search, ino_t inode) {
        for (size_t i = 0; i < search->n_of_daemons; ++i)
                if (search->of_daemons[i] == inode)
                        return true;
        return false;
}

static bool is_of_pool(const LostSearch *search, int dir_fd, const char *entry) {
        _cleanup_(proto_closep) int fd = -1;
        char text[PROTO_ARENA_TEXT_SIZE];
        uint64_t id[2];

        if (!*search->arena_id)
                return true;
        fd = openat(dir_fd, entry, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0 || shm_arena_read_id(fd, id) != 0)
                return false;
        proto_arena_text(id, text);
        return !strcmp(text, search->arena_id);
}

/* A tslabd made the memory as its user, and adopts from processes of its user only. `dir_fd`: /proc/PID/fd */
static bool is_of_user(int dir_fd, const struct statx *memory) {
        struct statx process;

        return statx(dir_fd, "..", 0, STATX_UID, &process) == 0 && process.stx_uid == memory->stx_uid;
}

static void look_at_descriptor(LostSearch *search, int dir_fd, const char *entry, bool daemon) {
        char link[sizeof(search->link) + 1];
        ssize_t n = readlinkat(dir_fd, entry, link, sizeof(link) - 1);
        struct statx status;

        link[n > 0 ? n : 0] = 0;
        /* A file of any file system may have that name: none is asked, since it may never answer. */
        if (strcmp(link, search->link) != 0 ||
            statx(dir_fd, entry, AT_STATX_DONT_SYNC, STATX_INO | STATX_UID, &status) < 0 ||
            status.stx_dev_major != search->memfd.stx_dev_major ||
            status.stx_dev_minor != search->memfd.stx_dev_minor)
                return;
        if (!daemon && !is_of_daemon(search, status.stx_ino) && is_of_user(dir_fd, &status) &&
            is_of_pool(search, dir_fd, entry))
                search->found = true;
        else if (daemon && search->n_of_daemons < DAEMON_ARENAS_MAX)
                search->of_daemons[search->n_of_daemons++] = status.stx_ino;
}

static void look_at_process(LostSearch *search, pid_t pid, bool daemon) {
        _cleanup_(close_proc) DIR *dir = NULL;
        struct dirent *entry;
        char path[32];

        (void) snprintf(path, sizeof(path), "/proc/%d/fd", (int) pid);
        dir = opendir(path);
        while (dir && (entry = readdir(dir)))
                look_at_descriptor(search, dirfd(dir), entry->d_name, daemon);
}

/* The first process that `is_it` is true of, among the daemons or among all others; 0: none. */
static pid_t find_process(bool daemons, bool (*is_it)(pid_t pid, void *userdata), void *userdata) {
        _cleanup_(close_proc) DIR *dir = opendir("/proc");
        struct dirent *entry;

        while (dir && (entry = readdir(dir))) {
                pid_t pid = atoi(entry->d_name);

                if (pid > 0 && is_daemon(pid) == daemons && is_it(pid, userdata))
                        return pid;
        }
        return 0;
}

static bool note_daemon(pid_t pid, void *userdata) {
        look_at_process(userdata, pid, true);
        return false;
}

static bool is_client(pid_t pid, void *userdata) {
        LostSearch *search = userdata;

        look_at_process(search, pid, false);
        return search->found;
}

pid_t lost_client_find(const char *pool, const char *arena_id) {
        _cleanup_(proto_closep) int memfd = memfd_create("tslabctl", MFD_CLOEXEC);
        LostSearch search = { .arena_id = arena_id };

        if (memfd < 0 || statx(memfd, "", AT_EMPTY_PATH, STATX_INO, &search.memfd) < 0)
                return 0;
        (void) snprintf(search.link, sizeof(search.link), "/memfd:tslab:%s (deleted)", pool);
        (void) find_process(true, note_daemon, &search);
        return find_process(false, is_client, &search);
}

/* In a file of /proc/PID, a line that begins with `begin`, ends with `end`, and is `without` a text. */
static bool has_line(pid_t pid, const char *name, const char *begin, const char *without, const char *end) {
        char path[32], line[512];
        bool found = false;
        FILE *file;

        (void) snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, name);
        file = fopen(path, "re");
        while (file && !found && fgets(line, sizeof(line), file)) {
                size_t n = strcspn(line, "\n"), n_end = strlen(end);

                found = n >= n_end && !strncmp(line + n - n_end, end, n_end) &&
                        !strncmp(line, begin, strlen(begin)) && !strstr(line, without);
        }
        if (file)
                (void) fclose(file);
        return found;
}

/*
 * The names that systemd gives to control groups of units cannot be taken by others. But a systemd in a container has
 * units of these names, too: its processes have a second number, in their pid namespace. So may a user's systemd, all
 * of whose control groups are below its own.
 */
static bool is_of_unit(pid_t pid, void *unit) {
        char number[32];

        (void) snprintf(number, sizeof(number), "NSpid:\t%d\n", (int) pid);
        return has_line(pid, "cgroup", "", "/user@", unit) && has_line(pid, "status", number, "/", "");
}

pid_t lost_daemon_find(const char *pool) {
        char unit[PROTO_POOL_NAME_MAX + 32];

        (void) snprintf(unit, sizeof(unit), "/tslabd@%s.service", pool);
        return find_process(true, is_of_unit, unit);
}
