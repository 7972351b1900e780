#include "shm/arena/root.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/util/arena.h"
#include "tests/util/test.h"

/* From the SipHash paper: key 00..0f, message 00..0e. */
static void test_hash_vector(void **state) {
        ShmArena arena = {};
        uint8_t message[15];

        for (uint8_t i = 0; i < 16; i++)
                arena.pool_key[i] = i;
        for (uint8_t i = 0; i < 15; i++)
                message[i] = i;
        assert_true(shm_hash(&arena, message, sizeof(message)) == UINT64_C(0xa129ca6149be45e5));
}

static void test_hash_keyed(void **state) {
        TestArena *t = *state;
        ShmArena other = t->arena;

        other.pool_key[3] ^= 1;
        assert_true(shm_hash(&t->arena, "abc", 3) == shm_hash(&t->arena, "abc", 3));
        assert_true(shm_hash(&t->arena, "abc", 3) != shm_hash(&other, "abc", 3));
}

static void test_set_compares(void **state) {
        TestArena *t = *state;
        uint64_t handle = 7;

        assert_int_equal(shm_root_get(&t->arena, "a", &handle), -ENOENT);
        assert_int_equal(shm_root_set(&t->arena, "a", 5, 6), -EAGAIN);
        assert_int_equal(handle, 7);
        assert_int_equal(shm_root_set(&t->arena, "a", 0, 11), 0);
        assert_int_equal(shm_root_set(&t->arena, "a", 0, 12), -EAGAIN);
        assert_int_equal(shm_root_get(&t->arena, "a", &handle), 0);
        assert_int_equal(handle, 11);
        assert_int_equal(shm_root_set(&t->arena, "a", 11, 12), 0);
        assert_int_equal(shm_root_get(&t->arena, "a", &handle), 0);
        assert_int_equal(handle, 12);
        assert_int_equal(shm_root_set(&t->arena, "a", 12, 0), 0);
        assert_int_equal(shm_root_get(&t->arena, "a", &handle), -ENOENT);
        assert_int_equal(shm_root_set(&t->arena, "a", 0, 13), 0);
}

static void test_set_bad_name(void **state) {
        char name[SHM_ROOT_NAME_SIZE + 2];
        TestArena *t = *state;
        uint64_t handle;

        memset(name, 'x', sizeof(name));
        name[SHM_ROOT_NAME_SIZE] = 0;
        assert_int_equal(shm_root_set(&t->arena, "", 0, 1), -EINVAL);
        assert_int_equal(shm_root_set(&t->arena, name, 0, 1), -EINVAL);
        assert_int_equal(shm_root_get(&t->arena, name, &handle), -EINVAL);
        name[SHM_ROOT_NAME_SIZE - 1] = 0;
        assert_int_equal(shm_root_set(&t->arena, name, 0, 1), 0);
        assert_int_equal(shm_root_get(&t->arena, name, &handle), 0);
}

static void test_set_read_only(void **state) {
        TestArena *t = *state;
        ShmArena reader = t->arena;
        uint64_t handle;

        assert_int_equal(shm_root_set(&t->arena, "a", 0, 1), 0);
        reader.read_only = true;
        assert_int_equal(shm_root_set(&reader, "a", 1, 2), -EROFS);
        assert_int_equal(shm_root_get(&reader, "a", &handle), 0);
}

static void name_of(uint32_t i, char *name) {
        snprintf(name, SHM_ROOT_NAME_SIZE, "root %u", i);
}

