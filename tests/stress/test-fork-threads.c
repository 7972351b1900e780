/* Forks at any moment of other threads' calls: the child meets no lock that was held, and no half of a list. */
#include <tslab.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "shm/arch/atomic.h"
#include "tests/util/process.h"
#include "tests/util/test.h"

typedef struct Shared {
        struct tslab *pool;
        uint32_t stop;
} Shared;

static bool stopped(Shared *s) {
        return shm_load_rlx(&s->stop) != 0;
}

static int use(struct tslab *pool) {
        tslab_handle handle;

        CHECK(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
        CHECK(tslab_free(pool, handle) == 0);
        return 0;
}

static void *open_and_close(void *userdata) {
        Shared *s = userdata;
        struct tslab *own;

        while (!stopped(s)) {
                if (tslab_create(&own, NULL) != 0 || use(own) != 0 || use(s->pool) != 0)
                        return s;
                tslab_close(own);
        }
        return NULL;
}

static void *live_shortly(void *userdata) {
        return use(userdata) == 0 ? NULL : userdata;
}

static void *start_threads(void *userdata) {
        Shared *s = userdata;
        pthread_t thread;
        void *failed;

        while (!stopped(s))
                if (pthread_create(&thread, NULL, live_shortly, s->pool) != 0 ||
                    pthread_join(thread, &failed) != 0 || failed)
                        return s;
        return NULL;
}

static int child(void *userdata) {
        Shared *s = userdata;
        struct tslab *own;

        alarm(60);
        CHECK(use(s->pool) == 0);
        CHECK(tslab_create(&own, NULL) == 0);
        CHECK(use(own) == 0);
        CHECK(tslab_close(own) == NULL);
        CHECK(tslab_close(s->pool) == NULL);
        return 0;
}

static void test_fork_among_threads(void **state) {
        time_t end = time(NULL) + (getenv("TSLAB_TEST_FULL") ? 60 : 2);
        pthread_t threads[4];
        Shared s = {};
        void *failed;

        (void) state;
        assert_int_equal(tslab_create(&s.pool, NULL), 0);
        for (int i = 0; i < 4; i++)
                assert_int_equal(
                        pthread_create(&threads[i], NULL, i % 2 ? open_and_close : start_threads, &s), 0);
        while (time(NULL) < end)
                assert_int_equal(test_child_run(TEST_FORK, child, &s), 0);
        shm_store_rlx(&s.stop, 1);
        for (int i = 0; i < 4; i++) {
                assert_int_equal(pthread_join(threads[i], &failed), 0);
                assert_null(failed);
        }
        tslab_close(s.pool);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_fork_among_threads),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
