/*
 * Threads with caches, while control advances, closes, freezes, trims and checks all the time. Objects go from thread
 * to thread, each with a pattern of its own. At the end nothing is lost or doubled, and nothing is left.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shm/arena/clock.h"
#include "shm/cache/cache.h"
#include "shm/arena/client.h"
#include "shm/maintain/check.h"
#include "shm/maintain/drain.h"
#include "shm/maintain/freeze.h"
#include "shm/slab/pages.h"
#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch-open.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

#define N_THREADS 4
#define N_OWN 512
#define N_SHARED 256

typedef struct World {
        ShmArena arena;
        uint32_t client;
        uint64_t shared[N_SHARED]; /* handles on their way to the thread that takes them */
        int stop;
        uint64_t seed;
} World;

typedef struct Worker {
        World *world;
        pthread_t thread;
        uint64_t state;
        uint64_t own[N_OWN];
        uint64_t n_ops, n_bad;
} Worker;

static uint64_t next(uint64_t *state) {
        *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
        return *state >> 33;
}

/* The first word of an object is its handle, the last byte of its size a digest of it. */
static uint64_t make(Worker *w, ShmActor *actor) {
        size_t size = 16 + next(&w->state) % 753;
        uint32_t epoch = next(&w->state) % 4 ? SHM_EPOCH_CURRENT : next(&w->state) % 4;
        uint64_t handle;
        void *object;
        int r;

        r = shm_object_alloc(actor, size, epoch, NULL, &handle, &object);
        if (r) {
                w->n_bad += r != -ENOMEM && r != -ESHUTDOWN;
                return 0;
        }
        memcpy(object, &handle, 8);
        ((uint8_t *) object)[15] = (uint8_t) (handle ^ handle >> 8);
        return handle;
}

static void destroy(Worker *w, ShmActor *actor, uint64_t handle) {
        uint8_t *object;
        uint64_t found;

        if (handle == 0)
                return;
        if (shm_object_get(&w->world->arena, handle, (void **) &object, NULL)) {
                w->n_bad++;
                return;
        }
        memcpy(&found, object, 8);
        w->n_bad += found != handle || object[15] != (uint8_t) (handle ^ handle >> 8);
        w->n_bad += shm_object_free(actor, handle) != 0;
        w->n_bad += shm_object_free(actor, handle) != -ESTALE;
}

static void step(Worker *w, ShmActor *actor) {
        uint64_t *own = &w->own[next(&w->state) % N_OWN];
        uint64_t *shared = &w->world->shared[next(&w->state) % N_SHARED];

        if (next(&w->state) % 4 == 0)
                *own = shm_xchg_acqrel(shared, *own);
        destroy(w, actor, *own);
        *own = make(w, actor);
        w->n_ops++;
}

/* All may be taken, when control, which finishes those left while frozen, gets no time to. */
static void take_record(Worker *w, ShmActor *ret) {
        while (shm_actor_init(ret, &w->world->arena, w->world->client, 1))
                sched_yield();
}

/* Threads come and go: each life has its own record. */
static void *work(void *userdata) {
        Worker *w = userdata;
        ShmActor actor;

        while (!shm_load_rlx(&w->world->stop)) {
                take_record(w, &actor);
                actor.mode = next(&w->state) % 2 ? SHM_CACHE_ON : SHM_CACHE_ADAPTIVE;
                for (int i = 0; i < 20000 && !shm_load_rlx(&w->world->stop); i++)
                        step(w, &actor);
                shm_cache_leave(&actor);
        }
        take_record(w, &actor);
        for (int i = 0; i < N_OWN; i++)
                destroy(w, &actor, w->own[i]);
        shm_cache_leave(&actor);
        return NULL;
}

static void drain(ShmActor *control, ShmFreeze *freeze, uint32_t id) {
        ShmDrain walk;

        assert_int_equal(shm_freeze_begin(control, freeze, UINT64_C(1) << id), 0);
        do {
                sched_yield();
                (void) shm_freeze_step(control, freeze, 3, shm_monotonic_usec());
                walk = (ShmDrain){ .epoch = id };
                while (!shm_drain_step(control, &walk, 256))
                        ;
        } while (shm_freeze_pending(control, freeze) > 0);
        while (shm_freeze_step(control, freeze, UINT32_MAX, shm_monotonic_usec()) > 0)
                sched_yield();
}

