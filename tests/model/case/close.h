/*
 * tslab_close() during a call of another thread: each call that the thread has begun ends before its record is given
 * back, and none begins after that. The same for calls that have no record: the store of one comes before all that is
 * done to the memory after the close. Actor 1 closes. Both run libtslab's own code, compiled for the explorer.
 */
#include "libclient/object.c"
/* By names of their own, since libtslab's slow path, which makes no steps, has these, too. */
int step_pool_begin(struct tslab *pool);
void step_pool_end(struct tslab *pool);
bool step_calls_any(struct tslab *pool);
void step_calls_forget(struct tslab *pool);
#define pool_begin step_pool_begin
#define pool_end step_pool_end
#define calls_any step_calls_any
#define calls_forget step_calls_forget
#include "libclient/pool/calls.c"
#include "libclient/pool-close.c"
#include "shm/arena/client.h"
#include "shm/slab/pages.h"
#include "tests/model/world.h"

#define N_SLABS 2 /* for objects; the pool is in memory that the explorer knows, behind them */
#define POOL_SLABS 37

static struct tslab *pool;
static ThreadState *caller; /* actor 0's */

static void watch(void *piece, size_t size) {
        for (uint8_t *line = (uint8_t *) ((uintptr_t) piece & ~UINT64_C(63)); line < (uint8_t *) piece + size;
             line += 64)
                model_watch(line);
}

static void leave(struct tslab *p) {
        shm_client_leave(&p->arena, p->local->client);
}

static void slab_freed(struct tslab *p, uint32_t slab) {
}

/* A host is no part of these cases. */
static const Host case_host = { .leave = leave, .slab_freed = slab_freed };

/* The pool, its local part with a state for each record, and a handle to it in this thread. */
static void make_pool(void) {
        uint8_t *at = shm_arena_slab(&world_arena, N_SLABS);

        pool = (struct tslab *) at;
        *pool = (struct tslab){
                .serial = 1, .number = 1, .host = &case_host, .arena = world_arena, .cache = SHM_CACHE_ON
        };
        pool->local = (PoolLocal *) (at + (sizeof(*pool) + 63) / 64 * 64);
        pool->local->number = 1;
        pool->local->client = 1;
        pool->local->joined = 1;
        caller = &pool->local->threads[1];
        if ((uint8_t *) &pool->local->threads[1 + MODEL_ACTORS_MAX] > at + POOL_SLABS * SHM_SLAB_SIZE)
                model_fail("the pool has no room");
        caller->actor = *world_actor(0);
        caller->token = 1;
        thread_cache = (ThreadCache){ .serial = 1, .token = 1, .state = caller };
        watch(&caller->actor, 64); /* with `attention`, which the closer writes */
        watch(&caller->token, sizeof(*caller) - offsetof(ThreadState, token));
        watch(&pool->serial, sizeof(pool->serial));
        watch(slot_at(pool, lock_own_number(), 0), sizeof(CallSlot));
        (void) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL); /* as calls do, once and for all */
        inside.cancels = 0;
        model_own(0, &inside, sizeof(inside));
        model_own(0, (uint8_t *) &caller->actor + 64, WORLD_ACTOR_SIZE - 64);
        model_memory(world_arena.base, (size_t) (at - world_arena.base) + POOL_SLABS * SHM_SLAB_SIZE);
}

static void begin(void) {
        world_init(N_SLABS + POOL_SLABS, N_SLABS, 0);
        world_set_caching(0, 1);
        world_set_capacity(1, 1, 2);
        world_object(WORLD_SIZE_2, 0);
}

/* Actor 0 has nothing in its cache. */
static void pre_cold(void) {
        begin();
        world_tidy();
        make_pool();
}

/* It has both slots of slab 1. */
static void pre(void) {
        begin();
        world_fill_cache(1, 2, WORLD_SIZE_2);
        make_pool();
}

static void make_late(void) {
        model_delay(0, world_arena.base,
                    (size_t) (shm_arena_slab(&world_arena, N_SLABS + POOL_SLABS) - world_arena.base));
}

