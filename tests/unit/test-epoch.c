/* The epoch table, and the walk that drains what was closed. */
#include "shm/epoch.h"

#include <errno.h>

#include "shm/maintain/drain.h"
#include "shm/pages.h"
#include "shm/set.h"
#include "shm/slab.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

static ShmDrain walk(TestArena *t, uint32_t epoch) {
        ShmDrain drain = { .epoch = epoch };

        while (!shm_drain_step(&t->control, &drain, 64))
                ;
        return drain;
}

static ShmEpochInfo info(const TestArena *t, uint32_t epoch) {
        ShmEpochInfo ret;

        assert_int_equal(shm_epoch_get(&t->arena, epoch, &ret), 0);
        return ret;
}

static void test_all_open_at_start(void **state) {
        TestArena *t = *state;
        ShmEpochInfo i;

        for (uint32_t id = 0; id < 4; id++) {
                i = info(t, id);
                assert_int_equal(i.state, SHM_EPOCH_OPEN);
                assert_int_equal(i.era, 1);
                assert_int_equal(i.current, id == 0);
                test_alloc(t, 64, id);
        }
        assert_int_equal(shm_epoch_get(&t->arena, 4, &i), -EINVAL);
}

static void test_advance_ring(void **state) {
        TestArena *t = *state;
        uint32_t id, era, number;

        for (uint32_t i = 1; i < 10; i++) {
                assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
                assert_int_equal(number & 0xff, i % 4);
                assert_int_equal(shm_epoch_admit(&t->arena, SHM_EPOCH_CURRENT, &id, &era), 0);
                assert_int_equal(shm_epoch_number(id, era), number);
                assert_int_equal(info(t, (i - 1) % 4).state, SHM_EPOCH_CLOSING);
                assert_int_equal(shm_epoch_admit(&t->arena, (i - 1) % 4, &id, &era), -ESHUTDOWN);
        }
}

/* Opening an id anew forgets that objects of its last era are to be freed: those wait for their sweep. */
static void test_advance_passes_revoked(void **state) {
        TestArena *t = *state;
        uint32_t number;

        assert_int_equal(shm_epoch_revoke(&t->arena, 1), 0);
        assert_int_equal(info(t, 1).flags, SHM_EPOCH_DRAIN | SHM_EPOCH_REVOKE);
        assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
        assert_int_equal(number & 0xff, 2);
        shm_epoch_set_revoking(&t->arena, shm_epoch_number(1, 1), false);
        for (uint32_t i = 3; i < 6; i++) {
                assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
                assert_int_equal(number & 0xff, i % 4);
        }
        for (uint32_t id = 0; id < 4; id++)
                assert_int_equal(shm_epoch_revoke(&t->arena, id), 0);
        assert_int_equal(shm_epoch_advance(&t->arena, &number), 0); /* nobody waits for a sweep */
        assert_int_equal(number & 0xff, 2);
}

/* Nobody's objects are in them; but a thread that was admitted before may yet claim a slab. */
static void test_spare_passes_revoked(void **state) {
        TestArena *t = *state;
        uint32_t id, number;

        assert_int_equal(shm_epoch_revoke(&t->arena, 3), 0);
        assert_int_equal(shm_epoch_spare(&t->arena, &id), 0);
        assert_int_equal(id, 2);
        assert_int_equal(shm_epoch_revoke(&t->arena, 2), 0);
        assert_int_equal(shm_epoch_revoke(&t->arena, 1), 0);
        assert_int_equal(shm_epoch_spare(&t->arena, &id), -ENOSPC);
        shm_epoch_set_revoking(&t->arena, shm_epoch_number(3, 1), false);
        assert_int_equal(shm_epoch_spare(&t->arena, &id), 0);
        assert_int_equal(id, 3);
        /* The other two still rotate, and wait for their sweep. */
        assert_int_equal(shm_epoch_lease(&t->arena, id, NULL, 0, &number), 0);
        assert_int_equal(info(t, 1).flags & info(t, 2).flags, SHM_EPOCH_DRAIN | SHM_EPOCH_REVOKE);
}

/* A slow worker cannot allocate into the wrong lifetime, nor an operator close it. */
static void test_era_over(void **state) {
        TestArena *t = *state;
        uint32_t first = shm_epoch_current(&t->arena), number, id, era;

        for (int i = 0; i < 4; i++)
                assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
        assert_int_equal(number & 0xff, first & 0xff);
        assert_int_equal(shm_epoch_admit(&t->arena, first, &id, &era), -ESTALE);
        assert_int_equal(shm_epoch_admit(&t->arena, number, &id, &era), 0);
        assert_int_equal(shm_epoch_close(&t->arena, first, true), -ESTALE);
        assert_int_equal(info(t, 0).state, SHM_EPOCH_OPEN);
}

static void test_close_current(void **state) {
        TestArena *t = *state;
        uint32_t id, era, number;

        assert_int_equal(shm_epoch_close(&t->arena, 0, true), 0);
        assert_int_equal(shm_epoch_admit(&t->arena, SHM_EPOCH_CURRENT, &id, &era), -ESHUTDOWN);
        assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
        assert_int_equal(shm_epoch_admit(&t->arena, SHM_EPOCH_CURRENT, &id, &era), 0);
        assert_int_equal(shm_epoch_close(&t->arena, 4, true), -EINVAL);
}

