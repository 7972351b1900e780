/* The maintainer's engine as a whole, on a real arena with a clock of ours: requests, turns, waits, takeover. */
#include "shm/maintain/maintain.h"

#include <errno.h>
#include <string.h>

#include "shm/cache/cache-hit.h"
#include "shm/arena/client.h"
#include "shm/maintain/check.h"
#include "shm/slab/slab.h"
#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch-open.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"
#include "tests/util/trie.h"

#define BEGIN UINT64_C(1000000)
#define MSEC UINT64_C(1000)

static ShmMaintain m;
static uint64_t now;

static int setup(void **state) {
        TestArena *t;

        if (test_arena_setup(state))
                return -1;
        t = *state;
        assert_int_equal(shm_client_add(&t->arena, &(ShmClientInfo){ .pid = 1, .start_time = 1 }), 0);
        memset(&m, 0xa5, sizeof(m)); /* as an earlier maintainer may have left it */
        shm_maintain_init(&m, &t->control);
        now = BEGIN;
        t->actor.mode = SHM_CACHE_ON;
        return 0;
}

/* Steps at this time, until it wants a later one. */
static uint64_t steps(void) {
        uint64_t next = 0;

        for (int i = 0; i < 1000 && next == 0; i++)
                next = shm_maintain_step(&m, now);
        assert_true(next > now);
        return next;
}

/* Until there is nothing to wait for. */
static void run(void) {
        uint64_t next;

        for (int i = 0; i < 1000 && (next = steps()) != SHM_MAINTAIN_IDLE; i++)
                now = next;
        assert_int_equal(next, SHM_MAINTAIN_IDLE);
}

/* A slot of 64 bytes in the actor's cache. */
static ShmCache *fill_of(TestArena *t, ShmActor *actor, uint32_t epoch) {
        uint64_t handle;

        assert_int_equal(shm_object_alloc(actor, 64, epoch, NULL, &handle, NULL), 0);
        assert_int_equal(shm_object_free(actor, handle), 0);
        assert_true(shm_arena_cache(&t->arena, actor->id, epoch, 0)->count > 0);
        return shm_arena_cache(&t->arena, actor->id, epoch, 0);
}

static ShmCache *fill(TestArena *t, uint32_t epoch) {
        return fill_of(t, &t->actor, epoch);
}

static bool is_frozen(const TestArena *t) {
        return t->actor.record->attention & SHM_ATTENTION_FREEZE;
}

static ShmEpochInfo info(const TestArena *t, uint32_t id) {
        ShmEpochInfo ret;

        assert_int_equal(shm_epoch_get(&t->arena, id, &ret), 0);
        return ret;
}

static void expect_clean(const TestArena *t) {
        ShmCheck c;

        assert_int_equal(shm_check(&t->arena, &c), 0);
        assert_int_equal(c.problems + c.in_flight_slots, 0);
}

/* A map whose first n_kept entries, and its index, are of epoch 2, and the others of epoch 1. */
static void map_fill(TestArena *t, uint64_t n, uint64_t n_kept, ShmTrie *ret) {
        uint32_t other = shm_epoch_number(2, 1);
        uint64_t root;

        assert_int_equal(shm_trie_create(&t->actor, other, &root), 0);
        t->arena.header->roots[0].hash = t->arena.header->roots[1].hash = UINT64_MAX
                                                                          << 8; /* 0 is free again */
        t->arena.header->roots[1].handle = root;
        assert_int_equal(shm_object_publish(&t->actor, root), 0);
        assert_int_equal(shm_trie_open(ret, &t->arena, root), 0);
        for (uint64_t i = 0; i < n; i++) {
                ShmMapKey key = { &i, sizeof(i), i * UINT64_C(0x9e3779b97f4a7c15) >> 12 };
                ShmMapPut put = { .value = "", .epoch = i < n_kept ? other : shm_epoch_number(1, 1) };

                assert_int_equal(shm_map_put(&t->actor, ret, &key, &put, NULL), 0);
        }
        assert_int_equal(trie_count(ret).n_leaves, n);
}

