/* Messages to a service manager. The other end of NOTIFY_SOCKET is this test, which reads as it likes. */
#include "proto/notify.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/log.h"
#include "proto/deadline.h"
#include "shm/arch/atomic.h"
#include "tests/util/test.h"

#define N_ROUNDS 1000U
#define N_SLOW 20U

static int manager = -1;

static int open_manager(void **state) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        socklen_t size = sizeof(address);

        (void) state;
        log_set_level(LOG_EMERG);
        manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (bind(manager, (const struct sockaddr *) &address, sizeof(address.sun_family)) < 0 ||
            getsockname(manager, (struct sockaddr *) &address, &size) < 0)
                return -1;
        address.sun_path[0] = '@';
        return setenv("NOTIFY_SOCKET", address.sun_path, 1);
}

static int close_manager(void **state) {
        (void) state;
        close(manager);
        return unsetenv("NOTIFY_SOCKET");
}

/* Another service. False: there is no room. */
static bool send_other(void) {
        struct sockaddr_un address;
        socklen_t size = sizeof(address);
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        ssize_t n = -1;

        if (getsockname(manager, (struct sockaddr *) &address, &size) == 0)
                n = sendto(fd, "X=1", 3, MSG_DONTWAIT, (const struct sockaddr *) &address, size);
        close(fd);
        return n == 3;
}

static void read_one(void) {
        char text[64];

        assert_true(recv(manager, text, sizeof(text), MSG_DONTWAIT) > 0);
}

static uint32_t round_begun;

static void *send_others(void *userdata) {
        (void) userdata;
        for (uint32_t i = 1; i <= N_ROUNDS; i++) {
                while (shm_load_acq(&round_begun) < i) /* ORDER: acq, pairs with test_last_place(). */
                        (void) sched_yield();
                for (volatile uint32_t n = i % 64 * 50; n > 0; n--)
                        ;
                (void) send_other();
        }
        return NULL;
}

/* Another service may get the last place in the queue between any two steps of ours: then there is no room. */
static void test_last_place(void **state) {
        uint32_t n_full = 0;
        pthread_t thread;

        (void) state;
        alarm(60);
        while (send_other())
                ;
        assert_int_equal(pthread_create(&thread, NULL, send_others, NULL), 0);
        for (uint32_t i = 1; i <= N_ROUNDS; i++) {
                read_one();
                shm_store_rel(&round_begun, i); /* ORDER: rel, pairs with send_others(). */
                n_full += notify_send("X=1") == -EAGAIN;
                while (send_other())
                        ;
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        print_message("%u of %u times without room\n", n_full, N_ROUNDS);
        alarm(0);
}

static uint32_t n_sent;

static void *read_slowly(void *userdata) {
        (void) userdata;
        while (shm_load_acq(&n_sent) < N_SLOW) { /* ORDER: acq, pairs with test_slow_manager(). */
                usleep(200000);
                read_one();
        }
        return NULL;
}

/* A manager that reads a message from time to time does not delay each of ours. */
static void test_slow_manager(void **state) {
        uint64_t begin = proto_now_usec();
        pthread_t thread;

        (void) state;
        while (send_other())
                ;
        assert_int_equal(pthread_create(&thread, NULL, read_slowly, NULL), 0);
        for (uint32_t i = 1; i <= N_SLOW; i++) {
                (void) notify_send("X=1");
                shm_store_rel(&n_sent, i); /* ORDER: rel, pairs with read_slowly(). */
        }
        assert_true(proto_now_usec() - begin < 2 * PROTO_USEC_PER_SEC);
        assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_slow_manager, open_manager, close_manager),
                cmocka_unit_test_setup_teardown(test_last_place, open_manager, close_manager),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
