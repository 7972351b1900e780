/* Closing epochs: what takes a while. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "daemon/drainer.h"
#include "daemon/events.h"
#include "daemon/log.h"
#include "daemon/message-id.h"
#include "daemon/request.h"
#include "daemon/turn.h"
#include "proto/deadline.h"
#include "shm/epoch.h"
#include "shm/maintain/revoke.h"

#define WAIT_DEFAULT_MSEC 200U
#define MSEC UINT64_C(1000)
#define SWEEP_SLICE 256U /* slabs a turn */
#define REST_MIN_USEC 1000U
#define REST_MAX_USEC PROTO_USEC_PER_SEC

struct EpochJob {
        DrainJob drain;
        Call call;
        Manager *manager;
        uint32_t number; /* of the epoch that is closed */
        bool revoking; /* when this walk is over, a sweep follows */
        bool again; /* threads had slots of it in hand: another one follows that */
        bool repeats; /* nobody waits: of these, one for each id */
        bool resting;
        uint64_t rest_usec; /* before the sweep that follows */
        uint32_t n_sweeps;
        ShmRevoke sweep;
        uint64_t deadline_usec; /* for threads, after the first sweep; 0: none */
        bool wait_drained; /* after the last one */
        bool said;
        sd_event_source *turn; /* of the sweep, or of the end of the rest */
        EpochJob *next; /* of those that are swept, or rest */
};

static EpochJob *job_new(RequestContext *context, uint32_t number) {
        EpochJob *job = calloc(1, sizeof(*job));

        if (!job) {
                session_refuse(context->session, context->id, -ENOMEM, "tslabd is out of memory");
                return NULL;
        }
        job->manager = context->session->manager;
        job->number = number;
        job->drain.epoch = number & 0xff;
        job->drain.userdata = job;
        job->drain.deadline_usec = proto_deadline(WAIT_DEFAULT_MSEC * MSEC);
        call_open(&job->call, context->session, context->id);
        return job;
}

static void job_free(EpochJob *job) {
        uint64_t bit = UINT64_C(1) << job->drain.epoch;

        if (job->repeats)
                job->manager->repeating &= ~bit;
        if (job->turn && !(job->manager->repeating & bit))
                job->manager->revoking &= ~bit;
        (void) sd_event_source_disable_unref(job->turn);
        call_close(&job->call);
        free(job);
}

static uint32_t number_now(const ShmArena *arena, uint32_t number) {
        ShmEpochInfo info;

        return shm_epoch_get(arena, number & 0xff, &info) ? number : shm_epoch_number(info.id, info.era);
}

/* Close */

/* For whoever went: a walk yet, with the threads that move on soon. */
static void stop_waiting(EpochJob *job) {
        DrainJob *drain = &job->drain;

        drain->wait_drained = job->wait_drained = false;
        drain->deadline_usec = MIN(drain->deadline_usec, proto_deadline(WAIT_DEFAULT_MSEC * MSEC));
        job->deadline_usec = MIN(job->deadline_usec, drain->deadline_usec);
}

static void on_close_progress(DrainJob *drain) {
        EpochJob *job = drain->userdata;
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__Progress progress = TSLAB__PROGRESS__INIT;
        char text[128];

        if (!job->call.session) {
                stop_waiting(job);
                return;
        }
        (void) snprintf(text, sizeof(text),
                        "closing epoch %u: %u slabs hold objects, %u threads are inside a call", drain->epoch,
                        drain->n_left, drain->n_pending);
        progress.done = drain->reclaimed_size;
        progress.text = text;
        reply.more = true;
        reply.progress = &progress;
        session_send(job->call.session, job->call.id, &reply);
}

