#include "shm/maintain/maintain.h"

#include <stdlib.h>

#include "shm/cache.h"
#include "shm/epoch.h"
#include "shm/slab.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

#define N_STEPS 100000

static ShmMaintain *maintain_new(TestArena *t) {
        ShmMaintain *m = calloc(1, sizeof(*m));

        assert_non_null(m);
        shm_maintain_init(m, &t->control);
        return m;
}

static void run(ShmMaintain *m, uint64_t *now) {
        for (int i = 0; i < N_STEPS; i++) {
                uint64_t next = shm_maintain_step(m, *now);

                if (next == SHM_MAINTAIN_IDLE)
                        return;
                *now = next > *now ? next : *now + 1;
        }
        fail();
}

/* A client that asks for caches while others are being emptied for another one is not left to its timeout. */
static void test_caches_wanted_twice(void **state) {
        TestArena *t = *state;
        ShmMaintain *m = maintain_new(t);
        ShmHeader *header = t->arena.header;
        uint64_t now = 1;

        header->caches_wanted.value = 1;
        shm_maintain_look(m, false, now);
        header->caches_wanted.value = 2;
        shm_maintain_look(m, false, now);
        run(m, &now);
        assert_int_equal(header->caches_given.value, 2);
        free(m);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, test_arena_setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(caches_wanted_twice),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
