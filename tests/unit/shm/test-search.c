/* A thread that needs a slab first takes one that it has emptied itself. */
#include "shm/slab/search.h"

#include "shm/arena/client.h"
#include "shm/arena/record.h"
#include "shm/slab/pages.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

#define N_SLABS 4

/* One object fills a slab. */
static uint64_t fill_slab(ShmActor *actor) {
        uint64_t handle;

        assert_int_equal(shm_object_alloc(actor, SHM_SLAB_SIZE, SHM_EPOCH_CURRENT, NULL, &handle, NULL), 0);
        return handle;
}

static uint32_t slab_of(uint64_t handle) {
        return slot_id_slab(shm_handle_slot(handle));
}

/* The thread has filled N_SLABS slabs; slabs below these, which other threads would take, are FREE. */
static void setup_slabs(TestArena *t, uint64_t *ret_handles) {
        ShmClientInfo client = { .pid = 1, .start_time = 1, .comm = "test" };
        uint64_t below[2];

        assert_int_equal(shm_client_add(&t->arena, &client), 0);
        for (int i = 0; i < 2; i++)
                below[i] = fill_slab(&t->control);
        for (int i = 0; i < N_SLABS; i++)
                ret_handles[i] = fill_slab(&t->actor);
        for (int i = 0; i < 2; i++)
                assert_int_equal(shm_object_free(&t->control, below[i]), 0);
}

static void test_search_last_emptied(void **state) {
        TestArena *t = *state;
        uint64_t handles[N_SLABS];

        setup_slabs(t, handles);
        for (int i = 0; i < N_SLABS; i++)
                assert_int_equal(shm_object_free(&t->actor, handles[i]), 0);
        for (int i = N_SLABS; i-- > 0;)
                assert_int_equal(slab_of(fill_slab(&t->actor)), slab_of(handles[i]));
        assert_int_equal(slab_of(fill_slab(&t->actor)), 0);
}

/* The bits of slabs that a thread takes again and again stay: nobody writes their lines. */
static void test_search_recent_bits_stay(void **state) {
        TestArena *t = *state;
        uint64_t handles[N_SLABS], groups;

        setup_slabs(t, handles);
        assert_int_equal(shm_object_free(&t->actor, handles[0]), 0);
        groups = shm_set_group(&t->arena, SHM_SET_FREE, 0);
        for (int i = 0; i < 3; i++) {
                handles[0] = fill_slab(&t->actor);
                assert_int_equal(shm_set_group(&t->arena, SHM_SET_FREE, 0), groups);
                assert_int_equal(shm_object_free(&t->actor, handles[0]), 0);
                assert_int_equal(shm_set_group(&t->arena, SHM_SET_FREE, 0), groups);
        }
}

/* One was taken by another thread, one lost its page: the slab words decide. */
static void test_search_recent_gone(void **state) {
        TestArena *t = *state;
        uint64_t handles[N_SLABS], mask;

        setup_slabs(t, handles);
        for (int i = 0; i < N_SLABS; i++)
                assert_int_equal(shm_object_free(&t->actor, handles[i]), 0);
        shm_actor_enter(&t->control);
        assert_int_equal(shm_slab_claim(&t->control, slab_of(handles[3]), slab_key(11, 0, 1), 1, &mask), 0);
        shm_actor_intend(&t->control, 0);
        assert_int_equal(shm_pages_drop(&t->control, 0, UINT64_C(1) << slab_of(handles[2])), 1);
        shm_actor_leave(&t->control);
        assert_int_equal(slab_of(fill_slab(&t->actor)), slab_of(handles[1]));
        assert_int_equal(slab_of(fill_slab(&t->actor)), slab_of(handles[0]));
        assert_int_equal(slab_of(fill_slab(&t->actor)), 0);
}

/* A thread remembers the last ones that it emptied; it finds the others in the set. */
static void test_search_many_emptied(void **state) {
        uint64_t handles[2 * SHM_RECENT_MAX];
        TestArena *t = *state;
        bool taken[2 * SHM_RECENT_MAX] = {};

        for (uint32_t i = 0; i < 2 * SHM_RECENT_MAX; i++)
                handles[i] = fill_slab(&t->actor);
        for (uint32_t i = 0; i < 2 * SHM_RECENT_MAX; i++)
                assert_int_equal(shm_object_free(&t->actor, handles[i]), 0);
        for (uint32_t i = 2 * SHM_RECENT_MAX; i-- > SHM_RECENT_MAX;)
                assert_int_equal(slab_of(fill_slab(&t->actor)), slab_of(handles[i]));
        for (uint32_t i = 0; i < SHM_RECENT_MAX; i++) {
                uint32_t slab = slab_of(fill_slab(&t->actor));

                assert_true(slab < 2 * SHM_RECENT_MAX && !taken[slab]);
                taken[slab] = true;
        }
}

/* clang-format off */
#define WITH_ARENA(f) cmocka_unit_test_setup_teardown(f, test_arena_setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                WITH_ARENA(test_search_last_emptied),
                WITH_ARENA(test_search_recent_bits_stay),
                WITH_ARENA(test_search_recent_gone),
                WITH_ARENA(test_search_many_emptied),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
