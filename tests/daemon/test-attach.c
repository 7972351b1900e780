/* Attaching to a pool: processes, roles, versions, two daemons, and bad options. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/cache/cache.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/test.h"

static int setup(void **state) {
        static DaemonFixture daemon;

        daemon_start(&daemon, (const char *[]){ "--size=16M", "--log-level=warning", "--mode=0666", NULL });
        *state = &daemon;
        return 0;
}

static int teardown(void **state) {
        daemon_stop(*state);
        return 0;
}

static int read_and_free(const DaemonFixture *daemon, uint64_t handle) {
        RawClient client;
        void *object;
        size_t size;

        raw_client_open(&client, daemon, PROTO_ROLE_WRITER);
        if (shm_object_get(&client.arena, handle, &object, &size) || strcmp(object, "hello"))
                return 1;
        if (shm_object_free(&client.actor, handle))
                return 2;
        raw_client_close(&client);
        return 0;
}

static void test_attach_two_processes(void **state) {
        DaemonFixture *daemon = *state;
        uint64_t handle;
        RawClient client;
        void *object;

        raw_client_open(&client, daemon, PROTO_ROLE_WRITER);
        assert_int_equal(shm_object_alloc(&client.actor, 100, SHM_EPOCH_CURRENT, NULL, &handle, &object), 0);
        strcpy(object, "hello");
        daemon_child(read_and_free, daemon, handle);
        assert_false(shm_object_live(&client.arena, handle));
        raw_client_close(&client);
}

static void test_attach_reader(void **state) {
        DaemonFixture *daemon = *state;
        RawClient writer, reader;
        struct stat st;
        uint64_t handle;
        void *object;

        raw_client_open(&writer, daemon, PROTO_ROLE_WRITER);
        raw_client_open(&reader, daemon, PROTO_ROLE_READER);
        assert_int_not_equal(reader.client, writer.client);
        assert_int_equal(shm_object_alloc(&writer.actor, 64, SHM_EPOCH_CURRENT, NULL, &handle, &object), 0);
        assert_true(shm_object_live(&reader.arena, handle));

        assert_int_equal(fcntl(reader.arena.fd, F_GETFL) & O_ACCMODE, O_RDONLY);
        assert_ptr_equal(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, reader.arena.fd, 0), MAP_FAILED);
        assert_int_equal(fstat(reader.arena.fd, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);

        assert_int_equal(shm_object_free(&writer.actor, handle), 0);
        raw_client_close(&reader);
        raw_client_close(&writer);
}

static void test_attach_wrong_version(void **state) {
        DaemonFixture *daemon = *state;
        _cleanup_(proto_call_freep) ProtoCall *call = NULL;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        ProtoHello hello = PROTO_HELLO_INIT;
        int fd;

        hello.protocol_version = PROTO_VERSION + 7;
        hello.software = (char *) "future 9";
        hello.comm = (char *) "future";
        request.body_case = TSLAB__REQUEST__BODY_HELLO;
        request.hello = &hello;
        assert_int_equal(proto_connect(daemon->socket, DAEMON_TIMEOUT_USEC, &fd), 0);
        assert_int_equal(proto_call_new(&call, fd), 0);
        assert_int_equal(proto_call(call, &request, DAEMON_TIMEOUT_USEC, NULL, NULL, &reply, NULL),
                         PROTO_E_REFUSED);
        assert_int_equal(reply->error, -EPROTONOSUPPORT);
        assert_non_null(strstr(reply->message, "future 9"));
        assert_non_null(strstr(reply->message, "version 8"));
}

static int call_attach(ProtoCall *call, const uint8_t *arena_id, ProtoReply **ret_reply) {
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Attach attach = TSLAB__ATTACH__INIT;

        if (arena_id)
                attach.arena_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *) arena_id };
        request.body_case = TSLAB__REQUEST__BODY_ATTACH;
        request.attach = &attach;
        return proto_call(call, &request, DAEMON_TIMEOUT_USEC, NULL, NULL, ret_reply, NULL);
}

static void test_attach_other_arena(void **state) {
        static const uint8_t other[16] = { 1, 2, 3 };
        _cleanup_(proto_call_freep) ProtoCall *call = daemon_connect(*state, 0);
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;

        assert_int_equal(call_attach(call, other, &reply), PROTO_E_REFUSED);
        assert_int_equal(reply->error, -EUCLEAN);
}

static void test_attach_twice(void **state) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        RawClient client;

        raw_client_open(&client, *state, PROTO_ROLE_WRITER);
        assert_int_equal(call_attach(client.call, NULL, &reply), PROTO_E_REFUSED);
        assert_int_equal(reply->error, -EALREADY);
        raw_client_close(&client);
}

/* The entry goes with a clean detach, and stays when a record is in use though nobody is connected. */
static void test_attach_leave(void **state) {
        DaemonFixture *daemon = *state;
        _cleanup_(proto_call_freep) ProtoCall *control = daemon_connect(daemon, 0);
        RawClient client;

        WAIT_FOR(daemon_n_clients(control) == 0);
        raw_client_open(&client, daemon, PROTO_ROLE_WRITER);
        assert_int_equal(daemon_n_clients(control), 1);
        client.call = proto_call_free(client.call);
        usleep(50000);
        assert_int_equal(daemon_n_clients(control), 1);
        shm_cache_leave(&client.actor);
        WAIT_FOR(daemon_n_clients(control) == 0);
        raw_client_close(&client);
}

