#include "daemon/ctl/base/ask-pools.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/param.h>

#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/connect.h"
#include "proto/deadline.h"
#include "proto/served.h"

#define ASK_USEC UINT64_C(2000000) /* for all pools together; monitoring systems give up after ten seconds */
#define THREADS_MAX 64U

/* Each thread takes the next pool that none has taken, so that a daemon that hangs costs only its thread. */
typedef struct Asking {
        AskedPool *pools;
        size_t n_pools, n_taken;
        uint64_t deadline;
        pthread_mutex_t lock; /* guards n_taken */
} Asking;

static PoolState state_of(int r) {
        switch (r) {
        case 0:
        case PROTO_E_REFUSED: /* the daemon refuses the numbers to this user, but it runs */
                return POOL_RUNNING;
        case -ECONNREFUSED:
        case -ENOENT:
                return POOL_DEAD;
        case -EACCES:
        case -EPERM:
                return POOL_DENIED;
        case -ETIMEDOUT:
        case PROTO_E_CLOSED:
                return POOL_SILENT;
        default:
                return POOL_FOREIGN;
        }
}

static int ask_once(AskedPool *pool, uint64_t deadline) {
        _cleanup_(proto_call_freep) ProtoCall *call = NULL;
        _cleanup_(proto_reply_freep) ProtoReply *hello = NULL, *reply = NULL;
        int r = connection_try(pool->path, proto_deadline_left(deadline), &call, &hello);

        if (r == PROTO_E_REFUSED)
                return -EACCES;
        if (r == 0)
                r = ask_stats_quietly(call, proto_deadline_left(deadline), &reply);
        if (r == 0)
                pool->stats = proto_steal(&reply);
        return r;
}

static PoolState ask_pool(AskedPool *pool, uint64_t deadline) {
        pid_t pid;
        int r;

        switch (proto_served(pool->path, &pid)) {
        case PROTO_SERVED_NO:
                return POOL_IDLE;
        case PROTO_SERVED_DIED:
                return POOL_DEAD;
        default:
                break;
        }
        r = ask_once(pool, deadline);
        if (r == PROTO_E_CLOSED) /* the stand-in may have hung up, since the main loop goes on */
                r = ask_once(pool, deadline);
        return state_of(r);
}

/* NULL: all are taken. */
static AskedPool *take_pool(Asking *asking) {
        AskedPool *pool;

        (void) pthread_mutex_lock(&asking->lock);
        pool = asking->n_taken < asking->n_pools ? &asking->pools[asking->n_taken++] : NULL;
        (void) pthread_mutex_unlock(&asking->lock);
        return pool;
}

static void *ask_some(void *userdata) {
        Asking *asking = userdata;
        AskedPool *pool;

        while ((pool = take_pool(asking)))
                pool->state = ask_pool(pool, asking->deadline);
        return NULL;
}

/* The calling thread is one of them, and the only one if no other can be started. */
static void ask_in_threads(Asking *asking) {
        pthread_t threads[THREADS_MAX];
        size_t n = 0;

        while (n < MIN(asking->n_pools, THREADS_MAX) &&
               pthread_create(&threads[n], NULL, ask_some, asking) == 0)
                n++;
        (void) ask_some(asking);
        while (n > 0)
                (void) pthread_join(threads[--n], NULL);
}

AskedPool *pools_ask(const Pools *found) {
        Asking asking = { .n_pools = found->n_paths,
                          .deadline = proto_deadline(ASK_USEC),
                          .lock = PTHREAD_MUTEX_INITIALIZER };

        asking.pools = must(calloc(found->n_paths + 1, sizeof(*asking.pools)));
        for (size_t i = 0; i < found->n_paths; ++i) {
                asking.pools[i].path = found->paths[i];
                connection_pool_name(asking.pools[i].name, sizeof(asking.pools[i].name), found->paths[i]);
        }
        ask_in_threads(&asking);
        return asking.pools;
}

AskedPool *pools_asked_free(AskedPool *asked, size_t n) {
        for (size_t i = 0; asked && i < n; ++i)
                (void) proto_reply_free(asked[i].stats);
        free(asked);
        return NULL;
}

const char *pool_state_to_string(PoolState state) {
        static const char *const names[_POOL_STATE_N] = {
                [POOL_RUNNING] = "running", [POOL_IDLE] = "idle",     [POOL_DEAD] = "dead",
                [POOL_DENIED] = "denied",   [POOL_SILENT] = "silent", [POOL_FOREIGN] = "foreign",
        };

        assert(state < _POOL_STATE_N);
        return names[state];
}
