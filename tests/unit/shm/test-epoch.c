/* The epoch table, and the walk that drains closed epochs. */
#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch-open.h"
#include "shm/epoch/epoch.h"

#include <errno.h>

#include "shm/maintain/drain.h"
#include "shm/slab/pages.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"
#include "shm/stats/stats.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

static ShmDrain walk(TestArena *t, uint32_t epoch) {
        ShmDrain drain = { .epoch = epoch, .final = true };

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
                assert_int_not_equal(info(t, (i - 1) % 4).closed_usec, 0);
                assert_int_equal(info(t, i % 4).closed_usec, 0);
                assert_int_not_equal(info(t, i % 4).opened_usec, 0);
                assert_int_equal(shm_epoch_admit(&t->arena, (i - 1) % 4, &id, &era), -ESHUTDOWN);
        }
}

/* Where nobody has references. */
static void test_advance_takes_no_pages(void **state) {
        ShmGeometry geometry = test_geometry();
        uint64_t before;
        uint32_t number;
        TestArena t;

        geometry.n_records = 1024;
        test_arena_init(&t, &geometry);
        before = shm_arena_resident_size(&t.arena);
        assert_int_equal(shm_epoch_advance(&t.arena, &number), 0);
        assert_int_equal(shm_arena_resident_size(&t.arena), before);
        test_arena_deinit(&t);
        (void) state;
}

static void set_revoked(TestArena *t, uint32_t id) {
        ShmRevoking revoking;

        assert_true(shm_epoch_revoking(&t->arena, id, &revoking));
        shm_epoch_set_revoked(&t->arena, &revoking);
        assert_false(shm_epoch_revoking(&t->arena, id, &revoking));
}

/* Opening an id anew would forget that objects of its last era are to be freed. */
static void test_advance_passes_revoked(void **state) {
        TestArena *t = *state;
        uint32_t number;

        assert_int_equal(shm_epoch_revoke(&t->arena, 1, false), 0);
        assert_int_equal(info(t, 1).flags, SHM_EPOCH_DRAIN | SHM_EPOCH_REVOKE);
        assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
        assert_int_equal(number & 0xff, 2);
        set_revoked(t, 1);
        for (uint32_t i = 3; i < 6; i++) {
                assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
                assert_int_equal(number & 0xff, i % 4);
        }
        for (uint32_t id = 0; id < 4; id++)
                assert_int_equal(shm_epoch_revoke(&t->arena, id, false), 0);
        assert_int_equal(shm_epoch_advance(&t->arena, &number), -ENOSPC);
        set_revoked(t, 2);
        assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
        assert_int_equal(number & 0xff, 2);
}

/* It opens another id, or none. */
static void test_advance_not_itself(void **state) {
        TestArena *t = *state;
        uint32_t current, number;

        for (uint32_t id = 1; id < 4; id++)
                assert_int_equal(shm_epoch_revoke(&t->arena, id, false), 0);
        current = shm_epoch_current(&t->arena);
        assert_int_equal(shm_epoch_next(&t->arena, &number), -ENOSPC);
        assert_int_equal(shm_epoch_advance(&t->arena, &number), -ENOSPC);
        assert_int_equal(shm_epoch_current(&t->arena), current);
        assert_int_equal(info(t, 0).state, SHM_EPOCH_OPEN);
        assert_int_equal(info(t, 0).flags, 0);
        test_alloc(t, 64, current);
}

/* Nobody's objects are in them; but a thread that was admitted before may yet claim a slab. */
static void test_spare_passes_revoked(void **state) {
        TestArena *t = *state;
        uint32_t id, number;

        assert_int_equal(shm_epoch_revoke(&t->arena, 3, false), 0);
        assert_int_equal(shm_epoch_spare(&t->arena, &id), 0);
        assert_int_equal(id, 2);
        assert_int_equal(shm_epoch_revoke(&t->arena, 2, false), 0);
        assert_int_equal(shm_epoch_revoke(&t->arena, 1, false), 0);
        assert_int_equal(shm_epoch_spare(&t->arena, &id), -ENOSPC);
        set_revoked(t, 3);
        assert_int_equal(shm_epoch_spare(&t->arena, &id), 0);
        assert_int_equal(id, 3);
        /* The other two still rotate, and wait for their revoke pass. */
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
        /* as the caller gave it; a value that no caller can give is a stray write */
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
        uint32_t slab;

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
        /* No walk looks at them again. */
        assert_false(shm_set_find(&t->arena, shm_set_of_epoch(&t->arena, 1), 0, &slab));
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
        assert_int_equal(slab_word_state(shm_slab_word(&t->arena, slot_id_slab(shm_handle_slot(new)))),
                         SLAB_PARTIAL);
}

