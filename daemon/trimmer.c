#include "daemon/trimmer.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/drainer.h"
#include "daemon/events.h"
#include "daemon/log.h"
#include "daemon/message-id.h"
#include "daemon/reserve.h"
#include "daemon/turn.h"
#include "shm/pages.h"

#define SLICE 1024U /* slabs a turn */
#define SURPLUS_SLICE 8192U /* slabs looked at in one */

typedef struct TrimJob {
        struct TrimJob *next;
        Call call;
        uint64_t reclaimed_size;
        bool trimmed; /* surplus pages are next */
        ShmSurplus surplus;
} TrimJob;

struct Trimmer {
        Manager *manager;
        sd_event_source *turn;
        TrimJob *jobs;
        bool background;
        bool pressed; /* nothing is retained, this time */
        uint64_t background_size; /* since it began */
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

static void update_turn(Trimmer *trimmer) {
        (void) sd_event_source_set_enabled(trimmer->turn,
                                           trimmer->background || trimmer->jobs ? SD_EVENT_ON : SD_EVENT_OFF);
}

static void say(Manager *manager, uint64_t size, const char *text) {
        log_fields(LOG_INFO, (LogFields){ .message = MESSAGE_RECLAIM, .size = &size }, "%llu %s",
                   (unsigned long long) size, text);
        events_send(manager, &(EventInfo){ .kind = "reclaim", .size = size }, "%llu %s",
                    (unsigned long long) size, text);
}

static void trim_background(Trimmer *trimmer) {
        Manager *manager = trimmer->manager;
        uint32_t n = shm_pages_trim(&manager->control, n_kept(trimmer), SLICE);

        trimmer->background_size += (uint64_t) n * SHM_SLAB_SIZE;
        if (n >= SLICE)
                return;
        trimmer->background = false;
        trimmer->pressed = false;
        if (trimmer->background_size > 0)
                say(manager, trimmer->background_size, "free bytes were given back");
}

static void answer(TrimJob *job, uint64_t surplus_size) {
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__TrimReply trim = TSLAB__TRIM_REPLY__INIT;

        trim.reclaimed_bytes = job->reclaimed_size + surplus_size;
        trim.surplus_bytes = surplus_size;
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
        TrimJob *job = trimmer->jobs;
        uint32_t n;

        if (!job->trimmed) {
                n = shm_pages_trim(control, 0, SLICE);
                job->reclaimed_size += (uint64_t) n * SHM_SLAB_SIZE;
                job->trimmed = n < SLICE;
                return;
        }
        if (!shm_pages_drop_surplus_step(control, &job->surplus,
                                         manager_slice(trimmer->manager, SURPLUS_SLICE)))
                return;
        answer(job, job->surplus.size);
        say(trimmer->manager, job->reclaimed_size, "free bytes were given back by a trim");
        end_job(trimmer);
}

static int on_turn(sd_event_source *source, uint64_t usec, void *userdata) {
        Trimmer *trimmer = userdata;

        if (trimmer->jobs)
                trim_for_job(trimmer);
        else if (trimmer->background)
                trim_background(trimmer);
        update_turn(trimmer);
        return 0;
}

int trimmer_start(Trimmer *trimmer, Session *session, uint64_t id) {
        TrimJob *job = calloc(1, sizeof(*job));

        if (!job)
                return -ENOMEM;
        call_open(&job->call, session, id);
        job->next = trimmer->jobs;
        trimmer->jobs = job;
        reserve_sleep(trimmer->manager->reserve);
        drainer_empty_caches(trimmer->manager->drainer);
        update_turn(trimmer);
        return 0;
}

void trimmer_press(Trimmer *trimmer) {
        reserve_sleep(trimmer->manager->reserve);
        if (!trimmer->background)
                trimmer->background_size = 0;
        trimmer->background = true;
        trimmer->pressed = true;
        update_turn(trimmer);
}

/* An eighth more than is kept before it begins, so that a pool at the edge does not go to and fro. */
void trimmer_tick(Trimmer *trimmer) {
        uint64_t kept = n_kept(trimmer);

        if (trimmer->background || reserve_n_free(trimmer->manager->reserve) <= kept + kept / 8)
                return;
        trimmer->background = true;
        trimmer->background_size = 0;
        update_turn(trimmer);
}

int trimmer_new(Trimmer **ret_trimmer, Manager *manager) {
        Trimmer *trimmer = calloc(1, sizeof(*trimmer));
        int r;

        if (!trimmer)
                return -ENOMEM;
        trimmer->manager = manager;
        r = turn_new(&trimmer->turn, manager->event, on_turn, trimmer);
        if (r < 0) {
                (void) trimmer_free(trimmer);
                return r;
        }
        update_turn(trimmer);
        *ret_trimmer = trimmer;
        return 0;
}

Trimmer *trimmer_free(Trimmer *trimmer) {
        if (!trimmer)
                return NULL;
        while (trimmer->jobs)
                end_job(trimmer);
        (void) sd_event_source_disable_unref(trimmer->turn);
        free(trimmer);
        return NULL;
}