/* A sweep that is under way when eras are revoked is ended first: else one revocation after another would stop it. */
static void test_revoke_beside_a_sweep(void **state) {
        TestArena *t = *state;
        uint32_t last = 0;
        ShmTrie trie;

        map_fill(t, 3000, 2990, &trie);
        shm_map_sweeps_ask(&m.sweeps);
        assert_int_equal(shm_epoch_close(&t->arena, 1, true), 0);
        assert_int_equal(shm_epoch_revoke(&t->arena, shm_epoch_number(1, 1), false), 0);
        (void) shm_maintain_close(&m, 1, now);
        for (unsigned i = 0; m.sweeps.asked < 2; i++) {
                assert_true(i < 1000);
                (void) shm_maintain_step(&m, now += 1000);
                assert_true(m.sweeps.sweep.root >= last);
                last = m.sweeps.sweep.root;
        }
        assert_int_equal(last, 1);
        run();
        assert_int_equal(trie_count(&trie).n_leaves, 2990);
}

/* A repair looks for guards again of what a revocation has marked meanwhile. */
static void test_repair_beside_revocation(void **state) {
        TestArena *t = *state;
        uint64_t handle;

        assert_int_equal(shm_object_alloc(&t->actor, 64, 1, NULL, &handle, NULL), 0);
        assert_int_equal(shm_epoch_close(&t->arena, 1, true), 0);
        assert_int_equal(shm_epoch_revoke(&t->arena, shm_epoch_number(1, 1), false), 0);
        shm_maintain_repair(&m);
        m.repair.fenced = true;
        (void) shm_maintain_close(&m, 1, now);
        while (m.closes[1].state != SHM_CLOSE_MARK) {
                assert_true(m.repair.fenced);
                (void) shm_maintain_step(&m, now += 1000);
                m.repair.state = SHM_REPAIR_ROLLBACK; /* it is under way all the while */
                m.repairing = true;
        }
        while (m.closes[1].state == SHM_CLOSE_MARK)
                (void) shm_maintain_step(&m, now += 1000);
        assert_false(m.repair.fenced);
        run();
        assert_false(shm_object_live(&t->arena, handle));
}

/* The index shrinks with what is revoked, though nobody asks for it. */
static void test_revoke_of_a_map(void **state) {
        enum { N = 3000 };
        TestArena *t = *state;
        TrieCount count;
        ShmTrie trie;

        map_fill(t, N, 10, &trie);
        assert_int_equal(shm_epoch_close(&t->arena, 1, true), 0);
        assert_int_equal(shm_epoch_revoke(&t->arena, shm_epoch_number(1, 1), false), 0);
        (void) shm_maintain_close(&m, 1, now);
        run();
        count = trie_count(&trie);
        assert_int_equal(count.n_leaves, 10);
        assert_int_equal(count.n_sparse + count.n_frozen + count.n_stale, 0);
        assert_int_equal(shm_map_count(&trie), 10);
}

static void test_idle(void **state) {
        TestArena *t = *state;

        assert_int_equal(shm_maintain_step(&m, now), SHM_MAINTAIN_IDLE);
        t->arena.header->n_drained.value = 3;
        shm_maintain_look(&m, true, now);
        assert_int_equal(t->arena.header->n_drained.value, 0);
        assert_int_equal(shm_maintain_step(&m, now), SHM_MAINTAIN_IDLE);
        assert_int_equal(m.n_asked + m.n_repairs, 0);
}

/* Only caches of the epoch are emptied, and the thread is thawed. */
static void test_close(void **state) {
        TestArena *t = *state;
        const ShmCache *other = fill(t, 0), *cache = fill(t, 1);
        uint32_t n = other->count;

        assert_int_equal(shm_epoch_close(&t->arena, 1, true), 0);
        assert_int_equal(shm_maintain_close(&m, 1, now), 1);
        assert_true(is_frozen(t));
        assert_false(shm_maintain_is_walked(&m, 1, 1));
        run();
        assert_false(is_frozen(t));
        assert_int_equal(cache->count, 0);
        assert_int_equal(other->count, n);
        assert_true(shm_maintain_is_walked(&m, 1, 1));
        assert_true(shm_maintain_is_settled(&m, 1, 1));
        assert_false(shm_maintain_is_walked(&m, 1, 2));
        assert_false(shm_maintain_is_settled(&m, 1, 2));
        assert_int_equal(m.closes[1].n_rounds, 1);
        assert_int_equal(info(t, 1).state, SHM_EPOCH_DRAINED);
        assert_int_equal(now, BEGIN);
        assert_int_equal(m.membarrier_error, 0);
        expect_clean(t);
}

