#pragma once
#include <syslog.h>

/* A line on stderr; with its level where systemd reads it. */
void message(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Text of servers goes to terminals, the journal and systemd: without control characters. */
void message_clean(char *text);
