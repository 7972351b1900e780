/*
 * Two signs say that a daemon serves an arena.
 *
 *   1. A lock of its memory. Any client has the memfd, and can lock it, too. A process of another user can be no
 *      daemon: if such a process has the lock, the daemon goes on without it.
 *   2. A memfd without content, and with the arena's id for its name, that the daemon has open. Other daemons of the
 *      same user find it in /proc; processes of other users cannot make one that counts. From other pid namespaces it
 *      is not seen, and there the lock has to do.
 *
 * Both end with the process. The mark comes before the search for others, so that of two daemons at once at most one
 * goes on.
 */
#include "daemon/takeover/arena-claim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/message-id.h"
#include "daemon/takeover/adopt.h"
#include "proto/cleanup.h"
#include "proto/state-file.h"

#define UNSEEN_LOCKER                                                                                        \
        "the memory of the pool is locked, and /proc/locks does not tell by which process: it is taken for a daemon"
#define MARK_PREFIX "tslabd:"
#define MARK_SIZE (sizeof(MARK_PREFIX) + PROTO_ARENA_TEXT_SIZE)

/* ---- Processes */

/* A process that has ended meanwhile, or that may not be looked at, is none of this user's daemons. */
static int outcome_of_look(int error) {
        return error == ENOENT || error == ESRCH || error == EACCES || error == EPERM ? 0 : -error;
}

/*
 * Whether the process is another user's. The effective user counts, not the owner of /proc/PID, which is root where the
 * process is not dumpable. False, too, where nobody can tell.
 */
static bool is_process_of_others(pid_t pid, uid_t uid) {
        char path[32], line[256];
        unsigned found = (unsigned) uid;
        FILE *file;

        (void) snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
        file = fopen(path, "re");
        if (!file)
                return outcome_of_look(errno) == 0;
        while (fgets(line, sizeof(line), file) && sscanf(line, "Uid: %*u %u", &found) != 1)
                ;
        (void) fclose(file);
        return found != (unsigned) uid;
}

/* ---- The lock */

/*
 * Any client has the memfd, and can lock it. A daemon can only be a process of our own user, which is trusted with the
 * whole pool. Returns one of the processes of other users, or 0 if a process of ours may have the lock. *ret_seen: 0,
 * -ESRCH (no process was seen that has it), or the reason why none can be seen.
 */
static pid_t find_foreign_locker(int fd, int *ret_seen) {
        unsigned long long inode;
        pid_t pid, foreign = 0;
        char line[128];
        struct stat st;
        FILE *file;
        bool ours = false;

        file = fstat(fd, &st) < 0 ? NULL : fopen("/proc/locks", "re");
        if (!file) {
                *ret_seen = -errno;
                return 0;
        }
        while (fgets(line, sizeof(line), file)) {
                if (sscanf(line, "%*d: FLOCK %*s %*s %d %*x:%*x:%llu", &pid, &inode) != 2 ||
                    inode != st.st_ino)
                        continue;
                if (is_process_of_others(pid, geteuid()))
                        foreign = pid;
                else
                        ours = true;
        }
        *ret_seen = ferror(file) ? -EIO : ours || foreign != 0 ? 0 : -ESRCH;
        (void) fclose(file);
        return ours || *ret_seen < 0 ? 0 : foreign;
}

/* Locks a description of its own, since clients share the description that the pool was made with. */
static int lock_arena(const ShmArena *arena, int *ret_fd) {
        _cleanup_(proto_closep) int fd = -1;
        char path[32];
        pid_t pid;
        int seen;

        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", arena->fd);
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
                *ret_fd = proto_steal_fd(&fd);
                return 0;
        }
        if (errno != EWOULDBLOCK)
                return -errno;
        pid = find_foreign_locker(fd, &seen);
        if (seen < 0)
                log_error(LOG_WARNING, seen, UNSEEN_LOCKER);
        if (pid == 0)
                return -EBUSY;
        log_fields(
                LOG_WARNING, (LogFields){ .message = MESSAGE_REFUSAL, .pid = pid },
                "process %d, which is no daemon, has locked the memory of the pool: it is served all the same",
                (int) pid);
        return 0;
}

