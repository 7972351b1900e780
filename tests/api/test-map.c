#include <tslab_map.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/api/map-pool.h"
#include "tests/util/process.h"
#include "tests/util/test.h"

static void assert_value(struct tslab_map *map, const char *key, const char *value) {
        char buffer[4096];
        ssize_t n = tslab_map_get(map, key, strlen(key), buffer, sizeof(buffer), NULL);

        if (!value) {
                assert_int_equal(n, -ENOENT);
                return;
        }
        assert_int_equal(n, strlen(value));
        assert_memory_equal(buffer, value, (size_t) n);
}

static void test_map_open_flags(void **state) {
        struct tslab_map_options existing = { .size = sizeof(existing), .flags = TSLAB_MAP_EXISTING };
        struct tslab_map_options exclusive = { .size = sizeof(exclusive), .flags = TSLAB_MAP_EXCLUSIVE };
        struct tslab_map_options both = { .size = sizeof(both),
                                          .flags = TSLAB_MAP_EXISTING | TSLAB_MAP_EXCLUSIVE };
        struct tslab_map_options no_size = { 0 };
        struct {
                struct tslab_map_options now;
                uint64_t later;
        } larger = { .now = { .size = sizeof(larger) } };
        struct tslab_map *map = NULL, *again;
        struct tslab *pool = *state;
        char name[64];

        memset(name, 'n', sizeof(name));
        name[TSLAB_MAP_NAME_MAX + 1] = 0;
        assert_int_equal(tslab_map_open(&map, pool, name, NULL), -EINVAL);
        name[TSLAB_MAP_NAME_MAX] = 0;
        assert_int_equal(tslab_map_open(&map, pool, name, &existing), -ENOENT);
        assert_int_equal(tslab_map_open(&map, pool, "", NULL), -EINVAL);
        assert_int_equal(tslab_map_open(&map, pool, "new\nline", NULL), -EINVAL);
        assert_int_equal(tslab_map_open(&map, pool, "caf\xe9", NULL), -EINVAL);
        assert_int_equal(tslab_map_open(&map, pool, name, &both), -EINVAL);
        assert_int_equal(tslab_map_open(&map, pool, name, &no_size), -EINVAL);
        assert_null(map);
        assert_int_equal(tslab_map_open(&map, pool, name, &exclusive), 0);
        assert_int_equal(tslab_map_open(&again, pool, name, &exclusive), -EEXIST);
        assert_int_equal(tslab_map_open(&again, pool, name, &existing), 0);
        assert_int_equal(tslab_map_put(map, "k", 1, "v", 1, TSLAB_EPOCH_CURRENT), 0);
        assert_value(again, "k", "v");
        assert_null(tslab_map_close(again));
        assert_int_equal(tslab_map_open(&again, pool, name, &larger.now), 0);
        assert_null(tslab_map_close(again));
        larger.later = 1;
        assert_int_equal(tslab_map_open(&again, pool, name, &larger.now), -EINVAL);
        assert_null(tslab_map_close(map));
        assert_null(tslab_map_close(NULL));
}

static void test_map_open_not_a_map(void **state) {
        struct tslab *pool = *state;
        tslab_handle handle;
        struct tslab_map *map;

        assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
        assert_int_equal(tslab_root_set(pool, "map.other", 0, handle), 0);
        assert_int_equal(tslab_map_open(&map, pool, "other", NULL), -EUCLEAN);
        /* Freed: the name is as good as unused. */
        assert_int_equal(tslab_free(pool, handle), 0);
        assert_int_equal(tslab_map_open(&map, pool, "other", NULL), 0);
        tslab_map_close(map);
}

/* All memory comes back, and other names may have the entry: maps of a deploy that come and go do not run out. */
static void test_map_remove(void **state) {
        struct tslab *pool = *state;
        struct tslab_map *map = NULL, *kept;
        struct tslab_stats before = { .size = sizeof(before) }, after = { .size = sizeof(after) };
        char name[16];
        uint32_t key;

        assert_int_equal(tslab_map_remove(pool, "none"), -ENOENT);
        assert_int_equal(tslab_map_remove(pool, ""), -EINVAL);
        assert_int_equal(tslab_map_open(&kept, pool, "kept", NULL), 0);
        assert_int_equal(tslab_map_put(kept, "k", 1, "v", 1, TSLAB_EPOCH_CURRENT), 0);
        assert_int_equal(tslab_stats(pool, &before), 0);
        for (uint32_t i = 0; i < 600; i++) {
                snprintf(name, sizeof(name), "deploy-%u", i);
                assert_int_equal(tslab_map_open(&map, pool, name, NULL), 0);
                for (key = 0; key < 20; key++)
                        assert_int_equal(tslab_map_put(map, &key, sizeof(key), name, sizeof(name),
                                                       TSLAB_EPOCH_CURRENT),
                                         0);
                assert_int_equal(tslab_map_remove(pool, name), 0);
                assert_int_equal(tslab_map_remove(pool, name), -ENOENT);
                assert_int_equal(tslab_map_put(map, &key, sizeof(key), name, 1, TSLAB_EPOCH_CURRENT), -EIDRM);
                tslab_map_close(map);
        }
        assert_int_equal(tslab_stats(pool, &after), 0);
        assert_int_equal(after.live_objects, before.live_objects);
        assert_int_equal(tslab_map_count(kept), 1);
        tslab_map_close(kept);
}

