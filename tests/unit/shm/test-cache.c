/* Handle caches of one thread, and freezing them: no threads here, the other side is called by hand. */
#include "shm/cache/cache.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "shm/arena/client.h"
#include "shm/maintain/check.h"
#include "shm/maintain/drain.h"
#include "shm/maintain/freeze.h"
#include "shm/slab/slab.h"
#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch-open.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

static ShmFreeze freeze;

static int setup(void **state) {
        ShmClientInfo client = { .pid = 1, .start_time = 1, .comm = "test" };
        TestArena *t;

        test_arena_setup(state);
        t = *state;
        assert_int_equal(shm_client_add(&t->arena, &client), 0);
        t->actor.mode = SHM_CACHE_ON;
        assert_int_equal(shm_membarrier_register(), 0);
        freeze = (ShmFreeze){};
        return 0;
}

static uint64_t counter(const TestArena *t, ShmCounter c) {
        return t->actor.record->counters[c];
}

static void assert_clean(const TestArena *t) {
        ShmCheck check;

        assert_int_equal(shm_check(&t->arena, &check), 0);
        if (check.problems != 0)
                fail_msg("%s", check.texts[0]);
        assert_int_equal(check.in_flight_slots, 0);
}

/* A pair needs the slab word once, for the first refill. */
static void test_pair_hits(void **state) {
        TestArena *t = *state;

        for (int i = 0; i < 1000; i++)
                assert_int_equal(shm_object_free(&t->actor, test_alloc(t, 64, SHM_EPOCH_CURRENT)), 0);
        assert_int_equal(counter(t, SHM_COUNT_REFILLS), 1);
        assert_int_equal(counter(t, SHM_COUNT_FLUSHES), 0);
        assert_int_equal(counter(t, SHM_COUNT_ALLOC_HITS), 1000);
        assert_int_equal(counter(t, SHM_COUNT_FREES_CACHED), 1000);
        assert_int_equal(t->actor.record->seq & 1, 0);
        assert_int_equal(t->actor.record->intent_what, 0);
        assert_clean(t);
}

/* A batch comes by one compare-and-set: the slab's gen rises by one. */
static void test_refill_one_cas(void **state) {
        TestArena *t = *state;
        uint64_t handle = test_alloc(t, 64, SHM_EPOCH_CURRENT);
        uint32_t slab = slot_id_slab(shm_handle_slot(handle)), gen;
        ShmCache *cache = test_cache(t, t->actor.id, 0, 0);

        assert_int_equal(cache->count, SHM_CACHE_CAPACITY_START / 2 - 1);
        gen = slab_word_gen(shm_slab_word(&t->arena, slab));
        for (int i = 0; i < SHM_CACHE_CAPACITY_START / 2; i++)
                test_alloc(t, 64, SHM_EPOCH_CURRENT);
        assert_int_equal(slab_word_gen(shm_slab_word(&t->arena, slab)), gen + 1);
        assert_int_equal(slab_word_state(shm_slab_word(&t->arena, slab)), SLAB_ACTIVE);
        assert_int_equal(slab_word_holder(shm_slab_word(&t->arena, slab)), t->actor.id);
        assert_clean(t);
}

static void test_free_twice_cached(void **state) {
        TestArena *t = *state;
        uint64_t a = test_alloc(t, 64, SHM_EPOCH_CURRENT), b;

        assert_int_equal(shm_object_free(&t->actor, a), 0);
        assert_int_equal(shm_object_free(&t->actor, a), -ESTALE);
        b = test_alloc(t, 64, SHM_EPOCH_CURRENT);
        assert_int_equal((uint32_t) a, (uint32_t) b);
        assert_int_equal(shm_object_free(&t->actor, a), -ESTALE);
        /* The tag that a free slot has is not that of a handle. */
        assert_int_equal(shm_object_free(&t->actor, b ^ UINT64_C(1) << 32), -ESTALE);
        assert_int_equal(shm_object_free(&t->actor, b), 0);
        assert_int_equal(shm_object_free(&t->actor, b + (UINT64_C(1) << 32)), -ESTALE);
        assert_clean(t);
}

