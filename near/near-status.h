#pragma once
/*
 * The service manager's signs of life, and the status that it shows. Neither waits for it: the cover of the copies must
 * go on while it is busy.
 */
#include <systemd/sd-event.h>

int status_open(sd_event *event);
void status_close(void);

/* The start is over. */
void status_ready(void);
void status_set(const char *format, ...) __attribute__((format(printf, 1, 2)));
