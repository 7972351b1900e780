#include "daemon/work/high-water-scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/deadline.h"
#include "shm/arena/clock.h"

#define SCAN_SLICE 4096U /* budget of a slice: see shm/slab/slab-walk.h */
#define REST 20U /* the pause after a scan, as a multiple of the time that the scan took */

struct HighWater {
        Pool *pool;
        Task task;
        bool scanning;
        uint64_t spent_usec; /* in the slices of this scan */
        uint64_t rest_until_usec;
        ShmStatsWalk walk;
        ShmStats stats;
        ShmHighWater marks;
        uint64_t requested_sizes[SHM_GRANULES_MAX];
};

static void finish_scan(HighWater *marks, uint64_t now) {
        shm_high_water_raise(&marks->marks, &marks->stats, shm_now_usec());
        shm_high_water_store(&marks->pool->arena, &marks->marks);
        for (uint32_t i = 0; i < SHM_GRANULES_MAX; i++)
                marks->requested_sizes[i] += marks->stats.requested[i];
        marks->rest_until_usec = now + REST * marks->spent_usec;
        marks->scanning = false;
}

static uint64_t on_scan_slice(void *userdata, uint64_t begin) {
        HighWater *marks = userdata;
        bool done = shm_stats_step(&marks->walk, SCAN_SLICE);
        uint64_t now = proto_now_usec();

        marks->spent_usec += now - begin;
        if (done)
                finish_scan(marks, now);
        return done ? TASK_IDLE : 0;
}

void high_water_scan(HighWater *marks) {
        if (marks->scanning || proto_now_usec() < marks->rest_until_usec)
                return;
        shm_stats_begin_sums(&marks->walk, &marks->pool->sums, &marks->stats);
        marks->spent_usec = 0;
        marks->scanning = true;
        task_wake(&marks->task);
}

void high_water_reset(HighWater *marks) {
        marks->marks = (ShmHighWater){};
        memset(marks->requested_sizes, 0, sizeof(marks->requested_sizes));
        shm_high_water_store(&marks->pool->arena, &marks->marks);
        marks->rest_until_usec = 0;
        high_water_scan(marks);
}

const ShmHighWater *high_water_get(const HighWater *marks) {
        return &marks->marks;
}

const uint64_t *high_water_requested_sizes(const HighWater *marks) {
        return marks->requested_sizes;
}

int high_water_new(HighWater **ret_marks, Pool *pool) {
        HighWater *marks = calloc(1, sizeof(*marks));

        if (!marks)
                return -ENOMEM;
        marks->pool = pool;
        shm_high_water_load(&pool->arena, &marks->marks);
        task_init(&marks->task, pool->tasks, "high-water scan", on_scan_slice, marks);
        task_set_background(&marks->task); /* nobody waits for the scan, so all other tasks come first */
        *ret_marks = marks;
        return 0;
}

HighWater *high_water_free(HighWater *marks) {
        if (!marks)
                return NULL;
        task_deinit(&marks->task);
        free(marks);
        return NULL;
}
