#include "daemon/drainer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/param.h>

#include "daemon/events.h"
#include "daemon/log.h"
#include "daemon/reserve.h"
#include "daemon/turn.h"
#include "proto/deadline.h"
#include "shm/epoch.h"
#include "shm/maintain/drain.h"
#include "shm/maintain/freeze.h"

#define SLICE 4096U /* slabs a turn */
#define RECORDS_SLICE 16U /* records whose caches are emptied in one */
#define WALK_EVERY_USEC 10000U /* of wakes */
#define LOOK_MIN_USEC 500U
#define LOOK_MAX_USEC (PROTO_USEC_PER_SEC / 10)
#define PROGRESS_USEC (PROTO_USEC_PER_SEC / 10)

typedef enum Phase { IDLE, QUEUED, WALK, WAIT } Phase;

typedef struct EpochDrain {
        Phase phase;
        ShmDrain walk;
        bool final; /* no thread was inside an operation when this walk began */
        bool marking; /* a walk with a new mark is wanted */
        bool woken; /* another walk is wanted */
        uint64_t n_marks, n_walked, n_settled; /* marks set; of these, walked once; walked finally */
        uint32_t n_pending, n_left;
        uint64_t reclaimed_size; /* since the daemon started */
        uint64_t at_usec; /* when to look again: QUEUED, WAIT */
        uint64_t look_usec; /* how long to wait for threads the next time */
        uint64_t walked_usec;
        bool drained_said;
} EpochDrain;

struct Drainer {
        Manager *manager;
        sd_event_source *turn, *timer;
        DrainJob *jobs;
        uint32_t position; /* epoch whose turn is next */
        bool no_membarrier;
        ShmFreeze freeze;
        EpochDrain epochs[SHM_EPOCHS_MAX];
};

/* Goes on emptying caches of the frozen: how many threads keep some of this epoch's still. */
static void thaw(Drainer *drainer, uint32_t epoch) {
        (void) shm_freeze_step(&drainer->manager->control, &drainer->freeze, RECORDS_SLICE);
        drainer->epochs[epoch].n_pending = shm_freeze_left(&drainer->freeze, epoch);
}

void drainer_freeze(Drainer *drainer, uint32_t epoch) {
        int r = shm_freeze_begin(&drainer->manager->control, &drainer->freeze, UINT64_C(1) << epoch);

        if (r < 0 && !drainer->no_membarrier) {
                drainer->no_membarrier = true;
                log_error(LOG_WARNING, r, "no membarrier: clients have to fence for themselves");
        }
}

static void mark(Drainer *drainer, uint32_t epoch) {
        EpochDrain *e = &drainer->epochs[epoch];

        drainer_freeze(drainer, epoch);
        thaw(drainer, epoch);
        e->n_marks++;
        e->marking = false;
        e->look_usec = LOOK_MIN_USEC;
}

static void begin(Drainer *drainer, uint32_t epoch) {
        EpochDrain *e = &drainer->epochs[epoch];

        if (e->marking)
                mark(drainer, epoch);
        e->final = e->n_pending == 0;
        e->woken = false;
        e->walk = (ShmDrain){ .epoch = epoch };
        e->phase = WALK;
}

static void say_drained(Drainer *drainer, uint32_t epoch) {
        EpochDrain *e = &drainer->epochs[epoch];
        ShmEpochInfo info;

        if (shm_epoch_get(&drainer->manager->arena, epoch, &info) || info.state != SHM_EPOCH_DRAINED) {
                e->drained_said = false;
                return;
        }
        if (e->drained_said)
                return;
        e->drained_said = true;
        epoch = shm_epoch_number(info.id, info.era);
        log_fields(LOG_DEBUG, (LogFields){ .epoch = &epoch }, "epoch %u:%u drained", info.id, info.era);
        events_send(drainer->manager,
                    &(EventInfo){ .kind = "drained", .epoch = epoch, .size = info.reclaimed_size },
                    "epoch %u:%u is empty, %llu bytes were given back", info.id, info.era,
                    (unsigned long long) info.reclaimed_size);
}

/* The threads of the mark: none is left, or look again later. */
static void wait_for_threads(Drainer *drainer, uint32_t epoch) {
        EpochDrain *e = &drainer->epochs[epoch];

        thaw(drainer, epoch);
        if (e->n_pending == 0) {
                begin(drainer, epoch);
                return;
        }
        e->phase = WAIT;
        e->at_usec = proto_now_usec();
        if (shm_freeze_pending(&drainer->manager->control, &drainer->freeze) < e->n_pending)
                return; /* some only wait for their turn */
        e->at_usec += e->look_usec;
        e->look_usec = e->look_usec * 2 < LOOK_MAX_USEC ? e->look_usec * 2 : LOOK_MAX_USEC;
}

