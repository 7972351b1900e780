#include "daemon/work/maintainer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "daemon/events.h"
#include "daemon/log.h"
#include "daemon/message-id.h"
#include "daemon/task.h"
#include "proto/deadline.h"
#include "shm/arena/clock.h"
#include "shm/maintain/maintain.h"

/* In one slice: */
#define COUNT_SLICE 1024U /* slabs, to count their objects */
#define CHECKS 64U /* waits to check */
#define ENDS 16U /* waits to end */

#define PROGRESS_USEC (PROTO_USEC_PER_SEC / 10)

/* The state of an epoch when it was last logged. */
typedef struct Told {
        uint64_t n_walked, objects, n_rounds;
        uint32_t revoking; /* the epoch's number; 0: nothing is revoked, or the end was logged */
        uint32_t drained; /* the epoch's number, when it was logged as empty */
} Told;

/*
 * A wait goes from `waits` to `over` when its epoch has drained as far as requested, or its time is over. A wait that
 * wants a count of live objects goes there by way of `ripe` and `counted`. One count serves all waits for the same
 * era that were ripe when it began.
 */
struct Maintainer {
        Pool *pool;
        Reserve *reserve;
        void (*on_repaired)(void *userdata);
        void *repaired_userdata;
        Task task;
        Queue waits, ripe, counted, over;
        uint32_t n_waits; /* in `waits` */
        uint32_t n_unchecked; /* waits that the pass under way has not checked yet */
        uint64_t check_usec; /* when the next pass is due */
        EpochCount count; /* for the waits in `counted`, or in `over` */
        bool membarrier_told;
        uint64_t n_repairs_told;
        Told told[SHM_EPOCHS_MAX];
        ShmIdle idle;
        ShmMaintain engine;
};

/* ---- Logging */

static void tell_membarrier(Maintainer *maintainer) {
        int r = maintainer->engine.membarrier_error;

        if (r < 0 && !maintainer->membarrier_told)
                log_error(LOG_WARNING, r,
                          "membarrier failed: until it works, caches of threads that do not fence cannot be "
                          "emptied");
        if (r == 0 && maintainer->membarrier_told)
                log_line(LOG_NOTICE, "membarrier works again");
        maintainer->membarrier_told = r < 0;
}

static void tell_repair(Maintainer *maintainer) {
        const ShmRepairCounts *c = &maintainer->engine.repaired;
        const char *format = "%llu records of dead threads repaired: %llu slots given back, %llu objects "
                             "unpublished, %llu slabs released, %llu slots in flight";

        if (c->records + c->slots + c->objects + c->slabs == 0)
                return;
        log_fields(LOG_INFO, (LogFields){ .message = MESSAGE_REPAIR }, format,
                   (unsigned long long) c->records, (unsigned long long) c->slots,
                   (unsigned long long) c->objects, (unsigned long long) c->slabs,
                   (unsigned long long) c->in_flight);
        events_send(maintainer->pool, &(EventInfo){ .kind = "repair" }, format,
                    (unsigned long long) c->records, (unsigned long long) c->slots,
                    (unsigned long long) c->objects, (unsigned long long) c->slabs,
                    (unsigned long long) c->in_flight);
}