/* Hundreds of maps at a time. The call that finds no name says so. */
static void test_map_hundreds(void **state) {
        struct tslab *pool = *state;
        struct tslab_map *maps[256];
        char name[16];
        unsigned n = 0;
        int r = 0;

        for (; r == 0 && n < 256; n += r == 0) {
                snprintf(name, sizeof(name), "map-%u", n);
                r = tslab_map_open(&maps[n], pool, name, NULL);
        }
        assert_int_equal(r, -ENOSPC);
        assert_int_equal(n, 254); /* one name is that of the index */
        for (unsigned i = 0; i < n; i++)
                assert_int_equal(tslab_map_put(maps[i], "k", 1, &i, sizeof(i), TSLAB_EPOCH_CURRENT), 0);
        for (unsigned i = 0; i < n; i++) {
                unsigned value;

                assert_int_equal(tslab_map_get(maps[i], "k", 1, &value, sizeof(value), NULL), sizeof(value));
                assert_int_equal(value, i);
        }
        assert_int_equal(tslab_map_remove(pool, "map-100"), 0);
        tslab_map_close(maps[100]);
        assert_int_equal(tslab_map_open(&maps[100], pool, "one more", NULL), 0);
        for (unsigned i = 0; i < n; i++)
                tslab_map_close(maps[i]);
}

static unsigned n_map_epochs(struct tslab *pool) {
        struct tslab_epoch_info info;
        unsigned n = 0;

        for (uint32_t id = 0; id < 16; id++) {
                info.size = sizeof(info);
                assert_int_equal(tslab_epoch_info(pool, id, &info), 0);
                n += info.reserved && strcmp(info.label, "maps") == 0;
        }
        return n;
}

static void test_map_open_one_epoch_for_all(void **state) {
        struct tslab *pool = *state;
        struct tslab_map *maps[20];
        char name[8];

        for (unsigned i = 0; i < 20; i++) {
                snprintf(name, sizeof(name), "m%u", i);
                assert_int_equal(tslab_map_open(&maps[i], pool, name, NULL), 0);
                assert_int_equal(tslab_map_put(maps[i], "name", 4, name, strlen(name), TSLAB_EPOCH_CURRENT),
                                 0);
        }
        assert_int_equal(n_map_epochs(pool), 1);
        for (unsigned i = 0; i < 20; i++) {
                snprintf(name, sizeof(name), "m%u", i);
                assert_value(maps[i], "name", name);
                tslab_map_close(maps[i]);
        }
}

/* An epoch whose reserver died before it named the epoch is taken up. */
static void test_map_open_finds_labelled_epoch(void **state) {
        struct tslab *pool = *state;
        struct tslab_map *map;
        uint32_t epoch;

        assert_int_equal(tslab_epoch_reserve(pool, "maps", &epoch), 0);
        assert_int_equal(tslab_map_open(&map, pool, "m", NULL), 0);
        assert_int_equal(n_map_epochs(pool), 1);
        tslab_map_close(map);
}

static void test_map_put_get_delete(void **state) {
        struct tslab *pool = *state;
        tslab_handle version = 0, old;
        struct tslab_map_info info = { .size = sizeof(info) };
        struct tslab_map *map;
        uint32_t current;
        char buffer[8];

        assert_int_equal(tslab_map_open(&map, pool, "m", NULL), 0);
        assert_int_equal(tslab_epoch_current(pool, &current), 0);
        assert_int_equal(put_mode(map, TSLAB_MAP_UPDATE, "k", "0", 1), -ENOENT);
        assert_int_equal(put_mode(map, TSLAB_MAP_INSERT, "k", "1", 1), 0);
        assert_int_equal(put_mode(map, TSLAB_MAP_INSERT, "k", "2", 1), -EEXIST);
        assert_int_equal(tslab_map_get_with(map, "k", 1, buffer, sizeof(buffer), &info), 1);
        assert_int_equal(info.epoch, current);
        assert_int_equal(tslab_map_get(map, "k", 1, buffer, sizeof(buffer), &version), 1);
        old = version;
        assert_int_equal(tslab_map_replace(map, "k", 1, version, "3", 1, TSLAB_EPOCH_CURRENT), 0);
        assert_int_equal(tslab_map_replace(map, "k", 1, version, "4", 1, TSLAB_EPOCH_CURRENT), -EAGAIN);
        assert_int_equal(tslab_map_replace(map, "k", 1, 0, "4", 1, TSLAB_EPOCH_CURRENT), -EAGAIN);
        assert_value(map, "k", "3");
        assert_int_equal(put_mode(map, TSLAB_MAP_UPDATE, "k", "longer than 8", 13), 0);
        assert_int_equal(tslab_map_get(map, "k", 1, buffer, sizeof(buffer), NULL), -EMSGSIZE);
        assert_int_equal(tslab_map_delete_version(map, "k", 1, old), -EAGAIN);
        assert_int_equal(tslab_map_delete_version(map, "k", 1, 0), -EAGAIN);
        assert_int_equal(tslab_map_delete(map, "k", 1), 0);
        assert_int_equal(tslab_map_delete(map, "k", 1), -ENOENT);
        assert_int_equal(tslab_map_replace(map, "k", 1, 0, "5", 1, TSLAB_EPOCH_CURRENT), 0);
        assert_int_equal(tslab_map_get(map, "k", 1, buffer, sizeof(buffer), &version), 1);
        assert_int_equal(tslab_map_delete_version(map, "k", 1, version), 0);
        assert_int_equal(tslab_map_count(map), 0);
        tslab_map_close(map);
}

/* Each byte depends on its place. */
static void fill_pattern(uint8_t *bytes, size_t size, unsigned seed) {
        for (size_t i = 0; i < size; i++)
                bytes[i] = (uint8_t) (i * 31 + i / 4088 + seed);
}

/* An iteration gives the value where key and value fit the buffer, in however many objects they are. */
static void assert_iterated(struct tslab_map *map, const uint8_t *bytes, size_t size) {
        struct tslab_map_info info = { .size = sizeof(info) };
        struct tslab_map_cursor cursor = {};
        uint8_t entry[5000];

        do
                assert_int_equal(tslab_map_next(map, &cursor, entry, sizeof(entry), &info), 1);
        while (info.key_size != 10);
        assert_int_equal(info.value_size, size);
        assert_int_equal(info.flags, 10 + size <= sizeof(entry) ? 0 : TSLAB_MAP_KEY_ONLY);
        if (!info.flags)
                assert_memory_equal(entry + 10, bytes, size);
}

