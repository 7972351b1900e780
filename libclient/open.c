/*
 * Opening pools, and attaching forked children
 *
 * Purpose: to give a process a pool, an entry in the arena's client table, and a spare record.
 *
 * In a daemon's pool the daemon makes the entry, in a private one each process makes its own. The spare record is for
 * threads that find no record of their own.
 *
 * Invariants
 *   1. Where `attached` is 1, `client`, `spare`, `fences` and `number` are set. It goes from 0 to 1 once in a
 *      process; in a forked child the kernel wipes the PoolLocal, so that the child attaches for itself.
 *   2. `joined` is 1 from the moment that the entry `client` is this process's. If attaching fails after that, the
 *      next try uses the same entry.
 *   3. The spare record has thread id 0, and ends with the process, not with the thread that took it; or with a thread
 *      that ends in a call and uses it. `spare` is 0 from then on until the next thread takes another.
 *   4. A record's flags say whether its thread fences for itself before the thread's first operation.
 *
 * Who may do what: the thread that opens the pool does all alone, until registry_add(). Afterwards a thread attaches
 *   under attach_lock, and any thread reads `attached` and `stale`. Each thread takes its own record.
 *
 * Crash: a process that dies with an entry, or with records, leaves both in the arena. The daemon finds the process
 *   gone, repairs the records and frees the entry; in a private pool tslab_reap() of another process does so.
 */
#include "libclient/open.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "libclient/connection.h"
#include "libclient/enter.h"
#include "libclient/options.h"
#include "libclient/registry.h"
#include "libclient/sampler.h"
#include "proto/deadline.h"
#include "proto/path.h"
#include "shm/arena/clock.h"
#include "shm/arena/client.h"
#include "shm/arch/process.h"
#include "shm/maintain/freeze.h"

#define SILENT_USEC UINT64_C(10000000)

