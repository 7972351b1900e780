#include "examples/demo/demo-log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/demo/util.h"

#define SECONDS_A_DAY 86400

/*
 * The parser walks a cursor over the line. Each step takes the field that it is named for and moves on, or
 * returns false; nothing looks beyond `end`.
 */
typedef struct Cursor {
        const char *at, *end;
} Cursor;

static bool take_char(Cursor *c, char wanted) {
        if (c->at == c->end || *c->at != wanted)
                return false;
        ++c->at;
        return true;
}

static bool take_word(Cursor *c, Text *ret) {
        const char *from = c->at;

        while (c->at != c->end && *c->at != ' ' && *c->at != '\t')
                ++c->at;
        *ret = (Text){ from, (size_t) (c->at - from) };
        return ret->size > 0;
}

/* Exactly n digits. */
static bool take_digits(Cursor *c, int n, int *ret) {
        int number = 0;

        for (int i = 0; i < n; ++i, ++c->at) {
                if (c->at == c->end || *c->at < '0' || *c->at > '9')
                        return false;
                number = number * 10 + (*c->at - '0');
        }
        *ret = number;
        return true;
}

/* A number of bytes, or "-" where nothing was sent. */
static bool take_size(Cursor *c, uint64_t *ret) {
        const char *from = c->at;
        uint64_t number = 0;

        *ret = 0;
        if (take_char(c, '-'))
                return true;
        for (; c->at != c->end && *c->at >= '0' && *c->at <= '9'; ++c->at)
                if (__builtin_mul_overflow(number, 10, &number) ||
                    __builtin_add_overflow(number, *c->at - '0', &number))
                        return false;
        *ret = number;
        return c->at != from;
}

/* The text between quotes, unchanged: servers escape quotes and unprintable bytes by '\'. */
static bool take_quoted(Cursor *c, Text *ret) {
        const char *from;

        if (!take_char(c, '"'))
                return false;
        for (from = c->at; c->at != c->end && *c->at != '"'; ++c->at)
                if (*c->at == '\\' && c->at + 1 != c->end)
                        ++c->at;
        *ret = (Text){ from, (size_t) (c->at - from) };
        return take_char(c, '"');
}

static bool take_month(Cursor *c, int *ret) {
        static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

        if (c->end - c->at < 3)
                return false;
        for (int i = 0; i < 12; ++i)
                if (memcmp(names + 3 * i, c->at, 3) == 0) {
                        c->at += 3;
                        *ret = i + 1;
                        return true;
                }
        return false;
}

static bool is_leap(int year) {
        return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* Days since 1970 in the Gregorian calendar; false if there is no such day. */
static bool count_days(int year, int month, int day, int64_t *ret) {
        static const int before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365 };
        int last, y = year - 1;

        if (year < 1970 || month < 1 || month > 12)
                return false;
        last = before[month] - before[month - 1] + (month == 2 && is_leap(year));
        if (day < 1 || day > last)
                return false;

        *ret = (int64_t) (year - 1970) * 365 + (y / 4 - y / 100 + y / 400) -
               (1969 / 4 - 1969 / 100 + 1969 / 400) + before[month - 1] + (month > 2 && is_leap(year)) + day -
               1;
        return true;
}

static bool take_date(Cursor *c, int64_t *ret_days) {
        int day, month, year;

        return take_digits(c, 2, &day) && take_char(c, '/') && take_month(c, &month) && take_char(c, '/') &&
               take_digits(c, 4, &year) && count_days(year, month, day, ret_days);
}

/* East of Greenwich, in seconds. */
static bool take_zone(Cursor *c, int *ret) {
        bool west = c->at != c->end && *c->at == '-';
        int hours, minutes;

        if (!take_char(c, west ? '-' : '+') || !take_digits(c, 2, &hours) || !take_digits(c, 2, &minutes) ||
            hours > 14 || minutes > 59)
                return false;
        *ret = (west ? -1 : 1) * (hours * 3600 + minutes * 60);
        return true;
}

/* "10/Oct/2000:13:55:36 -0700]"; second 60 is a leap second. */
static bool take_time(Cursor *c, int64_t *ret) {
        int hour, minute, second, zone;
        int64_t days;

        if (!take_date(c, &days) || !take_char(c, ':') || !take_digits(c, 2, &hour) || !take_char(c, ':') ||
            !take_digits(c, 2, &minute) || !take_char(c, ':') || !take_digits(c, 2, &second) ||
            !take_char(c, ' ') || !take_zone(c, &zone) || !take_char(c, ']') || hour > 23 || minute > 59 ||
            second > 60)
                return false;
        *ret = days * SECONDS_A_DAY + hour * 3600 + minute * 60 + second - zone;
        return true;
}

