/*
 * Lines that more than one processor writes, counted: each operation by 2, 8 and 64 threads, which take turns. What
 * serves most calls writes no line that another thread writes, so it is as fast with any number of processors.
 *
 *      test-lines [--table [OPERATION]]
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tslab_map.h>

#include "tests/lines/lines.h"
#include "tests/util/test.h"

#define EPOCH TSLAB_EPOCH_CURRENT
#define N_ROUNDS 32 /* counted; as many before them */
#define N_BATCH 1200 /* more than a cache holds */
#define N_KEYS 32 /* an actor */

typedef struct World {
        struct tslab *pool;
        struct tslab_map *map;
        int n_actors;
        tslab_handle shared;
        tslab_handle handles[LINES_ACTORS_MAX][N_BATCH];
} World;

typedef struct Operation {
        const char *name;
        void (*run)(World *world, int actor, unsigned round);
        unsigned n; /* calls of one run, where they are counted together */
        bool is_private; /* writes no line that others write, whoever runs it */
        bool is_quiet; /* nearly so: one call in ten, at most */
        struct tslab_map_options options;
} Operation;

static World world;

static void must(int r) {
        if (r < 0) {
                fprintf(stderr, "error %d\n", r);
                abort();
        }
}

static size_t make_key(char key[32], int actor, unsigned i) {
        return (size_t) snprintf(key, 32, "actor %d key %u", actor, i);
}

static void run_pair(World *w, int actor, unsigned round) {
        tslab_handle handle;

        must(tslab_alloc(w->pool, 128, EPOCH, &handle, NULL));
        must(tslab_free(w->pool, handle));
}

static void run_look(World *w, int actor, unsigned round) {
        void *object;

        must(tslab_get(w->pool, w->shared, &object, NULL));
}

static void run_waves(World *w, int actor, unsigned round) {
        for (unsigned i = 0; i < N_BATCH; i++)
                must(tslab_alloc(w->pool, 128, EPOCH, &w->handles[actor][i], NULL));
        for (unsigned i = 0; i < N_BATCH; i++)
                must(tslab_free(w->pool, w->handles[actor][i]));
}

/* Each frees the objects that its neighbour allocated. */
static void run_handed(World *w, int actor, unsigned round) {
        int other = (actor + 1) % w->n_actors;

        for (unsigned i = 0; i < N_BATCH; i++)
                if (w->handles[other][i] != 0)
                        must(tslab_free(w->pool, w->handles[other][i]));
        for (unsigned i = 0; i < N_BATCH; i++)
                w->handles[other][i] = 0;
        for (unsigned i = 0; i < N_BATCH; i++)
                must(tslab_alloc(w->pool, 128, EPOCH, &w->handles[actor][i], NULL));
}

static void run_advance(World *w, int actor, unsigned round) {
        if (actor == 0)
                must(tslab_epoch_advance(w->pool, NULL));
        else
                run_pair(w, actor, round);
}

static void run_get(World *w, int actor, unsigned round) {
        char key[32], value[300];

        must((int) tslab_map_get(w->map, key, make_key(key, actor, round % N_KEYS), value, sizeof(value),
                                 NULL));
}

static void run_get_one(World *w, int actor, unsigned round) {
        char value[300];

        must((int) tslab_map_get(w->map, "one", 3, value, sizeof(value), NULL));
}

static void run_get_sizes(World *w, int actor, unsigned round) {
        char key[32], value[2000];

        for (unsigned large = 0; large < 2; large++)
                must((int) tslab_map_get(w->map, key, make_key(key, (int) large, round % N_KEYS), value,
                                         sizeof(value), NULL));
}

static void run_touch(World *w, int actor, unsigned round) {
        char key[32];

        must(tslab_map_touch(w->map, key, make_key(key, actor, round % N_KEYS), 3600000));
}

static void put(World *w, int actor, unsigned i) {
        char key[32];
        static const char value[200];

        must(tslab_map_put(w->map, key, make_key(key, actor, i), value, sizeof(value), EPOCH));
}