/* Each name keeps its own value, and a name that is unset leaves its entry to another. */
static void test_set_until_full(void **state) {
        TestArena *t = *state;
        char name[SHM_ROOT_NAME_SIZE];
        uint64_t handle;
        uint32_t n = 0;

        for (uint32_t i = 0; i < SHM_ROOTS_MAX; i++) {
                name_of(i, name);
                assert_int_equal(shm_root_n_free(&t->arena), SHM_ROOTS_MAX - i);
                assert_int_equal(shm_root_set(&t->arena, name, 0, 100 + i), 0);
        }
        assert_int_equal(shm_root_set(&t->arena, "one more", 0, 1), -ENOSPC);
        assert_int_equal(shm_root_get(&t->arena, "one more", &handle), -ENOENT);
        for (uint32_t i = 0; i < SHM_ROOTS_MAX; i++) {
                name_of(i, name);
                assert_int_equal(shm_root_get(&t->arena, name, &handle), 0);
                assert_int_equal(handle, 100 + i);
                n += shm_root_at(&t->arena, i, name, &handle) == 0;
        }
        assert_int_equal(n, SHM_ROOTS_MAX);
        assert_int_equal(shm_root_at(&t->arena, SHM_ROOTS_MAX, name, &handle), -ENOENT);
        assert_int_equal(shm_root_set(&t->arena, "root 7", 107, 0), 0);
        assert_int_equal(shm_root_set(&t->arena, "one more", 0, 1), 0);
        assert_int_equal(shm_root_index(&t->arena, "one more"), 7);
        assert_int_equal(shm_root_at(&t->arena, 7, name, &handle), 0);
        assert_string_equal(name, "one more");
        assert_int_equal(shm_root_set(&t->arena, "root 7", 0, 107), -ENOSPC);
}

/* A name takes no entry by asking for it, nor by setting it absent. */
static void test_set_takes_no_entry(void **state) {
        TestArena *t = *state;

        assert_int_equal(shm_root_set(&t->arena, "a", 0, 0), 0);
        assert_int_equal(shm_root_set(&t->arena, "b", 9, 1), -EAGAIN);
        assert_false(shm_root_was_used(&t->arena, 0));
}

/* Many names one after another, as of maps that a deploy makes and removes. */
static void test_set_again_and_again(void **state) {
        TestArena *t = *state;
        char name[SHM_ROOT_NAME_SIZE];

        for (uint32_t i = 0; i < 10 * SHM_ROOTS_MAX; i++) {
                name_of(i, name);
                assert_int_equal(shm_root_set(&t->arena, name, 0, 100 + i), 0);
                assert_int_equal(shm_root_set(&t->arena, name, 100 + i, 0), 0);
        }
        assert_true(shm_root_was_used(&t->arena, 0));
        assert_false(shm_root_was_used(&t->arena, 1));
}

/* The thread that proposed died. */
static void test_set_after_death(void **state) {
        TestArena *t = *state;
        ShmRootProposal proposal;
        char name[SHM_ROOT_NAME_SIZE];
        uint64_t handle;

        assert_int_equal(shm_root_propose(&t->arena, "a", 7, &proposal), 0);
        assert_int_equal(shm_root_get(&t->arena, "a", &handle), -ENOENT);
        assert_int_equal(shm_root_at(&t->arena, proposal.i, name, &handle), -ENOENT);
        assert_int_equal(shm_root_of(&t->arena, proposal.i), 0);
        assert_int_equal(shm_root_set(&t->arena, "a", 0, 5), 0);
        assert_int_equal(shm_root_get(&t->arena, "a", &handle), 0);
        assert_int_equal(handle, 5);
        assert_int_equal(shm_root_confirm(&t->arena, &proposal), -EAGAIN);
        assert_int_equal(shm_root_get(&t->arena, "a", &handle), 0);
        assert_int_equal(handle, 5);
        assert_int_equal(shm_root_n_free(&t->arena), SHM_ROOTS_MAX - 1);
}