static void walked(Drainer *drainer, uint32_t epoch) {
        EpochDrain *e = &drainer->epochs[epoch];

        e->n_left = e->walk.n_left;
        e->n_walked = e->n_marks;
        e->walked_usec = proto_now_usec();
        say_drained(drainer, epoch);
        reserve_look(drainer->manager->reserve);
        if (e->final)
                e->n_settled = e->n_marks;
        if (e->marking) {
                begin(drainer, epoch);
        } else if (!e->final) {
                wait_for_threads(drainer, epoch);
        } else if (e->woken) {
                e->phase = QUEUED;
                e->at_usec = e->walked_usec + WALK_EVERY_USEC;
        } else {
                e->phase = IDLE;
        }
}

static void walk_slice(Drainer *drainer, uint32_t epoch) {
        EpochDrain *e = &drainer->epochs[epoch];
        uint64_t before = e->walk.reclaimed_size;
        bool done =
                shm_drain_step(&drainer->manager->control, &e->walk, manager_slice(drainer->manager, SLICE));

        e->reclaimed_size += e->walk.reclaimed_size - before;
        if (done)
                walked(drainer, epoch);
}

/* Jobs */

static void finish(Drainer *drainer, DrainJob **at) {
        DrainJob *job = *at;
        EpochDrain *e = &drainer->epochs[job->epoch];

        *at = job->next;
        job->n_pending = e->n_settled >= job->mark ? 0 : e->n_pending;
        job->on_done(job);
}

static void report(const Drainer *drainer, DrainJob *job) {
        const EpochDrain *e = &drainer->epochs[job->epoch];

        job->reclaimed_size = e->reclaimed_size - job->reclaimed_before;
        job->n_left = e->n_left;
        job->n_pending = e->n_pending;
}

/* Whether all that the job waits for has come, or the time is over. */
static bool is_ripe(const Drainer *drainer, const DrainJob *job, uint64_t now) {
        const EpochDrain *e = &drainer->epochs[job->epoch];

        if (e->n_walked < job->mark)
                return false;
        if (e->n_settled < job->mark && now < job->deadline_usec)
                return false;
        return !job->wait_drained || (e->n_left == 0 && e->n_settled >= job->mark) ||
               now >= job->drained_deadline_usec;
}

/* True: the job is done and gone. */
static bool advance_job(Drainer *drainer, DrainJob **at, uint64_t now) {
        DrainJob *job = *at;

        report(drainer, job);
        if (!job->counting && is_ripe(drainer, job, now)) {
                job->counting = job->count;
                job->live = (EpochCount){ .epoch = job->epoch };
                if (!job->count) {
                        finish(drainer, at);
                        return true;
                }
        }
        if (job->counting &&
            epoch_count_step(&job->live, &drainer->manager->arena, manager_slice(drainer->manager, SLICE))) {
                finish(drainer, at);
                return true;
        }
        if (job->on_progress && now >= job->progress_usec) {
                job->progress_usec = now + PROGRESS_USEC;
                job->on_progress(job);
        }
        return false;
}

static void advance_jobs(Drainer *drainer) {
        uint64_t now = proto_now_usec();
        DrainJob **at = &drainer->jobs;

        while (*at)
                if (!advance_job(drainer, at, now))
                        at = &(*at)->next;
}

/* Turns */

/* What is over already was looked at; from then on it is the walk that brings news. */
static uint64_t job_time(const DrainJob *job, uint64_t now) {
        uint64_t at = job->on_progress ? job->progress_usec : UINT64_MAX;

        if (job->deadline_usec > now)
                at = MIN(at, job->deadline_usec);
        if (job->wait_drained && job->drained_deadline_usec > now)
                at = MIN(at, job->drained_deadline_usec);
        return at;
}

