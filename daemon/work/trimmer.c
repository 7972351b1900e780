#include "daemon/work/trimmer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/events.h"
#include "daemon/log.h"
#include "daemon/message-id.h"
#include "proto/cgroup.h"
#include "daemon/work/holder.h"
#include "shm/keeper/decay.h"
#include "shm/slab/pages.h"

#define TRIM_SLICE 4096U /* budget of a slice: see shm/slab/pages.h */

#define EMPTYING_USEC 500U /* until the trimmer checks again whether the caches are empty */

struct Trimmer {
        Pool *pool;
        Maintainer *maintainer;
        Reserve *reserve;
        Task task;
        Queue waiting; /* TrimJob: for the next pass */
        Queue served; /* TrimJob: by the pass that is under way, or has just ended */
        ShmTrim requested; /* the pass for `served` */
        ShmSurplus surplus; /* the second stage of that pass */
        enum { TRIM_SLABS, TRIM_SURPLUS, TRIM_ANSWERS } stage;
        bool background; /* a background pass is under way */
        bool pressed; /* memory is short: the background pass retains `n_spared` slabs only */
        uint32_t n_spared;
        ShmTrim trim; /* the background pass */
};

/* Free slabs that the background pass leaves alone. */
static uint32_t n_retained(const Trimmer *trimmer) {
        const Pool *pool = trimmer->pool;
        uint64_t retained = pool->options->retain_size / SHM_SLAB_SIZE;
        uint32_t high = reserve_high(trimmer->reserve);

        if (trimmer->pressed)
                return trimmer->n_spared;
        if (retained < high)
                retained = high;
        return retained < pool->arena.n_slabs ? (uint32_t) retained : pool->arena.n_slabs;
}

void trimmer_tell_split(char text[TRIMMER_SPLIT_MAX], uint32_t n) {
        text[0] = '\0';
        if (n > 0)
                (void) snprintf(text, TRIMMER_SPLIT_MAX, "; %u huge page%s lost a part", n,
                                n == 1 ? "" : "s");
}

/* The pass has ended. */
static void tell_reclaimed(const Trimmer *trimmer, const ShmTrim *trim, const char *text) {
        uint64_t size = (uint64_t) trim->n_dropped * SHM_SLAB_SIZE;
        char split[TRIMMER_SPLIT_MAX];

        shm_pages_add_splits(&trimmer->pool->arena, &trim->splits);
        trimmer_tell_split(split, trim->splits.n);
        log_fields(LOG_INFO, (LogFields){ .message = MESSAGE_RECLAIM, .size = &size }, "%llu %s%s",
                   (unsigned long long) size, text, split);
        events_send(trimmer->pool, &(EventInfo){ .kind = "reclaim", .size = size }, "%llu %s%s",
                    (unsigned long long) size, text, split);
}

static void trim_background(Trimmer *trimmer) {
        Pool *pool = trimmer->pool;
        uint32_t retained = n_retained(trimmer);
        bool done = shm_pages_trim_step(&pool->actor, &trimmer->trim, retained, pool_slice(pool, TRIM_SLICE));

        /* Clients may have taken some of the slabs that were free when the pass began. */
        done |= retained > 0 && reserve_n_free(trimmer->reserve) <= retained;
        if (!done)
                return;
        trimmer->background = false;
        trimmer->pressed = false;
        if (trimmer->trim.n_dropped > 0)
                tell_reclaimed(trimmer, &trimmer->trim, "free bytes were given back");
}

static void end_trim_job(Trimmer *trimmer, TrimJob *job) {
        job->surplus_size = trimmer->surplus.size;
        job->reclaimed_size = (uint64_t) trimmer->requested.n_dropped * SHM_SLAB_SIZE + trimmer->surplus.size;
        job->n_split = trimmer->requested.splits.n;
        job->on_done(job);
}

/* One pass serves all jobs that have their caches emptied by now. A job that nobody waits for ends without one. */
static void begin_requested_pass(Trimmer *trimmer) {
        TrimJob *job;

        while ((job = queue_first(&trimmer->waiting)) &&
               (!job->is_wanted(job) || maintainer_has_emptied(trimmer->maintainer, job->emptying))) {
                (void) queue_take(&trimmer->waiting);
                if (job->is_wanted(job))
                        queue_append(&trimmer->served, job);
                else
                        end_trim_job(trimmer, job);
        }
        trimmer->stage = TRIM_SLABS;
        trimmer->surplus = (ShmSurplus){};
        shm_pages_trim_begin(&trimmer->requested, &trimmer->pool->arena);
}