/* A walk reports the oldest and the youngest era that it met, in any order of their slabs. */
static void test_drain_eras(void **state) {
        TestArena *t = *state;
        uint64_t other = test_alloc(t, 64, 2), handles[4];
        uint32_t number = shm_epoch_number(1, 1);
        ShmDrain drain;

        for (uint32_t era = 1; era < 4; era++) {
                handles[era] = test_alloc(t, 64, number);
                if (era == 1)
                        assert_int_equal(shm_object_free(&t->actor, other), 0); /* its slab is before */
                do
                        assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
                while ((number & 0xff) != 1);
        }
        assert_int_equal(shm_epoch_close(&t->arena, number, true), 0);
        assert_true(shm_handle_slot(handles[2]).value < shm_handle_slot(handles[1]).value);
        assert_true(shm_handle_slot(handles[1]).value < shm_handle_slot(handles[3]).value);
        drain = walk(t, 1);
        assert_int_equal(drain.n_left, 3);
        for (uint32_t era = 0; era < 6; era++)
                assert_int_equal(shm_drain_met(&t->arena, &drain, era), era < 4);
        assert_int_equal(shm_object_free(&t->actor, handles[1]), 0);
        drain = walk(t, 1);
        for (uint32_t era = 1; era < 5; era++)
                assert_int_equal(shm_drain_met(&t->arena, &drain, era), era == 2 || era == 3);
        for (uint32_t era = 2; era < 4; era++)
                assert_int_equal(shm_object_free(&t->actor, handles[era]), 0);
        drain = walk(t, 1);
        for (uint32_t era = 0; era < 4; era++)
                assert_false(shm_drain_met(&t->arena, &drain, era));
}

/* Era numbers of 12 bits in the word: never 0, and wrapping finds nothing of 4096 eras ago to claim. */
static void test_era_wraps(void **state) {
        TestArena *t = *state;
        uint32_t number = 0;

        for (int i = 0; i < 4 * 4100; i++) {
                assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
                assert_int_not_equal(number >> 8 & SLAB_ERA_BITS, 0);
                (void) walk(t, (number & 0xff) % 4);
        }
        test_alloc(t, 64, number);
}

/* The close takes one of two huge pages as a whole, and all of the other but two slabs: that one is split. */
static void test_drain_splits(void **state) {
        static uint64_t handles[1024];
        ShmGeometry geometry = test_geometry();
        ShmStats stats;
        TestArena t;

        for (uint32_t huge = 0; huge < 2; huge++) {
                ShmDrain drain;
                uint32_t n = 0;

                geometry.slabs_size = 2 * SHM_HUGE_SIZE;
                test_arena_init(&t, &geometry);
                while (shm_arena_n_slabs_ever(&t.arena) < 1024)
                        assert_int_equal(shm_pages_commit(&t.control, 256, &n), 0);
                t.arena.huge = huge;
                for (uint32_t i = 0; i < 1024; i++)
                        handles[i] = test_alloc(&t, SHM_SLAB_SIZE, i == 300 || i == 301 ? 2 : 1);
                for (uint32_t i = 0; i < 1024; i++)
                        if (i != 300 && i != 301)
                                assert_int_equal(shm_object_free(&t.actor, handles[i]), 0);
                assert_int_equal(shm_epoch_close(&t.arena, 1, true), 0);
                drain = walk(&t, 1);
                assert_int_equal(drain.reclaimed_size, 1022 * SHM_SLAB_SIZE);
                assert_int_equal(drain.splits.n, huge);
                shm_stats(&t.arena, &stats);
                assert_int_equal(stats.huge_splits, huge);
                test_arena_deinit(&t);
        }
        (void) state;
}

/* One a line. */
/* clang-format off */
#define WITH_ARENA(f) cmocka_unit_test_setup_teardown(f, test_arena_setup, test_arena_teardown)

