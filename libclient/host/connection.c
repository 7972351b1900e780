/*
 * A pool's connection to its daemon
 *
 * Purpose: to attach this process to a daemon's pool, and to call the daemon, also after another one took its place.
 *
 * Invariants
 *   1. Once the pool is open, `call` is a connection at any moment: replace_call() stores the new one before it
 *      frees the old one, so that a child that is forked in between inherits an open descriptor.
 *   2. `stale` goes from 0 to 1, never back: a daemon at the pool's path has another arena, or gave this process up.
 *   3. The number of arena.wake_fd never changes while the pool is open: dup3() puts the new daemon's eventfd
 *      behind it, and threads that are about to write to it wake the one daemon or the other.
 *   4. `program` is written before main() runs, and only read afterwards.
 *   5. The process uses only an entry whose state shm_client_enter() has made USED.
 *
 * Who may do what: the thread that opens the pool calls connection_begin() before others know the pool. A thread
 *   that holds attach_lock calls connection_attach_child(); a thread that holds call_lock calls
 *   connection_ask() and connection_look(). Any thread reads `stale`.
 *
 * Crash: a process that dies with an entry leaves the entry to the daemon, which finds the process gone, repairs
 *   its records and frees the entry. A daemon that dies after it made an entry leaves it in state COMES: the next
 *   daemon gives the entry up with client_resume(), shm_client_enter() then fails, and the process attaches again.
 */
#include "libclient/host/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libclient/pool/sampler.h"
#include "proto/text.h"
#include "shm/arena/client.h"
#include "shm/format/siphash.h"

/* For each answer of a daemon that gave none before. */
#define LOOK_AGAIN_USEC 50000

/* The answer to Attach. */
typedef struct Attachment {
        uint32_t client;
        uint32_t role;
        int memfd;
        int wake_fd; /* -1: a reader has none */
} Attachment;

static void attachment_deinit(Attachment *a) {
        a->memfd = proto_close(a->memfd);
        a->wake_fd = proto_close(a->wake_fd);
}

static void connection_comm(const struct tslab *pool, char *ret) {
        char name[16] = "";

        if (pool->comm[0])
                strcpy(name, pool->comm);
        else if (gettid() == getpid())
                (void) prctl(PR_GET_NAME, name);
        else
                strncpy(name, program_invocation_short_name, sizeof(name) - 1);
        proto_text_clean(ret, sizeof(name), name);
}

/* From an outcome of proto/call.h to one of <tslab.h>. */
static int connection_error(int r, const ProtoReply *reply) {
        if (r == PROTO_E_CLOSED)
                return -ECONNRESET;
        if (r == PROTO_E_REFUSED)
                return reply->error < 0 && reply->error >= -4095 ? reply->error : -EPROTO;
        if (r == -ENOTDIR || r == -ELOOP) /* on the way to the socket */
                return -ENOENT;
        if (r == -ENOBUFS) /* sendmsg() says so; to callers it would mean that too many objects are pending */
                return -ENOMEM;
        if (r == -ETOOMANYREFS) /* this user has too many descriptors in messages on their way */
                return -EMFILE;
        return r > 0 || r == -EPROTOTYPE ? -EPROTO : r;
}

static int say_hello(const struct tslab *pool, uint64_t timeout_usec, ProtoCall **ret_call,
                     ProtoReply **ret_reply) {
        ProtoHello hello = PROTO_HELLO_INIT;
        char comm[16];
        int r;

        connection_comm(pool, comm);
        hello.software = (char *) "libtslab " TSLAB_VERSION;
        hello.comm = comm;
        hello.want_role = pool->is_reader ? PROTO_ROLE_READER : 0;
        r = proto_call_open(ret_call, pool->path, &hello, timeout_usec, ret_reply);
        return connection_error(r, *ret_reply);
}

