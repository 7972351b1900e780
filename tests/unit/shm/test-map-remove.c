/* A map that is removed, in one thread: entries of all kinds and paths, and steps of any length. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shm/cache/cache.h"
#include "shm/map/entry/map.h"
#include "shm/map/entry/map-sweep.h"
#include "shm/map/state/lifetime.h"
#include "shm/map/state/map-remove.h"
#include "tests/unit/shm/map-fixture.h"

#define N_KEYS 3000U
#define N_ALIKE 60U /* keys with one hash, in several buckets */

typedef MapFixture Fixture;

static ShmMapKey key_of(const Fixture *f, const uint32_t *i) {
        uint64_t hash = *i < N_ALIKE ? 77 : shm_hash(&f->arena, i, sizeof(*i));

        return (ShmMapKey){ i, sizeof(*i), hash };
}

static void fill(Fixture *f) {
        static const uint8_t value[20000];

        for (uint32_t i = 0; i < N_KEYS; i++) {
                ShmMapPut p = {
                        .value = value,
                        .value_size = i % 100 ? i % 300 : sizeof(value),
                        .epoch = SHM_EPOCH_CURRENT,
                        .ttl_ms = i % 7 ? SHM_MAP_TTL_NONE : 1000000,
                };
                ShmMapKey key = key_of(f, &i);

                assert_int_equal(shm_map_put(&f->actor, &f->trie, &key, &p, NULL), 0);
        }
        /* Some keys are gone: in buckets their words stay. */
        for (uint32_t i = 0; i < N_KEYS; i += 5) {
                ShmMapKey key = key_of(f, &i);

                assert_int_equal(shm_map_delete(&f->actor, &f->trie, &key, 0), 0);
        }
}

static uint64_t n_live(const Fixture *f) {
        uint64_t n = 0;

        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&f->arena); slab++)
                for (uint32_t slot = 0; slot < SHM_SLOTS_MAX; slot++)
                        n += f->arena.tags[slab].tag[slot] & 1;
        return n;
}

static void remove_in_steps(Fixture *f, uint32_t n) {
        uint64_t before = n_live(f);
        uint32_t i = f->trie.map - 1, steps = 0, one = N_ALIKE + 1;
        ShmMapKey key = key_of(f, &one);
        ShmTrieScan scan = {};
        uint8_t buffer[8];

        fill(f);
        assert_true(n_live(f) > before);
        assert_int_equal(shm_map_remove(&f->actor, "map.test", f->trie.root + 1), -EAGAIN);
        assert_int_equal(shm_map_remove(&f->actor, "map.none", 0), -ENOENT);
        assert_int_equal(shm_map_remove(&f->actor, "map.test", 0), 0);
        assert_int_equal(shm_map_remove(&f->actor, "map.test", 0), -ENOENT);
        assert_int_equal(shm_map_get(&f->trie, &key, buffer, sizeof(buffer), NULL), -EIDRM);
        assert_int_equal(shm_map_delete(&f->actor, &f->trie, &key, 0), -EIDRM);
        assert_int_equal(shm_map_count(&f->trie), -EIDRM);
        assert_int_equal(shm_map_expire(&f->actor, &f->trie, SHM_MAP_EPOCH_ALL, &scan, 10), -EIDRM);
        for (; !shm_map_drain_step(&f->actor, i, n); steps++)
                assert_true(steps < 100000);
        assert_true(n > 1000 || steps > 10);
        assert_true(shm_map_drain_step(&f->actor, i, n));
        assert_int_equal(n_live(f), before - 1); /* without the root */
        assert_int_equal(shm_map_get(&f->trie, &key, buffer, sizeof(buffer), NULL), -EIDRM);
}

static void test_remove(void **state) {
        remove_in_steps(*state, 1000000);
}

static void test_remove_word_by_word(void **state) {
        remove_in_steps(*state, 1);
}

/* The sweep frees it, and then another map may have its entry. */
static void test_remove_by_sweep(void **state) {
        Fixture *f = *state;
        uint64_t before = n_live(f);
        uint32_t map = f->trie.map;
        ShmMapSweeps sweeps = {};

        fill(f);
        shm_tally_begin(&f->actor, &f->trie);
        shm_tally_flush(&f->actor);
        shm_tally_end(&f->actor, &f->trie);
        assert_false(shm_map_sweeps_due(&f->arena, &sweeps));
        assert_int_equal(shm_map_remove(&f->actor, "map.test", 0), 0);
        while (shm_map_sweeps_due(&f->arena, &sweeps))
                shm_map_sweeps_step(&f->actor, &sweeps, 8);
        assert_int_equal(n_live(f), before - 1);
        map_trie_create_as(&f->actor, "map.other", &f->trie);
        assert_int_equal(f->trie.map, map);
}

#define ON_MAP(f) cmocka_unit_test_setup_teardown(f, map_setup, map_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                ON_MAP(test_remove),
                ON_MAP(test_remove_word_by_word),
                ON_MAP(test_remove_by_sweep),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