/* All words of an epoch and all events: these edges, and no others. */
static void test_word_edges(void **state) {
        enum { UNUSED = SHM_EPOCH_UNUSED, OPEN = SHM_EPOCH_OPEN, CLOSING = SHM_EPOCH_CLOSING,
               DRAINED = SHM_EPOCH_DRAINED, NONE = -1 };
        static const int table[_SHM_EPOCH_STATE_N][_SHM_EPOCH_EV_N] = {
                /* RETIRE, KEEP, CLOSE, EMPTY, NOT_EMPTY, REVOKED, REOPEN */
                [UNUSED] = { NONE, NONE, NONE, NONE, NONE, NONE, NONE },
                [OPEN] = { OPEN, OPEN, CLOSING, NONE, NONE, NONE, NONE },
                [CLOSING] = { NONE, NONE, CLOSING, DRAINED, NONE, CLOSING, OPEN },
                [DRAINED] = { NONE, NONE, DRAINED, NONE, CLOSING, DRAINED, OPEN },
        };
        static const uint32_t all[] = { 0, SHM_EPOCH_RESERVED, SHM_EPOCH_DRAIN, SHM_EPOCH_DRAIN | SHM_EPOCH_REVOKE,
                                        SHM_EPOCH_RETIRING };

        for (unsigned s = 0; s < _SHM_EPOCH_STATE_N; s++)
                for (unsigned event = 0; event < _SHM_EPOCH_EV_N; event++)
                        for (size_t f = 0; f < sizeof(all) / sizeof(all[0]); f++) {
                                ShmEpochWord w = { .state = s, .flags = all[f], .era = 0xfff, .version = 7 }, new = w;
                                int to = table[s][event];
                                int r = shm_epoch_word_apply(w, event, SHM_EPOCH_DRAIN | SHM_EPOCH_RESERVED, &new);

                                assert_int_equal(shm_edge_to(shm_epoch_edges, s, event), to);
                                if (to >= 0 && event == SHM_EPOCH_EV_REOPEN && (all[f] & SHM_EPOCH_REVOKE))
                                        to = -1;
                                assert_int_equal(r == 0, to >= 0);
                                if (r != 0) {
                                        assert_memory_equal(&new, &w, sizeof(w));
                                        continue;
                                }
                                assert_int_equal(new.state, to);
                                assert_int_equal(new.version, 8);
                                assert_int_equal(new.era, event == SHM_EPOCH_EV_REOPEN ? 0x1001 : 0xfff);
                                new.version = 9;
                                w = shm_epoch_word_decode(shm_epoch_word_encode(new));
                                assert_memory_equal(&new, &w, sizeof(w));
                        }
}

/* Flags: which event sets which, and which clears them. */
static void test_word_flags(void **state) {
        const uint32_t both = SHM_EPOCH_DRAIN | SHM_EPOCH_REVOKE;
        ShmEpochWord w = { .state = SHM_EPOCH_OPEN, .flags = SHM_EPOCH_RESERVED, .era = 1 };

        assert_int_equal(shm_epoch_word_apply(w, SHM_EPOCH_EV_RETIRE, 0, &w), 0);
        assert_int_equal(w.flags, SHM_EPOCH_RESERVED | SHM_EPOCH_RETIRING);
        assert_int_equal(shm_epoch_word_apply(w, SHM_EPOCH_EV_KEEP, 0, &w), 0);
        assert_int_equal(w.flags, SHM_EPOCH_RESERVED);
        assert_int_equal(shm_epoch_word_apply(w, SHM_EPOCH_EV_CLOSE, SHM_EPOCH_DRAIN, &w), 0);
        assert_int_equal(w.flags, SHM_EPOCH_DRAIN);
        assert_int_equal(shm_epoch_word_apply(w, SHM_EPOCH_EV_CLOSE, both, &w), 0);
        assert_int_equal(w.flags, both);
        assert_int_equal(shm_epoch_word_apply(w, SHM_EPOCH_EV_EMPTY, 0, &w), 0);
        assert_int_equal(w.flags, both);
        assert_int_equal(shm_epoch_word_apply(w, SHM_EPOCH_EV_REVOKED, 0, &w), 0);
        assert_int_equal(w.flags, SHM_EPOCH_DRAIN);
        assert_int_equal(shm_epoch_word_apply(w, SHM_EPOCH_EV_REOPEN, SHM_EPOCH_RESERVED | both, &w), 0);
        assert_int_equal(w.flags, SHM_EPOCH_RESERVED);
}

