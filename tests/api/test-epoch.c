#include <tslab.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/util/advance.h"
#include "tests/util/process.h"
#include "tests/util/seed.h"
#include "tests/util/test.h"

static int setup(void **state) {
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, NULL), 0);
        *state = pool;
        return 0;
}

static int teardown(void **state) {
        tslab_close(*state);
        return 0;
}

static uint32_t current(struct tslab *pool) {
        uint32_t epoch;

        assert_int_equal(tslab_epoch_current(pool, &epoch), 0);
        return epoch;
}

static struct tslab_epoch_info info_of(struct tslab *pool, uint32_t epoch) {
        struct tslab_epoch_info info = { .size = sizeof(info) };

        assert_int_equal(tslab_epoch_info(pool, epoch, &info), 0);
        return info;
}

static void test_advance(void **state) {
        struct tslab *pool = *state;
        uint32_t first = current(pool), second;
        tslab_handle handle, other;
        void *object;

        assert_int_equal(tslab_alloc(pool, 64, first, &handle, NULL), 0);
        assert_int_equal(tslab_epoch_advance(pool, &second), 0);
        assert_int_not_equal(first & 0xff, second & 0xff);
        assert_int_equal(current(pool), second);
        assert_int_equal(tslab_alloc(pool, 64, first, &other, NULL), -ESHUTDOWN);
        assert_int_equal(tslab_alloc(pool, 64, second, &other, NULL), 0);
        assert_int_equal(tslab_get(pool, handle, &object, NULL), 0);
        assert_int_equal(tslab_free(pool, handle), 0);
        assert_int_equal(tslab_epoch_advance(pool, NULL), 0);
}

/* Twice around the ring: eras rise, an old era is refused, and its objects stay unchanged. */
static void test_advance_around(void **state) {
        struct tslab *pool = *state;
        uint32_t first = current(pool), epoch;
        tslab_handle old, handle;
        void *object;

        assert_int_equal(tslab_alloc(pool, 64, first, &old, &object), 0);
        strcpy(object, "old");
        for (int i = 0; i < 32; i++) {
                assert_int_equal(tslab_epoch_advance(pool, &epoch), 0);
                assert_int_equal(tslab_alloc(pool, 64, epoch, &handle, NULL), 0);
        }
        assert_int_equal(epoch & 0xff, first & 0xff);
        assert_int_equal(epoch >> 8, (first >> 8) + 2);
        assert_int_equal(tslab_alloc(pool, 64, first, &handle, NULL), -ESTALE);
        assert_int_equal(tslab_epoch_close(pool, first, 0), -ESTALE);
        assert_int_equal(tslab_get(pool, old, &object, NULL), 0);
        assert_string_equal(object, "old");
        assert_int_equal(tslab_free(pool, old), 0);
}

static void test_advance_from(void **state) {
        struct tslab *pool = *state;
        uint32_t first = current(pool), second, now = 77;

        assert_int_equal(tslab_epoch_advance_from(pool, first, &second), 1);
        assert_int_equal(current(pool), second);
        assert_int_equal(tslab_epoch_advance_from(pool, first, &now), 0);
        assert_int_equal(now, second);
        assert_int_equal(tslab_epoch_advance_from(pool, first, NULL), 0);
        assert_int_equal(current(pool), second);
        assert_int_equal(tslab_epoch_advance_from(pool, second + (1U << 8), &now), 0); /* an era to come */
        assert_int_equal(tslab_epoch_advance_from(pool, second, NULL), 1);
        assert_int_not_equal(current(pool), second);
}

static void test_advance_from_bad_input(void **state) {
        struct tslab *pool = *state;
        uint32_t first = current(pool), now = 77;

        assert_int_equal(tslab_epoch_advance_from(pool, TSLAB_EPOCH_CURRENT, &now), -EINVAL);
        assert_int_equal(tslab_epoch_advance_from(pool, first & 0xff, &now), -EINVAL);
        assert_int_equal(tslab_epoch_advance_from(pool, 16 | 1 << 8, &now), -EINVAL);
        assert_int_equal(now, 77);
        assert_int_equal(current(pool), first);
}