static void drain_caches(TestArena *t) {
        shm_actor_enter(&t->actor);
        assert_true(shm_cache_drain(&t->actor));
        shm_actor_leave(&t->actor);
}

static void free_uncached(TestArena *t, uint64_t handle) {
        shm_actor_enter(&t->actor);
        assert_int_equal(shm_uncached_free(&t->actor, shm_handle_tag(t->arena.key, handle),
                                           shm_handle_slot(handle), NULL),
                         0);
        shm_actor_leave(&t->actor);
}

/* The slot freed last leaves the cache, has another object, and is on top once more: its tag has changed. */
static void test_freed_slot_had_another(void **state) {
        TestArena *t = *state;
        uint64_t first = test_alloc(t, 64, 0), old = test_alloc(t, 64, 0), between[2], new;

        assert_int_equal(shm_object_free(&t->actor, first), 0);
        assert_int_equal(shm_object_free(&t->actor, old), 0);
        drain_caches(t);
        t->actor.mode = SHM_CACHE_OFF;
        for (int i = 0; i < 2; i++)
                between[i] = test_alloc(t, 64, 0);
        assert_int_equal((uint32_t) between[1], (uint32_t) old);
        for (int i = 0; i < 2; i++)
                free_uncached(t, between[i]);
        t->actor.mode = SHM_CACHE_ON;

        test_alloc(t, 64, 0); /* refills */
        new = test_alloc(t, 64, 0);
        assert_int_equal((uint32_t) new, (uint32_t) old);
        assert_int_equal(shm_handle_tag(t->arena.key, new), shm_handle_tag(t->arena.key, between[1]) + 2);
        assert_int_equal(shm_object_free(&t->actor, between[1]), -ESTALE);
        assert_int_equal(shm_object_free(&t->actor, new), 0);
        assert_clean(t);
}

/* More frees than there is room: a batch goes back, one compare-and-set a slab. */
static void test_flush(void **state) {
        TestArena *t = *state;
        uint64_t handles[512];

        for (int i = 0; i < 512; i++)
                handles[i] = test_alloc(t, 64, SHM_EPOCH_CURRENT);
        for (int i = 0; i < 512; i++)
                assert_int_equal(shm_object_free(&t->actor, handles[i]), 0);
        assert_true(counter(t, SHM_COUNT_FLUSHES) > 0);
        assert_true(counter(t, SHM_COUNT_FLUSHED_SLOTS) >= 512 - SHM_CACHE_MAX);
        assert_clean(t);
        shm_actor_enter(&t->actor);
        assert_true(shm_cache_drain(&t->actor));
        shm_actor_leave(&t->actor);
        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&t->arena); slab++)
                assert_int_equal(slab_word_state(shm_slab_word(&t->arena, slab)), SLAB_FREE);
        assert_clean(t);
}

/* Refill and flush in turn: the cache was too small for this program. */
static void test_capacity_grows(void **state) {
        TestArena *t = *state;
        ShmCache *cache = test_cache(t, t->actor.id, 0, 0);
        uint64_t handles[200];

        for (int round = 0; round < 10; round++) {
                for (int i = 0; i < 200; i++)
                        handles[i] = test_alloc(t, 64, SHM_EPOCH_CURRENT);
                for (int i = 0; i < 200; i++)
                        assert_int_equal(shm_object_free(&t->actor, handles[i]), 0);
        }
        assert_int_equal(cache->capacity, SHM_CACHE_MAX);
        assert_int_equal(cache->room, SHM_CACHE_MAX);
        assert_clean(t);
}

