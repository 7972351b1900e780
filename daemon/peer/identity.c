#include "daemon/peer/identity.h"

#include <errno.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "proto/cleanup.h"
#include "shm/arena/client.h"
#include "shm/arch/process.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif
#define PID_FS_MAGIC 0x50494446 /* the file system of pidfds since Linux 6.9 */

void identity_deinit(Identity *identity) {
        identity->pidfd = proto_close(identity->pidfd);
}

static int open_session_pidfd(const Session *session) {
        socklen_t size = sizeof(int);
        int fd = -1;

        /* The socket gives the pidfd of the peer itself, even if its number is another process's by now. */
        if (!session->inherited) {
                if (getsockopt(session->fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0)
                        return fd;
                if (errno != ENOPROTOOPT)
                        return errno == EINVAL ? -ESRCH : -errno;
        }
        if (session->peer.pid <= 0)
                return -EREMOTE;
        fd = (int) syscall(SYS_pidfd_open, session->peer.pid, 0);
        return fd < 0 ? -errno : fd;
}

/* Called after pidfd and start time were read: while the connection stands, the number was not given anew. */
static bool is_session_connected(const Session *session) {
        struct pollfd p = { .fd = session->fd };

        return poll(&p, 1, 0) >= 0 && !(p.revents & (POLLHUP | POLLERR));
}

static bool has_ended(int pidfd) {
        struct pollfd p = { .fd = pidfd, .events = POLLIN };

        return poll(&p, 1, 0) > 0;
}

uint32_t identity_mark_of(int pidfd) {
        struct statfs fs;
        struct stat st;

        if (fstatfs(pidfd, &fs) < 0 || fs.f_type != PID_FS_MAGIC || fstat(pidfd, &st) < 0)
                return 0;
        return (uint32_t) st.st_ino;
}

static int mark_by_pidfd(Identity *identity) {
        identity->pid = 0;
        identity->mark = identity_mark_of(identity->pidfd);
        identity->is_lasting = identity->mark != 0;
        while (identity->mark == 0)
                if (getrandom(&identity->mark, sizeof(identity->mark), 0) < 0)
                        return -errno;
        return 0;
}

/* hidepid= and a foreign pid namespace both look as if there were no such process. */
static bool is_hidden(int error, int pidfd) {
        return (error == -ESRCH || error == -EACCES || error == -EPERM) && !has_ended(pidfd);
}

int identity_find(Identity *ret, const Session *session) {
        _cleanup_(identity_deinit) Identity identity = { .pid = session->peer.pid, .is_lasting = true };
        int r;

        identity.pidfd = open_session_pidfd(session);
        if (identity.pidfd < 0)
                return identity.pidfd;
        r = shm_process_start_time(session->peer.pid, &identity.mark);
        if (r < 0 && is_hidden(r, identity.pidfd))
                r = mark_by_pidfd(&identity);
        if (r < 0)
                return r;
        if (!is_session_connected(session))
                return -ESRCH;
        *ret = identity;
        identity.pidfd = -1;
        return 0;
}
