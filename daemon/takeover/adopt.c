/*
 * Kernel facts (6.1 to 6.18): /proc/PID/fd/N opens the inode anew, with the rights that its mode gives this user. So
 * a reader's descriptor serves as well, and no tracer's rights are needed (Yama lets nobody but a parent use
 * pidfd_getfd()). An open directory /proc/PID belongs to one process for good: after the end of the process every
 * access in it fails with ESRCH, even if the number was given to another process.
 */
#include "daemon/takeover/adopt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/log.h"
#include "proto/cleanup.h"
#include "proto/state-file.h"
#include "shm/arena/client.h"
#include "shm/arch/process.h"
#include "shm/arena/text.h"

#define WHY_SIZE 256

typedef struct Search {
        const char *pool;
        pid_t pid;
        int proc_fd; /* the directory /proc/PID */
        int fd; /* the arena */
        char why[WHY_SIZE]; /* why the arena cannot be taken */
} Search;

static void search_deinit(Search *search) {
        (void) proto_close(search->proc_fd);
        (void) proto_close(search->fd);
}

static void close_dir(DIR **dir) {
        if (*dir)
                (void) closedir(*dir);
}

__attribute__((format(printf, 3, 4))) static int refuse_search(Search *search, int error, const char *format,
                                                               ...) {
        va_list arguments;

        va_start(arguments, format);
        (void) vsnprintf(search->why, sizeof(search->why), format, arguments);
        va_end(arguments);
        return error;
}

static int refuse_unreadable(Search *search, int error, const char *what) {
        if (error == -ESRCH)
                return refuse_search(search, error, "process %d ended meanwhile", (int) search->pid);
        return refuse_search(search, error, "%s of process %d cannot be read: %s", what, (int) search->pid,
                             strerror(-error));
}

static int open_process(Search *search) {
        char path[32];
        struct stat st;

        (void) snprintf(path, sizeof(path), "/proc/%d", (int) search->pid);
        search->proc_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (search->proc_fd < 0 && errno == ENOENT)
                return refuse_search(search, -ESRCH, "there is no process %d", (int) search->pid);
        if (search->proc_fd < 0 || fstat(search->proc_fd, &st) < 0)
                return refuse_unreadable(search, -errno, "the entry");
        if (st.st_uid != geteuid())
                return refuse_search(
                        search, -EPERM,
                        "process %d belongs to user %u, but tslabd takes memory only from processes of its "
                        "own user, %u",
                        (int) search->pid, (unsigned) st.st_uid, (unsigned) geteuid());
        return 0;
}

static DIR *open_descriptors(const Search *search) {
        int fd = openat(search->proc_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);

        if (!dir)
                (void) proto_close(fd);
        return dir;
}

/* shm_arena_create() gives the memfd this name. 1: it is one, 0: none, or closed by now. */
static int is_arena_of_pool(const char *pool, int dir_fd, const char *entry) {
        char name[96], wanted[96];
        ssize_t n = readlinkat(dir_fd, entry, name, sizeof(name) - 1);

        if (n < 0) /* EINVAL: "." and "..". ENAMETOOLONG: a file whose path has more than 4096 bytes */
                return errno == ENOENT || errno == EINVAL || errno == ENAMETOOLONG ? 0 : -errno;
        name[n] = 0;
        (void) snprintf(wanted, sizeof(wanted), "/memfd:tslab:%s (deleted)", pool);
        return strcmp(name, wanted) == 0;
}

/* Several descriptors may be of the same memory. */
static int add_arena(Search *search, int dir_fd, const char *entry) {
        _cleanup_(proto_closep) int fd = -1;
        struct stat st, found;

        fd = openat(dir_fd, entry, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &st) < 0)
                return refuse_unreadable(search, -errno, "the pool's memory in a descriptor");
        if (search->fd < 0) {
                search->fd = proto_steal_fd(&fd);
                return 0;
        }
        if (fstat(search->fd, &found) < 0)
                return refuse_unreadable(search, -errno, "the pool's memory in a descriptor");
        if (st.st_dev == found.st_dev && st.st_ino == found.st_ino)
                return 0;
        return refuse_search(
                search, -ENOTUNIQ,
                "process %d has several arenas named %s open: name a process that has only the right one",
                (int) search->pid, search->pool);
}

static int find_arena(Search *search) {
        _cleanup_(close_dir) DIR *dir = open_descriptors(search);
        struct dirent *entry;
        int r = 0;

        if (!dir)
                return refuse_unreadable(search, -errno, "the list of descriptors");
        while (r == 0 && (errno = 0, entry = readdir(dir))) {
                r = is_arena_of_pool(search->pool, dirfd(dir), entry->d_name);
                if (r > 0)
                        r = add_arena(search, dirfd(dir), entry->d_name);
                else if (r < 0)
                        r = refuse_unreadable(search, r, "the list of descriptors");
        }
        if (r == 0 && errno != 0)
                r = refuse_unreadable(search, -errno, "the list of descriptors");
        if (r == 0 && search->fd < 0)
                r = refuse_search(search, -ENOENT, "process %d is no client of pool %s", (int) search->pid,
                                  search->pool);
        return r;
}

static bool has_client(const ShmArena *arena, pid_t pid, uint32_t start_time) {
        ShmClientInfo info;

        for (uint32_t i = 0; i < arena->n_records; i++)
                if (shm_client_get(arena, i, &info) == 0 && info.pid == pid && info.start_time == start_time)
                        return true;
        return false;
}

