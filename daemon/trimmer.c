#include "daemon/trimmer.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/events.h"
#include "daemon/log.h"
#include "daemon/maintainer.h"
#include "daemon/message-id.h"
#include "daemon/reserve.h"
#include "daemon/task.h"
#include "shm/pages.h"

#define BUDGET 4096U /* of a step: see shm/pages.h */

#define EMPTYING_USEC 500U /* between two looks */

typedef struct TrimJob {
        struct TrimJob *next;
        Call call;
        uint64_t emptying; /* request to empty all caches, which comes first */
        ShmTrim trim;
        bool trimmed; /* surplus pages are next */
        ShmSurplus surplus;
} TrimJob;

struct Trimmer {
        Manager *manager;
        Task task;
        TrimJob *jobs;
        bool background;
        bool pressed; /* nothing is retained, this time */
        ShmTrim trim; /* in the background */
};

static uint32_t n_kept(const Trimmer *trimmer) {
        const Manager *manager = trimmer->manager;
        uint64_t retained = manager->options->retain_size / SHM_SLAB_SIZE;
        uint32_t high = reserve_high(manager->reserve);

        if (trimmer->pressed)
                return 0;
        if (retained < high)
                retained = high;
        return retained < manager->arena.n_slabs ? (uint32_t) retained : manager->arena.n_slabs;
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
        bool done =
                shm_pages_trim_step(&manager->control, &trimmer->trim, kept, manager_slice(manager, BUDGET));

        /* Clients have taken some of those that were counted. */
        done |= kept > 0 && reserve_n_free(manager->reserve) <= kept;
        if (!done)
                return;
        trimmer->background = false;
        trimmer->pressed = false;
        if (trimmer->trim.n_dropped > 0)
                say(manager, dropped_size(&trimmer->trim), "free bytes were given back");
}

static void answer(const TrimJob *job) {
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__TrimReply trim = TSLAB__TRIM_REPLY__INIT;

        trim.reclaimed_bytes = dropped_size(&job->trim) + job->surplus.size;
        trim.surplus_bytes = job->surplus.size;
        reply.body_case = TSLAB__REPLY__BODY_TRIM;
        reply.trim = &trim;
        if (job->call.session)
                session_send(job->call.session, job->call.id, &reply);
}

static void end_job(Trimmer *trimmer) {
        TrimJob *job = trimmer->jobs;

        trimmer->jobs = job->next;
        call_close(&job->call);
        free(job);
}

static void trim_for_job(Trimmer *trimmer) {
        ShmActor *control = &trimmer->manager->control;
        uint32_t budget = manager_slice(trimmer->manager, BUDGET);
        TrimJob *job = trimmer->jobs;

        if (!job->trimmed) {
                job->trimmed = shm_pages_trim_step(control, &job->trim, 0, budget);
                return;
        }
        if (!shm_pages_drop_surplus_step(control, &job->surplus, budget))
                return;
        answer(job);
        say(trimmer->manager, dropped_size(&job->trim), "free bytes were given back by a trim");
        end_job(trimmer);
}

static uint64_t step(void *userdata, uint64_t now) {
        Trimmer *trimmer = userdata;

        if (trimmer->jobs && !maintainer_has_emptied(trimmer->manager->maintainer, trimmer->jobs->emptying))
                return now + EMPTYING_USEC;
        if (trimmer->jobs)
                trim_for_job(trimmer);
        else if (trimmer->background)
                trim_background(trimmer);
        return trimmer->jobs || trimmer->background ? 0 : TASK_IDLE;
}

/* The background's work from the highest slab on; sums go on where it is under way. */
static void begin_background(Trimmer *trimmer) {
        uint32_t n_dropped = trimmer->background ? trimmer->trim.n_dropped : 0;

        shm_pages_trim_begin(&trimmer->trim, &trimmer->manager->arena);
        trimmer->trim.n_dropped = n_dropped;
        trimmer->background = true;
        task_wake(&trimmer->task);
}

int trimmer_start(Trimmer *trimmer, Session *session, uint64_t id) {
        TrimJob *job = calloc(1, sizeof(*job));

        if (!job)
                return -ENOMEM;
        call_open(&job->call, session, id);
        job->next = trimmer->jobs;
        trimmer->jobs = job;
        reserve_sleep(trimmer->manager->reserve);
        job->emptying = maintainer_empty_caches(trimmer->manager->maintainer);
        shm_pages_trim_begin(&job->trim, &trimmer->manager->arena);
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
        task_init(&trimmer->task, manager->tasks, "trimmer", step, trimmer);
        *ret_trimmer = trimmer;
        return 0;
}

Trimmer *trimmer_free(Trimmer *trimmer) {
        if (!trimmer)
                return NULL;
        while (trimmer->jobs)
                end_job(trimmer);
        task_deinit(&trimmer->task);
        free(trimmer);
        return NULL;
}
