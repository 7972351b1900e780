/*
 * Purpose: one slow writer does not silence the daemon.
 *
 * The loop's sessions are its own, and wait with it. This thread has a loop, sessions and requests of its own. It
 * admits the requests that only read. When the daemon's loop goes on, it hangs up.
 */
#include "daemon/request/stand-in.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/message-id.h"
#include "proto/notify.h"
#include "daemon/request/counter.h"
#include "daemon/request/dispatch.h"
#include "daemon/work/holder.h"
#include "proto/deadline.h"

#define LATE_USEC PROTO_USEC_PER_SEC /* a slice takes a millisecond */
#define WATCH_MSEC 250
#define SERVE_MSEC 5
#define LOOK_USEC PROTO_USEC_PER_SEC
#define EVENTS_MAX 64U /* in one turn, for which the loop waits if it could go on */

struct StandIn {
        TaskQueue *loop_tasks;
        Pool pool; /* the loop's, but for event, tasks and sums */
        Sessions sessions;
        Requests requests;
        Listener *listener;
        PageWait wait;
        uint64_t looked_usec;
        pid_t loop; /* thread */
        pthread_t thread;
        bool started;
        pthread_mutex_t lock; /* guards the next two members */
        pthread_cond_t ending;
        bool ends;
};

/* ---- Requests */

static bool only_reads(uint32_t body) {
        switch (body) {
        case TSLAB__REQUEST__BODY_HELLO:
        case TSLAB__REQUEST__BODY_STATS:
        case TSLAB__REQUEST__BODY_EPOCH_LIST:
        case TSLAB__REQUEST__BODY_CLIENTS:
        case TSLAB__REQUEST__BODY_ROOTS:
        case TSLAB__REQUEST__BODY_SLAB_MAP:
                return true;
        default:
                return false;
        }
}

static void on_request(Session *session, const ProtoRequest *request, ProtoFds *fds,
                       const struct ucred *sender) {
        StandIn *s = session->sessions->userdata;

        if (only_reads(request->body_case))
                request_dispatch(&s->requests, session, request, fds, sender);
        else
                session_refuse(
                        session, request->id, -ETIMEDOUT,
                        "tslabd has waited for %llu s for the lock of the pool's memory, and only answers "
                        "questions: %s",
                        (unsigned long long) s->wait.seconds, s->wait.cause);
}

static void on_session_end(Session *session) {
        (void) session; /* none is attached */
}

/* ---- Watching the loop */

/* Whether the loop is inside a system call that needs the lock: it could be late for another reason. */
static bool loop_waits_for_pages(const StandIn *s) {
        char path[64], text[64] = "";
        _cleanup_(proto_closep) int fd = -1;
        long number;

        (void) snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int) s->loop);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 || *text < '0' || *text > '9')
                return false;
        number = strtol(text, NULL, 10);
        return number == SYS_fallocate || number == SYS_madvise || number == SYS_lseek;
}

/* True: the daemon ends. */
static bool pause_for(StandIn *s, uint64_t msec) {
        uint64_t until = proto_now_usec() + msec * 1000;
        struct timespec at = { .tv_sec = (time_t) (until / PROTO_USEC_PER_SEC),
                               .tv_nsec = (long) (until % PROTO_USEC_PER_SEC * 1000) };
        bool ends;

        (void) pthread_mutex_lock(&s->lock);
        while (!s->ends && pthread_cond_clockwait(&s->ending, &s->lock, CLOCK_MONOTONIC, &at) == 0)
                ;
        ends = s->ends;
        (void) pthread_mutex_unlock(&s->lock);
        return ends;
}

static void end_thread(StandIn *s) {
        (void) pthread_mutex_lock(&s->lock);
        s->ends = true;
        (void) pthread_cond_signal(&s->ending);
        (void) pthread_mutex_unlock(&s->lock);
        (void) pthread_join(s->thread, NULL);
}