/* A thread that only allocates, and then one that only frees: few refills and flushes serve many operations. */
static void test_capacity_one_way(void **state) {
        TestArena *t = *state;
        ShmCache *cache = test_cache(t, t->actor.id, 0, 0);
        uint64_t *handles = calloc(8192, sizeof(*handles));

        for (int i = 0; i < 8192; i++)
                handles[i] = test_alloc(t, 64, SHM_EPOCH_CURRENT);
        assert_int_equal(cache->capacity, SHM_CACHE_MAX);
        assert_true(counter(t, SHM_COUNT_REFILLS) < 8192 / 64);
        shm_actor_enter(&t->actor);
        assert_true(shm_cache_drain(&t->actor));
        shm_actor_leave(&t->actor);
        for (int i = 0; i < 8192; i++)
                assert_int_equal(shm_object_free(&t->actor, handles[i]), 0);
        assert_int_equal(cache->capacity, SHM_CACHE_MAX);
        assert_true(counter(t, SHM_COUNT_FLUSHES) < 8192 / 64);
        assert_clean(t);
        free(handles);
}

/* A thread that does pairs, and one that rarely needs a refill among its hits elsewhere, keep small caches. */
static void test_capacity_stays_small(void **state) {
        TestArena *t = *state;

        for (int i = 0; i < 10000; i++) {
                assert_int_equal(shm_object_free(&t->actor, test_alloc(t, 64, SHM_EPOCH_CURRENT)), 0);
                if (i % 200 == 0)
                        test_alloc(t, 128, SHM_EPOCH_CURRENT);
        }
        assert_int_equal(test_cache(t, t->actor.id, 0, 0)->capacity, SHM_CACHE_CAPACITY_START);
        assert_int_equal(test_cache(t, t->actor.id, 0, shm_arena_class(&t->arena, 128))->capacity,
                         SHM_CACHE_CAPACITY_START);
        assert_clean(t);
}

/* A cache that was emptied with all others begins as a small one. */
static void test_capacity_falls(void **state) {
        TestArena *t = *state;
        ShmCache *cache = test_cache(t, t->actor.id, 0, 0);

        for (int i = 0; i < 8192; i++)
                test_alloc(t, 64, SHM_EPOCH_CURRENT);
        assert_int_equal(cache->capacity, SHM_CACHE_MAX);
        assert_int_equal(shm_freeze_begin(&t->control, &freeze, UINT64_MAX), 0);
        assert_int_equal(shm_freeze_step(&t->control, &freeze, UINT32_MAX, UINT64_MAX), 0);
        test_alloc(t, 64, SHM_EPOCH_CURRENT);
        assert_int_equal(cache->capacity, SHM_CACHE_CAPACITY_START);
        assert_clean(t);
}

/* Objects all over the arena, freed and not allocated again: caching does not pay, and steps aside. */
static void test_free_bypassed(void **state) {
        TestArena *t = *state;
        uint64_t *handles = calloc(256 * 64, sizeof(*handles));
        uint32_t n = 0;

        t->actor.mode = SHM_CACHE_ADAPTIVE;
        while (shm_object_alloc(&t->actor, 64, SHM_EPOCH_CURRENT, NULL, &handles[n], NULL) == 0)
                n++;
        assert_int_equal(n, 256 * 64);
        for (uint32_t i = 0; i < 64; i++) /* one of each slab, then the next of each */
                for (uint32_t slab = 0; slab < 256; slab++)
                        assert_int_equal(shm_object_free(&t->actor, handles[slab * 64 + i]), 0);
        assert_true(counter(t, SHM_COUNT_BYPASS_WINDOWS) >= 1);
        /* The last quarter goes past the cache anyway: its slabs are sparse. */
        assert_true(counter(t, SHM_COUNT_FREES_UNCACHED) > n * 9 / 10);
        assert_true(counter(t, SHM_COUNT_FREE_BYPASSED) > n * 6 / 10);
        assert_clean(t);
        free(handles);
}

