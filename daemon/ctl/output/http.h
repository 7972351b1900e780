#pragma once

/*
 * One HTTP/1.x request on one connection and its answer: all that a monitoring system needs. Limits
 * bound the memory and the time that a peer can make us spend.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_HEAD_MAX 8192U

typedef struct HttpRequest {
        bool is_head; /* wants no body */
        bool accepts_open; /* OpenMetrics */
} HttpRequest;

/*
 * Parses the first `size` bytes of a connection, up to the empty line. Returns the status of the
 * answer: 200, or 400, 404 or 405 if the request is refused.
 */
int http_parse(const char *head, size_t size, HttpRequest *ret);

/* Whether the empty line has come; *ret_size is then the length of the head, that line included. */
bool http_head_is_whole(const char *data, size_t n, size_t *ret_size);

/*
 * Reads a request from `fd` within `timeout_usec` in all. As http_parse(); 408: it did not come in
 * time; 431: it is too long; 0: the peer hung up before.
 */
int http_read(int fd, uint64_t timeout_usec, HttpRequest *ret);

/*
 * Writes the answer, then ends the connection so that the peer gets all of it. `type` and `body` are
 * for status 200; other answers carry their own text. False: the peer has gone.
 */
bool http_answer(int fd, uint64_t timeout_usec, int status, const HttpRequest *request, const char *type,
                 const char *body, size_t size);