/* 1: a daemon of this user made the memory, 0: none did; or a negative errno. */
static int is_of_daemon(int fd) {
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;
        return st.st_uid == geteuid() && (st.st_mode & 0777) == 0600;
}

static int check_arena(Search *search, const ShmArena *arena) {
        char pool[SHM_POOL_NAME_SIZE];
        uint32_t start_time;
        int r;

        shm_text_copy(pool, arena->header->pool_name, sizeof(pool));
        if (strcmp(pool, search->pool) != 0)
                return refuse_search(search, -EBADMSG, "the memory of process %d belongs to pool '%s'",
                                     (int) search->pid, pool);
        r = is_of_daemon(arena->fd);
        if (r < 0)
                return refuse_unreadable(search, r, "the memory");
        if (r == 0)
                return refuse_search(search, -EPERM, "the memory of process %d was made by another user",
                                     (int) search->pid);
        r = shm_process_start_time(search->pid, &start_time);
        if (r)
                return refuse_unreadable(search, r, "the start time");
        if (!has_client(arena, search->pid, start_time))
                return refuse_search(
                        search, -ENOENT,
                        "process %d has the memory of pool %s, but is none of its clients: it may be "
                        "a child of one, or have its number",
                        (int) search->pid, search->pool);
        /* If the process is still there, all files found by its number were its own. */
        if (faccessat(search->proc_fd, "stat", F_OK, 0) < 0)
                return refuse_unreadable(search, errno == ENOENT ? -ESRCH : -errno, "the entry");
        return 0;
}

static int map_arena(Search *search, ShmArena *ret) {
        ShmArena arena;
        int r = shm_arena_map(&arena, search->fd, false);

        if (r == SHM_ARENA_E_FORMAT)
                return refuse_search(search, -EPROTONOSUPPORT,
                                     "this tslabd, " TSLAB_VERSION
                                     ", does not know the format of the memory of process %d: start one of "
                                     "the build that made it, or this one with --fresh to give it up",
                                     (int) search->pid);
        if (r == SHM_ARENA_E_DAMAGED)
                return refuse_search(search, -EBADMSG, "the memory of process %d is damaged",
                                     (int) search->pid);
        if (r)
                return refuse_unreadable(search, r, "the memory");
        (void) proto_steal_fd(&search->fd);
        r = check_arena(search, &arena);
        if (r)
                shm_arena_deinit(&arena);
        else
                *ret = arena;
        return r;
}

static int search_run(Search *search, ShmArena *ret) {
        int r = open_process(search);

        if (r == 0)
                r = find_arena(search);
        return r ?: map_arena(search, ret);
}

int adopt_arena(ShmArena *ret, const char *pool, pid_t pid) {
        _cleanup_(search_deinit) Search search = { .pool = pool, .pid = pid, .proc_fd = -1, .fd = -1 };
        int r = search_run(&search, ret);

        if (r)
                log_line(LOG_ERR, "cannot adopt pool %s: %s", pool, search.why);
        return r;
}

/* 1: a tslabd of the build that made the memory could adopt it, 0: no tslabd could; or a negative errno. */
static int could_other_adopt(const Search *search, const char *arena_id) {
        char text[PROTO_ARENA_TEXT_SIZE];
        uint64_t id[2];
        int r = shm_arena_read_id(search->fd, id);

        if (r < 0)
                return r;
        if (r > 0)
                return 0;
        r = is_of_daemon(search->fd);
        if (r <= 0)
                return r;
        proto_arena_text(id, text);
        return !strcmp(text, arena_id);
}

/* 1: the arena could be adopted, 0: it could not. Negative errno: not known, as memory or descriptors ran out, say. */
static int could_adopt(const char *pool, const char *arena_id, pid_t pid, bool *ret_known) {
        _cleanup_(search_deinit) Search search = { .pool = pool, .pid = pid, .proc_fd = -1, .fd = -1 };
        char id[PROTO_ARENA_TEXT_SIZE];
        ShmArena arena;
        int r = search_run(&search, &arena);

        *ret_known = r != -EPROTONOSUPPORT;
        switch (r) {
        case -EPROTONOSUPPORT:
                return could_other_adopt(&search, arena_id);
        case 0:
                proto_arena_text(arena.arena_id, id);
                shm_arena_deinit(&arena);
                return !strcmp(id, arena_id);
        case -ESRCH:
        case -EPERM:
        case -EACCES:
        case -ENOENT:
        case -ENOTUNIQ:
        case -EBADMSG:
                return 0;
        default:
                return r;
        }
}

int adopt_find(const char *pool, const char *arena_id, AdoptFrom *ret_from, bool *ret_known) {
        _cleanup_(close_dir) DIR *dir = opendir("/proc");
        AdoptFrom from = {};
        struct dirent *entry;
        bool known;
        int r = 0;

        while (dir && r >= 0 && (errno = 0, entry = readdir(dir))) {
                pid_t pid = atoi(entry->d_name);

                r = pid > 0 ? could_adopt(pool, arena_id, pid, &known) : 0;
                if (r <= 0)
                        continue;
                if (from.n == 0)
                        *ret_known = known;
                if (from.n < ADOPT_PIDS_MAX)
                        from.pids[from.n] = pid;
                from.n++;
        }
        if (r < 0)
                return r;
        *ret_from = from;
        return -errno; /* set by opendir() or readdir() */
}
