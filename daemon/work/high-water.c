#include "daemon/work/high-water.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/task.h"
#include "proto/deadline.h"
#include "shm/arena/clock.h"

#define BUDGET 4096U /* of a step: see shm/slab/slab-walk.h */
#define REST 20U /* times as long as a look took */

struct Peaks {
        Manager *manager;
        Task task;
        bool looking;
        uint64_t spent_usec; /* in steps of this look */
        uint64_t rest_until_usec;
        ShmStatsWalk walk;
        ShmStats stats;
        ShmPeaks marks;
        uint64_t asked[SHM_GRANULES_MAX];
};

static void finish(Peaks *peaks, uint64_t now) {
        shm_peaks_raise(&peaks->marks, &peaks->stats, shm_now_usec());
        shm_peaks_store(&peaks->manager->pool.arena, &peaks->marks);
        for (uint32_t i = 0; i < SHM_GRANULES_MAX; i++)
                peaks->asked[i] += peaks->stats.requested[i];
        peaks->rest_until_usec = now + REST * peaks->spent_usec;
        peaks->looking = false;
}

static uint64_t step(void *userdata, uint64_t begin) {
        Peaks *peaks = userdata;
        bool done = shm_stats_step(&peaks->walk, BUDGET);
        uint64_t now = proto_now_usec();

        peaks->spent_usec += now - begin;
        if (done)
                finish(peaks, now);
        return done ? TASK_IDLE : 0;
}

void peaks_look(Peaks *peaks) {
        if (peaks->looking || proto_now_usec() < peaks->rest_until_usec)
                return;
        shm_stats_begin(&peaks->walk, &peaks->manager->pool.arena, &peaks->stats);
        peaks->spent_usec = 0;
        peaks->looking = true;
        task_wake(&peaks->task);
}

const ShmPeaks *peaks_get(const Peaks *peaks) {
        return &peaks->marks;
}

const uint64_t *peaks_asked(const Peaks *peaks) {
        return peaks->asked;
}

int peaks_new(Peaks **ret_peaks, Manager *manager) {
        Peaks *peaks = calloc(1, sizeof(*peaks));

        if (!peaks)
                return -ENOMEM;
        peaks->manager = manager;
        shm_peaks_load(&manager->pool.arena, &peaks->marks);
        task_init(&peaks->task, manager->pool.tasks, "peaks", step, peaks);
        task_set_background(&peaks->task); /* what somebody waits for comes first */
        *ret_peaks = peaks;
        return 0;
}

Peaks *peaks_free(Peaks *peaks) {
        if (!peaks)
                return NULL;
        task_deinit(&peaks->task);
        free(peaks);
        return NULL;
}
