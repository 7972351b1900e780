#pragma once
/*
 * SIGINT (^C), SIGTERM and SIGHUP take effect only where the demo waits, so that it always cleans up before it ends.
 */
#include <poll.h>
#include <stdbool.h>

void interrupt_init(void);
/* poll(), but -EINTR also when the demo was interrupted before. */
int interrupt_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
bool interrupted(void);
/* Ends the process in the way that the signal would have. Returns if there was none. */
void interrupt_raise(void);

/* In a worker: ^C is for the parent to hear, which then ends the worker; the rest is as usual. */
void interrupt_leave_to_parent(void);
