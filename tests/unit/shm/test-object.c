#include "shm/cache/object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shm/cache/cache.h"
#include "shm/slab/pages.h"
#include "shm/slab/slab.h"
#include "shm/epoch/epoch-close.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

static void test_alloc_every_size(void **state) {
        TestArena *t = *state;
        void *object = NULL;
        uint64_t handle;
        size_t size = 0;

        for (size_t want = 1; want <= shm_arena_size_max(&t->arena); want += 13) {
                handle = test_alloc(t, want, SHM_EPOCH_CURRENT);
                assert_int_equal(shm_object_get(&t->arena, handle, &object, &size), 0);
                assert_true(size >= want);
                assert_int_equal((uintptr_t) object % 16, 0);
                assert_int_equal(((uint8_t *) object)[want - 1], 0xa5);
                assert_int_equal(shm_object_free(&t->actor, handle), 0);
        }
}

static void test_alloc_bad_input(void **state) {
        TestArena *t = *state;
        uint64_t handle = 17;
        void *object = &handle;

        assert_int_equal(shm_object_alloc(&t->actor, 0, 0, NULL, &handle, &object), -EINVAL);
        assert_int_equal(shm_object_alloc(&t->actor, 4097, 0, NULL, &handle, &object), -E2BIG);
        assert_int_equal(shm_object_alloc(&t->actor, SIZE_MAX, 0, NULL, &handle, &object), -E2BIG);
        assert_int_equal(shm_object_alloc(&t->actor, 64, 4, NULL, &handle, &object), -EINVAL);
        assert_int_equal(shm_object_alloc(&t->actor, 64, 255, NULL, &handle, &object), -EINVAL);
        assert_int_equal(shm_object_alloc(&t->actor, 64, 1 | 2 << 8, NULL, &handle, &object), -ESTALE);
        assert_int_equal(shm_epoch_close(&t->arena, 3, false), 0);
        assert_int_equal(shm_object_alloc(&t->actor, 64, 3, NULL, &handle, &object), -ESHUTDOWN);
        assert_int_equal(handle, 17); /* outputs untouched */
        assert_ptr_equal(object, &handle);
}

static void test_free_twice(void **state) {
        TestArena *t = *state;
        uint64_t a = test_alloc(t, 64, SHM_EPOCH_CURRENT), b;

        assert_int_equal(shm_object_free(&t->actor, a), 0);
        assert_int_equal(shm_object_free(&t->actor, a), -ESTALE);
        b = test_alloc(t, 64, SHM_EPOCH_CURRENT);
        assert_int_equal((uint32_t) a, (uint32_t) b); /* the same slot */
        assert_int_equal(shm_object_free(&t->actor, a), -ESTALE);
        assert_true(shm_object_live(&t->arena, b));
}

/* A handle stays refused while its slot is used again and again, for other classes too. */
static void test_free_after_reuse(void **state) {
        TestArena *t = *state;
        uint64_t old = test_alloc(t, 64, SHM_EPOCH_CURRENT), handle;

        assert_int_equal(shm_object_free(&t->actor, old), 0);
        for (int i = 0; i < 100000; i++) {
                handle = test_alloc(t, i % 2 ? 64 : 768, SHM_EPOCH_CURRENT);
                assert_int_equal(shm_object_free(&t->actor, old), -ESTALE);
                assert_int_equal(shm_object_free(&t->actor, handle), 0);
        }
        assert_int_equal((uint32_t) old, (uint32_t) handle);
}

static void test_free_garbage(void **state) {
        TestArena *t = *state;
        uint64_t live = test_alloc(t, 64, SHM_EPOCH_CURRENT);

        for (int i = 0; i < 1000000; i++) {
                uint64_t handle = (uint64_t) mrand48() << 32 ^ (uint64_t) mrand48();

                if (handle != live)
                        assert_int_equal(shm_object_free(&t->actor, handle), -ESTALE);
        }
        assert_int_equal(shm_object_free(&t->actor, 0), -ESTALE);
        for (int bit = 0; bit < 64; bit++)
                assert_int_equal(shm_object_free(&t->actor, live ^ UINT64_C(1) << bit), -ESTALE);
        assert_true(shm_object_live(&t->arena, live));
}

/* Promise 3: handles say which pool they are of. */
static void test_free_other_pool(void **state) {
        TestArena *t = *state;
        ShmGeometry geometry = test_geometry();
        TestArena other;

        test_arena_init(&other, &geometry);
        for (int i = 0; i < 100; i++) {
                uint64_t mine = test_alloc(t, 64, SHM_EPOCH_CURRENT);

                test_alloc(&other, 64, SHM_EPOCH_CURRENT);
                assert_int_equal(shm_object_free(&other.actor, mine), -ESTALE);
        }
        test_arena_deinit(&other);
}