static void test_advance_from_by_many(void **state) {
        advance_by_many(*state);
}

static void test_reserve(void **state) {
        struct tslab *pool = *state;
        uint32_t reserved, epoch, n = 1;
        struct tslab_epoch_info info;
        tslab_handle handle;

        assert_int_equal(tslab_epoch_reserve(pool, "a label that is longer than 31 b", &reserved), -EINVAL);
        assert_int_equal(tslab_epoch_reserve(pool, "two\nlines", &reserved), -EINVAL);
        assert_int_equal(tslab_epoch_reserve(pool, "index", &reserved), 0);
        info = info_of(pool, reserved);
        assert_true(info.reserved);
        assert_false(info.current);
        assert_int_equal(info.epoch, reserved);
        assert_string_equal(info.label, "index");
        for (int i = 0; i < 40; i++) {
                assert_int_equal(tslab_epoch_advance(pool, &epoch), 0);
                assert_int_not_equal(epoch & 0xff, reserved & 0xff);
        }
        assert_int_equal(tslab_alloc(pool, 64, reserved, &handle, NULL), 0);
        while (tslab_epoch_reserve(pool, NULL, &epoch) == 0)
                n++;
        assert_int_equal(tslab_epoch_reserve(pool, "", &epoch), -ENOSPC);
        assert_int_equal(n, 14); /* two are left to rotate */
        assert_int_equal(tslab_epoch_close(pool, reserved, 0), 0);
        assert_int_equal(tslab_alloc(pool, 64, reserved, &handle, NULL), -ESHUTDOWN);
        assert_false(info_of(pool, reserved).reserved);
}

static void test_label(void **state) {
        struct tslab *pool = *state;
        uint32_t first = current(pool), epoch;

        assert_int_equal(tslab_epoch_label(pool, TSLAB_EPOCH_CURRENT, "morning"), 0);
        assert_string_equal(info_of(pool, first).label, "morning");
        assert_int_equal(tslab_epoch_advance(pool, &epoch), 0);
        assert_string_equal(info_of(pool, epoch).label, "");
        assert_int_equal(tslab_epoch_label(pool, first, "yesterday"), 0); /* closed by now */
        assert_string_equal(info_of(pool, first).label, "yesterday");
        assert_int_equal(tslab_epoch_label(pool, first, NULL), 0);
        assert_string_equal(info_of(pool, first).label, "");
}

static void test_label_bad_input(void **state) {
        struct tslab *pool = *state;
        uint32_t first = current(pool), epoch;

        assert_int_equal(tslab_epoch_label(pool, first, "kept"), 0);
        assert_int_equal(tslab_epoch_label(pool, first, "a label that is longer than 31 b"), -EINVAL);
        assert_int_equal(tslab_epoch_label(pool, first, "two\nlines"), -EINVAL);
        assert_int_equal(tslab_epoch_label(pool, 16, "none"), -EINVAL);
        assert_string_equal(info_of(pool, first).label, "kept");
        for (int i = 0; i < 16; i++)
                assert_int_equal(tslab_epoch_advance(pool, &epoch), 0);
        assert_int_equal(tslab_epoch_label(pool, first, "late"), -ESTALE);
        assert_string_equal(info_of(pool, epoch).label, "");
}

