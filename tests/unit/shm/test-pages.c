#include "shm/slab/pages.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/slab/set.h"
#include "shm/slab/slab.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

/* All metadata populated. */
static int setup(void **state) {
        TestArena *t;

        test_arena_setup(state);
        t = *state;
        return madvise(t->arena.base, (size_t) (t->arena.slabs - t->arena.base), MADV_POPULATE_WRITE);
}

/* Without that, of which pages of tags may be gone. */
static uint64_t slab_bytes(const TestArena *t) {
        off_t end = t->arena.slabs - t->arena.base;
        uint64_t metadata = 0;

        for (off_t at = 0; at < end; at += SHM_SLAB_SIZE)
                metadata += lseek(t->arena.fd, at, SEEK_DATA) == at ? SHM_SLAB_SIZE : 0;
        return shm_arena_resident_size(&t->arena) - metadata;
}

static void commit(ShmActor *control, uint32_t n) {
        for (uint32_t done; n > 0; n -= done)
                assert_int_equal(shm_pages_commit(control, n, &done), 0);
}

static void test_commit_run(void **state) {
        TestArena *t = *state;
        uint32_t n = 0;

        assert_int_equal(shm_pages_commit(&t->control, 100, &n), 0);
        assert_int_equal(n, 100);
        assert_int_equal(shm_arena_n_slabs_ever(&t->arena), 100);
        assert_int_equal(slab_bytes(t), 100 * SHM_SLAB_SIZE);
        assert_int_equal(t->arena.header->n_free.value, 100);
        for (uint32_t slab = 0; slab < 100; slab++) {
                assert_int_equal(slab_word_state(shm_slab_word(&t->arena, slab)), SLAB_FREE);
                assert_true(shm_set_has(&t->arena, SHM_SET_FREE, slab));
        }
        assert_int_equal(t->control.record->intent_what, 0);
}

static void test_commit_to_the_end(void **state) {
        TestArena *t = *state;
        uint32_t n = 0;

        assert_int_equal(shm_pages_commit(&t->control, 250, &n), 0);
        assert_int_equal(shm_pages_commit(&t->control, 250, &n), 0);
        assert_int_equal(n, 6);
        assert_int_equal(shm_pages_commit(&t->control, 1, &n), -ENOMEM);
        assert_int_equal(t->control.shortage, SHM_SHORTAGE_POOL);
        assert_int_equal(shm_pages_shortage_at_limit(&t->arena), SHM_SHORTAGE_POOL);
}

/* One allocation waits for few pages, however many the next ones will need. */
static void test_commit_little(void **state) {
        TestArena *t = *state;

        for (int i = 0; i < 64; i++) {
                uint32_t ever = shm_arena_n_slabs_ever(&t->arena);

                (void) test_alloc(t, 4096, SHM_EPOCH_CURRENT);
                assert_in_range(shm_arena_n_slabs_ever(&t->arena), ever, ever + 4);
        }
        assert_int_equal(slab_bytes(t), 64 * SHM_SLAB_SIZE);
}

/* Dropped slabs are used before new ones, lowest first. */
static void test_drop_and_commit(void **state) {
        TestArena *t = *state;
        uint32_t n = 0;

        assert_int_equal(shm_pages_commit(&t->control, 128, &n), 0);
        assert_int_equal(shm_pages_drop(&t->control, 0, UINT64_C(0xff00ff)), 16);
        assert_int_equal(slab_bytes(t), 112 * SHM_SLAB_SIZE);
        assert_int_equal(t->arena.header->n_free.value, 112);
        assert_int_equal(slab_word_state(shm_slab_word(&t->arena, 0)), SLAB_UNCOMMITTED);
        assert_true(shm_set_has(&t->arena, SHM_SET_UNCOMMITTED, 0));
        assert_false(shm_set_has(&t->arena, SHM_SET_FREE, 0));
        assert_int_equal(shm_pages_drop(&t->control, 0, UINT64_C(0xff)), 0);

        assert_int_equal(shm_pages_commit(&t->control, 64, &n), 0);
        assert_int_equal(n, 8);
        assert_int_equal(slab_word_state(shm_slab_word(&t->arena, 0)), SLAB_FREE);
        assert_int_equal(slab_word_state(shm_slab_word(&t->arena, 16)), SLAB_UNCOMMITTED);
        assert_int_equal(shm_arena_n_slabs_ever(&t->arena), 128);
}

