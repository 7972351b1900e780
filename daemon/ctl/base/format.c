#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/ctl/base/format.h"
#include "proto/validate.h"

#define USEC_PER_SEC UINT64_C(1000000)
#define EPOCH_ID_MAX 63U
#define ERA_MAX 0xffffffU

char *format_bytes(char *buffer, uint64_t bytes) {
        static const char units[] = "KMGTPE";
        uint64_t unit = 1024;
        size_t i = 0;

        if (bytes < 1024) {
                (void) snprintf(buffer, FORMAT_SIZE, "%" PRIu64 "B", bytes);
                return buffer;
        }

        while (units[i + 1] && bytes / unit >= 1024) {
                unit *= 1024;
                i++;
        }

        /* cut, not rounded: 1023.99M is not 1024.0M */
        (void) snprintf(buffer, FORMAT_SIZE, "%" PRIu64 ".%u%c", bytes / unit,
                        (unsigned) (bytes % unit * 10 / unit), units[i]);
        return buffer;
}

char *format_span(char *buffer, uint64_t usec) {
        static const struct {
                const char *name;
                uint64_t usec;
        } units[] = {
                { "d", 86400 * USEC_PER_SEC },
                { "h", 3600 * USEC_PER_SEC },
                { "min", 60 * USEC_PER_SEC },
                { "s", USEC_PER_SEC },
                { "ms", 1000 },
        };
        const size_t n_units = sizeof(units) / sizeof(units[0]);
        size_t i = 0;
        uint64_t rest;

        while (i + 1 < n_units && usec < units[i].usec)
                i++;

        rest = i + 1 < n_units ? usec % units[i].usec / units[i + 1].usec : 0;
        /* milliseconds beside seconds tell nothing */
        if (rest > 0 && i + 2 < n_units)
                (void) snprintf(buffer, FORMAT_SIZE, "%" PRIu64 "%s %" PRIu64 "%s", usec / units[i].usec,
                                units[i].name, rest, units[i + 1].name);
        else
                (void) snprintf(buffer, FORMAT_SIZE, "%" PRIu64 "%s", usec / units[i].usec, units[i].name);
        return buffer;
}

char *format_time(char *buffer, uint64_t usec) {
        time_t seconds = (time_t) (usec / USEC_PER_SEC);
        struct tm local;

        if (usec == 0 || !localtime_r(&seconds, &local) ||
            strftime(buffer, FORMAT_SIZE, "%Y-%m-%d %H:%M:%S", &local) == 0)
                (void) strcpy(buffer, "-");
        return buffer;
}

char *format_ago(char *buffer, uint64_t usec, uint64_t now_usec) {
        char span[FORMAT_SIZE];

        if (usec == 0)
                (void) strcpy(buffer, "-");
        else if (usec >= now_usec)
                (void) strcpy(buffer, "now");
        else
                (void) snprintf(buffer, FORMAT_SIZE, "%.40s ago", format_span(span, now_usec - usec));
        return buffer;
}

char *format_epoch(char *buffer, uint32_t epoch) {
        if (epoch >> 8)
                (void) snprintf(buffer, FORMAT_SIZE, "%u:%u", epoch & 0xff, epoch >> 8);
        else
                (void) snprintf(buffer, FORMAT_SIZE, "%u", epoch & 0xff);
        return buffer;
}

char *format_count(char *buffer, uint64_t n, const char *one, const char *many) {
        (void) snprintf(buffer, FORMAT_SIZE, "%" PRIu64 " %s", n, n == 1 ? one : many);
        return buffer;
}

/* The share of `part` in characters; anything above 0 gets at least one. */
static unsigned bar_share(unsigned width, uint64_t part, uint64_t total) {
        unsigned n;

        if (part == 0 || total == 0)
                return 0;
        if (part >= total)
                return width;

        n = (unsigned) ((double) part / (double) total * width);
        return n > 0 ? n : 1;
}

char *format_bar(char *buffer, unsigned width, uint64_t used, uint64_t kept, uint64_t total) {
        unsigned n_used, n_kept;

        if (width > FORMAT_SIZE - 3)
                width = FORMAT_SIZE - 3;
        n_used = bar_share(width, used, total);
        n_kept = bar_share(width, kept, total);
        if (n_kept > width - n_used)
                n_kept = width - n_used;

        buffer[0] = '[';
        memset(buffer + 1, '.', width);
        memset(buffer + 1, '#', n_used);
        memset(buffer + 1 + n_used, '+', n_kept);
        buffer[width + 1] = ']';
        buffer[width + 2] = '\0';
        return buffer;
}

uint64_t format_now_usec(void) {
        struct timespec now;

        (void) clock_gettime(CLOCK_REALTIME, &now);
        return (uint64_t) now.tv_sec * USEC_PER_SEC + (uint64_t) now.tv_nsec / 1000;
}

/*
 * Takes decimal digits only, at least one, unlike strtoul(), which takes signs and spaces. A number
 * above UINT32_MAX becomes UINT32_MAX.
 */
static const char *parse_digits(const char *text, uint32_t *ret) {
        size_t n = strspn(text, "0123456789");
        unsigned long value;

        if (n == 0)
                return NULL;

        value = strtoul(text, NULL, 10);
        *ret = value > UINT32_MAX ? UINT32_MAX : (uint32_t) value;
        return text + n;
}

int parse_epoch(const char *text, uint32_t *ret_epoch) {
        const char *end;
        uint32_t id, era = 0;

        end = parse_digits(text, &id);
        if (!end)
                return -EINVAL;

        if (*end == ':') {
                end = parse_digits(end + 1, &era);
        } else if (id >> 8) {
                era = id >> 8;
                id &= 0xff;
        }
        if (!end || *end)
                return -EINVAL;
        if (id > EPOCH_ID_MAX || era > ERA_MAX)
                return -ERANGE;

        *ret_epoch = id | era << 8;
        return 0;
}

int parse_span(const char *text, uint64_t max_msec, uint64_t *ret_msec) {
        uint32_t seconds = 0, msec = 0;
        const char *end;

        end = parse_digits(text, &seconds);
        if (!end)
                return -EINVAL;

        if (*end == '.') {
                static const uint32_t scale[] = { 0, 100, 10, 1 };
                const char *decimals = end + 1;

                end = parse_digits(decimals, &msec);
                if (!end || end - decimals > 3)
                        return -EINVAL;
                msec *= scale[end - decimals];
        }
        if (*end)
                return -EINVAL;
        if (seconds * UINT64_C(1000) + msec > max_msec)
                return -ERANGE;

        *ret_msec = seconds * UINT64_C(1000) + msec;
        return 0;
}

int parse_seconds(const char *text, uint32_t *ret_msec) {
        uint64_t msec;
        int r;

        r = parse_span(text, PROTO_WAIT_MSEC_MAX, &msec);
        if (r == 0)
                *ret_msec = (uint32_t) msec;
        return r;
}

int parse_bytes(const char *text, uint64_t *ret_bytes) {
        static const char units[] = "KMG";
        const char *end, *unit;
        uint32_t n;

        end = parse_digits(text, &n);
        if (!end)
                return -EINVAL;
        if (n == UINT32_MAX)
                return -ERANGE;
        unit = *end ? strchr(units, *end) : NULL;
        if (*end && (!unit || end[1]))
                return -EINVAL;
        *ret_bytes = (uint64_t) n << (unit ? 10 * (unit - units + 1) : 0);
        return 0;
}
