#include "daemon/request/counter.h"
#include "daemon/task.h"

#include <errno.h>
#include <stdlib.h>

#define BUDGET 4096U /* of a step: see shm/slab/slab-walk.h */

typedef struct CountJob {
        struct CountJob *next;
        Call call;
        CountAnswer *answer;
} CountJob;

struct Counter {
        Manager *manager;
        Task task;
        CountJob *waiting, *waiting_last; /* for the next walk */
        CountJob *served; /* by the one that is under way, or just over */
        bool counted; /* it is over: answers are next, one a step */
        ShmStatsWalk walk;
        ShmStats stats;
};

static void free_job(CountJob *job) {
        call_close(&job->call);
        free(job);
}

static void free_jobs(CountJob *job) {
        while (job) {
                CountJob *next = job->next;

                free_job(job);
                job = next;
        }
}

static void begin(Counter *counter) {
        counter->served = counter->waiting;
        counter->waiting = counter->waiting_last = NULL;
        counter->counted = false;
        shm_stats_begin(&counter->walk, &counter->manager->pool.arena, &counter->stats);
}

static void answer_one(Counter *counter) {
        CountJob *job = counter->served;

        counter->served = job->next;
        if (job->call.session)
                job->answer(job->call.session, job->call.id, &counter->stats);
        free_job(job);
}

static uint64_t step(void *userdata, uint64_t now) {
        Counter *counter = userdata;

        if (!counter->served)
                begin(counter);
        if (!counter->counted)
                counter->counted =
                        shm_stats_step(&counter->walk, pool_slice(&counter->manager->pool, BUDGET));
        if (counter->counted)
                answer_one(counter);
        return counter->served || counter->waiting ? 0 : TASK_IDLE;
}

int counter_start(Counter *counter, Session *session, uint64_t id, CountAnswer *answer) {
        CountJob *job = calloc(1, sizeof(*job));

        if (!job)
                return -ENOMEM;
        job->answer = answer;
        call_open(&job->call, session, id);
        if (counter->waiting_last)
                counter->waiting_last->next = job;
        else
                counter->waiting = job;
        counter->waiting_last = job;
        task_wake(&counter->task);
        return 0;
}

int counter_new(Counter **ret_counter, Manager *manager) {
        Counter *counter = calloc(1, sizeof(*counter));

        if (!counter)
                return -ENOMEM;
        counter->manager = manager;
        task_init(&counter->task, manager->pool.tasks, "counter", step, counter);
        *ret_counter = counter;
        return 0;
}

Counter *counter_free(Counter *counter) {
        if (!counter)
                return NULL;
        free_jobs(counter->served);
        free_jobs(counter->waiting);
        task_deinit(&counter->task);
        free(counter);
        return NULL;
}
