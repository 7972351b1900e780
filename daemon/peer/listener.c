#include "daemon/peer/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/last-good.h"
#include "daemon/log.h"
#include "proto/state-file.h"
#include "proto/path.h"
#include "proto/served.h"
#include "proto/socket.h"

#define LOCK_SIZE 64U

struct Listener {
        Sessions *sessions;
        int *passed_fd; /* -1: systemd passed no socket */
        int lock_fd;
        char *lock_path;
        int mark_fd; /* -1: no file says that the pool is served */
        char *mark_path;
        int fd;
        char *path;
        bool ours; /* the daemon made the socket file, and removes it */
        bool paused; /* descriptors or memory ran out */
        char left[PROTO_ARENA_TEXT_SIZE]; /* id of the last daemon's arena; "": none */
        char arena[PROTO_ARENA_TEXT_SIZE]; /* id of this daemon's */
        bool unnamed; /* `arena` could not be written to the lock */
        sd_event_source *source;
};

/* Makes one level only: the directories above it belong to the system or to the login session. */
static int make_dir(const char *dir) {
        if (mkdir(dir, 0755) < 0 && errno != EEXIST)
                return -errno;
        return 0;
}

/* In place: a write that fails must not take the id of an arena that clients still use. */
static int write_lock(int fd, const char *arena) {
        char text[LOCK_SIZE];
        int n = snprintf(text, sizeof(text), "%d\n%s\n", (int) getpid(), arena);

        return pwrite(fd, text, (size_t) n, 0) < 0 || ftruncate(fd, n) < 0 ? -errno : 0;
}

static void log_other_daemon(const char *pool, int fd) {
        char pid[PROTO_PID_SIZE], arena[PROTO_ARENA_TEXT_SIZE];

        (void) proto_lock_read(fd, pid, arena);
        log_line(LOG_ERR, "pool %s is served by another tslabd already%s%s", pool, *pid ? ", process " : "",
                 pid);
}

void listener_name_arena(Listener *listener, const char *arena_id) {
        int r;

        (void) snprintf(listener->arena, sizeof(listener->arena), "%s", arena_id);
        r = write_lock(listener->lock_fd, listener->arena);
        listener->unnamed = r < 0;
        if (r < 0)
                log_error(
                        LOG_WARNING, r,
                        "could not write to the lock of pool %s; trying again. If the daemon is killed before "
                        "that, and systemd does not keep the memory, start the next one with --adopt=PID of a "
                        "client: it would begin with an empty pool",
                        listener->sessions->pool->options->pool);
}

/* No child may inherit the descriptor: the lock belongs to the file description. */
static int open_lock(const char *path, const char *pool, int *ret_fd) {
        _cleanup_(proto_closep) int fd = -1;

        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
        if (fd < 0) {
                log_error(LOG_ERR, -errno, "could not open %s", path);
                return -errno;
        }
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                if (errno != EWOULDBLOCK) {
                        log_error(LOG_ERR, -errno, "could not lock %s", path);
                        return -errno;
                }
                log_other_daemon(pool, fd);
                return -EBUSY;
        }
        *ret_fd = proto_steal_fd(&fd);
        return 0;
}

/*
 * Another daemon removes the file of its lock as it ends. The lock of a file that does not have the name any more keeps
 * out nobody.
 */