static void assert_parts(struct tslab_map *map, const uint8_t *bytes, size_t size) {
        struct tslab_map_info info = { .size = sizeof(info) };
        uint8_t part[100];

        assert_int_equal(tslab_map_find(map, "0123456789", 10, &info), 0);
        assert_int_equal(info.value_size, size);
        for (size_t at = 0; at < size; at += 61) {
                size_t n = size - at < sizeof(part) ? size - at : sizeof(part);

                assert_int_equal(tslab_map_read(map, info.place, at, part, sizeof(part)), n);
                assert_memory_equal(part, bytes + at, n);
        }
}

/*
 * Values of one object, at its edges, of two pieces, and of chains, up to the largest: put, replaced, read whole and in
 * parts.
 */
static void test_map_sizes(void **state) {
        struct tslab_map_info info = { .size = sizeof(info) };
        uint8_t *big, *buffer;
        struct tslab_map *map;
        void *alloced;
        size_t max;

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        max = tslab_map_size_max(map);
        assert_int_equal(max, 1 << 20);
        big = malloc(max + 1);
        buffer = malloc(max);
        assert_true(big && buffer);
        assert_int_equal(tslab_map_put(map, NULL, 0, NULL, 0, TSLAB_EPOCH_CURRENT), 0);
        assert_int_equal(tslab_map_get(map, NULL, 0, NULL, 0, NULL), 0);
        assert_int_equal(tslab_map_find(map, NULL, 0, &info), 0);
        assert_int_equal(tslab_map_read(map, info.place, 0, NULL, 0), 0);
        assert_int_equal(tslab_map_add(map, "counter", 7, 1, 0, TSLAB_MAP_TTL_NONE, NULL), 0);
        assert_int_equal(tslab_map_find(map, "counter", 7, &info), 0);
        assert_int_equal(tslab_map_read(map, info.place, 8, NULL, 0), 0);
        assert_int_equal(tslab_map_read(map, info.place, 0, buffer, max), 8);
        for (size_t size = 400; size <= max; size += size < 4050    ? 23
                                                     : size < 4100  ? 1
                                                     : size < 13000 ? 97
                                                     : size < 70000 ? 4088
                                                                    : (max - size) / 2 + 1) {
                fill_pattern(big, size, (unsigned) size);
                assert_int_equal(tslab_map_put(map, "0123456789", 10, big, size, TSLAB_EPOCH_CURRENT), 0);
                assert_int_equal(tslab_map_get(map, "0123456789", 10, buffer, max, NULL), size);
                assert_memory_equal(buffer, big, size);
                assert_int_equal(tslab_map_get_with(map, "0123456789", 10, buffer, size - 1, &info),
                                 -EMSGSIZE);
                assert_int_equal(info.value_size, size);
                assert_int_equal(tslab_map_read(map, info.version, size / 2, buffer, 5000),
                                 size - size / 2 < 5000 ? size - size / 2 : 5000);
                assert_memory_equal(buffer, big + size / 2, size - size / 2 < 5000 ? size - size / 2 : 5000);
                assert_int_equal(tslab_map_get_alloc(map, "0123456789", 10, &alloced, NULL), 0);
                assert_memory_equal(alloced, big, size);
                free(alloced);
                assert_iterated(map, big, size);
                if (size < 13000)
                        assert_parts(map, big, size);
        }
        assert_int_equal(tslab_map_put(map, "k", 1, big, max + 1, TSLAB_EPOCH_CURRENT), -E2BIG);
        assert_int_equal(tslab_map_put(map, big, 4096, big, 1, TSLAB_EPOCH_CURRENT), -E2BIG);
        assert_int_equal(tslab_map_put(map, big, SIZE_MAX, big, SIZE_MAX, TSLAB_EPOCH_CURRENT), -E2BIG);
        assert_int_equal(tslab_map_get(map, big, 5000, buffer, max, NULL), -ENOENT);
        assert_int_equal(tslab_map_find(map, "k", 1, &info), -ENOENT);
        assert_int_equal(tslab_map_get_alloc(map, "k", 1, &alloced, NULL), -ENOENT);
        assert_int_equal(tslab_map_delete(map, big, 5000), -ENOENT);
        assert_int_equal(tslab_map_delete(map, "0123456789", 10), 0);
        tslab_map_close(map);
        free(big);
        free(buffer);
}

/* In pools of few and small classes, too, where nothing larger is whole. */
static void test_map_sizes_in_few_classes(void **state) {
        static const struct tslab_options pools[] = {
                { .size = sizeof(*pools), .arena_bytes = 1 << 20, .n_classes = 1, .classes = { 64 } },
                { .size = sizeof(*pools),
                  .arena_bytes = 1 << 20,
                  .n_classes = 3,
                  .classes = { 64, 128, 256 } },
                { .size = sizeof(*pools),
                  .arena_bytes = 1 << 20,
                  .n_classes = 3,
                  .classes = { 64, 640, 816 } },
                { .size = sizeof(*pools), .arena_bytes = 1 << 20, .n_classes = 2, .classes = { 64, 1360 } },
                { .size = sizeof(*pools), .arena_bytes = 1 << 20, .n_classes = 1, .classes = { 4096 } },
        };
        uint8_t big[9000], buffer[9000];

        for (size_t i = 0; i < sizeof(pools) / sizeof(pools[0]); i++) {
                struct tslab_map *map;

                tslab_close(*state);
                assert_int_equal(tslab_create((struct tslab **) state, &pools[i]), 0);
                assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
                for (size_t size = 0; size <= sizeof(big); size += size < 1500 ? 1 : 61) {
                        fill_pattern(big, size, (unsigned) size);
                        assert_int_equal(tslab_map_put(map, "0123456789", 10, big, size, TSLAB_EPOCH_CURRENT),
                                         0);
                        assert_int_equal(tslab_map_get(map, "0123456789", 10, buffer, sizeof(buffer), NULL),
                                         size);
                        assert_memory_equal(buffer, big, size);
                        if (size % 7 == 0)
                                assert_parts(map, big, size);
                }
                tslab_map_close(map);
        }
}