static void control_step(World *world, ShmActor *control, ShmFreeze *freeze, uint64_t *state) {
        uint32_t id, number;
        ShmCheck check;

        switch (next(state) % 5) {
        case 0:
        case 1:
                assert_int_equal(shm_epoch_next(&world->arena, &id), 0);
                assert_int_equal(shm_epoch_close(&world->arena, id, true), 0);
                drain(control, freeze, id);
                assert_int_equal(shm_epoch_advance(&world->arena, &number), 0);
                break;
        case 2:
                id = (uint32_t) next(state) % 4;
                if (id == (shm_epoch_current(&world->arena) & 0xff))
                        break;
                assert_int_equal(shm_epoch_close(&world->arena, id, true), 0);
                drain(control, freeze, id);
                break;
        case 3:
                shm_pages_trim(control, (uint32_t) next(state) % 200, UINT32_MAX);
                break;
        case 4:
                assert_int_equal(shm_check(&world->arena, &check), 0);
                if (check.problems != 0)
                        fail_msg("seed %llu: %s", (unsigned long long) world->seed, check.texts[0]);
        }
}

static uint64_t now_msec(void) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t) ts.tv_sec * 1000 + (uint64_t) ts.tv_nsec / 1000000;
}

static void finish(World *world, Worker *workers, ShmActor *control, ShmFreeze *freeze) {
        ShmActor actor;
        ShmCheck check;

        drain(control, freeze, 0); /* nobody is left frozen: records come free by themselves from here on */
        shm_store_rlx(&world->stop, 1);
        for (int i = 0; i < N_THREADS; i++)
                pthread_join(workers[i].thread, NULL);
        assert_int_equal(shm_actor_init(&actor, &world->arena, world->client, 1), 0);
        for (int i = 0; i < N_SHARED; i++)
                destroy(&workers[0], &actor, world->shared[i]);
        shm_cache_leave(&actor);
        for (uint32_t id = 0; id < 4; id++)
                drain(control, freeze, id);

        assert_int_equal(shm_check(&world->arena, &check), 0);
        if (check.problems != 0)
                fail_msg("seed %llu: %s", (unsigned long long) world->seed, check.texts[0]);
        assert_int_equal(check.in_flight_slots, 0);
        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&world->arena); slab++) {
                SlabState state = slab_word_state(shm_pair_load_acq(&world->arena.lines[slab].word));

                assert_true(state == SLAB_FREE || state == SLAB_UNCOMMITTED);
        }
}

static void test_churn(void **state) {
        ShmGeometry geometry = test_geometry();
        ShmClientInfo client = { .pid = 1, .start_time = 1, .comm = "stress" };
        uint64_t end = now_msec() + (getenv("TSLAB_TEST_FULL") ? 60000 : 3000), random, n_ops = 0;
        World *world = calloc(1, sizeof(*world));
        ShmFreeze *freeze = calloc(1, sizeof(*freeze));
        Worker *workers = calloc(N_THREADS, sizeof(*workers));
        ShmActor control;

        geometry.n_records = 16;
        geometry.slabs_size = 2048 * SHM_SLAB_SIZE;
        world->seed = random = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 10) : (uint64_t) time(NULL);
        printf("seed %llu\n", (unsigned long long) world->seed);
        assert_int_equal(shm_membarrier_register(), 0);
        assert_int_equal(shm_arena_create(&world->arena, &geometry, "stress"), 0);
        assert_int_equal(shm_client_add(&world->arena, &client), 0);
        world->client = client.index;
        shm_actor_init_daemon(&control, &world->arena);
        for (uint64_t i = 0; i < N_THREADS; i++) {
                workers[i] = (Worker){ .world = world, .state = world->seed + i };
                assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        }
        while (now_msec() < end)
                control_step(world, &control, freeze, &random);
        finish(world, workers, &control, freeze);
        for (int i = 0; i < N_THREADS; i++) {
                assert_int_equal(workers[i].n_bad, 0);
                n_ops += workers[i].n_ops;
        }
        printf("%llu operations\n", (unsigned long long) n_ops);
        shm_arena_deinit(&world->arena);
        free(workers);
        free(freeze);
        free(world);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_churn) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