/*
 * A number of the program that this process executes; 0: not known. It is a hash keyed with bytes that the kernel gives
 * a program at its exec. So these bytes stay secret, and every copy of this library in the process finds the same
 * number. It is made before main() runs, or dlopen() returns: later the program may have overwritten the bytes, and the
 * daemon would take the process for another program.
 */
static uint64_t program;

__attribute__((constructor)) static void init_program(void) {
        static const unsigned char message[] = "tslab";
        const unsigned char *key = (const unsigned char *) (uintptr_t) getauxval(AT_RANDOM); /* 16 bytes */

        if (key)
                program = shm_siphash(message, sizeof(message), key);
}

/* Whether the descriptor is of the file that this process has mapped. */
static bool is_our_memfd(const struct tslab *pool, int memfd) {
        struct stat ours, other;

        return fstat(pool->arena.fd, &ours) == 0 && fstat(memfd, &other) == 0 &&
               ours.st_dev == other.st_dev && ours.st_ino == other.st_ino;
}

/* Whether the answer is one for the entry that this process has, and for the arena that it has mapped. */
static bool attachment_fits(const struct tslab *pool, uint32_t entry, const Attachment *a) {
        if (pool->arena.base && (a->client >= pool->arena.n_records || !is_our_memfd(pool, a->memfd)))
                return false;
        return entry == 0 || pool->is_reader || a->client == entry - 1;
}

static int connection_attach(const struct tslab *pool, ProtoCall *call, const uint64_t *arena_id,
                             uint64_t timeout_usec, Attachment *ret) {
        _cleanup_(attachment_deinit) Attachment attachment = { .memfd = -1, .wake_fd = -1 };
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Attach body = TSLAB__ATTACH__INIT;
        int r;

        body.arena_id = (ProtobufCBinaryData){ .len = PROTO_ARENA_ID_SIZE, .data = (uint8_t *) arena_id };
        body.entry = pool->local && pool->local->joined ? pool->local->client + 1 : 0;
        body.program = program;
        request.body_case = TSLAB__REQUEST__BODY_ATTACH;
        request.attach = &body;
        r = proto_call(call, &request, timeout_usec, NULL, NULL, &reply, &fds);
        r = connection_error(r, reply);
        if (r == -ENOSPC)
                return -EUSERS;
        if (r)
                return r;
        if (!pool->is_reader && reply->attach->role < PROTO_ROLE_WRITER)
                return -EACCES;
        attachment = (Attachment){
                .client = reply->attach->client,
                .role = reply->attach->role,
                .memfd = proto_fds_take(&fds, 0),
                .wake_fd = proto_fds_take(&fds, 1),
        };
        if (!attachment_fits(pool, body.entry, &attachment))
                return -EPROTO;
        *ret = attachment;
        attachment.memfd = attachment.wake_fd = -1;
        return 0;
}

/* If the daemon was killed after its answer, its successor has given the entry up: then the process attaches again. */
static int connection_enter(struct tslab *pool, uint32_t client) {
        if (client >= pool->arena.n_records)
                return -EPROTO;
        return pool->is_reader || shm_client_enter(&pool->arena, client, program) ? 0 : -ECONNRESET;
}

static int connection_map(struct tslab *pool, Attachment *attachment, const uint64_t *arena_id) {
        int r;

        r = shm_arena_map(&pool->arena, attachment->memfd, pool->is_reader);
        if (r == SHM_ARENA_E_FORMAT)
                return -EPROTONOSUPPORT;
        if (r == SHM_ARENA_E_DAMAGED)
                return -EBADMSG;
        if (r == -EBADF) /* opened with O_PATH, or for writing alone: no arena that tslabd made */
                return -EPROTO;
        if (r)
                return r;
        (void) proto_steal_fd(&attachment->memfd);
        pool->arena.wake_fd = pool->is_reader ? -1 : proto_steal_fd(&attachment->wake_fd);
        return memcmp(pool->arena.arena_id, arena_id, PROTO_ARENA_ID_SIZE) == 0 ? 0 : -EPROTO;
}

