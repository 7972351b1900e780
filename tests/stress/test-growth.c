/*
 * Nothing grows with the number of calls. Each call is repeated with a daemon. At the end both processes have as much
 * memory and as many descriptors as after a tenth of the calls, and the pool as much memory, with nothing lost.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tslab.h>
#include <tslab_map.h>
#include <tslab_near.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "tests/util/ctl.h"
#include "tests/util/test.h"

#define NOBODY 65534
#define ANON_MAX (256U << 10) /* the heaps of two processes are not even */
#define BLOCKS_MAX (256U << 10) /* nor are the records of threads that come and go */

#define CHECK(_condition)                                                                                    \
        do {                                                                                                 \
                if (!(_condition)) {                                                                         \
                        fprintf(stderr, "line %d: %s, errno %d\n", __LINE__, #_condition, errno);            \
                        _exit(1);                                                                            \
                }                                                                                            \
        } while (0)

static DaemonFixture the_daemon;
static struct tslab *pool;

typedef struct Sizes {
        uint64_t daemon_anon, own_anon, daemon_fds, own_fds, committed, blocks, clients, threads;
} Sizes;

/* ---- Calls that are repeated */

static void open_and_close(unsigned n) {
        for (unsigned i = 0; i < n; i++) {
                struct tslab *other;
                tslab_handle handle;
                void *object;

                CHECK(tslab_open(&other, the_daemon.socket, NULL) == 0);
                CHECK(tslab_alloc(other, 100, TSLAB_EPOCH_CURRENT, &handle, &object) == 0);
                CHECK(tslab_free(other, handle) == 0);
                tslab_close(other);
        }
}

static void attach_and_leave(unsigned n) {
        pid_t pid = fork();
        int status;

        CHECK(pid >= 0);
        if (pid == 0) {
                tslab_close(pool);
                if (geteuid() == 0)
                        CHECK(setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
                              setresuid(NOBODY, NOBODY, NOBODY) == 0);
                open_and_close(n / 2);
                _exit(0);
        }
        open_and_close(n - n / 2);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
}

static struct tslab_map *open_map(const char *name, uint64_t limit_bytes) {
        const struct tslab_map_options options = {
                .size = sizeof(options),
                .limit_bytes = limit_bytes,
                .evict = TSLAB_MAP_EVICT_SIEVE,
        };
        struct tslab_map *map;

        assert_int_equal(tslab_map_open(&map, pool, name, &options), 0);
        return map;
}

static void map_open_and_close(unsigned n) {
        for (unsigned i = 0; i < n; i++)
                tslab_map_close(open_map("opened", 0));
}

static void near_open_and_close(unsigned n) {
        for (unsigned i = 0; i < n; i++) {
                struct tslab_near *near;

                assert_int_equal(tslab_near_open(&near, pool, "near", NULL), 0);
                tslab_near_close(near);
        }
}

static void epoch_advance(unsigned n) {
        for (unsigned i = 0; i < n; i++) {
                tslab_handle handle;
                uint32_t epoch;
                void *object;

                assert_int_equal(tslab_alloc(pool, 100, TSLAB_EPOCH_CURRENT, &handle, &object), 0);
                assert_int_equal(tslab_epoch_advance(pool, &epoch), 0);
                assert_int_equal(tslab_free(pool, handle), 0);
        }
}

static void put_and_evict(unsigned n) {
        struct tslab_map *map = open_map("limited", 1 << 20);
        static uint64_t key;
        char value[300] = "";

        for (unsigned i = 0; i < n; i++, key++)
                assert_int_equal(tslab_map_put(map, &key, sizeof(key), value, key % sizeof(value),
                                               TSLAB_EPOCH_CURRENT),
                                 0);
        tslab_map_close(map);
}

static void claim_and_fulfil(unsigned n) {
        struct tslab_map *map = open_map("claimed", 0);

        for (uint64_t i = 0; i < n; i++) {
                uint64_t key = i % 100;
                tslab_handle version;

                assert_int_equal(tslab_map_claim(map, &key, sizeof(key), TSLAB_EPOCH_CURRENT, &version), 0);
                assert_int_equal(
                        tslab_map_replace(map, &key, sizeof(key), version, "value", 5, TSLAB_EPOCH_CURRENT),
                        0);
                assert_int_equal(tslab_map_delete(map, &key, sizeof(key)), 0);
        }
        tslab_map_close(map);
}

static void claim_and_die(unsigned n) {
        struct tslab_map *map = open_map("claimed", 0);

        for (unsigned i = 0; i < n; i++) {
                tslab_handle version;
                int status, r;
                pid_t pid = fork();

                assert_true(pid >= 0);
                if (pid == 0) {
                        CHECK(tslab_map_claim(map, "key", 3, TSLAB_EPOCH_CURRENT, &version) == 0);
                        (void) kill(getpid(), SIGKILL);
                }
                assert_int_equal(waitpid(pid, &status, 0), pid);
                assert_true(WIFSIGNALED(status));
                while ((r = tslab_map_claim(map, "key", 3, TSLAB_EPOCH_CURRENT, &version)) == -EBUSY)
                        (void) tslab_map_wait(map, "key", 3, version, 1000);
                assert_int_equal(r, 0);
                assert_int_equal(tslab_map_delete_version(map, "key", 3, version), 0);
        }
        tslab_map_close(map);
}

static void maps_set(unsigned n) {
        ProtoCall *call = daemon_connect(&the_daemon, 0);

        tslab_map_close(open_map("opened", 0));
        for (unsigned i = 0; i < n; i++) {
                ProtoRequest request = PROTO_REQUEST_INIT;
                Tslab__MapSet set = TSLAB__MAP_SET__INIT;

                set.map = (char *) "opened";
                set.set = 3;
                set.limit_bytes = UINT64_C(1000000) + i % 1000;
                set.ttl_msec = 1000 + i % 100;
                request.body_case = TSLAB__REQUEST__BODY_MAP_SET;
                request.map_set = &set;
                (void) proto_reply_free(daemon_call(call, &request, NULL));
        }
        (void) proto_call_free(call);
}

/* ---- Sizes */

static uint64_t anon_of(pid_t pid) {
        char path[64], line[128];
        uint64_t kib = 0;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
        file = fopen(path, "re");
        assert_non_null(file);
        while (fgets(line, sizeof(line), file))
                if (strncmp(line, "RssAnon:", 8) == 0)
                        kib = strtoull(line + 8, NULL, 10);
        fclose(file);
        return kib << 10;
}

static uint64_t count_fds_of(pid_t pid) {
        char path[64];
        struct stat st;
        uint64_t n = 0;

        for (unsigned fd = 0; fd < 1024; fd++) {
                snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int) pid, fd);
                n += lstat(path, &st) == 0;
        }
        return n;
}