/* Bits of slabs that have pages: the daemon removes some of them at a time, a client all. */
static void test_commit_beside_lies(void **state) {
        ShmGeometry geometry = test_geometry();
        uint32_t n = 0;
        TestArena t;

        (void) state;
        geometry.slabs_size = 2048 * SHM_SLAB_SIZE;
        test_arena_init(&t, &geometry);
        commit(&t.control, 1024);
        assert_int_equal(shm_pages_drop(&t.control, 15, UINT64_C(1) << 63), 1);
        for (uint32_t group = 0; group < 16; group++)
                shm_set_add_mask(&t.arena, SHM_SET_UNCOMMITTED, group, UINT64_MAX);
        assert_int_equal(shm_pages_commit(&t.control, 1, &n), 0);
        assert_int_equal(shm_arena_n_slabs_ever(&t.arena), 1024 + 1);
        assert_false(shm_set_has(&t.arena, SHM_SET_UNCOMMITTED, 255));
        assert_true(shm_set_has(&t.arena, SHM_SET_UNCOMMITTED, 256));
        assert_int_equal(shm_pages_commit(&t.actor, 1, &n), 0);
        assert_int_equal(shm_arena_n_slabs_ever(&t.arena), 1024 + 1);
        assert_int_equal(slab_word_state(shm_slab_word(&t.arena, 1023)), SLAB_FREE);
        test_arena_deinit(&t);
}

/* Only FREE slabs: objects keep their pages. */
static void test_drop_in_use(void **state) {
        TestArena *t = *state;
        uint64_t handle = test_alloc(t, 64, SHM_EPOCH_CURRENT);

        assert_int_equal(shm_pages_drop(&t->control, 0, UINT64_MAX), SHM_COMMIT_RUN_MAX - 1);
        assert_true(shm_object_live(&t->arena, handle));
}

static void test_trim_highest(void **state) {
        TestArena *t = *state;
        uint32_t n = 0;

        assert_int_equal(shm_pages_commit(&t->control, 256, &n), 0);
        assert_int_equal(shm_pages_trim(&t->control, 100, UINT32_MAX), 156);
        assert_int_equal(slab_bytes(t), 100 * SHM_SLAB_SIZE);
        assert_int_equal(slab_word_state(shm_slab_word(&t->arena, 99)), SLAB_FREE);
        assert_int_equal(slab_word_state(shm_slab_word(&t->arena, 100)), SLAB_UNCOMMITTED);
        assert_int_equal(shm_pages_trim(&t->control, 100, UINT32_MAX), 0);
}

/* An object that fills this slab; all others are FREE again. */
static void take_slab(TestArena *t, uint32_t slab) {
        uint64_t handles[2048];
        uint32_t n = 0;

        while (t->arena.header->n_free.value > 0)
                handles[n++] = test_alloc(t, SHM_SLAB_SIZE, SHM_EPOCH_CURRENT);
        while (n-- > 0)
                if (slot_id_slab(shm_handle_slot(handles[n])) != slab)
                        assert_int_equal(shm_object_free(&t->actor, handles[n]), 0);
}

/* One of four huge pages has a slab in use, and one lacks some pages: the others go first. */
static void test_trim_huge(void **state) {
        ShmGeometry geometry = test_geometry();
        ShmTrim trim;
        TestArena t;

        (void) state;
        geometry.slabs_size = 4 * SHM_HUGE_SIZE;
        for (uint32_t budget = 128; budget != 0; budget = budget == 128 ? UINT32_MAX : 0) {
                test_arena_init(&t, &geometry);
                commit(&t.control, 4 * 512);
                t.arena.huge = true;
                assert_int_equal(shm_pages_drop(&t.control, 16, UINT64_C(0xff)), 8);
                take_slab(&t, 2000);

                /* All of the third one goes, then some of the second one. */
                shm_pages_trim_begin(&trim, &t.arena);
                while (!shm_pages_trim_step(&t.control, &trim, 511 + 512 + 412, budget))
                        ;
                assert_int_equal(trim.n_dropped, 512 - 8 + 100);
                assert_int_equal(trim.splits.n, 1);
                assert_int_equal(slab_word_state(shm_slab_word(&t.arena, 2047)), SLAB_FREE);
                assert_int_equal(slab_word_state(shm_slab_word(&t.arena, 1535)), SLAB_UNCOMMITTED);
                assert_int_equal(slab_word_state(shm_slab_word(&t.arena, 512 + 411)), SLAB_FREE);

                /* The rest of the second one goes, then the first one, and some of that with a slab in use. */
                shm_pages_trim_begin(&trim, &t.arena);
                while (!shm_pages_trim_step(&t.control, &trim, 500, budget))
                        ;
                assert_int_equal(trim.n_dropped, 412 + 512 + 11);
                assert_int_equal(trim.splits.n, 1);
                assert_int_equal(slab_word_state(shm_slab_word(&t.arena, 0)), SLAB_UNCOMMITTED);
                assert_int_equal(slab_word_state(shm_slab_word(&t.arena, 2000)), SLAB_FULL);
                assert_int_equal(slab_word_state(shm_slab_word(&t.arena, 2047)), SLAB_UNCOMMITTED);
                assert_int_equal(slab_word_state(shm_slab_word(&t.arena, 2036)), SLAB_FREE);
                test_arena_deinit(&t);
        }
}

