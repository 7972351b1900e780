#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "proto/deadline.h"
#include "proto/socket.h"
#include "shm/arch/descriptor.h"

#define BACKLOG 128

#define SECURITY_LABEL_MAX 256 /* that SO_PASSSEC adds, which the peer may have set */

#ifndef SCM_PIDFD
#define SCM_PIDFD 0x04 /* since Linux 6.5 */
#endif

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* since Linux 6.16 */
#endif

static const ProtoCloser *received_closer;

void proto_set_closer(const ProtoCloser *closer) {
        received_closer = closer;
}

/*
 * A descriptor that a peer sent: if it is the last one to a TCP socket with SO_LINGER, close()
 * would wait for as long as the peer chose. ENOTSOCK and the like do not matter.
 */
static void close_received(int fd) {
        const struct linger linger = { .l_onoff = 0 };
        int saved = errno;

        (void) setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        if (received_closer)
                received_closer->close(fd);
        else
                (void) close(fd);
        errno = saved;
}

void proto_fds_deinit(ProtoFds *fds) {
        for (size_t i = 0; i < PROTO_FDS_MAX; ++i) {
                if (fds->fds[i] >= 0)
                        close_received(fds->fds[i]);
                fds->fds[i] = -1;
        }
        fds->n_fds = 0;
}

int proto_fds_take(ProtoFds *fds, size_t i) {
        if (i >= fds->n_fds)
                return -1;

        return proto_steal_fd(&fds->fds[i]);
}

/* The outcome for an errno of sendmsg() or recvmsg(). */
static int io_outcome(int error) {
        switch (error) {
        case EAGAIN:
                return PROTO_E_AGAIN;
        case EPIPE:
        case ECONNRESET:
        case ECONNREFUSED:
        case ENOTCONN:
                return PROTO_E_CLOSED;
        case EMSGSIZE:
                return PROTO_E_OVERSIZED;
        default:
                return -error;
        }
}

typedef union ControlBuffer {
        struct cmsghdr align;
        char data[CMSG_SPACE(PROTO_FDS_MAX * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
} ControlBuffer;

/*
 * Room for all that a message can bring. The kernel closes a descriptor for which there is no room in the thread that
 * receives, and waits there if it is a socket that lingers.
 */
typedef union ReceivedControl {
        struct cmsghdr align;
        char data[CMSG_SPACE(PROTO_FDS_RECEIVED_MAX * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred)) +
                  CMSG_SPACE(sizeof(int)) + CMSG_SPACE(SECURITY_LABEL_MAX)];
} ReceivedControl;

static void put_control(struct msghdr *header, int type, const void *data, size_t size) {
        /*
         * msg_controllen counts the bytes filled so far; CMSG_NXTHDR would refuse to go beyond it
         */
        struct cmsghdr *control = (struct cmsghdr *) ((char *) header->msg_control + header->msg_controllen);

        control->cmsg_level = SOL_SOCKET;
        control->cmsg_type = type;
        control->cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(control), data, size);
        header->msg_controllen += CMSG_SPACE(size);
}

int proto_send(int fd, const void *data, size_t size, const int *fds, size_t n_fds,
               const struct ucred *credentials) {
        ControlBuffer control = {};
        struct iovec vector = { .iov_base = (void *) data, .iov_len = size };
        struct msghdr header = {
                .msg_iov = &vector,
                .msg_iovlen = 1,
                .msg_control = control.data,
        };
        ssize_t n;

        /* an empty one would be read as a hang-up */
        assert(size > 0);
        assert(n_fds <= PROTO_FDS_MAX);

        if (size > PROTO_MESSAGE_MAX)
                return PROTO_E_OVERSIZED;
        if (n_fds > 0)
                put_control(&header, SCM_RIGHTS, fds, n_fds * sizeof(int));
        if (credentials)
                put_control(&header, SCM_CREDENTIALS, credentials, sizeof(*credentials));
        if (header.msg_controllen == 0)
                header.msg_control = NULL;

        do {
                n = sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
        } while (n < 0 && errno == EINTR);

        return n < 0 ? io_outcome(errno) : 0;
}

/* As if the kernel had found no number for it. */
static void lose_descriptor(struct msghdr *header) {
        header->msg_flags |= MSG_CTRUNC;
}

/* Takes the descriptors out of one SCM_RIGHTS; closes those for which there is no room. */
static bool take_rights(struct msghdr *header, struct cmsghdr *control, ProtoFds *fds) {
        size_t n = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        bool fits = true;

        for (size_t i = 0; i < n; ++i) {
                int fd;

                memcpy(&fd, CMSG_DATA(control) + i * sizeof(int), sizeof(int));
                fd = shm_descriptor_above_streams(fd);
                if (fd < 0) {
                        lose_descriptor(header);
                } else if (fds->n_fds < PROTO_FDS_MAX) {
                        fds->fds[fds->n_fds++] = fd;
                } else {
                        close_received(fd);
                        fits = false;
                }
        }

        return fits;
}

/*
 * A pidfd that the receiver did not ask for. A peer that sent the socket by ForkAttach may still have it open, and set
 * SO_PASSPIDFD at any time; recvmsg() then installs a descriptor for each message.
 */