/* Only the era that is named, or the newest; earlier ones where they are named, or asked for. */
static void test_revoke_eras(void **state) {
        TestArena *t = *state;
        ShmRevoking revoking;
        uint32_t number;

        for (int i = 0; i < 12; i++)
                assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
        assert_int_equal(number, shm_epoch_number(0, 4));
        assert_int_equal(shm_epoch_revoke(&t->arena, shm_epoch_number(0, 5), false), -ESTALE);
        assert_int_equal(shm_epoch_revoke(&t->arena, shm_epoch_number(0, 2), false), 0);
        assert_int_equal(info(t, 0).state, SHM_EPOCH_OPEN);
        assert_true(shm_epoch_revoking(&t->arena, 0, &revoking));
        for (uint32_t era = 1; era <= 4; era++)
                assert_int_equal(shm_revoking_has(&revoking, era), era == 2);
        /* One that is next to it joins it; another has to wait. */
        assert_int_equal(shm_epoch_revoke(&t->arena, shm_epoch_number(0, 3), false), 0);
        assert_true(shm_epoch_revoking(&t->arena, 0, &revoking));
        for (uint32_t era = 1; era <= 4; era++)
                assert_int_equal(shm_revoking_has(&revoking, era), era == 2 || era == 3);
        assert_int_equal(shm_epoch_revoke(&t->arena, 0, false), 0);
        assert_int_equal(info(t, 0).state, SHM_EPOCH_CLOSING);
        assert_true(shm_epoch_revoking(&t->arena, 0, &revoking));
        for (uint32_t era = 1; era <= 4; era++)
                assert_int_equal(shm_revoking_has(&revoking, era), era != 1);
        /* All before it. */
        assert_int_equal(shm_epoch_revoke(&t->arena, 0, true), 0);
        assert_true(shm_epoch_revoking(&t->arena, 0, &revoking));
        for (uint32_t era = 1; era <= 4; era++)
                assert_true(shm_revoking_has(&revoking, era));
        set_revoked(t, 0);
}

static void test_revoke_eras_apart(void **state) {
        TestArena *t = *state;
        ShmRevoking before, after;
        uint32_t number;

        for (int i = 0; i < 20; i++)
                assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
        assert_int_equal(shm_epoch_revoke(&t->arena, shm_epoch_number(0, 1), false), 0);
        assert_int_equal(shm_epoch_revoke(&t->arena, shm_epoch_number(0, 4), false), -EBUSY);
        assert_true(shm_epoch_revoking(&t->arena, 0, &before));
        /* A request that comes during another one is not forgotten when the first is done. */
        assert_int_equal(shm_epoch_revoke(&t->arena, shm_epoch_number(0, 2), false), 0);
        shm_epoch_set_revoked(&t->arena, &before);
        assert_true(shm_epoch_revoking(&t->arena, 0, &after));
        assert_true(shm_revoking_has(&after, 2));
        set_revoked(t, 0);
        assert_int_equal(shm_epoch_revoke(&t->arena, shm_epoch_number(0, 4), false), 0);
}

/* Eras have 12 bits in slab words: with a slab of the first left, the id is not opened in an era that looks like it. */
static void test_eras_wrap(void **state) {
        TestArena *t = *state;
        uint64_t handle = test_alloc(t, 64, 1);
        uint32_t n[4] = {}, number, max = 0;

        for (unsigned i = 0; i < 4 * 5000; i++) {
                assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
                n[number & 0xff]++;
                max = number >> 8 > max ? number >> 8 : max;
                for (uint32_t id = 0; id < 4; id++)
                        if (id != 1 && info(t, id).state != SHM_EPOCH_OPEN)
                                shm_epoch_walked(&t->arena, id, info(t, id).era & SLAB_ERA_BITS, 0);
        }
        assert_true(info(t, 1).era <= 4096);
        assert_true(max > 5000);
        assert_true(shm_object_live(&t->arena, handle));
        /* The walk that finds it gone makes the id good again. */
        shm_epoch_walked(&t->arena, 1, info(t, 1).era & SLAB_ERA_BITS, 0);
        for (unsigned i = 0; i < 4; i++)
                assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
        assert_true(info(t, 1).era > 4096);
}