/* The set of FREE slabs is a hint: no huge page is split by slabs that turn out to be in use. */
static void test_trim_huge_in_use(void **state) {
        ShmGeometry geometry = test_geometry();
        ShmTrim trim;
        TestArena t;

        (void) state;
        geometry.slabs_size = SHM_HUGE_SIZE;
        test_arena_init(&t, &geometry);
        t.arena.huge = true;
        for (uint32_t i = 0; i < 512; i++)
                (void) test_alloc(&t, SHM_SLAB_SIZE, SHM_EPOCH_CURRENT);
        for (uint32_t i = 0; i < 512; i++)
                shm_set_add(&t.arena, SHM_SET_FREE, i);
        shm_pages_trim_begin(&trim, &t.arena);
        while (!shm_pages_trim_step(&t.control, &trim, 0, UINT32_MAX))
                ;
        assert_int_equal(trim.n_dropped, 0);
        assert_int_equal(trim.splits.n, 0);
        test_arena_deinit(&t);
}

/* A step drops no more than its budget is for, over stretches with nothing to drop, too. */
static void test_trim_steps(void **state) {
        ShmGeometry geometry = test_geometry();
        uint32_t budget = 128, before;
        bool done;
        ShmTrim trim;
        TestArena t;

        (void) state;
        geometry.slabs_size = 16384 * SHM_SLAB_SIZE;
        test_arena_init(&t, &geometry);
        commit(&t.control, 8500);
        for (uint32_t group = 1; group < 130; group++)
                if (group != 63 && group != 127)
                        assert_int_equal(shm_pages_drop(&t.control, group, UINT64_MAX), 64);
        shm_pages_trim_begin(&trim, &t.arena);
        do {
                before = trim.n_dropped;
                done = shm_pages_trim_step(&t.control, &trim, 10, budget);
                assert_true(trim.n_dropped - before <= 64);
        } while (!done);
        assert_int_equal(trim.n_dropped, 8500 - 127 * 64 - 10);
        assert_int_equal(t.arena.header->n_free.value, 10);
        assert_int_equal(slab_word_state(shm_slab_word(&t.arena, 9)), SLAB_FREE);
        assert_int_equal(slab_word_state(shm_slab_word(&t.arena, 10)), SLAB_UNCOMMITTED);
        assert_int_equal(slab_word_state(shm_slab_word(&t.arena, 8499)), SLAB_UNCOMMITTED);
        test_arena_deinit(&t);
}

/* Pages under slabs of which each is surplus: a step drops some of them. */
static void test_surplus_steps(void **state) {
        TestArena *t = *state;
        ShmSurplus surplus = {};
        uint64_t before;
        bool done;

        commit(&t->control, 256);
        for (uint32_t group = 0; group < 4; group++)
                assert_int_equal(shm_pages_drop(&t->control, group, UINT64_MAX), 64);
        for (uint32_t slab = 0; slab < 256; slab++)
                shm_arena_slab(&t->arena, slab)[5] = 1;
        do {
                before = surplus.size;
                done = shm_pages_drop_surplus_step(&t->control, &surplus, 128);
                assert_true(surplus.size - before <= 8 * SHM_SLAB_SIZE);
        } while (!done);
        assert_int_equal(surplus.size, 256 * SHM_SLAB_SIZE);
        assert_int_equal(slab_bytes(t), 0);
}

/* A locked mapping refuses MADV_REMOVE; the descriptor does not. */
static void test_drop_locked(void **state) {
        TestArena *t = *state;
        uint32_t n = 0;

        assert_int_equal(shm_pages_commit(&t->control, 64, &n), 0);
        if (mlock(t->arena.slabs, 64 * SHM_SLAB_SIZE) < 0)
                skip();
        assert_int_equal(shm_pages_drop(&t->control, 0, UINT64_MAX), 64);
        munlock(t->arena.slabs, 64 * SHM_SLAB_SIZE);
        assert_int_equal(slab_bytes(t), 0);
}

