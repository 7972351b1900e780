/* Eight threads of one process on a private pool, for TSan; see churn.h. */
#include <pthread.h>
#include <stdlib.h>

#include "tests/stress/churn.h"
#include "tests/util/role.h"
#include "tests/util/seed.h"
#include "tests/util/test.h"

#define N_THREADS 8U
#define N_ROUNDS 5000U /* in a thread's life */

typedef struct Thread {
        Churn *churn;
        struct tslab *pool;
        uint64_t owner;
} Thread;

static void *run_epochs(void *userdata) {
        Thread *thread = userdata;

        churn_epochs(thread->churn, thread->pool, churn_now_msec() + (seed_full() ? 30000 : 2500));
        return NULL;
}

static void *run_thread(void *userdata) {
        Thread *thread = userdata;

        churn_run(thread->churn, thread->pool, thread->owner, N_ROUNDS);
        return NULL;
}

static void run_generation(Churn *churn, struct tslab *pool, uint64_t generation) {
        Thread threads[N_THREADS];
        pthread_t ids[N_THREADS];

        for (uint64_t i = 0; i < N_THREADS; i++) {
                threads[i] = (Thread){ churn, pool, (i + 1) | generation << 16 };
                assert_int_equal(pthread_create(&ids[i], NULL, run_thread, &threads[i]), 0);
        }
        for (uint64_t i = 0; i < N_THREADS; i++)
                pthread_join(ids[i], NULL);
}

/* With few records, threads share one; with little memory, all collide. */
static void churn(uint64_t arena_bytes, uint32_t n_threads) {
        struct tslab_options options = {
                .size = sizeof(options), .arena_bytes = arena_bytes, .n_threads = n_threads, .n_epochs = 8
        };
        Churn *churn = calloc(1, sizeof(*churn));
        struct tslab *pool;
        pthread_t epochs;

        assert_non_null(churn);
        churn->seed = seed_get();
        assert_int_equal(tslab_create(&pool, &options), 0);
        assert_int_equal(pthread_create(&epochs, NULL, run_epochs, &(Thread){ churn, pool, 0 }), 0);
        for (uint64_t generation = 0; !churn_stopped(churn); generation++)
                run_generation(churn, pool, generation);
        pthread_join(epochs, NULL);

        churn_print(churn);
        churn_clear(churn, pool);
        assert_int_equal(churn->failed, 0);
        assert_int_equal(churn->n_allocs, churn->n_frees);
        assert_true(churn->n_handed > 0);
        assert_true(churn->n_refused > 0);
        pool = tslab_close(pool);
        free(churn);
}

static void test_churn_with_room(void **state) {
        churn(UINT64_C(64) << 20, 64);
}

static void test_churn_in_a_small_arena(void **state) {
        churn(UINT64_C(512) << 10, 64);
}

static void test_churn_with_few_records(void **state) {
        churn(UINT64_C(64) << 20, 4);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_churn_with_room),
                cmocka_unit_test(test_churn_in_a_small_arena),
                cmocka_unit_test(test_churn_with_few_records),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