static bool has_lock_file(const Listener *listener) {
        struct stat ours, named;

        return fstat(listener->lock_fd, &ours) == 0 && lstat(listener->lock_path, &named) == 0 &&
               ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

static int lock_pool(Listener *listener, const char *dir, const char *pool) {
        char pid[PROTO_PID_SIZE];
        int r;

        r = proto_state_file(dir, pool, PROTO_LOCK_SUFFIX, &listener->lock_path);
        if (r < 0) {
                log_error(LOG_ERR, r, "could not find the lock of pool %s in %s", pool, dir);
                return r;
        }
        do {
                listener->lock_fd = proto_close(listener->lock_fd);
                r = open_lock(listener->lock_path, pool, &listener->lock_fd);
                if (r < 0)
                        return r;
        } while (!has_lock_file(listener));
        r = proto_lock_read(listener->lock_fd, pid, listener->left);
        if (r < 0) { /* it may name an arena that clients still use */
                log_error(LOG_ERR, r, "could not read %s", listener->lock_path);
                return r;
        }
        /* If this daemon ends before it serves an arena, the next one has to know that id, too. */
        (void) write_lock(listener->lock_fd, listener->left);
        return 0;
}

/* For processes that would start an idle pool by a connection. Only their lists are wrong where this fails. */
static void mark_pool(Listener *listener, const char *dir, const char *pool) {
        int r = proto_state_file(dir, pool, PROTO_SERVED_SUFFIX, &listener->mark_path);

        listener->mark_fd = r < 0 ? r : proto_served_mark(listener->mark_path);
        if (listener->mark_fd < 0)
                log_error(LOG_WARNING, listener->mark_fd, "could not mark pool %s as served in %s", pool,
                          dir);
}

static int find_paths(Listener *listener, char **ret_dir) {
        const Options *options = listener->sessions->pool->options;
        _cleanup_(proto_freep) char *dir = NULL;
        int r;

        r = proto_runtime_dir(&dir);
        if (r == -ENXIO)
                log_line(LOG_ERR, "there is no runtime directory: set XDG_RUNTIME_DIR or TSLAB_RUNTIME_DIR");
        if (r < 0)
                return r;
        r = make_dir(dir);
        if (r < 0) {
                log_error(LOG_ERR, r, "could not make the directory %s", dir);
                return r;
        }
        if (options->listen)
                listener->path = strdup(options->listen);
        else if (asprintf(&listener->path, "%s/%s.sock", dir, options->pool) < 0)
                listener->path = NULL;
        if (!listener->path)
                return -ENOMEM;
        *ret_dir = proto_steal(&dir);
        return 0;
}

int listener_new(Listener **ret_listener, Sessions *sessions, int *passed_fd) {
        _cleanup_(proto_freep) char *dir = NULL;
        Listener *listener = malloc(sizeof(*listener));
        int r;

        if (!listener)
                return -ENOMEM;
        *listener = (Listener){
                .sessions = sessions, .passed_fd = passed_fd, .lock_fd = -1, .mark_fd = -1, .fd = -1
        };
        r = find_paths(listener, &dir);
        if (r == 0)
                r = lock_pool(listener, dir, sessions->pool->options->pool);
        if (r < 0) {
                (void) listener_free(listener);
                return r;
        }
        mark_pool(listener, dir, sessions->pool->options->pool);
        *ret_listener = listener;
        return 0;
}

/* systemd keeps the memory over restarts. If it passes none, as after 'systemctl stop', no daemon can have it again. */
const char *listener_left_arena(const Listener *listener) {
        return *listener->passed_fd < 0 && *listener->left ? listener->left : NULL;
}

bool listener_had_arena(const Listener *listener) {
        return *listener->passed_fd >= 0 && *listener->left;
}

static void pause_accepting(Listener *listener, int error) {
        if (!listener->paused)
                log_error(LOG_WARNING, error, "cannot accept connections for a while");
        listener->paused = true;
        (void) sd_event_source_set_enabled(listener->source, SD_EVENT_OFF);
}

void listener_tick(Listener *listener) {
        if (listener->unnamed)
                listener->unnamed = write_lock(listener->lock_fd, listener->arena) < 0;
        if (!listener->paused || sd_event_source_set_enabled(listener->source, SD_EVENT_ON) < 0)
                return;
        listener->paused = false;
}

static bool is_want_of_room(int error) {
        return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

static int on_connection(sd_event_source *source, int listen_fd, uint32_t revents, void *userdata) {
        Listener *listener = userdata;
        struct ucred peer;
        int fd, r;

        fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
                if (is_want_of_room(errno))
                        pause_accepting(listener, -errno);
                return 0; /* or else the peer has closed the connection already */
        }
        proto_socket_let_fds(fd, false); /* until it attaches */
        /* A connection older than the daemon did not inherit SO_PASSCRED, which a forked child of its peer needs. */
        r = proto_socket_adopt(fd, false);
        if (r == 0)
                r = proto_peer_credentials(fd, &peer);
        if (r == 0)
                r = session_new(NULL, listener->sessions, fd, &peer, fd);
        if (r == 0)
                fd = -1; /* the session's */
        else if (is_want_of_room(-r))
                pause_accepting(listener, r);
        else
                log_peer(LOG_NOTICE, 0, "a connection was refused: %s", strerror(-r));
        (void) proto_socket_close(fd);
        return 0;
}

static int take_passed_socket(Listener *listener) {
        int fd = *listener->passed_fd, r;

        r = proto_socket_adopt(fd, true);
        if (r < 0) {
                log_error(LOG_ERR, r, "the socket that systemd passed is no listening SOCK_SEQPACKET socket");
                return r;
        }
        listener->fd = proto_steal_fd(listener->passed_fd);
        return 0;
}

/* Nobody may connect until group and mode of the socket are set. */
static int bind_own_socket(Listener *listener) {
        const Options *options = listener->sessions->pool->options;
        int r;

        r = proto_listen(listener->path, 0600, &listener->fd);
        if (r == -EADDRINUSE)
                log_line(LOG_ERR, "%s is in use by another program", listener->path);
        else if (r < 0)
                log_error(LOG_ERR, r, "could not listen at %s", listener->path);
        if (r < 0)
                return r;
        listener->ours = true;
        if (options->group != (gid_t) -1 && chown(listener->path, (uid_t) -1, options->group) < 0) {
                r = -errno;
                log_error(LOG_ERR, r, "could not give %s to group %u", listener->path,
                          (unsigned) options->group);
                return r;
        }
        if (chmod(listener->path, options->mode) < 0) {
                r = -errno;
                log_error(LOG_ERR, r, "could not change the mode of %s", listener->path);
                return r;
        }
        return 0;
}

/* A peer may close its connection before it is accepted; accept() must not block then. */
static int make_nonblocking(int fd) {
        int flags = fcntl(fd, F_GETFL), r = 0;

        if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
                r = -errno;
                log_error(LOG_ERR, r, "could not make the socket non-blocking");
        }
        return r;
}