/* ---- The mark */

static void close_listing(DIR **dir) {
        if (*dir)
                (void) closedir(*dir);
}

/* This process as /proc shows it, which may be of another pid namespace than ours; 0: it does not show us. */
static pid_t own_number(void) {
        char text[16] = "";

        (void) readlink("/proc/self", text, sizeof(text) - 1);
        return atoi(text);
}

/* 1: a descriptor of this process has the name, 0: none has. */
static int has_mark(pid_t pid, const char *wanted) {
        _cleanup_(close_listing) DIR *dir = NULL;
        char path[32], name[MARK_SIZE + 32];
        struct dirent *entry;
        ssize_t n;

        (void) snprintf(path, sizeof(path), "/proc/%d/fd", (int) pid);
        dir = opendir(path);
        if (!dir)
                return outcome_of_look(errno);
        while ((errno = 0, entry = readdir(dir))) {
                n = readlinkat(dirfd(dir), entry->d_name, name, sizeof(name) - 1);
                if (n < 0 && (errno == EINVAL || errno == ENOENT || errno == ENAMETOOLONG))
                        continue; /* "." and "..", closed by now, or a file whose path is too long */
                if (n < 0)
                        return outcome_of_look(errno);
                name[n] = 0;
                if (!strcmp(name, wanted))
                        return 1;
        }
        return outcome_of_look(errno);
}

/* 1: the process has the mark, 0: not, or it is another user's. */
static int look_for_mark(pid_t pid, int proc_fd, const char *entry, const char *wanted) {
        struct stat st;

        if (fstatat(proc_fd, entry, &st, 0) < 0)
                return outcome_of_look(errno);
        return st.st_uid == geteuid() ? has_mark(pid, wanted) : 0;
}

/* -EBUSY: another process of this user has the mark. */
static int find_marked(const char *mark) {
        _cleanup_(close_listing) DIR *proc = opendir("/proc");
        char wanted[MARK_SIZE + 32];
        struct dirent *entry;
        pid_t own = own_number();
        int r = 0;

        if (!proc)
                return -errno;
        (void) snprintf(wanted, sizeof(wanted), "/memfd:%s (deleted)", mark);
        while (r == 0 && (errno = 0, entry = readdir(proc))) {
                pid_t pid = atoi(entry->d_name);

                if (pid > 0 && pid != own)
                        r = look_for_mark(pid, dirfd(proc), entry->d_name, wanted);
        }
        return r == 0 ? -errno : r < 0 ? r : -EBUSY;
}

static int mark_arena(const ShmArena *arena, int *ret_fd) {
        _cleanup_(proto_closep) int fd = -1;
        char mark[MARK_SIZE] = MARK_PREFIX;
        int r;

        proto_arena_text(arena->arena_id, mark + strlen(MARK_PREFIX));
        fd = memfd_create(mark, MFD_CLOEXEC);
        if (fd < 0)
                return -errno;
        r = find_marked(mark);
        if (r != -EBUSY) /* others find it, even where this daemon could not look for theirs */
                *ret_fd = proto_steal_fd(&fd);
        return r;
}

int claim_arena(Claim *claim, const ShmArena *arena) {
        int locked = lock_arena(arena, &claim->lock);
        /* Even if the lock failed: either sign shows another daemon. */
        int marked = mark_arena(arena, &claim->mark);

        if (marked == -EBUSY || locked == -EBUSY) {
                claim_deinit(claim);
                return -EBUSY;
        }
        return marked < 0 ? marked : locked;
}

void claim_deinit(Claim *claim) {
        claim->lock = proto_close(claim->lock);
        claim->mark = proto_close(claim->mark);
}
