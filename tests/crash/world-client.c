#include "tests/crash/world-client.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <tslab.h>
#include <unistd.h>

#include "tests/util/role.h"

#define N_USE 40 /* more than a cache begins with */
#define WAIT_MSEC 300000
#define FDS_MAX 64 /* none of its descriptors is above */

static const uint32_t sizes[CLIENT_N_CLASSES] = CLIENT_CLASSES;

/* The child's pool. */
static struct tslab *opened;
static sem_t held;

int client_open(struct tslab **ret) {
        struct tslab_options options = {
                .size = sizeof(options),
                .cache = TSLAB_CACHE_ON,
                .timeout_ms = WAIT_MSEC,
        };

        return tslab_open(ret, NULL, &options);
}

static int use_class(struct tslab *pool, uint32_t size) {
        tslab_handle handles[N_USE];
        void *object;
        int r = 0;

        for (int i = 0; r == 0 && i < N_USE; i++) {
                r = tslab_alloc(pool, size, TSLAB_EPOCH_CURRENT, &handles[i], &object);
                if (r == 0)
                        pattern_fill(object, size, (uint64_t) i, size);
        }
        for (int i = 0; r == 0 && i < N_USE; i++) {
                r = tslab_get(pool, handles[i], &object, NULL);
                if (r == 0)
                        r = pattern_check(object, size, (uint64_t) i) ? tslab_free(pool, handles[i])
                                                                      : -EILSEQ;
        }
        return r;
}

int client_use(struct tslab *pool) {
        int r = 0;

        for (uint32_t i = 0; r == 0 && i < CLIENT_N_CLASSES; i++)
                r = use_class(pool, sizes[i]);
        return r;
}

static int use_and_close(struct tslab *pool) {
        int r = client_use(pool);

        (void) tslab_close(pool);
        return r;
}

static int use(World *w) {
        return client_use(w->pool);
}

static int leave(World *w) {
        return use_and_close(w->pool);
}

/* Attached, and as yet without a cache of scarce objects. */
static int attach(World *w) {
        return use_class(w->pool, sizes[0]);
}

/* Caches that are full, and an object pending, in every class. */
static int hold(World *w) {
        int r = client_use(w->pool);
        tslab_handle handle;

        for (uint32_t i = 0; r == 0 && i < CLIENT_N_CLASSES; i++)
                r = tslab_alloc_pending(w->pool, sizes[i], TSLAB_EPOCH_CURRENT, &handle, NULL);
        return r;
}

static void *hold_and_stay(void *userdata) {
        if (hold(userdata) != 0)
                _exit(1);
        sem_post(&held);
        for (;;)
                pause();
}

static int hold_beside(World *w) {
        pthread_t thread;

        if (sem_init(&held, 0, 0) < 0 || pthread_create(&thread, NULL, hold_and_stay, w) != 0)
                return -1;
        while (sem_wait(&held) < 0)
                ;
        return hold(w);
}

/* Connections that it inherited are of no use: it has to find the daemon by its path. */
static int lose_connections(World *w) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC), type;

        for (int fd = 3; fd < FDS_MAX; fd++)
                if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &(socklen_t){ sizeof(type) }) == 0 &&
                    type == SOCK_SEQPACKET && dup2(null, fd) < 0)
                        return -errno;
        return close(null);
}

static int run_alloc(World *w) {
        tslab_handle handle;
        void *object;

        return tslab_alloc(w->pool, sizes[0], TSLAB_EPOCH_CURRENT, &handle, &object);
}

static int run_alloc_scarce(World *w) {
        tslab_handle handle;
        void *object;

        return tslab_alloc(w->pool, CLIENT_SCARCE, TSLAB_EPOCH_CURRENT, &handle, &object);
}

static int run_open(World *w) {
        return client_open(&opened);
}

static int leave_opened(World *w) {
        return use_and_close(opened);
}

static int run_close(World *w) {
        return tslab_close(w->pool) ? -1 : 0;
}

static int run_lease(World *w) {
        uint32_t epoch;

        return tslab_epoch_lease(w->pool, "lease", &epoch);
}

#define DESCRIPTORS 3 /* for each pool: socket, memory, eventfd */

const ClientOperation client_operations[] = {
        {
                .operation = { .name = "fork child's first alloc",
                               .run = run_alloc,
                               .most = 1,
                               .leave = leave },
                .call = SYS_socketpair,
                .n_records = 2, /* one for threads that find none */
        },
        {
                .operation = { .name = "fork child that reconnects",
                               .enter = lose_connections,
                               .run = run_alloc,
                               .most = 1,
                               .leave = leave },
                .call = SYS_connect,
                .n_records = 2,
        },
        {
                .operation = { .name = "thread's first alloc",
                               .enter = use,
                               .where = OPERATION_THREAD,
                               .run = run_alloc,
                               .most = 1,
                               .leave = leave },
                .call = SYS_gettid,
                .n_records = 3,
        },
        {
                .operation = { .name = "thread's end",
                               .enter = use,
                               .where = OPERATION_THREAD_END,
                               .run = hold,
                               .leave = leave },
                .n_records = 2,
        },
        {
                .operation = { .name = "open", .run = run_open, .leave = leave_opened },
                .call = SYS_connect,
                .n_records = 1,
                .n_fds = DESCRIPTORS,
        },
        {
                .operation = { .name = "close", .enter = hold, .run = run_close },
                .call = SYS_munmap,
                .n_fds = -DESCRIPTORS,
        },
        {
                .operation = { .name = "close beside a thread", .enter = hold_beside, .run = run_close },
                .call = SYS_membarrier,
                .n_fds = -DESCRIPTORS,
        },
        {
                .operation = { .name = "alloc that wakes the daemon",
                               .enter = attach,
                               .run = run_alloc_scarce,
                               .most = 1,
                               .leave = leave },
                .reserve = CLIENT_RESERVE_LOW,
                .call = SYS_write,
                .n_records = 2,
        },
        {
                .operation = { .name = "alloc that commits",
                               .enter = attach,
                               .run = run_alloc_scarce,
                               .most = 1,
                               .leave = leave },
                .reserve = CLIENT_RESERVE_NONE,
                .call = SYS_fallocate,
                .n_records = 2,
        },
        {
                .operation = { .name = "alloc that extends",
                               .enter = attach,
                               .run = run_alloc_scarce,
                               .most = 1,
                               .leave = leave },
                .reserve = CLIENT_RESERVE_NEVER,
                .call = SYS_fallocate,
                .n_records = 2,
        },
        {
                .operation = { .name = "epoch lease", .enter = attach, .run = run_lease, .leave = leave },
                .call = SYS_sendmsg,
                .n_records = 2,
        },
};

const unsigned n_client_operations = sizeof(client_operations) / sizeof(client_operations[0]);