static int watch_socket(Listener *listener) {
        int r = sd_event_add_io(listener->sessions->pool->event, &listener->source, listener->fd, EPOLLIN,
                                on_connection, listener);

        if (r < 0)
                log_error(LOG_ERR, r, "could not watch the socket");
        return r < 0 ? r : 0;
}

int listener_start(Listener *listener) {
        int r = *listener->passed_fd >= 0 ? take_passed_socket(listener) : bind_own_socket(listener);

        if (r == 0)
                r = make_nonblocking(listener->fd);
        if (r < 0)
                return r;
        proto_socket_let_fds(listener->fd, false); /* connections inherit it */
        if (listener->mark_fd >= 0 && proto_served_listens(listener->mark_fd) < 0)
                log_line(LOG_WARNING, "could not mark the pool as ready: tslabctl may wait for its socket");
        return watch_socket(listener);
}

int listener_share(Listener **ret_listener, const Listener *other, Sessions *sessions) {
        Listener *listener = malloc(sizeof(*listener));
        int r;

        if (!listener)
                return -ENOMEM;
        *listener = (Listener){ .sessions = sessions, .lock_fd = -1, .mark_fd = -1 };
        listener->fd = fcntl(other->fd, F_DUPFD_CLOEXEC, 3);
        r = listener->fd < 0 ? -errno : watch_socket(listener);
        if (r < 0) {
                (void) listener_free(listener);
                return r;
        }
        *ret_listener = listener;
        return 0;
}

int listener_new_private(Listener **ret_listener, Sessions *sessions, const char *path) {
        Listener *listener = malloc(sizeof(*listener));
        int r;

        if (!listener)
                return -ENOMEM;
        *listener = (Listener){
                .sessions = sessions, .lock_fd = -1, .mark_fd = -1, .fd = -1, .path = strdup(path)
        };
        r = listener->path ? proto_listen(path, 0600, &listener->fd) : -ENOMEM;
        listener->ours = r == 0;
        if (r == 0)
                r = make_nonblocking(listener->fd);
        if (r == 0)
                r = watch_socket(listener);
        if (r < 0) {
                (void) listener_free(listener);
                return r;
        }
        *ret_listener = listener;
        return 0;
}

void listener_stop(Listener *listener) {
        listener->source = sd_event_source_disable_unref(listener->source);
        if (listener->ours && listener->fd >= 0)
                (void) unlink(listener->path);
        listener->fd = proto_close(listener->fd);
        listener->paused = false;
}

/* For the daemon that has the lock: any other's file has the same name. */
static void remove_mark(Listener *listener) {
        if (listener->mark_fd >= 0)
                (void) unlink(listener->mark_path);
        listener->mark_fd = proto_close(listener->mark_fd);
}

/* The lock goes last: from then on files of these names may be another daemon's. */
void listener_forget_pool(Listener *listener) {
        if (!has_lock_file(listener))
                return;
        last_good_remove(listener->sessions->pool->options);
        remove_mark(listener);
        (void) unlink(listener->lock_path);
}

Listener *listener_free(Listener *listener) {
        if (!listener)
                return NULL;
        listener_stop(listener);
        remove_mark(listener);
        (void) proto_close(listener->lock_fd);
        free(listener->lock_path);
        free(listener->mark_path);
        free(listener->path);
        free(listener);
        return NULL;
}

const char *listener_path(const Listener *listener) {
        return listener->ours ? listener->path : "the socket of systemd";
}
