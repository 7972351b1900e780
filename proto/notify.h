#pragma once
/*
 * Messages to systemd, or another service manager. A manager that reads nothing, but keeps its socket open, delays a
 * daemon by a second, once: sd_notify(3), and so the watchdog of sd-event, would wait for ever. One that reads slowly
 * does so again after ten seconds.
 *
 * Results: 1; 0: there is no manager; negative errno. -EAGAIN: its socket has no room.
 */
#include <stdbool.h>

bool notify_has_manager(void);

/* Called when a message of notify_send() or notify_send_fd() finds no room, and the one before it did. */
void notify_set_mute(void (*on_mute)(void));

/* For a message that is sent anew later, such as STATUS=. Does not wait, nor log. */
int notify_now(const char *format, ...) __attribute__((__format__(__printf__, 1, 2)));
/* For all others: waits for room, in all a second for messages that follow one another. */
int notify_send(const char *format, ...) __attribute__((__format__(__printf__, 1, 2)));
int notify_send_fd(int fd, const char *format, ...) __attribute__((__format__(__printf__, 2, 3)));

/* Returns an end of a pipe, which shows when the manager closes the other one. -1: it was not sent. */
int notify_send_pipe(const char *text);
/* Waits for that at most so long. */
bool notify_pipe_is_closed(int fd, int msec);