/* All of the arena, though a thread keeps slots and slabs for other classes. */
static void test_fill_with_caches(void **state) {
        TestArena *t = *state;
        uint64_t *handles = calloc(256 * 64, sizeof(*handles));

        for (uint32_t class = 0; class < t->arena.n_classes; class += 1) {
                uint32_t n = 0;

                while (shm_object_alloc(&t->actor, t->arena.classes[class].size, SHM_EPOCH_CURRENT, NULL,
                                        &handles[n], NULL) == 0)
                        n++;
                assert_int_equal(n, 256 * t->arena.classes[class].n_slots);
                while (n > 0)
                        assert_int_equal(shm_object_free(&t->actor, handles[--n]), 0);
                assert_clean(t);
        }
        free(handles);
}

static void test_pending_cached(void **state) {
        TestArena *t = *state;
        const ShmPending pending = {};
        uint64_t a, b;

        assert_int_equal(shm_object_alloc(&t->actor, 64, 0, &pending, &a, NULL), 0);
        assert_int_equal(shm_object_alloc(&t->actor, 64, 0, &pending, &b, NULL), 0);
        assert_int_equal(shm_object_publish(&t->actor, b), 0);
        shm_cache_leave(&t->actor);
        assert_false(shm_object_live(&t->arena, a));
        assert_true(shm_object_live(&t->arena, b));
        assert_clean(t);
}

/* After the close the slots in the epoch's caches are back, though the thread never calls again. */
static void test_freeze_close(void **state) {
        TestArena *t = *state;
        uint64_t live = test_alloc(t, 64, 1), other;
        ShmDrain drain = { .epoch = 1 };

        assert_int_equal(shm_object_free(&t->actor, test_alloc(t, 128, 1)), 0);
        assert_int_equal(shm_epoch_close(&t->arena, 1, true), 0);
        assert_int_equal(shm_freeze_begin(&t->control, &freeze, UINT64_C(1) << 1), 0);
        assert_int_equal(shm_freeze_step(&t->control, &freeze, UINT32_MAX, UINT64_MAX), 0);
        assert_true(shm_drain_step(&t->control, &drain, UINT32_MAX));
        assert_int_equal(drain.n_left, 1);
        assert_int_equal(test_cache(t, t->actor.id, 1, 0)->count, 0);

        assert_int_equal(shm_object_alloc(&t->actor, 64, 1, NULL, &other, NULL), -ESHUTDOWN);
        assert_int_equal(shm_object_free(&t->actor, live), 0);
        drain = (ShmDrain){ .epoch = 1 };
        assert_true(shm_drain_step(&t->control, &drain, UINT32_MAX));
        assert_int_equal(drain.n_left, 0);
        test_alloc(t, 64, 0);
        assert_clean(t);
}

/* Caches of epochs that go on stay as they are, in use. */
static void test_freeze_close_other(void **state) {
        TestArena *t = *state;
        const ShmCache *cache = test_cache(t, t->actor.id, 0, 0);

        assert_int_equal(shm_object_free(&t->actor, test_alloc(t, 64, 0)), 0);
        assert_int_equal(shm_object_free(&t->actor, test_alloc(t, 64, 1)), 0);
        assert_int_equal(shm_epoch_close(&t->arena, 1, true), 0);
        assert_int_equal(shm_freeze_begin(&t->control, &freeze, UINT64_C(1) << 1), 0);
        assert_int_equal(shm_freeze_step(&t->control, &freeze, UINT32_MAX, UINT64_MAX), 0);
        assert_int_equal(cache->count, SHM_CACHE_CAPACITY_START / 2);
        assert_clean(t);
        shm_cache_leave(&t->actor);
        assert_int_equal(cache->count, 0);
}

/* No slot enters the cache of a closed epoch, even if the thread freed the same kind of slot just before. */
static void test_free_after_close(void **state) {
        TestArena *t = *state;
        uint64_t live = test_alloc(t, 64, 1);

        for (int i = 0; i < SHM_SLOTS_MAX / 2; i++) /* slots of a sparse slab enter no cache anyway */
                test_alloc(t, 64, 1);
        for (int i = 0; i < 2; i++) /* the first free still takes the slow path */
                assert_int_equal(shm_object_free(&t->actor, test_alloc(t, 64, 1)), 0);
        assert_int_equal(shm_epoch_close(&t->arena, 1, true), 0);
        assert_int_equal(shm_freeze_begin(&t->control, &freeze, UINT64_C(1) << 1), 0);
        assert_int_equal(shm_freeze_step(&t->control, &freeze, UINT32_MAX, UINT64_MAX), 0);
        test_alloc(t, 64, 0);
        assert_int_equal(shm_object_free(&t->actor, live), 0);
        assert_int_equal(test_cache(t, t->actor.id, 1, 0)->count, 0);
        assert_clean(t);
}

