/* References to epochs, and domains. */
#include <tslab.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/util/process.h"
#include "tests/util/test.h"

static struct tslab *create(void) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 1 << 20 };
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, &options), 0);
        return pool;
}

static uint32_t state_of(struct tslab *pool, uint32_t epoch) {
        struct tslab_epoch_info info = { .size = sizeof(info) };

        assert_int_equal(tslab_epoch_info(pool, epoch, &info), 0);
        return info.state;
}

/* Two processes, of which one is killed: its reference goes with it. */
static int hold(void *userdata) {
        struct tslab *pool = userdata;
        uint32_t epoch;

        CHECK(tslab_epoch_current(pool, &epoch) == 0);
        CHECK(tslab_epoch_unref(pool, epoch) == -ENOENT); /* the parent's is not ours */
        CHECK(tslab_epoch_ref(pool, epoch) == 0 && tslab_epoch_ref(pool, epoch) == 0);
        CHECK(tslab_epoch_refs(pool, epoch) == 2);
        CHECK(tslab_epoch_unref(pool, epoch) == 2);
        raise(SIGKILL);
        return 0;
}

static void test_refs(void **state) {
        struct tslab *pool = create();
        uint32_t epoch, next;

        (void) state;
        assert_int_equal(tslab_epoch_current(pool, &epoch), 0);
        assert_int_equal(tslab_epoch_refs(pool, epoch), 0);
        assert_int_equal(tslab_epoch_unref(pool, epoch), -ENOENT);
        assert_int_equal(tslab_epoch_ref(pool, TSLAB_EPOCH_CURRENT), 0);
        assert_int_equal(tslab_epoch_refs(pool, epoch), 1);
        assert_int_equal(test_child_run(TEST_FORK, hold, pool), -SIGKILL);
        assert_int_equal(tslab_reap(pool), 1);
        assert_int_equal(tslab_epoch_refs(pool, epoch), 1);

        assert_int_equal(tslab_epoch_advance(pool, &next), 0); /* references keep nothing open */
        assert_int_equal(tslab_epoch_ref(pool, epoch), -ESHUTDOWN);
        assert_int_equal(tslab_epoch_unref(pool, epoch), 0);
        assert_int_equal(tslab_epoch_unref(pool, epoch), -ENOENT);
        assert_int_equal(tslab_epoch_ref(pool, 99), -EINVAL);
        assert_int_equal(tslab_epoch_refs(pool, 99), -EINVAL);
        assert_int_equal(tslab_epoch_refs(pool, epoch + 256), -ESTALE);
        tslab_close(pool);
}

/* References of an era that is over are not taken for the next era's. */
static void test_refs_of_an_era(void **state) {
        struct tslab *pool = create();
        uint32_t first, epoch;

        (void) state;
        assert_int_equal(tslab_epoch_current(pool, &first), 0);
        assert_int_equal(tslab_epoch_ref(pool, first), 0);
        do
                assert_int_equal(tslab_epoch_advance(pool, &epoch), 0);
        while ((epoch & 0xff) != (first & 0xff));
        assert_int_equal(tslab_epoch_refs(pool, epoch), 0);
        assert_int_equal(tslab_epoch_unref(pool, first), -ESTALE);
        assert_int_equal(tslab_epoch_unref(pool, epoch), -ENOENT);
        assert_int_equal(tslab_epoch_ref(pool, epoch), 0);
        assert_int_equal(tslab_epoch_unref(pool, epoch), 0);
        tslab_close(pool);
}

static void test_domain(void **state) {
        struct tslab *pool = create();
        struct tslab_domain *outer, *inner;
        uint32_t epoch, other;

        (void) state;
        assert_null(tslab_domain_current());
        assert_int_equal(tslab_epoch_current(pool, &epoch), 0);
        assert_int_equal(tslab_epoch_reserve(pool, NULL, &other), 0);
        assert_int_equal(tslab_domain_open(&outer, pool, TSLAB_EPOCH_CURRENT, TSLAB_DOMAIN_AUTO_CLOSE), 0);
        assert_int_equal(tslab_domain_open(&inner, pool, other, 0), 0);
        assert_int_equal(tslab_domain_epoch(outer), epoch);
        assert_int_equal(tslab_domain_enter(outer), 0);
        assert_int_equal(tslab_domain_enter(inner), 0);
        assert_int_equal(tslab_domain_enter(outer), 0);
        assert_ptr_equal(tslab_domain_current(), outer);
        assert_int_equal(tslab_domain_leave(inner), -EINVAL);
        assert_int_equal(tslab_domain_leave(outer), 0);
        assert_ptr_equal(tslab_domain_current(), inner);
        assert_int_equal(tslab_domain_leave(inner), 0);
        assert_int_equal(state_of(pool, other), TSLAB_EPOCH_OPEN);
        assert_int_equal(state_of(pool, epoch), TSLAB_EPOCH_OPEN);
        assert_int_equal(tslab_domain_leave(outer), 0);
        assert_int_not_equal(state_of(pool, epoch), TSLAB_EPOCH_OPEN);
        assert_int_equal(tslab_domain_leave(outer), -EINVAL);
        assert_int_equal(tslab_domain_enter(outer), -ESHUTDOWN);
        assert_int_equal(tslab_domain_open(&outer, pool, epoch, 8), -EINVAL);
        assert_int_equal(tslab_domain_open(&outer, pool, 99, 0), -EINVAL);
        for (int i = 0; i < 64; i++)
                assert_int_equal(tslab_domain_enter(inner), 0);
        assert_int_equal(tslab_domain_enter(inner), -ENOBUFS);
        for (int i = 0; i < 64; i++)
                assert_int_equal(tslab_domain_leave(inner), 0);
        assert_null(tslab_domain_close(inner));
        assert_null(tslab_domain_close(outer));
        assert_null(tslab_domain_close(NULL));
        tslab_close(pool);
}