static void trim_for_jobs(Trimmer *trimmer) {
        ShmActor *actor = &trimmer->pool->actor;
        uint32_t budget = pool_slice(trimmer->pool, TRIM_SLICE);

        switch (trimmer->stage) {
        case TRIM_SLABS:
                if (shm_pages_trim_step(actor, &trimmer->requested, 0, budget))
                        trimmer->stage = TRIM_SURPLUS;
                break;
        case TRIM_SURPLUS:
                if (!shm_pages_drop_surplus_step(actor, &trimmer->surplus, budget))
                        break;
                tell_reclaimed(trimmer, &trimmer->requested, "free bytes were given back by a trim");
                trimmer->stage = TRIM_ANSWERS;
                break;
        case TRIM_ANSWERS:
                end_trim_job(trimmer, queue_take(&trimmer->served));
        }
}

static uint64_t on_trim_slice(void *userdata, uint64_t now) {
        Trimmer *trimmer = userdata;

        if (!trimmer->served.first && trimmer->waiting.first) {
                begin_requested_pass(trimmer);
                if (!trimmer->served.first && trimmer->waiting.first)
                        return now + EMPTYING_USEC;
        }
        if (trimmer->served.first)
                trim_for_jobs(trimmer);
        else if (trimmer->background)
                trim_background(trimmer);
        return trimmer->served.first || trimmer->waiting.first || trimmer->background ? 0 : TASK_IDLE;
}

/* Begins at the highest slab. If a pass is under way already, it begins anew and keeps its sum. */
static void begin_background_pass(Trimmer *trimmer) {
        ShmTrim before = trimmer->background ? trimmer->trim : (ShmTrim){};

        shm_pages_trim_begin(&trimmer->trim, &trimmer->pool->arena);
        trimmer->trim.n_dropped = before.n_dropped;
        trimmer->trim.splits.n = before.splits.n;
        trimmer->background = true;
        task_wake(&trimmer->task);
}

void trimmer_start(Trimmer *trimmer, TrimJob *job) {
        queue_append(&trimmer->waiting, job);
        reserve_sleep(trimmer->reserve);
        job->emptying = maintainer_empty_caches(trimmer->maintainer);
        task_wake(&trimmer->task);
}

static void begin_pressed_pass(Trimmer *trimmer, uint32_t n_spared) {
        trimmer->pressed = true;
        trimmer->n_spared = n_spared;
        begin_background_pass(trimmer);
}

void trimmer_press(Trimmer *trimmer) {
        reserve_sleep(trimmer->reserve);
        begin_pressed_pass(trimmer, 0);
}

/*
 * How many slabs must lose their pages so that the margin below the limit of the cgroup is free again; 0 while half of
 * it is free, so that a few pages more or less begin no pass. Nobody commits into the margin, but a limit may be
 * lowered, and the kernel kills the daemon once nothing is left for it.
 */
static uint32_t n_over_limit(void) {
        CgroupRoom room;
        int64_t left;

        if (cgroup_find_room(&room, "") < 0)
                return 0;
        left = room.limit - room.used;
        return left < CGROUP_MARGIN_SIZE / 2 ? (uint32_t) ((CGROUP_MARGIN_SIZE - left) / SHM_SLAB_SIZE) : 0;
}

/* Begins at an eighth above the retained size: a pool at that size would otherwise drop and commit in turn. */
void trimmer_tick(Trimmer *trimmer) {
        uint32_t n_free = reserve_n_free(trimmer->reserve), over = n_free > 0 ? n_over_limit() : 0;
        uint32_t retained = n_retained(trimmer);

        if (trimmer->background)
                return;
        if (over > 0)
                begin_pressed_pass(trimmer, n_free > over ? n_free - over : 0);
        else if (shm_decay_is_over(&trimmer->pool->arena, retained))
                begin_background_pass(trimmer);
}

void trimmer_begin(Trimmer *trimmer) {
        trimmer_tick(trimmer);
        if (trimmer->pressed &&
            !holder_leaves_lock(
                    &trimmer->pool->arena,
                    "the memory limit of a control group is near, and no memory can be given back "
                    "before the daemon has the lock of the pool's memory"))
                return;
        while (trimmer->pressed)
                trim_background(trimmer);
}

int trimmer_new(Trimmer **ret_trimmer, Pool *pool, Maintainer *maintainer, Reserve *reserve) {
        Trimmer *trimmer = calloc(1, sizeof(*trimmer));

        if (!trimmer)
                return -ENOMEM;
        trimmer->pool = pool;
        trimmer->maintainer = maintainer;
        trimmer->reserve = reserve;
        task_init(&trimmer->task, pool->tasks, "trimmer", on_trim_slice, trimmer);
        *ret_trimmer = trimmer;
        return 0;
}

Trimmer *trimmer_free(Trimmer *trimmer) {
        TrimJob *job;

        if (!trimmer)
                return NULL;
        while ((job = queue_take(&trimmer->served)) || (job = queue_take(&trimmer->waiting)))
                end_trim_job(trimmer, job);
        task_deinit(&trimmer->task);
        free(trimmer);
        return NULL;
}
