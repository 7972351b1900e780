#include "daemon/request/counter.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/request/map-info.h"

#define COUNT_SLICE 4096U /* budget of a slice: see shm/slab/slab-walk.h */

typedef struct CountJob {
        QueueLink link;
        Call call;
        CountAnswer *answer;
} CountJob;

struct Counter {
        const Requests *requests;
        Task task;
        Queue waiting; /* CountJob: for the next walk */
        Queue served; /* CountJob: by the walk that is under way, or has just ended */
        bool counted; /* the walk has ended, and each slice answers one job */
        ShmStatsWalk walk;
        ShmStats stats;
};

static void count_job_free(CountJob *job) {
        call_close(&job->call);
        free(job);
}

static void begin_count_walk(Counter *counter) {
        Pool *pool = counter->requests->pool;

        queue_move_all(&counter->served, &counter->waiting);
        counter->counted = false;
        if (pool->sums.arena)
                shm_stats_begin_sums(&counter->walk, &pool->sums, &counter->stats);
        else
                shm_stats_begin(&counter->walk, &pool->arena, &counter->stats);
        counter->walk.maps = map_info_set(&pool->arena);
}

static void answer_one_count(Counter *counter) {
        CountJob *job = queue_take(&counter->served);

        if (job->call.session)
                job->answer(counter->requests, job->call.session, job->call.id, &counter->stats);
        count_job_free(job);
}

static uint64_t on_count_slice(void *userdata, uint64_t now) {
        Counter *counter = userdata;

        if (!counter->served.first)
                begin_count_walk(counter);
        if (!counter->counted)
                counter->counted =
                        shm_stats_step(&counter->walk, pool_slice(counter->requests->pool, COUNT_SLICE));
        if (counter->counted)
                answer_one_count(counter);
        return counter->served.first || counter->waiting.first ? 0 : TASK_IDLE;
}

int counter_start(Counter *counter, Session *session, uint64_t id, CountAnswer *answer) {
        CountJob *job = calloc(1, sizeof(*job));

        if (!job)
                return -ENOMEM;
        job->answer = answer;
        call_open(&job->call, session, id);
        queue_append(&counter->waiting, job);
        task_wake(&counter->task);
        return 0;
}

int counter_new(Counter **ret_counter, const Requests *requests) {
        Counter *counter = calloc(1, sizeof(*counter));

        if (!counter)
                return -ENOMEM;
        counter->requests = requests;
        task_init(&counter->task, requests->pool->tasks, "counter", on_count_slice, counter);
        *ret_counter = counter;
        return 0;
}

Counter *counter_free(Counter *counter) {
        CountJob *job;

        if (!counter)
                return NULL;
        while ((job = queue_take(&counter->served)) || (job = queue_take(&counter->waiting)))
                count_job_free(job);
        task_deinit(&counter->task);
        free(counter);
        return NULL;
}