int connection_begin(struct tslab *pool, uint32_t *ret_client) {
        _cleanup_(attachment_deinit) Attachment attachment = { .memfd = -1, .wake_fd = -1 };
        _cleanup_(proto_call_freep) ProtoCall *call = NULL;
        _cleanup_(proto_reply_freep) ProtoReply *hello = NULL;
        uint64_t arena_id[2];
        int r;

        r = say_hello(pool, pool->timeout_usec, &call, &hello);
        if (r)
                return r;
        if (hello->hello->format_version != SHM_FORMAT_VERSION)
                return -EPROTONOSUPPORT;
        if (!pool->is_reader && hello->hello->role < PROTO_ROLE_WRITER)
                return -EACCES;
        memcpy(arena_id, hello->hello->arena_id.data, sizeof(arena_id));
        r = connection_attach(pool, call, arena_id, pool->timeout_usec, &attachment);
        if (r == 0)
                r = connection_map(pool, &attachment, arena_id);
        if (r == 0)
                r = connection_enter(pool, attachment.client);
        if (r)
                return r;
        pool->call = proto_steal(&call);
        pool->is_operator = attachment.role == PROTO_ROLE_OPERATOR;
        *ret_client = attachment.client;
        return 0;
}

/* Makes our descriptor wake the daemon that sent `wake_fd` from now on. Other threads may be using it. */
static void replace_wake_fd(struct tslab *pool, const Attachment *attachment) {
        if (attachment->wake_fd >= 0 && pool->arena.wake_fd >= 0)
                (void) dup3(attachment->wake_fd, pool->arena.wake_fd, O_CLOEXEC);
}

static void replace_call(struct tslab *pool, ProtoCall **call) {
        ProtoCall *old = pool->call;

        pool->call = proto_steal(call);
        shm_compiler_barrier(); /* a child forked here has one that is open */
        (void) proto_call_free(old);
}

/* Whether the daemon that sent this hello has the arena that is mapped here. */
static bool has_our_arena(const struct tslab *pool, const ProtoReply *hello) {
        return memcmp(hello->hello->arena_id.data, pool->arena.arena_id, PROTO_ARENA_ID_SIZE) == 0;
}

/* Attaches to the daemon that serves the path by now. */
static int connection_reconnect(struct tslab *pool, uint64_t timeout_usec, uint32_t *ret_client) {
        _cleanup_(attachment_deinit) Attachment attachment = { .memfd = -1, .wake_fd = -1 };
        _cleanup_(proto_call_freep) ProtoCall *call = NULL;
        _cleanup_(proto_reply_freep) ProtoReply *hello = NULL;
        int r;

        r = say_hello(pool, timeout_usec, &call, &hello);
        if (r == -ENOENT || r == -ECONNREFUSED || r == -ECONNRESET)
                return -ENOTCONN;
        if (r)
                return r;
        if (!has_our_arena(pool, hello))
                r = -EUCLEAN;
        else
                r = connection_attach(pool, call, pool->arena.arena_id, timeout_usec, &attachment);
        if (r == -EUCLEAN)
                shm_store_rlx(&pool->stale, 1); /* ORDER: rlx; says nothing of other memory. */
        if (r)
                return r == -ECONNRESET ? -ENOTCONN : r;
        replace_wake_fd(pool, &attachment);
        replace_call(pool, &call);
        pool->is_operator = attachment.role == PROTO_ROLE_OPERATOR;
        *ret_client = attachment.client;
        return 0;
}

/* Attaches over the inherited connection. */
static int fork_attach(struct tslab *pool, uint32_t *ret_client) {
        _cleanup_(attachment_deinit) Attachment attachment = { .memfd = -1, .wake_fd = -1 };
        _cleanup_(proto_call_freep) ProtoCall *call = NULL;
        char comm[16];
        int fd, r;

        fd = proto_call_fd(pool->call);
        if (fd < 0)
                return -ENOTCONN;
        connection_comm(pool, comm);
        r = connection_error(proto_call_fork_attach(&call, fd, comm, pool->timeout_usec), NULL);
        if (r == 0)
                r = connection_attach(pool, call, pool->arena.arena_id, pool->timeout_usec, &attachment);
        if (r)
                return r;
        replace_wake_fd(pool, &attachment);
        replace_call(pool, &call);
        pool->is_operator = attachment.role == PROTO_ROLE_OPERATOR;
        *ret_client = attachment.client;
        return 0;
}

