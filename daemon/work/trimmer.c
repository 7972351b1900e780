#include "daemon/work/trimmer.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/events.h"
#include "daemon/log.h"
#include "daemon/work/maintainer.h"
#include "daemon/message-id.h"
#include "daemon/work/reserve.h"
#include "daemon/task.h"
#include "shm/slab/pages.h"

#define BUDGET 4096U /* of a step: see shm/slab/pages.h */

#define EMPTYING_USEC 500U /* between two looks */

typedef struct TrimJob {
        struct TrimJob *next;
        Call call;
        uint64_t emptying; /* request to empty all caches, which comes first */
} TrimJob;

typedef struct TrimJobs {
        TrimJob *first, *last;
} TrimJobs;

struct Trimmer {
        Manager *manager;
        Task task;
        TrimJobs waiting; /* for the next pass */
        TrimJobs served; /* by the one that is under way, or just over */
        ShmTrim asked; /* for `served` */
        ShmSurplus surplus; /* comes after it */
        enum { TRIM_SLABS, TRIM_SURPLUS, TRIM_ANSWERS } stage;
        bool background;
        bool pressed; /* nothing is retained, this time */
        ShmTrim trim; /* in the background */
};

static uint32_t n_kept(const Trimmer *trimmer) {
        const Manager *manager = trimmer->manager;
        uint64_t retained = manager->pool.options->retain_size / SHM_SLAB_SIZE;
        uint32_t high = reserve_high(manager->reserve);

        if (trimmer->pressed)
                return 0;
        if (retained < high)
                retained = high;
        return retained < manager->pool.arena.n_slabs ? (uint32_t) retained : manager->pool.arena.n_slabs;
}

static void say(Manager *manager, uint64_t size, const char *text) {
        log_fields(LOG_INFO, (LogFields){ .message = MESSAGE_RECLAIM, .size = &size }, "%llu %s",
                   (unsigned long long) size, text);
        events_send(manager, &(EventInfo){ .kind = "reclaim", .size = size }, "%llu %s",
                    (unsigned long long) size, text);
}

static uint64_t dropped_size(const ShmTrim *trim) {
        return (uint64_t) trim->n_dropped * SHM_SLAB_SIZE;
}

static void trim_background(Trimmer *trimmer) {
        Manager *manager = trimmer->manager;
        uint32_t kept = n_kept(trimmer);
        bool done = shm_pages_trim_step(&manager->pool.actor, &trimmer->trim, kept,
                                        pool_slice(&manager->pool, BUDGET));

        /* Clients have taken some of those that were counted. */
        done |= kept > 0 && reserve_n_free(manager->reserve) <= kept;
        if (!done)
                return;
        trimmer->background = false;
        trimmer->pressed = false;
        if (trimmer->trim.n_dropped > 0)
                say(manager, dropped_size(&trimmer->trim), "free bytes were given back");
}

static void jobs_append(TrimJobs *jobs, TrimJob *job) {
        job->next = NULL;
        if (jobs->first)
                jobs->last->next = job;
        else
                jobs->first = job;
        jobs->last = job;
}

static TrimJob *jobs_take(TrimJobs *jobs) {
        TrimJob *job = jobs->first;

        if (job)
                jobs->first = job->next;
        return job;
}

static void end_job(TrimJob *job) {
        call_close(&job->call);
        free(job);
}

static void answer_one(Trimmer *trimmer) {
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__TrimReply trim = TSLAB__TRIM_REPLY__INIT;
        TrimJob *job = jobs_take(&trimmer->served);

        trim.reclaimed_bytes = dropped_size(&trimmer->asked) + trimmer->surplus.size;
        trim.surplus_bytes = trimmer->surplus.size;
        reply.body_case = TSLAB__REPLY__BODY_TRIM;
        reply.trim = &trim;
        if (job->call.session)
                session_send(job->call.session, job->call.id, &reply);
        end_job(job);
}

static bool is_emptied(const Trimmer *trimmer, const TrimJob *job) {
        return maintainer_has_emptied(trimmer->manager->maintainer, job->emptying);
}

