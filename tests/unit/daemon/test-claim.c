#include "daemon/takeover/arena-claim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/takeover/adopt.h"
#include "proto/state-file.h"
#include "tests/util/arena.h"
#include "tests/util/parent.h"
#include "tests/util/test.h"

#define DEPTH 24 /* folders of a path that the kernel cannot tell, as it has more than 4096 bytes */
#define NAME_SIZE 200

typedef bool (*Prepare)(const ShmArena *arena);

/* A process that stays, if it is prepared; 0: it is not. */
static pid_t child_start(const ShmArena *arena, Prepare prepare) {
        ssize_t n;
        int ready[2];
        pid_t pid;
        char c;

        assert_int_equal(pipe(ready), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                bool prepared = prepare(arena);

                end_with_parent(); /* where a check fails */
                if (prepared && write(ready[1], "", 1) == 1)
                        (void) pause();
                _exit(EXIT_FAILURE);
        }
        close(ready[1]);
        n = read(ready[0], &c, 1);
        close(ready[0]);
        if (n != 1)
                assert_int_equal(waitpid(pid, NULL, 0), pid);
        return n == 1 ? pid : 0;
}

static void child_end(pid_t pid) {
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* As a daemon does that is seen by its lock alone. */
static bool lock(const ShmArena *arena) {
        char path[32];

        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", arena->fd);
        return flock(open(path, O_RDWR), LOCK_EX | LOCK_NB) == 0;
}

/* Keeps a folder open, and removes it. */
static bool open_deep(const ShmArena *arena) {
        char top[] = "/tmp/tslab-claim-XXXXXX", name[NAME_SIZE + 1] = {};
        bool opened = mkdtemp(top) && chdir(top) == 0;

        (void) arena;
        memset(name, 'd', NAME_SIZE);
        for (int i = 0; i < DEPTH; i++)
                opened = opened && mkdir(name, 0700) == 0 && chdir(name) == 0;
        opened = opened && open(".", O_RDONLY | O_DIRECTORY) >= 0;
        for (int i = 0; i < DEPTH; i++)
                opened = opened && chdir("..") == 0 && rmdir(name) == 0;
        return rmdir(top) == 0 && opened;
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

/* Whether the log says so. It is to be in stderr, which is `fd` since. */
static bool log_has(int fd, const char *text) {
        char log[8192];
        ssize_t n = pread(fd, log, sizeof(log) - 1, 0);

        assert_true(n >= 0);
        log[n] = 0;
        return strstr(log, text) != NULL;
}

/* Where it cannot be seen whose a lock is, it may be a daemon's: nobody serves the arena beside it. A line says so. */
static void test_claim_arena_cannot_look(void **state) {
        ShmGeometry geometry = test_geometry();
        int log = memfd_create("log", MFD_CLOEXEC), kept = dup(STDERR_FILENO);
        Claim claim = CLAIM_NONE;
        TestArena t;
        pid_t pid;

        (void) state;
        test_arena_init(&t, &geometry);
        pid = child_start(&t.arena, lock);
        assert_true(pid > 0);
        assert_int_equal(dup2(log, STDERR_FILENO), STDERR_FILENO);
        assert_int_equal(claim_arena(&claim, &t.arena), -EBUSY);
        assert_false(log_has(log, "/proc/locks"));
        assert_int_equal(claim_with(0, &claim, &t.arena), -EMFILE);
        for (unsigned n = 1; n < 8; n++)
                assert_int_equal(claim_with(n, &claim, &t.arena), -EBUSY);
        assert_true(log_has(log, "/proc/locks does not tell by which process"));
        assert_int_equal(dup2(kept, STDERR_FILENO), STDERR_FILENO);
        close(kept);
        close(log);
        child_end(pid);
        assert_int_equal(claim_arena(&claim, &t.arena), 0);
        claim_deinit(&claim);
        test_arena_deinit(&t);
}

/* A process of ours with a file whose path is too long to be told: it is none of the pool. */
static void test_claim_arena_long_path(void **state) {
        ShmGeometry geometry = test_geometry();
        char id[PROTO_ARENA_TEXT_SIZE];
        Claim claim = CLAIM_NONE;
        TestArena t;
        AdoptFrom from;
        bool known;
        pid_t pid;

        (void) state;
        test_arena_init(&t, &geometry);
        pid = child_start(&t.arena, open_deep);
        if (pid == 0) {
                test_arena_deinit(&t);
                skip(); /* where there can be no such path */
        }
        proto_arena_text(t.arena.arena_id, id);
        assert_int_equal(claim_arena(&claim, &t.arena), 0);
        assert_int_equal(adopt_find("test-claim", id, &from, &known), 0);
        child_end(pid);
        claim_deinit(&claim);
        test_arena_deinit(&t);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_claim_arena_cannot_look),
                cmocka_unit_test(test_claim_arena_long_path),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
