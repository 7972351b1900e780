#include "daemon/pool.h"

#include <stdlib.h>
#include <time.h>

#include "proto/deadline.h"

static uint64_t wall_clock_usec(void) {
        struct timespec now = {};

        (void) clock_gettime(CLOCK_REALTIME, &now);
        return (uint64_t) now.tv_sec * PROTO_USEC_PER_SEC + (uint64_t) now.tv_nsec / 1000;
}

void pool_init(Pool *pool, Options *options) {
        *pool = (Pool){
                .options = options,
                .arena = { .fd = -1, .wake_fd = -1 },
                .slice_max = secure_getenv("TSLAB_TEST_SLICES") ? 64 : UINT32_MAX,
                .started_usec = proto_now_usec(),
                .born_usec = wall_clock_usec(),
        };
}

int pool_open_loop(Pool *pool) {
        int r = sd_event_new(&pool->event);

        if (r < 0)
                return r;
        return task_queue_new(&pool->tasks, pool->event, pool->slice_max == UINT32_MAX ? TASK_TURN_USEC : 0);
}

void pool_deinit(Pool *pool) {
        shm_slab_sums_deinit(&pool->sums);
        shm_arena_deinit(&pool->arena);
        pool->tasks = task_queue_free(pool->tasks);
        pool->event = sd_event_unref(pool->event);
}