/* Only the thread that is idle is frozen, and nobody is waited for on account of the other. */
static void test_empty_idle(void **state) {
        static ShmIdle idle;
        TestArena *t = *state;
        ShmCache *cache = fill(t, 0), *busy;
        ShmActor other;

        assert_int_equal(shm_actor_init(&other, &t->arena, 0, 2), 0);
        other.mode = SHM_CACHE_ON;
        (void) fill_of(t, &other, 0);
        idle = (ShmIdle){};
        m.idle = &idle;
        assert_false(shm_maintain_empty_idle(&m, now));
        busy = fill_of(t, &other, 0);
        assert_true(shm_maintain_empty_idle(&m, now += SHM_IDLE_USEC));
        run();
        assert_int_equal(m.freeze.n_left, 0);
        assert_int_equal(cache->count, 0);
        assert_true(busy->count > 0);
        expect_clean(t);
}

/* A thread that is inside a call is looked at again, later each time, until it is thawed. */
static void test_empty_caches(void **state) {
        static const uint64_t waits[] = { 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240, 20000, 20000 };
        TestArena *t = *state;
        const ShmCache *cache = fill(t, 0);
        uint64_t next;

        shm_actor_enter(&t->actor);
        assert_int_equal(shm_maintain_empty_caches(&m, now), 1);
        assert_int_equal(m.n_given, 0);
        for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
                next = steps();
                assert_int_equal(next, now + waits[i]);
                assert_int_equal(shm_maintain_step(&m, next - 1), next);
                now = next;
        }
        /* Nobody waits for it. */
        assert_int_equal(m.n_given, 1);
        assert_true(is_frozen(t));
        assert_true(cache->count > 0);
        shm_actor_leave(&t->actor);
        run();
        assert_false(is_frozen(t));
        assert_int_equal(cache->count, 0);
        expect_clean(t);
        /* The next time it is looked at soon again. */
        shm_actor_enter(&t->actor);
        assert_int_equal(shm_maintain_empty_caches(&m, now), 2);
        assert_int_equal(steps(), now + 20);
        assert_int_equal(m.n_given, 2);
        shm_actor_leave(&t->actor);
}

/*
 * Clients that want memory are told when the caches are empty; clients that ask meanwhile are told the next
 * time.
 */
static void test_caches_wanted(void **state) {
        TestArena *t = *state;
        ShmHeader *header = t->arena.header;

        (void) fill(t, 0);
        header->caches_wanted.value = 5;
        shm_maintain_look(&m, false, now);
        assert_int_equal(m.n_asked, 1);
        header->caches_wanted.value = 6;
        shm_maintain_look(&m, false, now);
        assert_int_equal(m.n_asked, 1);
        assert_int_equal(header->caches_given.value, 0);
        run();
        assert_int_equal(header->caches_given.value, 6);
        assert_int_equal(m.n_asked, 2);
        assert_int_equal(m.n_given, 2);
        shm_maintain_look(&m, false, now);
        assert_int_equal(m.n_asked, 2);
}

/* The answer is not given before the last cache is empty. */
static void test_caches_given_last(void **state) {
        TestArena *t = *state;
        unsigned n = 0;

        for (uint32_t epoch = 0; epoch < 4; epoch++)
                for (uint32_t size = 64; size <= 512; size *= 2) {
                        uint64_t handle;

                        assert_int_equal(shm_object_alloc(&t->actor, size, epoch, NULL, &handle, NULL), 0);
                        assert_int_equal(shm_object_free(&t->actor, handle), 0);
                }
        t->arena.header->caches_wanted.value = 1;
        shm_maintain_look(&m, false, now);
        for (; m.n_given == 0; n++) {
                assert_true(is_frozen(t) || m.freeze_busy);
                (void) shm_maintain_step(&m, now);
        }
        assert_true(n > 2);
        assert_false(is_frozen(t));
        assert_int_equal(t->arena.header->caches_given.value, 1);
        for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, &t->arena, t->actor.id);)
                assert_int_equal(walk.cache->count, 0);
}

