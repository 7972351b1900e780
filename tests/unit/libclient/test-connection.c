/*
 * Attaching, with the smallest of daemons: a child that answers hello, attach, fork and advance, and
 * can be told to misbehave.
 */
#include "libclient/host/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/arena/client.h"
#include "shm/maintain/check.h"
#include "shm/cache/object.h"
#include "shm/epoch/epoch-open.h"
#include "tests/util/process.h"
#include "tests/util/test.h"

#define N_PEERS 16

typedef struct Server {
        char dir[32], path[64];
        ShmArena arena;
        int wake_fd;
        /* The mistake that the daemon makes. */
        uint32_t role;
        uint32_t protocol_ahead, format_ahead; /* versions that it is ahead of ours */
        int hello_error, attach_error;
        int memfd; /* instead of the arena; -1: none */
        bool dies_on_advance;
        bool gives_up; /* has a successor that gives the entry up, before the client sees the answer */
        uint32_t wrong_client; /* the index that it answers; 0: the right one */
        uint32_t wrong_epoch; /* the epoch that it answers; UINT32_MAX: the right one */
        struct pollfd peers[N_PEERS];
        size_t n_peers;
        pid_t pid;
} Server;

static void refuse(int fd, ProtoReply *reply, int error) {
        reply->error = error;
        reply->message = (char *) "no";
        (void) proto_reply_send(fd, reply, NULL, 0);
}

static void serve_hello(Server *s, int fd, ProtoReply *reply) {
        Tslab__HelloReply hello = TSLAB__HELLO_REPLY__INIT;

        if (s->hello_error) {
                refuse(fd, reply, s->hello_error);
                return;
        }
        hello.protocol_version = PROTO_VERSION + s->protocol_ahead;
        hello.software = (char *) "test";
        hello.arena_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *) s->arena.arena_id };
        hello.format_version = SHM_FORMAT_VERSION + s->format_ahead;
        hello.pool = (char *) "test";
        hello.role = s->role;
        reply->body_case = TSLAB__REPLY__BODY_HELLO;
        reply->hello = &hello;
        (void) proto_reply_send(fd, reply, NULL, 0);
}

static void serve_attach(Server *s, int fd, const Tslab__Attach *request, ProtoReply *reply) {
        Tslab__AttachReply attach = TSLAB__ATTACH_REPLY__INIT;
        ShmClientInfo info = { .state = SHM_CLIENT_COMES, .program = request->program };
        int fds[] = { s->memfd >= 0 ? s->memfd : s->arena.fd, s->wake_fd };

        if (s->attach_error) {
                refuse(fd, reply, s->attach_error);
                return;
        }
        if (request->entry == 0 && shm_client_add(&s->arena, &info) < 0)
                _exit(1);
        if (s->gives_up)
                shm_client_end(&s->arena, info.index);
        attach.client = s->wrong_client != 0  ? s->wrong_client
                        : request->entry != 0 ? request->entry - 1
                                              : info.index;
        attach.role = s->role;
        reply->body_case = TSLAB__REPLY__BODY_ATTACH;
        reply->attach = &attach;
        (void) proto_reply_send(fd, reply, fds, s->role == PROTO_ROLE_READER ? 1 : 2);
}

static void serve_advance(Server *s, int fd, ProtoReply *reply) {
        Tslab__EpochAdvanceReply advance = TSLAB__EPOCH_ADVANCE_REPLY__INIT;

        if (s->dies_on_advance)
                _exit(0);
        if (shm_epoch_advance(&s->arena, &advance.epoch) < 0)
                _exit(1);
        if (s->wrong_epoch != UINT32_MAX)
                advance.epoch = s->wrong_epoch;
        reply->body_case = TSLAB__REPLY__BODY_EPOCH_ADVANCE;
        reply->epoch_advance = &advance;
        (void) proto_reply_send(fd, reply, NULL, 0);
}

static void serve_reserve(const Server *s, int fd, ProtoReply *reply) {
        Tslab__EpochReserveReply reserve = TSLAB__EPOCH_RESERVE_REPLY__INIT;

        reserve.epoch = s->wrong_epoch;
        reply->body_case = TSLAB__REPLY__BODY_EPOCH_RESERVE;
        reply->epoch_reserve = &reserve;
        (void) proto_reply_send(fd, reply, NULL, 0);
}

