#pragma once
/*
 * Messages to systemd, or another service manager (sd_notify(3)). A manager that reads nothing, but keeps its socket
 * open, delays the daemon by a second, once: sd_notify() would wait for ever.
 */
#include <stdbool.h>

/* For a message that is sent anew later, such as STATUS=: false: the socket has no room for it now. */
bool notify_has_room(void);
/* For all others: waits a second for room, but not again before there was room. False: there is none. */
bool notify_wait(void);

/* These wait as notify_wait() does. Results of sd_notify(3); -EAGAIN: there is no room. */
int notify_send(const char *text);
int notify_send_fd(const char *text, int fd);