static void close_pidfd(const struct cmsghdr *control) {
        int fd;

        if (control->cmsg_len != CMSG_LEN(sizeof(fd)))
                return;
        memcpy(&fd, CMSG_DATA(control), sizeof(fd));
        if (fd >= 0)
                (void) proto_close(fd);
}

/* Every descriptor ends up in `fds` or closed, even if the rest is wrong. */
static int take_control(struct msghdr *header, ProtoFds *fds, struct ucred *credentials) {
        bool fits = true;

        for (struct cmsghdr *control = CMSG_FIRSTHDR(header); control;
             control = CMSG_NXTHDR(header, control)) {
                if (control->cmsg_level != SOL_SOCKET)
                        continue;
                if (control->cmsg_type == SCM_RIGHTS)
                        fits = take_rights(header, control, fds) && fits;
                else if (control->cmsg_type == SCM_CREDENTIALS &&
                         control->cmsg_len == CMSG_LEN(sizeof(*credentials)))
                        memcpy(credentials, CMSG_DATA(control), sizeof(*credentials));
                else if (control->cmsg_type == SCM_PIDFD)
                        close_pidfd(control);
        }

        if (!fits)
                return PROTO_E_BAD_FDS;
        /* The buffer has room for all that a message can bring: this process has no more descriptors. */
        return header->msg_flags & MSG_CTRUNC ? -EMFILE : 0;
}

/* Whether the next message has descriptors, which stay in the queue. */
static bool has_next_fds(int fd) {
        union {
                struct cmsghdr align;
                char data[CMSG_SPACE(sizeof(struct ucred))];
        } control;
        char buffer[1];
        struct iovec vector = { .iov_base = buffer, .iov_len = sizeof(buffer) };
        struct msghdr header = {
                .msg_iov = &vector,
                .msg_iovlen = 1,
                .msg_control = control.data,
                .msg_controllen = sizeof(control.data),
        };

        return recvmsg(fd, &header, MSG_DONTWAIT | MSG_PEEK) >= 0 && header.msg_flags & MSG_CTRUNC;
}

/* 0, or an outcome. */
static int receive_message(int fd, struct msghdr *header, size_t *ret_size) {
        ssize_t n;

        if (received_closer && !received_closer->has_room()) {
                if (has_next_fds(fd))
                        return PROTO_E_NO_ROOM;
                header->msg_controllen = CMSG_SPACE(sizeof(struct ucred));
        }
        do {
                n = recvmsg(fd, header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        } while (n < 0 && errno == EINTR);
        if (n < 0)
                return io_outcome(errno);

        *ret_size = (size_t) n;
        return 0;
}

/* PROTO_E_CLOSED: there is no message. At the end of a connection there are no credentials, either. */
static int discard_message(int fd) {
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
        struct ucred credentials;
        ReceivedControl control;
        char buffer[1];
        struct iovec vector = { .iov_base = buffer, .iov_len = sizeof(buffer) };
        struct msghdr header = {
                .msg_iov = &vector,
                .msg_iovlen = 1,
                .msg_control = control.data,
                .msg_controllen = sizeof(control.data),
        };
        size_t size;
        int r;

        r = receive_message(fd, &header, &size);
        if (r)
                return r;
        (void) take_control(&header, &fds, &credentials);
        return size > 0 || header.msg_controllen > 0 ? 0 : PROTO_E_CLOSED;
}

bool proto_socket_drain(int fd) {
        const int one = 1;
        int r;

        (void) shutdown(fd, SHUT_RDWR); /* nothing more comes */
        (void) setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one));
        do {
                r = discard_message(fd);
        } while (r == 0);

        return r != PROTO_E_NO_ROOM;
}

int proto_socket_close(int fd) {
        if (fd < 0)
                return -1;
        (void) proto_socket_drain(fd);
        return proto_close(fd);
}

void proto_socket_let_fds(int fd, bool lets) {
        const int value = lets;

        (void) setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &value, sizeof(value));
}

int proto_receive(int fd, void *buffer, size_t size, size_t *ret_size, ProtoFds *ret_fds,
                  struct ucred *ret_credentials) {
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
        struct ucred credentials = { .pid = 0, .uid = (uid_t) -1, .gid = (gid_t) -1 };
        ReceivedControl control = {};
        struct iovec vector = { .iov_base = buffer, .iov_len = size };
        struct msghdr header = {
                .msg_iov = &vector,
                .msg_iovlen = 1,
                .msg_control = control.data,
                .msg_controllen = sizeof(control.data),
        };
        size_t n;
        int r;

        r = receive_message(fd, &header, &n);
        if (r)
                return r;

        r = take_control(&header, &fds, &credentials);
        if (r)
                return r;
        if (n == 0)
                return PROTO_E_CLOSED;
        if (header.msg_flags & MSG_TRUNC)
                return PROTO_E_OVERSIZED;

        *ret_size = n;
        *ret_fds = fds;
        fds = (ProtoFds) PROTO_FDS_INIT;
        if (ret_credentials)
                *ret_credentials = credentials;
        return 0;
}

