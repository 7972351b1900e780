/* The numbers by which locks name their holders. */
#include "libclient/pool/lock.h"

#include <pthread.h>
#include <unistd.h>

#include "tests/util/process.h"
#include "tests/util/test.h"

/* The result: not NULL if the number is wrong. */
static void *compare(void *userdata) {
        return lock_own_number() == (uint32_t) gettid() ? NULL : userdata;
}

static int compare_in_thread(void *userdata) {
        pthread_t thread;
        void *wrong = &thread;

        CHECK(pthread_create(&thread, NULL, compare, userdata) == 0);
        CHECK(pthread_join(thread, &wrong) == 0);
        CHECK(!wrong);
        return 0;
}

static int grandchild(void *userdata) {
        CHECK(!compare(userdata));
        return compare_in_thread(userdata);
}

/* The forking thread's number is that of its parent, until it asks. */
static int child(void *userdata) {
        const TestFork *how = userdata;

        CHECK(!compare(userdata));
        CHECK(compare_in_thread(userdata) == 0);
        return test_child_run(*how, grandchild, userdata);
}

/* The same, and another thread of the child asks first. */
static int child_other_first(void *userdata) {
        CHECK(compare_in_thread(userdata) == 0);
        return child(userdata);
}

static void test_own_number(void **state) {
        Lock *lock;

        (void) state;
        assert_int_equal(lock_init(&lock), 0);
        for (int i = 0; i < 2; i++) {
                assert_null(compare(&lock));
                assert_int_equal(compare_in_thread(&lock), 0);
        }
        for (TestFork how = 0; how < _TEST_FORK_N; how++) {
                assert_int_equal(test_child_run(how, child, &how), 0);
                assert_int_equal(test_child_run(how, child_other_first, &how), 0);
        }
        assert_null(compare(&lock));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_own_number),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
