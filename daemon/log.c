#include "daemon/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>
#include <time.h>
#include <unistd.h>

#include "daemon/message-id.h"
#include "proto/deadline.h"

#define WINDOW_USEC (10 * PROTO_USEC_PER_SEC)
#define PEER_LINES 20U
#define CLIENT_LINES 400U /* a pool may start with hundreds of workers */
#define TEXT_MAX 512
#define FIELDS_MAX 16

static int log_level = LOG_INFO;
static bool log_to_journal, log_to_terminal;
static const char *log_pool;

static const struct {
        const char *name;
        int level;
} levels[] = {
        { "err", LOG_ERR },   { "warning", LOG_WARNING }, { "notice", LOG_NOTICE },
        { "info", LOG_INFO }, { "debug", LOG_DEBUG },
};

/* $JOURNAL_STREAM names the socket that systemd connected; stderr may have been redirected since. */
static bool stderr_is_journal(void) {
        const char *stream = getenv("JOURNAL_STREAM");
        unsigned long long device, inode;
        struct stat st;

        return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
               fstat(STDERR_FILENO, &st) == 0 && st.st_dev == (dev_t) device && st.st_ino == (ino_t) inode;
}

void log_open(const char *pool) {
        log_pool = pool;
        log_to_journal = stderr_is_journal();
        log_to_terminal = isatty(STDERR_FILENO) == 1;
}

void log_set_level(int level) {
        log_level = level;
}

int log_level_from_string(const char *text, int *ret_level) {
        for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
                if (!strcmp(levels[i].name, text)) {
                        *ret_level = levels[i].level;
                        return 0;
                }
        return -EINVAL;
}

const char *log_level_to_string(int level) {
        for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
                if (levels[i].level >= level)
                        return levels[i].name;
        return "debug";
}

typedef struct Entry {
        struct iovec fields[FIELDS_MAX];
        char texts[FIELDS_MAX][TEXT_MAX + 16];
        int n_fields;
} Entry;

__attribute__((format(printf, 2, 3))) static void put_field(Entry *entry, const char *format, ...) {
        char *text = entry->texts[entry->n_fields];
        va_list ap;

        va_start(ap, format);
        (void) vsnprintf(text, sizeof(entry->texts[0]), format, ap);
        va_end(ap);
        entry->fields[entry->n_fields++] = (struct iovec){ .iov_base = text, .iov_len = strlen(text) };
}

static void send_to_journal(int level, const LogFields *fields, const char *text) {
        Entry entry = {};

        put_field(&entry, "MESSAGE=%s", text);
        put_field(&entry, "PRIORITY=%d", level);
        if (fields->message)
                put_field(&entry, "MESSAGE_ID=%s", fields->message);
        if (log_pool)
                put_field(&entry, "TSLAB_POOL=%s", log_pool);
        if (fields->client)
                put_field(&entry, "TSLAB_CLIENT=%u", *fields->client);
        if (fields->epoch)
                put_field(&entry, "TSLAB_EPOCH=%u", *fields->epoch);
        if (fields->size)
                put_field(&entry, "TSLAB_BYTES=%llu", (unsigned long long) *fields->size);
        if (fields->name)
                put_field(&entry, "TSLAB_DESCRIPTOR=%s", fields->name);
        if (fields->action)
                put_field(&entry, "TSLAB_ACTION=%s", fields->action);
        if (fields->uid)
                put_field(&entry, "TSLAB_UID=%u", (unsigned) *fields->uid);
        if (fields->comm)
                put_field(&entry, "TSLAB_COMM=%s", fields->comm);
        if (fields->cgroup)
                put_field(&entry, "TSLAB_CGROUP=%s", fields->cgroup);
        if (fields->pid != 0)
                put_field(&entry, "OBJECT_PID=%d", (int) fields->pid);
        if (fields->error != 0)
                put_field(&entry, "ERRNO=%d", -fields->error);
        (void) sd_journal_sendv(entry.fields, entry.n_fields);
}

