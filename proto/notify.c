#include "proto/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/cleanup.h"
#include "proto/deadline.h"
#include "proto/socket.h"

#define TEXT_SIZE 1024
#define WAIT_USEC PROTO_USEC_PER_SEC
#define REST_USEC (10 * PROTO_USEC_PER_SEC) /* after a wait, before others may add up to WAIT_USEC again */

static bool is_mute; /* the last message found no room */
static void (*tell_mute)(void);
static uint64_t waited_usec; /* since it last had room at once, and the wait before was REST_USEC ago */
static uint64_t wait_end_usec;

bool notify_has_manager(void) {
        return getenv("NOTIFY_SOCKET") != NULL;
}

/* 1: *ret_fd is a socket that is connected to the manager's. 0: there is no manager. */
static int connect_manager(int *ret_fd) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        _cleanup_(proto_closep) int fd = -1;
        const char *path = getenv("NOTIFY_SOCKET");
        size_t n = path ? strlen(path) : 0;

        if (!path)
                return 0;
        if (n < 2 || n >= sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@'))
                return -EINVAL;
        memcpy(address.sun_path, path, n);
        if (path[0] == '@')
                address.sun_path[0] = 0;
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        n += offsetof(struct sockaddr_un, sun_path);
        if (fd < 0 || connect(fd, (const struct sockaddr *) &address, (socklen_t) n) < 0)
                return -errno;
        *ret_fd = proto_steal_fd(&fd);
        return 1;
}

static int result_of_send(int outcome) {
        switch (outcome) {
        case 0:
                return 1;
        case PROTO_E_AGAIN:
                return -EAGAIN;
        case PROTO_E_CLOSED:
                return -ECONNREFUSED;
        case PROTO_E_OVERSIZED:
                return -EMSGSIZE;
        default:
                return outcome;
        }
}

/* A manager that is slow, or busy with others, may make each message wait: the waits add up to WAIT_USEC. */
static void wait_for_room(int manager) {
        struct pollfd p = { .fd = manager, .events = POLLOUT };
        uint64_t begin = proto_now_usec();

        if (poll(&p, 1, 0) > 0) {
                if (begin - wait_end_usec >= REST_USEC)
                        waited_usec = 0;
                return;
        }
        if (waited_usec >= WAIT_USEC)
                return;
        (void) poll(&p, 1, (int) ((WAIT_USEC - waited_usec + 999) / 1000));
        wait_end_usec = proto_now_usec();
        waited_usec += wait_end_usec - begin;
}

/* `fd`: goes with it; -1: none. */
static int send_message(bool waits, int fd, const char *format, va_list arguments) {
        _cleanup_(proto_closep) int manager = -1;
        char text[TEXT_SIZE];
        int r = connect_manager(&manager);

        if (r <= 0)
                return r;
        (void) vsnprintf(text, sizeof(text), format, arguments);
        if (waits)
                wait_for_room(manager);
        return result_of_send(proto_send(manager, text, strlen(text), &fd, fd >= 0, NULL));
}

static int send_after_wait(int fd, const char *format, va_list arguments) {
        bool was_mute = is_mute;
        int r = send_message(true, fd, format, arguments);

        is_mute = r == -EAGAIN;
        if (is_mute && !was_mute && tell_mute)
                tell_mute();
        return r;
}

void notify_set_mute(void (*on_mute)(void)) {
        tell_mute = on_mute;
}

int notify_now(const char *format, ...) {
        va_list arguments;
        int r;

        va_start(arguments, format);
        r = send_message(false, -1, format, arguments);
        va_end(arguments);
        return r;
}

int notify_send(const char *format, ...) {
        va_list arguments;
        int r;

        va_start(arguments, format);
        r = send_after_wait(-1, format, arguments);
        va_end(arguments);
        return r;
}

int notify_send_fd(int fd, const char *format, ...) {
        va_list arguments;
        int r;

        va_start(arguments, format);
        r = send_after_wait(fd, format, arguments);
        va_end(arguments);
        return r;
}

int notify_send_pipe(const char *text) {
        int ends[2], r;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return -1;
        r = notify_send_fd(ends[1], "%s", text);
        (void) proto_close(ends[1]);
        return r > 0 ? ends[0] : proto_close(ends[0]);
}

bool notify_pipe_is_closed(int fd, int msec) {
        return poll(&(struct pollfd){ .fd = fd }, 1, msec) > 0;
}
