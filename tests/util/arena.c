#include "tests/util/arena.h"

#include <stdlib.h>
#include <string.h>

#include "shm/maintain/freeze.h"
#include "tests/util/test.h"

ShmGeometry test_geometry(void) {
        return (ShmGeometry){
                .slabs_size = 256 * SHM_SLAB_SIZE,
                .n_records = 5,
                .n_epochs = 4,
                .n_classes = SHM_N_CLASSES_DEFAULT,
                .class_size = SHM_CLASSES_DEFAULT,
        };
}

void test_arena_init(TestArena *t, const ShmGeometry *geometry) {
        assert_int_equal(shm_arena_create(&t->arena, geometry, "test"), 0);
        assert_int_equal(shm_membarrier_register(), 0);
        shm_actor_init_daemon(&t->control, &t->arena);
        t->control.process = 1; /* its threads are those of client 0 */
        assert_int_equal(shm_actor_init(&t->actor, &t->arena, 0, 1), 0);
        t->actor.mode = SHM_CACHE_OFF; /* tests of caches turn them on */
}

void test_arena_deinit(TestArena *t) {
        shm_arena_deinit(&t->arena);
}

int test_arena_setup(void **state) {
        ShmGeometry geometry = test_geometry();
        TestArena *t = calloc(1, sizeof(*t));

        assert_non_null(t);
        test_arena_init(t, &geometry);
        *state = t;
        return 0;
}

int test_arena_teardown(void **state) {
        TestArena *t = *state;

        test_arena_deinit(t);
        free(t);
        return 0;
}

uint64_t test_alloc(TestArena *t, size_t size, uint32_t epoch) {
        uint64_t handle = 0;
        void *object = NULL;

        assert_int_equal(shm_object_alloc(&t->actor, size, epoch, NULL, &handle, &object), 0);
        assert_int_not_equal(handle, 0);
        memset(object, 0xa5, size);
        return handle;
}

ShmCache *test_cache(TestArena *t, uint32_t record, uint32_t epoch, uint32_t class) {
        uint32_t index = shm_arena_cache_index(&t->arena, epoch, class);

        shm_arena_record(&t->arena, record)->used[index / 64] |= UINT64_C(1) << index % 64;
        return shm_arena_cache(&t->arena, record, epoch, class);
}