/* The local time and a space. Other readers of stderr, such as a supervisor, add times of their own. */
static void format_time(char *ret, size_t size) {
        struct timespec now;
        struct tm tm;
        size_t n;

        *ret = 0;
        if (clock_gettime(CLOCK_REALTIME, &now) < 0 || !localtime_r(&now.tv_sec, &tm))
                return;
        n = strftime(ret, size, "%F %T", &tm);
        (void) snprintf(ret + n, size - n, ".%03ld ", now.tv_nsec / 1000000);
}

static void write_line(int level, const LogFields *fields, const char *text) {
        char time[40] = "";

        if (log_to_journal) {
                send_to_journal(level, fields, text);
                return;
        }
        if (log_to_terminal)
                format_time(time, sizeof(time));
        (void) fprintf(stderr, "%stslabd: %s: %s\n", time, log_level_to_string(level), text);
}

static void log_va(int level, const LogFields *fields, const char *format, va_list ap) {
        char text[TEXT_MAX];
        int saved = errno, n;

        if (level > log_level)
                return;
        n = vsnprintf(text, sizeof(text), format, ap);
        if (fields->error != 0 && n >= 0 && (size_t) n < sizeof(text))
                (void) snprintf(text + n, sizeof(text) - (size_t) n, ": %s", strerror(-fields->error));
        write_line(level, fields, text);
        errno = saved;
}

void log_line(int level, const char *format, ...) {
        LogFields fields = {};
        va_list ap;

        va_start(ap, format);
        log_va(level, &fields, format, ap);
        va_end(ap);
}

void log_error(int level, int error, const char *format, ...) {
        LogFields fields = { .error = error };
        va_list ap;

        va_start(ap, format);
        log_va(level, &fields, format, ap);
        va_end(ap);
}

void log_fields(int level, LogFields fields, const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        log_va(level, &fields, format, ap);
        va_end(ap);
}

/* Lines that peers can cause as often as they like. */
typedef struct LogLimit {
        const char *noun;
        unsigned n_max; /* lines in WINDOW_USEC */
        unsigned n; /* lines in this window, written or left out */
        uint64_t window_usec; /* when this window began */
} LogLimit;

static void tell_left_out(const LogLimit *limit) {
        if (limit->n > limit->n_max)
                log_line(LOG_NOTICE, "%u log lines about %s were left out", limit->n - limit->n_max,
                         limit->noun);
}

static bool limit_admits(LogLimit *limit) {
        uint64_t now = proto_now_usec();

        if (now - limit->window_usec >= WINDOW_USEC) {
                tell_left_out(limit);
                limit->window_usec = now;
                limit->n = 0;
        }
        if (++limit->n == limit->n_max + 1)
                log_line(LOG_NOTICE,
                         "too many log lines about %s: further ones are left out for some seconds",
                         limit->noun);
        return limit->n <= limit->n_max;
}

LogProcess log_process(pid_t pid) {
        LogProcess process = { "a process of another pid namespace" };

        if (pid > 0)
                (void) snprintf(process.text, sizeof(process.text), "process %d", (int) pid);
        return process;
}

void log_peer(int level, pid_t pid, const char *format, ...) {
        static LogLimit limit = { .noun = "peers", .n_max = PEER_LINES };
        LogFields fields = { .message = MESSAGE_REFUSAL, .pid = pid };
        va_list ap;

        if (level > log_level || !limit_admits(&limit))
                return;
        va_start(ap, format);
        log_va(level, &fields, format, ap);
        va_end(ap);
}

void log_client(int level, LogFields fields, const char *format, ...) {
        static LogLimit limit = { .noun = "clients that come and go", .n_max = CLIENT_LINES };
        va_list ap;

        if (level > log_level || !limit_admits(&limit))
                return;
        va_start(ap, format);
        log_va(level, &fields, format, ap);
        va_end(ap);
}
