/* A child whose parent died before it could ask to end with it. */
#include <sys/wait.h>

#include "tests/util/parent.h"
#include "tests/util/test.h"

static void be_orphan(pid_t parent, int fd) {
        while (getppid() == parent)
                (void) usleep(1000);
        end_with_parent();
        (void) !write(fd, "", 1);
        _exit(0);
}

static void test_parent_died_before(void **state) {
        char byte;
        int fds[2];
        pid_t pid;

        (void) state;
        assert_int_equal(pipe(fds), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                pid_t me = getpid();

                if (fork() == 0)
                        be_orphan(me, fds[1]);
                _exit(0);
        }
        close(fds[1]);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_int_equal(read(fds[0], &byte, 1), 0); /* it has ended, and written nothing */
        close(fds[0]);
}

static void test_parent_lives(void **state) {
        int status;
        pid_t pid = fork();

        (void) state;
        assert_true(pid >= 0);
        if (pid == 0) {
                end_with_parent();
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_parent_died_before),
                cmocka_unit_test(test_parent_lives),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
