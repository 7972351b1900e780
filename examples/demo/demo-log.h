#pragma once
/*
 * A web server's access log in Common or Combined Log Format, one request a line:
 *
 *      client ident user [10/Oct/2000:13:55:36 -0700] "GET /x HTTP/1.0" 200 2326 "referer" "agent"
 *
 * A line counts when client, time, request, status and size can be read. The fields after them are
 * Combined's; a crash of the server or a full disk may have cut them short.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_CLIENT_MAX 255 /* the longest name that DNS has */

/* Parts of a text that is not ended by 0, and belongs to somebody else. */
typedef struct Text {
        const char *bytes;
        size_t size;
} Text;

typedef struct Request {
        Text client;
        Text path;
        bool is_get; /* the answer is a page that others may get, too */
        int64_t time; /* seconds since 1970, UTC */
        uint64_t size; /* size of the answer; "-" is 0 */
        uint32_t status;
} Request;

typedef struct Log {
        char *text;
        size_t text_size;
        Request *requests; /* in the order of the file, which need not be that of time */
        size_t n_requests;
        size_t n_lines;
        size_t n_malformed; /* lines passed over */
        size_t n_cut; /* lines used that end within quotes */
} Log;

enum {
        _LOG_E_SUCCESS,
        LOG_E_MALFORMED,
};

/* One line, without its newline. 0 or LOG_E_MALFORMED; *ret_cut (may be NULL): it ends within quotes. */
int log_parse_line(Text line, Request *ret, bool *ret_cut);

/* All lines of `text`, which was got by malloc() and is the log's from now on, also on failure. -ENOMEM. */
int log_parse(Log *ret, char *text, size_t size);
/* Reads a file, a pipe too. -ENOMEM and all that open() and read() return. */
int log_read(Log *ret, const char *path);
void log_deinit(Log *log);