/* Keys of the second actor have larger values. */
static void put_sizes(World *w, int actor, unsigned i) {
        char key[32];
        static const char value[2000];

        must(tslab_map_put(w->map, key, make_key(key, actor, i), value, actor == 1 ? sizeof(value) : 200,
                           EPOCH));
}

static void run_replace(World *w, int actor, unsigned round) {
        put(w, actor, round % N_KEYS);
}

static void run_replace_one(World *w, int actor, unsigned round) {
        static const char value[200];

        must(tslab_map_put(w->map, "one", 3, value, sizeof(value), EPOCH));
}

static void run_insert_delete(World *w, int actor, unsigned round) {
        char key[32];

        put(w, actor, N_KEYS + round % N_ROUNDS);
        must(tslab_map_delete(w->map, key, make_key(key, actor, N_KEYS + round % N_ROUNDS)));
}

static void run_evict(World *w, int actor, unsigned round) {
        put(w, actor, N_KEYS + round);
}

static void run_add(World *w, int actor, unsigned round) {
        char key[32];

        must(tslab_map_add(w->map, key, (size_t) snprintf(key, sizeof(key), "count %d", actor), 1, 0, 0,
                           NULL));
}

static void run_add_one(World *w, int actor, unsigned round) {
        must(tslab_map_add(w->map, "count", 5, 1, 0, 0, NULL));
}

static void run_claim(World *w, int actor, unsigned round) {
        char key[32];
        tslab_handle version;

        must(tslab_map_claim(w->map, key, make_key(key, actor, N_KEYS + round % N_ROUNDS), EPOCH, &version));
        must(tslab_map_delete_version(w->map, key, strlen(key), version));
}

static const Operation operations[] = {
        { .name = "alloc and free", .run = run_pair, .is_private = true },
        { .name = "look at an object of all", .run = run_look, .is_private = true },
        { .name = "waves, an alloc and a free", .run = run_waves, .n = N_BATCH },
        { .name = "alloc, freed by another", .run = run_handed, .n = N_BATCH },
        { .name = "alloc and free, one advances", .run = run_advance },
        { .name = "get", .run = run_get, .is_private = true },
        { .name = "get of one key by all", .run = run_get_one, .is_private = true },
        { .name = "get where the map evicts", .run = run_get, .options = { .evict = TSLAB_MAP_EVICT_SIEVE } },
        { .name = "get of one key, evicts",
          .run = run_get_one,
          .options = { .evict = TSLAB_MAP_EVICT_SIEVE } },
        { .name = "get of two sizes by all", .run = run_get_sizes, .n = 2, .is_quiet = true },
        { .name = "touch", .run = run_touch },
        { .name = "put that replaces", .run = run_replace },
        { .name = "put of one key by all", .run = run_replace_one },
        { .name = "insert and delete", .run = run_insert_delete },
        { .name = "put that evicts",
          .run = run_evict,
          .options = { .evict = TSLAB_MAP_EVICT_SIEVE, .limit_bytes = 256 << 10 } },
        { .name = "count, a counter each", .run = run_add },
        { .name = "count, one counter", .run = run_add_one },
        { .name = "claim and give up", .run = run_claim },
};

#define N_OPERATIONS (sizeof(operations) / sizeof(*operations))

typedef struct Actor {
        pthread_t thread;
        sem_t begin, end;
        const Operation *operation; /* NULL: the thread ends */
        int index;
        unsigned round;
} Actor;

static Actor actors[LINES_ACTORS_MAX];

static void *take_turns(void *userdata) {
        Actor *actor = userdata;

        lines_set_actor(actor->index);
        for (;;) {
                while (sem_wait(&actor->begin) < 0)
                        ;
                if (!actor->operation)
                        return NULL;
                actor->operation->run(&world, actor->index, actor->round);
                sem_post(&actor->end);
        }
}

static void give_turn(Actor *actor, const Operation *operation, unsigned round) {
        actor->operation = operation;
        actor->round = round;
        sem_post(&actor->begin);
        if (operation)
                while (sem_wait(&actor->end) < 0)
                        ;
}

