#include "daemon/takeover/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/util/arena.h"
#include "tests/util/test.h"

/* A process of ours that has locked the arena, as a daemon does that is seen by its lock alone. */
static pid_t locker_start(const ShmArena *arena) {
        char path[32], c;
        int ready[2];
        pid_t pid;

        assert_int_equal(pipe(ready), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL); /* where a check fails */
                (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", arena->fd);
                if (flock(open(path, O_RDWR), LOCK_EX | LOCK_NB) == 0 && write(ready[1], "", 1) == 1)
                        (void) pause();
                _exit(EXIT_FAILURE);
        }
        close(ready[1]);
        assert_int_equal(read(ready[0], &c, 1), 1);
        close(ready[0]);
        return pid;
}

/* With so many more descriptors. */
static int claim_with(unsigned n, Claim *claim, const ShmArena *arena) {
        struct rlimit before, few;
        int next = dup(0), r;

        assert_true(next >= 0);
        close(next);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        few = (struct rlimit){ .rlim_cur = (rlim_t) next + n, .rlim_max = before.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        r = claim_arena(claim, arena);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        return r;
}

/* Where it cannot be seen whose a lock is, that may be a daemon's: nobody serves the arena beside it. */
static void test_claim_arena_cannot_look(void **state) {
        ShmGeometry geometry = test_geometry();
        Claim claim = CLAIM_NONE;
        TestArena t;
        pid_t pid;

        (void) state;
        test_arena_init(&t, &geometry);
        pid = locker_start(&t.arena);
        assert_int_equal(claim_arena(&claim, &t.arena), -EBUSY);
        for (unsigned n = 0; n < 8; n++)
                assert_true(claim_with(n, &claim, &t.arena) < 0);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_int_equal(claim_arena(&claim, &t.arena), 0);
        claim_deinit(&claim);
        test_arena_deinit(&t);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_claim_arena_cannot_look),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