typedef struct Visit {
        struct tslab_domain *domain;
        pthread_barrier_t *inside;
} Visit;

static void *visit(void *userdata) {
        Visit *v = userdata;
        int r = tslab_domain_enter(v->domain);

        pthread_barrier_wait(v->inside);
        return r == 0 && tslab_domain_leave(v->domain) == 0 ? NULL : v;
}

/* Another process is the last to leave. */
static int stay(void *userdata) {
        struct tslab *pool = userdata;
        struct tslab_domain *domain;
        uint32_t epoch;

        CHECK(tslab_epoch_current(pool, &epoch) == 0);
        CHECK(tslab_domain_open(&domain, pool, epoch, TSLAB_DOMAIN_AUTO_CLOSE) == 0);
        CHECK(tslab_domain_enter(domain) == 0);
        CHECK(kill(getppid(), SIGUSR1) == 0);
        while (tslab_epoch_refs(pool, epoch) > 1)
                usleep(1000);
        CHECK(state_of(pool, epoch) == TSLAB_EPOCH_OPEN);
        CHECK(tslab_domain_leave(domain) == 0);
        CHECK(state_of(pool, epoch) != TSLAB_EPOCH_OPEN);
        tslab_domain_close(domain);
        tslab_close(pool);
        return 0;
}

static void test_last_of_all(void **state) {
        struct tslab *pool = create();
        pthread_barrier_t inside;
        pthread_t threads[4];
        sigset_t signals;
        uint32_t epoch;
        int number;
        void *bad;
        pid_t pid;
        Visit v;

        (void) state;
        sigemptyset(&signals);
        sigaddset(&signals, SIGUSR1);
        assert_int_equal(sigprocmask(SIG_BLOCK, &signals, NULL), 0);
        assert_int_equal(tslab_epoch_current(pool, &epoch), 0);
        assert_int_equal(tslab_domain_open(&v.domain, pool, epoch, TSLAB_DOMAIN_AUTO_CLOSE), 0);
        assert_int_equal(tslab_domain_enter(v.domain), 0); /* till all threads have left */
        pid = test_child_start(TEST_FORK, stay, pool);
        assert_int_equal(sigwait(&signals, &number), 0);
        pthread_barrier_init(&inside, NULL, 4);
        v.inside = &inside;
        for (int i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, visit, &v), 0);
        for (int i = 0; i < 4; i++) {
                assert_int_equal(pthread_join(threads[i], &bad), 0);
                assert_null(bad);
        }
        assert_int_equal(tslab_domain_leave(v.domain), 0);
        assert_int_equal(test_child_wait(pid), 0);
        assert_int_not_equal(state_of(pool, epoch), TSLAB_EPOCH_OPEN);
        pthread_barrier_destroy(&inside);
        tslab_domain_close(v.domain);
        tslab_close(pool);
}

static atomic_bool advancer_ends;

static void *advance_on(void *userdata) {
        while (!advancer_ends)
                (void) tslab_epoch_advance(userdata, NULL);
        return NULL;
}

/* With two epochs, the next advance but one opens the id anew: also between the two steps of the last leave. */
static void test_leave_beside_advances(void **state) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 1 << 20, .n_epochs = 2 };
        struct tslab_domain *domain;
        pthread_t advancer;
        struct tslab *pool;
        unsigned n = 0;

        (void) state;
        assert_int_equal(tslab_create(&pool, &options), 0);
        advancer_ends = false;
        assert_int_equal(pthread_create(&advancer, NULL, advance_on, pool), 0);
        while (n < 100) {
                if (tslab_domain_open(&domain, pool, TSLAB_EPOCH_CURRENT, TSLAB_DOMAIN_AUTO_CLOSE) < 0)
                        continue; /* the era is over already */
                if (tslab_domain_enter(domain) == 0) {
                        assert_int_equal(tslab_domain_leave(domain), 0);
                        n++;
                }
                domain = tslab_domain_close(domain);
        }
        advancer_ends = true;
        assert_int_equal(pthread_join(advancer, NULL), 0);
        tslab_close(pool);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_refs),
                cmocka_unit_test(test_refs_of_an_era),
                cmocka_unit_test(test_domain),
                cmocka_unit_test(test_last_of_all),
                cmocka_unit_test(test_leave_beside_advances),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