static void test_close_revoke(void **state) {
        struct tslab *pool = *state;
        tslab_handle gone[100], kept;
        uint32_t epoch;
        void *object;

        assert_int_equal(tslab_epoch_reserve(pool, NULL, &epoch), 0);
        for (int i = 0; i < 100; i++)
                assert_int_equal(tslab_alloc(pool, 100, epoch, &gone[i], NULL), 0);
        assert_int_equal(tslab_alloc(pool, 100, TSLAB_EPOCH_CURRENT, &kept, NULL), 0);
        assert_int_equal(tslab_epoch_close(pool, epoch, TSLAB_CLOSE_REVOKE), 0);
        for (int i = 0; i < 100; i++)
                assert_int_equal(tslab_free(pool, gone[i]), -ESTALE);
        assert_int_equal(info_of(pool, epoch).state, TSLAB_EPOCH_DRAINED);
        assert_int_equal(tslab_get(pool, kept, &object, NULL), 0);
        assert_int_equal(tslab_free(pool, kept), 0);
}

static void test_close_bad_input(void **state) {
        struct tslab *pool = *state;

        assert_int_equal(tslab_epoch_close(pool, 9, TSLAB_CLOSE_REVOKE | 4), -EINVAL);
        assert_int_equal(tslab_epoch_close(pool, 0, TSLAB_CLOSE_OLDER), -EINVAL);
        assert_int_equal(tslab_epoch_close(pool, 16, 0), -EINVAL);
        assert_int_equal(tslab_epoch_close(pool, 99 << 8, 0), -ESTALE);
}

static void test_info(void **state) {
        struct tslab *pool = *state;
        struct tslab_epoch_info info = { .size = sizeof(size_t) };
        struct {
                struct tslab_epoch_info info;
                uint64_t later;
        } longer = { .info = { .size = sizeof(longer) }, .later = 5 };

        assert_int_equal(tslab_epoch_info(pool, 0, &info), -EINVAL);
        info.size = sizeof(info);
        assert_int_equal(tslab_epoch_info(pool, 16, &info), -EINVAL);
        assert_int_equal(tslab_epoch_info(pool, 9 << 8, &info), -ESTALE);
        info = info_of(pool, TSLAB_EPOCH_CURRENT);
        assert_int_equal(info.epoch, current(pool));
        assert_int_equal(info.state, TSLAB_EPOCH_OPEN);
        assert_true(info.current);
        assert_true(info.opened_usec > 0);
        assert_true(info.closed_usec == 0);
        assert_int_equal(tslab_epoch_info(pool, 0, &longer.info), 0);
        assert_true(longer.later == 0);
        assert_int_equal(longer.info.size, sizeof(longer));
}

#define N_OBJECTS (64 * 512) /* 512 slabs, 2 MiB */

/* When close returns, empty slabs have gone; the others go with their last object. */
static void test_close_gives_memory_back(void **state) {
        tslab_handle *handles = calloc(N_OBJECTS, sizeof(*handles)), handle;
        struct tslab *pool = *state;
        uint64_t full, before, half;
        uint32_t epoch = current(pool);
        void *object;

        assert_int_equal(tslab_epoch_advance(pool, NULL), 0);
        assert_int_equal(tslab_epoch_reserve(pool, "big", &epoch), 0);
        before = test_pool_memory();
        assert_int_equal(tslab_alloc_batch(pool, 64, epoch, handles, N_OBJECTS), N_OBJECTS);
        full = test_pool_memory();
        assert_true(full >= before + (2 << 20));
        /* Memory of free slabs is kept, before the close. */
        assert_int_equal(tslab_free_batch(pool, handles, N_OBJECTS / 2), N_OBJECTS / 2);
        assert_true(test_pool_memory() <= full + 4096); /* a page of a slab set may be new */

        assert_int_equal(tslab_epoch_close(pool, epoch, 0), 0);
        half = test_pool_memory();
        assert_true(half <= full - (1 << 20) + 4096);
        assert_int_equal(info_of(pool, epoch).state, TSLAB_EPOCH_CLOSING);
        assert_int_equal(tslab_alloc(pool, 64, epoch, &handle, NULL), -ESHUTDOWN);
        for (int i = N_OBJECTS / 2; i < N_OBJECTS; i++) {
                assert_int_equal(tslab_get(pool, handles[i], &object, NULL), 0);
                assert_int_equal(tslab_free(pool, handles[i]), 0);
                if (i % 4096 == 4095)
                        assert_true(test_pool_memory() <=
                                    half - (uint64_t) (i - N_OBJECTS / 2) * 64 + 2 * 4096);
        }
        assert_int_equal(info_of(pool, epoch).state, TSLAB_EPOCH_DRAINED);
        assert_int_equal(info_of(pool, epoch).reclaimed_bytes, N_OBJECTS * 64);
        assert_int_equal(tslab_epoch_close(pool, epoch, 0), 0);
        free(handles);
}