/* The same in an era with low bits 0: then class 0 and epoch 0 make a key of zeros. */
static void test_free_after_close_key_0(void **state) {
        TestArena *t = *state;
        uint64_t live = test_alloc(t, 64, 0);
        uint32_t number;

        for (int i = 0; i < SHM_SLOTS_MAX / 2; i++) /* slots of a sparse slab enter no cache anyway */
                test_alloc(t, 64, 0);
        assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
        assert_int_equal(shm_epoch_close(&t->arena, 0, true), 0);
        assert_int_equal(shm_freeze_begin(&t->control, &freeze, 1), 0);
        assert_int_equal(shm_freeze_step(&t->control, &freeze, UINT32_MAX, UINT64_MAX), 0);
        t->arena.lines[slot_id_slab(shm_handle_slot(live))].word.high &= ~SLAB_KEY_MASK;
        test_alloc(t, 64, SHM_EPOCH_CURRENT);
        assert_int_equal(shm_object_free(&t->actor, live), 0);
        assert_int_equal(test_cache(t, t->actor.id, 0, 0)->count, 0);
}

/* A thread inside an operation keeps its caches until it leaves it, and is pending. */
static void test_freeze_inside(void **state) {
        TestArena *t = *state;
        ShmCache *cache;

        test_alloc(t, 64, 1);
        cache = test_cache(t, t->actor.id, 1, 0);
        shm_actor_enter(&t->actor);
        assert_int_equal(shm_freeze_begin(&t->control, &freeze, UINT64_MAX), 0);
        assert_int_equal(shm_freeze_step(&t->control, &freeze, UINT32_MAX, UINT64_MAX), 1);
        assert_int_equal(shm_freeze_pending(&t->control, &freeze), 1);
        assert_true(cache->count > 0);
        shm_actor_leave(&t->actor);
        shm_actor_enter(&t->actor); /* the next one began after: it sees the freeze */
        assert_int_equal(shm_freeze_pending(&t->control, &freeze), 0);
        assert_int_equal(shm_freeze_step(&t->control, &freeze, UINT32_MAX, UINT64_MAX), 0);
        assert_int_equal(cache->count, 0);
        assert_int_equal(cache->held, 0);
        shm_actor_leave(&t->actor);
        assert_clean(t);
}

/* A frozen thread goes on, uncached, and caches again afterwards. */
static void test_frozen_works(void **state) {
        TestArena *t = *state;
        uint64_t live = test_alloc(t, 64, 0), hits = counter(t, SHM_COUNT_ALLOC_HITS), handle;
        uint32_t count = test_cache(t, t->actor.id, 0, 0)->count;

        assert_int_equal(shm_freeze_begin(&t->control, &freeze, UINT64_MAX), 0);
        handle = test_alloc(t, 64, 0);
        assert_int_equal(shm_object_free(&t->actor, handle), 0);
        assert_int_equal(shm_object_free(&t->actor, live), 0);
        assert_int_equal(counter(t, SHM_COUNT_ALLOC_HITS), hits);
        assert_int_equal(test_cache(t, t->actor.id, 0, 0)->count, count);
        assert_int_equal(shm_freeze_step(&t->control, &freeze, UINT32_MAX, UINT64_MAX), 0);
        test_alloc(t, 64, 0);
        assert_int_equal(counter(t, SHM_COUNT_ALLOC_HITS), hits + 1);
        assert_clean(t);
}

