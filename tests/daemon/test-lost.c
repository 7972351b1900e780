/*
 * A process has a file open that looks in /proc like the memory of a pool, on a file system that does not answer.
 * tslabctl looks for clients of a pool without a daemon, and prints the same as it would without that file.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "tests/daemon/fuse.h"
#include "tests/util/ctl.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/parent.h"
#include "tests/util/test.h"

#define OPEN_TREE_CLONE 1

/* In a mount that is in no directory: /proc shows its files as if they were in the root. */
static int open_like_memory(const FuseMount *fs) {
        int tree = (int) syscall(SYS_open_tree, AT_FDCWD, fs->dir, OPEN_TREE_CLONE | O_CLOEXEC);

        return tree < 0 ? -1 : openat(tree, "memfd:tslab:lost (deleted)", O_WRONLY | O_CLOEXEC);
}

/* After its write the file system answers nothing any more. */
static pid_t start_process(const FuseMount *fs) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid != 0)
                return pid;
        end_with_parent();
        (void) !write(open_like_memory(fs), "x", 1);
        _exit(1);
}

static void test_file_system_that_does_not_answer(void **state) {
        char dir[] = "/tmp/tslab-lost-XXXXXX";
        DaemonFixture none = {};
        FuseMount fs = {};
        int status;
        pid_t pid;

        (void) state;
        if (!fuse_mount(&fs))
                skip();
        assert_non_null(mkdtemp(dir));
        pid = start_process(&fs);
        WAIT_FOR(fuse_process_call(pid) == SYS_write);
        snprintf(none.socket, sizeof(none.socket), "%s/lost.sock", dir);
        status = ctl_run(&none, NULL, "status"); /* this waited for ever */
        fuse_end(&fs);
        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, 0);
        assert_int_equal(rmdir(dir), 0);
        assert_int_equal(status, 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_file_system_that_does_not_answer),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
