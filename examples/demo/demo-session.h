#pragma once
/*
 * A client's session in the pool: counters, and the paths it asked for last. A session grows with
 * its paths, from about 80 to about 600 bytes with its key, and thereby from size class to size class.
 *
 * Sessions in the pool are never edited: a worker copies one out, changes the copy, and puts the
 * copy in its place if nobody else did so meanwhile. These functions work on such copies.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "examples/demo/demo-log.h"

#define SESSION_PATHS_MAX 8
#define SESSION_PATH_MAX 63 /* longer ones are cut */
#define SESSION_ROOM                                                                                         \
        744 /* for a session and its key: the largest default class, less the head that a map adds */

/* No pointers, and widths that are the same in every process: this is read by others. */
typedef struct Session {
        uint32_t n_requests; /* requests of this session; the ledger has requests of expired sessions */
        uint32_t n_errors; /* with status 400 and above */
        uint64_t size; /* sum over all answers */
        int64_t first, last; /* seconds since 1970 */
        uint32_t period; /* period of the latest request: the session is in that period's epoch */
        uint16_t writer; /* the worker that wrote it last */
        uint8_t n_paths;
        uint8_t n_before; /* sessions that this client had before, at most 255 */
        uint16_t paths_size;
        uint16_t unused[3];
        uint8_t paths[SESSION_PATHS_MAX * (1 + SESSION_PATH_MAX)]; /* oldest first: length, bytes */
} Session;

/* How much of the struct is in use, and goes into the pool. */
static inline size_t session_size(const Session *session) {
        return offsetof(Session, paths) + session->paths_size;
}

/* Whether `size` bytes from the pool are a session. Another process wrote them: they are input. */
bool session_is_valid(const Session *session, size_t size);

void session_start(Session *session, const Request *request);
/* Adds a request. The session will not be larger than `room`; the oldest paths go to make it so. */
void session_visit(Session *session, const Request *request, size_t room);
