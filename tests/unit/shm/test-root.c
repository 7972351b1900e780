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

/* Probes collide in any order, and each of 64 names keeps its own value. */
static void test_set_until_full(void **state) {
        TestArena *t = *state;
        char name[SHM_ROOT_NAME_SIZE];
        uint64_t handle;
        uint32_t n = 0;

        for (uint32_t i = 0; i < SHM_ROOTS_MAX; i++) {
                name_of(i, name);
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
}

/* A name is taken by its first set, not by asking for it, nor by setting it absent. */
static void test_set_takes_no_entry(void **state) {
        TestArena *t = *state;

        assert_int_equal(shm_root_set(&t->arena, "a", 0, 0), 0);
        assert_int_equal(shm_root_set(&t->arena, "b", 9, 1), -EAGAIN);
        for (uint32_t i = 0; i < SHM_ROOTS_MAX; i++)
                assert_true(t->arena.header->roots[i].hash == 0);
}

static ShmRoot *entry(TestArena *t, const char *name) {
        uint64_t hash = shm_hash(&t->arena, name, strlen(name));

        for (uint32_t i = 0; i < SHM_ROOTS_MAX; i++)
                if (t->arena.header->roots[i].hash == hash)
                        return &t->arena.header->roots[i];
        return NULL;
}

/* The one who took the entry died before it wrote the text, or before the handle. */
static void test_set_after_death(void **state) {
        TestArena *t = *state;
        uint64_t hash = shm_hash(&t->arena, "a", 1), handle;
        char name[SHM_ROOT_NAME_SIZE];
        ShmRoot *root = &t->arena.header->roots[hash % SHM_ROOTS_MAX];

        root->hash = hash;
        assert_int_equal(shm_root_get(&t->arena, "a", &handle), -ENOENT);
        assert_int_equal(shm_root_at(&t->arena, (uint32_t) (root - t->arena.header->roots), name, &handle),
                         -ENOENT);
        assert_int_equal(shm_root_set(&t->arena, "a", 0, 5), 0);
        assert_int_equal(shm_root_at(&t->arena, (uint32_t) (root - t->arena.header->roots), name, &handle),
                         0);
        assert_string_equal(name, "a");
        assert_int_equal(handle, 5);
}

static void test_at_scribbled(void **state) {
        TestArena *t = *state;
        char name[SHM_ROOT_NAME_SIZE];
        uint64_t handle;
        ShmRoot *root;

        assert_int_equal(shm_root_set(&t->arena, "a", 0, 5), 0);
        root = entry(t, "a");
        memset(root->name, 0x1b, sizeof(root->name));
        assert_int_equal(shm_root_at(&t->arena, (uint32_t) (root - t->arena.header->roots), name, &handle),
                         0);
        assert_int_equal(strlen(name), SHM_ROOT_NAME_SIZE - 1);
        assert_int_equal(strspn(name, "?"), SHM_ROOT_NAME_SIZE - 1);
        memset(root->name, 0, sizeof(root->name));
        assert_int_equal(shm_root_at(&t->arena, (uint32_t) (root - t->arena.header->roots), name, &handle),
                         0);
        assert_int_equal(name[0], '#');
}

#define ON_ARENA(f) cmocka_unit_test_setup_teardown(f, test_arena_setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_hash_vector), ON_ARENA(test_hash_keyed),
                ON_ARENA(test_set_compares),        ON_ARENA(test_set_bad_name),
                ON_ARENA(test_set_read_only),       ON_ARENA(test_set_until_full),
                ON_ARENA(test_set_takes_no_entry),  ON_ARENA(test_set_after_death),
                ON_ARENA(test_at_scribbled),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