static void test_reserve(void **state) {
        TestArena *t = *state;
        uint32_t a, b, id, number;

        test_alloc(t, 64, 3); /* in use: cannot be spared */
        assert_int_equal(shm_epoch_spare(&t->arena, &id), 0);
        assert_int_equal(shm_epoch_reserve(&t->arena, id, "long-lived", &a), 0);
        assert_int_equal(a & 0xff, 2);
        assert_int_equal(info(t, 2).flags, SHM_EPOCH_RESERVED);
        assert_string_equal(info(t, 2).label, "long-lived");
        for (int i = 0; i < 8; i++) {
                assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
                assert_int_not_equal(number & 0xff, 2);
        }
        test_alloc(t, 64, a);
        assert_int_equal(shm_epoch_spare(&t->arena, &id), 0);
        assert_int_equal(shm_epoch_reserve(&t->arena, id, "one too many", &b), 0);
        assert_int_equal(shm_epoch_spare(&t->arena, &id), -ENOSPC);
        assert_int_equal(shm_epoch_reserve(&t->arena, id, "a label that is far too long to be a label", &b),
                         -EINVAL);
        assert_int_equal(shm_epoch_close(&t->arena, a, true), 0);
        assert_int_equal(info(t, 2).flags & SHM_EPOCH_RESERVED, 0);
}

static void test_label(void **state) {
        TestArena *t = *state;

        assert_int_equal(shm_epoch_label(&t->arena, 1, "sessions"), 0);
        assert_string_equal(info(t, 1).label, "sessions");
        assert_int_equal(shm_epoch_label(&t->arena, 1 | 9 << 8, "x"), -ESTALE);
        assert_int_equal(shm_epoch_label(&t->arena, 9, "x"), -EINVAL);
        assert_int_equal(shm_epoch_label(&t->arena, 1, "0123456789012345678901234567890123"), -EINVAL);
        assert_int_equal(shm_epoch_label(&t->arena, 1, NULL), 0);
        assert_string_equal(info(t, 1).label, "");
        /* as it was given; what could not have been given is somebody's scribble */
        assert_int_equal(shm_epoch_label(&t->arena, 1, "f\303\274r sp\303\244ter"), 0);
        assert_string_equal(info(t, 1).label, "f\303\274r sp\303\244ter");
        assert_int_equal(shm_epoch_label(&t->arena, 1, "\033[31m\303 \342\200\256\302\205"), 0);
        assert_string_equal(info(t, 1).label, "?[31m? ?????");
}

/* Promise 5: all that is empty goes at the close, the rest as it drains. */
static void test_close_drains(void **state) {
        TestArena *t = *state;
        uint64_t handles[200];
        ShmDrain drain;

        for (int i = 0; i < 200; i++)
                handles[i] = test_alloc(t, 768, 1); /* 5 to a slab: 40 slabs */
        for (int i = 0; i < 100; i++)
                assert_int_equal(shm_object_free(&t->actor, handles[i]), 0);

        assert_int_equal(shm_epoch_close(&t->arena, 1, true), 0);
        drain = walk(t, 1);
        assert_int_equal(drain.reclaimed_size, 20 * SHM_SLAB_SIZE);
        assert_int_equal(drain.n_left, 20);
        assert_int_equal(info(t, 1).state, SHM_EPOCH_CLOSING);

        for (int i = 100; i < 200; i++) {
                assert_true(shm_object_live(&t->arena, handles[i]));
                assert_int_equal(shm_object_free(&t->actor, handles[i]), 0);
        }
        assert_int_equal(t->arena.header->n_drained.value, 20);
        drain = walk(t, 1);
        assert_int_equal(drain.reclaimed_size, 20 * SHM_SLAB_SIZE);
        assert_int_equal(drain.n_left, 0);
        assert_int_equal(info(t, 1).state, SHM_EPOCH_DRAINED);
        assert_int_equal(info(t, 1).reclaimed_size, 40 * SHM_SLAB_SIZE);
        assert_int_equal(t->arena.header->n_drained.value, 0);
}

/* A slab of an earlier era is not claimed for a later one, and drains though the id is open. */
static void test_earlier_era_drains(void **state) {
        TestArena *t = *state;
        uint64_t old = test_alloc(t, 64, 1), new;
        uint32_t number;
        ShmDrain drain;

        assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
        assert_int_equal(number & 0xff, 1);
        new = test_alloc(t, 64, number);
        assert_int_not_equal(slot_id_slab(shm_handle_slot(old)), slot_id_slab(shm_handle_slot(new)));
        drain = walk(t, 1);
        assert_int_equal(drain.n_left, 1);
        assert_int_equal(info(t, 1).state, SHM_EPOCH_OPEN);
        assert_int_equal(shm_object_free(&t->actor, old), 0);
        drain = walk(t, 1);
        assert_int_equal(drain.reclaimed_size, SHM_SLAB_SIZE);
        assert_true(shm_object_live(&t->arena, new));
        assert_int_equal(slab_word_place(shm_slab_word(&t->arena, slot_id_slab(shm_handle_slot(new)))),
                         SLAB_LISTED);
}

/* Era numbers of 12 bits in the word: never 0, and wrapping finds nothing of 4096 eras ago to claim. */
static void test_era_wraps(void **state) {
        TestArena *t = *state;
        uint32_t number = 0;

        for (int i = 0; i < 4 * 4100; i++) {
                assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
                assert_int_not_equal(number >> 8 & SLAB_ERA_BITS, 0);
        }
        test_alloc(t, 64, number);
}

/* One a line. */
/* clang-format off */
#define WITH_ARENA(f) cmocka_unit_test_setup_teardown(f, test_arena_setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                WITH_ARENA(test_all_open_at_start),      WITH_ARENA(test_advance_ring),
                WITH_ARENA(test_advance_passes_revoked), WITH_ARENA(test_spare_passes_revoked),
                WITH_ARENA(test_era_over),               WITH_ARENA(test_close_current),
                WITH_ARENA(test_reserve),                WITH_ARENA(test_label),
                WITH_ARENA(test_close_drains),           WITH_ARENA(test_earlier_era_drains),
                WITH_ARENA(test_era_wraps),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
