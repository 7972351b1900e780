#include "daemon/maintainer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "daemon/client-watch.h"
#include "daemon/events.h"
#include "daemon/log.h"
#include "daemon/message-id.h"
#include "daemon/reserve.h"
#include "daemon/task.h"
#include "proto/deadline.h"
#include "shm/maintain/maintain.h"

#define COUNT_SLICE 1024U /* slabs a step */
#define PROGRESS_USEC (PROTO_USEC_PER_SEC / 10)

/* What was told of an epoch. */
typedef struct Told {
        uint64_t n_walked, objects, n_rounds;
        uint32_t revoking; /* its number, with its era; 0: nothing of it is, or it was told to be over */
        uint32_t drained; /* the same, of what was told to be empty */
} Told;

struct Maintainer {
        Manager *manager;
        Task task;
        CloseWait *waits;
        bool membarrier_told;
        uint64_t n_repairs_told;
        Told told[SHM_EPOCHS_MAX];
        ShmMaintain engine;
};

/* Telling */

static void tell_membarrier(Maintainer *maintainer) {
        int r = maintainer->engine.membarrier_error;

        if (r < 0 && !maintainer->membarrier_told)
                log_error(
                        LOG_WARNING, r,
                        "membarrier failed: caches of threads that do not fence stay as they are until it works");
        if (r == 0 && maintainer->membarrier_told)
                log_line(LOG_NOTICE, "membarrier works again");
        maintainer->membarrier_told = r < 0;
}

static void tell_repair(Maintainer *maintainer) {
        const ShmRepairCounts *c = &maintainer->engine.repaired;
        const char *format = "%llu records of dead threads repaired: %llu slots given back, %llu objects "
                             "unpublished, %llu slabs released, %llu slots unsettled";

        if (c->records + c->slots + c->objects + c->slabs == 0)
                return;
        log_fields(LOG_INFO, (LogFields){ .message = MESSAGE_REPAIR }, format,
                   (unsigned long long) c->records, (unsigned long long) c->slots,
                   (unsigned long long) c->objects, (unsigned long long) c->slabs,
                   (unsigned long long) c->unsettled);
        events_send(maintainer->manager, &(EventInfo){ .kind = "repair" }, format,
                    (unsigned long long) c->records, (unsigned long long) c->slots,
                    (unsigned long long) c->objects, (unsigned long long) c->slabs,
                    (unsigned long long) c->unsettled);
}

/* Each era once, also where the id was empty before, and no round came in between. */
static void tell_drained(Maintainer *maintainer, Told *told, const ShmEpochInfo *info) {
        uint32_t number = shm_epoch_number(info->id, info->era), before = told->drained;

        told->drained = info->state == SHM_EPOCH_DRAINED ? number : 0;
        if (told->drained == before || told->drained == 0)
                return;
        log_fields(LOG_DEBUG, (LogFields){ .epoch = &number }, "epoch %u:%u drained", info->id, info->era);
        events_send(maintainer->manager,
                    &(EventInfo){ .kind = "drained", .epoch = number, .size = info->reclaimed_size },
                    "epoch %u:%u is empty, %llu bytes were given back", info->id, info->era,
                    (unsigned long long) info->reclaimed_size);
}

static void tell_revoked(Told *told, const ShmClose *close, const ShmEpochInfo *info) {
        uint32_t number = shm_epoch_number(info->id, info->era);
        LogFields fields = { .epoch = &number };

        if (close->revoke.eras.from == 0 && close->revoke.eras.older == 0)
                return;
        if (told->revoking == number)
                log_fields(LOG_DEBUG, fields,
                           "epoch %u:%u was revoked again: %llu slots are in threads' hands", info->id,
                           info->era, (unsigned long long) close->revoke.kept);
        if (told->revoking != number || close->objects != told->objects)
                log_fields(LOG_INFO, fields, "epoch %u:%u: %llu objects revoked", info->id, info->era,
                           (unsigned long long) (close->objects - told->objects));
        told->revoking = info->revoking ? number : 0;
        told->objects = close->objects;
}

/* A round of the epoch is over. */
static void tell_round(Maintainer *maintainer, uint32_t id) {
        const ShmClose *close = &maintainer->engine.closes[id];
        Told *told = &maintainer->told[id];
        ShmEpochInfo info;

        if (shm_epoch_get(&maintainer->manager->arena, id, &info))
                return;
        tell_revoked(told, close, &info);
        tell_drained(maintainer, told, &info);
        reserve_look(maintainer->manager->reserve);
}

static void tell(Maintainer *maintainer) {
        tell_membarrier(maintainer);
        for (uint32_t id = 0; id < maintainer->manager->arena.n_epochs; id++)
                if (maintainer->told[id].n_rounds != maintainer->engine.closes[id].n_rounds) {
                        maintainer->told[id].n_rounds = maintainer->engine.closes[id].n_rounds;
                        tell_round(maintainer, id);
                }
        if (maintainer->n_repairs_told == maintainer->engine.n_repairs)
                return;
        maintainer->n_repairs_told = maintainer->engine.n_repairs;
        tell_repair(maintainer);
        client_watches_repaired(maintainer->manager);
}

/* Waits */

static void finish(Maintainer *maintainer, CloseWait **at) {
        CloseWait *wait = *at;

        *at = wait->next;
        if (shm_maintain_is_settled(&maintainer->engine, wait->epoch, wait->number))
                wait->n_pending = 0;
        wait->on_done(wait);
}

static void report(const Maintainer *maintainer, CloseWait *wait) {
        const ShmClose *close = &maintainer->engine.closes[wait->epoch];

        wait->reclaimed_size = close->reclaimed_size - wait->reclaimed_before;
        wait->n_left = shm_drain_met(&maintainer->manager->arena, &close->walked, wait->era)
                               ? close->walked.n_left
                               : 0;
        wait->n_pending = close->n_pending;
}

