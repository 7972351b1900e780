#include "shm/stats/slab-sums.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shm/epoch/epoch-open.h"
#include "shm/maintain/hints.h"
#include "shm/slab/changed.h"
#include "shm/slab/pages.h"
#include "shm/slab/slab.h"
#include "shm/stats/stats.h"
#include "tests/util/arena.h"
#include "tests/util/seed.h"
#include "tests/util/test.h"

#define N_SLABS 16384U /* 64 groups of marks */

typedef struct SumsTest {
        TestArena t;
        ShmSlabSums sums;
} SumsTest;

static int setup(void **state) {
        ShmGeometry geometry = test_geometry();
        SumsTest *s = calloc(1, sizeof(*s));

        assert_non_null(s);
        geometry.slabs_size = (uint64_t) N_SLABS * SHM_SLAB_SIZE;
        test_arena_init(&s->t, &geometry);
        assert_int_equal(shm_slab_sums_init(&s->sums, &s->t.arena), 0);
        *state = s;
        return 0;
}

static int teardown(void **state) {
        SumsTest *s = *state;

        shm_slab_sums_deinit(&s->sums);
        test_arena_deinit(&s->t);
        free(s);
        return 0;
}

static void count_changed(SumsTest *s, uint32_t budget, ShmStats *ret) {
        ShmStatsWalk walk;

        shm_stats_begin_sums(&walk, &s->sums, ret);
        while (!shm_stats_step(&walk, budget))
                ;
}

/* All figures are those of a count of all slabs. */
static void check_same(SumsTest *s, uint32_t budget) {
        ShmStats all, changed;

        count_changed(s, budget, &changed); /* reads pages into being, which are metadata */
        shm_stats(&s->t.arena, &all);
        count_changed(s, budget, &changed);
        assert_memory_equal(&changed, &all, sizeof(all));
}

static void commit(SumsTest *s, uint32_t n) {
        for (uint32_t done; n > 0; n -= done)
                assert_int_equal(shm_pages_commit(&s->t.control, n < 64 ? n : 64, &done), 0);
}

/* Objects of all classes come and go, epochs advance, pages are made and dropped. */
static void test_same(void **state) {
        static const uint32_t budgets[] = { UINT32_MAX, 1, 300, 4096 };
        SumsTest *s = *state;
        uint64_t handles[4000] = {};
        uint32_t number;

        check_same(s, UINT32_MAX);
        commit(s, 1500);
        for (uint32_t round = 0; round < 40; round++) {
                for (uint32_t i = 0; i < 4000; i++) {
                        uint64_t *handle = &handles[(i * 7919 + round * 31) % 4000];

                        if (i % 3 == 0 && *handle != 0)
                                assert_int_equal(shm_object_free(&s->t.actor, *handle), 0);
                        if (i % 3 == 0)
                                *handle = test_alloc(&s->t, 64 + (i * 13 + round) % 2000, SHM_EPOCH_CURRENT);
                }
                if (round % 4 == 1)
                        assert_int_equal(shm_epoch_advance(&s->t.arena, &number), 0);
                if (round % 8 == 5)
                        (void) shm_pages_trim(&s->t.control, 10, 100);
                check_same(s, budgets[round % 4]);
        }
}

static uint64_t committed_slabs(SumsTest *s) {
        ShmStats stats;

        count_changed(s, UINT32_MAX, &stats);
        return stats.committed_size / SHM_SLAB_SIZE;
}

/* No count looks at slabs that did not change, but a few by turns: a word that changes without a mark shows late. */
static void test_unchanged(void **state) {
        SumsTest *s = *state;
        uint32_t slab = 40 * SHM_CHANGED_SLABS, n = 0;

        commit(s, N_SLABS);
        assert_int_equal(committed_slabs(s), N_SLABS);
        s->sums.renewed = 0;
        s->t.arena.lines[slab].word = (SlabWord){};
        assert_int_equal(committed_slabs(s), N_SLABS);
        while (committed_slabs(s) == N_SLABS)
                assert_true(++n < 4);
        assert_int_equal(committed_slabs(s), N_SLABS - 1);
}

/* A thread dies after it changed a slab's word, and before it set the mark; its intent names the slab, or a run. */
static void test_death(void **state) {
        static const uint64_t kinds[] = { SHM_INTENT_SLAB, SHM_INTENT_CLAIM, SHM_INTENT_RUN };
        SumsTest *s = *state;

        commit(s, N_SLABS);
        assert_int_equal(committed_slabs(s), N_SLABS);
        for (uint32_t i = 0; i < 3; i++) {
                uint32_t slab = (50 + i) * SHM_CHANGED_SLABS - 1;
                ShmIntent intent = { .kind = kinds[i], .id = slot_id(slab, 0), .arg = 2 };

                s->sums.renewed = 0;
                s->t.arena.lines[slab].word = (SlabWord){};
                assert_int_equal(committed_slabs(s), N_SLABS - i);
                shm_hints_repair_intent(&s->t.arena, intent);
                s->sums.renewed = 0;
                assert_int_equal(committed_slabs(s), N_SLABS - i - 1);
        }
}