static int fork_attach(const DaemonFixture *daemon, uint64_t inherited_fd) {
        ProtoCall *call = NULL;
        RawClient client;
        uint64_t handle;
        void *object;

        if (proto_call_fork_attach(&call, (int) inherited_fd, "child", DAEMON_TIMEOUT_USEC))
                return 1;
        raw_client_attach(&client, call, PROTO_ROLE_WRITER, 0);
        if (shm_object_alloc(&client.actor, 64, SHM_EPOCH_CURRENT, NULL, &handle, &object))
                return 2;
        if (shm_object_free(&client.actor, handle) || daemon_n_clients(call) != 2)
                return 3;
        raw_client_close(&client);
        return 0;
}

static void test_fork_attach(void **state) {
        DaemonFixture *daemon = *state;
        RawClient client;

        raw_client_open(&client, daemon, PROTO_ROLE_WRITER);
        WAIT_FOR(daemon_n_clients(client.call) == 1);
        daemon_child(fork_attach, daemon, (uint64_t) proto_call_fd(client.call));
        WAIT_FOR(daemon_n_clients(client.call) == 1);
        raw_client_close(&client);
}

static int as_nobody(const DaemonFixture *daemon, uint64_t allowed) {
        _cleanup_(proto_call_freep) ProtoCall *call = NULL;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__EpochAdvance advance = TSLAB__EPOCH_ADVANCE__INIT;
        Tslab__Trim trim = TSLAB__TRIM__INIT;
        int r;

        if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
                return 1;
        call = daemon_connect(daemon, PROTO_ROLE_OPERATOR);
        request.body_case = TSLAB__REQUEST__BODY_TRIM;
        request.trim = &trim;
        r = proto_call(call, &request, DAEMON_TIMEOUT_USEC, NULL, NULL, &reply, NULL);
        if (r != PROTO_E_REFUSED || reply->error != -EPERM)
                return 2;
        reply = proto_reply_free(reply);
        request.body_case = TSLAB__REQUEST__BODY_EPOCH_ADVANCE;
        request.epoch_advance = &advance;
        r = proto_call(call, &request, DAEMON_TIMEOUT_USEC, NULL, NULL, &reply, NULL);
        if (allowed)
                return r == 0 ? 0 : 3;
        return r == PROTO_E_REFUSED && reply->error == -EPERM && strstr(reply->message, "operator") ? 0 : 4;
}

static void test_roles(void **state) {
        DaemonFixture strict;

        if (geteuid() != 0)
                skip();
        daemon_child(as_nobody, *state, true);
        daemon_start(&strict, (const char *[]){ "--size=1M", "--mode=0666", "--operators-only",
                                                "--log-level=err", NULL });
        daemon_child(as_nobody, &strict, false);
        daemon_stop(&strict);
}

static void test_second_daemon(void **state) {
        DaemonFixture *daemon = *state;
        char text[1024];

        assert_int_equal(daemon_run(daemon->dir, NULL, NULL, text, sizeof(text)), 1);
        assert_non_null(strstr(text, "pool default is served by another tslabd"));
        assert_true(daemon_answers(daemon));
}

static void test_options(void **state) {
        DaemonFixture *daemon = *state;
        static const struct {
                const char *argument, *variable;
                int status;
                const char *text;
        } cases[] = {
                { "--size=12x", NULL, 2, "--size: '12x' will not do; the size of a pool is 4K to 64G" },
                { "--size=-4K", NULL, 2, "--size" },
                { "--size=65G", NULL, 2, "4K to 64G" },
                { "--size=99999999999999999999", NULL, 2, "4K to 64G" },
                { "--size=5000", NULL, 2, "multiple of 4K" },
                { "--classes=64,100", NULL, 2, "multiple of 16 from 64 to 4096" },
                { "--classes=128,64", NULL, 2, "must rise" },
                { "--classes=", NULL, 2, "1 to 32" },
                { "--classes=64,", NULL, 2, "1 to 32" },
                { "--classes=4294967360", NULL, 2, "1 to 32" },
                { "--epochs=65", NULL, 2, "2 to 64 epochs" },
                { "--epochs=1", NULL, 2, "2 to 64 epochs" },
                { "--threads=0", NULL, 2, "1 to 4095 threads" },
                { "--threads=5000", NULL, 2, "1 to 4095 threads" },
                { "--retain=much", NULL, 2, "number of bytes" },
                { "--pool=No-Good", NULL, 2, "the name of a pool" },
                { "--listen=here.sock", NULL, 2, "absolute path" },
                { "--mode=0888", NULL, 2, "octal" },
                { "--mode=1777", NULL, 2, "octal" },
                { "--group=no_such_group", NULL, 2, "name or number" },
                { "--log-level=loud", NULL, 2, "err, warning, notice, info or debug" },
                { "--nonsense", NULL, 2, "--help" },
                { "nonsense", NULL, 2, "options only" },
                { NULL, "TSLAB_SIZE=tiny", 2, "$TSLAB_SIZE: 'tiny'" },
                { "--help", "TSLAB_SIZE=tiny", 0, "Usage: tslabd" },
                { "--version", NULL, 0, "tslabd " TSLAB_VERSION },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char text[4096];
                int status;

                status = daemon_run(daemon->dir, (const char *[]){ cases[i].argument, NULL },
                                    cases[i].variable, text, sizeof(text));
                if (status != cases[i].status || !strstr(text, cases[i].text))
                        print_error("%s %s: %d\n%s", cases[i].argument ?: "", cases[i].variable ?: "", status,
                                    text);
                assert_int_equal(status, cases[i].status);
                assert_non_null(strstr(text, cases[i].text));
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_attach_two_processes), cmocka_unit_test(test_attach_reader),
                cmocka_unit_test(test_attach_wrong_version), cmocka_unit_test(test_attach_other_arena),
                cmocka_unit_test(test_attach_twice),         cmocka_unit_test(test_attach_leave),
                cmocka_unit_test(test_fork_attach),          cmocka_unit_test(test_roles),
                cmocka_unit_test(test_second_daemon),        cmocka_unit_test(test_options),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
