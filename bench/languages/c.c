/*
 * Calls on a map by C, as a yardstick for the languages. Usage: c SOCKET SECONDS; prints one JSON object.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tslab.h>
#include <tslab_map.h>

#define N_KEYS 1000
#define N_ROUNDS_MAX 1000000

static struct tslab_map *map;
static char keys[N_KEYS][16];
static char value[256], buffer[1024];

static double now_ns(void) {
        struct timespec now;

        (void) clock_gettime(CLOCK_MONOTONIC, &now);
        return (double) now.tv_sec * 1e9 + (double) now.tv_nsec;
}

static int call_get(int i) {
        return tslab_map_get(map, keys[i], strlen(keys[i]), buffer, sizeof(buffer), NULL) == sizeof(value);
}

static int call_put(int i) {
        return tslab_map_put(map, keys[i], strlen(keys[i]), value, sizeof(value), TSLAB_EPOCH_CURRENT) == 0;
}

static int call_add(int i) {
        (void) i;
        return tslab_map_add(map, "counter", 7, 1, 0, TSLAB_MAP_TTL_DEFAULT, NULL) == 0;
}

static int rounds_compare(const void *a, const void *b) {
        double x = *(const double *) a, y = *(const double *) b;

        return (x > y) - (x < y);
}

/* Nanoseconds a call: the median of rounds over all keys. */
static double calls_measure(int (*call)(int i), double seconds) {
        double *rounds = malloc(N_ROUNDS_MAX * sizeof(*rounds)), end = now_ns() + seconds * 1e9, begin,
               median;
        int n = 0;

        if (!rounds)
                abort();
        do {
                begin = now_ns();
                for (int i = 0; i < N_KEYS; i++)
                        if (!call(i))
                                abort();
                rounds[n++] = (now_ns() - begin) / N_KEYS;
        } while (now_ns() < end && n < N_ROUNDS_MAX);
        qsort(rounds, (size_t) n, sizeof(*rounds), rounds_compare);
        median = rounds[n / 2];
        free(rounds);
        return median;
}

int main(int argc, char **argv) {
        double seconds = argc == 3 ? strtod(argv[2], NULL) : 1;
        struct tslab *pool;

        if (argc != 3 || tslab_open(&pool, argv[1], NULL) || tslab_map_open(&map, pool, "c", NULL))
                return EXIT_FAILURE;
        memset(value, 'x', sizeof(value));
        for (int i = 0; i < N_KEYS; i++) {
                (void) snprintf(keys[i], sizeof(keys[i]), "session:%d", 100000 + i);
                (void) call_put(i);
        }
        (void) printf(
                "{\"name\": \"C\", \"version\": \"%s\", \"ns\": {\"get into a buffer\": %.1f, \"put\": %.1f, "
                "\"add\": %.1f}}\n",
                tslab_version(), calls_measure(call_get, seconds), calls_measure(call_put, seconds),
                calls_measure(call_add, seconds));
        (void) tslab_map_close(map);
        (void) tslab_close(pool);
        return EXIT_SUCCESS;
}