static void pre_late(void) {
        pre();
        make_late();
}

static void pre_cold_late(void) {
        pre_cold();
        make_late();
}

static void alloc(void) {
        WorldObject *o = &world.objects[world_allocated(0, world.n_allocs[0]++)];
        tslab_handle handle = 0;
        void *object;

        o->error = 1;
        o->error = tslab_alloc(pool, WORLD_SIZE_2, TSLAB_EPOCH_CURRENT, &handle, &object);
        o->handle = handle;
        if (o->error != 0 && o->error != -EBADF)
                model_fail("allocating: error %d", o->error);
}

/* The fast path reads `serial` without a step, and the closer changes it: those two do not commute. */
static void share(void) {
        (void) shm_load_rlx(&pool->serial);
        (void) shm_load_rlx(&caller->actor.attention);
}

static void t_alloc(void) {
        alloc();
        share();
}

static void t_alloc_twice(void) {
        alloc();
        alloc();
        share();
}

static void t_free(void) {
        int r;

        world.objects[0].n_begun++;
        r = tslab_free(pool, world.objects[0].handle);
        if (r == 0)
                world.objects[0].n_won++;
        else if (r == -EBADF)
                world.objects[0].n_begun--;
        else
                model_fail("freeing: error %d", r);
        share();
}

/* A call stores to this word, and the closer afterwards. */
static uint64_t *stored(void) {
        return (uint64_t *) shm_arena_slab(&world_arena, 0);
}

static void t_call(void) {
        if (pool_begin(pool) == 0) {
                shm_store_rlx(stored(), 1);
                pool_end(pool);
        }
        share();
}

static void t_enter(void) {
        ThreadState *thread;

        if (pool_enter(pool, &thread) == 0) {
                shm_store_rlx(stored(), 1);
                pool_leave(pool, thread);
        }
        share();
}

static void t_quiesce(void) {
        shm_store_rlx(&pool->serial, POOL_CLOSED);
        pool_quiesce(pool);
        shm_store_rlx(stored(), 2);
}

static void post_call(unsigned dead) {
        if (shm_load_rlx(stored()) != 2)
                model_fail("a call stores after the pool was closed");
}

static void t_close(void) {
        shm_store_rlx(&pool->serial, POOL_CLOSED);
        pool_quiesce(pool);
        pool_detach(pool);
}

/* A thread that has not seen it stores to `seq` yet: into the blank memory that tslab_close() leaves in its place. */
static void post(unsigned dead) {
        shm_store_rlx(&world_actor(0)->record->seq, 0); /* ORDER: rlx; the explorer saves it before. */
        if (shm_record_owner(&world_arena, 1).state != SHM_RECORD_UNUSED)
                model_fail("the record was not given back");
        for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, &world_arena, 1);)
                if (shm_cache_walk_count(&walk) != 0)
                        model_fail("something is left in the cache");
        world_check(dead);
}

#define CLOSE(_name, _pre, _t0, _more...)                                                                    \
        { .name = _name, .pre = _pre, .actors = { _t0, t_close }, .post = post, _more }

static const ModelCase model_cases[] = {
        CLOSE("pop", pre, t_alloc, .weak = true),
        CLOSE("pop-late", pre_late, t_alloc, .late = 2),
        CLOSE("free", pre, t_free, .weak = true),
        CLOSE("free-late", pre_late, t_free, .late = 2),
        CLOSE("refill", pre_cold, t_alloc, .weak = true),
        CLOSE("refill-late", pre_cold_late, t_alloc, .late = 2),
        CLOSE("twice", pre_cold, t_alloc_twice, .weak = true),
        { .name = "call", .pre = pre_cold, .actors = { t_call, t_quiesce }, .post = post_call, .weak = true },
        { .name = "enter",
          .pre = pre_cold,
          .actors = { t_enter, t_quiesce },
          .post = post_call,
          .weak = true },
};