/* Garbage handles bring no page of a large, empty arena into being. */
static void test_garbage_reads_no_hole(void **state) {
        ShmGeometry geometry = test_geometry();
        uint64_t before, byte;
        TestArena t;
        void *object;

        geometry.slabs_size = UINT64_C(64) << 30;
        test_arena_init(&t, &geometry);
        test_alloc(&t, 64, SHM_EPOCH_CURRENT);
        before = shm_arena_resident_size(&t.arena);
        for (int i = 0; i < 1000000; i++) {
                uint64_t handle = (uint64_t) mrand48() << 32 ^ (uint64_t) mrand48();

                /* Half of them of the right version: those are the ones that get further. */
                if (i % 2)
                        handle = (handle & ~(UINT64_C(3) << 30)) | UINT64_C(1) << 30;
                assert_int_equal(shm_object_get(&t.arena, handle, &object, NULL), -ESTALE);
                assert_int_equal(shm_object_copy(&t.arena, handle, 0, &byte, 8), -ESTALE);
                assert_int_equal(shm_object_free(&t.actor, handle), -ESTALE);
        }
        assert_int_equal(shm_arena_resident_size(&t.arena), before);
        test_arena_deinit(&t);
}

/* Promise 4, and no slot lost: all of the arena, in one class after the other. */
static void test_fill_every_class(void **state) {
        TestArena *t = *state;
        uint64_t *handles = calloc(256 * 64, sizeof(*handles));

        for (uint32_t class = 0; class < t->arena.n_classes; class += 1) {
                uint32_t expected = 256 * t->arena.classes[class].n_slots, n = 0;
                int r;

                while ((r = shm_object_alloc(&t->actor, t->arena.classes[class].size, SHM_EPOCH_CURRENT, NULL,
                                             &handles[n], NULL)) == 0)
                        n++;
                assert_int_equal(r, -ENOMEM);
                assert_int_equal(n, expected);
                while (n > 0)
                        assert_int_equal(shm_object_free(&t->actor, handles[--n]), 0);
        }
        free(handles);
}

/* A hint that a dead thread should have set is missing: the words are searched. */
static void test_alloc_without_hints(void **state) {
        TestArena *t = *state;
        uint64_t handle;

        while (shm_object_alloc(&t->actor, 768, SHM_EPOCH_CURRENT, NULL, &handle, NULL) == 0)
                ;
        assert_int_equal(shm_object_free(&t->actor, shm_handle_make(t->arena.key, slot_id(9, 2), 1)), 0);
        memset(t->arena.sets, 0, t->arena.shape.stride * 8 * (2 + 4 + 4 * 8));
        t->actor.searched_msec = 0;
        test_alloc(t, 768, SHM_EPOCH_CURRENT);
}

/* Such searches together look at all words of a pool in which each one looks at a part. */
static void test_alloc_without_hints_far(void **state) {
        enum { N_SLABS = 4096, WORDS_FAR = 2500 };
        ShmGeometry geometry = test_geometry();
        uint64_t handle;
        uint32_t n = 0;
        TestArena t;

        (void) state;
        geometry.slabs_size = N_SLABS * SHM_SLAB_SIZE;
        test_arena_init(&t, &geometry);
        while (shm_object_alloc(&t.actor, 768, SHM_EPOCH_CURRENT, NULL, &handle, NULL) == 0)
                ;
        assert_int_equal(shm_object_free(&t.actor, shm_handle_make(t.arena.key, slot_id(WORDS_FAR, 2), 1)),
                         0);
        shm_actor_enter(&t.actor);
        assert_true(shm_cache_drain(&t.actor));
        shm_actor_leave(&t.actor);
        memset(t.arena.sets, 0, t.arena.shape.stride * 8 * (2 + 4 + 4 * 8));
        t.actor.searched = 0;
        do {
                t.actor.searched_msec = 0;
                n++;
        } while (n < 4 && shm_object_alloc(&t.actor, 768, SHM_EPOCH_CURRENT, NULL, &handle, NULL) != 0);
        assert_in_range(n, 1, 3);
        test_arena_deinit(&t);
}

