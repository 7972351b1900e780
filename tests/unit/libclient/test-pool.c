/* A private pool, looked at from inside. */
#include "libclient/pool/attach.h"
#include "libclient/pool/pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <tslab_map.h>
#include <unistd.h>

#include "libclient/host/control.h"
#include "libclient/pool/enter.h"
#include "proto/deadline.h"

#include "shm/cache/cache-drain.h"
#include "shm/arena/cache-walk.h"
#include "shm/arena/client.h"
#include "shm/maintain/check.h"
#include "shm/maintain/repair.h"
#include "shm/cache/object.h"
#include "tests/util/process.h"
#include "tests/util/maintain.h"
#include "tests/util/test.h"

static int setup(void **state) {
        struct tslab_options options = { .size = sizeof(options), .n_threads = 8, .arena_bytes = 4 << 20 };
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, &options), 0);
        *state = pool;
        return 0;
}

static int teardown(void **state) {
        struct tslab *pool = *state;
        ShmCheck check;

        assert_int_equal(shm_check(&pool->arena, &check), 0);
        assert_int_equal(check.problems, 0);
        tslab_close(pool);
        return 0;
}

static uint32_t records_used(const struct tslab *pool) {
        uint32_t n = 0;

        for (uint32_t i = 1; i < pool->arena.n_records; i++)
                n += shm_record_owner(&pool->arena, i).state != SHM_RECORD_UNUSED;
        return n;
}

static uint32_t clients_used(const struct tslab *pool) {
        ShmClientInfo info;
        uint32_t n = 0;

        for (uint32_t i = 0; i < pool->arena.n_records; i++)
                n += shm_client_get(&pool->arena, i, &info) == 0;
        return n;
}

