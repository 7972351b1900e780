#include "tests/crash/world-pool.h"

#include <tslab.h>

#include "libclient/pool/pool.h"
#include "tests/util/test.h"

#define N_BATCH 40 /* more than a cache begins with */

static void deinit(World *w) {
        assert_null(tslab_close(w->pool));
}

static void make(World *w) {
        struct tslab_options options = {
                .size = sizeof(options),
                .cache = TSLAB_CACHE_ON,
                .arena_bytes = 48 * SHM_SLAB_SIZE,
                .n_threads = 8,
                .n_epochs = 3,
                .n_classes = 4,
                .classes = { 64, 96, 128, 256 },
        };
        void *object;

        assert_int_equal(tslab_create(&w->pool, &options), 0);
        for (; w->n < N_BATCH; w->n++)
                assert_int_equal(tslab_alloc(w->pool, 64, TSLAB_EPOCH_CURRENT, &w->objects[w->n], &object),
                                 0);
        w->arena = w->pool->arena;
        w->deinit = deinit;
        shm_actor_init_daemon(&w->control, &w->arena);
        assert_int_equal(shm_actor_init(&w->survivor, &w->arena, WORLD_SURVIVOR, 1), 0);
        w->survivor.mode = SHM_CACHE_ON;
}

static void prepare_nothing(World *w) {
}

/* The child has attached, and has a record with a cache. */
static int enter(World *w) {
        tslab_handle handle;
        void *object;
        int r;

        r = tslab_alloc(w->pool, 64, TSLAB_EPOCH_CURRENT, &handle, &object);
        return r ?: tslab_free(w->pool, handle);
}

static int run_alloc(World *w) {
        tslab_handle handle;
        void *object;

        return tslab_alloc(w->pool, 64, TSLAB_EPOCH_CURRENT, &handle, &object);
}

static int run_free(World *w) {
        return tslab_free(w->pool, w->objects[0]);
}

static int run_alloc_batch(World *w) {
        tslab_handle handles[N_BATCH];

        return tslab_alloc_batch(w->pool, 64, TSLAB_EPOCH_CURRENT, handles, N_BATCH) == N_BATCH ? 0 : -1;
}

static int run_free_batch(World *w) {
        return tslab_free_batch(w->pool, w->objects, N_BATCH) == N_BATCH ? 0 : -1;
}

#define POOL .make = make, .prepare = prepare_nothing

const Operation pool_operations[] = {
        { "fork child's first alloc", POOL, .run = run_alloc, .most = 1 },
        { "fork child's first free", POOL, .run = run_free, .least = -1 },
        { "batch alloc", POOL, .enter = enter, .run = run_alloc_batch, .most = N_BATCH },
        { "batch free", POOL, .enter = enter, .run = run_free_batch, .least = -N_BATCH },
};

const unsigned n_pool_operations = sizeof(pool_operations) / sizeof(pool_operations[0]);