/* The next daemon knows nothing of the marks that the one before cleared. */
static void test_next_daemon(void **state) {
        SumsTest *s = *state;

        commit(s, 5000);
        test_alloc(&s->t, 100, SHM_EPOCH_CURRENT);
        check_same(s, UINT32_MAX);
        shm_slab_sums_deinit(&s->sums);
        assert_int_equal(shm_slab_sums_init(&s->sums, &s->t.arena), 0);
        check_same(s, 100);
}

/* Two walks at once: each clears marks of groups that the other then does not look at. */
static void test_two_walks(void **state) {
        SumsTest *s = *state;
        ShmStats all, first, second;
        ShmStatsWalk a, b;
        bool done = false;

        commit(s, 5000);
        for (int i = 0; i < 5000; i++)
                test_alloc(&s->t, 500, SHM_EPOCH_CURRENT);
        count_changed(s, UINT32_MAX, &first);
        for (uint32_t group = 0; group < 5000 / SHM_CHANGED_SLABS; group += 2)
                shm_changed_mark(&s->t.arena, group * SHM_CHANGED_SLABS);
        for (int i = 0; i < 5000; i++)
                test_alloc(&s->t, 500, SHM_EPOCH_CURRENT);
        shm_stats(&s->t.arena, &all);
        shm_stats_begin_sums(&a, &s->sums, &first);
        (void) shm_stats_step(&a, 700);
        shm_stats_begin_sums(&b, &s->sums, &second);
        for (bool a_done = false, b_done = false; !done; done = a_done && b_done) {
                a_done = a_done || shm_stats_step(&a, 300);
                b_done = b_done || shm_stats_step(&b, 500);
        }
        assert_memory_equal(&first, &all, sizeof(all));
        assert_memory_equal(&second, &all, sizeof(all));
}

/* Garbage in words and marks: no index leads out, and the sums come right again once the words do. */
static void test_garbage(void **state) {
        SumsTest *s = *state;
        uint64_t seed = 1;
        ShmStats stats;

        commit(s, 600);
        for (uint32_t round = 0; round < 20; round++) {
                for (uint32_t i = 0; i < 600; i++)
                        s->t.arena.lines[i].word = (SlabWord){ seed_next(&seed), seed_next(&seed) };
                memset(s->t.arena.changed, round % 2 ? 0xff : 0x55, 64);
                count_changed(s, 500, &stats);
        }
        for (uint32_t i = 0; i < 600; i++)
                s->t.arena.lines[i].word = (SlabWord){};
        memset(s->t.arena.changed, 0xff, 64);
        count_changed(s, 500, &stats);
        assert_int_equal(stats.committed_size, 0);
        assert_int_equal(stats.live_size, 0);
        assert_int_equal(stats.older[0].slabs + stats.epochs[0].slabs, 0);
}

static bool stray_stops;

static void *write_stray(void *userdata) {
        uint64_t *n_slabs_ever = userdata;

        while (!shm_load_acq(&stray_stops)) {
                shm_store_rel(n_slabs_ever, 10);
                shm_store_rel(n_slabs_ever, 600);
        }
        return NULL;
}

/* A stray write moves the number of slabs during a walk, whose last group has fewer slabs than others. */
static void test_number_moves(void **state) {
        SumsTest *s = *state;
        pthread_t stray;
        ShmStats stats;

        commit(s, 600);
        s->t.arena.n_slabs = 300;
        assert_int_equal(pthread_create(&stray, NULL, write_stray, &s->t.arena.header->n_slabs_ever.value),
                         0);
        for (uint32_t i = 0; i < 20000; i++)
                count_changed(s, 10000, &stats);
        shm_store_rel(&stray_stops, true);
        assert_int_equal(pthread_join(stray, NULL), 0);
        for (uint32_t slab = 300; slab < 600; slab++)
                assert_int_equal(s->sums.seen[slab], 0);
}

#define ON_SUMS(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                ON_SUMS(test_same),         ON_SUMS(test_unchanged), ON_SUMS(test_death),
                ON_SUMS(test_next_daemon),  ON_SUMS(test_two_walks), ON_SUMS(test_garbage),
                ON_SUMS(test_number_moves),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