static void add_peer(Server *s, int fd) {
        if (proto_socket_adopt(fd, s->n_peers == 0) == 0 && s->n_peers < N_PEERS)
                s->peers[s->n_peers++] = (struct pollfd){ .fd = fd, .events = POLLIN };
}

static void serve_peer(Server *s, struct pollfd *peer) {
        _cleanup_(proto_request_freep) ProtoRequest *request = NULL;
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
        ProtoReply reply = PROTO_REPLY_INIT;

        if (proto_request_receive(peer->fd, &request, &reply.id, &fds, NULL) != 0) {
                close(peer->fd);
                peer->fd = -1;
                return;
        }
        switch (request->body_case) {
        case TSLAB__REQUEST__BODY_HELLO:
                serve_hello(s, peer->fd, &reply);
                break;
        case TSLAB__REQUEST__BODY_ATTACH:
                serve_attach(s, peer->fd, request->attach, &reply);
                break;
        case TSLAB__REQUEST__BODY_FORK_ATTACH:
                add_peer(s, proto_fds_take(&fds, 0));
                break;
        case TSLAB__REQUEST__BODY_EPOCH_ADVANCE:
                serve_advance(s, peer->fd, &reply);
                break;
        case TSLAB__REQUEST__BODY_EPOCH_RESERVE:
                serve_reserve(s, peer->fd, &reply);
                break;
        default:
                _exit(1);
        }
}

static int serve(void *userdata) {
        Server *s = userdata;

        for (;;) {
                CHECK(poll(s->peers, s->n_peers, 20000) > 0);
                if (s->peers[0].revents)
                        add_peer(s, accept(s->peers[0].fd, NULL, NULL));
                for (size_t i = 1; i < s->n_peers; i++)
                        if (s->peers[i].revents)
                                serve_peer(s, &s->peers[i]);
        }
}

static void server_stop(Server *s) {
        if (s->pid > 0) {
                kill(s->pid, SIGKILL);
                (void) test_child_wait(s->pid);
        }
        s->pid = 0;
}

/* Listens before it forks: every later connection is served. */
static void server_start(Server *s) {
        int fd;

        server_stop(s);
        s->n_peers = 0;
        assert_int_equal(proto_listen(s->path, 0600, &fd), 0);
        add_peer(s, fd);
        s->pid = test_child_start(TEST_FORK, serve, s);
        close(fd);
}

static void make_arena(Server *s) {
        static const ShmGeometry geometry = { .slabs_size = 1 << 20,
                                              .n_records = 9,
                                              .n_epochs = 4,
                                              .n_classes = 2,
                                              .class_size = { 64, 256 } };

        shm_arena_deinit(&s->arena);
        assert_int_equal(shm_arena_create(&s->arena, &geometry, "test"), 0);
}

static int setup(void **state) {
        Server *s = calloc(1, sizeof(*s));

        s->arena.fd = s->arena.wake_fd = s->memfd = -1;
        s->role = PROTO_ROLE_OPERATOR;
        s->wrong_epoch = UINT32_MAX;
        strcpy(s->dir, "/tmp/tslab-test-XXXXXX");
        assert_non_null(mkdtemp(s->dir));
        snprintf(s->path, sizeof(s->path), "%s/a.sock", s->dir);
        s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        make_arena(s);
        *state = s;
        return 0;
}

static int teardown(void **state) {
        Server *s = *state;
        ShmCheck check;

        server_stop(s);
        assert_int_equal(shm_check(&s->arena, &check), 0);
        assert_int_equal(check.problems, 0);
        unlink(s->path);
        rmdir(s->dir);
        shm_arena_deinit(&s->arena);
        close(s->wake_fd);
        if (s->memfd >= 0)
                close(s->memfd);
        free(s);
        return 0;
}

static struct tslab *open_pool(Server *s) {
        struct tslab *pool;

        assert_int_equal(tslab_open(&pool, s->path, NULL), 0);
        return pool;
}

