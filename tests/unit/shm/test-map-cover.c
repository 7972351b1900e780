/* Covers of near caches and the fills of their copies, in one thread and on clocks of the test's own. */
#include "shm/arena/client.h"
#include "shm/cache/cache.h"
#include "shm/map/entry/claim.h"
#include "shm/near/cover.h"
#include "shm/map/state/lifetime.h"
#include "tests/unit/shm/map-fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BEGIN_MS (UINT64_C(1) << 40) /* later than any clock of the system */
#define LIMIT 30000

typedef struct Fixture {
        ShmArena arena;
        ShmActor actor;
        ShmTrie trie;
        uint64_t version;
} Fixture;

static uint64_t clock_ms;

static uint64_t clock_ns(const ShmArena *arena) {
        (void) arena;
        return clock_ms * SHM_NS_PER_MS;
}

static int setup(void **state) {
        ShmClientInfo client = { .pid = 100, .start_time = 7 };
        Fixture *f = calloc(1, sizeof(*f));

        clock_ms = BEGIN_MS;
        map_arena_create(&f->arena, UINT64_C(4) << 20);
        assert_int_equal(shm_client_add(&f->arena, &client), 0);
        assert_int_equal(shm_actor_init(&f->actor, &f->arena, client.index, 1), 0);
        map_trie_create(&f->actor, &f->trie);
        f->trie.now_ns = clock_ns;
        *state = f;
        return 0;
}

static int teardown(void **state) {
        Fixture *f = *state;

        map_actor_leave(&f->actor);
        shm_arena_deinit(&f->arena);
        free(f);
        return 0;
}