static void test_pending_published(void **state) {
        TestArena *t = *state;
        const ShmPending pending = {};
        uint64_t handles[SHM_NOTES_MAX], more;

        for (int i = 0; i < SHM_NOTES_MAX; i++)
                assert_int_equal(shm_object_alloc(&t->actor, 64, 0, &pending, &handles[i], NULL), 0);
        assert_int_equal(shm_object_alloc(&t->actor, 64, 0, &pending, &more, NULL), -ENOBUFS);
        assert_int_equal(shm_object_publish(&t->actor, handles[7]), 0);
        assert_int_equal(shm_object_publish(&t->actor, handles[7]), -ENOENT);
        assert_int_equal(shm_object_alloc(&t->actor, 64, 0, &pending, &more, NULL), 0);

        shm_cache_free_pending(&t->actor);
        for (int i = 0; i < SHM_NOTES_MAX; i++)
                assert_int_equal(shm_object_live(&t->arena, handles[i]), i == 7);
        assert_false(shm_object_live(&t->arena, more));
}

/* Between operations a record says nothing, and the sequence is even. */
/* No note has handle 0: a note that is not in use is not taken for one. */
static void test_unnote_zero(void **state) {
        TestArena *t = *state;

        assert_int_equal(shm_actor_unnote(&t->actor, 0), -ENOENT);
        assert_int_equal(shm_actor_note(&t->actor, 77, 0, 0), 0);
        assert_int_equal(shm_actor_unnote(&t->actor, 0), -ENOENT);
        assert_int_equal(shm_object_publish(&t->actor, 0), -ENOENT);
        assert_int_equal(shm_actor_unnote(&t->actor, 77), 0);
        assert_int_equal(shm_actor_unnote(&t->actor, 77), -ENOENT);
}

static void test_record_at_rest(void **state) {
        TestArena *t = *state;
        uint64_t handle = test_alloc(t, 64, SHM_EPOCH_CURRENT);

        assert_int_equal(t->actor.record->intent_what, 0);
        assert_int_equal(t->actor.record->seq & 1, 0);
        shm_object_free(&t->actor, handle);
        shm_object_free(&t->actor, handle);
        assert_int_equal(t->actor.record->intent_what, 0);
        assert_int_equal(t->actor.record->seq & 1, 0);
        assert_int_equal(t->actor.record->counters[SHM_COUNT_ALLOCS_UNCACHED], 1);
        assert_int_equal(t->actor.record->counters[SHM_COUNT_FREES_UNCACHED], 1);
        assert_int_equal(t->actor.record->counters[SHM_COUNT_STALE], 1);
}

/* A slab word that contradicts the tag is told, not followed. */
static void test_free_damaged(void **state) {
        TestArena *t = *state;
        uint64_t handle = test_alloc(t, 64, SHM_EPOCH_CURRENT);

        t->arena.lines[slot_id_slab(shm_handle_slot(handle))].word.low = 0;
        assert_int_equal(shm_object_free(&t->actor, handle), -EUCLEAN);
}

static void test_copy_range(void **state) {
        TestArena *t = *state;
        uint64_t handle = test_alloc(t, 120, SHM_EPOCH_CURRENT); /* class 128 */
        uint8_t buffer[256];

        assert_int_equal(shm_object_copy(&t->arena, handle, 0, buffer, 128), 0);
        assert_int_equal(shm_object_copy(&t->arena, handle, 0, buffer, 129), -EMSGSIZE);
        assert_int_equal(shm_object_copy(&t->arena, handle, 129, buffer, 0), -EMSGSIZE);
        assert_int_equal(shm_object_copy(&t->arena, handle, 1, buffer, SIZE_MAX), -EMSGSIZE);
        shm_object_free(&t->actor, handle);
        assert_int_equal(shm_object_copy(&t->arena, handle, 0, buffer, 1), -ESTALE);
}

/* One a line. */
/* clang-format off */
#define WITH_ARENA(f) cmocka_unit_test_setup_teardown(f, test_arena_setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                WITH_ARENA(test_alloc_every_size),
                WITH_ARENA(test_alloc_bad_input),
                WITH_ARENA(test_free_twice),
                WITH_ARENA(test_free_after_reuse),
                WITH_ARENA(test_free_garbage),
                WITH_ARENA(test_free_other_pool),
                cmocka_unit_test(test_garbage_reads_no_hole),
                WITH_ARENA(test_fill_every_class),
                WITH_ARENA(test_alloc_without_hints),
                cmocka_unit_test(test_alloc_without_hints_far),
                WITH_ARENA(test_pending_published),
                WITH_ARENA(test_unnote_zero),
                WITH_ARENA(test_record_at_rest),
                WITH_ARENA(test_free_damaged),
                WITH_ARENA(test_copy_range),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