/* With all ids in that state, none can be opened: an error, and nothing is lost. */
static void test_eras_wrap_all(void **state) {
        TestArena *t = *state;
        uint32_t number = 0, current;
        int r;

        do
                r = shm_epoch_advance(&t->arena, &number);
        while (r == 0);
        assert_int_equal(r, -ENOSPC);
        current = shm_epoch_current(&t->arena);
        assert_int_equal(current, number);
        assert_int_equal(info(t, current & 0xff).state, SHM_EPOCH_OPEN);
        assert_int_equal(info(t, current & 0xff).flags, 0);
}

/* A lease stands until its epoch is empty: the ring does not open the id before. */
static void test_lease_closed(void **state) {
        TestArena *t = *state;
        uint32_t lease, number;

        assert_int_equal(shm_epoch_lease(&t->arena, 2, NULL, 7, &lease), 0);
        assert_int_equal(shm_epoch_close(&t->arena, lease, true), 0);
        for (unsigned i = 0; i < 8; i++) {
                assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
                assert_int_not_equal(number & 0xff, 2);
        }
        assert_int_equal(info(t, 2).owner, 8);
        assert_int_equal(shm_epoch_end_leases(&t->arena, 7), 1);
        assert_true(info(t, 2).revoking);
        assert_int_equal(info(t, 2).owner, 0);
}

static void test_lease_empty(void **state) {
        TestArena *t = *state;
        uint32_t lease, id;

        assert_int_equal(shm_epoch_lease(&t->arena, 2, NULL, 7, &lease), 0);
        assert_int_equal(shm_epoch_close(&t->arena, lease, true), 0);
        shm_epoch_walked(&t->arena, 2, lease >> 8, 1);
        assert_int_equal(info(t, 2).owner, 8);
        shm_epoch_walked(&t->arena, 2, lease >> 8, 0);
        assert_int_equal(info(t, 2).state, SHM_EPOCH_DRAINED);
        assert_int_equal(info(t, 2).owner, 0);
        assert_int_equal(shm_epoch_end_leases(&t->arena, 7), 0);
        assert_int_equal(shm_epoch_spare(&t->arena, &id), 0);
}

/* A maintainer that died inside advance: on either side of the store that makes the next one current. */
static void test_recover_advance(void **state) {
        TestArena *t = *state;
        uint64_t *word = &t->arena.header->epochs[0].word, before = *word, attention;
        ShmRecord *record = t->actor.record;
        uint32_t number;
        ShmEpochWord w;

        assert_int_equal(shm_epoch_word_apply(shm_epoch_word_decode(before), SHM_EPOCH_EV_RETIRE, 0, &w), 0);
        *word = shm_epoch_word_encode(w);
        attention = record->attention;
        shm_epochs_recover(&t->arena);
        assert_int_equal(info(t, 0).state, SHM_EPOCH_OPEN);
        assert_int_equal(info(t, 0).flags, 0);
        assert_true(record->attention > attention);

        assert_int_equal(shm_epoch_advance(&t->arena, &number), 0);
        *word = shm_epoch_word_encode(w); /* as it was before the close */
        shm_epochs_recover(&t->arena);
        assert_int_equal(info(t, 0).state, SHM_EPOCH_CLOSING);
        assert_int_equal(shm_epoch_current(&t->arena), number);
        assert_int_equal(info(t, 1).state, SHM_EPOCH_OPEN);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                WITH_ARENA(test_all_open_at_start),      WITH_ARENA(test_advance_ring),
                WITH_ARENA(test_advance_passes_revoked), WITH_ARENA(test_spare_passes_revoked),
                WITH_ARENA(test_era_over),               WITH_ARENA(test_close_current),
                WITH_ARENA(test_reserve),                WITH_ARENA(test_label),
                WITH_ARENA(test_close_drains),           WITH_ARENA(test_earlier_era_drains),
                WITH_ARENA(test_era_wraps),
                WITH_ARENA(test_drain_eras),
                WITH_ARENA(test_advance_not_itself),
                WITH_ARENA(test_word_edges),
                WITH_ARENA(test_word_flags),
                WITH_ARENA(test_revoke_eras),
                WITH_ARENA(test_revoke_eras_apart),
                WITH_ARENA(test_eras_wrap),
                WITH_ARENA(test_eras_wrap_all),
                WITH_ARENA(test_lease_closed),
                WITH_ARENA(test_lease_empty),
                WITH_ARENA(test_recover_advance),
                cmocka_unit_test(test_advance_takes_no_pages),
                cmocka_unit_test(test_drain_splits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