/* An entry is replaced while a tenth more than its size is free, in whole slabs, though all of these are empty. */
static void try_memory_short(void **state, size_t key_size) {
        enum { SLAB = 4096, SIZE_MAX_TRIED = 100000 };
        struct tslab_map_statistics statistics = { .size = sizeof(statistics) };
        const struct tslab_options options = { .size = sizeof(options), .arena_bytes = 1 << 20 };
        static const uint8_t key[SLAB];
        uint8_t *big = calloc(1, SIZE_MAX_TRIED), *buffer = malloc(SIZE_MAX_TRIED);

        assert_true(big && buffer);
        for (size_t size = 1000; size <= SIZE_MAX_TRIED; size += size < 14000 ? 100 : 2777) {
                tslab_handle handles[256];
                struct tslab_map *map;
                unsigned n = 0;

                tslab_close(*state);
                assert_int_equal(tslab_create((struct tslab **) state, &options), 0);
                assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
                /* Its slab has no slots for small pieces. */
                assert_int_equal(tslab_map_put(map, key, key_size, big, 4000 - key_size, TSLAB_EPOCH_CURRENT),
                                 0);
                while (tslab_alloc(*state, SLAB, TSLAB_EPOCH_CURRENT, &handles[n], NULL) == 0)
                        n++;
                for (size_t bytes = 0; bytes * 10 < (key_size + size) * 11; bytes += SLAB)
                        assert_int_equal(tslab_free(*state, handles[--n]), 0);
                fill_pattern(big, size, (unsigned) size);
                assert_int_equal(tslab_map_put(map, key, key_size, big, size, TSLAB_EPOCH_CURRENT), 0);
                assert_int_equal(tslab_map_get(map, key, key_size, buffer, SIZE_MAX_TRIED, NULL), size);
                assert_memory_equal(buffer, big, size);
                /* As much of the map's bytes goes as came, though the next leaf has other pieces. */
                while (n > 0)
                        assert_int_equal(tslab_free(*state, handles[--n]), 0);
                assert_int_equal(tslab_map_put(map, key, key_size, big, size, TSLAB_EPOCH_CURRENT), 0);
                assert_int_equal(tslab_map_delete(map, key, key_size), 0);
                assert_int_equal(tslab_map_statistics(map, &statistics), 0);
                assert_int_equal(statistics.bytes, 0);
                tslab_map_close(map);
        }
        free(big);
        free(buffer);
}

static void test_map_put_memory_short(void **state) {
        try_memory_short(state, 1);
        try_memory_short(state, 3800);
}

/* In fewer pieces a value takes more: where these exceed the map's limit, memory is still what the put lacks. */
static void try_memory_short_limit(struct tslab *pool, uint64_t limit, int other_size) {
        enum { SLAB = 4096 };
        const struct tslab_map_options options = { .size = sizeof(options), .limit_bytes = limit };
        static const uint8_t value[5632]; /* 6212 bytes of memory in three pieces, 6672 in two */
        struct tslab_map_statistics statistics = { .size = sizeof(statistics) };
        tslab_handle handles[256];
        struct tslab_map *map;
        unsigned n = 0;

        assert_int_equal(tslab_map_open(&map, pool, "m", &options), 0);
        assert_int_equal(tslab_map_put(map, "k", 1, value, 4000, TSLAB_EPOCH_CURRENT), 0);
        if (other_size > 0)
                assert_int_equal(tslab_map_put(map, "o", 1, value, other_size, TSLAB_EPOCH_CURRENT), 0);
        while (tslab_alloc(pool, SLAB, TSLAB_EPOCH_CURRENT, &handles[n], NULL) == 0)
                n++;
        for (unsigned i = 0; i < 2; i++)
                assert_int_equal(tslab_free(pool, handles[--n]), 0);
        assert_int_equal(tslab_map_put(map, "k", 1, value, sizeof(value), TSLAB_EPOCH_CURRENT), -ENOMEM);
        assert_int_equal(tslab_map_get(map, "k", 1, NULL, 0, NULL), -EMSGSIZE);
        assert_int_equal(tslab_free(pool, handles[--n]), 0);
        assert_int_equal(tslab_map_put(map, "k", 1, value, sizeof(value), TSLAB_EPOCH_CURRENT), 0);
        assert_int_equal(tslab_map_statistics(map, &statistics), 0);
        assert_int_equal(statistics.failures, 1);
        tslab_map_close(map);
}

static void test_map_put_memory_short_limit(void **state) {
        const struct tslab_options options = { .size = sizeof(options), .arena_bytes = 1 << 20 };

        for (unsigned i = 0; i < 2; i++) {
                tslab_close(*state);
                assert_int_equal(tslab_create((struct tslab **) state, &options), 0);
                try_memory_short_limit(*state, i == 0 ? 6400 : 10800, i == 0 ? 0 : 4000);
        }
}

