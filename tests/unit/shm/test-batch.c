/* Batches of objects of one thread. */
#include "shm/cache/batch.h"

#include <errno.h>
#include <string.h>

#include "shm/arena/client.h"
#include "shm/cache/cache.h"
#include "shm/cache/object.h"
#include "shm/maintain/check.h"
#include "shm/slab/slab.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

#define N 32

static int setup(void **state) {
        ShmClientInfo client = { .pid = 1, .start_time = 1, .comm = "test" };
        uint64_t handles[N / 2];
        TestArena *t;

        test_arena_setup(state);
        t = *state;
        assert_int_equal(shm_client_add(&t->arena, &client), 0);
        t->actor.mode = SHM_CACHE_ON;
        for (int i = 0; i < 2; i++) /* the thread knows how many slabs there are: its frees are fast */
                assert_int_equal(shm_object_free(&t->actor, test_alloc(t, 64, 0)), 0);
        /* Half of the slots of a cache that has grown are in it. */
        test_cache(t, t->actor.id, 0, 0)->capacity = test_cache(t, t->actor.id, 0, 0)->room = N;
        for (uint32_t i = 0; i < N / 2; i++)
                handles[i] = test_alloc(t, 64, 0);
        for (uint32_t i = 0; i < N / 2; i++)
                assert_int_equal(shm_object_free(&t->actor, handles[i]), 0);
        return 0;
}

static ShmCache *cache_of(TestArena *t) {
        return test_cache(t, t->actor.id, 0, 0);
}

/* N objects in one slab, in the order of their slots. */
static void make_objects(TestArena *t, uint64_t *ret_handles) {
        for (uint32_t i = 0; i < N; i++)
                ret_handles[i] = test_alloc(t, 64, 0);
        assert_int_equal(slot_id_slab(shm_handle_slot(ret_handles[0])),
                         slot_id_slab(shm_handle_slot(ret_handles[N - 1])));
}

static void assert_clean(const TestArena *t) {
        ShmCheck check;

        assert_int_equal(shm_check(&t->arena, &check), 0);
        if (check.problems != 0)
                fail_msg("%s", check.texts[0]);
        assert_int_equal(check.in_flight_slots, 0);
        assert_int_equal(t->actor.record->intent_what, 0);
        assert_int_equal(t->actor.record->seq & 1, 0);
}

/* As many as the cache has, each a live object of its own. */
static void test_alloc_all_cached(void **state) {
        TestArena *t = *state;
        uint32_t count = cache_of(t)->count, epoch = shm_epoch_number(0, 1);
        uint64_t handles[SHM_CACHE_MAX];

        assert_true(count > 2);
        assert_int_equal(shm_batch_alloc(&t->actor, 64, SHM_EPOCH_CURRENT, handles, 2), 2);
        assert_int_equal(cache_of(t)->count, count - 2);
        assert_int_equal(shm_batch_alloc(&t->actor, 64, epoch, handles + 2, SHM_CACHE_MAX - 2), count - 2);
        assert_int_equal(shm_batch_alloc(&t->actor, 64, epoch, handles + count, 1), 0);
        for (uint32_t i = 0; i < count; i++) {
                assert_true(shm_object_live(&t->arena, handles[i]));
                for (uint32_t j = 0; j < i; j++)
                        assert_int_not_equal(handles[i], handles[j]);
        }
        assert_clean(t);
}

/* The slow path has the answer. */
static void test_alloc_unusual(void **state) {
        TestArena *t = *state;
        uint64_t handle;

        assert_int_equal(shm_batch_alloc(&t->actor, 0, 0, &handle, 1), 0);
        assert_int_equal(shm_batch_alloc(&t->actor, 4097, 0, &handle, 1), 0);
        assert_int_equal(shm_batch_alloc(&t->actor, 64, 63, &handle, 1), 0);
        assert_int_equal(shm_batch_alloc(&t->actor, 64, 0, &handle, 0), 0);
        assert_clean(t);
}

static void assert_filled(TestArena *t, uint64_t handle, const uint8_t *bytes) {
        void *object;
        size_t size;

        assert_int_equal(shm_object_get(&t->arena, handle, &object, &size), 0);
        assert_memory_equal(object, bytes, 64);
}

static uint32_t slot_of(uint64_t handle) {
        return shm_handle_slot(handle).value;
}

/* Slots that are neighbours, and slots that are not, take their own bytes. Words name them by address. */
static void test_fill(void **state) {
        static const uint32_t order[] = { 3, 1, 0, 2 };
        uint64_t handles[4], words[8] = {};
        uint8_t bytes[8][64];
        TestArena *t = *state;
        ShmBatchFill fill = {
                .words = words, .seal = UINT64_C(0x123456789abcdef), .from = bytes, .size = 64
        };
        uint32_t count;

        for (uint32_t i = 0; i < 8; i++)
                memset(bytes[i], (int) i + 1, 64);
        assert_int_equal(shm_batch_alloc(&t->actor, 64, SHM_EPOCH_CURRENT, handles, 4), 4);
        for (uint32_t i = 0; i < 4; i++)
                assert_int_equal(shm_object_free(&t->actor, handles[order[i]]), 0);
        count = cache_of(t)->count;
        assert_int_equal(shm_batch_fill(&t->actor, shm_epoch_number(0, 1), &fill, 8), 8);
        assert_int_equal(cache_of(t)->count, count - 8);
        for (uint32_t i = 0; i < 8; i++)
                assert_filled(t, words[i] ^ fill.seal, bytes[i]);
        for (uint32_t i = 1; i < 8; i++)
                assert_true(slot_of(words[i - 1] ^ fill.seal) < slot_of(words[i] ^ fill.seal));
        assert_clean(t);
}