static int local_new(struct tslab *pool) {
        size_t size = sizeof(PoolLocal) + pool->arena.n_records * sizeof(ThreadState);
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

static uint64_t pid_namespace(void) {
        struct stat st;

        return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

static bool is_of_pool_namespace(struct tslab *pool) {
        if (pool->pid_namespace == 0)
                pool->pid_namespace = pid_namespace(); /* the pool's first process */
        return pool->pid_namespace == pid_namespace();
}

/*
 * Without /proc, as in a chroot, and in another pid namespace than that of the pool's first process, the start time
 * stays 0: not known. There our number would be another process's for others. A shortage that may pass is an error:
 * nobody would ever find out that this process died.
 */
static int join_private(struct tslab *pool, uint32_t *ret_client) {
        ShmClientInfo info = { .pid = getpid(), .uid = getuid(), .gid = getgid() };
        ShmProcess process = {};
        int r;

        r = shm_process_look(info.pid, &process);
        if (r == -EMFILE || r == -ENFILE || r == -ENOMEM)
                return r;
        if (is_of_pool_namespace(pool)) {
                info.start_time = process.start_time;
                info.program = process.program;
        }
        info.attached_usec = shm_now_usec();
        strncpy(info.comm, program_invocation_short_name, sizeof(info.comm) - 1);
        r = shm_client_add(&pool->arena, &info);
        if (r)
                return r == -ENOSPC ? -EUSERS : r;
        *ret_client = info.index;
        return 0;
}

static bool in_share(const struct tslab *pool, uint32_t n) {
        return pool->is_private || pool->is_operator ||
               shm_client_in_share(&pool->arena, pool->local->client, n);
}

int pool_take_record(struct tslab *pool, uint32_t tid, ShmActor *ret) {
        int r;

        if (!in_share(pool, 1))
                return -EDQUOT;
        r = shm_actor_init(ret, &pool->arena, pool->local->client, tid);
        if (r)
                return r;
        if (!in_share(pool, 0)) { /* other threads took records at the same time */
                shm_actor_deinit(ret);
                return -EDQUOT;
        }
        ret->fences = pool->local->fences != 0;
        ret->mode = pool->cache;
        ret->keeps_path = true;
        /* ORDER: rel; the maintainer asks whether this thread fences after it found the record. */
        shm_store_rel(&ret->record->flags, ret->fences ? SHM_RECORD_FENCES : 0);
        return 0;
}

/* Takes the spare record. It belongs to the process, not to this thread, which may end first. */
static int take_spare(struct tslab *pool) {
        PoolLocal *local = pool->local;
        ShmActor actor;
        int r = pool_take_record(pool, lock_own_number(), &actor);

        if (r < 0)
                return r == -ENOSPC ? -EUSERS : r;
        local->threads[actor.id] = (ThreadState){ .actor = actor, .token = registry_token() };
        (void) shm_record_inherit(&pool->arena, actor.id, local->client,
                                  0); /* until here it ends with the thread */
        /* ORDER: rlx; read under the lock, or compared with records of others. */
        shm_store_rlx(&local->spare, actor.id);
        return 0;
}

int pool_keep_spare(struct tslab *pool) {
        return pool->local->spare != 0 ? 0 : take_spare(pool);
}

/* This process is in the client table; under attach_lock, or before anyone knows the pool. */
static int finish_attach(struct tslab *pool) {
        int r;

        if (!pool->is_reader) {
                pool->local->fences = shm_membarrier_register() < 0;
                r = pool_keep_spare(pool);
                if (r)
                        return r;
                sampler_begin(pool);
        }
        pool->local->number = registry_token();
        /* ORDER: rel, pairs with pool_attach(); all else is set before. */
        shm_store_rel(&pool->local->attached, 1);
        return 0;
}

/*
 * If a daemon did not answer, no thread asks it again for a while: otherwise each would wait for its whole time limit,
 * one after the other.
 */
static int attach_child(struct tslab *pool) {
        PoolLocal *local = pool->local;
        int r;

        if (proto_now_usec() < local->silent_usec)
                return -ETIMEDOUT;
        r = connection_attach_child(pool, &local->client);
        if (r == -ETIMEDOUT)
                local->silent_usec = proto_deadline(SILENT_USEC);
        return r;
}

static int attach_locked(struct tslab *pool) {
        PoolLocal *local = pool->local;
        int r;

        if (!local->joined) {
                if (pool->is_private)
                        r = join_private(pool, &local->client);
                else
                        r = attach_child(pool);
                if (r)
                        return r;
                local->joined = 1;
        }
        return finish_attach(pool);
}

int pool_attach(struct tslab *pool) {
        PoolLocal *local = pool->local;
        int r = 0;

        /* ORDER: acq, pairs with finish_attach(); client, spare and fences are set. */
        if (shm_load_acq(&local->attached))
                return 0;
        (void) lock_take(&local->attach_lock);
        if (!local->attached)
                r = attach_locked(pool);
        lock_release(&local->attach_lock);
        return r;
}

/* The rest of opening, once the arena is mapped. Takes the pool over from the caller. */
static int finish_open(struct tslab **pool, struct tslab **ret) {
        int r;

        r = finish_attach(*pool);
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
                r = registry_init();
        if (r)
                return r;
        pool = pool_new();
        if (!pool)
                return -ENOMEM;
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
        r = local_new(pool);
        if (r == 0) {
                pool->local->client = client;
                pool->local->joined = 1;
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
                r = registry_init();
        if (r)
                return r;
        pool = pool_new();
        if (!pool)
                return -ENOMEM;
        pool->is_private = true;
        pool->cache = options_cache(&options);
        pool->time_slow = options.time_slow;
        pool->retain = options_retain(&options);
        r = shm_arena_create(&pool->arena, &geometry, NULL);
        pool->arena.populate = true; /* a process that commits slabs is about to use them */
        if (r == 0)
                r = local_new(pool);
        if (r == 0)
                r = join_private(pool, &pool->local->client);
        if (r)
                return r;
        pool->local->joined = 1;
        return finish_open(&pool, ret);
}

_public_ int tslab_create(struct tslab **ret, const struct tslab_options *given) {
        int r;

        do
                r = create_once(ret, given);
        while (r == -ENOMEM && registry_give_up());
        return r;
}

static bool is_stale(const struct tslab *pool) {
        return shm_load_rlx(&pool->stale) != 0; /* ORDER: rlx; says nothing of other memory. */
}

/* A thread that is in a control call finds out by itself. */
_public_ bool tslab_stale(struct tslab *pool) {
        bool left;

        if (pool->is_private || is_stale(pool) || pool_begin(pool) < 0)
                return is_stale(pool);
        if (lock_try(&pool->local->call_lock, &left)) {
                connection_look(pool);
                lock_release(&pool->local->call_lock);
        }
        pool_end(pool);
        return is_stale(pool);
}

_public_ const char *tslab_version(void) {
        return TSLAB_VERSION;
}