/* Once a second: systemd must not take the wait for a hang, since even SIGKILL does not end it. */
static void look_at_wait(StandIn *s, uint64_t begin) {
        uint64_t now = proto_now_usec();
        bool first = s->looked_usec < begin;

        if (!first && now - s->looked_usec < LOOK_USEC)
                return;
        s->looked_usec = now;
        s->wait.seconds = (now - begin) / PROTO_USEC_PER_SEC;
        holder_describe(&s->pool.arena, s->wait.cause);
        if (first)
                log_fields(
                        LOG_WARNING, (LogFields){ .message = MESSAGE_PAGE_WAIT },
                        "the daemon waits for the lock of the pool's memory, and only answers questions until it "
                        "has it: %s",
                        s->wait.cause);
        (void) notify_now("WATCHDOG=1\nSTATUS=pool %s: has waited for %llu s for the lock of its memory: %s",
                          s->pool.options->pool, (unsigned long long) s->wait.seconds, s->wait.cause);
}

/* False: the loop goes on. */
static bool serve_some(StandIn *s, uint64_t word) {
        if (!task_slice_lock(s->loop_tasks, word))
                return false;
        for (unsigned n = 0; n < EVENTS_MAX; n++)
                if (sd_event_run(s->pool.event, 0) <= 0)
                        break;
        task_slice_unlock(s->loop_tasks);
        return true;
}

static void stand_in_for_slice(StandIn *s, uint64_t word) {
        uint64_t begin = task_slice_begin(word);

        do
                look_at_wait(s, begin);
        while (serve_some(s, word) && !pause_for(s, SERVE_MSEC));
        sessions_clear(&s->sessions);
        log_line(LOG_NOTICE, "the daemon has the lock of the pool's memory, after %llu s",
                 (unsigned long long) ((proto_now_usec() - begin) / PROTO_USEC_PER_SEC));
}

static void *stand_in_thread(void *userdata) {
        StandIn *s = userdata;

        while (!pause_for(s, WATCH_MSEC)) {
                uint64_t word = task_slice_word(s->loop_tasks);

                if (word != 0 && proto_now_usec() - task_slice_begin(word) > LATE_USEC &&
                    loop_waits_for_pages(s) && task_slice_stand_in(s->loop_tasks, word))
                        stand_in_for_slice(s, word);
        }
        return NULL;
}

/* ---- Making it */

static int open_stand_in(StandIn *s, const Requests *real, const Listener *listener) {
        int r;

        s->pool = *real->pool;
        s->pool.event = NULL;
        s->pool.tasks = NULL;
        s->pool.on_event = NULL;
        s->pool.sums = (ShmSlabSums){}; /* the loop's alone: a mark cleared here would be lost to them */
        r = pool_open_loop(&s->pool);
        if (r >= 0)
                r = sessions_init(&s->sessions, &s->pool);
        if (r < 0)
                return r;
        s->sessions.on_request = on_request;
        s->sessions.on_hang_up = s->sessions.on_free = on_session_end;
        s->sessions.userdata = s;
        s->requests = *real;
        s->requests.pool = &s->pool;
        s->requests.sessions = &s->sessions;
        s->requests.page_wait = &s->wait;
        s->requests.counter = NULL;
        s->requests.checker = NULL;
        s->requests.sizer = NULL;
        r = requests_init(&s->requests);
        return r < 0 ? r : listener_share(&s->listener, listener, &s->sessions);
}

int stand_in_new(StandIn **ret_stand_in, const Requests *real, const Listener *listener) {
        StandIn *s = calloc(1, sizeof(*s));
        int r;

        if (!s)
                return -ENOMEM;
        s->loop_tasks = real->pool->tasks;
        (void) pthread_mutex_init(&s->lock, NULL);
        (void) pthread_cond_init(&s->ending, NULL);
        s->loop = (pid_t) syscall(SYS_gettid);
        r = open_stand_in(s, real, listener);
        if (r >= 0)
                r = -pthread_create(&s->thread, NULL, stand_in_thread, s);
        if (r < 0) {
                (void) stand_in_free(s);
                return r;
        }
        s->started = true;
        *ret_stand_in = s;
        return 0;
}

StandIn *stand_in_free(StandIn *s) {
        if (!s)
                return NULL;
        if (s->started)
                end_thread(s);
        s->listener = listener_free(s->listener);
        if (s->sessions.pool)
                sessions_deinit(&s->sessions);
        requests_deinit(&s->requests);
        s->pool.tasks = task_queue_free(s->pool.tasks);
        s->pool.event = sd_event_unref(s->pool.event);
        free(s);
        return NULL;
}
