/* Advancing to the next epoch: what is left of earlier eras of its id drains first. */
#include <errno.h>
#include <stdlib.h>

#include "daemon/events.h"
#include "daemon/log.h"
#include "daemon/maintainer.h"
#include "daemon/request.h"
#include "proto/deadline.h"
#include "shm/epoch.h"

#define WAIT_USEC (PROTO_USEC_PER_SEC / 5) /* for threads inside an operation */

typedef struct AdvanceJob {
        CloseWait wait;
        Call call;
        Manager *manager;
} AdvanceJob;

static void job_free(AdvanceJob *job) {
        call_close(&job->call);
        free(job);
}

static void answer_advance(const AdvanceJob *job, uint32_t number) {
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__EpochAdvanceReply advance = TSLAB__EPOCH_ADVANCE_REPLY__INIT;

        advance.epoch = number;
        reply.body_case = TSLAB__REPLY__BODY_EPOCH_ADVANCE;
        reply.epoch_advance = &advance;
        session_send(job->call.session, job->call.id, &reply);
}

static void finish_advance(AdvanceJob *job) {
        uint32_t number;
        int r = shm_epoch_advance(&job->manager->arena, &number);

        if (r < 0) {
                request_refuse_epoch(job->call.session, job->call.id, r, job->wait.epoch);
                return;
        }
        log_fields(LOG_DEBUG, (LogFields){ .epoch = &number }, "epoch %u:%u is current", number & 0xff,
                   number >> 8);
        events_send(job->manager, &(EventInfo){ .kind = "advance", .epoch = number },
                    "epoch %u:%u is current", number & 0xff, number >> 8);
        answer_advance(job, number);
}

/* False: it is not to be done, which was said. */
static bool start_advance(AdvanceJob *job) {
        ShmArena *arena = &job->manager->arena;
        int r = shm_epoch_next(arena, &job->wait.epoch);

        if (r == 0)
                r = shm_epoch_close(arena, job->wait.epoch, true);
        if (r < 0) {
                request_refuse_epoch(job->call.session, job->call.id, r, job->wait.epoch);
                return false;
        }
        job->wait.deadline_usec = proto_deadline(WAIT_USEC);
        maintainer_close(job->manager->maintainer, job->wait.epoch, &job->wait);
        return true;
}

/* Another advance may have been faster: then it is the turn of the id after. */
static void on_next_drained(CloseWait *wait) {
        AdvanceJob *job = wait->userdata;
        uint32_t next;

        if (job->call.session) {
                if (shm_epoch_next(&job->manager->arena, &next) == 0 && next != wait->epoch) {
                        if (start_advance(job))
                                return;
                } else {
                        finish_advance(job);
                }
        }
        job_free(job);
}

void request_epoch_advance(RequestContext *context, const ProtoRequest *request) {
        AdvanceJob *job = calloc(1, sizeof(*job));

        if (!job) {
                session_refuse(context->session, context->id, -ENOMEM, "tslabd is out of memory");
                return;
        }
        job->manager = context->session->manager;
        job->wait.userdata = job;
        job->wait.on_done = on_next_drained;
        call_open(&job->call, context->session, context->id);
        if (!start_advance(job))
                job_free(job);
}
