#include "daemon/takeover/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/message-id.h"
#include "proto/cleanup.h"
#include "proto/deadline.h"
#include "proto/notify.h"
#include "proto/path.h"
#include "proto/state-file.h"

#define EXTEND_USEC (30 * PROTO_USEC_PER_SEC)
#define TIME_MAX_USEC (30 * 60 * PROTO_USEC_PER_SEC) /* a disk that hangs does not stop a shutdown for good */

static void log_keep(int level, const Keep *keep, const char *text) {
        log_fields(level, (LogFields){ .message = MESSAGE_KEEP }, "pool %s: %s: %s",
                   keep->sessions->pool->options->pool, keep->file, text);
}

static void log_failure(const Keep *keep, int error, const char *what) {
        log_fields(LOG_ERR, (LogFields){ .message = MESSAGE_KEEP }, "pool %s: could not %s %s: %s",
                   keep->sessions->pool->options->pool, what, keep->file, strerror(-error));
}

static char *with_suffix(const char *path, const char *suffix) {
        char *text;

        return asprintf(&text, "%s%s", path, suffix) < 0 ? NULL : text;
}

/* ---- Starting tslabctl */

static int open_socket(Keep *keep) {
        _cleanup_(proto_freep) char *dir = NULL, *path = NULL;
        int r = proto_runtime_dir(&dir);

        r = r ?: proto_state_file(dir, keep->sessions->pool->options->pool, "keep", &path);
        return r ?: listener_new_private(&keep->listener, keep->sessions, path);
}

/*
 * The signals that stop the daemon stay blocked in tslabctl: systemd sends them to all processes of a service.
 * SIGPIPE, which the daemon ignores, is as usual. tslabctl ends with the daemon: later its file would be of a pool that
 * has gone on.
 */
static int spawn_ctl(Keep *keep, char **arguments) {
        pid_t parent = getpid();
        volatile int error = 0; /* the child's, which has our memory until it is another program */

        keep->pid = vfork();
        if (keep->pid == 0) {
                (void) signal(SIGPIPE, SIG_DFL);
                if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent)
                        (void) execvp(arguments[0], arguments);
                error = errno;
                _exit(127);
        }
        if (keep->pid < 0)
                error = errno;
        else if (error)
                (void) waitpid(keep->pid, NULL, 0);
        if (error)
                keep->pid = 0;
        return -error;
}

static int on_end(sd_event_source *source, int fd, uint32_t revents, void *userdata);

static int watch_ctl(Keep *keep) {
        int fd = (int) syscall(SYS_pidfd_open, keep->pid, 0), r;

        if (fd < 0)
                return -errno;
        r = sd_event_add_io(keep->sessions->pool->event, &keep->source, fd, EPOLLIN, on_end, keep);
        if (r < 0) {
                (void) proto_close(fd);
                return r;
        }
        (void) sd_event_source_set_io_fd_own(keep->source, true);
        return 0;
}

static void name_loaded(const Keep *keep) {
        _cleanup_(proto_freep) char *path = with_suffix(keep->loads, ".loaded");

        if (!path || rename(keep->file, path) < 0)
                log_failure(keep, path ? -errno : -ENOMEM, "rename");
}