/* A thread that ends while frozen leaves the rest to control. */
static void test_leave_frozen(void **state) {
        TestArena *t = *state;
        uint32_t record = t->actor.id;

        test_alloc(t, 64, 0);
        assert_int_equal(shm_freeze_begin(&t->control, &freeze, UINT64_C(1) << 3), 0);
        shm_cache_leave(&t->actor);
        assert_int_equal(shm_record_owner(&t->arena, record).state, SHM_RECORD_LEFT);
        assert_int_equal(shm_freeze_step(&t->control, &freeze, UINT32_MAX, UINT64_MAX), 0);
        assert_int_equal(shm_record_owner(&t->arena, record).state, SHM_RECORD_UNUSED);
        assert_int_equal(test_cache(t, record, 0, 0)->count, 0);
        assert_clean(t);
}

static void test_leave(void **state) {
        TestArena *t = *state;
        uint32_t record = t->actor.id;

        test_alloc(t, 64, 0);
        shm_cache_leave(&t->actor);
        assert_int_equal(shm_record_owner(&t->arena, record).state, SHM_RECORD_UNUSED);
        assert_int_equal(test_cache(t, record, 0, 0)->count, 0);
        shm_cache_leave(&t->actor);
        assert_clean(t);
}

/* The control that began a freeze is gone: the next one takes it up, for all epochs. */
static void test_freeze_taken_up(void **state) {
        TestArena *t = *state;

        test_alloc(t, 64, 2);
        assert_int_equal(shm_freeze_begin(&t->control, &freeze, UINT64_C(1) << 2), 0);
        freeze = (ShmFreeze){};
        assert_int_equal(shm_freeze_begin(&t->control, &freeze, UINT64_C(1) << 1), 0);
        assert_int_equal(shm_freeze_step(&t->control, &freeze, UINT32_MAX, UINT64_MAX), 0);
        assert_int_equal(test_cache(t, t->actor.id, 2, 0)->count, 0);
        assert_int_equal(t->actor.record->attention & SHM_ATTENTION_FREEZE, 0);
}

/* Two closes at once: the second does not lose the caches that the first was to empty. */
static void test_freeze_joined(void **state) {
        TestArena *t = *state;

        test_alloc(t, 64, 1);
        test_alloc(t, 64, 2);
        shm_actor_enter(&t->actor);
        assert_int_equal(shm_freeze_begin(&t->control, &freeze, UINT64_C(1) << 1), 0);
        assert_int_equal(shm_freeze_begin(&t->control, &freeze, UINT64_C(1) << 2), 0);
        assert_int_equal(shm_freeze_step(&t->control, &freeze, UINT32_MAX, UINT64_MAX), 1);
        shm_actor_leave(&t->actor);
        assert_int_equal(shm_freeze_step(&t->control, &freeze, UINT32_MAX, UINT64_MAX), 0);
        assert_int_equal(test_cache(t, t->actor.id, 1, 0)->count, 0);
        assert_int_equal(test_cache(t, t->actor.id, 2, 0)->count, 0);
        assert_clean(t);
}

/* An id in its next era: nothing of the last one is in the cache. */
static void test_era_changes(void **state) {
        TestArena *t = *state;
        uint64_t old = test_alloc(t, 64, 1), new;
        ShmDrain drain = { .epoch = 1 };
        uint32_t number;

        assert_int_equal(shm_epoch_close(&t->arena, 1, true), 0);
        assert_int_equal(shm_freeze_begin(&t->control, &freeze, UINT64_C(1) << 1), 0);
        assert_int_equal(shm_freeze_step(&t->control, &freeze, UINT32_MAX, UINT64_MAX), 0);
        assert_true(shm_drain_step(&t->control, &drain, UINT32_MAX));
        assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
        new = test_alloc(t, 64, SHM_EPOCH_CURRENT);
        assert_int_not_equal(slot_id_slab(shm_handle_slot(old)), slot_id_slab(shm_handle_slot(new)));
        assert_int_equal(shm_object_free(&t->actor, old), 0);
        assert_int_equal(shm_object_free(&t->actor, new), 0);
        assert_clean(t);
}

