/* Processes that open the first map of a pool at once. What others do in the middle of it is done by this thread. */
#include "libclient/pool/pool.h"

#include <errno.h>
#include <string.h>
#include <tslab_map.h>

#include "tests/util/test.h"

#define OTHER_OWNER 77

static struct {
        struct tslab_map *map; /* that the other process opens */
        unsigned n_busy; /* times that the epoch could not be given back */
} other;

int __real_tslab_epoch_reserve(struct tslab *pool, const char *label, uint32_t *ret_epoch);
int __wrap_tslab_epoch_reserve(struct tslab *pool, const char *label, uint32_t *ret_epoch);
int __real_tslab_epoch_close(struct tslab *pool, uint32_t epoch, uint32_t flags);
int __wrap_tslab_epoch_close(struct tslab *pool, uint32_t epoch, uint32_t flags);

/* Just before, another process opens a map, and just after, one more does control work. */
int __wrap_tslab_epoch_reserve(struct tslab *pool, const char *label, uint32_t *ret_epoch) {
        static bool inside;
        int r;

        if (inside)
                return __real_tslab_epoch_reserve(pool, label, ret_epoch);
        inside = true;
        assert_int_equal(tslab_map_open(&other.map, pool, "other", NULL), 0);
        r = __real_tslab_epoch_reserve(pool, label, ret_epoch);
        pool->arena.header->control_owner.value = OTHER_OWNER;
        return r;
}

/* The control work is done after the first try. */
int __wrap_tslab_epoch_close(struct tslab *pool, uint32_t epoch, uint32_t flags) {
        int r = __real_tslab_epoch_close(pool, epoch, flags);

        other.n_busy += r == -EBUSY;
        pool->arena.header->control_owner.value = 0;
        return r;
}

static unsigned n_reserved(struct tslab *pool) {
        struct tslab_epoch_info info = { .size = sizeof(info) };
        unsigned n = 0;

        for (uint32_t id = 0; id < pool->arena.n_epochs; id++)
                n += tslab_epoch_info(pool, id, &info) == 0 && info.reserved;
        return n;
}

/* The process that loses gives its epoch back, though it cannot at once. */
static void test_map_open_gives_epoch_back(void **state) {
        struct tslab_map *map;
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, NULL), 0);
        assert_int_equal(tslab_map_open(&map, pool, "map", NULL), 0);
        assert_int_equal(other.n_busy, 1);
        assert_int_equal(n_reserved(pool), 1);
        tslab_map_close(map);
        tslab_map_close(other.map);
        tslab_close(pool);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_map_open_gives_epoch_back),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
