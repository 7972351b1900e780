#include "shm/arena/share.h"

#include "tests/util/test.h"

/* How many of `n` entries one user gets, one by one, if other users have `n_taken` of them. */
static uint32_t take_all(uint32_t n, uint32_t n_taken) {
        uint32_t kept = shm_share_kept(n), held = 0;

        while (n_taken + held < n && shm_share_allows(held, n - n_taken - held, kept))
                held++;
        return held;
}

/* One user with a thousand processes, of the 1,025 that there are. */
static void test_share_one_user_has_nearly_all(void **state) {
        assert_int_equal(take_all(1025, 0), 1025 - 16);
        assert_int_equal(take_all(4096, 0), 4096 - 16);
        assert_int_equal(take_all(63, 0), 63);
}

/* One after the other finds some, less each time, and the last stays. */
static void test_share_of_the_last(void **state) {
        uint32_t n_taken = take_all(1025, 0);

        for (unsigned user = 0; user < 4; user++) {
                uint32_t left = 1025 - n_taken, n = take_all(1025, n_taken);

                assert_in_range(n, user < 3 ? 1 : 0, left / 2);
                n_taken += n;
        }
        assert_true(n_taken < 1025);
}

/* In a pool of any size that keeps entries: one user takes all that it may have, and the next one finds some. */
static void test_share_second_user_finds_some(void **state) {
        for (uint32_t n = 64; n < 4096; n++)
                assert_true(take_all(n, take_all(n, 0)) > 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_share_one_user_has_nearly_all),
                cmocka_unit_test(test_share_of_the_last),
                cmocka_unit_test(test_share_second_user_finds_some),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