/* The same by one batch, and with closed epochs in between. */
static void test_close_then_free_batch(void **state) {
        tslab_handle *handles = calloc(N_OBJECTS, sizeof(*handles));
        struct tslab *pool = *state;
        uint32_t epoch = current(pool);
        uint64_t full;

        assert_int_equal(tslab_alloc_batch(pool, 64, epoch, handles, N_OBJECTS), N_OBJECTS);
        full = test_pool_memory();
        assert_int_equal(tslab_epoch_close(pool, TSLAB_EPOCH_CURRENT, 0), 0);
        assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, handles, NULL), -ESHUTDOWN);
        assert_int_equal(tslab_free_batch(pool, handles, N_OBJECTS), N_OBJECTS);
        assert_true(test_pool_memory() <= full - (2 << 20) + 2 * 4096); /* metadata came */
        assert_int_equal(tslab_epoch_advance(pool, NULL), 0);
        assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, handles, NULL), 0);
        free(handles);
}

typedef enum Order { ASCENDING, DESCENDING, SHUFFLED } Order;

static void shuffle(tslab_handle *handles, uint32_t n) {
        uint64_t seed = seed_get();

        for (uint32_t i = 0; i < n; i++) {
                uint32_t other = i + seed_below(&seed, n - i);
                tslab_handle handle = handles[i];

                handles[i] = handles[other];
                handles[other] = handle;
        }
}

/* Objects of a closed epoch are freed one by one: in any order, a slab goes with its last object. */
static void free_closed_in_order(struct tslab *pool, Order order) {
        enum { N = 64 * 200 }; /* 200 slabs */
        tslab_handle *handles = calloc(N, sizeof(*handles)), other;
        uint32_t epoch;
        uint64_t full;

        assert_int_equal(tslab_epoch_reserve(pool, "closed", &epoch), 0);
        assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &other, NULL), 0);
        assert_int_equal(tslab_alloc_batch(pool, 64, epoch, handles, N), N);
        full = test_pool_memory();
        assert_int_equal(tslab_epoch_close(pool, epoch, 0), 0);
        if (order == SHUFFLED)
                shuffle(handles, N);
        for (int i = 0; i < N; i++) {
                assert_int_equal(tslab_free(pool, handles[order == DESCENDING ? N - 1 - i : i]), 0);
                if (order != SHUFFLED && i % 1024 == 1023)
                        assert_true(test_pool_memory() <= full - (uint64_t) i * 64 + 2 * 4096);
        }
        assert_true(test_pool_memory() <= full - N * 64 + 2 * 4096);
        assert_int_equal(info_of(pool, epoch).state, TSLAB_EPOCH_DRAINED);
        assert_true(info_of(pool, epoch).reclaimed_bytes >= N * 64);
        assert_true(info_of(pool, epoch).reclaimed_bytes <=
                    N * 64 + 2 * 4096); /* the cache held two more, at most */
        assert_int_equal(tslab_free(pool, other), 0);
        free(handles);
}

static void test_free_closed_oldest_first(void **state) {
        free_closed_in_order(*state, ASCENDING);
}

static void test_free_closed_newest_first(void **state) {
        free_closed_in_order(*state, DESCENDING);
}