/* A close that waits for a thread looks at it before its round, whenever the freeze is due. */
static void test_close_pending(void **state) {
        TestArena *t = *state;
        uint64_t next;

        (void) fill(t, 1);
        assert_int_equal(shm_epoch_close(&t->arena, 1, true), 0);
        shm_actor_enter(&t->actor);
        (void) shm_maintain_close(&m, 1, now);
        next = steps();
        assert_int_equal(m.closes[1].state, SHM_CLOSE_WAIT);
        assert_int_equal(next, now + 20);
        assert_true(shm_maintain_is_walked(&m, 1, 1));
        assert_false(shm_maintain_is_settled(&m, 1, 1));
        assert_int_equal(m.closes[1].n_rounds, 1);
        shm_actor_leave(&t->actor);
        m.freeze_due_usec = now = next + 77;
        m.freeze_due_usec++;
        assert_int_equal(steps(), SHM_MAINTAIN_IDLE);
        assert_true(shm_maintain_is_settled(&m, 1, 1));
        assert_int_equal(m.closes[1].n_rounds, 2);
        assert_false(is_frozen(t));
        expect_clean(t);
}

/* The maintainer asks to be called at the earliest of its times. */
static void test_next_time(void **state) {
        TestArena *t = *state;

        shm_actor_enter(&t->actor);
        for (uint32_t id = 1; id < 3; id++) {
                assert_int_equal(shm_epoch_close(&t->arena, id, true), 0);
                (void) shm_maintain_close(&m, id, now);
        }
        (void) steps();
        assert_int_equal(m.closes[1].state, SHM_CLOSE_WAIT);
        assert_int_equal(m.closes[2].state, SHM_CLOSE_WAIT);
        m.freeze_due_usec = now + 9;
        m.closes[1].due_usec = now + 8;
        m.closes[2].due_usec = now + 7;
        assert_int_equal(shm_maintain_step(&m, now), now + 7);
        m.closes[2].due_usec = now + 10;
        assert_int_equal(shm_maintain_step(&m, now), now + 8);
        m.closes[1].due_usec = now + 10;
        assert_int_equal(shm_maintain_step(&m, now), now + 9);
        shm_actor_leave(&t->actor);
        run();
}

/* Two jobs and a repair take turns. */
static void test_turns(void **state) {
        TestArena *t = *state;
        ShmActor dead;

        for (uint32_t id = 1; id < 3; id++) {
                assert_int_equal(shm_epoch_close(&t->arena, id, true), 0);
                (void) shm_maintain_close(&m, id, now);
        }
        assert_int_equal(shm_actor_init(&dead, &t->arena, 0, 9), 0);
        assert_true(shm_record_mark_dead(&t->arena, dead.id));
        do
                assert_int_equal(shm_maintain_step(&m, now), 0);
        while (m.closes[1].state == SHM_CLOSE_EMPTY);
        shm_maintain_repair(&m);
        assert_int_equal(m.closes[1].state, SHM_CLOSE_WALK);
        assert_int_equal(m.closes[2].state, SHM_CLOSE_EMPTY);
        assert_int_equal(shm_maintain_step(&m, now), 0);
        assert_int_equal(m.closes[1].state, SHM_CLOSE_WALK);
        assert_int_equal(m.closes[2].state, SHM_CLOSE_WALK);
        assert_int_equal(m.n_repairs, 0);
        assert_int_equal(shm_maintain_step(&m, now), 0);
        assert_int_equal(m.n_repairs, 1);
        assert_int_equal(m.closes[1].n_rounds, 0);
        assert_int_equal(shm_maintain_step(&m, now), 0);
        assert_int_equal(m.closes[1].n_rounds, 1);
        assert_int_equal(m.closes[2].n_rounds, 0);
        run();
        assert_int_equal(info(t, 2).state, SHM_EPOCH_DRAINED);
}