static int use(void *userdata) {
        struct tslab *pool = userdata;
        tslab_handle handle;

        CHECK(records_used(pool) == 2); /* the parent's */
        CHECK(tslab_alloc_pending(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
        CHECK(records_used(pool) == 4);
        CHECK(clients_used(pool) == 2);
        tslab_close(pool);
        return 0;
}

static void test_records_come_and_go(void **state) {
        struct tslab *pool = *state;
        tslab_handle handle;

        assert_int_equal(records_used(pool), 1); /* the spare one */
        assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
        assert_int_equal(tslab_free(pool, handle), 0);
        assert_int_equal(records_used(pool), 2);
        assert_int_equal(test_child_run(TEST_FORK, use, pool), 0);
        assert_int_equal(records_used(pool), 2);
        assert_int_equal(clients_used(pool), 1);
        assert_int_equal(pool->arena.header->n_unrecorded.value, 0);
}

static void *use_once(void *userdata) {
        tslab_handle handle;
        int r = tslab_alloc(userdata, 64, TSLAB_EPOCH_CURRENT, &handle, NULL);

        return r == 0 && tslab_free(userdata, handle) == 0 ? userdata : NULL;
}

/* Threads that ended inside a call have left no record: repair makes one free, and the next thread takes it. */
static void test_records_of_the_dead(void **state) {
        struct tslab *pool = *state;
        ThreadState *taken;
        pthread_t thread;
        void *result;

        while (pool_take_record(pool, (uint32_t) gettid(), &taken) == 0)
                assert_true(shm_record_mark_dead(&pool->arena, taken->actor.id));
        assert_int_equal(pthread_create(&thread, NULL, use_once, pool), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, pool);
        assert_int_equal(pool->arena.header->n_unrecorded.value, 0);
}

static int die_at_once(void *userdata) {
        tslab_handle handle;

        CHECK(tslab_alloc(userdata, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0);
        CHECK(tslab_free(userdata, handle) == 0);
        return kill(getpid(), SIGKILL);
}

/* Processes that are killed between a slab's word and the count of free slabs leave that wrong. */
static void test_reap_counts_free_slabs(void **state) {
        struct tslab *pool = *state;
        uint64_t *n_free = &pool->arena.header->n_free.value, n;
        struct tslab_stats stats = { .size = sizeof(stats) };

        for (uint64_t wrong = -1000; wrong != 2000; wrong += 1000) {
                *n_free += wrong;
                assert_int_equal(test_child_run(TEST_FORK, die_at_once, pool), -SIGKILL);
                assert_int_equal(tslab_reap(pool), 1);
                assert_int_equal(tslab_stats(pool, &stats), 0);
                n = stats.retained_bytes / SHM_SLAB_SIZE;
                assert_int_equal(*n_free, n);
        }
        /* One that others left no rest for is made again, at the same time as the next look for idle threads. */
        *n_free += 1000;
        pool->local->recount = true;
        pool->local->idle.due_usec = 0;
        assert_int_equal(tslab_drain(pool), 0);
        assert_int_equal(tslab_stats(pool, &stats), 0);
        assert_int_equal(*n_free, stats.retained_bytes / SHM_SLAB_SIZE);
        assert_false(pool->local->recount);
}

static void expect_recount(struct tslab *pool) {
        struct tslab_stats stats = { .size = sizeof(stats) };

        pool->local->idle.due_usec = 0;
        assert_int_equal(tslab_drain(pool), 0);
        assert_int_equal(tslab_stats(pool, &stats), 0);
        assert_int_equal(pool->arena.header->n_free.value, stats.retained_bytes / SHM_SLAB_SIZE);
}

static uint32_t idle_record;

static uint32_t n_cached(struct tslab *pool) {
        uint32_t n = 0;

        for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, &pool->arena, idle_record);)
                n += shm_cache_walk_count(&walk);
        return n;
}

static int reap_once(void *userdata) {
        return tslab_reap(userdata);
}

static int call_often(void *userdata) {
        struct tslab *pool = userdata;
        tslab_handle handle;

        assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
        for (int look = 0; n_cached(pool) > 0; look++) {
                if (look < 2)
                        pool->local->idle.due_usec = 0;
                for (int i = 0; i < HOST_CALLS; i++)
                        assert_int_equal(tslab_publish(pool, handle), -ENOENT);
                usleep(1000);
        }
        return tslab_free(pool, handle);
}

/* This thread caches slots, and does nothing. Other processes give them back, and need no control call for that. */
static void test_idle_caches(void **state) {
        struct tslab *pool = *state;
        tslab_handle handle;

        for (int i = 0; i < 2; i++) {
                assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
                assert_int_equal(tslab_free(pool, handle), 0);
                idle_record = pool_thread(pool)->actor.id;
                assert_true(n_cached(pool) > 0);
                assert_int_equal(test_child_run(TEST_FORK, i == 0 ? reap_once : call_often, pool), 0);
                assert_int_equal(n_cached(pool), 0);
        }
}

static void *end_at_once(void *userdata) {
        *(uint32_t *) userdata = (uint32_t) gettid();
        return NULL;
}

/* So do threads that end inside a call, by themselves or as others see, while their process goes on. */
static void test_threads_that_ended_are_counted(void **state) {
        struct tslab *pool = *state;
        uint64_t *n_free = &pool->arena.header->n_free.value;
        ThreadState *taken;
        pthread_t thread;
        void *result;
        uint32_t tid;

        assert_int_equal(pool_take_record(pool, (uint32_t) gettid(), &taken), 0);
        assert_true(shm_record_mark_dead(&pool->arena, taken->actor.id));
        *n_free += 1000;
        expect_recount(pool);

        assert_int_equal(pthread_create(&thread, NULL, end_at_once, &tid), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        while (pool_take_record(pool, tid, &taken) == 0)
                ;
        *n_free += 1000;
        assert_int_equal(pthread_create(&thread, NULL, use_once, pool), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, pool);
        expect_recount(pool);
}

#define WAVE 512 /* objects of 4096 bytes, each in a slab of its own */

static uint64_t retained_by(struct tslab *pool) {
        struct tslab_stats stats = { .size = sizeof(stats) };

        assert_int_equal(tslab_stats(pool, &stats), 0);
        return stats.retained_bytes / 4096;
}

/* A second has gone by, or not one moment. */
static void free_after(struct tslab *pool, tslab_handle handle, bool second) {
        pool->local->decay.least_usec = second ? 0 : proto_now_usec();
        assert_int_equal(tslab_free(pool, handle), 0);
}

/* Slabs go that nobody took for a second: as many as were free in all of it. Those of a wave stay. */
static void test_decay(void **state) {
        struct tslab_options options = { .size = sizeof(options),
                                         .cache = TSLAB_CACHE_OFF,
                                         .retain_bytes = 16 * 4096 };
        tslab_handle handles[WAVE];
        struct tslab *pool;

        (void) state;
        assert_int_equal(tslab_create(&pool, &options), 0);
        for (int wave = 0; wave < 4; wave++) {
                assert_int_equal(tslab_alloc_batch(pool, 4096, TSLAB_EPOCH_CURRENT, handles, WAVE), WAVE);
                for (int i = 0; i < WAVE; i++)
                        free_after(pool, handles[i], i == 0);
                assert_true(retained_by(pool) >= WAVE);
        }
        /* A hundred are in use in each second: the others go. */
        for (int turn = 0; turn < 4; turn++) {
                assert_int_equal(tslab_alloc_batch(pool, 4096, TSLAB_EPOCH_CURRENT, handles, 100), 100);
                for (int i = 0; i < 100; i++)
                        free_after(pool, handles[i], i == 99);
        }
        assert_true(retained_by(pool) >= 100 && retained_by(pool) <= 100 + 16 + 16);
        /* One is: all but those that the pool retains. */
        for (int turn = 0; turn < 4; turn++) {
                assert_int_equal(tslab_alloc(pool, 4096, TSLAB_EPOCH_CURRENT, handles, NULL), 0);
                free_after(pool, handles[0], true);
        }
        assert_true(retained_by(pool) >= 16 && retained_by(pool) <= 16 + 2);
        tslab_close(pool);
}

/* It takes several frees to trim so many: each goes by the same least. */
static void test_decay_in_parts(void **state) {
        struct tslab_options options = { .size = sizeof(options),
                                         .cache = TSLAB_CACHE_OFF,
                                         .retain_bytes = 16 * 4096 };
        static tslab_handle handles[1500];
        struct tslab *pool;

        (void) state;
        assert_int_equal(tslab_create(&pool, &options), 0);
        assert_int_equal(tslab_alloc_batch(pool, 4096, TSLAB_EPOCH_CURRENT, handles, 1500), 1500);
        for (int i = 0; i < 1500; i++)
                free_after(pool, handles[i], i == 1499);
        assert_int_equal(tslab_alloc_batch(pool, 4096, TSLAB_EPOCH_CURRENT, handles, 700), 700);
        for (int i = 0; i < 700; i++)
                free_after(pool, handles[i], false);
        for (int turn = 0; turn < 4; turn++) {
                assert_int_equal(tslab_alloc(pool, 4096, TSLAB_EPOCH_CURRENT, handles, NULL), 0);
                free_after(pool, handles[0], true);
        }
        assert_true(retained_by(pool) >= 700 && retained_by(pool) <= 700 + 16 + 16);
        tslab_close(pool);
}

/*
 * Another process does control work: the call returns -EBUSY, frees go on, and slabs that drain meanwhile go
 * back later.
 */
static void test_control_is_taken(void **state) {
        struct tslab *pool = *state;
        tslab_handle handles[64], handle;
        uint32_t epoch, other;

        assert_int_equal(tslab_epoch_reserve(pool, "r", &epoch), 0);
        assert_int_equal(tslab_alloc_batch(pool, 64, epoch, handles, 64), 64);
        assert_int_equal(tslab_epoch_close(pool, epoch, 0), 0);

        pool->arena.header->control_owner.value = 77;
        assert_int_equal(tslab_epoch_advance(pool, NULL), -EBUSY);
        assert_int_equal(tslab_epoch_reserve(pool, "s", &other), -EBUSY);
        assert_int_equal(tslab_epoch_close(pool, epoch, 0), -EBUSY);
        assert_int_equal(tslab_free_batch(pool, handles, 64), 64);
        assert_int_equal(pool->arena.header->n_drained.value, 1);
        assert_int_equal(pool->arena.header->epochs[epoch & 0xff].era_reclaimed_size, 0);

        /* The holder of the lock looks for that when its own work is done. */
        pool->arena.header->control_owner.value = 0;
        assert_int_equal(tslab_epoch_reserve(pool, "s", &other), 0);
        assert_int_equal(pool->arena.header->n_drained.value, 0);
        assert_int_equal(pool->arena.header->epochs[epoch & 0xff].reclaimed_size, 4096);
        assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
        assert_int_equal(tslab_free(pool, handle), 0);
}

/* A child inherits neither the lock of threads nor that of processes. */
static int advance(void *userdata) {
        CHECK(tslab_epoch_advance(userdata, NULL) == -EBUSY);
        return 0;
}

static int call_closed(void *userdata) {
        struct tslab *pool = userdata;

        shm_store_rlx(&pool->serial, POOL_CLOSED);
        CHECK(mprotect(pool->local, 4096, PROT_READ) == 0);
        return tslab_epoch_close(pool, 0, 0) == -EBADF ? 0 : __LINE__;
}

/* A call into a pool that is being closed is not counted: the closer waits until none is. */
static void test_call_closed(void **state) {
        assert_int_equal(test_child_run(TEST_FORK, call_closed, *state), 0);
}

static void test_control_over_fork(void **state) {
        struct tslab *pool = *state;
        ShmActor *control;

        assert_int_equal(control_begin(pool, true, &control), 0);
        assert_int_equal(test_child_run(TEST_CLONE, advance, pool), 0);
        control_end(pool);
        assert_int_equal(tslab_epoch_advance(pool, NULL), 0);
}

/* Two threads, one with a cache of 64-byte slots, whose topmost is named by the intent of the other. */
typedef struct Claim {
        ShmActor owner, other;
        ShmCache *cache;
} Claim;

static void claim_begin(Claim *c, struct tslab *pool) {
        uint64_t handle;
        SlotId id;

        assert_int_equal(shm_actor_init(&c->owner, &pool->arena, pool->local->client, 0), 0);
        assert_int_equal(shm_actor_init(&c->other, &pool->arena, pool->local->client, 0), 0);
        c->owner.mode = SHM_CACHE_ON;
        assert_int_equal(shm_object_alloc(&c->owner, 64, 0, NULL, &handle, NULL), 0);
        assert_int_equal(shm_object_free(&c->owner, handle), 0);
        c->cache = shm_arena_cache(&pool->arena, c->owner.id, 0, 0);
        assert_true(c->cache->count >= 2);
        id = (SlotId){ c->cache->slots[c->cache->count - 1] };
        shm_actor_intend_mask(&c->other, slot_id_mask(id));
        shm_actor_intend(&c->other, shm_intent_other(SHM_INTENT_CLAIM, slot_id_slab(id), 0));
}

/* Control goes on, and reports the slots that were in flight. */
static void claim_end(Claim *c) {
        shm_actor_intend(&c->other, 0);
        shm_actor_deinit(&c->other);
}

/* Control died flushing the cache, and its successor kept the slot in record 0. No process is dead by now. */
static void test_reap_kept(void **state) {
        struct tslab *pool = *state;
        ShmRepairCounts counts;
        ShmActor *control;
        ShmCheck check;
        Claim c;

        claim_begin(&c, pool);
        assert_int_equal(control_begin(pool, true, &control), 0);
        c.owner.record->attention |= SHM_ATTENTION_FREEZE;
        shm_actor_intend(control, shm_intent_other(SHM_INTENT_FLUSH, c.owner.id, 0 << 9 | c.cache->count));
        maintain_repair_control(control, &counts);
        control_end(pool);
        assert_int_equal(counts.in_flight, 1);
        assert_int_equal(tslab_reap(pool), 0);
        assert_true(shm_repair_kept(&pool->arena)); /* still named */

        claim_end(&c);
        assert_int_equal(tslab_reap(pool), 0);
        assert_false(shm_repair_kept(&pool->arena));
        assert_false(shm_repair_wanted(&pool->arena));
        assert_int_equal(shm_check(&pool->arena, &check), 0);
        assert_int_equal(check.problems + check.lost_slots + check.in_flight_slots, 0);
        shm_cache_drain_record(&c.owner, c.owner.id, UINT64_MAX);
        shm_actor_deinit(&c.owner);
}

/* The thread ended and its process did not; a pass left its record ROLLED_BACK. */
static void test_reap_rolled_back(void **state) {
        struct tslab *pool = *state;
        uint32_t record;
        Claim c;

        claim_begin(&c, pool);
        record = c.owner.id;
        assert_true(shm_record_mark_dead(&pool->arena, record));
        assert_int_equal(tslab_reap(pool), 0);
        assert_int_equal(shm_record_owner(&pool->arena, record).state, SHM_RECORD_ROLLED_BACK);

        claim_end(&c);
        assert_int_equal(tslab_reap(pool), 0);
        assert_int_equal(shm_record_owner(&pool->arena, record).state, SHM_RECORD_UNUSED);
        assert_false(shm_repair_wanted(&pool->arena));
}

/* As a close of an epoch leaves them that did not wait for a thread any longer. */
static void freeze_all(struct tslab *pool) {
        for (uint32_t i = 1; i < shm_arena_n_records_ever(&pool->arena); i++)
                shm_arena_record(&pool->arena, i)->attention |= SHM_ATTENTION_FREEZE;
}

static int lease_and_close(void *userdata) {
        struct tslab *pool = userdata;
        tslab_handle handle;
        uint32_t epoch;

        CHECK(tslab_epoch_lease(pool, "lease", &epoch) == 0);
        CHECK(tslab_alloc(pool, 128, epoch, &handle, NULL) == 0);
        freeze_all(pool);
        tslab_close(pool);
        return 0;
}

static bool is_frozen(struct tslab *pool) {
        for (uint32_t i = 1; i < shm_arena_n_records_ever(&pool->arena); i++)
                if (shm_arena_record(&pool->arena, i)->attention & SHM_ATTENTION_FREEZE)
                        return true;
        return false;
}

__attribute__((unused)) static int batch(struct tslab *pool) {
        tslab_handle handles[8];

        return tslab_alloc_batch(pool, 64, 0, handles, 8) == 8 && tslab_free_batch(pool, handles, 8) == 8
                       ? 0
                       : -1;
}

static int free_batch_of_none(struct tslab *pool) {
        return (int) tslab_free_batch(pool, NULL, 0);
}

static int pend(struct tslab *pool) {
        tslab_handle handle;

        return tslab_alloc_pending(pool, 64, 0, &handle, NULL) ?: tslab_free(pool, handle);
}

static int put(struct tslab *pool) {
        struct tslab_map *map;
        int r;

        r = tslab_map_open(&map, pool, "map", NULL);
        if (r)
                return r;
        r = tslab_map_put(map, "key", 3, "value", 5, 0);
        tslab_map_close(map);
        return r;
}

static int pair(struct tslab *pool) {
        tslab_handle handle;

        return tslab_alloc(pool, 64, 0, &handle, NULL) ?: tslab_free(pool, handle);
}

/* Any next call of the thread ends the freeze that waited for it: there is no daemon that would. */
static void test_thaw(void **state) {
        /*
         * UBSan of gcc 12 takes the address of the thread's own state for NULL, in alloc_more() alone and
         * where the library is linked into the program: not under it.
         */
        static int (*const calls[])(struct tslab *) = {
                free_batch_of_none,
                pend,
                put,
                pair,
#ifndef __SANITIZE_ADDRESS__
                batch,
#endif
        };
        struct tslab *pool = *state;

        assert_int_equal(pair(pool), 0);
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
                freeze_all(pool);
                for (int n = 0; n < 1000 && is_frozen(pool); n++) { /* it is tried now and then */
                        assert_int_equal(calls[i](pool), 0);
                        usleep(1000);
                }
                assert_false(is_frozen(pool));
        }
}

/* A process that closes the pool finishes the freeze that it left, and its leases end then. */
static void test_close_frozen(void **state) {
        struct tslab *pool = *state;
        uint32_t n_used = records_used(pool), client = pool->local->client;
        ShmEpochInfo epoch;
        ShmClientInfo info;

        assert_int_equal(test_child_run(TEST_FORK, lease_and_close, pool), 0);
        assert_int_equal(records_used(pool), n_used);
        for (uint32_t i = 0; i < pool->arena.n_records; i++)
                assert_true(i == client || shm_client_get(&pool->arena, i, &info) < 0);
        for (uint32_t id = 0; shm_epoch_get(&pool->arena, id, &epoch) == 0; id++)
                assert_int_equal(epoch.owner, 0);
}

static int ref_and_close(void *userdata) {
        struct tslab *pool = userdata;

        CHECK(tslab_epoch_ref(pool, TSLAB_EPOCH_CURRENT) == 0);
        CHECK(tslab_epoch_refs(pool, shm_epoch_current(&pool->arena)) == 1);
        freeze_all(pool);
        pool->arena.header->control_owner.value = 77;
        tslab_close(pool);
        return 0;
}

/* While others do control work it cannot do so, and its entry stays. Its references end all the same. */
static void test_close_beside_control(void **state) {
        struct tslab *pool = *state;

        assert_int_equal(test_child_run(TEST_FORK, ref_and_close, pool), 0);
        assert_int_equal(clients_used(pool), 2);
        assert_int_equal(tslab_epoch_refs(pool, shm_epoch_current(&pool->arena)), 0);
        pool->arena.header->control_owner.value = 0;
        assert_int_equal(tslab_reap(pool), 1);
        assert_int_equal(clients_used(pool), 1);
        assert_int_equal(records_used(pool), 1);
}

static int die_in_control(void *userdata) {
        struct tslab *pool = userdata;
        ShmActor *control;

        CHECK(pool_attach(pool) == 0);
        CHECK(control_begin(pool, true, &control) == 0);
        shm_actor_intend(control, shm_intent_other(SHM_INTENT_SLAB, 0, 0));
        kill(getpid(), SIGKILL);
        return 0;
}

/* With no memory left to allocate. */
static int reap_without_memory(struct tslab *pool) {
        struct rlimit old, none;
        void *all = NULL, *p;
        int r;

        assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
        none = (struct rlimit){ .rlim_max = old.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
        for (; (p = malloc(1 << 14)); all = p)
                *(void **) p = all;
        r = tslab_reap(pool);
        for (; (p = all); free(p))
                all = *(void **) p;
        assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
        return r;
}

/* Control work needs no memory, so that of a process that died in it can be ended by one that has none left. */
static void test_reap_without_memory(void **state) {
        struct tslab *pool = *state;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
        skip(); /* their own malloc() ends the process */
#endif
        assert_int_equal(test_child_run(TEST_FORK, die_in_control, pool), -SIGKILL);
        assert_int_equal(shm_record_intent(&pool->arena, 0).kind, SHM_INTENT_SLAB);
        assert_int_equal(reap_without_memory(pool), 1);
        assert_int_equal(shm_record_intent(&pool->arena, 0).kind, SHM_INTENT_NONE);
}

typedef struct Holder {
        struct tslab *pool;
        pthread_barrier_t barrier;
        int result;
} Holder;

/* Is at control work for a while. */
static void *hold_control(void *userdata) {
        Holder *holder = userdata;
        ShmActor *control;

        holder->result = control_begin(holder->pool, true, &control);
        (void) pthread_barrier_wait(&holder->barrier);
        usleep(5000);
        if (holder->result == 0)
                control_end(holder->pool);
        return NULL;
}

static int put_number(struct tslab_map *map, uint64_t number) {
        static const char value[500];

        return tslab_map_put(map, &number, sizeof(number), value, sizeof(value), TSLAB_EPOCH_CURRENT);
}

/*
 * All memory is in entries that expired, and another thread is at control work: a put does not fail at once. It does
 * where the other one takes far too long, hence the tries.
 */
static void test_put_beside_control(void **state) {
        Holder holder = { .pool = *state };
        struct tslab_map *map;
        pthread_t thread;
        uint64_t n = 0;
        int r = -ENOMEM;

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        while (put_number(map, n) == 0)
                n++;
        for (uint64_t i = 0; i < n; i++)
                assert_int_equal(tslab_map_touch(map, &i, sizeof(i), 1000), 0);
        while (tslab_map_count(map) > 0)
                usleep(10000);
        pthread_barrier_init(&holder.barrier, NULL, 2);
        for (unsigned i = 0; i < 30 && r == -ENOMEM; i++) {
                assert_int_equal(pthread_create(&thread, NULL, hold_control, &holder), 0);
                (void) pthread_barrier_wait(&holder.barrier);
                r = put_number(map, 0);
                pthread_join(thread, NULL);
                assert_int_equal(holder.result, 0);
        }
        assert_int_equal(r, 0);
        pthread_barrier_destroy(&holder.barrier);
        tslab_map_close(map);
}

static bool setting_fails;

int __real_pthread_setspecific(pthread_key_t key, const void *value);
int __wrap_pthread_setspecific(pthread_key_t key, const void *value);

int __wrap_pthread_setspecific(pthread_key_t key, const void *value) {
        return setting_fails ? ENOMEM : __real_pthread_setspecific(key, value);
}

static void *begin_without_memory(void *userdata) {
        tslab_handle handle;
        bool ok;

        setting_fails = true;
        ok = tslab_alloc(userdata, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == -ENOMEM;
        setting_fails = false;
        ok = tslab_alloc(userdata, 64, TSLAB_EPOCH_CURRENT, &handle, NULL) == 0 && ok;
        ok = tslab_free(userdata, handle) == 0 && ok;
        return ok ? NULL : userdata;
}

/* The C library may have no memory for the thread's value of the key by which its end is noticed. */
static void test_thread_ends_after_key_failed(void **state) {
        struct tslab *pool = *state;
        pthread_t thread;
        void *failed;

        assert_int_equal(pthread_create(&thread, NULL, begin_without_memory, pool), 0);
        assert_int_equal(pthread_join(thread, &failed), 0);
        assert_null(failed);
        assert_int_equal(records_used(pool), 1); /* the spare one */
        assert_int_equal(pool->local->n_entries, 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                TEST(test_records_come_and_go),
                TEST(test_thread_ends_after_key_failed),
                TEST(test_reap_counts_free_slabs),
                TEST(test_idle_caches),
                TEST(test_threads_that_ended_are_counted),
                TEST(test_records_of_the_dead),
                cmocka_unit_test(test_decay),
                cmocka_unit_test(test_decay_in_parts),
                TEST(test_control_is_taken),
                TEST(test_control_over_fork),
                TEST(test_reap_kept),
                TEST(test_reap_rolled_back),
                TEST(test_call_closed),
                TEST(test_close_frozen),
                TEST(test_close_beside_control),
                TEST(test_reap_without_memory),
                TEST(test_thaw),
                TEST(test_put_beside_control),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