static size_t fill_classes(const ShmArena *arena, const EpochCount *live, Tslab__ClassCount *counts,
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

static void answer_close(const EpochJob *job) {
        Tslab__ClassCount counts[SHM_CLASSES_MAX], *pointers[SHM_CLASSES_MAX];
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__EpochCloseReply close = TSLAB__EPOCH_CLOSE_REPLY__INIT;

        close.epoch = job->number;
        close.reclaimed_bytes = job->drain.reclaimed_size;
        close.live_objects = job->drain.live.live_objects;
        close.pending_threads = job->drain.n_pending;
        close.classes = pointers;
        close.n_classes = fill_classes(&job->manager->arena, &job->drain.live, counts, pointers);
        reply.body_case = TSLAB__REPLY__BODY_EPOCH_CLOSE;
        reply.epoch_close = &close;
        session_send(job->call.session, job->call.id, &reply);
}

static void say_closed(const EpochJob *job) {
        const DrainJob *drain = &job->drain;
        LogFields fields = { .message = MESSAGE_EPOCH_CLOSE, .epoch = &job->number };

        fields.size = &drain->reclaimed_size;
        log_fields(LOG_INFO, fields,
                   "epoch %u:%u was closed: %llu bytes given back, %llu objects left, %u threads pending",
                   job->number & 0xff, job->number >> 8, (unsigned long long) drain->reclaimed_size,
                   (unsigned long long) drain->live.live_objects, drain->n_pending);
        events_send(job->manager,
                    &(EventInfo){ .kind = "reclaim", .epoch = job->number, .size = drain->reclaimed_size },
                    "closing epoch %u:%u gave %llu bytes back", job->number & 0xff, job->number >> 8,
                    (unsigned long long) drain->reclaimed_size);
}

static void enter_sweeps(EpochJob *job) {
        job->next = job->manager->sweeps;
        job->manager->sweeps = job;
}

static void leave_sweeps(EpochJob *job) {
        EpochJob **at = &job->manager->sweeps;

        while (*at != job)
                at = &(*at)->next;
        *at = job->next;
}

void epoch_jobs_free(Manager *manager) {
        while (manager->sweeps) {
                EpochJob *job = manager->sweeps;

                leave_sweeps(job);
                job_free(job);
        }
}

static bool is_stopping(const Manager *manager) {
        return sd_event_get_state(manager->event) == SD_EVENT_FINISHED;
}

/* All was seen that was to be, or the id was opened anew: what is left then is of no epoch that was closed. */
static bool is_revoked(const EpochJob *job) {
        ShmEpochInfo info;

        return !job->again || is_stopping(job->manager) ||
               shm_epoch_get(&job->manager->arena, job->drain.epoch, &info) || info.state == SHM_EPOCH_OPEN ||
               info.era != job->number >> 8; /* and closed since: a job of that era's sees to both */
}

static void say_swept(EpochJob *job) {
        LogFields fields = { .epoch = &job->number };

        if (job->n_sweeps++ > 0)
                log_fields(LOG_DEBUG, fields, "epoch %u:%u was swept again, for the %uth time",
                           job->number & 0xff, job->number >> 8, job->n_sweeps);
        if ((job->n_sweeps == 1 && !job->said) || job->sweep.objects > 0)
                log_fields(LOG_INFO, fields, "epoch %u:%u: %llu objects revoked", job->number & 0xff,
                           job->number >> 8, (unsigned long long) job->sweep.objects);
}

static void revoke_alone(Manager *manager, uint32_t number, bool said);

/*
 * Frozen threads were waited for, one way or the other; those that were not keep what they have in hand.
 * Whoever waits for them longer has a sweep more when all have moved on; until then, and after, another
 * job sees to each that does.
 */
static void swept(EpochJob *job) {
        uint64_t reclaimed_before = job->drain.reclaimed_before;

        (void) sd_event_source_set_enabled(job->turn, SD_EVENT_OFF);
        job->again = job->sweep.kept > 0 || job->drain.n_pending > 0;
        leave_sweeps(job);
        say_swept(job);
        job->revoking = job->again && job->n_sweeps == 1 && proto_now_usec() < job->deadline_usec;
        job->drain.deadline_usec = MAX(job->drain.deadline_usec, job->deadline_usec);
        job->drain.wait_drained = job->wait_drained && !job->revoking;
        job->drain.count = !job->said && !job->revoking;
        if (job->again && (job->wait_drained || job->revoking))
                revoke_alone(job->manager, job->number, true);
        drainer_start(job->manager->drainer, job->drain.epoch, &job->drain);
        job->drain.reclaimed_before = reclaimed_before; /* with what the walk before gave back */
}

/* Goes on without anybody waiting: threads that had slots in hand may have moved on. */
static void end_rest(EpochJob *job) {
        (void) sd_event_source_set_enabled(job->turn, SD_EVENT_OFF);
        (void) sd_event_source_set_time(job->turn, 1); /* due at once, as turn_new() has it */
        leave_sweeps(job);
        job->resting = false;
        job->revoking = true;
        job->drain.deadline_usec = proto_deadline(PROTO_USEC_PER_SEC);
        drainer_start(job->manager->drainer, job->drain.epoch, &job->drain);
}

static int on_sweep(sd_event_source *source, uint64_t usec, void *userdata) {
        EpochJob *job = userdata;

        if (job->resting)
                end_rest(job);
        else if (shm_revoke_step(&job->manager->control, &job->sweep, SWEEP_SLICE))
                swept(job);
        return 0;
}

static void sweep(EpochJob *job) {
        job->sweep = (ShmRevoke){ .epoch = job->drain.epoch, .era = job->number >> 8 };
        if (is_stopping(job->manager) || sd_event_source_set_enabled(job->turn, SD_EVENT_ON) < 0) {
                job_free(job);
                return;
        }
        enter_sweeps(job);
}

/*
 * What slots are said to be in hand, clients write, and may write for ever, while each sweep freezes
 * all threads: so the rests grow, and of the jobs of one id, one alone goes on.
 */
static void revoke_again(EpochJob *job) {
        uint64_t bit = UINT64_C(1) << job->drain.epoch;

        if (!job->repeats && job->manager->repeating & bit) {
                job_free(job); /* its flag stays, which the tick looks at when the other one is done */
                return;
        }
        job->repeats = true;
        job->manager->repeating |= bit;
        job->drain.count = job->drain.wait_drained = job->wait_drained = false;
        job->drain.on_progress = NULL;
        job->rest_usec = job->rest_usec == 0 ? REST_MIN_USEC : MIN(job->rest_usec * 2, REST_MAX_USEC);
        if (sd_event_source_set_time(job->turn, proto_deadline(job->rest_usec)) < 0 ||
            sd_event_source_set_enabled(job->turn, SD_EVENT_ON) < 0) {
                job_free(job);
                return;
        }
        job->resting = true;
        enter_sweeps(job);
}

/* What was swept stays so over the death of this daemon; what was not, the next one sweeps. */
static void end_revoking(EpochJob *job) {
        if (job->turn && !job->again && !is_stopping(job->manager))
                shm_epoch_set_revoking(&job->manager->arena, job->number, false);
        job_free(job);
}

static int revoke_new(EpochJob *job) {
        int r = turn_new(&job->turn, job->manager->event, on_sweep, job);

        if (r < 0)
                return r;
        job->revoking = true;
        job->manager->revoking |= UINT64_C(1) << job->drain.epoch;
        return 0;
}

static void on_closed(DrainJob *drain) {
        EpochJob *job = drain->userdata;

        if (job->revoking) {
                sweep(job);
                return;
        }
        if (!job->said)
                say_closed(job);
        job->said = true;
        if (job->call.session)
                answer_close(job);
        call_close(&job->call);
        if (is_revoked(job))
                end_revoking(job);
        else
                revoke_again(job);
}

/* Nobody asks any more, or nobody did: the owner of a lease died, or the last daemon. Or, `said`, others wait. */
static void revoke_alone(Manager *manager, uint32_t number, bool said) {
        uint64_t bit = UINT64_C(1) << (number & 0xff);
        EpochJob *job = manager->repeating & bit ? NULL : calloc(1, sizeof(*job));

        if (!job)
                return; /* the next tick tries again */
        job->manager = manager;
        job->number = number;
        job->drain = (DrainJob){ .epoch = number & 0xff, .userdata = job, .on_done = on_closed };
        job->drain.deadline_usec = proto_deadline(WAIT_DEFAULT_MSEC * MSEC);
        job->said = said;
        job->repeats = true;
        manager->repeating |= bit;
        if (revoke_new(job) < 0) {
                job_free(job);
                return;
        }
        drainer_start(manager->drainer, job->drain.epoch, &job->drain);
}

void epoch_jobs_resume(Manager *manager) {
        ShmEpochInfo info;

        for (uint32_t id = 0; id < manager->arena.n_epochs; id++)
                if (!(manager->revoking >> id & 1) && shm_epoch_get(&manager->arena, id, &info) == 0 &&
                    info.flags & SHM_EPOCH_REVOKE && info.state != SHM_EPOCH_OPEN)
                        revoke_alone(manager, shm_epoch_number(info.id, info.era), false);
}

/* A revocation itself waits for no thread for long. */
static void set_waits(EpochJob *job, const Tslab__EpochClose *close) {
        DrainJob *drain = &job->drain;

        drain->deadline_usec = proto_deadline((close->wait_msec ?: WAIT_DEFAULT_MSEC) * MSEC);
        drain->wait_drained = close->wait_drained;
        drain->drained_deadline_usec =
                close->wait_drained_msec == 0 ? UINT64_MAX : proto_deadline(close->wait_drained_msec * MSEC);
        if (drain->drained_deadline_usec < drain->deadline_usec)
                drain->drained_deadline_usec = drain->deadline_usec;
        drain->count = true;
        if (!close->revoke)
                return;
        job->deadline_usec = drain->deadline_usec;
        job->wait_drained = drain->wait_drained;
        drain->deadline_usec = MIN(drain->deadline_usec, proto_deadline(WAIT_DEFAULT_MSEC * MSEC));
        drain->count = drain->wait_drained = false;
}

void request_epoch_close(RequestContext *context, const ProtoRequest *request) {
        Session *session = context->session;
        Manager *manager = session->manager;
        const Tslab__EpochClose *close = request->epoch_close;
        EpochJob *job;
        int r;

        job = job_new(context, close->epoch);
        if (!job)
                return;
        r = close->revoke ? revoke_new(job) : 0;
        if (r >= 0)
                r = close->revoke ? shm_epoch_revoke(&manager->arena, close->epoch)
                                  : shm_epoch_close(&manager->arena, close->epoch, true);
        if (r < 0) {
                request_refuse_epoch(session, context->id, r, close->epoch);
                job_free(job);
                return;
        }
        job->number = number_now(&manager->arena, close->epoch);
        job->drain.on_progress = on_close_progress;
        job->drain.on_done = on_closed;
        set_waits(job, close);
        events_send(manager, &(EventInfo){ .kind = "close", .epoch = job->number }, "epoch %u:%u is closing",
                    job->number & 0xff, job->number >> 8);
        drainer_start(manager->drainer, job->drain.epoch, &job->drain);
}