static void test_cover_holds_by_both_clocks(void **state) {
        const ShmCover cover = { .until = { .monotonic_ms = 100, .real_ms = 1000 } };
        const struct {
                ShmCoverTime now;
                bool holds;
        } cases[] = {
                { { 99, 999 }, true },      { { 100, 999 }, false },
                { { 99, 1000 }, false },    { { 200, 10 }, false }, /* the clock was set back */
                { { 99, 4600000 }, false }, /* the system was suspended */
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_int_equal(shm_cover_holds(&cover, &cases[i].now), cases[i].holds);
}

static uint64_t make_cover(Fixture *f, const char *prefixes, uint32_t size) {
        uint64_t handle;
        void *object;

        assert_int_equal(shm_object_alloc(&f->actor, sizeof(ShmCover) + size, SHM_EPOCH_CURRENT, NULL,
                                          &handle, &object),
                         0);
        shm_cover_init(object, handle, 7, 0, size);
        memcpy((uint8_t *) object + sizeof(ShmCover), prefixes, size);
        return handle;
}

static void test_cover_moves(void **state) {
        const ShmCoverTime until = { 10, 20 }, later = { 30, 40 };
        Fixture *f = *state;
        uint64_t handle = make_cover(f, "", 0);
        ShmCoverTime seen = {}, other = {};
        ShmCover cover;

        assert_int_equal(shm_cover_load(&f->arena, handle, &cover), 0);
        assert_int_equal(cover.until.monotonic_ms, 0);
        assert_int_equal(cover.until.real_ms, 0);
        assert_int_equal(cover.epoch, 7);
        assert_int_equal(shm_cover_set(&f->actor, handle, &seen, &until), 0);
        assert_int_equal(shm_cover_set(&f->actor, handle, &other, &later), -ESTALE);
        assert_int_equal(shm_cover_load(&f->arena, handle, &cover), 0);
        assert_memory_equal(&cover.until, &until, sizeof(until));
        assert_int_equal(shm_cover_set(&f->actor, handle, &seen, &later), 0);
        assert_int_equal(shm_object_free(&f->actor, handle), 0);
        assert_int_equal(shm_cover_set(&f->actor, handle, &seen, &until), -ESTALE);
        assert_int_equal(shm_cover_load(&f->arena, handle, &cover), -ENOENT);
}

static void test_cover_has_keys(void **state) {
        Fixture *f = *state;
        uint64_t all = make_cover(f, "", 0), some = make_cover(f, "ab\0c", 5);
        ShmCover cover;

        assert_int_equal(shm_cover_load(&f->arena, all, &cover), 0);
        assert_true(shm_cover_has_key(&f->arena, all, &cover, "", 0));
        assert_int_equal(shm_cover_load(&f->arena, some, &cover), 0);
        assert_true(shm_cover_has_key(&f->arena, some, &cover, "ab", 2));
        assert_true(shm_cover_has_key(&f->arena, some, &cover, "cab", 3));
        assert_false(shm_cover_has_key(&f->arena, some, &cover, "a", 1));
        assert_false(shm_cover_has_key(&f->arena, some, &cover, "", 0));
        assert_false(shm_cover_has_key(&f->arena, some, &cover, "bab", 3));
        cover.prefixes_size = UINT16_MAX;
        assert_false(shm_cover_has_key(&f->arena, some, &cover, "ab", 2));
}

/* Another object, prefixes without an end, and more of them than there can be. */
static void test_cover_damaged(void **state) {
        const size_t size = SHM_COVER_PREFIXES_MAX + 1;
        Fixture *f = *state;
        uint64_t handle;
        ShmCover cover;
        void *object;

        assert_int_equal(
                shm_object_alloc(&f->actor, sizeof(cover) + size, SHM_EPOCH_CURRENT, NULL, &handle, &object),
                0);
        memset(object, 0, sizeof(cover) + size);
        assert_int_equal(shm_cover_load(&f->arena, handle, &cover), -ENOENT);
        shm_cover_init(object, handle, 7, 0, size);
        assert_int_equal(shm_cover_load(&f->arena, handle, &cover), 0);
        assert_false(shm_cover_has_key(&f->arena, handle, &cover, "ab", 2));
        shm_cover_init(object, handle, 7, 0, 2);
        memcpy((ShmCover *) object + 1, "abc", 3);
        assert_int_equal(shm_cover_load(&f->arena, handle, &cover), 0);
        assert_true(shm_cover_has_key(&f->arena, handle, &cover, "a", 1));
        assert_false(shm_cover_has_key(&f->arena, handle, &cover, "b", 1));
}

static ShmMapKey key_of(Fixture *f) {
        return (ShmMapKey){ "key", 3, shm_hash(&f->arena, "key", 3) };
}

static void claim(Fixture *f) {
        const ShmMapClaim claim = { .limit_ms = LIMIT };
        ShmMapKey k = key_of(f);
        ShmClaimed claimed = {};

        assert_int_equal(shm_map_claim(&f->actor, &f->trie, &k, &claim, &claimed), 0);
        f->version = claimed.version;
}

static int fulfil(Fixture *f, uint64_t ttl_ms) {
        ShmMapKey k = key_of(f);
        ShmMapPut put = {};
        int r;

        r = shm_map_fulfil(&f->trie, &k, f->version, LIMIT, ttl_ms, &put);
        if (r)
                return r;
        put.value = "v";
        put.value_size = 1;
        return shm_map_put(&f->actor, &f->trie, &k, &put, NULL);
}

static void test_fulfil_counts_from_the_claim(void **state) {
        Fixture *f = *state;
        ShmMapKey k = key_of(f);
        char value[8];

        claim(f);
        clock_ms += 100;
        assert_int_equal(fulfil(f, 100), -EAGAIN);
        assert_int_equal(fulfil(f, 150), 0);
        clock_ms += 49;
        assert_int_equal(shm_map_get(&f->trie, &k, value, sizeof(value), NULL), 1);
        clock_ms += 1;
        assert_int_equal(shm_map_get(&f->trie, &k, value, sizeof(value), NULL), -ENOENT);
}

static void test_fulfil_of_a_claim_that_is_over(void **state) {
        Fixture *f = *state;
        ShmMapKey k = key_of(f);

        claim(f);
        clock_ms += LIMIT;
        assert_int_equal(fulfil(f, SHM_MAP_TTL_NONE), -EAGAIN);
        claim(f);
        assert_int_equal(fulfil(f, SHM_MAP_TTL_NONE), 0);
        assert_int_equal(fulfil(f, SHM_MAP_TTL_NONE), -EAGAIN);
        assert_int_equal(shm_map_delete(&f->actor, &f->trie, &k, 0), 0);
        assert_int_equal(fulfil(f, SHM_MAP_TTL_NONE), -EAGAIN);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cover_holds_by_both_clocks),
                cmocka_unit_test_setup_teardown(test_cover_moves, setup, teardown),
                cmocka_unit_test_setup_teardown(test_cover_has_keys, setup, teardown),
                cmocka_unit_test_setup_teardown(test_cover_damaged, setup, teardown),
                cmocka_unit_test_setup_teardown(test_fulfil_counts_from_the_claim, setup, teardown),
                cmocka_unit_test_setup_teardown(test_fulfil_of_a_claim_that_is_over, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