/* Values whose chunks are named by one block, and by more: whole, and around the bytes where the next block begins. */
static void test_map_blocks(void **state) {
        enum { CHUNK = 4096, N_FIRST = 511, BIG = 5 << 20 };
        const size_t sizes[] = { 16 * CHUNK,   16 * CHUNK + 1, 512 * CHUNK,      512 * CHUNK + 1,
                                 1022 * CHUNK, 1023 * CHUNK,   1023 * CHUNK + 1, BIG };
        const struct tslab_map_options options = { .size = sizeof(options), .value_max = BIG };
        uint8_t *big = malloc(BIG), *buffer = malloc(BIG);
        struct tslab_map_info info = { .size = sizeof(info) };
        struct tslab_map *map;

        assert_true(big && buffer);
        assert_int_equal(tslab_map_open(&map, *state, "blocks", &options), 0);
        for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                fill_pattern(big, sizes[i], i);
                assert_int_equal(tslab_map_put(map, "k", 1, big, sizes[i], TSLAB_EPOCH_CURRENT), 0);
                assert_int_equal(tslab_map_get(map, "k", 1, buffer, BIG, NULL), sizes[i]);
                assert_memory_equal(buffer, big, sizes[i]);
                for (size_t at = N_FIRST * CHUNK - 1; at < sizes[i];
                     at += at % CHUNK ? 1 : N_FIRST * CHUNK - 1) {
                        size_t n = sizes[i] - at < 5000 ? sizes[i] - at : 5000;

                        assert_int_equal(tslab_map_find(map, "k", 1, &info), 0);
                        assert_int_equal(tslab_map_read(map, info.place, at, buffer, 5000), n);
                        assert_memory_equal(buffer, big + at, n);
                }
        }
        assert_int_equal(tslab_map_delete(map, "k", 1), 0);
        tslab_map_close(map);
        free(big);
        free(buffer);
}

static void test_map_iterate_and_expire(void **state) {
        enum { N = 1000 };
        struct tslab_map_info info = { .size = sizeof(info) };
        struct tslab_map_cursor cursor = {};
        char entry[12];
        struct tslab *pool = *state;
        unsigned char seen[N] = {};
        uint32_t first, second;
        struct tslab_map *map;
        int r;

        assert_int_equal(tslab_map_open(&map, pool, "m", NULL), 0);
        assert_int_equal(tslab_epoch_current(pool, &first), 0);
        for (uint32_t i = 0; i < N; i++) {
                uint64_t square = i * i;

                if (i == 600)
                        assert_int_equal(tslab_epoch_advance(pool, &second), 0);
                assert_int_equal(tslab_map_put(map, &i, 4, &square, 8, TSLAB_EPOCH_CURRENT), 0);
        }
        while ((r = tslab_map_next(map, &cursor, entry, sizeof(entry), &info)) > 0) {
                uint32_t i;
                uint64_t square;

                assert_int_equal(info.key_size, 4);
                assert_int_equal(info.value_size, 8);
                memcpy(&i, entry, 4);
                memcpy(&square, entry + 4, 8);
                assert_int_equal(square, i * i);
                assert_int_equal(info.epoch, i < 600 ? first : second);
                seen[i]++;
        }
        assert_int_equal(r, 0);
        assert_int_equal(tslab_map_next(map, &cursor, entry, sizeof(entry), &info), 0);
        for (uint32_t i = 0; i < N; i++)
                assert_int_equal(seen[i], 1);
        assert_int_equal(tslab_epoch_close(pool, first, 0), 0);
        assert_int_equal(tslab_map_count(map), N);
        assert_int_equal(tslab_map_put(map, "x", 1, "x", 1, first), -ESHUTDOWN);
        assert_int_equal(tslab_map_expire(map, first), 600);
        assert_int_equal(tslab_map_expire(map, first), 0);
        assert_int_equal(tslab_map_count(map), 400);
        assert_int_equal(tslab_map_expire(map, TSLAB_EPOCH_CURRENT), 400);
        tslab_map_close(map);
}

/* More keys than are fetched at one time: present, absent, too large, with too little room; in each mode of a put. */
static void test_map_many(void **state) {
        enum { N = 100 };
        struct tslab_map_put_options options = { .size = sizeof(options), .epoch = TSLAB_EPOCH_CURRENT };
        static struct tslab_map_item items[N + 2];
        static uint64_t keys[N], values[N];
        static const char large[8192];
        struct tslab_map *map;

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        for (unsigned i = 0; i < N; i++) {
                keys[i] = i;
                values[i] = i * i;
                items[i] = (struct tslab_map_item){
                        .key = &keys[i], .key_size = 8, .value = &values[i], .value_size = 8
                };
        }
        items[N] = (struct tslab_map_item){ .key = large, .key_size = sizeof(large), .value = values };
        items[N + 1] = (struct tslab_map_item){ .key = "none", .key_size = 4, .value = values };
        assert_int_equal(tslab_map_get_many(map, items, N + 2), 0);
        assert_int_equal(tslab_map_put_many(map, items, N + 1, NULL), N);
        assert_int_equal(items[N].result, -E2BIG);
        options.mode = TSLAB_MAP_INSERT;
        assert_int_equal(tslab_map_put_many(map, items, N, &options), 0);
        assert_int_equal(items[7].result, -EEXIST);
        memset(values, 0, sizeof(values));
        items[5].value_size = 7;
        assert_int_equal(tslab_map_get_many(map, items, N + 2), N - 1);
        for (unsigned i = 0; i < N; i++) {
                assert_int_equal(items[i].result, i == 5 ? -EMSGSIZE : 8);
                assert_int_equal(items[i].value_size, 8);
                assert_int_equal(values[i], i == 5 ? 0 : i * i);
        }
        assert_int_equal(items[N].result, -ENOENT);
        assert_int_equal(items[N + 1].result, -ENOENT);
        options.mode = TSLAB_MAP_REPLACE;
        items[9].version++;
        assert_int_equal(tslab_map_put_many(map, items, N, &options), N - 1);
        assert_int_equal(items[9].result, -EAGAIN);
        options.mode = 9;
        assert_int_equal(tslab_map_put_many(map, items, N, &options), -EINVAL);
        assert_int_equal(tslab_map_count(map), N);
        tslab_map_close(map);
}

