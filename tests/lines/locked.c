/* Makes N calls in a private pool, for locked.py: OPERATION N. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tslab_map.h>

#define EPOCH TSLAB_EPOCH_CURRENT
#define N_BATCH 64
#define N_KEYS 64

static struct tslab *pool;
static struct tslab_map *map;
static tslab_handle handles[N_BATCH];
static char value[100];

static void must(ssize_t r) {
        if (r < 0) {
                fprintf(stderr, "error %zd\n", r);
                abort();
        }
}

static void run_pair(unsigned i) {
        void *object;

        (void) i;
        must(tslab_alloc(pool, 128, EPOCH, &handles[0], &object));
        must(tslab_free(pool, handles[0]));
}

static void run_batch(unsigned i) {
        (void) i;
        must(tslab_alloc_batch(pool, 128, EPOCH, handles, N_BATCH));
        must(tslab_free_batch(pool, handles, N_BATCH));
}

static void run_look(unsigned i) {
        void *object;

        if (i == 0)
                must(tslab_alloc(pool, 128, EPOCH, &handles[0], NULL));
        must(tslab_get(pool, handles[0], &object, NULL));
}

static size_t make_key(char key[32], unsigned i) {
        return (size_t) snprintf(key, 32, "key %u", i % N_KEYS);
}

static void run_put(unsigned i) {
        char key[32];

        must(tslab_map_put(map, key, make_key(key, i), value, sizeof(value), EPOCH));
}

static void run_get(unsigned i) {
        char key[32];

        if (i < N_KEYS)
                run_put(i);
        must(tslab_map_get(map, key, make_key(key, i), value, sizeof(value), NULL));
}

static const struct {
        const char *name;
        void (*run)(unsigned i);
} operations[] = {
        { "pair", run_pair }, { "batch", run_batch }, { "look", run_look },
        { "get", run_get },   { "put", run_put },
};

int main(int argc, char **argv) {
        unsigned n = argc == 3 ? (unsigned) atoi(argv[2]) : 0;

        must(tslab_create(&pool, NULL));
        must(tslab_map_open(&map, pool, "map", NULL));
        for (size_t k = 0; k < sizeof(operations) / sizeof(operations[0]); k++)
                for (unsigned i = 0; argc == 3 && strcmp(argv[1], operations[k].name) == 0 && i < n; i++)
                        operations[k].run(i);
        tslab_map_close(map);
        tslab_close(pool);
        return 0;
}