/* A stale pointer's write under a dropped slab is surplus, and goes. */
static void test_surplus(void **state) {
        TestArena *t = *state;
        uint32_t n = 0;

        assert_int_equal(shm_pages_commit(&t->control, 64, &n), 0);
        assert_int_equal(shm_pages_drop(&t->control, 0, UINT64_MAX), 64);
        shm_arena_slab(&t->arena, 3)[5] = 1;
        shm_arena_slab(&t->arena, 60)[5] = 1;
        assert_int_equal(slab_bytes(t), 2 * SHM_SLAB_SIZE);
        assert_int_equal(shm_pages_drop_surplus(&t->control), 2 * SHM_SLAB_SIZE);
        assert_int_equal(slab_bytes(t), 0);
        assert_int_equal(shm_pages_commit(&t->control, 64, &n), 0);
        assert_int_equal(n, 64);
}

static void test_allowance(void **state) {
        TestArena *t = *state;
        uint64_t handle;
        uint32_t n;

        t->arena.header->commit_allowance.value = 19;
        assert_int_equal(shm_pages_commit(&t->actor, 16, &n), 0);
        assert_int_equal(shm_pages_commit(&t->actor, 16, &n), -ENOMEM);
        assert_int_equal(t->actor.shortage, SHM_SHORTAGE_LIMIT);
        assert_int_equal(t->arena.header->commit_allowance.value, 3);
        assert_int_equal(shm_pages_commit(&t->control, 16, &n), 0); /* the daemon looks by itself */
        for (int i = 0; i < 32 * 5; i++)
                assert_int_equal(shm_object_alloc(&t->actor, 768, 0, NULL, &handle, NULL), 0);
        assert_int_equal(shm_object_alloc(&t->actor, 768, 0, NULL, &handle, NULL), -ENOMEM);
}

/* An allowance that was drawn in vain comes back: system calls that fail for ever leave nothing behind. */
static void test_allowance_returned(void **state) {
        TestArena *t = *state;
        uint32_t n, n_left = t->arena.n_slabs - 8;
        int fd = t->arena.fd;

        t->arena.header->commit_allowance.value = 64;
        t->arena.fd = -1;
        for (int i = 0; i < 1000; i++) {
                assert_int_equal(shm_pages_commit(&t->actor, 16, &n), -ENOMEM);
                assert_false(shm_pages_make(&t->actor, t->arena.shortcuts, 1));
        }
        assert_int_equal(t->actor.shortage, SHM_SHORTAGE_SYSTEM);
        assert_int_equal(t->arena.header->commit_allowance.value, 64);
        t->arena.fd = fd;
        for (; n_left > 0; n_left -= n)
                assert_int_equal(shm_pages_commit(&t->control, n_left < 64 ? n_left : 64, &n), 0);
        assert_int_equal(shm_pages_commit(&t->actor, 16, &n), 0);
        assert_int_equal(n, 8);
        assert_int_equal(t->arena.header->commit_allowance.value, 64 - 8);
}

static int64_t n_may_commit;

static int64_t find_allowance(void) {
        return n_may_commit;
}

/* Without a daemon, threads look at the limits themselves. */
static void test_allowance_found(void **state) {
        TestArena *t = *state;
        uint32_t n;

        t->arena.header->commit_allowance.value = 0;
        t->arena.find_allowance = find_allowance;
        n_may_commit = 24;
        assert_int_equal(shm_pages_commit(&t->actor, 16, &n), 0);
        assert_int_equal(t->arena.header->commit_allowance.value, 8);
        n_may_commit = 15;
        assert_int_equal(shm_pages_commit(&t->actor, 16, &n), -ENOMEM);
        assert_int_equal(t->actor.shortage, SHM_SHORTAGE_LIMIT);
        n_may_commit = 16;
        assert_int_equal(shm_pages_commit(&t->actor, 16, &n), 0);
        assert_int_equal(t->arena.header->commit_allowance.value, 0);
}

/* One a line. */
/* clang-format off */
#define WITH_ARENA(f) cmocka_unit_test_setup_teardown(f, setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                WITH_ARENA(test_commit_run),      WITH_ARENA(test_commit_to_the_end),
                WITH_ARENA(test_drop_and_commit), WITH_ARENA(test_commit_little),
                WITH_ARENA(test_drop_in_use),
                WITH_ARENA(test_trim_highest),    WITH_ARENA(test_drop_locked),
                WITH_ARENA(test_commit_beside_lies),
                WITH_ARENA(test_trim_steps),      WITH_ARENA(test_surplus_steps),
                WITH_ARENA(test_trim_huge),       WITH_ARENA(test_trim_huge_in_use),
                WITH_ARENA(test_surplus),         WITH_ARENA(test_allowance),
                WITH_ARENA(test_allowance_found), WITH_ARENA(test_allowance_returned),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