/* A cursor is a value: a copy goes on from the same place, and an entry with too little room is met again. */
static void test_map_cursor_moves(void **state) {
        struct tslab_map_info info = { .size = sizeof(info) };
        struct tslab_map_cursor cursor = {}, kept;
        struct tslab_map *map;
        char first[12], again[12];
        int r, n = 0;

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        for (uint64_t i = 0; i < 500; i++)
                assert_int_equal(tslab_map_put(map, &i, 8, "four", 4, TSLAB_EPOCH_CURRENT), 0);
        for (;; n++) {
                struct tslab_map_cursor *moved = malloc(sizeof(*moved));

                assert_non_null(moved);
                *moved = kept = cursor;
                r = tslab_map_next(map, moved, first, sizeof(first), NULL);
                cursor = *moved;
                free(moved);
                if (r != 1)
                        break;
                /* Once more, from the copy: with no room, with room for the key alone, and in full. */
                moved = &kept;
                assert_int_equal(tslab_map_next(map, moved, again, 7, &info), -EMSGSIZE);
                assert_int_equal(info.key_size, 8);
                assert_int_equal(tslab_map_next(map, &(struct tslab_map_cursor){ { kept.at[0], kept.at[1] } },
                                                again, 11, &info),
                                 1);
                assert_int_equal(info.flags, TSLAB_MAP_KEY_ONLY);
                assert_memory_equal(again, first, 8);
                assert_int_equal(tslab_map_next(map, moved, again, 12, &info), 1);
                assert_int_equal(info.flags, 0);
                assert_memory_equal(again, first, 12);
                assert_memory_equal(&cursor, moved, sizeof(cursor));
        }
        assert_int_equal(r, 0);
        assert_int_equal(n, 500);
        tslab_map_close(map);
}

/* A place is that of one value: of no other, of no other map, and of no object. */
static void test_map_place(void **state) {
        struct tslab_map_info info = { .size = sizeof(info) }, old;
        struct tslab_map *map, *other;
        tslab_handle object;
        char buffer[4096];
        void *address;

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        assert_int_equal(tslab_map_open(&other, *state, "other", NULL), 0);
        assert_int_equal(tslab_map_put(map, "k", 1, "one", 3, TSLAB_EPOCH_CURRENT), 0);
        assert_int_equal(tslab_map_find(map, "k", 1, &info), 0);
        assert_true(info.place == info.version && info.key_size == 1 && info.value_size == 3);
        assert_int_equal(tslab_map_read(map, info.place, 1, buffer, sizeof(buffer)), 2);
        assert_memory_equal(buffer, "ne", 2);
        assert_int_equal(tslab_map_read(map, info.place, 3, buffer, 1), 0);
        assert_int_equal(tslab_map_read(map, info.place, SIZE_MAX, buffer, 1), 0);
        assert_int_equal(tslab_map_read(other, info.place, 0, buffer, 1), -ESTALE);
        assert_int_equal(tslab_map_read(map, 0, 0, buffer, 1), -ESTALE);
        old = info;
        assert_int_equal(tslab_map_put(map, "k", 1, "two", 3, TSLAB_EPOCH_CURRENT), 0);
        assert_int_equal(tslab_map_read(map, old.place, 0, buffer, 3), -ESTALE);
        assert_int_equal(tslab_alloc(*state, sizeof(buffer), TSLAB_EPOCH_CURRENT, &object, &address), 0);
        memset(address, 0xff, sizeof(buffer));
        assert_int_equal(tslab_map_read(map, object, 0, buffer, sizeof(buffer)), -ESTALE);
        tslab_map_close(other);
        tslab_map_close(map);
}

/* The iteration tells the key of a damaged value, and goes on. */
static void test_map_iterate_damaged(void **state) {
        struct tslab_map_info info = { .size = sizeof(info) };
        struct tslab_map_cursor cursor = {};
        struct tslab *pool = *state;
        uint32_t n = 0, n_damaged = 0;
        uint64_t key[512];
        char value[2100] = {};
        tslab_handle version;
        struct tslab_map *map;
        uint32_t *entry;
        int r;

        assert_int_equal(tslab_map_open(&map, pool, "m", NULL), 0);
        for (uint64_t i = 0; i < 20; i++)
                assert_int_equal(tslab_map_put(map, &i, 8, value, sizeof(value), TSLAB_EPOCH_CURRENT), 0);
        assert_int_equal(tslab_map_get(map, &(uint64_t){ 7 }, 8, value, sizeof(value), &version),
                         sizeof(value));
        assert_int_equal(tslab_get(pool, version, (void **) &entry, NULL), 0);
        entry[(32 + 8) / 4] ^= 1U << 29; /* behind head and key: the slab of the other piece is none */
        for (; (r = tslab_map_next(map, &cursor, key, sizeof(key), &info)) != 0; n++) {
                assert_int_equal(info.key_size, 8);
                assert_int_equal(r == -EUCLEAN, key[0] == 7);
                assert_int_equal(info.flags, r == -EUCLEAN ? TSLAB_MAP_KEY_ONLY : 0);
                n_damaged += r == -EUCLEAN;
        }
        assert_int_equal(n, 20);
        assert_int_equal(n_damaged, 1);
        tslab_map_close(map);
}

#define N_COUNTS 3000

static int count_up(struct tslab_map *map, const char *key) {
        int r;

        do {
                tslab_handle version = 0;
                uint64_t count = 0;
                ssize_t n;

                n = tslab_map_get(map, key, 4, &count, sizeof(count), &version);
                if (n < 0 && n != -ENOENT)
                        return (int) n;
                count = n < 0 ? 1 : count + 1;
                r = tslab_map_replace(map, key, 4, version, &count, sizeof(count), TSLAB_EPOCH_CURRENT);
        } while (r == -EAGAIN);
        return r;
}