/* Logs each era once, even if the era before was empty, too, and no round came between the two. */
static void tell_drained(Maintainer *maintainer, Told *told, const ShmEpochInfo *info) {
        uint32_t number = shm_epoch_number(info->id, info->era), before = told->drained;

        told->drained = info->state == SHM_EPOCH_DRAINED ? number : 0;
        if (told->drained == before || told->drained == 0)
                return;
        log_fields(LOG_DEBUG, (LogFields){ .epoch = &number }, "epoch %u:%u drained", info->id, info->era);
        events_send(maintainer->pool,
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

/* The engine has ended a round of the epoch. */
static void tell_round(Maintainer *maintainer, uint32_t id) {
        const ShmClose *close = &maintainer->engine.closes[id];
        Told *told = &maintainer->told[id];
        ShmEpochInfo info;

        if (shm_epoch_get(&maintainer->pool->arena, id, &info))
                return;
        tell_revoked(told, close, &info);
        tell_drained(maintainer, told, &info);
        reserve_check(maintainer->reserve);
}

static void tell_news(Maintainer *maintainer) {
        tell_membarrier(maintainer);
        for (uint32_t id = 0; id < maintainer->pool->arena.n_epochs; id++)
                if (maintainer->told[id].n_rounds != maintainer->engine.closes[id].n_rounds) {
                        maintainer->told[id].n_rounds = maintainer->engine.closes[id].n_rounds;
                        maintainer->check_usec = 0;
                        tell_round(maintainer, id);
                }
        if (maintainer->n_repairs_told == maintainer->engine.n_repairs)
                return;
        maintainer->n_repairs_told = maintainer->engine.n_repairs;
        tell_repair(maintainer);
        if (maintainer->on_repaired)
                maintainer->on_repaired(maintainer->repaired_userdata);
}

/* ---- Waits */

static void update_wait(const Maintainer *maintainer, CloseWait *wait) {
        const ShmClose *close = &maintainer->engine.closes[wait->epoch];

        wait->reclaimed_size = close->reclaimed_size - wait->reclaimed_before;
        wait->n_split = close->n_split - wait->split_before;
        wait->n_left =
                shm_drain_met(&maintainer->pool->arena, &close->walked, wait->era) ? close->walked.n_left : 0;
        wait->n_pending = close->n_pending;
}

/* Whether the epoch has drained as far as requested, or the time is over. */
static bool is_wait_over(const Maintainer *maintainer, const CloseWait *wait, uint64_t now) {
        const ShmMaintain *engine = &maintainer->engine;
        bool settled = shm_maintain_is_settled(engine, wait->epoch, wait->number);

        if (!shm_maintain_is_walked(engine, wait->epoch, wait->number))
                return false;
        if (!settled && now < wait->deadline_usec)
                return false;
        return !wait->wait_drained || (wait->n_left == 0 && settled) || now >= wait->drained_deadline_usec;
}

/* An expired deadline was checked already: after it, only a round of the engine can end the wait. */
static uint64_t next_check_time(const CloseWait *wait, uint64_t now) {
        uint64_t at = wait->on_progress ? wait->progress_usec : TASK_IDLE;

        if (wait->deadline_usec > now)
                at = MIN(at, wait->deadline_usec);
        if (wait->wait_drained && wait->drained_deadline_usec > now)
                at = MIN(at, wait->drained_deadline_usec);
        return at;
}

static void check_wait(Maintainer *maintainer, CloseWait *wait, uint64_t now) {
        update_wait(maintainer, wait);
        if (wait->on_progress && now >= wait->progress_usec) {
                wait->progress_usec = now + PROGRESS_USEC;
                wait->on_progress(wait);
        }
        if (is_wait_over(maintainer, wait, now)) {
                maintainer->n_waits--;
                queue_append(wait->count ? &maintainer->ripe : &maintainer->over, wait);
                return;
        }
        queue_append(&maintainer->waits, wait);
        maintainer->check_usec = MIN(maintainer->check_usec, next_check_time(wait, now));
}

/* Checks each wait once after a round of the engine, and when its time comes. */
static void check_waits(Maintainer *maintainer, uint64_t now) {
        uint32_t n = pool_slice(maintainer->pool, CHECKS);

        if (maintainer->n_unchecked == 0 && now >= maintainer->check_usec) {
                maintainer->n_unchecked = maintainer->n_waits;
                maintainer->check_usec = TASK_IDLE;
        }
        for (; n > 0 && maintainer->n_unchecked > 0; n--, maintainer->n_unchecked--)
                check_wait(maintainer, queue_take(&maintainer->waits), now);
}

static void begin_live_count(Maintainer *maintainer) {
        Queue ripe = maintainer->ripe;
        CloseWait *wait = queue_first(&ripe);
        unsigned n_same = 0;

        maintainer->count = (EpochCount){ .epoch = wait->epoch, .era = wait->era };
        maintainer->ripe = (Queue){};
        while ((wait = queue_take(&ripe))) {
                bool same = wait->epoch == maintainer->count.epoch && wait->era == maintainer->count.era;

                if (same)
                        wait->live = &maintainer->count;
                n_same += same;
                queue_append(same ? &maintainer->counted : &maintainer->ripe, wait);
        }
        log_line(LOG_DEBUG, "objects of epoch %u:%u are counted for %u requests", maintainer->count.epoch,
                 maintainer->count.era, n_same);
}

/* Keeps a result until all waits that it serves have ended. */
static void advance_live_count(Maintainer *maintainer) {
        Pool *pool = maintainer->pool;

        if (!maintainer->counted.first && maintainer->ripe.first && !maintainer->over.first)
                begin_live_count(maintainer);
        if (maintainer->counted.first &&
            epoch_count_step(&maintainer->count, &pool->arena, pool_slice(pool, COUNT_SLICE)))
                queue_move_all(&maintainer->over, &maintainer->counted);
}

static void end_waits(Maintainer *maintainer) {
        CloseWait *wait;

        for (uint32_t i = 0; i < ENDS && (wait = queue_take(&maintainer->over)); i++) {
                update_wait(maintainer, wait);
                if (shm_maintain_is_settled(&maintainer->engine, wait->epoch, wait->number))
                        wait->n_pending = 0;
                wait->on_done(wait);
        }
}

/* Returns when the waits need the next slice. */
static uint64_t advance_waits(Maintainer *maintainer, uint64_t now) {
        check_waits(maintainer, now);
        advance_live_count(maintainer);
        end_waits(maintainer);
        return maintainer->n_unchecked > 0 || maintainer->ripe.first || maintainer->counted.first ||
                               maintainer->over.first
                       ? 0
                       : maintainer->check_usec;
}

static uint64_t on_maintainer_slice(void *userdata, uint64_t now) {
        Maintainer *maintainer = userdata;
        uint64_t next, waits;

        next = shm_maintain_step(&maintainer->engine, now);
        tell_news(maintainer);
        waits = advance_waits(maintainer, now);
        return MIN(next, waits);
}

/* ---- Requests to the maintainer */

void maintainer_close(Maintainer *maintainer, uint32_t epoch, CloseWait *wait) {
        static const EpochCount nothing;
        uint64_t now = proto_now_usec(), number = shm_maintain_close(&maintainer->engine, epoch, now);

        if (wait) {
                wait->number = number;
                wait->reclaimed_before = maintainer->engine.closes[epoch].reclaimed_size;
                wait->split_before = maintainer->engine.closes[epoch].n_split;
                wait->progress_usec = now + PROGRESS_USEC;
                wait->live = &nothing;
                queue_append(&maintainer->waits, wait);
                maintainer->n_waits++;
                maintainer->check_usec = 0;
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

void maintainer_notify(Maintainer *maintainer) {
        shm_maintain_look(&maintainer->engine, false, proto_now_usec());
        task_wake(&maintainer->task);
}

void maintainer_rescan(Maintainer *maintainer) {
        shm_map_count_again(&maintainer->pool->arena, shm_now_usec() / 1000);
        shm_maintain_look(&maintainer->engine, true, proto_now_usec());
        task_wake(&maintainer->task);
}

uint32_t maintainer_take_over(Maintainer *maintainer) {
        Pool *pool = maintainer->pool;
        ShmRepairCounts counts;
        uint32_t n;

        shm_actor_enter(&pool->actor);
        n = shm_maintain_take_over(&maintainer->engine, proto_now_usec(), &counts);
        shm_actor_leave(&pool->actor);
        task_wake(&maintainer->task);
        if (counts.slots + counts.objects + counts.slabs + counts.in_flight > 0)
                log_fields(
                        LOG_NOTICE, (LogFields){ .message = MESSAGE_REPAIR },
                        "the last daemon of pool %s ended inside an operation: %llu slots given back, %llu "
                        "slabs undone, %llu slots in flight",
                        pool->options->pool, (unsigned long long) counts.slots,
                        (unsigned long long) counts.slabs, (unsigned long long) counts.in_flight);
        return n;
}

int maintainer_new(Maintainer **ret_maintainer, Pool *pool, Reserve *reserve) {
        Maintainer *maintainer = calloc(1, sizeof(*maintainer));

        if (!maintainer)
                return -ENOMEM;
        maintainer->pool = pool;
        maintainer->reserve = reserve;
        shm_maintain_init(&maintainer->engine, &pool->actor);
        maintainer->engine.expires = true;
        maintainer->engine.idle = &maintainer->idle;
        task_init(&maintainer->task, pool->tasks, "maintainer", on_maintainer_slice, maintainer);
        *ret_maintainer = maintainer;
        return 0;
}

void maintainer_set_on_repaired(Maintainer *maintainer, void (*on_repaired)(void *), void *userdata) {
        maintainer->on_repaired = on_repaired;
        maintainer->repaired_userdata = userdata;
}

Maintainer *maintainer_free(Maintainer *maintainer) {
        if (!maintainer)
                return NULL;
        do {
                queue_move_all(&maintainer->over, &maintainer->waits);
                queue_move_all(&maintainer->over, &maintainer->ripe);
                queue_move_all(&maintainer->over, &maintainer->counted);
                end_waits(maintainer);
        } while (maintainer->over.first || maintainer->waits.first);
        task_deinit(&maintainer->task);
        free(maintainer);
        return NULL;
}