static int try_open(Server *s, uint32_t flags) {
        struct tslab_options options = { .size = sizeof(options), .flags = flags };
        struct tslab *pool;
        int r;

        server_start(s);
        r = tslab_open(&pool, s->path, &options);
        if (r == 0)
                tslab_close(pool);
        return r;
}

static int without_daemon_or_objects(void *userdata) {
        tslab_handle handle;

        CHECK(tslab_alloc(userdata, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == -ENOTCONN);
        return 0;
}

static void test_open_and_use(void **state) {
        Server *s = *state;
        struct tslab *pool;
        tslab_handle handle;
        uint32_t epoch;
        void *object;

        assert_int_equal(tslab_open(&pool, s->path, NULL), -ENOENT);
        server_start(s);
        pool = open_pool(s);
        assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
        assert_int_equal(shm_object_get(&s->arena, handle, &object, NULL), 0);
        assert_int_equal(tslab_free(pool, handle), 0);
        assert_int_equal(tslab_epoch_advance(pool, &epoch), 0);
        assert_int_equal(epoch, shm_epoch_current(&s->arena));
        tslab_close(pool);
        server_stop(s);
        assert_int_equal(tslab_open(&pool, s->path, NULL), -ECONNREFUSED);
}

static void test_open_roles(void **state) {
        Server *s = *state;

        s->role = PROTO_ROLE_READER;
        assert_int_equal(try_open(s, 0), -EACCES);
        assert_int_equal(try_open(s, TSLAB_READER), 0);
        s->role = PROTO_ROLE_WRITER;
        assert_int_equal(try_open(s, 0), 0);
        assert_int_equal(try_open(s, TSLAB_READER), 0);
}

/* A program that writes over the kernel's bytes stays the same program. */
static void test_open_program(void **state) {
        unsigned char *bytes = (unsigned char *) (uintptr_t) getauxval(AT_RANDOM);
        struct tslab *first, *second;
        Server *s = *state;

        server_start(s);
        first = open_pool(s);
        bytes[0] ^= 1;
        second = open_pool(s);
        bytes[0] ^= 1;
        assert_int_not_equal(s->arena.clients[0].program, 0);
        assert_int_equal(s->arena.clients[0].program, s->arena.clients[1].program);
        tslab_close(second);
        tslab_close(first);
}

static void test_open_reader(void **state) {
        struct tslab_options options = { .size = sizeof(options), .flags = TSLAB_READER };
        Server *s = *state;
        struct tslab *writer, *reader;
        tslab_handle handle, other;
        void *object;

        server_start(s);
        writer = open_pool(s);
        assert_int_equal(tslab_open(&reader, s->path, &options), 0);
        assert_int_equal(tslab_alloc(writer, 64, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
        assert_int_equal(tslab_get(reader, handle, &object, NULL), 0);
        assert_int_equal(tslab_free(reader, handle), -EROFS);
        assert_int_equal(tslab_free_batch(reader, &handle, 1), -EROFS);
        assert_int_equal(tslab_alloc(reader, 64, TSLAB_EPOCH_CURRENT, &other, NULL), -EROFS);
        assert_int_equal(tslab_alloc_batch(reader, 64, TSLAB_EPOCH_CURRENT, &other, 1), -EROFS);
        assert_int_equal(tslab_alloc_pending(reader, 64, TSLAB_EPOCH_CURRENT, &other, NULL), -EROFS);
        assert_int_equal(tslab_publish(reader, handle), -EROFS);
        assert_int_equal(tslab_root_set(reader, "x", 0, handle), -EROFS);
        assert_int_equal(tslab_epoch_advance(reader, NULL), -EROFS);
        assert_null(tslab_malloc(reader, 8, TSLAB_EPOCH_CURRENT));
        tslab_close(reader);
        assert_int_equal(tslab_free(writer, handle), 0);
        tslab_close(writer);
}

static void test_open_refused(void **state) {
        Server *s = *state;

        s->attach_error = -ENOSPC;
        assert_int_equal(try_open(s, 0), -EUSERS);
        s->attach_error = -EREMOTE;
        assert_int_equal(try_open(s, 0), -EREMOTE);
        s->attach_error = 0;
        s->memfd = memfd_create("other", MFD_CLOEXEC);
        assert_int_equal(try_open(s, 0), -EPROTONOSUPPORT);
        assert_int_equal(ftruncate(s->memfd, (off_t) s->arena.size), 0);
        assert_int_equal(pwrite(s->memfd, s->arena.header, sizeof(ShmHeader), 0), sizeof(ShmHeader));
        assert_int_equal(try_open(s, 0), -EBADMSG); /* no seals */
        (void) close(s->memfd);
        s->memfd = open("/proc/self/exe", O_PATH | O_CLOEXEC); /* nobody can read it */
        assert_int_equal(try_open(s, 0), -EPROTO);
        assert_int_equal(try_open(s, TSLAB_READER), -EPROTO);
}

/* The process may have got the answer, but the entry is not its own any more, and no record of its names it. */
static void test_open_given_up(void **state) {
        Server *s = *state;
        struct tslab *pool;
        tslab_handle handle;

        s->gives_up = true;
        assert_int_equal(try_open(s, 0), -ECONNRESET);
        assert_int_equal(shm_arena_n_records_ever(&s->arena), 1);
        s->gives_up = false;
        server_start(s);
        pool = open_pool(s);
        s->gives_up = true;
        server_start(s);
        assert_int_equal(test_child_run(TEST_FORK, without_daemon_or_objects, pool), 0);
        assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
        assert_int_equal(tslab_free(pool, handle), 0);
        tslab_close(pool);
}

/* Beside the entry that the process has, or beside the table. */
static void test_open_wrong_client(void **state) {
        Server *s = *state;
        struct tslab *pool;

        server_start(s);
        pool = open_pool(s);
        s->wrong_client = 1;
        server_start(s);
        assert_int_equal(tslab_epoch_advance(pool, NULL), -EPROTO);
        s->wrong_client = s->arena.n_records;
        assert_int_equal(try_open(s, 0), -EPROTO);
        assert_int_equal(try_open(s, TSLAB_READER), -EPROTO);
        s->wrong_client = 0;
        server_start(s);
        assert_int_equal(tslab_epoch_advance(pool, NULL), 0);
        tslab_close(pool);
}

/* No such id, or no era: the number would stand for another epoch than the one that the daemon opened. */
static void test_open_wrong_epoch(void **state) {
        static const uint32_t wrong[] = { 4 | 1 << 8, 63 | 1 << 8, 2, 0 };
        Server *s = *state;
        struct tslab *pool;
        uint32_t epoch = 7;

        server_start(s);
        pool = open_pool(s);
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                s->wrong_epoch = wrong[i];
                server_start(s);
                assert_int_equal(tslab_epoch_advance(pool, &epoch), -EPROTO);
                assert_int_equal(tslab_epoch_reserve(pool, "x", &epoch), -EPROTO);
                assert_int_equal(epoch, 7);
        }
        s->wrong_epoch = 3 | 1 << 8;
        server_start(s);
        assert_int_equal(tslab_epoch_advance(pool, &epoch), 0);
        assert_int_equal(tslab_epoch_reserve(pool, "x", &epoch), 0);
        assert_int_equal(epoch, 3 | 1 << 8);
        tslab_close(pool);
}

/* A successor that names the right arena, and sends another file. */
static void test_open_wrong_memfd(void **state) {
        Server *s = *state;
        struct tslab *pool;
        tslab_handle handle;

        server_start(s);
        pool = open_pool(s);
        s->memfd = memfd_create("other", MFD_CLOEXEC);
        server_start(s);
        assert_int_equal(tslab_epoch_advance(pool, NULL), -EPROTO);
        close(s->memfd);
        s->memfd = -1;
        server_start(s);
        assert_int_equal(tslab_epoch_advance(pool, NULL), 0);
        assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
        assert_int_equal(tslab_free(pool, handle), 0);
        tslab_close(pool);
}

/* A daemon of another version, or an arena that another build made. Only the last is found after attaching. */
static void test_open_other_version(void **state) {
        Server *s = *state;

        s->attach_error = -EIO; /* not reached */
        s->protocol_ahead = 1;
        assert_int_equal(try_open(s, 0), -EPROTONOSUPPORT);
        s->protocol_ahead = 0;
        s->hello_error = -EPROTONOSUPPORT;
        assert_int_equal(try_open(s, 0), -EPROTONOSUPPORT);
        s->hello_error = 0;
        s->format_ahead = 1;
        assert_int_equal(try_open(s, 0), -EPROTONOSUPPORT);
        assert_int_equal(try_open(s, TSLAB_READER), -EPROTONOSUPPORT);
        s->format_ahead = s->attach_error = 0;
        s->arena.header->format_hash ^= 1;
        assert_int_equal(try_open(s, 0), -EPROTONOSUPPORT);
        assert_int_equal(try_open(s, TSLAB_READER), -EPROTONOSUPPORT);
        s->arena.header->format_hash ^= 1;
        assert_int_equal(try_open(s, 0), 0);
}

/* Its successor has the same arena: the next control call finds it, and the eventfd is the new one. */
static void test_daemon_restarts(void **state) {
        Server *s = *state;
        struct tslab *pool;
        uint64_t n;

        server_start(s);
        pool = open_pool(s);
        server_stop(s);
        assert_int_equal(tslab_epoch_advance(pool, NULL), -ENOTCONN);
        close(s->wake_fd);
        s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        server_start(s);
        assert_int_equal(tslab_epoch_advance(pool, NULL), 0);
        shm_wake(&pool->arena);
        assert_int_equal(read(s->wake_fd, &n, sizeof(n)), sizeof(n));
        assert_false(tslab_stale(pool));
        tslab_close(pool);
}

static int look_stale(void *userdata) {
        CHECK(tslab_stale(userdata));
        return 0;
}

/* No control call is needed to find out, and no record: a forked child sees it too. */
static void test_other_arena_is_looked_for(void **state) {
        Server *s = *state;
        struct tslab *pool;
        int connected;

        server_start(s);
        pool = open_pool(s);
        assert_false(tslab_stale(pool));
        server_stop(s);
        assert_false(tslab_stale(pool)); /* nobody answers */
        server_start(s);
        assert_false(tslab_stale(pool)); /* a successor, with the same arena */
        connected = proto_call_fd(pool->call);
        assert_int_equal(poll(&(struct pollfd){ .fd = connected, .events = POLLRDHUP }, 1, 0), 0);
        assert_false(tslab_stale(pool));
        assert_int_equal(proto_call_fd(pool->call), connected); /* it is asked once */
        assert_int_equal(tslab_epoch_advance(pool, NULL), 0);
        server_stop(s);
        make_arena(s);
        server_start(s);
        assert_int_equal(test_child_run(TEST_FORK, look_stale, pool), 0);
        assert_true(tslab_stale(pool));
        server_stop(s);
        assert_true(tslab_stale(pool));
        tslab_close(pool);
}

/* Somebody listens, and does not answer: so it is where a daemon cannot start and systemd has its socket. */
static struct tslab *open_until_mute(Server *s, uint32_t timeout_ms, int *ret_fd) {
        struct tslab_options options = { .size = sizeof(options), .timeout_ms = timeout_ms };
        struct tslab *pool;

        server_start(s);
        assert_int_equal(tslab_open(&pool, s->path, &options), 0);
        server_stop(s);
        assert_int_equal(proto_listen(s->path, 0600, ret_fd), 0);
        assert_false(tslab_stale(pool));
        return pool;
}

static void test_mute_daemon_delays_one_look(void **state) {
        Server *s = *state;
        uint64_t begin;
        int fd;
        struct tslab *pool = open_until_mute(s, 2000, &fd);

        begin = proto_now_usec();
        assert_false(tslab_stale(pool));
        assert_true(proto_now_usec() - begin < 1000000);
        assert_int_equal(tslab_epoch_advance(pool, NULL), -ETIMEDOUT);
        close(fd);
        make_arena(s);
        server_start(s);
        while (!tslab_stale(pool))
                usleep(1000);
        tslab_close(pool);
}

/* A daemon that answered a call is none that does not answer: the next one has the whole time again. */
static void test_mute_daemon_is_forgotten(void **state) {
        Server *s = *state;
        uint64_t begin;
        int fd;
        struct tslab *pool = open_until_mute(s, 500, &fd);

        close(fd);
        server_start(s);
        assert_int_equal(tslab_epoch_advance(pool, NULL), 0);
        server_stop(s);
        assert_int_equal(proto_listen(s->path, 0600, &fd), 0);
        begin = proto_now_usec();
        assert_false(tslab_stale(pool));
        assert_true(proto_now_usec() - begin > 400000);
        close(fd);
        tslab_close(pool);
}

static void test_daemon_has_other_arena(void **state) {
        Server *s = *state;
        struct tslab *pool;
        tslab_handle handle;

        server_start(s);
        pool = open_pool(s);
        server_stop(s);
        make_arena(s);
        server_start(s);
        assert_int_equal(tslab_epoch_advance(pool, NULL), -EUCLEAN);
        assert_true(tslab_stale(pool));
        assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
        assert_int_equal(tslab_free(pool, handle), 0);
        tslab_close(pool);
}

static void test_daemon_dies_in_call(void **state) {
        Server *s = *state;
        struct tslab *pool;

        s->dies_on_advance = true;
        server_start(s);
        pool = open_pool(s);
        assert_int_equal(tslab_epoch_advance(pool, NULL), -ECONNRESET);
        assert_int_equal(tslab_epoch_advance(pool, NULL), -ENOTCONN);
        tslab_close(pool);
}

static int use_in_child(void *userdata) {
        struct tslab *pool = userdata;
        tslab_handle handle;

        CHECK(tslab_epoch_advance(pool, NULL) == 0);
        CHECK(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
        CHECK(tslab_free(pool, handle) == 0);
        tslab_close(pool);
        return 0;
}

/* The path is gone, so that it can only be the inherited connection. */
static void test_fork_attaches(void **state) {
        Server *s = *state;
        struct tslab *pool;

        server_start(s);
        pool = open_pool(s);
        unlink(s->path);
        for (int how = 0; how < _TEST_FORK_N; how++) {
                assert_int_equal(test_child_run((TestFork) how, use_in_child, pool), 0);
                assert_int_equal(tslab_epoch_advance(pool, NULL), 0);
        }
        tslab_close(pool);
}

static int without_daemon(void *userdata) {
        struct tslab *pool = userdata;
        tslab_handle handle;
        void *object;

        CHECK(tslab_root_get(pool, "object", &handle) == 0);
        CHECK(tslab_get(pool, handle, &object, NULL) == 0);
        CHECK(tslab_free(pool, handle) == -ENOTCONN);
        CHECK(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == -ENOTCONN);
        CHECK(tslab_epoch_advance(pool, NULL) == -ENOTCONN);
        return 0;
}

/* A child whose daemon died reads, and attaches to the next. */
static void test_fork_daemon_died(void **state) {
        Server *s = *state;
        struct tslab *pool;
        tslab_handle handle;

        server_start(s);
        pool = open_pool(s);
        assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
        assert_int_equal(tslab_root_set(pool, "object", 0, handle), 0);
        server_stop(s);
        assert_int_equal(test_child_run(TEST_FORK, without_daemon, pool), 0);
        server_start(s);
        assert_int_equal(test_child_run(TEST_FORK, use_in_child, pool), 0);
        assert_int_equal(tslab_free(pool, handle), 0);
        tslab_close(pool);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                TEST(test_open_and_use),
                TEST(test_open_roles),
                TEST(test_open_program),
                TEST(test_open_reader),
                TEST(test_open_refused),
                TEST(test_open_other_version),
                TEST(test_daemon_restarts),
                TEST(test_daemon_has_other_arena),
                TEST(test_other_arena_is_looked_for),
                TEST(test_mute_daemon_delays_one_look),
                TEST(test_mute_daemon_is_forgotten),
                TEST(test_daemon_dies_in_call),
                TEST(test_fork_attaches),
                TEST(test_fork_daemon_died),
                TEST(test_open_given_up),
                TEST(test_open_wrong_client),
                TEST(test_open_wrong_epoch),
                TEST(test_open_wrong_memfd),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
