#include "examples/demo/demo-session.h"

#include <assert.h>
#include <string.h>

static_assert(offsetof(Session, paths) == 48, "the same in every process");

bool session_is_valid(const Session *session, size_t size) {
        size_t at = 0;

        if (size < offsetof(Session, paths) || size > sizeof(*session) || size != session_size(session) ||
            session->n_paths > SESSION_PATHS_MAX)
                return false;
        for (unsigned i = 0; i < session->n_paths; ++i) {
                if (at >= session->paths_size)
                        return false;
                at += 1U + session->paths[at];
        }
        return at == session->paths_size;
}

void session_start(Session *session, const Request *request) {
        *session = (Session){ .first = request->time, .last = request->time };
}

static void forget_oldest(Session *session) {
        uint16_t gone = (uint16_t) (1 + session->paths[0]);

        session->paths_size -= gone;
        --session->n_paths;
        memmove(session->paths, session->paths + gone, session->paths_size);
}

static void remember_path(Session *session, Text path, size_t room) {
        uint8_t length = path.size < SESSION_PATH_MAX ? (uint8_t) path.size : SESSION_PATH_MAX;

        if (room > sizeof(*session))
                room = sizeof(*session);
        while (session->n_paths > 0 &&
               (session->n_paths == SESSION_PATHS_MAX || session_size(session) + 1 + length > room))
                forget_oldest(session);
        if (session_size(session) + 1 + length > room)
                return;

        session->paths[session->paths_size] = length;
        memcpy(session->paths + session->paths_size + 1, path.bytes, length);
        session->paths_size = (uint16_t) (session->paths_size + 1 + length);
        ++session->n_paths;
}

void session_visit(Session *session, const Request *request, size_t room) {
        ++session->n_requests;
        session->n_errors += request->status >= 400;
        session->size += request->size;
        if (request->time > session->last)
                session->last = request->time;
        if (request->time < session->first)
                session->first = request->time;
        remember_path(session, request->path, room);
}
