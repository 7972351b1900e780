#pragma once
/* The fixture of tests of maps: a private pool. */
#include <string.h>
#include <time.h>

#include <tslab_map.h>

#include "tests/util/test.h"

static inline int map_pool_setup(void **state) {
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, NULL), 0);
        *state = pool;
        return 0;
}

static inline int map_pool_teardown(void **state) {
        tslab_close(*state);
        return 0;
}

/* tslab_map_put_with() that mode, in the current epoch. */
static inline int put_mode(struct tslab_map *map, enum tslab_map_mode mode, const char *key,
                           const void *value, size_t size) {
        const struct tslab_map_put_options options = { .size = sizeof(options),
                                                       .epoch = TSLAB_EPOCH_CURRENT,
                                                       .mode = mode };

        return tslab_map_put_with(map, key, strlen(key), value, size, &options);
}

static inline void sleep_ms(unsigned ms) {
        nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}