/* Repair asks whether a name has the object. */
static void test_names(void **state) {
        TestArena *t = *state;
        ShmRootProposal proposal;

        assert_int_equal(shm_root_propose(&t->arena, "a", 7, &proposal), 0);
        assert_false(shm_root_names(&t->arena, 7));
        assert_int_equal(shm_root_confirm(&t->arena, &proposal), SHM_ROOT_E_WITHDRAWN);
        assert_int_equal(shm_root_set(&t->arena, "a", 0, 7), 0);
        assert_true(shm_root_names(&t->arena, 7));
        assert_int_equal(shm_root_remove(&t->arena, "a", 7), 0);
        assert_true(shm_root_names(&t->arena, 7));
}

/* Proposals of dead threads have all entries but one. */
static void test_set_full_of_proposals(void **state) {
        TestArena *t = *state;
        char name[SHM_ROOT_NAME_SIZE];
        ShmRootProposal proposal;
        uint64_t handle;

        assert_int_equal(shm_root_set(&t->arena, "a", 0, 5), 0);
        for (uint32_t i = 1; i < SHM_ROOTS_MAX; i++) {
                name_of(i, name);
                assert_int_equal(shm_root_propose(&t->arena, name, 100 + i, &proposal), 0);
        }
        assert_int_equal(shm_root_set(&t->arena, "b", 0, 6), 0);
        assert_int_equal(shm_root_get(&t->arena, "a", &handle), 0);
        assert_int_equal(shm_root_confirm(&t->arena, &proposal), SHM_ROOT_E_WITHDRAWN);
}

/* A name that was removed is free at once; its entry is not. */
static void test_remove(void **state) {
        TestArena *t = *state;
        char name[SHM_ROOT_NAME_SIZE];
        uint64_t handle;

        assert_int_equal(shm_root_set(&t->arena, "a", 0, 5), 0);
        assert_int_equal(shm_root_remove(&t->arena, "a", 6), -EAGAIN);
        assert_int_equal(shm_root_remove(&t->arena, "a", 5), 0);
        assert_int_equal(shm_root_remove(&t->arena, "a", 5), -EAGAIN);
        assert_int_equal(shm_root_get(&t->arena, "a", &handle), -ENOENT);
        assert_int_equal(shm_root_at(&t->arena, 0, name, &handle), -ENOENT);
        assert_int_equal(shm_root_set(&t->arena, "a", 0, 6), 0);
        assert_int_equal(shm_root_index(&t->arena, "a"), 1);
        assert_int_equal(shm_root_removal(&t->arena, 0), 5);
        assert_int_equal(shm_root_removal(&t->arena, 1), 0);
        shm_root_removed(&t->arena, 0, 5);
        assert_int_equal(shm_root_removal(&t->arena, 0), 0);
        assert_int_equal(shm_root_set(&t->arena, "b", 0, 7), 0);
        assert_int_equal(shm_root_index(&t->arena, "b"), 0);
}

static void test_at_scribbled(void **state) {
        TestArena *t = *state;
        char name[SHM_ROOT_NAME_SIZE];
        uint64_t handle;

        assert_int_equal(shm_root_set(&t->arena, "a", 0, 5), 0);
        memset(t->arena.header->roots[0].name, 0x1b, sizeof(t->arena.header->roots[0].name));
        assert_int_equal(shm_root_at(&t->arena, 0, name, &handle), 0);
        assert_int_equal(name[0], '#');
        assert_int_equal(strlen(name), 17);
        assert_int_equal(shm_root_get(&t->arena, "a", &handle), 0);
}

#define ON_ARENA(f) cmocka_unit_test_setup_teardown(f, test_arena_setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_hash_vector),   ON_ARENA(test_hash_keyed),
                ON_ARENA(test_set_compares),          ON_ARENA(test_set_bad_name),
                ON_ARENA(test_set_read_only),         ON_ARENA(test_set_until_full),
                ON_ARENA(test_set_takes_no_entry),    ON_ARENA(test_set_again_and_again),
                ON_ARENA(test_set_after_death),       ON_ARENA(test_names),
                ON_ARENA(test_set_full_of_proposals), ON_ARENA(test_remove),
                ON_ARENA(test_at_scribbled),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