/* While one uses the reachability check the others wait for it, and do something else. */
static void test_one_check(void **state) {
        TestArena *t = *state;
        ShmActor dead;

        (void) test_alloc(t, 64, 1);
        assert_int_equal(shm_epoch_revoke(&t->arena, 1, false), 0);
        (void) shm_maintain_close(&m, 1, now);
        while (m.closes[1].state != SHM_CLOSE_COLLECT)
                assert_int_equal(shm_maintain_step(&m, now), 0);
        m.reach_is_used = true;
        m.reach_user = 2;
        assert_int_equal(shm_actor_init(&dead, &t->arena, 0, 9), 0);
        assert_true(shm_record_mark_dead(&t->arena, dead.id));
        shm_maintain_repair(&m);
        assert_int_equal(steps(), SHM_MAINTAIN_IDLE);
        assert_int_equal(m.closes[1].state, SHM_CLOSE_COLLECT);
        assert_int_equal(m.n_repairs, 0);
        assert_true(m.reach_is_used);
        m.reach_user = 1;
        assert_int_equal(shm_maintain_step(&m, now), 0);
        assert_int_equal(m.closes[1].state, SHM_CLOSE_WALK);
        assert_false(m.reach_is_used);
        run();
        assert_int_equal(m.n_repairs, 1);
        assert_int_equal(info(t, 1).state, SHM_EPOCH_DRAINED);
        m.reach_is_used = true;
        m.reach_user = t->arena.n_epochs;
        shm_maintain_repair(&m);
        run();
        assert_int_equal(m.n_repairs, 2);
        assert_false(m.reach_is_used);
}

/* Dead records, and a request for another pass while one is under way. */
static void test_repair(void **state) {
        TestArena *t = *state;

        (void) fill(t, 0);
        assert_true(shm_record_mark_dead(&t->arena, t->actor.id));
        shm_maintain_look(&m, false, now);
        assert_int_equal(steps(), SHM_MAINTAIN_IDLE);
        assert_int_equal(m.n_repairs, 0);
        shm_maintain_look(&m, true, now);
        shm_maintain_repair(&m);
        run();
        assert_int_equal(m.n_repairs, 2);
        assert_int_equal(shm_record_owner(&t->arena, t->actor.id).state, SHM_RECORD_UNUSED);
        assert_int_equal(m.repaired.records, 0); /* the second repair found none */
        shm_maintain_look(&m, true, now);
        run();
        assert_int_equal(m.n_repairs, 2);
        assert_int_equal(shm_actor_init(&t->actor, &t->arena, 0, 3), 0);
        assert_true(shm_record_mark_dead(&t->arena, t->actor.id));
        shm_maintain_repair(&m);
        run();
        assert_int_equal(m.n_repairs, 3);
        assert_int_equal(m.repaired.records, 1);
        expect_clean(t);
}

/* A close that had to wait for a repair goes on with the end of the pass; one that has no slab left is left alone. */
static void test_repair_wakes(void **state) {
        TestArena *t = *state;

        t->actor.mode = SHM_CACHE_OFF;
        (void) test_alloc(t, 64, 1);
        for (uint32_t id = 1; id < 3; id++) {
                assert_int_equal(shm_epoch_close(&t->arena, id, true), 0);
                (void) shm_maintain_close(&m, id, now);
        }
        run();
        assert_int_equal(m.closes[1].walked.n_left, 1);
        assert_int_equal(m.closes[2].walked.n_left, 0);
        assert_int_equal(shm_epoch_close(&t->arena, 3, true), 0);
        assert_true(shm_record_mark_dead(&t->arena, t->actor.id));
        (void) shm_maintain_close(&m, 3, now);
        (void) steps();
        assert_int_equal(m.closes[3].state, SHM_CLOSE_WAIT);
        m.closes[3].due_usec = now + 1000 * MSEC;
        now += 10 * MSEC;
        shm_maintain_repair(&m);
        run();
        assert_true(now < BEGIN + 100 * MSEC);
        assert_int_equal(m.closes[1].n_rounds, 2);
        assert_int_equal(m.closes[2].n_rounds, 1);
        assert_int_equal(m.closes[3].n_rounds, 2);
        assert_int_equal(info(t, 3).state, SHM_EPOCH_DRAINED);
}

