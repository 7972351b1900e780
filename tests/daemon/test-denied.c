/*
 * A daemon whose membarrier begins to fail while it runs, as a system call filter can cause: it says so, once. It
 * then leaves the caches of threads that do not fence for themselves as they are.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/test.h"

#define TEXT "membarrier failed"

static int log_fd; /* the daemon's output */

/* For this process and its later children; registering goes well. */
static void deny_membarrier(void) {
        struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { .len = sizeof(filter) / sizeof(filter[0]), .filter = filter };

        assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* How often the daemon has said so. */
static unsigned n_told(void) {
        static char text[1 << 16];
        ssize_t n = pread(log_fd, text, sizeof(text) - 1, 0);
        unsigned found = 0;

        assert_true(n >= 0);
        text[n] = 0;
        for (const char *at = text; (at = strstr(at, TEXT)); at++)
                found++;
        return found;
}

static void test_denied_told_once(void **state) {
        DaemonFixture daemon;
        RawClient client;
        uint64_t handle;

        (void) state;
        deny_membarrier();
        log_fd = daemon_start_logged(&daemon, (const char *[]){ "--size=8M", "--log-level=warning", NULL });
        raw_client_open(&client, &daemon, 0);
        client.actor.mode = SHM_CACHE_ON;
        assert_int_equal(shm_object_alloc(&client.actor, 64, SHM_EPOCH_CURRENT, NULL, &handle, NULL), 0);
        assert_int_equal(shm_object_free(&client.actor, handle), 0);
        assert_int_equal(n_told(), 0);
        (void) daemon_trim(client.call);
        WAIT_FOR(n_told() == 1);
        (void) daemon_trim(client.call);
        (void) daemon_n_clients(client.call);
        assert_int_equal(n_told(), 1);
        assert_true(shm_arena_cache(&client.arena, client.actor.id, 0, 0)->count > 0);
        raw_client_close(&client);
        daemon_stop(&daemon);
        close(log_fd);
}

int main(void) {
        /* clang-format off */
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_denied_told_once),
        };
        /* clang-format on */

        return cmocka_run_group_tests(tests, NULL, NULL);
}