/* A mode without caches leaves none. */
static void test_mode_off(void **state) {
        TestArena *t = *state;

        t->actor.mode = SHM_CACHE_OFF;
        for (int i = 0; i < 100; i++)
                assert_int_equal(shm_object_free(&t->actor, test_alloc(t, 64, 0)), 0);
        assert_int_equal(counter(t, SHM_COUNT_ALLOC_HITS), 0);
        assert_int_equal(counter(t, SHM_COUNT_ALLOCS_UNCACHED), 100);
        for (uint32_t i = 0; i < SHM_CACHES_MAX / 64; i++)
                assert_int_equal(t->actor.record->used[i], 0);
}

/* A slab that was dropped since it was looked at has a key of zeros. A thread without caches has none for that. */
static void test_shorten_no_cache(void **state) {
        TestArena *t = *state;

        shm_cache_shorten(&t->actor, 0, 1);
        t->actor.mode = SHM_CACHE_OFF;
        test_alloc(t, 64, 0);
        shm_cache_shorten(&t->actor, 0, 1);
        assert_int_equal(counter(t, SHM_COUNT_FLUSHES), 0);
        assert_clean(t);
}

/* Repair frees objects that a damaged arena shows it. A slab's key of zeros is no reason to look for a cache. */
static void test_daemon_has_no_cache(void **state) {
        TestArena *t = *state;
        uint64_t handles[3];

        for (int i = 0; i < 3; i++)
                handles[i] = test_alloc(t, 64, 0);
        t->control.record->attention = UINT64_MAX;
        t->arena.lines[slot_id_slab(shm_handle_slot(handles[0]))].word.high &= ~SLAB_KEY_MASK;
        for (int i = 0; i < 3; i++)
                assert_int_equal(shm_object_free(&t->control, handles[i]), 0);
        assert_int_equal(t->control.record->counters[SHM_COUNT_FREES_CACHED], 0);
}

/* Allocates and frees many large objects, and returns the capacity that their cache has then. */
static uint32_t use_large(TestArena *t) {
        uint64_t handles[200];

        for (int round = 0; round < 20; round++) {
                for (uint32_t i = 0; i < 200; i++)
                        handles[i] = test_alloc(t, 4096, 0);
                for (uint32_t i = 0; i < 200; i++)
                        assert_int_equal(shm_object_free(&t->actor, handles[i]), 0);
        }
        return shm_arena_cache(&t->arena, t->actor.id, 0, t->arena.n_classes - 1)->capacity;
}

/* A cache of large objects keeps no more bytes than the largest cache of 768 does, but in a large pool. */
static void test_capacity_of_large(void **state) {
        const uint32_t capacities[] = { 32, 32, 64, 128,
                                        256 }; /* slots of 4096 bytes, in pools of 16 MiB to 256 MiB */
        ShmGeometry geometry = test_geometry();
        TestArena *t = *state, large;

        assert_int_equal(use_large(t), SHM_CACHE_CAPACITY_START);
        assert_clean(t);
        for (unsigned i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++) {
                geometry.slabs_size = UINT64_C(16) << (20 + i);
                test_arena_init(&large, &geometry);
                large.actor.mode = SHM_CACHE_ON;
                assert_int_equal(use_large(&large), capacities[i]);
                test_arena_deinit(&large);
        }
}

/* Pages of a thread's record that exist. */
static uint32_t n_resident(const TestArena *t) {
        uint8_t *record = (uint8_t *) t->actor.record;
        unsigned char pages[256];
        uint32_t n = 0;

        assert_true(t->arena.record_stride / SHM_SLAB_SIZE <= sizeof(pages));
        assert_int_equal(mincore(record, t->arena.record_stride, pages), 0);
        for (uint32_t i = 0; i < t->arena.record_stride / SHM_SLAB_SIZE; i++)
                n += pages[i] & 1;
        return n;
}

