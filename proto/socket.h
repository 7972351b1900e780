#pragma once

/*
 * One datagram of an AF_UNIX SOCK_SEQPACKET connection, with descriptors and credentials.
 *
 * Nothing here waits, whether the descriptor is O_NONBLOCK or not: other processes may share the open
 * file description and its flags (after fork, or by descriptors that peers send), so the flag is neither
 * set nor trusted.
 *
 * A peer can make our close() wait by sending a descriptor of a file system that it serves itself (FUSE
 * asks its server on every close). A process with other peers to serve sets a ProtoCloser. Sockets that
 * linger are dealt with.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "proto/cleanup.h"

#define PROTO_MESSAGE_MAX (64U * 1024U) /* bytes of a datagram */
#define PROTO_FDS_MAX 2U /* descriptors with a datagram */

enum {
        _PROTO_E_SUCCESS,

        PROTO_E_AGAIN, /* nothing to read, or no room to write: poll, then call again */
        PROTO_E_CLOSED, /* the peer hung up */
        PROTO_E_OVERSIZED, /* more than PROTO_MESSAGE_MAX, or than the socket buffer takes */
        PROTO_E_MALFORMED, /* not a message, or one that breaks a limit */
        PROTO_E_UNKNOWN, /* well-formed, but asks for something that this version does not know */
        PROTO_E_BAD_FDS, /* the wrong number of descriptors */
        PROTO_E_REFUSED, /* the daemon answered with an error: see reply->error */
        PROTO_E_NO_ROOM, /* the datagram has descriptors, which the ProtoCloser has no room for: it stays unread */
};

/*
 * Descriptors that came with a datagram; all are CLOEXEC. The holder closes the ones that it does not take:
 *
 *      _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
 *      r = proto_receive(fd, buffer, sizeof(buffer), &size, &fds, NULL);
 *      ...
 *      memfd = proto_fds_take(&fds, 0);
 */
typedef struct ProtoFds {
        size_t n_fds;
        int fds[PROTO_FDS_MAX];
} ProtoFds;

#define PROTO_FDS_INIT                                                                                       \
        {                                                                                                    \
                .n_fds = 0, .fds = { -1, -1 }                                                                \
        }

#define PROTO_FDS_RECEIVED_MAX 253U /* descriptors with a datagram that the kernel lets a peer send */

/* Closes descriptors that were received and not taken, where the caller must not wait. */
typedef struct ProtoCloser {
        void (*close)(int fd); /* owns it */
        bool (*has_room)(void); /* for all descriptors of a datagram */
} ProtoCloser;

/* For the whole process; NULL, as at first: they are closed at once. */
void proto_set_closer(const ProtoCloser *closer);

/*
 * Shuts a connection down, and receives its unread messages: at close() the kernel would close their descriptors in
 * this thread, and wait there for sockets that linger. False: there are some that the ProtoCloser has no room for.
 */
bool proto_socket_drain(int fd);
/* Drains a connection and closes it. Returns -1. */
int proto_socket_close(int fd);

/* Whether the peer may send descriptors; it gets -EPERM otherwise. Before Linux 6.16 it always may. */
void proto_socket_let_fds(int fd, bool lets);

void proto_fds_deinit(ProtoFds *fds);
/* Moves descriptor `i` to the caller; -1 if there is none. n_fds stays. */
int proto_fds_take(ProtoFds *fds, size_t i);

/*
 * Sends one datagram, whole or not at all; never raises SIGPIPE. `credentials`, if not NULL, must
 * be true of the sender (-EPERM), else the kernel adds some if the receiver wants them.
 * PROTO_E_AGAIN, PROTO_E_CLOSED, PROTO_E_OVERSIZED; or sendmsg()'s own errors, as -ETOOMANYREFS,
 * -ENOBUFS.
 */
int proto_send(int fd, const void *data, size_t size, const int *fds, size_t n_fds,
               const struct ucred *credentials);

/*
 * Receives one datagram. ret_credentials (may be NULL) gets pid 0 when none came or the sender is
 * in a pid namespace that we cannot see; they come only after proto_socket_adopt(). On anything but
 * 0, no descriptor stays open. An empty datagram is taken for a hang-up, which it cannot be told
 * from. PROTO_E_AGAIN, PROTO_E_CLOSED, PROTO_E_OVERSIZED (it is gone), PROTO_E_BAD_FDS (more than
 * PROTO_FDS_MAX), PROTO_E_NO_ROOM; -EMFILE (fewer are left than came; it is gone); or recvmsg()'s own errors.
 */
int proto_receive(int fd, void *buffer, size_t size, size_t *ret_size, ProtoFds *ret_fds,
                  struct ucred *ret_credentials);

/* The peer's credentials at the time when it connected: SO_PEERCRED. pid is 0 as above. */
int proto_peer_credentials(int fd, struct ucred *ret_credentials);

/*
 * The daemon takes up a socket that it did not make itself: one it accepted, was handed by systemd
 * (`listening`), or got by ForkAttach. Checks that it is a connected (or listening) AF_UNIX
 * SOCK_SEQPACKET, and turns SO_PASSCRED on. -EPROTOTYPE: it is something else.
 */
int proto_socket_adopt(int fd, bool listening);

/*
 * Listens on `path`; accepted sockets inherit SO_PASSCRED. A socket that nobody answers at is
 * replaced; two daemons that do so at the same time must exclude each other by a lock of their own.
 * -ENAMETOOLONG: over 107 bytes; -EADDRINUSE: somebody answers, or it is no socket; -ENOENT,
 * -EACCES, ...
 */
int proto_listen(const char *path, mode_t mode, int *ret_fd);

/*
 * Connects, and waits at most timeout_usec (UINT64_MAX: no limit) for room in the daemon's backlog.
 * PROTO_E_AGAIN: no room in time; -ENAMETOOLONG; -ENOENT, -ECONNREFUSED: no daemon; -EACCES, ...
 */
int proto_connect(const char *path, uint64_t timeout_usec, int *ret_fd);
