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

#include "tests/lines/lines.h"
#include "tests/lines/operations.h"
#include "tests/util/test.h"

static World world;

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
        operation_must(tslab_create(&w->pool, NULL));
        operation_must(tslab_map_open(&w->map, w->pool, "m", &options));
        operation_must(tslab_alloc(w->pool, 128, EPOCH, &w->shared, &object));
        operation_must(tslab_map_put(w->map, "one", 3, value, 200, EPOCH));
        /* A map that evicts is full before the first call. */
        for (unsigned i = 0; i < options.limit_bytes / sizeof(value) * 10; i++)
                operation_put(w, LINES_ACTORS_MAX, i);
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
                                  &(const Operation){ .run = operation->prepare ?: operation_put }, k);
        for (unsigned round = 0; round < N_WARM + N_ROUNDS; round++) {
                if (round == N_WARM)
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
        for (unsigned i = 0; i < n_operations; i++)
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
        for (unsigned i = 0; i < n_operations; i++)
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