/* Every child opens, and one of them creates. */
static int count_child(void *userdata) {
        struct tslab *pool = userdata;
        struct tslab_map *map;

        CHECK(tslab_map_open(&map, pool, "shared", NULL) == 0);
        for (unsigned i = 0; i < N_COUNTS; i++) {
                CHECK(count_up(map, "hits") == 0);
                CHECK(count_up(map, i & 1 ? "odd_" : "even") == 0);
        }
        tslab_map_close(map);
        tslab_close(pool);
        return 0;
}

static void test_map_processes_lose_no_update(void **state) {
        enum { N_CHILDREN = 6 };
        struct tslab *pool = *state;
        pid_t pids[N_CHILDREN];
        struct tslab_map *map;
        uint64_t n;

        for (unsigned i = 0; i < N_CHILDREN; i++)
                pids[i] = test_child_start((TestFork) (i % _TEST_FORK_N), count_child, pool);
        for (unsigned i = 0; i < N_CHILDREN; i++)
                assert_int_equal(test_child_wait(pids[i]), 0);
        assert_int_equal(tslab_map_open(&map, pool, "shared", NULL), 0);
        assert_int_equal(n_map_epochs(pool), 1);
        assert_int_equal(tslab_map_get(map, "hits", 4, &n, sizeof(n), NULL), 8);
        assert_int_equal(n, N_CHILDREN * N_COUNTS);
        assert_int_equal(tslab_map_get(map, "even", 4, &n, sizeof(n), NULL), 8);
        assert_int_equal(n, N_CHILDREN * N_COUNTS / 2);
        assert_int_equal(tslab_map_count(map), 3);
        tslab_map_close(map);
}

static int endless_child(void *userdata) {
        struct tslab_map *map = userdata;
        char value[300];

        for (unsigned i = 0;; i++) {
                memset(value, 'a' + i % 26, sizeof(value));
                CHECK(tslab_map_put(map, "key", 3, value, 1 + i * 37 % 300, TSLAB_EPOCH_CURRENT) == 0);
        }
}

/* Whenever it dies, there is a value, and a whole one. */
static void test_map_killed_writer(void **state) {
        char value[300];
        struct tslab_map *map;

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        assert_int_equal(tslab_map_put(map, "key", 3, "a", 1, TSLAB_EPOCH_CURRENT), 0);
        for (unsigned i = 0; i < 50; i++) {
                pid_t pid = test_child_start(TEST_FORK, endless_child, map);

                for (unsigned k = 0; k < 200 + i * 100; k++) {
                        ssize_t n = tslab_map_get(map, "key", 3, value, sizeof(value), NULL);

                        assert_in_range(n, 1, 300);
                        for (ssize_t j = 1; j < n; j++)
                                assert_int_equal(value[j], value[0]);
                }
                kill(pid, SIGKILL);
                assert_int_equal(test_child_wait(pid), -SIGKILL);
                assert_in_range(tslab_map_get(map, "key", 3, value, sizeof(value), NULL), 1, 300);
        }
        tslab_map_close(map);
}

static void *count_thread(void *userdata) {
        for (unsigned i = 0; i < N_COUNTS; i++)
                if (count_up(userdata, "hits") != 0)
                        return "failed";
        return NULL;
}

/* No map has such a key: it is absent, and cannot be put. */
static void test_map_key_of_64_kib(void **state) {
        struct tslab_map_info info = { .size = sizeof(info) };
        static const char key[64 << 10] = "k";
        const size_t size = sizeof(key);
        struct tslab_map *map;
        uint64_t retry_ms = 7;
        tslab_handle version = 7;
        char buffer[8];
        int64_t value;
        void *alloced;

        assert_int_equal(tslab_map_open(&map, *state, "m", NULL), 0);
        assert_int_equal(tslab_map_put(map, key, size, "1", 1, TSLAB_EPOCH_CURRENT), -E2BIG);
        assert_int_equal(tslab_map_put_with(map, key, size, "1", 1, NULL), -E2BIG);
        assert_int_equal(tslab_map_replace(map, key, size, 0, "1", 1, TSLAB_EPOCH_CURRENT), -E2BIG);
        assert_int_equal(tslab_map_add(map, key, size, 1, 0, 0, &value), -E2BIG);
        assert_int_equal(tslab_map_limit(map, key, size, 1, 1, 1, &retry_ms), -E2BIG);
        assert_int_equal(tslab_map_claim(map, key, size, TSLAB_EPOCH_CURRENT, &version), -E2BIG);
        assert_int_equal(tslab_map_get(map, key, size, buffer, sizeof(buffer), &version), -ENOENT);
        assert_int_equal(tslab_map_get_with(map, key, size, buffer, sizeof(buffer), &info), -ENOENT);
        assert_int_equal(tslab_map_find(map, key, size, &info), -ENOENT);
        assert_int_equal(tslab_map_get_alloc(map, key, size, &alloced, NULL), -ENOENT);
        assert_int_equal(tslab_map_touch(map, key, size, 1), -ENOENT);
        assert_int_equal(tslab_map_take(map, key, size, buffer, sizeof(buffer), NULL), -ENOENT);
        assert_int_equal(tslab_map_delete(map, key, size), -ENOENT);
        assert_int_equal(tslab_map_delete_version(map, key, size, 1), -ENOENT);
        assert_int_equal(tslab_map_wait(map, key, size, 0, UINT32_MAX), 0);
        assert_true(retry_ms == 7 && version == 7);
        assert_int_equal(tslab_map_count(map), 0);
        tslab_map_close(map);
}