/* What there is to do now, and when the next. */
static void schedule(Drainer *drainer) {
        uint64_t now = proto_now_usec(), at = UINT64_MAX;
        bool busy = false;

        for (uint32_t i = 0; i < drainer->manager->arena.n_epochs; i++) {
                const EpochDrain *e = &drainer->epochs[i];

                busy |= e->phase == WALK;
                if (e->phase == QUEUED || e->phase == WAIT)
                        at = MIN(at, e->at_usec);
        }
        for (const DrainJob *job = drainer->jobs; job; job = job->next) {
                busy |= job->counting;
                at = MIN(at, job_time(job, now));
        }
        (void) sd_event_source_set_enabled(drainer->turn, busy ? SD_EVENT_ON : SD_EVENT_OFF);
        (void) sd_event_source_set_time(drainer->timer, at);
        (void) sd_event_source_set_enabled(drainer->timer,
                                           at == UINT64_MAX ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

static int on_turn(sd_event_source *source, uint64_t usec, void *userdata) {
        Drainer *drainer = userdata;
        uint32_t n_epochs = drainer->manager->arena.n_epochs;

        for (uint32_t i = 0; i < n_epochs; i++) {
                uint32_t epoch = (drainer->position + i) % n_epochs;

                if (drainer->epochs[epoch].phase == WALK) {
                        drainer->position = epoch + 1;
                        walk_slice(drainer, epoch);
                        break;
                }
        }
        advance_jobs(drainer);
        schedule(drainer);
        return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        Drainer *drainer = userdata;
        uint64_t now = proto_now_usec();

        for (uint32_t i = 0; i < drainer->manager->arena.n_epochs; i++) {
                EpochDrain *e = &drainer->epochs[i];

                if (e->phase == QUEUED && now >= e->at_usec)
                        begin(drainer, i);
                else if (e->phase == WAIT && now >= e->at_usec)
                        wait_for_threads(drainer, i);
        }
        advance_jobs(drainer);
        schedule(drainer);
        return 0;
}

void drainer_start(Drainer *drainer, uint32_t epoch, DrainJob *job) {
        EpochDrain *e = &drainer->epochs[epoch];

        e->marking = true;
        if (job) {
                job->mark = e->n_marks + 1;
                job->reclaimed_before = e->reclaimed_size;
                job->progress_usec = proto_now_usec() + PROGRESS_USEC;
                job->counting = false;
                job->next = drainer->jobs;
                drainer->jobs = job;
        }
        if (e->phase != WALK)
                begin(drainer, epoch);
        schedule(drainer);
}

/* Something of it, closed or of an earlier era, is to drain yet. */
static bool is_draining(const Drainer *drainer, uint32_t epoch) {
        ShmEpochInfo info;

        if (drainer->epochs[epoch].n_left > 0)
                return true;
        return shm_epoch_get(&drainer->manager->arena, epoch, &info) == 0 &&
               info.state == SHM_EPOCH_CLOSING && info.flags & SHM_EPOCH_DRAIN;
}

static void wake_epoch(Drainer *drainer, uint32_t epoch) {
        EpochDrain *e = &drainer->epochs[epoch];
        uint64_t now = proto_now_usec();

        e->woken = true;
        if (e->phase == WALK || e->phase == QUEUED)
                return;
        e->phase = QUEUED;
        e->at_usec = e->walked_usec + WALK_EVERY_USEC;
        if (e->at_usec < now)
                e->at_usec = now;
}

void drainer_look(Drainer *drainer) {
        for (uint32_t i = 0; i < drainer->manager->arena.n_epochs; i++)
                if (is_draining(drainer, i))
                        wake_epoch(drainer, i);
        schedule(drainer);
}

void drainer_empty_caches(Drainer *drainer) {
        ShmHeader *header = drainer->manager->arena.header;
        /* ORDER: acq; who asks after this is for the next time. */
        uint64_t wanted = shm_load_acq(&header->caches_wanted.value);

        (void) shm_freeze_begin(&drainer->manager->control, &drainer->freeze, UINT64_MAX);
        (void) shm_freeze_step(&drainer->manager->control, &drainer->freeze, UINT32_MAX);
        /* ORDER: rel, pairs with ask_daemon(); the slots are back in their slabs. */
        shm_store_rel(&header->caches_given.value, wanted);
}

/* By a client that is out of memory. */
static bool caches_wanted(const Drainer *drainer) {
        const ShmHeader *header = drainer->manager->arena.header;

        /* ORDER: acq, pairs with ask_daemon(); its number. ORDER: rlx; this one is ours. */
        return shm_load_acq(&header->caches_wanted.value) != shm_load_rlx(&header->caches_given.value);
}

void drainer_wake(Drainer *drainer) {
        if (caches_wanted(drainer))
                drainer_empty_caches(drainer);
        /* ORDER: acq, pairs with shm_slab_give_back(); the slabs that it counts are seen by the walk. */
        if (shm_load_acq(&drainer->manager->arena.header->n_drained.value) != 0)
                drainer_look(drainer);
}

void drainer_tick(Drainer *drainer) {
        /* A thread may have left while it was being thawed: its record is for us to finish. */
        (void) shm_freeze_finish_left(&drainer->manager->control);
        drainer_look(drainer);
}

int drainer_new(Drainer **ret_drainer, Manager *manager) {
        Drainer *drainer = calloc(1, sizeof(*drainer));
        int r;

        if (!drainer)
                return -ENOMEM;
        drainer->manager = manager;
        r = turn_new(&drainer->turn, manager->event, on_turn, drainer);
        if (r >= 0)
                r = sd_event_add_time(manager->event, &drainer->timer, CLOCK_MONOTONIC, UINT64_MAX, 100,
                                      on_timer, drainer);
        if (r < 0) {
                (void) drainer_free(drainer);
                return r;
        }
        schedule(drainer);
        *ret_drainer = drainer;
        return 0;
}

Drainer *drainer_free(Drainer *drainer) {
        if (!drainer)
                return NULL;
        while (drainer->jobs)
                finish(drainer, &drainer->jobs);
        (void) sd_event_source_disable_unref(drainer->turn);
        (void) sd_event_source_disable_unref(drainer->timer);
        free(drainer);
        return NULL;
}
