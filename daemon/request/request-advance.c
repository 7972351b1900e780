/*
 * Advancing to the next epoch. Objects of earlier eras of its id drain first. One advance is under way at a time,
 * since each advance changes which epoch is next; the others wait in a queue.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/events.h"
#include "daemon/log.h"
#include "daemon/request/request.h"
#include "daemon/request/trail.h"
#include "proto/deadline.h"
#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch-open.h"

#define WAIT_USEC (PROTO_USEC_PER_SEC / 5) /* for threads inside a call */

typedef struct AdvanceJob {
        QueueLink link;
        CloseWait wait;
        Call call;
        Requests *requests;
        Trail trail;
        uint32_t expected; /* 0: whichever epoch is current */
} AdvanceJob;

static void answer_advance(const AdvanceJob *job, uint32_t number, bool unexpected) {
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__EpochAdvanceReply advance = TSLAB__EPOCH_ADVANCE_REPLY__INIT;

        advance.epoch = number;
        advance.unexpected = unexpected;
        reply.body_case = TSLAB__REPLY__BODY_EPOCH_ADVANCE;
        reply.epoch_advance = &advance;
        session_send(job->call.session, job->call.id, &reply);
}

static void finish_advance(AdvanceJob *job) {
        uint32_t number;
        int r = shm_epoch_advance(&job->requests->pool->arena, &number);

        if (r < 0) {
                request_refuse_epoch(job->requests, job->call.session, job->call.id, r, job->wait.epoch);
                return;
        }
        trail_log(&job->trail, "advance", &number, "advanced to epoch %u:%u", number & 0xff, number >> 8);
        events_send(job->requests->pool, &(EventInfo){ .kind = "advance", .epoch = number },
                    "epoch %u:%u is current", number & 0xff, number >> 8);
        answer_advance(job, number, false);
}

/* False: it is over, done or refused. */
static bool start_advance(AdvanceJob *job) {
        ShmArena *arena = &job->requests->pool->arena;
        uint32_t current = shm_epoch_current(arena);
        int r;

        if (job->expected != 0 && job->expected != current) {
                answer_advance(job, current, true);
                return false;
        }
        r = shm_epoch_next(arena, &job->wait.epoch);
        if (r == 0 && shm_epoch_is_drained(arena, job->wait.epoch)) {
                finish_advance(job);
                return false;
        }
        if (r == 0)
                r = shm_epoch_close(arena, job->wait.epoch, true);
        if (r < 0) {
                request_refuse_epoch(job->requests, job->call.session, job->call.id, r, job->wait.epoch);
                return false;
        }
        log_line(LOG_DEBUG, "epoch %u is drained for an advance", job->wait.epoch);
        job->wait.deadline_usec = proto_deadline(WAIT_USEC);
        maintainer_close(job->requests->maintainer, job->wait.epoch, &job->wait);
        return true;
}

static void end_first_advance(Requests *requests) {
        AdvanceJob *job = queue_take(&requests->advances);

        call_close(&job->call);
        free(job);
}

/* Starts the first advance of the queue. Skips advances without a session, which nobody waits for. */
static void start_first_advance(Requests *requests) {
        AdvanceJob *job;

        while ((job = queue_first(&requests->advances)) && (!job->call.session || !start_advance(job)))
                end_first_advance(requests);
}

/* If the next epoch was reserved meanwhile, the id after it is drained instead. */
static void on_next_drained(CloseWait *wait) {
        AdvanceJob *job = wait->userdata;
        Requests *requests = job->requests;
        uint32_t next;

        if (!job->call.session || shm_epoch_next(&requests->pool->arena, &next) || next == wait->epoch) {
                if (job->call.session)
                        finish_advance(job);
                end_first_advance(requests);
        }
        start_first_advance(requests);
}

void request_epoch_advance(RequestContext *context, const ProtoRequest *request) {
        Requests *requests = context->requests;
        AdvanceJob *job = calloc(1, sizeof(*job));

        if (!job) {
                request_refuse_memory(context->session, context->id);
                return;
        }
        job->requests = requests;
        trail_init(&job->trail, context);
        job->expected = request->epoch_advance->expected;
        job->wait.userdata = job;
        job->wait.on_done = on_next_drained;
        call_open(&job->call, context->session, context->id);
        queue_append(&requests->advances, job);
        if (queue_first(&requests->advances) == job)
                start_first_advance(requests);
}
