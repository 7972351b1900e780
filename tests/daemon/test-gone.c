/* Threads that end by a raw exit, which tells nobody, in processes that live on. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <tslab.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "tests/util/ctl.h"
#include "tests/util/role.h"
#include "tests/util/test.h"

#define N_RECORDS 6U /* the process has one of them */

/* ---- in a client */

static struct tslab *pool;
static pthread_barrier_t barrier;

static int hold(void) {
        tslab_handle handles[50], handle;
        int r = 0;

        for (int i = 0; i < 50 && r == 0; i++)
                r = tslab_alloc(pool, 128, TSLAB_EPOCH_CURRENT, &handles[i], NULL);
        for (int i = 0; i < 50 && r == 0; i++)
                r = tslab_free(pool, handles[i]);
        for (int i = 0; i < 5 && r == 0; i++)
                r = tslab_alloc_pending(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL);
        return r;
}

static void *end_raw(void *userdata) {
        *(int *) userdata = hold();
        syscall(SYS_exit, 0);
        return NULL;
}

static void *live(void *userdata) {
        *(int *) userdata = hold();
        pthread_barrier_wait(&barrier);
        /* The daemon takes the slots of a thread that sleeps for long. */
        for (;;) {
                tslab_handle handle;

                usleep(50000);
                if (tslab_alloc(pool, 128, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0)
                        (void) tslab_free(pool, handle);
        }
        return NULL;
}

/* One that lives, then as many as there are records for that do not. */
static int client(const char *socket) {
        pthread_t thread, living;
        int r = 0;

        if (tslab_open(&pool, socket, NULL) < 0)
                return 1;
        (void) pthread_barrier_init(&barrier, NULL, 2);
        if (pthread_create(&living, NULL, live, &r) != 0)
                return 1;
        pthread_barrier_wait(&barrier);
        for (unsigned i = 0; i < N_RECORDS - 2 && r == 0; i++)
                if (pthread_create(&thread, NULL, end_raw, &r) != 0 || pthread_join(thread, NULL) != 0)
                        return 1;
        role_write(&r, sizeof(r));
        while (role_read(&r, sizeof(r)))
                ;
        return 0;
}

/* ---- in the test */

static void test_gone_threads(void **state) {
        DaemonFixture daemon;
        Role role;
        int r;

        daemon_start(&daemon, (const char *[]){ "--size=16M", "--threads=6", "--log-level=err", NULL });
        role_start(&role, "client", daemon.socket);
        role_hear(&role, &r, sizeof(r));
        assert_int_equal(r, 0);
        WAIT_FOR(ctl_stat(&daemon, "threads") == 2);
        WAIT_FOR(ctl_stat(&daemon, "live_objects") == 5); /* pending ones of the thread that lives */
        assert_in_range(ctl_stat(&daemon, "cached_objects"), 1, 100);
        usleep(1200000); /* a tick */
        assert_int_equal(ctl_stat(&daemon, "threads"), 2);
        assert_int_equal(role_wait(&role), 0);
        WAIT_FOR(ctl_stat(&daemon, "clients") == 0);
        assert_int_equal(ctl_stat(&daemon, "live_objects"), 0);
        ctl_check(&daemon);
        daemon_stop(&daemon);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_gone_threads),
        };

        if (argc == 3)
                return client(argv[2]);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