/* Few records: threads that find none share one. */
static void test_map_threads_share_a_record(void **state) {
        struct tslab_options options = { .size = sizeof(options), .n_threads = 3 };
        struct tslab_map *map;
        struct tslab *pool;
        pthread_t threads[6];
        uint64_t n;
        void *r;

        (void) state;
        assert_int_equal(tslab_create(&pool, &options), 0);
        assert_int_equal(tslab_map_open(&map, pool, "m", NULL), 0);
        for (unsigned i = 0; i < 6; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, count_thread, map), 0);
        for (unsigned i = 0; i < 6; i++) {
                assert_int_equal(pthread_join(threads[i], &r), 0);
                assert_null(r);
        }
        assert_int_equal(tslab_map_get(map, "hits", 4, &n, sizeof(n), NULL), 8);
        assert_int_equal(n, 6 * N_COUNTS);
        tslab_map_close(map);
        tslab_close(pool);
}

/* -ESHUTDOWN: the index cannot grow. */
static int put_many(struct tslab_map *map, unsigned n) {
        int r = 0;

        for (unsigned i = 0; i < n && r == 0; i++)
                r = tslab_map_put(map, &i, sizeof(i), "v", 1, TSLAB_EPOCH_CURRENT);
        return r;
}

/* Maps of a closed epoch do not grow. Later maps do, and the closed epoch's, too, once it is revoked. */
static void test_map_epoch_closed(void **state) {
        struct tslab *pool = *state;
        struct tslab_epoch_info info = { .size = sizeof(info) };
        struct tslab_map_statistics statistics = { .size = sizeof(statistics) };
        struct tslab_map *map, *later;
        uint32_t maps = 0;

        assert_int_equal(tslab_map_open(&map, pool, "m", NULL), 0);
        assert_int_equal(put_many(map, 100), 0);
        for (uint32_t id = 0; tslab_epoch_info(pool, id, &info) == 0 && strcmp(info.label, "maps") != 0; id++)
                maps = id + 1;
        assert_int_equal(tslab_epoch_close(pool, maps, 0), 0);
        assert_int_equal(put_many(map, 5000), -ESHUTDOWN);
        assert_int_equal(tslab_map_open(&later, pool, "later", NULL), 0);
        assert_int_equal(put_many(later, 5000), 0);
        assert_null(tslab_map_close(map));
        assert_int_equal(tslab_map_open(&map, pool, "m", NULL), 0);
        assert_int_equal(put_many(map, 5000), -ESHUTDOWN);
        assert_int_equal(tslab_epoch_close(pool, maps, TSLAB_CLOSE_REVOKE), 0);
        assert_int_equal(tslab_map_get(map, "x", 1, NULL, 0, NULL), -EIDRM);
        assert_int_equal(tslab_map_statistics(map, &statistics), -EIDRM);
        assert_null(tslab_map_close(map));
        assert_int_equal(tslab_map_open(&map, pool, "m", NULL), 0);
        assert_int_equal(tslab_map_count(map), 0);
        assert_int_equal(put_many(map, 5000), 0);
        assert_int_equal(tslab_map_count(later), 5000);
        tslab_map_close(map);
        tslab_map_close(later);
}

/* Gets are counted in each pool that the thread uses, also while an object is pending in one. */
static void test_map_gets_in_several_pools(void **state) {
        enum { N_POOLS = 3, ROUNDS = 10 };
        struct tslab_map_statistics statistics = { .size = sizeof(statistics) };
        struct tslab *pools[N_POOLS] = { *state };
        struct tslab_map *maps[N_POOLS];
        tslab_handle pending;

        for (unsigned i = 0; i < N_POOLS; i++) {
                if (i > 0)
                        assert_int_equal(tslab_create(&pools[i], NULL), 0);
                assert_int_equal(tslab_map_open(&maps[i], pools[i], "m", NULL), 0);
                assert_int_equal(tslab_map_put(maps[i], "k", 1, "v", 1, TSLAB_EPOCH_CURRENT), 0);
        }
        for (unsigned round = 0; round < ROUNDS; round++) {
                for (unsigned i = 0; i < N_POOLS; i++) {
                        assert_value(maps[i], "k", "v");
                        assert_int_equal(tslab_map_get(maps[i], "x", 1, NULL, 0, NULL), -ENOENT);
                }
                if (round == 0)
                        assert_int_equal(
                                tslab_alloc_pending(pools[1], 64, TSLAB_EPOCH_CURRENT, &pending, NULL), 0);
        }
        for (unsigned i = 0; i < N_POOLS; i++) {
                assert_int_equal(tslab_map_statistics(maps[i], &statistics), 0);
                assert_int_equal(statistics.hits, ROUNDS);
                assert_int_equal(statistics.misses, ROUNDS);
                tslab_map_close(maps[i]);
                if (i > 0)
                        tslab_close(pools[i]);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_map_epoch_closed, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_gets_in_several_pools, map_pool_setup,
                                                map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_open_flags, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_open_not_a_map, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_remove, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_hundreds, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_open_one_epoch_for_all, map_pool_setup,
                                                map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_open_finds_labelled_epoch, map_pool_setup,
                                                map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_put_get_delete, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_blocks, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_sizes, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_put_memory_short, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_put_memory_short_limit, map_pool_setup,
                                                map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_sizes_in_few_classes, map_pool_setup,
                                                map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_key_of_64_kib, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_iterate_and_expire, map_pool_setup,
                                                map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_many, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_cursor_moves, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_place, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_iterate_damaged, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_processes_lose_no_update, map_pool_setup,
                                                map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_killed_writer, map_pool_setup, map_pool_teardown),
                cmocka_unit_test_setup_teardown(test_map_threads_share_a_record, map_pool_setup,
                                                map_pool_teardown),
        };

        return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
