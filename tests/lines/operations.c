/* See operations.h. */
#include "tests/lines/operations.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define must operation_must

void operation_must(int r) {
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

/* `n` objects in one call, and free again in one. */
static void batch(World *w, int actor, size_t n) {
        if (tslab_alloc_batch(w->pool, 128, EPOCH, w->handles[actor], n) != (ssize_t) n ||
            tslab_free_batch(w->pool, w->handles[actor], n) != (ssize_t) n)
                abort();
}

static void run_few(World *w, int actor, unsigned round) {
        batch(w, actor, N_FEW);
}

static void run_batch(World *w, int actor, unsigned round) {
        batch(w, actor, N_BATCH);
}

/* As run_handed(), in batches. */
static void run_handed_batch(World *w, int actor, unsigned round) {
        int other = (actor + 1) % w->n_actors;

        if (w->handles[other][0] != 0 && tslab_free_batch(w->pool, w->handles[other], N_BATCH) != N_BATCH)
                abort();
        w->handles[other][0] = 0;
        if (tslab_alloc_batch(w->pool, 128, EPOCH, w->handles[actor], N_BATCH) != N_BATCH)
                abort();
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

void operation_put(World *w, int actor, unsigned i) {
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
        operation_put(w, actor, round % N_KEYS);
}

static void run_replace_one(World *w, int actor, unsigned round) {
        static const char value[200];

        must(tslab_map_put(w->map, "one", 3, value, sizeof(value), EPOCH));
}

static void run_insert_delete(World *w, int actor, unsigned round) {
        char key[32];

        operation_put(w, actor, N_KEYS + round % N_ROUNDS);
        must(tslab_map_delete(w->map, key, make_key(key, actor, N_KEYS + round % N_ROUNDS)));
}

static void run_evict(World *w, int actor, unsigned round) {
        operation_put(w, actor, N_KEYS + round);
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

static void run_miss(World *w, int actor, unsigned round) {
        char key[32], value[300];

        if (tslab_map_get(w->map, key, make_key(key, actor, N_KEYS + round % N_KEYS), value, sizeof(value),
                          NULL) != -ENOENT)
                abort();
}

/* Each key for the first time, once the counting has begun: an evicting map marks it as used. */
static void run_get_first(World *w, int actor, unsigned round) {
        if (round >= N_WARM)
                run_get(w, actor, round);
}

/* The first actor's puts evict, and clear marks. */
static void run_get_beside(World *w, int actor, unsigned round) {
        if (actor != 0)
                run_get(w, actor, round);
        else
                for (unsigned i = 0; i < N_MANY; i++)
                        operation_put(w, LINES_ACTORS_MAX + 1, round * N_MANY + i);
}

typedef struct Many {
        struct tslab_map_item items[N_MANY];
        char keys[N_MANY][32], values[N_MANY][300];
} Many;

static void many_init(Many *many, int actor, unsigned round, size_t value_size) {
        memset(many, 0, sizeof(*many));
        for (unsigned i = 0; i < N_MANY; i++)
                many->items[i] = (struct tslab_map_item){
                        .key = many->keys[i],
                        .key_size = make_key(many->keys[i], actor, (round + i) % N_KEYS),
                        .value = many->values[i],
                        .value_size = value_size,
                };
}

static void run_get_many(World *w, int actor, unsigned round) {
        Many many;

        many_init(&many, actor, round, sizeof(many.values[0]));
        if (tslab_map_get_many(w->map, many.items, N_MANY) != N_MANY)
                abort();
}

static void run_put_many(World *w, int actor, unsigned round) {
        Many many;

        many_init(&many, actor, round, 200);
        if (tslab_map_put_many(w->map, many.items, N_MANY, NULL) != N_MANY)
                abort();
}

static void run_insert_take(World *w, int actor, unsigned round) {
        char key[32], value[300];

        operation_put(w, actor, N_KEYS + round % N_ROUNDS);
        if (tslab_map_take(w->map, key, make_key(key, actor, N_KEYS + round % N_ROUNDS), value, sizeof(value),
                           NULL) != 200)
                abort();
}

/* Puts a key with a tag: the actor's own, or with -1 that of all. */
static void put_tagged(World *w, int actor, int tagger, unsigned i) {
        static const char value[200];
        char key[32], name[32];
        tslab_handle tag;
        struct tslab_map_put_options options = {
                .size = sizeof(options), .epoch = EPOCH, .tags = &tag, .n_tags = 1
        };

        must(tslab_map_tag(w->map, name, (size_t) snprintf(name, sizeof(name), "tag %d", tagger), EPOCH,
                           &tag));
        must(tslab_map_put_with(w->map, key, make_key(key, actor, i), value, sizeof(value), &options));
}

static void run_put_tagged(World *w, int actor, unsigned i) {
        put_tagged(w, actor, actor, i % N_KEYS);
}

static void run_put_tagged_one(World *w, int actor, unsigned i) {
        put_tagged(w, actor, -1, i % N_KEYS);
}

/* The entries of one's own tag. */
static void run_invalidate(World *w, int actor, unsigned i) {
        char name[32];

        put_tagged(w, actor, actor, i % N_KEYS);
        must(tslab_map_invalidate(w->map, name, (size_t) snprintf(name, sizeof(name), "tag %d", actor)));
}

static void run_get_touch(World *w, int actor, unsigned round) {
        char key[32], value[300];

        must((int) tslab_map_get_touch(w->map, key, make_key(key, actor, round % N_KEYS), 3600000, value,
                                       sizeof(value), NULL));
}

/* Buckets that do not become full, and so do not end. */
static void run_limit(World *w, int actor, unsigned round) {
        char key[32];

        must(tslab_map_limit(w->map, key, (size_t) snprintf(key, sizeof(key), "bucket %d", actor), 0.01,
                             1000000, 1, NULL));
}

static void run_limit_one(World *w, int actor, unsigned round) {
        must(tslab_map_limit(w->map, "bucket", 6, 0.01, 1000000, 1, NULL));
}

#define EVICTS                                                                                               \
        { .evict = TSLAB_MAP_EVICT_SIEVE }
/* Full, and of a size at which no key of an actor is evicted. */
#define IS_FULL                                                                                              \
        { .evict = TSLAB_MAP_EVICT_SIEVE, .limit_bytes = 2 << 20 }

const Operation operations[] = {
        { .name = "alloc and free", .run = run_pair, .is_private = true },
        { .name = "look at an object of all", .run = run_look, .is_private = true },
        { .name = "small batches", .run = run_few, .n = N_FEW, .is_private = true },
        { .name = "waves, an alloc and a free", .run = run_waves, .n = N_BATCH },
        { .name = "batches", .run = run_batch, .n = N_BATCH },
        { .name = "alloc, freed by another", .run = run_handed, .n = N_BATCH },
        { .name = "batches, freed by another", .run = run_handed_batch, .n = N_BATCH },
        { .name = "alloc and free, one advances", .run = run_advance },
        { .name = "get", .run = run_get, .is_private = true },
        { .name = "get that misses", .run = run_miss, .is_private = true },
        { .name = "get of many", .run = run_get_many, .n = N_MANY, .is_private = true },
        { .name = "get of one key by all", .run = run_get_one, .is_private = true },
        { .name = "get where the map evicts", .run = run_get, .is_private = true, .options = EVICTS },
        { .name = "get of one key, evicts", .run = run_get_one, .is_private = true, .options = EVICTS },
        { .name = "get in a full map", .run = run_get, .is_private = true, .options = IS_FULL },
        { .name = "get that marks, in a full map", .run = run_get_first, .options = IS_FULL },
        { .name = "get beside a put that evicts", .run = run_get_beside, .options = IS_FULL },
        { .name = "get of two sizes by all",
          .run = run_get_sizes,
          .prepare = put_sizes,
          .n = 2,
          .is_quiet = true },
        { .name = "get, a tag each", .run = run_get, .prepare = run_put_tagged, .is_private = true },
        { .name = "get, one tag", .run = run_get, .prepare = run_put_tagged_one, .is_private = true },
        { .name = "get, one tag, evicts",
          .run = run_get,
          .prepare = run_put_tagged_one,
          .is_private = true,
          .options = EVICTS },
        { .name = "touch", .run = run_touch, .is_private = true },
        { .name = "get and touch", .run = run_get_touch, .is_private = true },
        { .name = "put that replaces", .run = run_replace },
        { .name = "put of many", .run = run_put_many, .n = N_MANY },
        { .name = "put of one key by all", .run = run_replace_one },
        { .name = "put, a tag each", .run = run_put_tagged, .prepare = run_put_tagged },
        { .name = "put, one tag", .run = run_put_tagged_one, .prepare = run_put_tagged_one },
        { .name = "put with a tag, and invalidate", .run = run_invalidate },
        { .name = "insert and delete", .run = run_insert_delete },
        { .name = "insert and take", .run = run_insert_take },
        { .name = "put that evicts",
          .run = run_evict,
          .options = { .evict = TSLAB_MAP_EVICT_SIEVE, .limit_bytes = 256 << 10 } },
        { .name = "count, a counter each", .run = run_add, .is_private = true },
        { .name = "count, one counter", .run = run_add_one },
        { .name = "limit, a bucket each", .run = run_limit, .is_private = true },
        { .name = "limit, one bucket", .run = run_limit_one },
        { .name = "claim and give up", .run = run_claim },
};

const unsigned n_operations = sizeof(operations) / sizeof(*operations);
