#pragma once
/* The calls whose cache lines test-lines.c counts: see operations[]. */
#include <stdbool.h>

#include <tslab_map.h>

#include "tests/lines/lines.h"

#define EPOCH TSLAB_EPOCH_CURRENT
#define N_WARM 64 /* rounds that are not counted */
#define N_ROUNDS 32 /* that are */
#define N_BATCH 1200 /* more than a cache holds */
#define N_FEW 48 /* objects of a batch that stays in the cache */
#define N_MANY 16 /* keys of one call */
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
        void (*prepare)(World *world, int actor,
                        unsigned i); /* once for each key, before the rounds; NULL: a put */
        unsigned n; /* calls of one run, where they are counted together */
        bool is_private; /* writes no line that others write, whoever runs it */
        bool is_quiet; /* nearly so: one call in ten, at most */
        struct tslab_map_options options;
} Operation;

extern const Operation operations[];
extern const unsigned n_operations;

void operation_must(int r);
void operation_put(World *world, int actor, unsigned i);
