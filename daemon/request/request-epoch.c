/* Closing epochs. The request is answered when the maintainer ends the wait. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/param.h>

#include "daemon/events.h"
#include "daemon/log.h"
#include "daemon/message-id.h"
#include "daemon/request/request.h"
#include "daemon/request/trail.h"
#include "daemon/work/trimmer.h"
#include "proto/deadline.h"
#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch.h"

#define WAIT_DEFAULT_MSEC 200U
#define MSEC UINT64_C(1000)

typedef struct CloseJob {
        CloseWait wait;
        Call call;
        Requests *requests;
        uint32_t number; /* the epoch that is closed, with its era */
} CloseJob;

static void close_job_free(CloseJob *job) {
        call_close(&job->call);
        free(job);
}

/* The session is gone: the epoch is closed all the same, but without a wait for its objects or their count. */
static void stop_close_wait(CloseJob *job) {
        job->wait.wait_drained = false;
        job->wait.count = false;
        job->wait.deadline_usec = MIN(job->wait.deadline_usec, proto_deadline(WAIT_DEFAULT_MSEC * MSEC));
}

static void on_close_progress(CloseWait *wait) {
        CloseJob *job = wait->userdata;
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__Progress progress = TSLAB__PROGRESS__INIT;
        char text[128];

        if (!job->call.session) {
                stop_close_wait(job);
                return;
        }
        (void) snprintf(text, sizeof(text),
                        "closing epoch %u: %u slabs hold objects, %u threads are inside a call", wait->epoch,
                        wait->n_left, wait->n_pending);
        progress.done = wait->reclaimed_size;
        progress.text = text;
        reply.more = true;
        reply.progress = &progress;
        session_send(job->call.session, job->call.id, &reply);
}

size_t request_class_counts(const ShmArena *arena, const EpochCount *live, Tslab__ClassCount *counts,
                            Tslab__ClassCount **pointers) {
        size_t n = 0;

        for (uint32_t i = 0; i < arena->n_classes; i++) {
                if (live->classes[i] == 0)
                        continue;
                tslab__class_count__init(&counts[n]);
                counts[n].size = arena->classes[i].size;
                counts[n].live_objects = live->classes[i];
                pointers[n] = &counts[n];
                n++;
        }
        return n;
}

static void answer_close(const CloseJob *job) {
        Tslab__ClassCount counts[SHM_CLASSES_MAX], *pointers[SHM_CLASSES_MAX];
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__EpochCloseReply close = TSLAB__EPOCH_CLOSE_REPLY__INIT;

        close.epoch = job->number;
        close.reclaimed_bytes = job->wait.reclaimed_size;
        close.huge_splits = job->wait.n_split;
        close.live_objects = job->wait.live->live_objects;
        close.pending_threads = job->wait.n_pending;
        close.classes = pointers;
        close.n_classes = request_class_counts(&job->requests->pool->arena, job->wait.live, counts, pointers);
        reply.body_case = TSLAB__REPLY__BODY_EPOCH_CLOSE;
        reply.epoch_close = &close;
        session_send(job->call.session, job->call.id, &reply);
}

static void on_closed(CloseWait *wait) {
        CloseJob *job = wait->userdata;
        LogFields fields = { .message = MESSAGE_EPOCH_CLOSE,
                             .epoch = &job->number,
                             .size = &wait->reclaimed_size };
        char split[TRIMMER_SPLIT_MAX];

        trimmer_tell_split(split, wait->n_split);
        log_fields(LOG_INFO, fields,
                   "epoch %u:%u was closed: %llu bytes given back, %llu objects left, %u threads pending%s",
                   job->number & 0xff, job->number >> 8, (unsigned long long) wait->reclaimed_size,
                   (unsigned long long) wait->live->live_objects, wait->n_pending, split);
        events_send(job->requests->pool,
                    &(EventInfo){ .kind = "reclaim", .epoch = job->number, .size = wait->reclaimed_size },
                    "closing epoch %u:%u gave %llu bytes back%s", job->number & 0xff, job->number >> 8,
                    (unsigned long long) wait->reclaimed_size, split);
        if (job->call.session)
                answer_close(job);
        close_job_free(job);
}

static void set_close_wait(CloseWait *wait, const Tslab__EpochClose *close) {
        wait->deadline_usec = proto_deadline((close->wait_msec ?: WAIT_DEFAULT_MSEC) * MSEC);
        wait->wait_drained = close->wait_drained;
        wait->drained_deadline_usec =
                close->wait_drained_msec == 0 ? UINT64_MAX : proto_deadline(close->wait_drained_msec * MSEC);
        wait->drained_deadline_usec = MAX(wait->drained_deadline_usec, wait->deadline_usec);
        wait->count = true;
}

static void log_close_request(const RequestContext *context, const Tslab__EpochClose *close,
                              uint32_t number) {
        Trail trail;

        trail_init(&trail, context);
        trail_log(&trail, close->revoke ? "revoke" : "close", &number, "%s epoch %u:%u%s",
                  close->revoke ? "revoked" : "closed", number & 0xff, number >> 8,
                  close->older ? " and its earlier eras" : "");
}

void request_epoch_close(RequestContext *context, const ProtoRequest *request) {
        Session *session = context->session;
        Requests *requests = context->requests;
        Pool *pool = requests->pool;
        const Tslab__EpochClose *close = request->epoch_close;
        CloseJob *job;
        int r;

        if (close->look) {
                close_look_start(context, close);
                return;
        }
        job = calloc(1, sizeof(*job));
        if (!job) {
                request_refuse_memory(session, context->id);
                return;
        }
        r = close->revoke ? shm_epoch_revoke(&pool->arena, close->epoch, close->older)
                          : shm_epoch_close(&pool->arena, close->epoch, true);
        if (r < 0) {
                request_refuse_epoch(requests, session, context->id, r, close->epoch);
                free(job);
                return;
        }
        *job = (CloseJob){ .requests = requests, .number = request_epoch_number(requests, close->epoch) };
        log_close_request(context, close, job->number);
        job->wait = (CloseWait){
                .epoch = close->epoch & 0xff,
                .era = close->older ? 0 : job->number >> 8,
                .on_progress = on_close_progress,
                .on_done = on_closed,
                .userdata = job,
        };
        call_open(&job->call, session, context->id);
        set_close_wait(&job->wait, close);
        events_send(pool, &(EventInfo){ .kind = "close", .epoch = job->number }, "epoch %u:%u is closing",
                    job->number & 0xff, job->number >> 8);
        maintainer_close(requests->maintainer, job->wait.epoch, &job->wait);
}