/* Large classes cost threads that do not use them nothing: the first eight of all epochs fill 35 pages. */
static void test_resident(void **state) {
        TestArena *t = *state;
        uint32_t n =
                (uint32_t) (sizeof(ShmRecord) + t->arena.n_epochs * 8 * sizeof(ShmCache)) / SHM_SLAB_SIZE + 1;
        uint32_t before;

        for (uint32_t epoch = 0; epoch < t->arena.n_epochs; epoch++)
                for (uint32_t class = 0; class < 8; class += 1)
                        assert_int_equal(shm_object_free(&t->actor,
                                                         test_alloc(t, t->arena.classes[class].size, epoch)),
                                         0);
        before = n_resident(t);
        assert_true(before <= n);
        assert_int_equal(shm_object_free(&t->actor, test_alloc(t, 4096, 0)), 0);
        assert_true(n_resident(t) > before);
        assert_clean(t);
}

/* One a line. */
/* clang-format off */
#define WITH_ARENA(f) cmocka_unit_test_setup_teardown(f, setup, test_arena_teardown)

/* As many classes as a pool can have: each object is in its own class and epoch. */
static void test_many_classes(void **state) {
        ShmGeometry geometry = test_geometry();
        uint64_t handles[2 * SHM_CLASSES_MAX];
        TestArena t;

        (void) state;
        geometry.n_classes = SHM_CLASSES_MAX;
        for (uint32_t i = 0; i < SHM_CLASSES_MAX; i++)
                geometry.class_size[i] = 64 + i * 128;
        test_arena_init(&t, &geometry);
        assert_int_equal(shm_client_add(&t.arena, &(ShmClientInfo){ .pid = 1 }), 0);
        t.actor.mode = SHM_CACHE_ON;
        for (uint32_t i = 0; i < 2 * SHM_CLASSES_MAX; i++) {
                uint32_t class = i % SHM_CLASSES_MAX;
                SlotId id;

                handles[i] = test_alloc(&t, geometry.class_size[class], shm_epoch_number(i / SHM_CLASSES_MAX, 0));
                id = shm_handle_slot(handles[i]);
                assert_int_equal(slab_word_class(shm_slab_word(&t.arena, slot_id_slab(id))), class);
                assert_int_equal(slab_word_epoch(shm_slab_word(&t.arena, slot_id_slab(id))), i / SHM_CLASSES_MAX);
        }
        for (uint32_t i = 0; i < 2 * SHM_CLASSES_MAX; i++)
                assert_int_equal(shm_object_free(&t.actor, handles[i]), 0);
        assert_true(t.actor.record->counters[SHM_COUNT_FREES_CACHED] > 0);
        assert_clean(&t);
        test_arena_deinit(&t);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_many_classes),
                WITH_ARENA(test_pair_hits),
                WITH_ARENA(test_refill_one_cas),
                WITH_ARENA(test_free_twice_cached),
                WITH_ARENA(test_freed_slot_had_another),
                WITH_ARENA(test_flush),
                WITH_ARENA(test_capacity_grows),
                WITH_ARENA(test_capacity_one_way),
                WITH_ARENA(test_capacity_stays_small),
                WITH_ARENA(test_capacity_falls),
                WITH_ARENA(test_capacity_of_large),
                WITH_ARENA(test_resident),
                WITH_ARENA(test_free_bypassed),
                WITH_ARENA(test_fill_with_caches),
                WITH_ARENA(test_pending_cached),
                WITH_ARENA(test_freeze_close),
                WITH_ARENA(test_freeze_close_other),
                WITH_ARENA(test_free_after_close),
                WITH_ARENA(test_free_after_close_key_0),
                WITH_ARENA(test_freeze_inside),
                WITH_ARENA(test_frozen_works),
                WITH_ARENA(test_leave_frozen),
                WITH_ARENA(test_leave),
                WITH_ARENA(test_freeze_taken_up),
                WITH_ARENA(test_freeze_joined),
                WITH_ARENA(test_era_changes),
                WITH_ARENA(test_mode_off),
                WITH_ARENA(test_shorten_no_cache),
                WITH_ARENA(test_daemon_has_no_cache),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
