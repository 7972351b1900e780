/* Parts of the demo: sessions, the histogram, and the JSON it reads. */

#include "tests/util/test.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "examples/demo/demo-histogram.h"
#include "examples/demo/demo-json.h"
#include "examples/demo/demo-session.h"

static Request visit_of(const char *path) {
        return (Request){ .path = { path, strlen(path) }, .status = 200, .size = 10, .time = 100 };
}

static void test_session_grows_and_stops(void **state) {
        static const char path[] = "/a/path/of/some/length/that/is/not/cut.html";
        Request request = visit_of(path);
        Session session;
        size_t before;

        session_start(&session, &request);
        before = session_size(&session);
        for (int i = 1; i <= 20; ++i) {
                session_visit(&session, &request, SESSION_ROOM);
                assert_true(session_is_valid(&session, session_size(&session)));
                assert_int_equal(session.n_requests, i);
                assert_int_equal(session_size(&session),
                                 before + (i < SESSION_PATHS_MAX ? i : SESSION_PATHS_MAX) * sizeof(path));
        }
        assert_int_equal(session.size, 200);
}

static void test_session_forgets_oldest(void **state) {
        char path[] = "/0";
        Session session = {};

        for (int i = 0; i < 9; ++i) {
                Request request = visit_of(path);

                session_visit(&session, &request, SESSION_ROOM);
                ++path[1];
        }
        assert_int_equal(session.n_paths, 8);
        assert_memory_equal(session.paths, "\2/1\2/2", 6);
}

static void test_session_keeps_to_room(void **state) {
        char path[300];
        Session session = {};
        Request request;

        memset(path, 'x', sizeof(path) - 1);
        path[sizeof(path) - 1] = 0;
        request = visit_of(path);
        for (size_t room = 0; room <= SESSION_ROOM; ++room) {
                session_visit(&session, &request, room);
                assert_true(session_size(&session) <= room || session.n_paths == 0);
                assert_true(session_is_valid(&session, session_size(&session)));
        }
        assert_int_equal(session.n_paths, 8);
}

static void test_session_times_out_of_order(void **state) {
        Request request = visit_of("/");
        Session session;

        session_start(&session, &request);
        request.time = 90;
        session_visit(&session, &request, SESSION_ROOM);
        request.time = 120;
        request.status = 500;
        session_visit(&session, &request, SESSION_ROOM);
        assert_int_equal(session.first, 90);
        assert_int_equal(session.last, 120);
        assert_int_equal(session.n_errors, 1);
}

static void test_session_is_valid(void **state) {
        Request request = visit_of("/x");
        Session session, bad;
        size_t size;

        session_start(&session, &request);
        session_visit(&session, &request, SESSION_ROOM);
        size = session_size(&session);
        assert_true(session_is_valid(&session, size));
        assert_false(session_is_valid(&session, 0));
        assert_false(session_is_valid(&session, size - 1));
        assert_false(session_is_valid(&session, size + 1));

        bad = session;
        bad.paths[0] = 200;
        assert_false(session_is_valid(&bad, size));
        bad = session;
        bad.n_paths = 2;
        assert_false(session_is_valid(&bad, size));
        bad.n_paths = 255;
        assert_false(session_is_valid(&bad, size));
        bad = session;
        bad.paths_size = UINT16_MAX;
        assert_false(session_is_valid(&bad, session_size(&bad)));
}

static void test_histogram_quantiles(void **state) {
        static Histogram h;

        h = (Histogram){};
        assert_int_equal(histogram_quantile(&h, 500000), 0);
        for (uint64_t i = 1; i <= 10000; ++i)
                histogram_add(&h, i);
        assert_in_range(histogram_quantile(&h, 500000), 5000, 5000 * 104 / 100);
        assert_in_range(histogram_quantile(&h, 990000), 9900, 10000);
        assert_int_equal(histogram_quantile(&h, 1000000), 10000);
        assert_int_equal(histogram_quantile(&h, 0), 1);
}

/* Every power of two and its neighbours: never too low, at most 1/32 too high. */
static void test_histogram_error(void **state) {
        for (unsigned bit = 0; bit < 64; ++bit)
                for (int64_t off = -1; off <= 1; ++off) {
                        static Histogram h;
                        uint64_t value = (UINT64_C(1) << bit) + (uint64_t) off, found;

                        h = (Histogram){};
                        histogram_add(&h, value);
                        h.max = UINT64_MAX;
                        found = histogram_quantile(&h, 500000);
                        assert_true(found >= value);
                        assert_true(found - value <= value / 32);
                }
}

static void test_histogram_merge(void **state) {
        static Histogram a, b;

        a = b = (Histogram){};
        for (int i = 0; i < 90; ++i)
                histogram_add(&a, 10);
        for (int i = 0; i < 10; ++i)
                histogram_add(&b, 60);
        histogram_merge(&a, &b);
        assert_int_equal(a.n, 100);
        assert_int_equal(a.max, 60);
        assert_int_equal(histogram_quantile(&a, 900000), 10);
        assert_int_equal(histogram_quantile(&a, 900001), 60);
}

static void test_json_find_number(void **state) {
        static const char text[] =
                "{ \"pool\": \"a \\\"n\\\": 1 {[\", \"epochs\": [ { \"n\": 2 } ], \"x\": { \"n\": 3 },\n"
                "  \"n\" : 18446744073709551615, \"s\": \"n\", \"m\": \"4\", \"neg\": -1 }";
        uint64_t n = 7;

        assert_int_equal(json_find_number(text, "none", &n), -ENOENT);
        assert_int_equal(json_find_number(text, "m", &n), -ENOENT);
        assert_int_equal(json_find_number(text, "neg", &n), -ENOENT);
        assert_int_equal(json_find_number("", "n", &n), -ENOENT);
        assert_int_equal(json_find_number("{\"n", "n", &n), -ENOENT);
        assert_int_equal(json_find_number("{\"n\"", "n", &n), -ENOENT);
        assert_int_equal(json_find_number("{\"n\\", "n", &n), -ENOENT);
        assert_int_equal(n, 7);
        assert_int_equal(json_find_number(text, "n", &n), 0);
        assert_true(n == UINT64_MAX);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_session_grows_and_stops),
                cmocka_unit_test(test_session_forgets_oldest),
                cmocka_unit_test(test_session_keeps_to_room),
                cmocka_unit_test(test_session_times_out_of_order),
                cmocka_unit_test(test_session_is_valid),
                cmocka_unit_test(test_histogram_quantiles),
                cmocka_unit_test(test_histogram_error),
                cmocka_unit_test(test_histogram_merge),
                cmocka_unit_test(test_json_find_number),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
