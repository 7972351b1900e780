#include "daemon/counter.h"
#include "daemon/turn.h"

#include <errno.h>
#include <stdlib.h>

#define SLICE 512U /* groups of slabs a turn */

typedef struct CountJob {
        struct CountJob *next;
        Call call;
        CountAnswer *answer;
} CountJob;

struct Counter {
        Manager *manager;
        sd_event_source *turn;
        CountJob *waiting, *waiting_last; /* for the next walk */
        CountJob *served; /* by the one that is under way */
        ShmStatsWalk walk;
        ShmStats stats;
};

static void free_jobs(CountJob *job) {
        while (job) {
                CountJob *next = job->next;

                call_close(&job->call);
                free(job);
                job = next;
        }
}

static void begin(Counter *counter) {
        counter->served = counter->waiting;
        counter->waiting = counter->waiting_last = NULL;
        shm_stats_begin(&counter->walk, &counter->manager->arena, &counter->stats);
}

static void answer_all(Counter *counter) {
        CountJob *served = counter->served;

        counter->served = NULL;
        for (CountJob *job = served; job; job = job->next)
                if (job->call.session)
                        job->answer(job->call.session, job->call.id, &counter->stats);
        free_jobs(served);
}

static int on_turn(sd_event_source *source, uint64_t usec, void *userdata) {
        Counter *counter = userdata;

        if (!counter->served)
                begin(counter);
        if (shm_stats_step(&counter->walk, manager_slice(counter->manager, SLICE)))
                answer_all(counter);
        (void) sd_event_source_set_enabled(counter->turn,
                                           counter->served || counter->waiting ? SD_EVENT_ON : SD_EVENT_OFF);
        return 0;
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
        (void) sd_event_source_set_enabled(counter->turn, SD_EVENT_ON);
        return 0;
}

int counter_new(Counter **ret_counter, Manager *manager) {
        Counter *counter = calloc(1, sizeof(*counter));
        int r;

        if (!counter)
                return -ENOMEM;
        counter->manager = manager;
        r = turn_new(&counter->turn, manager->event, on_turn, counter);
        if (r < 0) {
                (void) counter_free(counter);
                return r;
        }
        *ret_counter = counter;
        return 0;
}

Counter *counter_free(Counter *counter) {
        if (!counter)
                return NULL;
        free_jobs(counter->served);
        free_jobs(counter->waiting);
        (void) sd_event_source_disable_unref(counter->turn);
        free(counter);
        return NULL;
}