static void test_free_closed_at_random(void **state) {
        free_closed_in_order(*state, SHUFFLED);
}

/* Open epochs keep no more than `retain`. */
static void test_retain(void **state) {
        struct tslab_options options = { .size = sizeof(options), .retain_bytes = 64 << 10 };
        tslab_handle *handles = calloc(N_OBJECTS, sizeof(*handles));
        struct tslab *pool;
        uint64_t before;

        (void) state;
        assert_int_equal(tslab_create(&pool, &options), 0);
        assert_int_equal(tslab_alloc_batch(pool, 64, TSLAB_EPOCH_CURRENT, handles, N_OBJECTS), N_OBJECTS);
        before = test_pool_memory();
        for (int i = 0; i < N_OBJECTS; i++)
                assert_int_equal(tslab_free(pool, handles[i]), 0);
        assert_int_equal(tslab_drain(pool), 0);
        assert_true(test_pool_memory() <= before - (2 << 20) + (64 << 10) + (8 << 10));
        /* The tags of the others may go, too: a 16th of what they are for. */
        assert_true(test_pool_memory() >= before - (2 << 20) + (64 << 10) - (128 << 10));
        tslab_close(pool);
        free(handles);
}
/* Earlier eras of which an object was in a thread's hands are revoked to the end by the next call. */
static void test_revoke_older_again(void **state) {
        struct tslab *pool = *state;
        tslab_handle noted, object;
        uint32_t epoch = 0;

        assert_int_equal(tslab_alloc_pending(pool, 64, 0, &noted, NULL), 0);
        while (epoch != (0 | 4 << 8)) {
                assert_int_equal(tslab_epoch_advance(pool, &epoch), 0);
                if (epoch == (0 | 3 << 8))
                        assert_int_equal(tslab_alloc(pool, 64, epoch, &object, NULL), 0);
        }
        assert_int_equal(tslab_epoch_close(pool, 0 | 1 << 8, TSLAB_CLOSE_REVOKE), 0);
        assert_int_equal(tslab_epoch_close(pool, 0 | 3 << 8, TSLAB_CLOSE_REVOKE), -EBUSY);
        assert_int_equal(tslab_publish(pool, noted), 0);
        assert_int_equal(tslab_epoch_close(pool, 0 | 3 << 8, TSLAB_CLOSE_REVOKE), 0);
        assert_int_equal(tslab_free(pool, object), -ESTALE);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_advance, setup, teardown),
                cmocka_unit_test_setup_teardown(test_advance_around, setup, teardown),
                cmocka_unit_test_setup_teardown(test_advance_from, setup, teardown),
                cmocka_unit_test_setup_teardown(test_advance_from_bad_input, setup, teardown),
                cmocka_unit_test_setup_teardown(test_advance_from_by_many, setup, teardown),
                cmocka_unit_test_setup_teardown(test_reserve, setup, teardown),
                cmocka_unit_test_setup_teardown(test_label, setup, teardown),
                cmocka_unit_test_setup_teardown(test_label_bad_input, setup, teardown),
                cmocka_unit_test_setup_teardown(test_close_revoke, setup, teardown),
                cmocka_unit_test_setup_teardown(test_revoke_older_again, setup, teardown),
                cmocka_unit_test_setup_teardown(test_close_bad_input, setup, teardown),
                cmocka_unit_test_setup_teardown(test_info, setup, teardown),
                cmocka_unit_test_setup_teardown(test_close_gives_memory_back, setup, teardown),
                cmocka_unit_test_setup_teardown(test_close_then_free_batch, setup, teardown),
                cmocka_unit_test_setup_teardown(test_free_closed_oldest_first, setup, teardown),
                cmocka_unit_test_setup_teardown(test_free_closed_newest_first, setup, teardown),
                cmocka_unit_test_setup_teardown(test_free_closed_at_random, setup, teardown),
                cmocka_unit_test(test_retain),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
