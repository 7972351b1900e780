#pragma once
#include <syslog.h>

/* A line on stderr; with its level where systemd reads it. */
void message(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
