#pragma once
/*
 * Log lines: to the journal with fields where stderr is connected to it, else to stderr; on a terminal with the time.
 *
 *      log_line(LOG_INFO, "pool %s is ready", name);
 *      log_fields(LOG_WARNING, (LogFields){ .message = MESSAGE_DEATH, .client = &index }, "client %u died", index);
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <syslog.h>

typedef struct LogFields {
        const uint32_t *client; /* NULL: none */
        const uint32_t *epoch; /* NULL: none */
        const char *message; /* MESSAGE_...; NULL: none */
        const uint64_t *size; /* bytes; NULL: none */
        const char *name; /* the name of a descriptor; NULL: none */
        const uid_t *uid; /* NULL: none */
        const char *comm, *cgroup, *action; /* NULL: none */
        pid_t pid; /* 0: none */
        int error; /* negative errno; 0: none */
} LogFields;

/* `pool` goes into the fields of every line. It is not copied. */
void log_open(const char *pool);
void log_set_level(int level);
/* "debug", "info", "notice", "warning", "err". -EINVAL. */
int log_level_from_string(const char *text, int *ret_level);
const char *log_level_to_string(int level);

void log_line(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As log_line(), with the text of `error`, a negative errno, at the end. */
void log_error(int level, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));
void log_fields(int level, LogFields fields, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* "process 12"; 0 and less: "a process of another pid namespace". */
typedef struct LogProcess {
        char text[40];
} LogProcess;
LogProcess log_process(pid_t pid);

/* For lines that peers can cause as often as they like: a few of them in ten seconds, then none. */
void log_peer(int level, pid_t pid, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* For clients that attach, leave or die: some hundred lines in ten seconds. */
void log_client(int level, LogFields fields, const char *format, ...) __attribute__((format(printf, 3, 4)));
