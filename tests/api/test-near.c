/* Near caches, as their programs and the daemon that covers them call them. */
#include "tests/util/test.h"

#include <errno.h>
#include <string.h>
#include <tslab_near.h>
#include <unistd.h>

#define COVER_MS 60000

typedef struct Fixture {
        struct tslab *pool;
        struct tslab_near *near, *other; /* that which gives the cover, and a program's */
        char buffer[64];
        tslab_handle claim;
} Fixture;

static int setup(void **state) {
        static Fixture f;
        const struct tslab_options options = { .size = sizeof(options), .arena_bytes = 4 << 20 };

        f = (Fixture){};
        assert_int_equal(tslab_create(&f.pool, &options), 0);
        assert_int_equal(tslab_near_open(&f.near, f.pool, "near", NULL), 0);
        assert_int_equal(tslab_near_open(&f.other, f.pool, "near", NULL), 0);
        *state = &f;
        return 0;
}

static int teardown(void **state) {
        Fixture *f = *state;

        assert_null(tslab_near_close(f->other));
        assert_null(tslab_near_close(f->near));
        assert_null(tslab_close(f->pool));
        return 0;
}

static ssize_t get(Fixture *f, const char *key) {
        return tslab_near_get(f->other, key, strlen(key), f->buffer, sizeof(f->buffer), 0, &f->claim);
}

static int fill(Fixture *f, const char *key, tslab_handle claim, const char *value) {
        return tslab_near_fill(f->other, key, strlen(key), claim, value, value ? strlen(value) : 0, 0);
}

static void cover(Fixture *f) {
        assert_int_equal(tslab_near_begin(f->near), 0);
        assert_int_equal(tslab_near_cover(f->near, COVER_MS), 0);
}

/* A copy that programs read. */
static void put_copy(Fixture *f, const char *key, const char *value) {
        assert_int_equal(get(f, key), -ENOENT);
        assert_int_not_equal(f->claim, 0);
        assert_int_equal(fill(f, key, f->claim, value), 0);
        assert_int_equal(get(f, key), value ? (ssize_t) strlen(value) : -ENODATA);
}

static void test_nothing_is_kept_without_a_cover(void **state) {
        Fixture *f = *state;

        assert_int_equal(get(f, "a"), -ENOENT);
        assert_int_equal(f->claim, 0);
        assert_int_equal(fill(f, "a", 0, "one"), 0);
        assert_int_equal(get(f, "a"), -ENOENT);
        assert_int_equal(tslab_near_cover(f->near, COVER_MS), -ESTALE);
}

static void test_copies(void **state) {
        Fixture *f = *state;

        cover(f);
        put_copy(f, "a", "one");
        assert_memory_equal(f->buffer, "one", 3);
        put_copy(f, "empty", "");
        put_copy(f, "absent", NULL);
        assert_int_equal(tslab_near_drop(f->near, "a", 1), 0);
        assert_int_equal(tslab_near_drop(f->near, "a", 1), 0);
        put_copy(f, "a", "two");
        assert_int_equal(tslab_near_get(f->other, "a", 1, f->buffer, 2, 0, &f->claim), -EMSGSIZE);
}

static void test_an_answer_behind_a_change_is_refused(void **state) {
        Fixture *f = *state;

        cover(f);
        assert_int_equal(get(f, "a"), -ENOENT);
        assert_int_equal(tslab_near_drop(f->near, "a", 1), 0);
        assert_int_equal(fill(f, "a", f->claim, "old"), -EAGAIN);
        put_copy(f, "a", "new");
}

static void test_one_program_asks(void **state) {
        Fixture *f = *state;
        tslab_handle first;

        cover(f);
        assert_int_equal(get(f, "a"), -ENOENT);
        first = f->claim;
        assert_int_equal(get(f, "a"), -ENOENT);
        assert_int_equal(f->claim, 0);
        assert_int_equal(tslab_near_give_up(f->other, "a", 1, first), 0);
        assert_int_equal(tslab_near_give_up(f->other, "a", 1, first), 0);
        put_copy(f, "a", "one");
}

static void test_end_revokes_copies_and_claims(void **state) {
        Fixture *f = *state;
        tslab_handle claim;

        cover(f);
        put_copy(f, "a", "one");
        assert_int_equal(get(f, "b"), -ENOENT);
        claim = f->claim;
        assert_int_equal(tslab_near_end(f->near), 0);
        assert_int_equal(tslab_near_end(f->near), 0);
        assert_int_equal(get(f, "a"), -ENOENT);
        assert_int_equal(f->claim, 0);
        cover(f);
        assert_int_equal(fill(f, "b", claim, "old"), -EAGAIN);
        put_copy(f, "a", "two");
        put_copy(f, "b", "two");
}

static void test_a_cover_that_is_over(void **state) {
        Fixture *f = *state;

        cover(f);
        put_copy(f, "a", "one");
        assert_int_equal(tslab_near_cover(f->near, 0), 0);
        assert_int_equal(get(f, "a"), -ENOENT);
        assert_int_equal(tslab_near_cover(f->near, COVER_MS), 0);
        assert_int_equal(get(f, "a"), 3);
        assert_int_equal(tslab_near_cover(f->near, 1), 0);
        usleep(20000);
        assert_int_equal(get(f, "a"), -ENOENT);
}

static void test_one_gives_the_cover(void **state) {
        Fixture *f = *state;

        cover(f);
        assert_int_equal(tslab_near_begin(f->near), -EALREADY);
        assert_int_equal(tslab_near_begin(f->other), -EBUSY);
        f->near = tslab_near_close(f->near);
        assert_int_equal(tslab_near_begin(f->other), 0);
}

static void test_names(void **state) {
        Fixture *f = *state;
        struct tslab_near *near;
        char name[44];

        memset(name, 'n', sizeof(name));
        name[43] = 0;
        assert_int_equal(tslab_near_open(&near, f->pool, name, NULL), -EINVAL);
        name[42] = 0;
        assert_int_equal(tslab_near_open(&near, f->pool, name, NULL), 0);
        assert_null(tslab_near_close(near));
        assert_null(tslab_near_close(NULL));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_nothing_is_kept_without_a_cover, setup, teardown),
                cmocka_unit_test_setup_teardown(test_copies, setup, teardown),
                cmocka_unit_test_setup_teardown(test_an_answer_behind_a_change_is_refused, setup, teardown),
                cmocka_unit_test_setup_teardown(test_one_program_asks, setup, teardown),
                cmocka_unit_test_setup_teardown(test_end_revokes_copies_and_claims, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_cover_that_is_over, setup, teardown),
                cmocka_unit_test_setup_teardown(test_one_gives_the_cover, setup, teardown),
                cmocka_unit_test_setup_teardown(test_names, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
