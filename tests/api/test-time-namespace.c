/*
 * Processes in several time namespaces use one private pool. Their clocks are hours apart, and lifetimes, claims and
 * buckets are the same for all. Skipped where no namespace can be made.
 */
#include <tslab_map.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/util/process.h"
#include "tests/util/test.h"

#define N_SPACES 4
#define TTL_MS 600000U
#define SLACK_MS 300000U /* the longest that this test may take on a loaded machine */

/* Seconds by which the clocks of each namespace are ahead. */
static const struct {
        int monotonic, boot;
} spaces[N_SPACES] = { { 0, 0 }, { 0, 7200 }, { 5000, 90000 }, { 86400, 3600 } };

static struct tslab *pool;
static struct tslab_map *map;

static int write_file(const char *path, const char *text) {
        int fd = open(path, O_WRONLY | O_CLOEXEC), r;

        if (fd < 0)
                return -errno;
        r = write(fd, text, strlen(text)) < 0 ? -errno : 0;
        close(fd);
        return r;
}

/* From now on children begin in a namespace of their own. */
static int unshare_time(int monotonic, int boot) {
        char text[96];

        if (unshare(CLONE_NEWTIME) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWTIME) != 0)
                return -errno;
        snprintf(text, sizeof(text), "monotonic %d 0\nboottime %d 0\n", monotonic, boot);
        return write_file("/proc/self/timens_offsets", text);
}

static int put_as(int space, const char *what) {
        struct tslab_map_put_options o = { .size = sizeof(o),
                                           .epoch = TSLAB_EPOCH_CURRENT,
                                           .ttl_ms = TTL_MS };
        char key[32];
        int n = snprintf(key, sizeof(key), "%s %d", what, space);

        return tslab_map_put_with(map, key, (size_t) n, "v", 1, &o);
}

/* An entry of each other process is there, with as much time left as it should have. */
static int check_entries(const char *what) {
        struct tslab_map_info info = { .size = sizeof(info) };
        char key[32], value[8];

        for (int i = 0; i < N_SPACES; i++) {
                int n = snprintf(key, sizeof(key), "%s %d", what, i);

                CHECK(tslab_map_get_with(map, key, (size_t) n, value, sizeof(value), &info) == 1);
                CHECK(info.ttl_left_ms <= TTL_MS && info.ttl_left_ms > TTL_MS - SLACK_MS);
        }
        return 0;
}

/* All wait for one another by means of the map, so that none is gone before the others have looked. */
static int await_others(int space, const char *what) {
        char key[32], value[8];
        int n;

        CHECK(put_as(space, what) == 0);
        for (int i = 0; i < N_SPACES; i++) {
                n = snprintf(key, sizeof(key), "%s %d", what, i);
                while (tslab_map_get(map, key, (size_t) n, value, sizeof(value), NULL) < 0)
                        usleep(1000);
        }
        return 0;
}

static int work_in(void *userdata) {
        int space = *(int *) userdata, r;
        tslab_handle claim, object;
        uint64_t retry_ms;
        char name[8];
        void *at;

        alarm(240); /* if another process fails, this one does not wait for ever */
        CHECK(put_as(space, "entry") == 0);
        snprintf(name, sizeof(name), "claim%d", space);
        CHECK(tslab_map_claim(map, name, 6, TSLAB_EPOCH_CURRENT, &claim) == 0);
        CHECK(tslab_map_limit(map, name, 1, 1e-3, 4, 1, NULL) == 0); /* one bucket for all */
        CHECK(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &object, &at) == 0);
        CHECK(await_others(space, "ready") == 0);

        CHECK(check_entries("entry") == 0);
        for (int i = 0; i < N_SPACES; i++) {
                snprintf(name, sizeof(name), "claim%d", i);
                CHECK(tslab_map_claim(map, name, 6, TSLAB_EPOCH_CURRENT, &claim) == -EBUSY);
        }
        CHECK(tslab_map_limit(map, name, 1, 1e-3, 4, 1, &retry_ms) == 1);
        CHECK(retry_ms <= 1000000 && retry_ms > 1000000 - SLACK_MS);
        /* Nobody takes a process of another namespace for a dead one, whose objects and claims are free. */
        while ((r = tslab_reap(pool)) == -EBUSY)
                usleep(1000);
        CHECK(r == 0);
        CHECK(await_others(space, "reaped") == 0);
        CHECK(tslab_get(pool, object, &at, NULL) == 0);
        CHECK(tslab_free(pool, object) == 0);
        return await_others(space, "done");
}

/* A process that unshares, then forks: the child's clocks have jumped since its parent last read them. */
static int begin_in(void *userdata) {
        int space = *(int *) userdata;

        CHECK(check_entries("before") == 0);
        if (space != 0)
                CHECK(unshare_time(spaces[space].monotonic, spaces[space].boot) == 0);
        CHECK(check_entries("before") == 0);
        return test_child_run(TEST_FORK, work_in, userdata);
}

static void test_time_namespaces_at_once(void **state) {
        pid_t pids[N_SPACES];
        int ids[N_SPACES];

        (void) state;
        for (int i = 0; i < N_SPACES; i++)
                assert_int_equal(put_as(i, "before"), 0);
        for (int i = 0; i < N_SPACES; i++) {
                ids[i] = i;
                pids[i] = test_child_start(TEST_FORK, begin_in, &ids[i]);
        }
        for (int i = 0; i < N_SPACES; i++)
                assert_int_equal(test_child_wait(pids[i]), 0);
        assert_int_equal(check_entries("entry"), 0);
}

/* The first use of the pool's clock is in a namespace: as on a host that was suspended for two hours. */
static int use_first(void *userdata) {
        struct tslab_map_info info = { .size = sizeof(info) };
        uint64_t retry_ms;
        char value[8];

        (void) userdata;
        CHECK(tslab_create(&pool, NULL) == 0);
        CHECK(tslab_map_open(&map, pool, "first", NULL) == 0);
        CHECK(put_as(0, "e") == 0);
        CHECK(tslab_map_get_with(map, "e 0", 3, value, sizeof(value), &info) == 1);
        CHECK(info.ttl_left_ms <= TTL_MS && info.ttl_left_ms > TTL_MS - SLACK_MS);
        for (int i = 0; i < 10; i++)
                CHECK(tslab_map_limit(map, "b", 1, 1e-3, 10, 1, NULL) == 0);
        CHECK(tslab_map_limit(map, "b", 1, 1e-3, 10, 1, &retry_ms) == 1);
        return 0;
}

static int begin_first(void *userdata) {
        CHECK(unshare_time(0, 7200) == 0);
        return test_child_run(TEST_FORK, use_first, userdata);
}

static void test_time_namespace_first_use(void **state) {
        (void) state;
        assert_int_equal(test_child_run(TEST_FORK, begin_first, NULL), 0);
}

static int probe(void *userdata) {
        (void) userdata;
        return unshare_time(0, 1) ? 77 : 0;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_time_namespace_first_use),
                cmocka_unit_test(test_time_namespaces_at_once),
        };

        if (test_child_run(TEST_FORK, probe, NULL) == 77) {
                printf("no time namespace can be made here\n");
                return 77;
        }
        assert_int_equal(tslab_create(&pool, NULL), 0);
        assert_int_equal(tslab_map_open(&map, pool, "m", NULL), 0);
        return cmocka_run_group_tests_name("time-namespace", tests, NULL, NULL);
}