/* Behind the '[' of the time: ident and user before it may have spaces, but no such bracket. */
static bool find_time(Cursor *c) {
        const char *bracket = memmem(c->at, (size_t) (c->end - c->at), " [", 2);

        if (!bracket)
                return false;
        c->at = bracket + 2;
        return true;
}

/* From "GET /x HTTP/1.0"; the path is the whole text where it is no HTTP request. */
static void read_request(Text text, Request *request) {
        Cursor c = { text.bytes, text.bytes + text.size };
        Text method, path;

        request->path = text;
        if (!take_word(&c, &method) || !take_char(&c, ' ') || !take_word(&c, &path))
                return;
        request->path = path;
        request->is_get = method.size == 3 && memcmp(method.bytes, "GET", 3) == 0;
}

/* Whether referer or agent lack their last quote. */
static bool is_cut(Cursor c) {
        Text ignored;

        while (take_char(&c, ' '))
                if (c.at != c.end && *c.at == '"' && !take_quoted(&c, &ignored))
                        return true;
        return false;
}

int log_parse_line(Text line, Request *ret, bool *ret_cut) {
        Cursor c = { line.bytes, line.bytes + line.size };
        Request request = {};
        Text quoted;
        int status;

        if (!take_word(&c, &request.client) || request.client.size > LOG_CLIENT_MAX || !find_time(&c) ||
            !take_time(&c, &request.time) || !take_char(&c, ' ') || !take_quoted(&c, &quoted) ||
            !take_char(&c, ' ') || !take_digits(&c, 3, &status) || !take_char(&c, ' ') ||
            !take_size(&c, &request.size) || (c.at != c.end && *c.at != ' '))
                return LOG_E_MALFORMED;

        read_request(quoted, &request);
        request.status = (uint32_t) status;
        *ret = request;
        if (ret_cut)
                *ret_cut = is_cut(c);
        return 0;
}

/* Cuts the next line off; its "\n" or "\r\n" is gone. */
static bool next_line(Cursor *text, Text *ret) {
        const char *newline;
        size_t rest = (size_t) (text->end - text->at);

        if (rest == 0)
                return false;
        newline = memchr(text->at, '\n', rest);
        *ret = (Text){ text->at, newline ? (size_t) (newline - text->at) : rest };
        text->at += ret->size + (newline != NULL);
        if (ret->size > 0 && ret->bytes[ret->size - 1] == '\r')
                --ret->size;
        return true;
}

static int add_line(Log *log, size_t *n_allocated, Text line) {
        Request *grown;
        bool cut;

        if (log->n_requests == *n_allocated) {
                *n_allocated = *n_allocated * 2 ?: 1024;
                grown = reallocarray(log->requests, *n_allocated, sizeof(*grown));
                if (!grown)
                        return -ENOMEM;
                log->requests = grown;
        }

        ++log->n_lines;
        if (log_parse_line(line, &log->requests[log->n_requests], &cut)) {
                ++log->n_malformed;
                return 0;
        }
        ++log->n_requests;
        log->n_cut += cut;
        return 0;
}

int log_parse(Log *ret, char *text, size_t size) {
        _cleanup_(log_deinit) Log log = { .text = text, .text_size = size };
        Cursor c = { text, text + size };
        size_t n_allocated = 0;
        Text line;
        int r;

        while (next_line(&c, &line)) {
                r = add_line(&log, &n_allocated, line);
                if (r)
                        return r;
        }

        *ret = log;
        log = (Log){};
        return 0;
}

/* Into a buffer that grows, as the size of a pipe is not known. */
static int read_all(int fd, char **ret, size_t *ret_size) {
        _cleanup_(freep) char *buffer = NULL;
        size_t size = 0, room = 0;
        ssize_t n;

        do {
                if (size == room) {
                        char *grown = realloc(buffer, room = room * 2 ?: 1 << 16);

                        if (!grown)
                                return -ENOMEM;
                        buffer = grown;
                }
                n = read(fd, buffer + size, room - size);
                if (n < 0 && errno != EINTR)
                        return -errno;
                size += n > 0 ? (size_t) n : 0;
        } while (n != 0);

        *ret = buffer;
        buffer = NULL;
        *ret_size = size;
        return 0;
}

int log_read(Log *ret, const char *path) {
        _cleanup_(closep) int fd = -1;
        char *text = NULL;
        size_t size = 0;
        int r;

        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        r = read_all(fd, &text, &size);
        if (r)
                return r;
        return log_parse(ret, text, size);
}

void log_deinit(Log *log) {
        free(log->requests);
        free(log->text);
        *log = (Log){};
}