/*
 * Drained slabs wake the epochs that they may belong to: closed for draining, or with slabs of earlier eras;
 * no others.
 */
static void test_look_drained(void **state) {
        TestArena *t = *state;
        uint64_t handle, old;
        uint32_t number;

        t->actor.mode = SHM_CACHE_OFF;
        handle = test_alloc(t, 64, 1);
        old = test_alloc(t, 64, 2);
        assert_int_equal(shm_epoch_close(&t->arena, 1, true), 0);
        assert_int_equal(shm_epoch_close(&t->arena, 3, false), 0);
        for (uint32_t id = 1; id < 4; id++)
                (void) shm_maintain_close(&m, id, now);
        for (int i = 0; i < 2; i++)
                assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
        assert_int_equal(number, shm_epoch_number(2, 2));
        (void) shm_maintain_close(&m, 2, now);
        run();
        assert_int_equal(m.closes[2].walked.n_left, 1);
        for (uint32_t id = 0; id < 4; id++)
                m.closes[id].n_rounds = 0;
        shm_maintain_look(&m, true, now);
        assert_int_equal(steps(), SHM_MAINTAIN_IDLE);
        t->arena.header->n_drained.value = 1;
        shm_maintain_look(&m, false, now);
        assert_int_equal(m.closes[0].state, SHM_CLOSE_IDLE);
        assert_int_equal(m.closes[2].state, SHM_CLOSE_WAIT);
        assert_int_equal(m.closes[3].state, SHM_CLOSE_IDLE);
        run();
        assert_int_equal(shm_object_free(&t->actor, old), 0);
        shm_maintain_look(&m, false, now);
        run();
        assert_int_equal(m.closes[2].walked.n_left, 0);
        assert_int_equal(info(t, 2).state, SHM_EPOCH_OPEN);
        shm_maintain_look(&m, false, now);
        assert_int_equal(steps(), SHM_MAINTAIN_IDLE);
        assert_int_equal(shm_epoch_close(&t->arena, 1, true), 0);
        (void) shm_maintain_close(&m, 1, now);
        run();
        assert_int_equal(shm_object_free(&t->actor, handle), info(t, 1).era == 2 ? 0 : -ESTALE);
        shm_maintain_look(&m, false, now);
        run();
        assert_int_equal(info(t, 1).state, SHM_EPOCH_DRAINED);
}

/* A closed epoch whose last walk found nothing, since a thread was to add a slab yet. */
static void test_look_drains_later(void **state) {
        TestArena *t = *state;

        assert_int_equal(shm_epoch_close(&t->arena, 1, true), 0);
        t->arena.header->n_drained.value = 1;
        shm_maintain_look(&m, false, now);
        assert_int_equal(m.closes[1].state, SHM_CLOSE_WAIT);
        assert_int_equal(m.closes[0].state, SHM_CLOSE_IDLE);
        run();
        assert_int_equal(info(t, 1).state, SHM_EPOCH_DRAINED);
        t->arena.header->n_drained.value = 1;
        shm_maintain_look(&m, false, now);
        assert_int_equal(m.closes[1].state, SHM_CLOSE_IDLE);
}

static void test_look_revocations(void **state) {
        TestArena *t = *state;
        uint64_t handle = test_alloc(t, 64, 1);

        assert_int_equal(shm_epoch_revoke(&t->arena, 1, false), 0);
        shm_maintain_look(&m, false, now);
        assert_int_equal(m.closes[1].n_starts, 0);
        shm_maintain_look(&m, true, now);
        shm_maintain_look(&m, true, now); /* it is being worked at */
        assert_int_equal(m.closes[1].n_starts, 1);
        assert_int_equal(m.closes[0].n_starts + m.closes[2].n_starts, 0);
        run();
        assert_false(shm_object_live(&t->arena, handle));
        assert_false(info(t, 1).revoking);
        shm_maintain_look(&m, true, now);
        assert_int_equal(m.closes[1].n_starts, 1);
        expect_clean(t);
}

