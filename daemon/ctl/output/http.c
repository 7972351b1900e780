#include "daemon/ctl/output/http.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/deadline.h"

#define DRAIN_MAX (1024U * 1024U) /* limit for data that still arrives after the answer */

static const char *status_reason(int status) {
        switch (status) {
        case 200:
                return "OK";
        case 404:
                return "Not Found";
        case 405:
                return "Method Not Allowed";
        case 408:
                return "Request Timeout";
        case 431:
                return "Request Header Fields Too Large";
        case 500:
                return "Internal Server Error";
        default:
                return "Bad Request";
        }
}

bool http_head_is_whole(const char *data, size_t n, size_t *ret_size) {
        const char *end = memmem(data, n, "\r\n\r\n", 4);

        if (!end)
                return false;
        *ret_size = (size_t) (end - data) + 4;
        return true;
}

/* The next word of a line, without the space after it. */
static bool take_word(const char **line, const char *end, const char **ret_word, size_t *ret_n) {
        const char *begin = *line, *p = begin;

        while (p<end && * p> ' ' && *p < 0x7f)
                p++;
        if (p == begin)
                return false;
        *ret_word = begin;
        *ret_n = (size_t) (p - begin);
        *line = p < end && *p == ' ' ? p + 1 : p;
        return true;
}

static bool word_is(const char *word, size_t n, const char *what) {
        return n == strlen(what) && !memcmp(word, what, n);
}

/* Whether the media type is in an Accept header; preferences for other types are not looked at. */
static bool line_accepts_open(const char *line, size_t n) {
        return n > 7 && !strncasecmp(line, "accept:", 7) &&
               memmem(line, n, "application/openmetrics-text", strlen("application/openmetrics-text"));
}

/* The lines after the first. False: one of them is no header field. */
static bool parse_fields(const char *line, const char *end, HttpRequest *request) {
        while (line < end) {
                const char *next = memmem(line, (size_t) (end - line), "\r\n", 2);
                size_t n = (size_t) ((next ?: end) - line);

                if (n == 0)
                        return true;
                if (line[0] == ':' || !memchr(line, ':', n) || memchr(line, 0, n))
                        return false;
                request->accepts_open |= line_accepts_open(line, n);
                line += n + 2;
        }
        return true;
}

int http_parse(const char *head, size_t size, HttpRequest *ret) {
        const char *line = head, *end = memmem(head, size, "\r\n", 2), *method, *path, *version;
        size_t n_method, n_path, n_version, n;

        *ret = (HttpRequest){};
        if (!end || !take_word(&line, end, &method, &n_method) || !take_word(&line, end, &path, &n_path) ||
            !take_word(&line, end, &version, &n_version) || line != end)
                return 400;
        if (n_version != 8 || memcmp(version, "HTTP/1.", 7) || path[0] != '/')
                return 400;
        if (!parse_fields(end + 2, head + size, ret))
                return 400;

        n = strcspn(path, "? ");
        if (!word_is(path, n, "/metrics"))
                return 404;
        ret->is_head = word_is(method, n_method, "HEAD");
        return ret->is_head || word_is(method, n_method, "GET") ? 200 : 405;
}

/* 1: one of `events` came; 0: the time was over. */
static bool wait_for(int fd, short events, uint64_t deadline) {
        struct pollfd poller = { .fd = fd, .events = events };
        uint64_t left = proto_deadline_left(deadline);
        int r;

        do
                r = poll(&poller, 1, left / 1000 > INT32_MAX ? INT32_MAX : (int) ((left + 999) / 1000));
        while (r < 0 && errno == EINTR && proto_deadline_left(deadline) > 0);
        return r > 0;
}

int http_read(int fd, uint64_t timeout_usec, HttpRequest *ret) {
        uint64_t deadline = proto_deadline(timeout_usec);
        char data[HTTP_HEAD_MAX];
        size_t n = 0, size;
        ssize_t got;

        *ret = (HttpRequest){};
        while (n < sizeof(data)) {
                if (!wait_for(fd, POLLIN, deadline))
                        return 408;
                got = read(fd, data + n, sizeof(data) - n);
                if (got < 0 && (errno == EINTR || errno == EAGAIN))
                        continue;
                if (got <= 0)
                        return n > 0 && got == 0 ? 400 : 0;
                n += (size_t) got;
                if (http_head_is_whole(data, n, &size))
                        return http_parse(data, size, ret);
        }
        return 431;
}

static bool write_all(int fd, uint64_t deadline, const char *data, size_t size) {
        while (size > 0) {
                ssize_t n;

                if (!wait_for(fd, POLLOUT, deadline))
                        return false;
                n = send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (n < 0 && errno == ENOTSOCK)
                        n = write(fd, data, size);
                if (n < 0 && errno != EINTR && errno != EAGAIN)
                        return false;
                if (n > 0) {
                        data += n;
                        size -= (size_t) n;
                }
        }
        return true;
}

/* If a connection is closed with data unread, the kernel throws away data that it has yet to send. */
static void drain_socket(int fd, uint64_t deadline) {
        char data[4096];
        size_t n = 0;
        ssize_t got;

        if (shutdown(fd, SHUT_WR) < 0)
                return;
        do {
                if (!wait_for(fd, POLLIN, deadline))
                        return;
                got = read(fd, data, sizeof(data));
                n += got > 0 ? (size_t) got : 0;
        } while (got > 0 && n < DRAIN_MAX);
}

bool http_answer(int fd, uint64_t timeout_usec, int status, const HttpRequest *request, const char *type,
                 const char *body, size_t size) {
        uint64_t deadline = proto_deadline(timeout_usec);
        char head[256], text[64];
        bool sent;
        int n;

        if (status != 200) {
                type = "text/plain; charset=utf-8";
                body = text;
                size = (size_t) snprintf(text, sizeof(text), "%d %s\n", status, status_reason(status));
        }
        n = snprintf(
                head, sizeof(head),
                "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%sConnection: close\r\n\r\n",
                status, status_reason(status), type, size, status == 405 ? "Allow: GET, HEAD\r\n" : "");
        sent = write_all(fd, deadline, head, (size_t) n) &&
               (request->is_head || write_all(fd, deadline, body, size));
        if (sent)
                drain_socket(fd, deadline);
        return sent;
}
