#include "daemon/ctl/base/ask-pools.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/param.h>

#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/connect.h"
#include "proto/deadline.h"
#include "proto/served.h"

#define ASK_USEC UINT64_C(2000000) /* for all pools together; monitoring systems give up after ten seconds */
#define THREADS_MAX 64U

/* Every n-th pool from the first on is asked by one thread. */
typedef struct Asking {
        AskedPool *pools;
        size_t first, n, n_pools;
        uint64_t deadline;
        pthread_t thread;
        bool has_thread;
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

static PoolState ask_pool(AskedPool *pool, uint64_t deadline) {
        _cleanup_(proto_call_freep) ProtoCall *call = NULL;
        _cleanup_(proto_reply_freep) ProtoReply *hello = NULL, *reply = NULL;
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
        r = connection_try(pool->path, proto_deadline_left(deadline), &call, &hello);
        if (r == PROTO_E_REFUSED)
                return POOL_DENIED;
        if (r == 0)
                r = ask_stats_quietly(call, proto_deadline_left(deadline), &reply);
        if (r == 0)
                pool->stats = proto_steal(&reply);
        return state_of(r);
}

static void *ask_share(void *userdata) {
        const Asking *asking = userdata;

        for (size_t i = asking->first; i < asking->n_pools; i += asking->n)
                asking->pools[i].state = ask_pool(&asking->pools[i], asking->deadline);
        return NULL;
}

/* Without a thread of its own, a share waits until the others are asked. */
static void ask_in_threads(const Asking *all) {
        Asking shares[THREADS_MAX];
        size_t n = MIN(all->n_pools, THREADS_MAX);

        for (size_t i = 0; i < n; ++i) {
                shares[i] = *all;
                shares[i].first = i;
                shares[i].n = n;
                shares[i].has_thread = pthread_create(&shares[i].thread, NULL, ask_share, &shares[i]) == 0;
        }
        for (size_t i = 0; i < n; ++i)
                if (shares[i].has_thread)
                        (void) pthread_join(shares[i].thread, NULL);
                else
                        (void) ask_share(&shares[i]);
}

AskedPool *pools_ask(const Pools *found) {
        Asking asking = { .n_pools = found->n_paths, .deadline = proto_deadline(ASK_USEC) };

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