int connection_attach_child(struct tslab *pool, uint32_t *ret_client) {
        int r;

        r = fork_attach(pool, ret_client);
        if (r == -ENOTCONN || r == -ECONNRESET || r == -EPIPE || r == -EBADF || r == -ENOTSOCK)
                r = connection_reconnect(pool, pool->timeout_usec, ret_client);
        if (r == -EUCLEAN)
                shm_store_rlx(&pool->stale, 1); /* ORDER: rlx; says nothing of other memory. */
        if (r == 0)
                r = connection_enter(pool, *ret_client);
        return r == -ECONNRESET ? -ENOTCONN : r;
}

static bool has_hung_up(const ProtoCall *call) {
        struct pollfd poller = { .fd = proto_call_fd(call), .events = POLLRDHUP };

        return poller.fd < 0 ||
               (poll(&poller, 1, 0) > 0 && (poller.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)));
}

/* A forked child that has not attached has no entry: it asks only. */
static int look_unattached(struct tslab *pool, uint64_t timeout_usec) {
        _cleanup_(proto_call_freep) ProtoCall *call = NULL;
        _cleanup_(proto_reply_freep) ProtoReply *hello = NULL;
        int r;

        r = say_hello(pool, timeout_usec, &call, &hello);
        if (r == 0 && !has_our_arena(pool, hello))
                shm_store_rlx(&pool->stale, 1); /* ORDER: rlx; says nothing of other memory. */
        return r;
}

static int reconnect_call(struct tslab *pool, uint64_t timeout_usec) {
        int r = connection_reconnect(pool, timeout_usec, &pool->local->client);

        if (r == 0)
                sampler_offer(pool);
        return r;
}

/*
 * The connection stays, so that a process which asks often makes one connection, not one for each call. If the daemon
 * has hung up, finds the next one.
 */
static int reach_daemon(struct tslab *pool, uint64_t timeout_usec) {
        int r;

        if (!has_hung_up(pool->call))
                return 0;
        /* ORDER: acq, pairs with finish_attach(); client is set. */
        if (shm_load_acq(&pool->local->attached))
                r = reconnect_call(pool, timeout_usec);
        else
                r = look_unattached(pool, timeout_usec);
        pool->local->is_mute = r == -ETIMEDOUT;
        return r;
}

/*
 * If a daemon has given no answer to one look, as a daemon that cannot start while systemd holds its socket, the next
 * looks wait only LOOK_AGAIN_USEC for it.
 */
void connection_look(struct tslab *pool) {
        bool is_brief = pool->local->is_mute && pool->timeout_usec > LOOK_AGAIN_USEC;

        (void) reach_daemon(pool, is_brief ? LOOK_AGAIN_USEC : pool->timeout_usec);
}

/* The end of a connection is seen by reach_daemon(). Other processes may have the descriptor, too. */
static void hang_up(const struct tslab *pool) {
        int fd = proto_call_fd(pool->call);

        if (fd >= 0)
                (void) shutdown(fd, SHUT_RDWR);
}

void connection_take_lock(struct tslab *pool) {
        if (lock_take(&pool->local->call_lock) && shm_hint_load(&pool->local->attached))
                hang_up(pool);
}

int connection_ask(struct tslab *pool, ProtoRequest *request, ProtoReply **ret_reply) {
        int r = reach_daemon(pool, pool->timeout_usec);

        if (r)
                return r;
        r = proto_call(pool->call, request, pool->timeout_usec, NULL, NULL, ret_reply, NULL);
        return connection_error(r, *ret_reply);
}