/* Connections of tslabctl may be closed a moment after it has ended. */
static uint64_t settled_fds_of(pid_t pid) {
        uint64_t n = count_fds_of(pid), least = n;

        for (unsigned i = 0; i < 20; i++) {
                usleep(10000);
                n = count_fds_of(pid);
                least = n < least ? n : least;
        }
        return least;
}

static Sizes look(void) {
        CtlMemory memory;
        Sizes s;

        WAIT_FOR(ctl_stat(&the_daemon, "clients") == 1 && ctl_stat(&the_daemon, "records_unsettled") == 0);
        assert_int_equal(tslab_drain(pool), 0);
        assert_int_equal(ctl_run(&the_daemon, NULL, "trim"), 0);
        memory = ctl_memory_settled(&the_daemon);
        ctl_check(&the_daemon);
        s = (Sizes){
                .daemon_anon = anon_of(the_daemon.pid),
                .own_anon = anon_of(getpid()),
                .daemon_fds = settled_fds_of(the_daemon.pid),
                .own_fds = count_fds_of(getpid()),
                .committed = memory.committed,
                .blocks = memory.blocks,
                .clients = ctl_stat(&the_daemon, "clients"),
                .threads = ctl_stat(&the_daemon, "threads"),
        };
        return s;
}

static void tell(const char *name, unsigned n, const Sizes *s) {
        printf("%-18s %8u  %6llu %6llu KiB  %3llu %3llu fds  %6llu committed  %6llu blocks KiB  %llu threads\n",
               name, n, (unsigned long long) s->daemon_anon >> 10, (unsigned long long) s->own_anon >> 10,
               (unsigned long long) s->daemon_fds, (unsigned long long) s->own_fds,
               (unsigned long long) s->committed >> 10, (unsigned long long) s->blocks >> 10,
               (unsigned long long) s->threads);
        fflush(stdout);
}

static const struct {
        const char *name;
        void (*run)(unsigned n);
        unsigned n, n_full;
} calls[] = {
        { "attach_and_leave", attach_and_leave, 1000, 100000 },
        { "map_open_and_close", map_open_and_close, 10000, 1000000 },
        { "near_open_and_close", near_open_and_close, 10000, 1000000 },
        { "epoch_advance", epoch_advance, 1000, 100000 },
        { "put_and_evict", put_and_evict, 50000, 1000000 },
        { "claim_and_fulfil", claim_and_fulfil, 50000, 1000000 },
        { "claim_and_die", claim_and_die, 200, 100000 },
        { "maps_set", maps_set, 5000, 1000000 },
};

static void repeat(const char *name, void (*run)(unsigned), unsigned n) {
        Sizes before, after;

        run(n / 10);
        before = look();
        tell(name, n / 10, &before);
        run(n - n / 10);
        after = look();
        tell(name, n, &after);
        assert_true(after.daemon_anon <= before.daemon_anon + ANON_MAX);
        assert_true(after.own_anon <= before.own_anon + ANON_MAX);
        assert_int_equal(after.daemon_fds, before.daemon_fds);
        assert_int_equal(after.own_fds, before.own_fds);
        assert_int_equal(after.threads, before.threads);
        assert_true(after.committed <= before.committed + BLOCKS_MAX);
        assert_true(after.blocks <= before.blocks + BLOCKS_MAX);
}

static const char *wanted;

static void test_all(void **state) {
        bool full = getenv("TSLAB_TEST_FULL");

        (void) state;
        daemon_start(&the_daemon, (const char *[]){ "--size=16M", "--mode=0666", "--log-level=err", NULL });
        assert_int_equal(chmod(the_daemon.dir, 0755), 0);
        assert_int_equal(tslab_open(&pool, the_daemon.socket, NULL), 0);
        /* glibc keeps on the heap, from the second time on, the large block that a check takes. */
        for (unsigned i = 0; i < 3; i++)
                (void) look();
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
                if (!wanted || strcmp(wanted, calls[i].name) == 0)
                        repeat(calls[i].name, calls[i].run, full ? calls[i].n_full : calls[i].n);
        tslab_close(pool);
        ctl_check(&the_daemon);
        daemon_stop(&the_daemon);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_all) };

        wanted = argc > 1 ? argv[1] : NULL;
        return cmocka_run_group_tests(tests, NULL, NULL);
}