int proto_peer_credentials(int fd, struct ucred *ret_credentials) {
        struct ucred credentials;
        socklen_t size = sizeof(credentials);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
                return -errno;

        *ret_credentials = credentials;
        return 0;
}

static bool socket_option_is(int fd, int option, int expected) {
        int value;
        socklen_t size = sizeof(value);

        return getsockopt(fd, SOL_SOCKET, option, &value, &size) >= 0 && value == expected;
}

int proto_socket_adopt(int fd, bool listening) {
        struct sockaddr_un address;
        socklen_t size = sizeof(address);
        const int one = 1;

        if (!socket_option_is(fd, SO_DOMAIN, AF_UNIX) || !socket_option_is(fd, SO_TYPE, SOCK_SEQPACKET) ||
            !socket_option_is(fd, SO_ACCEPTCONN, listening))
                return -EPROTOTYPE;
        if (!listening && getpeername(fd, (struct sockaddr *) &address, &size) < 0)
                return errno == ENOTCONN ? -EPROTOTYPE : -errno;
        if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) < 0)
                return -errno;

        return 0;
}

static int socket_address(const char *path, struct sockaddr_un *ret_address) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        size_t n = strlen(path);

        if (n == 0)
                return -ENOENT;
        if (n >= sizeof(address.sun_path))
                return -ENAMETOOLONG;

        memcpy(address.sun_path, path, n + 1);
        *ret_address = address;
        return 0;
}

static int socket_new(int *ret_fd) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return -errno;
        fd = shm_descriptor_above_streams(fd);
        if (fd < 0)
                return fd;

        *ret_fd = fd;
        return 0;
}

/* Removes a socket that nobody answers at. -EADDRINUSE: somebody does, or it is something else; -EMFILE, ... */
static int remove_stale(const char *path) {
        _cleanup_(proto_closep) int fd = -1;
        struct stat st;
        int r;

        if (lstat(path, &st) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (!S_ISSOCK(st.st_mode))
                return -EADDRINUSE;

        /*
         * a full backlog (PROTO_E_AGAIN) and another type of socket (-EPROTOTYPE) are somebody, too
         */
        r = proto_connect(path, 0, &fd);
        if (r == -ENOENT)
                return 0;
        if (r >= 0 || r == -EPROTOTYPE)
                return -EADDRINUSE;
        if (r != -ECONNREFUSED)
                return r;

        return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

static int bind_path(int fd, const struct sockaddr_un *address) {
        return bind(fd, (const struct sockaddr *) address, sizeof(*address)) < 0 ? -errno : 0;
}

int proto_listen(const char *path, mode_t mode, int *ret_fd) {
        _cleanup_(proto_closep) int fd = -1;
        struct sockaddr_un address;
        const int one = 1;
        int r;

        r = socket_address(path, &address);
        if (r < 0)
                return r;
        r = socket_new(&fd);
        if (r < 0)
                return r;

        if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) < 0)
                return -errno;

        r = bind_path(fd, &address);
        if (r == -EADDRINUSE) {
                r = remove_stale(path);
                if (r < 0)
                        return r;
                r = bind_path(fd, &address);
        }
        if (r < 0)
                return r;

        /* nobody can connect before listen(), so nobody can before the mode is right */
        if (chmod(path, mode) < 0 || listen(fd, BACKLOG) < 0) {
                r = -errno;
                (void) unlink(path);
                return r;
        }

        *ret_fd = proto_steal_fd(&fd);
        return 0;
}

static int limit_send(int fd, uint64_t timeout_usec) {
        const struct timeval limit = {
                .tv_sec = (time_t) (timeout_usec / PROTO_USEC_PER_SEC),
                .tv_usec = (suseconds_t) (timeout_usec % PROTO_USEC_PER_SEC),
        };

        return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0 ? -errno : 0;
}

int proto_connect(const char *path, uint64_t timeout_usec, int *ret_fd) {
        uint64_t deadline = proto_deadline(timeout_usec);
        _cleanup_(proto_closep) int fd = -1;
        struct sockaddr_un address;
        int r;

        r = socket_address(path, &address);
        if (r < 0)
                return r;
        r = socket_new(&fd);
        if (r < 0)
                return r;

        /*
         * poll() does not tell when a backlog has room; SO_SNDTIMEO bounds connect() of AF_UNIX. An
         * interrupted connect() leaves nothing behind and may be repeated. A limit of 0 would mean none.
         */
        do {
                uint64_t left = proto_deadline_left(deadline);

                r = limit_send(fd, left == UINT64_MAX ? 0 : left ?: 1);
                if (r < 0)
                        return r;
                r = connect(fd, (const struct sockaddr *) &address, sizeof(address)) < 0 ? -errno : 0;
        } while (r == -EINTR && proto_deadline_left(deadline) > 0);

        if (r == -EAGAIN || r == -EINTR)
                return PROTO_E_AGAIN;
        if (r < 0)
                return r;

        r = limit_send(fd, 0);
        if (r < 0)
                return r;

        *ret_fd = proto_steal_fd(&fd);
        return 0;
}