/* Fewer where the cache has fewer; none where anything is unusual. */
static void test_fill_some(void **state) {
        static uint8_t bytes[N][64];
        uint64_t words[N] = {};
        TestArena *t = *state;
        ShmBatchFill fill = { .words = words, .from = bytes, .size = 64 };
        uint32_t count = cache_of(t)->count;

        assert_int_equal(shm_batch_fill(&t->actor, 63, &fill, 1), 0);
        assert_int_equal(shm_batch_fill(&t->actor, SHM_EPOCH_CURRENT, &fill, N), count);
        assert_int_equal(shm_batch_fill(&t->actor, SHM_EPOCH_CURRENT, &fill, N), 0);
        for (uint32_t i = 0; i < N; i++)
                assert_int_equal(words[i] != 0 && shm_object_live(&t->arena, words[i]), i < count);
        assert_clean(t);
}

/* In any order; each once. */
static void test_free_into_cache(void **state) {
        TestArena *t = *state;
        uint64_t handles[N], count;

        make_objects(t, handles);
        count = cache_of(t)->count;
        for (uint32_t i = 0; i < 4; i++) { /* a descending group */
                uint64_t other = handles[4 + i];

                if (i < 2) {
                        handles[4 + i] = handles[7 - i];
                        handles[7 - i] = other;
                }
        }
        assert_int_equal(shm_batch_free(&t->actor, handles, 15), 15);
        assert_int_equal(cache_of(t)->count, count + 15);
        assert_int_equal(shm_batch_free(&t->actor, handles, 15), 0);
        for (uint32_t i = 0; i < N; i++)
                assert_int_equal(shm_object_live(&t->arena, handles[i]), i >= 15);
        assert_clean(t);
}

/* A full cache: the slots go back to their slab, up to the group with a handle that is stale. */
static void test_free_past_cache(void **state) {
        TestArena *t = *state;
        uint64_t handles[N];
        uint32_t count, slab;

        make_objects(t, handles);
        slab = slot_id_slab(shm_handle_slot(handles[0]));
        count = cache_of(t)->room = cache_of(t)->count;
        assert_int_equal(shm_object_free(&t->actor, handles[16]), 0);
        count = cache_of(t)->room = cache_of(t)->count;
        assert_int_equal(shm_batch_free(&t->actor, handles, N),
                         16 - slot_id_slot(shm_handle_slot(handles[16])) % 4);
        assert_int_equal(cache_of(t)->count, count);
        for (uint32_t i = 0; i < N; i++)
                assert_int_equal(
                        !!(shm_slab_word(&t->arena, slab).low & slot_id_mask(shm_handle_slot(handles[i]))),
                        shm_object_live(&t->arena, handles[i]) || i == 16);
        assert_clean(t);
}

/* One handle twice is freed once. */
static void test_free_same_twice(void **state) {
        TestArena *t = *state;
        uint64_t handles[N];

        make_objects(t, handles);
        handles[1] = handles[0];
        assert_int_equal(shm_batch_free(&t->actor, handles, 4), 1);
        assert_int_equal(shm_batch_free(&t->actor, handles + 1, 3), 0);
        assert_int_equal(shm_batch_free(&t->actor, handles + 2, 2), 2);
        assert_clean(t);
}

/* A tag that begins anew at 0 leaves its neighbour's alone. */
static void test_free_last_tag(void **state) {
        TestArena *t = *state;
        uint64_t handles[N], last[2];
        uint32_t *tags[2];

        make_objects(t, handles);
        for (uint32_t i = 0; i < 2; i++) {
                tags[i] = shm_slot_tag(&t->arena, shm_handle_slot(handles[4 + i]));
                *tags[i] = UINT32_MAX;
                last[i] = shm_handle_make(t->arena.key, shm_handle_slot(handles[4 + i]), UINT32_MAX);
        }
        assert_int_equal(shm_batch_free(&t->actor, last, 2), 2);
        assert_int_equal(*tags[0], 0);
        assert_int_equal(*tags[1], 0);
        assert_int_equal(shm_batch_free(&t->actor, handles + 6, 2), 2);
        assert_clean(t);
}

/* One a line. */
/* clang-format off */
#define WITH_ARENA(f) cmocka_unit_test_setup_teardown(f, setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                WITH_ARENA(test_alloc_all_cached),
                WITH_ARENA(test_alloc_unusual),
                WITH_ARENA(test_fill),
                WITH_ARENA(test_fill_some),
                WITH_ARENA(test_free_into_cache),
                WITH_ARENA(test_free_past_cache),
                WITH_ARENA(test_free_same_twice),
                WITH_ARENA(test_free_last_tag),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