static void fill(World *w, const Operation *operation) {
        struct tslab_map_options options = operation->options;
        static const char value[2000];
        void *object;

        options.size = sizeof(options);
        must(tslab_create(&w->pool, NULL));
        must(tslab_map_open(&w->map, w->pool, "m", &options));
        must(tslab_alloc(w->pool, 128, EPOCH, &w->shared, &object));
        must(tslab_map_put(w->map, "one", 3, value, 200, EPOCH));
        /* A map that evicts is full before the first call. */
        for (unsigned i = 0; i < options.limit_bytes / sizeof(value) * 10; i++)
                put(w, LINES_ACTORS_MAX, i);
        memset(w->handles, 0, sizeof(w->handles));
}

static LinesCount count(const Operation *operation, int n_actors) {
        LinesCount counted;

        world.n_actors = n_actors;
        fill(&world, operation);
        for (int i = 0; i < n_actors; i++) {
                actors[i].index = i;
                sem_init(&actors[i].begin, 0, 0);
                sem_init(&actors[i].end, 0, 0);
                assert_int_equal(pthread_create(&actors[i].thread, NULL, take_turns, &actors[i]), 0);
        }
        for (unsigned k = 0; k < N_KEYS; k++)
                for (int i = 0; i < n_actors; i++)
                        give_turn(&actors[i],
                                  &(const Operation){ .run = operation->is_quiet ? put_sizes : put }, k);
        for (unsigned round = 0; round < 2 * N_ROUNDS; round++) {
                if (round == N_ROUNDS)
                        lines_begin();
                for (int i = 0; i < n_actors; i++)
                        give_turn(&actors[i], operation, round);
        }
        counted = lines_end();
        for (int i = 0; i < n_actors; i++)
                give_turn(&actors[i], NULL, 0);
        for (int i = 0; i < n_actors; i++)
                pthread_join(actors[i].thread, NULL);
        tslab_map_close(world.map);
        tslab_close(world.pool);
        return counted;
}

static double per_call(const Operation *operation, uint64_t n, int n_actors) {
        return (double) n / N_ROUNDS / n_actors / (operation->n ? operation->n : 1);
}

/* The line that moves most can serve no more calls than this, by however many processors. */
static void print_table(const char *name) {
        double ns = lines_transfer_ns();

        printf("A transfer takes %.0f ns. By call, and the most calls in a second:\n", ns);
        printf("%-30s %6s %11s %11s %10s %6s  %s\n", "", "actors", "transfers", "of one line", "millions",
               "lines", "the line's writer");
        for (size_t i = 0; i < N_OPERATIONS; i++)
                for (int n = 2; n <= LINES_ACTORS_MAX; n = n == 2 ? 8 : n * 8) {
                        LinesCount c;
                        double hottest;

                        if (name && strcmp(name, operations[i].name) != 0)
                                continue;
                        c = count(&operations[i], n);
                        hottest = per_call(&operations[i], c.n_hottest, n);
                        printf("%-30s %6d %11.3f %11.3f %10.0f %6ju  %s\n", n == 2 ? operations[i].name : "",
                               n, per_call(&operations[i], c.n_transfers, n), hottest, 1e3 / ns / hottest,
                               (uintmax_t) c.n_lines, c.hottest);
                        if (name)
                                lines_print();
                }
}

static void test_private(void **state) {
        for (size_t i = 0; i < N_OPERATIONS; i++)
                for (int n = 2; n <= LINES_ACTORS_MAX; n = n == 2 ? 8 : n * 8) {
                        const Operation *o = &operations[i];
                        LinesCount c;

                        if (!o->is_private && !o->is_quiet)
                                continue;
                        c = count(o, n);
                        if (o->is_private ? c.n_lines == 0 && c.n_transfers == 0
                                          : per_call(o, c.n_transfers, n) < 0.1)
                                continue;
                        lines_print();
                        fail_msg("%s, %d actors: %ju transfers, %ju lines written by several", o->name, n,
                                 (uintmax_t) c.n_transfers, (uintmax_t) c.n_lines);
                }
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_private) };

        if (argc > 1 && strcmp(argv[1], "--table") == 0) {
                print_table(argc > 2 ? argv[2] : NULL);
                return EXIT_SUCCESS;
        }
        return cmocka_run_group_tests(tests, NULL, NULL);
}
