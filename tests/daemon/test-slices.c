/*
 * Work of many slices lets other requests through. Each slice is as small as it can be (TSLAB_TEST_SLICES), and a
 * request that was sent after the long ones is answered before them. All are sent while the daemon is stopped, so that
 * no speed matters.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/epoch/epoch.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/test.h"

#define N_SLABS 16384U
#define N_OBJECTS 2000U /* five to a slab */

enum { STATS = 10, EPOCHS, CHECK, CHECK_REPAIR, TRIM, CLOSE, MAP, ROOTS };

static DaemonFixture fixture;

/* Some hundred slabs; as if all had been in use: words in holes belong to slabs without pages. */
static void use(void) {
        RawClient client;
        uint64_t handle;

        raw_client_open(&client, &fixture, 0);
        for (unsigned i = 0; i < N_OBJECTS; i++)
                assert_int_equal(shm_object_alloc(&client.actor, 768, SHM_EPOCH_CURRENT, NULL, &handle, NULL),
                                 0);
        client.arena.header->n_slabs_ever.value = client.arena.n_slabs;
        assert_int_equal(client.arena.n_slabs, N_SLABS);
        raw_client_close(&client);
}

static void send_request(int fd, uint64_t id) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Stats stats = TSLAB__STATS__INIT;
        Tslab__EpochList list = TSLAB__EPOCH_LIST__INIT;
        Tslab__Check check = TSLAB__CHECK__INIT;
        Tslab__Trim trim = TSLAB__TRIM__INIT;
        Tslab__EpochClose close = TSLAB__EPOCH_CLOSE__INIT;
        Tslab__SlabMap map = TSLAB__SLAB_MAP__INIT;
        Tslab__Roots roots = TSLAB__ROOTS__INIT;

        request.id = id;
        switch (id) {
        case STATS:
                request.body_case = TSLAB__REQUEST__BODY_STATS;
                request.stats = &stats;
                break;
        case EPOCHS:
                request.body_case = TSLAB__REQUEST__BODY_EPOCH_LIST;
                request.epoch_list = &list;
                break;
        case CHECK:
        case CHECK_REPAIR:
                request.body_case = TSLAB__REQUEST__BODY_CHECK;
                request.check = &check;
                check.repair = id == CHECK_REPAIR;
                break;
        case TRIM:
                request.body_case = TSLAB__REQUEST__BODY_TRIM;
                request.trim = &trim;
                break;
        case CLOSE:
                request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
                request.epoch_close = &close; /* epoch 0; its objects stay */
                break;
        case MAP:
                request.body_case = TSLAB__REQUEST__BODY_SLAB_MAP;
                request.slab_map = &map;
                map.cells = 1;
                break;
        default:
                request.body_case = TSLAB__REQUEST__BODY_ROOTS;
                request.roots = &roots;
        }
        assert_int_equal(proto_request_send(fd, &request, NULL, 0, NULL), 0);
}

/* The next one that is no progress. */
static uint64_t next_answer(int fd) {
        for (;;) {
                _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
                struct pollfd p = { .fd = fd, .events = POLLIN };
                ProtoFds fds;

                assert_int_equal(poll(&p, 1, 60000), 1);
                assert_int_equal(proto_reply_receive(fd, &reply, &fds), 0);
                assert_int_equal(reply->error, 0);
                if (!reply->more)
                        return reply->id;
                assert_non_null(reply->progress);
        }
}

static void stop(bool stopped) {
        int status;

        assert_int_equal(kill(fixture.pid, stopped ? SIGSTOP : SIGCONT), 0);
        assert_int_equal(waitpid(fixture.pid, &status, stopped ? WUNTRACED : WCONTINUED), fixture.pid);
}

static void try_long(const uint64_t *ids, size_t n) {
        _cleanup_(proto_call_freep) ProtoCall *call = daemon_connect(&fixture, 0);
        int fd = proto_call_fd(call);
        uint64_t seen = 0;

        stop(true);
        for (size_t i = 0; i < n; i++)
                send_request(fd, ids[i]);
        send_request(fd, ROOTS);
        stop(false);
        assert_int_equal(next_answer(fd), ROOTS);
        for (size_t i = 0; i < n; i++)
                seen |= UINT64_C(1) << next_answer(fd);
        for (size_t i = 0; i < n; i++)
                assert_true(seen >> ids[i] & 1);
}

static void test_each(void **state) {
        static const uint64_t ids[] = { STATS, EPOCHS, CHECK, CHECK_REPAIR, TRIM, CLOSE, MAP };

        (void) state;
        for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
                try_long(&ids[i], 1);
}

static void test_all(void **state) {
        static const uint64_t ids[] = { CLOSE, MAP, TRIM, CHECK_REPAIR, STATS, CHECK, EPOCHS };

        (void) state;
        try_long(ids, sizeof(ids) / sizeof(ids[0]));
}

/* The client that asked is gone before there is an answer; another client gets its own. */
static void test_gone(void **state) {
        _cleanup_(proto_call_freep) ProtoCall *gone = daemon_connect(&fixture, 0);

        (void) state;
        stop(true);
        for (uint64_t id = STATS; id < ROOTS; id++)
                send_request(proto_call_fd(gone), id);
        gone = proto_call_free(gone);
        stop(false);
        test_all(NULL);
}

static int setup(void **state) {
        (void) state;
        setenv("TSLAB_TEST_SLICES", "1", 1);
        daemon_start(&fixture, (const char *[]){ "--size=64M", "--log-level=err", NULL });
        unsetenv("TSLAB_TEST_SLICES");
        use();
        return 0;
}

static int teardown(void **state) {
        (void) state;
        daemon_stop(&fixture);
        return 0;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each),
                cmocka_unit_test(test_all),
                cmocka_unit_test(test_gone),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
