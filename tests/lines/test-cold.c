/*
 * Counts the lines of the arena that a get and a put use in a large map, and how many of these are in no cache near the
 * processor. In a map that is larger than the caches, a call spends its time on the latter.
 *
 *      test-cold [--table [KEYS...]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tslab_map.h>

#include "libclient/map.h"
#include "tests/lines/lines.h"
#include "tests/util/test.h"

#define N_KEYS 100000
#define N_CALLS 4000 /* counted; as many before them */
#define VALUE_SIZE 32
#define KEYS_A_MIB 4096 /* the pool has room for twice as many */

typedef struct Cold {
        struct tslab *pool;
        struct tslab_map *map;
        uint64_t n_keys;
        uint64_t random;
} Cold;

typedef void (*ColdCall)(Cold *cold, uint64_t key);

static void put(Cold *cold, uint64_t key) {
        static const char value[VALUE_SIZE];

        assert_int_equal(tslab_map_put(cold->map, &key, sizeof(key), value, VALUE_SIZE, TSLAB_EPOCH_CURRENT),
                         0);
}

static void get(Cold *cold, uint64_t key) {
        char value[VALUE_SIZE];

        assert_int_equal(tslab_map_get(cold->map, &key, sizeof(key), value, VALUE_SIZE, NULL), VALUE_SIZE);
}

static void miss(Cold *cold, uint64_t key) {
        char value[VALUE_SIZE];

        key += cold->n_keys;
        assert_int_equal(tslab_map_get(cold->map, &key, sizeof(key), value, VALUE_SIZE, NULL), -ENOENT);
}

static void cold_open(Cold *cold, uint64_t n_keys) {
        struct tslab_options options = { .size = sizeof(options),
                                         .arena_bytes = (64 + n_keys / KEYS_A_MIB) << 20 };

        *cold = (Cold){ .n_keys = n_keys, .random = 88172645463325252U };
        assert_int_equal(tslab_create(&cold->pool, &options), 0);
        assert_int_equal(tslab_map_open(&cold->map, cold->pool, "m", NULL), 0);
        for (uint64_t key = 0; key < n_keys; key++)
                put(cold, key);
        lines_watch(cold->pool->arena.base, cold->pool->arena.size);
}

static void cold_close(Cold *cold) {
        lines_watch(NULL, 0);
        tslab_map_close(cold->map);
        tslab_close(cold->pool);
}

static LinesWatched count(Cold *cold, ColdCall call) {
        for (int i = 0; i < 2 * N_CALLS; i++) {
                if (i == N_CALLS)
                        (void) lines_watch_end();
                cold->random ^= cold->random << 13;
                cold->random ^= cold->random >> 7;
                cold->random ^= cold->random << 17;
                lines_watch_call();
                call(cold, cold->random % cold->n_keys);
        }
        return lines_watch_end();
}

static double a_call(uint64_t n) {
        return (double) n / N_CALLS;
}

static const struct {
        const char *name;
        ColdCall call;
        double most, most_cold; /* with N_KEYS keys */
} calls[] = {
        { "get", get, 10.0, 4.4 },
        { "get of a missing key", miss, 12.6, 4.9 },
        { "put that replaces", put, 30.2, 7.7 },
};

#define N_OF_CALLS (sizeof(calls) / sizeof(*calls))

static void print_table(uint64_t n_keys) {
        Cold cold;

        cold_open(&cold, n_keys);
        for (size_t i = 0; i < N_OF_CALLS; i++) {
                LinesWatched c = count(&cold, calls[i].call);

                printf("%10ju keys: %-22s %5.1f lines, %5.1f of them cold\n", (uintmax_t) n_keys,
                       calls[i].name, a_call(c.n_lines), a_call(c.n_cold));
        }
        cold_close(&cold);
}

static void test_lines(void **state) {
        Cold cold;

        cold_open(&cold, N_KEYS);
        for (size_t i = 0; i < N_OF_CALLS; i++) {
                LinesWatched c = count(&cold, calls[i].call);

                if (a_call(c.n_lines) > calls[i].most || a_call(c.n_cold) > calls[i].most_cold)
                        fail_msg("%s: %.2f lines, %.2f of them cold", calls[i].name, a_call(c.n_lines),
                                 a_call(c.n_cold));
        }
        cold_close(&cold);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_lines) };

        if (argc == 1)
                return cmocka_run_group_tests(tests, NULL, NULL);
        for (int i = 2; i < argc; i++)
                print_table(strtoull(argv[i], NULL, 10));
        if (argc == 2)
                print_table(N_KEYS);
        return EXIT_SUCCESS;
}