/* None that failed before is overwritten: it may be the only copy of its maps. */
static void name_failed(const Keep *keep) {
        char suffix[sizeof(".failed.99")] = ".failed";
        int r = -EEXIST;

        for (unsigned i = 1; r == -EEXIST && i < 100; i++) {
                _cleanup_(proto_freep) char *path = with_suffix(keep->loads, suffix);

                if (!path)
                        r = -ENOMEM;
                else if (renameat2(AT_FDCWD, keep->file, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
                        r = 0;
                else
                        r = -errno;
                (void) snprintf(suffix, sizeof(suffix), ".failed.%u", i);
        }
        if (r)
                log_failure(keep, r, "rename");
}

static bool start_ctl(Keep *keep, const char *verb) {
        char *socket = NULL;
        int r = open_socket(keep);

        if (r == 0)
                socket = with_suffix("--socket=", listener_path(keep->listener));
        if (r == 0)
                r = socket ? spawn_ctl(keep,
                                       (char *[]){ "tslabctl", socket, (char *) verb, keep->file, NULL })
                           : -ENOMEM;
        free(socket);
        if (r == 0)
                r = watch_ctl(keep);
        keep->since_usec = proto_now_usec();
        if (r == 0)
                return true;
        log_failure(keep, r, keep->loads ? "have tslabctl load" : "have tslabctl write");
        if (keep->loads) /* or the next file would take its place */
                name_failed(keep);
        keep_deinit(keep);
        return false;
}

/* ---- Its end */

static int on_end(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        Keep *keep = userdata;
        int status = 0;
        bool done;

        (void) waitpid(keep->pid, &status, 0);
        keep->pid = 0;
        done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (keep->loads && done)
                name_loaded(keep);
        else if (keep->loads)
                name_failed(keep);
        else /* perhaps without damaged entries, which tslabctl named */
                done = access(keep->file, F_OK) == 0;
        if (done)
                log_keep(LOG_NOTICE, keep,
                         keep->loads ? "the maps are in the pool again" : "the maps are in the file");
        else
                log_keep(
                        LOG_ERR, keep,
                        keep->loads
                                ? "not all of the file could be loaded, see above: it has the suffix .failed "
                                  "now, and 'tslabctl load' loads it later"
                                : "the maps were not written, see above: they end with the pool's memory");
        keep_deinit(keep);
        if (keep->on_done)
                keep->on_done(keep->userdata);
        return 0;
}

/* ---- Interface */

void keep_claim(const Pool *pool) {
        const char *path = pool->options->keep;
        _cleanup_(proto_freep) char *loading = path ? with_suffix(path, ".loading") : NULL;

        if (path && (!loading || rename(path, loading) < 0) && errno != ENOENT)
                log_fields(LOG_ERR, (LogFields){ .message = MESSAGE_KEEP }, "pool %s: could not take %s: %s",
                           pool->options->pool, path, strerror(errno));
}

/*
 * A file beside memory that was taken up must not be loaded: sessions that ended may come back. It stays for an
 * operator.
 */
static bool put_aside(const char *path) {
        _cleanup_(proto_freep) char *old = with_suffix(path, ".old");

        return old && rename(path, old) == 0;
}

/* An upgrade's file is of before the new tslabctl, which cannot read the memory of the old daemon. */
static void put_back(const char *path) {
        _cleanup_(proto_freep) char *old = with_suffix(path, ".old");

        if (old && access(path, F_OK) < 0)
                (void) rename(old, path);
}

bool keep_load(Keep *keep, bool taken_up) {
        const char *path = keep->sessions->pool->options->keep;
        int r = 0;

        if (!path)
                return false;
        keep->file = with_suffix(path, ".loading");
        keep->loads = strdup(path);
        if (!keep->file || !keep->loads)
                r = -ENOMEM;
        if (taken_up)
                (void) put_aside(path);
        if (r == 0 && access(keep->file, F_OK) < 0)
                r = -errno;
        if (r == 0)
                return start_ctl(keep, "load");
        if (r != -ENOENT)
                log_fields(LOG_ERR, (LogFields){ .message = MESSAGE_KEEP }, "pool %s: could not find %s: %s",
                           keep->sessions->pool->options->pool, path, strerror(-r));
        keep_deinit(keep);
        return false;
}

bool keep_dump(Keep *keep) {
        const char *path = keep->sessions->pool->options->keep;

        if (!path || keep_is_busy(keep))
                return false;
        keep->file = strdup(path);
        keep->aside = keep->file && put_aside(path);
        return keep->file && start_ctl(keep, "dump");
}

bool keep_is_busy(const Keep *keep) {
        return keep->pid > 0;
}

void keep_tick(const Keep *keep) {
        if (!keep_is_busy(keep))
                return;
        if (proto_now_usec() - keep->since_usec > TIME_MAX_USEC)
                (void) kill(keep->pid, SIGKILL);
        else
                (void) notify_now("EXTEND_TIMEOUT_USEC=%llu", (unsigned long long) EXTEND_USEC);
}

void keep_check(const Pool *pool) {
        _cleanup_(proto_freep) char *copy = pool->options->keep ? strdup(pool->options->keep) : NULL;
        const char *dir;

        if (!copy)
                return;
        dir = dirname(copy);
        if (access(dir, W_OK | X_OK) < 0)
                log_fields(
                        LOG_ERR, (LogFields){ .message = MESSAGE_KEEP },
                        "the maps of pool %s will be lost when it stops: user %u cannot write in %s, where "
                        "TSLAB_KEEP has its file: %s",
                        pool->options->pool, (unsigned) geteuid(), dir, strerror(errno));
}

void keep_deinit(Keep *keep) {
        keep->source = sd_event_source_disable_unref(keep->source);
        if (keep->pid > 0) {
                (void) kill(keep->pid, SIGKILL);
                (void) waitpid(keep->pid, NULL, 0);
        }
        keep->pid = 0;
        if (keep->aside)
                put_back(keep->file);
        keep->aside = false;
        keep->listener = listener_free(keep->listener);
        free(keep->file);
        free(keep->loads);
        keep->file = keep->loads = NULL;
}