/* Whether all that the request waits for has come, or the time is over. */
static bool is_ripe(const Maintainer *maintainer, const CloseWait *wait, uint64_t now) {
        const ShmMaintain *engine = &maintainer->engine;
        bool settled = shm_maintain_is_settled(engine, wait->epoch, wait->number);

        if (!shm_maintain_is_walked(engine, wait->epoch, wait->number))
                return false;
        if (!settled && now < wait->deadline_usec)
                return false;
        return !wait->wait_drained || (wait->n_left == 0 && settled) || now >= wait->drained_deadline_usec;
}

/* True: the request is answered and gone. */
static bool advance_wait(Maintainer *maintainer, CloseWait **at, uint64_t now) {
        CloseWait *wait = *at;

        report(maintainer, wait);
        if (!wait->counting && is_ripe(maintainer, wait, now)) {
                if (!wait->count) {
                        finish(maintainer, at);
                        return true;
                }
                wait->counting = true;
                wait->live = (EpochCount){ .epoch = wait->epoch, .era = wait->era };
        }
        if (wait->counting && epoch_count_step(&wait->live, &maintainer->manager->arena,
                                               manager_slice(maintainer->manager, COUNT_SLICE))) {
                finish(maintainer, at);
                return true;
        }
        if (wait->on_progress && now >= wait->progress_usec) {
                wait->progress_usec = now + PROGRESS_USEC;
                wait->on_progress(wait);
        }
        return false;
}

/* A deadline that is over already was looked at; from then on it is the engine that brings news. */
static uint64_t next_time(const CloseWait *wait, uint64_t now) {
        uint64_t at = wait->counting ? 0 : wait->on_progress ? wait->progress_usec : TASK_IDLE;

        if (wait->deadline_usec > now)
                at = MIN(at, wait->deadline_usec);
        if (wait->wait_drained && wait->drained_deadline_usec > now)
                at = MIN(at, wait->drained_deadline_usec);
        return at;
}

/* Returns when to look at them again. */
static uint64_t advance_waits(Maintainer *maintainer, uint64_t now) {
        uint64_t at = TASK_IDLE;

        for (CloseWait **link = &maintainer->waits; *link;)
                if (!advance_wait(maintainer, link, now)) {
                        at = MIN(at, next_time(*link, now));
                        link = &(*link)->next;
                }
        return at;
}

static uint64_t step(void *userdata, uint64_t now) {
        Maintainer *maintainer = userdata;
        uint64_t next, waits;

        next = shm_maintain_step(&maintainer->engine, now);
        tell(maintainer);
        waits = advance_waits(maintainer, now);
        return MIN(next, waits);
}

/* Requests */

void maintainer_close(Maintainer *maintainer, uint32_t epoch, CloseWait *wait) {
        uint64_t now = proto_now_usec(), number = shm_maintain_close(&maintainer->engine, epoch, now);

        if (wait) {
                wait->number = number;
                wait->reclaimed_before = maintainer->engine.closes[epoch].reclaimed_size;
                wait->progress_usec = now + PROGRESS_USEC;
                wait->counting = false;
                wait->next = maintainer->waits;
                maintainer->waits = wait;
        }
        task_wake(&maintainer->task);
}

uint64_t maintainer_empty_caches(Maintainer *maintainer) {
        task_wake(&maintainer->task);
        return shm_maintain_empty_caches(&maintainer->engine, proto_now_usec());
}

bool maintainer_has_emptied(const Maintainer *maintainer, uint64_t number) {
        return maintainer->engine.n_given >= number;
}

void maintainer_repair(Maintainer *maintainer) {
        shm_maintain_repair(&maintainer->engine);
        task_wake(&maintainer->task);
}

void maintainer_wake(Maintainer *maintainer) {
        shm_maintain_look(&maintainer->engine, false, proto_now_usec());
        task_wake(&maintainer->task);
}

void maintainer_look(Maintainer *maintainer) {
        shm_maintain_look(&maintainer->engine, true, proto_now_usec());
        task_wake(&maintainer->task);
}

uint32_t maintainer_take_over(Maintainer *maintainer) {
        Manager *manager = maintainer->manager;
        ShmRepairCounts counts;
        uint32_t n;

        shm_actor_enter(&manager->control);
        n = shm_maintain_take_over(&maintainer->engine, proto_now_usec(), &counts);
        shm_actor_leave(&manager->control);
        task_wake(&maintainer->task);
        if (counts.slots + counts.objects + counts.slabs + counts.unsettled > 0)
                log_fields(
                        LOG_NOTICE, (LogFields){ .message = MESSAGE_REPAIR },
                        "the last daemon of pool %s was in the middle of something: %llu slots given back, %llu "
                        "slabs undone, %llu slots unsettled",
                        manager->options->pool, (unsigned long long) counts.slots,
                        (unsigned long long) counts.slabs, (unsigned long long) counts.unsettled);
        return n;
}

int maintainer_new(Maintainer **ret_maintainer, Manager *manager) {
        Maintainer *maintainer = calloc(1, sizeof(*maintainer));

        if (!maintainer)
                return -ENOMEM;
        maintainer->manager = manager;
        shm_maintain_init(&maintainer->engine, &manager->control);
        task_init(&maintainer->task, manager->tasks, "maintainer", step, maintainer);
        *ret_maintainer = maintainer;
        return 0;
}

Maintainer *maintainer_free(Maintainer *maintainer) {
        if (!maintainer)
                return NULL;
        while (maintainer->waits)
                finish(maintainer, &maintainer->waits);
        task_deinit(&maintainer->task);
        free(maintainer);
        return NULL;
}
