#include "shm/slab/tags.h"

#include <errno.h>
#include <unistd.h>

#include "shm/arena/slot.h"
#include "shm/cache/cache.h"
#include "shm/cache/lookup.h"
#include "shm/slab/pages.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

#define PAGE SHM_TAGS_PER_PAGE

/* Pages that tags have. */
static unsigned n_tag_pages(const TestArena *t) {
        off_t from = (uint8_t *) t->arena.tags - t->arena.base, end = t->arena.slabs - t->arena.base;
        unsigned n = 0;

        for (; from < end; from += SHM_SLAB_SIZE)
                n += lseek(t->arena.fd, from, SEEK_DATA) == from;
        return n;
}

static void commit(TestArena *t, uint32_t n) {
        uint32_t done;

        for (; n > 0; n -= done)
                assert_int_equal(shm_pages_commit(&t->control, n, &done), 0);
}

static void drop(TestArena *t, uint32_t n) {
        for (uint32_t group = 0; group < n / 64; group++)
                (void) shm_pages_drop(&t->control, group, UINT64_MAX);
}

static void drain(TestArena *t) {
        shm_actor_enter(&t->actor);
        (void) shm_cache_drain(&t->actor);
        shm_actor_leave(&t->actor);
}

static void set_tags(TestArena *t, uint32_t slab, uint32_t tag) {
        for (uint32_t i = 0; i < SHM_SLOTS_MAX; i++)
                t->arena.tags[slab].tag[i] = tag;
}

static void assert_stale(TestArena *t, const uint64_t *handles, unsigned n) {
        void *object;

        for (unsigned i = 0; i < n; i++) {
                assert_int_equal(shm_object_get(&t->arena, handles[i], &object, NULL), -ESTALE);
                assert_int_equal(shm_object_free(&t->actor, handles[i]), -ESTALE);
        }
}

/* The tags go with the slabs, looks at stale handles bring none back, and no handle fits when slabs are used again. */
static void test_go_and_come(void **state) {
        TestArena *t = *state;
        uint64_t handles[3][640];

        commit(t, 64);
        for (unsigned round = 0; round < 3; round++) {
                for (unsigned i = 0; i < 640; i++)
                        handles[round][i] = test_alloc(t, 256, 0);
                for (unsigned before = 0; before < round; before++)
                        assert_stale(t, handles[before], 640);
                for (unsigned i = 0; i < 640; i++)
                        assert_int_equal(shm_object_free(&t->actor, handles[round][i]), 0);
                drain(t);
                drop(t, 64);
                assert_int_equal(n_tag_pages(t), 0);
                for (unsigned before = 0; before <= round; before++)
                        assert_stale(t, handles[before], 640);
                assert_int_equal(n_tag_pages(t), 0);
        }
}

/* A slab in use keeps the page of its tags, until it is dropped as the last. */
static void test_one_in_use(void **state) {
        TestArena *t = *state;
        uint64_t handle;

        commit(t, 256);
        handle = test_alloc(t, 64, 0);
        drop(t, 256);
        assert_int_equal(n_tag_pages(t), 1);
        assert_int_equal(shm_object_free(&t->actor, handle), 0);
        drain(t);
        drop(t, 256);
        assert_int_equal(n_tag_pages(t), 0);
}

/* Versions wrap around: the floor is the latest, which may be the smallest number. */
static void test_floor_wraps(void **state) {
        TestArena *t = *state;

        commit(t, 64);
        set_tags(t, 3, UINT32_MAX - 1);
        t->arena.tags[3].tag[5] = UINT32_MAX - 9;
        t->arena.tags[3].tag[7] = 4;
        drop(t, 64);
        assert_int_equal(n_tag_pages(t), 0);
        commit(t, 64);
        for (uint32_t i = 0; i < SHM_SLOTS_MAX; i++)
                assert_int_equal(t->arena.tags[3].tag[i], 4);
        assert_int_equal(t->arena.tags[4].tag[0], 0);
}

/* Tags that are far apart have no floor: they keep their page, and their versions. */
static void test_far_apart(void **state) {
        TestArena *t = *state;
        uint32_t far = 1 << 28;

        commit(t, 64);
        t->arena.tags[3].tag[5] = far;
        t->arena.tags[PAGE].tag[5] = far + 2;
        t->arena.tags[2 * PAGE].tag[5] = UINT32_C(1) << 31;
        drop(t, 64);
        assert_int_equal(n_tag_pages(t), 2);
        commit(t, 64);
        assert_int_equal(t->arena.tags[3].tag[0], far);
        assert_int_equal(t->arena.tags[PAGE].tag[0], 0);
        assert_int_equal(t->arena.tags[PAGE].tag[5], far + 2);
        assert_int_equal(t->arena.tags[2 * PAGE].tag[5], UINT32_C(1) << 31);
        set_tags(t, PAGE, far + 2);
        set_tags(t, 2 * PAGE, 0);
        drop(t, 64);
        assert_int_equal(n_tag_pages(t), 0);
}

/* Pages that came back by a late access, and of slabs that a dead thread could not commit. */
static void test_surplus(void **state) {
        TestArena *t = *state;
        ShmSurplus surplus = {};

        commit(t, 256);
        set_tags(t, 70, 10);
        drop(t, 256);
        for (uint32_t slab = 0; slab < 256; slab += PAGE)
                (void) *(volatile uint32_t *) &t->arena.tags[slab].tag[0];
        shm_tags_bring_back(&t->arena, 70);
        assert_int_equal(n_tag_pages(t), 256 / PAGE);
        while (!shm_pages_drop_surplus_step(&t->control, &surplus, 64))
                ;
        assert_int_equal(surplus.size, 0);
        assert_int_equal(n_tag_pages(t), 0);
        commit(t, 256);
        assert_int_equal(t->arena.tags[70].tag[63], 10);
}

/* In a large pool, the tags of the first slabs stay. Their versions go on, and no other page of tags does. */
static void test_first_stay(void **state) {
        ShmGeometry large = test_geometry();
        ShmSurplus surplus = {};
        TestArena t;
        uint64_t handle;

        (void) state;
        large.slabs_size = 8192 * SHM_SLAB_SIZE;
        test_arena_init(&t, &large);
        commit(&t, 64);
        handle = test_alloc(&t, 64, 0);
        commit(&t, 64);
        assert_int_equal(n_tag_pages(&t), 128 / PAGE);
        assert_int_equal(shm_object_free(&t.actor, handle), 0);
        drain(&t);
        drop(&t, 128);
        assert_int_equal(n_tag_pages(&t), 64 / PAGE);
        assert_stale(&t, &handle, 1);
        while (!shm_pages_drop_surplus_step(&t.control, &surplus, 64))
                ;
        assert_int_equal(n_tag_pages(&t), 64 / PAGE);
        for (unsigned round = 0; round < 2; round++) {
                commit(&t, 128);
                assert_stale(&t, &handle, 1);
                drop(&t, 128);
                assert_int_equal(n_tag_pages(&t), 64 / PAGE);
        }
        test_arena_deinit(&t);
}

/* One a line. */
/* clang-format off */
#define WITH_ARENA(f) cmocka_unit_test_setup_teardown(f, test_arena_setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                WITH_ARENA(test_go_and_come), WITH_ARENA(test_one_in_use), WITH_ARENA(test_floor_wraps),
                WITH_ARENA(test_far_apart),   WITH_ARENA(test_surplus),
                cmocka_unit_test(test_first_stay),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