/* One pass for all jobs for which caches are empty, but those whose sessions are gone. */
static void begin_pass(Trimmer *trimmer) {
        TrimJob *job;

        while ((job = trimmer->waiting.first) && (!job->call.session || is_emptied(trimmer, job))) {
                (void) jobs_take(&trimmer->waiting);
                if (job->call.session)
                        jobs_append(&trimmer->served, job);
                else
                        end_job(job);
        }
        trimmer->stage = TRIM_SLABS;
        trimmer->surplus = (ShmSurplus){};
        shm_pages_trim_begin(&trimmer->asked, &trimmer->manager->pool.arena);
}

static void trim_for_jobs(Trimmer *trimmer) {
        ShmActor *control = &trimmer->manager->pool.actor;
        uint32_t budget = pool_slice(&trimmer->manager->pool, BUDGET);

        switch (trimmer->stage) {
        case TRIM_SLABS:
                if (shm_pages_trim_step(control, &trimmer->asked, 0, budget))
                        trimmer->stage = TRIM_SURPLUS;
                break;
        case TRIM_SURPLUS:
                if (!shm_pages_drop_surplus_step(control, &trimmer->surplus, budget))
                        break;
                say(trimmer->manager, dropped_size(&trimmer->asked), "free bytes were given back by a trim");
                trimmer->stage = TRIM_ANSWERS;
                break;
        case TRIM_ANSWERS:
                answer_one(trimmer);
        }
}

static uint64_t step(void *userdata, uint64_t now) {
        Trimmer *trimmer = userdata;

        if (!trimmer->served.first && trimmer->waiting.first) {
                begin_pass(trimmer);
                if (!trimmer->served.first && trimmer->waiting.first)
                        return now + EMPTYING_USEC;
        }
        if (trimmer->served.first)
                trim_for_jobs(trimmer);
        else if (trimmer->background)
                trim_background(trimmer);
        return trimmer->served.first || trimmer->waiting.first || trimmer->background ? 0 : TASK_IDLE;
}

/* The background's work from the highest slab on; sums go on where it is under way. */
static void begin_background(Trimmer *trimmer) {
        uint32_t n_dropped = trimmer->background ? trimmer->trim.n_dropped : 0;

        shm_pages_trim_begin(&trimmer->trim, &trimmer->manager->pool.arena);
        trimmer->trim.n_dropped = n_dropped;
        trimmer->background = true;
        task_wake(&trimmer->task);
}

int trimmer_start(Trimmer *trimmer, Session *session, uint64_t id) {
        TrimJob *job = calloc(1, sizeof(*job));

        if (!job)
                return -ENOMEM;
        call_open(&job->call, session, id);
        jobs_append(&trimmer->waiting, job);
        reserve_sleep(trimmer->manager->reserve);
        job->emptying = maintainer_empty_caches(trimmer->manager->maintainer);
        task_wake(&trimmer->task);
        return 0;
}

void trimmer_press(Trimmer *trimmer) {
        reserve_sleep(trimmer->manager->reserve);
        trimmer->pressed = true;
        begin_background(trimmer);
}

/* An eighth more than is kept before it begins, so that a pool at the edge does not go to and fro. */
void trimmer_tick(Trimmer *trimmer) {
        uint64_t kept = n_kept(trimmer);

        if (trimmer->background || reserve_n_free(trimmer->manager->reserve) <= kept + kept / 8)
                return;
        begin_background(trimmer);
}

int trimmer_new(Trimmer **ret_trimmer, Manager *manager) {
        Trimmer *trimmer = calloc(1, sizeof(*trimmer));

        if (!trimmer)
                return -ENOMEM;
        trimmer->manager = manager;
        task_init(&trimmer->task, manager->pool.tasks, "trimmer", step, trimmer);
        *ret_trimmer = trimmer;
        return 0;
}

Trimmer *trimmer_free(Trimmer *trimmer) {
        TrimJob *job;

        if (!trimmer)
                return NULL;
        while ((job = jobs_take(&trimmer->served)) || (job = jobs_take(&trimmer->waiting)))
                end_job(job);
        task_deinit(&trimmer->task);
        free(trimmer);
        return NULL;
}