/* Records that were left, and frozen ones that no freeze of ours knows of. */
static void test_look_freeze(void **state) {
        TestArena *t = *state;
        ShmActor left;

        (void) fill(t, 0);
        assert_int_equal(shm_actor_init(&left, &t->arena, 0, 9), 0);
        t->actor.record->attention |= SHM_ATTENTION_FREEZE;
        shm_record_set_left(&t->arena, left.id);
        shm_maintain_look(&m, false, now);
        assert_int_equal(steps(), SHM_MAINTAIN_IDLE);
        assert_true(is_frozen(t));
        shm_maintain_look(&m, true, now);
        assert_int_equal(steps(), SHM_MAINTAIN_IDLE);
        assert_false(is_frozen(t));
        assert_int_equal(shm_record_owner(&t->arena, left.id).state, SHM_RECORD_UNUSED);
        assert_true(shm_freeze_is_over(&t->arena));
}

/* The next maintainer goes on with the work that the arena names. */
static void test_take_over(void **state) {
        TestArena *t = *state;
        uint64_t handle = test_alloc(t, 64, 1), kept = test_alloc(t, 64, 3);
        const ShmCache *cache = fill(t, 0);
        ShmRepairCounts counts;
        ShmActor dead, other;
        uint32_t number;

        for (int i = 0; i < 4; i++)
                assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
        assert_int_equal(number, shm_epoch_number(0, 2));
        for (uint32_t id = 1; id < 4; id++)
                assert_int_equal(info(t, id).state, SHM_EPOCH_CLOSING);
        assert_int_equal(shm_epoch_revoke(&t->arena, 1, true), 0);
        assert_int_equal(shm_epoch_close(&t->arena, 3, true), 0);
        t->actor.record->attention |= SHM_ATTENTION_FREEZE;
        assert_int_equal(shm_actor_init(&dead, &t->arena, 0, 9), 0);
        assert_true(shm_record_mark_dead(&t->arena, dead.id));
        assert_int_equal(shm_actor_init(&other, &t->arena, 0, 10), 0);
        shm_actor_intend(&t->control, shm_intent_other(SHM_INTENT_FLUSH, t->actor.id, cache->count));
        t->arena.header->caches_wanted.value = 3;

        memset(&m, 0xa5, sizeof(m)); /* as an earlier maintainer may have left it */
        shm_maintain_init(&m, &t->control);
        assert_int_equal(shm_maintain_take_over(&m, now, &counts), 2);
        assert_true(counts.slots > 0);
        assert_int_equal(cache->count, 0);
        for (uint32_t id = 0; id < 4; id++)
                assert_int_equal(m.closes[id].n_starts, 1);
        run();
        assert_int_equal(m.n_repairs, 1);
        assert_false(is_frozen(t));
        assert_false(shm_object_live(&t->arena, handle));
        assert_true(shm_object_live(&t->arena, kept));
        assert_false(info(t, 1).revoking);
        assert_int_equal(info(t, 2).state, SHM_EPOCH_DRAINED);
        assert_int_equal(m.closes[3].walked.n_left, 1);
        assert_int_equal(t->arena.header->caches_given.value, 3);
        assert_int_equal(shm_record_owner(&t->arena, dead.id).state, SHM_RECORD_UNUSED);
        expect_clean(t);
}

/* A new arena has no work to go on with. */
static void test_take_over_new(void **state) {
        ShmRepairCounts counts;

        assert_int_equal(shm_maintain_take_over(&m, now, &counts), 0);
        for (uint32_t id = 0; id < 4; id++)
                assert_int_equal(m.closes[id].n_starts, 0);
        assert_int_equal(shm_maintain_step(&m, now), SHM_MAINTAIN_IDLE);
        assert_int_equal(counts.slots + counts.records + counts.slabs + counts.objects, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(idle),
                TEST(close),
                TEST(empty_caches),
                TEST(empty_idle),
                TEST(caches_wanted),
                TEST(caches_given_last),
                TEST(close_pending),
                TEST(revoke_of_a_map),
                TEST(repair_beside_revocation),
                TEST(revoke_beside_a_sweep),
                TEST(next_time),
                TEST(turns),
                TEST(one_check),
                TEST(repair),
                TEST(repair_wakes),
                TEST(look_drained),
                TEST(look_drains_later),
                TEST(look_revocations),
                TEST(look_freeze),
                TEST(take_over),
                TEST(take_over_new),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
