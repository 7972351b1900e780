/*
 * A worker
 *
 * Any worker may serve any request, so the sessions are read and written by all of them, often the
 * same one at the same time. Nobody locks: a worker copies the session and its version out of the
 * map, adds the request to its copy, and replaces the session if it is still of that version. If not,
 * another worker was faster; then it begins again with the other worker's session.
 */
#include "examples/demo/worker.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <tslab.h>
#include <tslab_map.h>

#include "examples/demo/ledger.h"
#include "examples/demo/demo-pages.h"
#include "examples/demo/demo-session.h"
#include "examples/demo/util.h"

#define CHUNK 4 /* requests taken at once: so few that a client's next ones often go to other workers */

typedef struct Worker {
        uint32_t id;
        const Timeline *timeline;
        WorkerShared *shared;
        WorkerStats *stats;
        struct tslab *pool;
        struct tslab_map *sessions;
        struct tslab_map *ledger;
        struct tslab_map *pages;
        char *page; /* a buffer of PAGES_SIZE_MAX bytes: what would be sent */
        size_t room; /* for a session and its key */
        WorkerOrder order;
} Worker;

/* The counts of one request, until it is known that the session was replaced. */
typedef struct Visit {
        bool is_new, is_returning, is_others;
} Visit;

/* The session and its version; where there is none, a new one and version 0. */
static int get_session(Worker *w, const Request *request, Session *ret, tslab_handle *ret_version,
                       Visit *visit) {
        Total total;
        ssize_t n;
        int r;

        n = tslab_map_get(w->sessions, request->client.bytes, request->client.size, ret, sizeof(*ret),
                          ret_version);
        if (n >= 0) {
                *visit = (Visit){ .is_others = ret->writer != w->id };
                return session_is_valid(ret, (size_t) n) ? 0 : -EBADMSG;
        }
        if (n != -ENOENT)
                return (int) n;

        r = ledger_get(w->ledger, request->client, &total);
        if (r < 0)
                return r;
        session_start(ret, request);
        ret->n_before = total.n_sessions < UINT8_MAX ? (uint8_t) total.n_sessions : UINT8_MAX;
        *ret_version = 0;
        *visit = (Visit){ .is_new = true, .is_returning = total.n_sessions > 0 };
        return 0;
}

static int try_to_serve(Worker *w, const Request *request, Visit *visit) {
        tslab_handle version;
        Session session;
        int r;

        r = get_session(w, request, &session, &version, visit);
        if (r)
                return r;
        session_visit(&session, request, w->room - request->client.size);
        session.writer = (uint16_t) w->id;
        session.period = w->order.period;
        return tslab_map_replace(w->sessions, request->client.bytes, request->client.size, version, &session,
                                 session_size(&session), w->order.epoch);
}

static int serve(Worker *w, const Request *request) {
        uint64_t begin = now_ns();
        Visit visit = {};
        int r;

        while ((r = try_to_serve(w, request, &visit)) == -EAGAIN)
                ++w->stats->n_retries;
        if (r)
                return r;

        histogram_add(&w->stats->latency, now_ns() - begin);
        ++w->stats->n_requests;
        w->stats->n_sessions += visit.is_new;
        w->stats->n_returning += visit.is_returning;
        w->stats->n_others += visit.is_others;
        return 0;
}

static int serve_page(Worker *w, const Request *request) {
        bool hit;
        int r;

        if (!pages_want(request))
                return 0;
        r = pages_serve(w->pages, request, w->order.pages_epoch, w->page, &hit);
        if (r)
                return r;
        ++w->stats->n_pages;
        w->stats->n_pages_hit += hit;
        return 0;
}

static int serve_chunk(Worker *w, uint64_t first, uint64_t end) {
        int r;

        for (uint64_t i = first; i < first + CHUNK && i < end; ++i) {
                const Request *request = &w->timeline->requests[i];

                r = serve(w, request) ?: serve_page(w, request);
                if (r)
                        return r;
        }
        return 0;
}

static int serve_period(Worker *w) {
        const Period *period = &w->timeline->periods[w->order.period];
        uint64_t end = period->first + period->n, first;
        int r;

        /* All of C's _Atomic arithmetic is sequentially consistent: no two workers get the same chunk. */
        while ((first = (w->shared->next += CHUNK) - CHUNK) < end) {
                r = serve_chunk(w, first, end);
                if (r)
                        return r;
                /* Here a server would wait for its next connection, and others would run. */
                (void) sched_yield();
        }
        return 0;
}

/* Whichever worker comes first creates the maps; the others find them by their names. */
static int open_maps(Worker *w) {
        size_t max;
        int r;

        r = tslab_open(&w->pool, NULL, NULL);
        if (r == 0)
                r = tslab_map_open(&w->sessions, w->pool, SESSIONS_NAME, NULL);
        if (r == 0)
                r = tslab_map_open(&w->ledger, w->pool, LEDGER_NAME, NULL);
        if (r == 0)
                r = pages_open(&w->pages, w->pool, w->shared->pages_limit);
        if (r)
                return r;
        w->page = malloc(PAGES_SIZE_MAX);
        if (!w->page)
                return -ENOMEM;
        max = tslab_map_size_max(w->sessions);
        w->room = max < SESSION_ROOM ? max : SESSION_ROOM;
        return 0;
}

static int worker_loop(Worker *w, int fd) {
        WorkerReply reply;
        ssize_t n;

        while ((n = recv(fd, &w->order, sizeof(w->order), 0)) == sizeof(w->order)) {
                reply = (WorkerReply){ w->order.period, serve_period(w) };
                if (send(fd, &reply, sizeof(reply), MSG_NOSIGNAL) < 0)
                        return -errno;
                if (reply.error)
                        return reply.error;
        }
        return n == 0 ? 0 : -EIO;
}

int worker_run(uint32_t id, int fd, const Timeline *timeline, WorkerShared *shared) {
        Worker w = { .id = id, .timeline = timeline, .shared = shared, .stats = &shared->workers[id] };
        WorkerReply reply = {};
        int r;

        r = open_maps(&w);
        if (r == 0) {
                r = worker_loop(&w, fd);
        } else {
                reply.error = r;
                (void) send(fd, &reply, sizeof(reply), MSG_NOSIGNAL);
        }

        free(w.page);
        (void) tslab_map_close(w.pages);
        (void) tslab_map_close(w.ledger);
        (void) tslab_map_close(w.sessions);
        (void) tslab_close(w.pool);
        return r ? EXIT_FAILURE : EXIT_SUCCESS;
}
