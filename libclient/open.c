/* Opening pools, and making private ones. */
#include "libclient/open.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "libclient/pool/attach.h"
#include "libclient/host/connection.h"
#include "libclient/host/control.h"
#include "libclient/pool/enter.h"
#include "libclient/host/daemon.h"
#include "libclient/host/private.h"
#include "libclient/options.h"
#include "libclient/pool/registry.h"
#include "libclient/pool/sampler.h"
#include "proto/path.h"
#include "shm/arena/client.h"

/* `more`: bytes behind the states, the host's. */
static int local_new(struct tslab *pool, size_t more) {
        size_t size = sizeof(PoolLocal) + pool->arena.n_records * sizeof(ThreadState) + more;
        void *local;
        int r;

        local = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (local == MAP_FAILED)
                return -errno;
        if (madvise(local, size, MADV_WIPEONFORK) < 0) {
                r = -errno;
                munmap(local, size);
                return r;
        }
        /* Not worth dumping: copies of the arena's records, for every thread there could be. */
        (void) madvise(local, size, MADV_DONTDUMP);
        pool->local = local;
        pool->local_size = size;
        return 0;
}

static struct tslab *pool_new(void) {
        struct tslab *pool = calloc(1, sizeof(*pool));

        if (pool) {
                pool->arena.fd = -1;
                pool->arena.wake_fd = -1;
        }
        return pool;
}

struct tslab *pool_unref(struct tslab *pool) {
        if (!pool)
                return NULL;
        if (pool->local) {
                if (pool->local->sampler)
                        (void) sampler_free(pool->local->sampler);
                else
                        (void) sampler_forget(pool->inherited_sampler);
                munmap(pool->local, pool->local_size);
        }
        shm_arena_deinit(&pool->arena);
        (void) proto_call_free(pool->call);
        free(pool->path);
        free(pool);
        return NULL;
}

static void pool_freep(struct tslab **pool) {
        (void) pool_unref(*pool);
}

/* The rest of opening, once the arena is mapped. Takes the pool over from the caller. */
static int finish_open(struct tslab **pool, struct tslab **ret) {
        int r;

        r = pool_attach(*pool);
        if (r)
                return r;
        registry_add(*pool);
        *ret = proto_steal(pool);
        return 0;
}

static int open_once(struct tslab **ret, const char *name, const struct tslab_options *given) {
        _cleanup_(pool_freep) struct tslab *pool = NULL;
        struct tslab_options options;
        uint32_t client;
        int r;

        r = options_load(given, &options);
        if (r == 0)
                r = enter_init();
        if (r)
                return r;
        pool = pool_new();
        if (!pool)
                return -ENOMEM;
        pool->host = &host_daemon;
        pool->is_reader = options.flags & TSLAB_READER;
        pool->cache = options_cache(&options);
        pool->time_slow = options.time_slow;
        pool->timeout_usec = options_timeout_usec(&options);
        if (options.comm)
                strncpy(pool->comm, options.comm, sizeof(pool->comm) - 1);
        r = proto_socket_path(name, &pool->path);
        if (r == 0)
                r = connection_begin(pool, &client);
        if (r)
                return r;
        r = local_new(pool, 0);
        if (r == 0) {
                pool->local->client = client;
                pool->local->joined = 1;
                sampler_begin(pool);
                r = finish_open(&pool, ret);
        }
        if (r && !pool->is_reader)
                shm_client_leave(&pool->arena, client); /* no record of ours names it */
        return r;
}

/* Closed pools may still have address space that this one needs. */
_public_ int tslab_open(struct tslab **ret, const char *name, const struct tslab_options *given) {
        int r;

        do
                r = open_once(ret, name, given);
        while (r == -ENOMEM && registry_give_up());
        return r;
}

static int create_once(struct tslab **ret, const struct tslab_options *given) {
        _cleanup_(pool_freep) struct tslab *pool = NULL;
        struct tslab_options options;
        ShmGeometry geometry;
        int r;

        r = options_load(given, &options);
        if (r == 0)
                r = options_geometry(&options, &geometry);
        if (r == 0)
                r = enter_init();
        if (r)
                return r;
        pool = pool_new();
        if (!pool)
                return -ENOMEM;
        pool->host = &host_private;
        pool->is_operator = true;
        pool->cache = options_cache(&options);
        pool->time_slow = options.time_slow;
        pool->retain = options_retain(&options);
        r = shm_arena_create(&pool->arena, &geometry, NULL);
        if (r)
                return r;
        pool->arena.huge = options_huge(&options);
        pool->arena.populate = true; /* a process that commits slabs is about to use them */
        private_limit_memory(&pool->arena);
        r = local_new(pool, control_size());
        return r ? r : finish_open(&pool, ret);
}

_public_ int tslab_create(struct tslab **ret, const struct tslab_options *given) {
        int r;

        do
                r = create_once(ret, given);
        while (r == -ENOMEM && registry_give_up());
        return r;
}

_public_ bool tslab_stale(struct tslab *pool) {
        return pool->host->is_stale(pool);
}

_public_ const char *tslab_version(void) {
        return TSLAB_VERSION;
}
