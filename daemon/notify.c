#include "daemon/notify.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include "daemon/log.h"
#include "proto/cleanup.h"

#define WAIT_MSEC 1000

static bool is_mute; /* it had no room after a wait, and has had none since */

/* A socket that is connected to the manager's; poll() tells whether that one has room. -1: it cannot be told. */
static int connect_manager(void) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        const char *path = getenv("NOTIFY_SOCKET");
        size_t n = path ? strlen(path) : 0;
        int fd;

        if (n < 2 || n >= sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@'))
                return -1;
        memcpy(address.sun_path, path, n);
        if (path[0] == '@')
                address.sun_path[0] = 0;
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -1;
        n += offsetof(struct sockaddr_un, sun_path);
        return connect(fd, (const struct sockaddr *) &address, (socklen_t) n) == 0 ? fd : proto_close(fd);
}

static bool wait_for_room(int msec) {
        int fd = connect_manager();
        bool has_room;

        if (fd < 0)
                return true; /* sd_notify() says what is wrong */
        has_room = poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, msec) != 0;
        (void) proto_close(fd);
        return has_room;
}

bool notify_has_room(void) {
        return wait_for_room(0);
}

bool notify_wait(void) {
        bool was_mute = is_mute;

        is_mute = !wait_for_room(was_mute ? 0 : WAIT_MSEC);
        if (is_mute && !was_mute)
                log_line(LOG_WARNING,
                         "the service manager does not read its socket (NOTIFY_SOCKET): it is told nothing");
        return !is_mute;
}

int notify_send(const char *text) {
        return notify_wait() ? sd_notify(false, text) : -EAGAIN;
}

int notify_send_fd(const char *text, int fd) {
        return notify_wait() ? sd_pid_notify_with_fds(0, false, text, &fd, 1) : -EAGAIN;
}
