/*
 * Workers under load, killed and stopped at random moments: with a real daemon, and in a private pool that is reaped.
 * Epochs close meanwhile, with and without revoking. Each published object is noted in memory of the test. At the end
 * just these objects live, with the bytes that they were given, and the entries of a map, which evicts. Most of the
 * time workers do bursts, so that about one kill in four is in the middle of filling or flushing a cache; the test
 * prints how many kills of each kind there were.
 *
 * `test-storm [seed [n]]`, with n kills and stops. TSLAB_TEST_FULL=1: 100,000 of them and more.
 */
#include <tslab.h>
#include <tslab_map.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libclient/pool/pool.h"
#include "proto/deadline.h"
#include "shm/maintain/check.h"
#include "shm/map/leaf/chain.h"
#include "shm/stats/stats.h"
#include "tests/crash/burst.h"
#include "tests/crash/crash-claims.h"
#include "tests/crash/deaths.h"
#include "tests/crash/operator.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/parent.h"
#include "tests/util/test.h"

#define N_WORKERS 6
#define N_OBJECTS 200 /* for each worker */
#define SIZE_MAX_TESTED 816
#define N_KEYS 3000
#define VALUE_MAX_TESTED 1500
#define LARGE_MAX_TESTED 80000 /* a chain, with a block or without; each eighth put */
#define MAP_LIMIT (512 << 10)
#define MAP_LIMIT_AT_ONCE (MAP_LIMIT + N_WORKERS * UINT64_C(2) * LARGE_MAX_TESTED) /* where several put */
#define CALM 512 /* after so many kills and stops, half of the workers are stopped, and the others go on */
#define CALM_OPS 20000 /* each of them, and nobody waits for */
#define CALM_USEC (60 * UINT64_C(1000000))
#define WATCHDOG_SECONDS 3600

typedef struct Shared {
        volatile tslab_handle objects[N_WORKERS]
                                     [N_OBJECTS]; /* stale where their worker died, or freed, meanwhile */
        volatile uint64_t n_ops[N_WORKERS];
        volatile uint64_t n_wrong; /* objects with bytes of others */
        volatile uint64_t n_reports; /* that sanitizers made */
        Burst bursts[N_WORKERS];
        Claims claims;
} Shared;

/* The pool under the storm. */
typedef struct Storm {
        const char *name;
        const DaemonFixture *daemon; /* NULL: a private pool */
        ProtoCall *control;
        struct tslab *pool; /* private */
        const ShmArena *arena;
        uint32_t epoch; /* for bursts; reserved */
        Deaths *deaths;
        pid_t pids[N_WORKERS];
        uint64_t random;
        unsigned n_kills, n_stops;
} Storm;

static Shared *shared;
static uint64_t seed;
static unsigned n_asked; /* kills and stops, 0: as usual */

#ifdef __SANITIZE_ADDRESS__
/* Called as a report begins: its process may be killed before the report ends it. */
__attribute__((visibility("default"))) void __ubsan_on_report(void);
__attribute__((visibility("default"))) void __asan_on_error(void);

void __ubsan_on_report(void) {
        if (shared)
                shared->n_reports++;
}

void __asan_on_error(void) {
        __ubsan_on_report();
}
#endif

static uint64_t mix(uint64_t x) {
        x += UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

/* Every byte of an object names its owner. */
static uint8_t pattern(tslab_handle handle) {
        return (uint8_t) mix(handle);
}

static void check_bytes(struct tslab *pool, tslab_handle handle) {
        uint8_t bytes[SIZE_MAX_TESTED];
        ssize_t n = tslab_read(pool, handle, bytes, sizeof(bytes));

        for (ssize_t i = 0; i < n; i++)
                if (bytes[i] != pattern(handle)) {
                        shared->n_wrong++;
                        return;
                }
}

/* Noted before it is published: one that is not noted is not live when its worker died. */
static void add(struct tslab *pool, volatile tslab_handle *place, uint64_t random) {
        tslab_handle handle;
        size_t size;
        void *object;

        if (tslab_alloc_pending(pool, 1 + random % SIZE_MAX_TESTED, TSLAB_EPOCH_CURRENT, &handle, &object) <
                    0 ||
            tslab_get(pool, handle, &object, &size) < 0)
                return; /* an epoch that is just closing, or no memory */
        memset(object, pattern(handle), size);
        *place = handle;
        (void) tslab_publish(pool, handle);
}

static void use_one(struct tslab *pool, volatile tslab_handle *object, uint64_t random) {
        if (*object == 0) {
                add(pool, object, random);
                return;
        }
        check_bytes(pool, *object);
        (void) tslab_free(pool, *object);
        *object = 0;
}

static struct tslab_map *open_map(struct tslab *pool) {
        const struct tslab_map_options options = { .size = sizeof(options),
                                                   .limit_bytes = MAP_LIMIT,
                                                   .evict = TSLAB_MAP_EVICT_SIEVE };
        struct tslab_map *map;

        return tslab_map_open(&map, pool, "storm", &options) == 0 ? map : NULL;
}

/* A get, or a put; most puts evict. All bytes of a value name its key. */
static void use_map(struct tslab_map *map, uint64_t random) {
        uint32_t key = (uint32_t) (random >> 8) % N_KEYS;
        uint64_t size = (random >> 32) % (random & 14 ? VALUE_MAX_TESTED : LARGE_MAX_TESTED);
        static uint8_t bytes[LARGE_MAX_TESTED];
        ssize_t n;

        if (random & 1) {
                memset(bytes, pattern(key), size);
                (void) tslab_map_put(map, &key, sizeof(key), bytes, size, TSLAB_EPOCH_CURRENT);
                return;
        }
        n = tslab_map_get(map, &key, sizeof(key), bytes, sizeof(bytes), NULL);
        for (ssize_t i = 0; i < n; i++)
                if (bytes[i] != pattern(key)) {
                        shared->n_wrong++;
                        return;
                }
}

static void work(const Storm *storm, unsigned worker, uint64_t random) {
        volatile tslab_handle *objects = shared->objects[worker];
        struct tslab *pool = storm->pool;
        struct tslab_map *map, *cache;

        setenv("TSLAB_CACHE", (const char *[]){ "adaptive", "on", "off" }[worker % 3], 1);
        if ((!pool && tslab_open(&pool, storm->daemon->socket, NULL) < 0) || tslab_free(pool, 0) != -ESTALE)
                _exit(0); /* no record, until others are repaired */
        map = claims_open(pool);
        burst_inherit(&shared->bursts[worker], pool);
        cache = open_map(pool); /* NULL: others were at control work */
        if (!storm->pool && worker % 2 == 1)
                (void) close_range(3, UINT32_MAX, 0); /* hangs up, and lives */
        for (;;) {
                random = mix(random);
                if (random >> 60 < 8) {
                        use_one(pool, &objects[(random >> 20) % N_OBJECTS], random);
                        shared->n_ops[worker]++;
                } else if (random >> 60 == 15 && map) {
                        claims_once(&shared->claims, map, storm->epoch, random);
                        shared->n_ops[worker]++;
                } else if (random >> 60 < 11 && cache) {
                        use_map(cache, random);
                        shared->n_ops[worker]++;
                } else {
                        shared->n_ops[worker] +=
                                burst_once(&shared->bursts[worker], pool, storm->epoch, random);
                }
        }
}

static void start(Storm *storm, unsigned worker) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                end_with_parent();
                alarm(WATCHDOG_SECONDS);
                (void) !nice(10); /* the killer shall not wait for a processor */
                work(storm, worker, storm->random + worker);
        }
        storm->pids[worker] = pid;
}

/* It was killed, or it had found no record: a fault, or a sanitizer, ends it otherwise. */
static void end(pid_t pid) {
        int status;

        (void) kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) && status != 0) {
                print_error("seed %llu: a worker ended by itself, with status %#x\n",
                            (unsigned long long) seed, (unsigned) status);
                fail();
        }
}

static void expect_no_fault(const Storm *storm, bool at_rest) {
        ShmCheck check;

        assert_int_equal(shm_check(storm->arena, &check), 0);
        if (check.lost_slots + check.doubled_slots == 0 &&
            (!at_rest || check.problems + check.in_flight_slots == 0))
                return;
        for (size_t i = 0; i < check.n_texts; i++)
                print_error("%s\n", check.texts[i]);
        print_error("seed %llu, after %u kills: %d lost, %d doubled, %d in flight\n",
                    (unsigned long long) seed, storm->n_kills, (int) check.lost_slots,
                    (int) check.doubled_slots, (int) check.in_flight_slots);
        usleep(100000);
        assert_int_equal(shm_check(storm->arena, &check), 0);
        print_error("a moment later: %d lost, %d doubled, %d in flight\n", (int) check.lost_slots,
                    (int) check.doubled_slots, (int) check.in_flight_slots);
        fail();
}

/* An operator's requests meanwhile. */
static void operate(Storm *storm) {
        uint64_t random = storm->random >> 16;

        if (random % 5 == 4)
                expect_no_fault(storm, false);
        else if (storm->pool)
                operator_private(storm->pool, random);
        else
                operator_daemon(storm->control, storm->arena, random);
}

static void go_on(const Storm *storm) {
        for (unsigned i = 0; i < N_WORKERS; i++)
                (void) kill(storm->pids[i], SIGCONT);
}

/* Half of them stand still wherever they are; the others do so many operations all the same. */
static void calm(const Storm *storm) {
        uint64_t deadline = proto_deadline(CALM_USEC), begin[N_WORKERS];

        go_on(storm);
        for (unsigned i = 0; i < N_WORKERS / 2; i++)
                (void) kill(storm->pids[i], SIGSTOP);
        for (unsigned i = 0; i < N_WORKERS; i++)
                begin[i] = shared->n_ops[i];
        for (unsigned i = N_WORKERS / 2; i < N_WORKERS; i++)
                while (shared->n_ops[i] - begin[i] < CALM_OPS) {
                        if (proto_deadline_left(deadline) == 0) {
                                print_error("seed %llu: worker %u hangs\n", (unsigned long long) seed, i);
                                fail();
                        }
                        if (waitpid(storm->pids[i], NULL, WNOHANG | WNOWAIT) != 0)
                                break; /* it found no record */
                        usleep(500);
                }
        go_on(storm);
}

/* The daemon, mostly, waits till the records were looked at. */
static void kill_one(Storm *storm, pid_t pid) {
        pid_t daemon = storm->daemon && storm->n_kills % 4 != 0 ? storm->daemon->pid : 0;

        if (daemon != 0) {
                assert_int_equal(kill(daemon, SIGSTOP), 0);
                assert_int_equal(waitpid(daemon, NULL, WUNTRACED), daemon);
        }
        end(pid);
        if (!storm->daemon || daemon != 0)
                deaths_note(storm->deaths, storm->arena, pid);
        if (daemon != 0)
                assert_int_equal(kill(daemon, SIGCONT), 0);
        storm->n_kills++;
}

static void storm_once(Storm *storm) {
        unsigned worker = (unsigned) (storm->random >> 8) % N_WORKERS;

        usleep((useconds_t) (storm->random >> 40) % 600);
        if (storm->random % 4 == 0) {
                (void) kill(storm->pids[worker], SIGSTOP);
                storm->n_stops++;
                return;
        }
        if (storm->random % 4 == 1)
                go_on(storm);
        kill_one(storm, storm->pids[worker]);
        if (storm->pool && storm->random % 3 == 0)
                (void) tslab_reap(storm->pool);
        start(storm, worker);
        if (storm->n_kills % 25 == 0)
                operate(storm);
}

static void blow(Storm *storm, unsigned n_events) {
        storm->random = seed;
        for (unsigned i = 0; i < N_WORKERS; i++)
                start(storm, i);
        for (unsigned n = 1; n <= n_events; n++) {
                storm->random = mix(storm->random);
                storm_once(storm);
                if (n % CALM == 0)
                        calm(storm);
        }
        for (unsigned i = 0; i < N_WORKERS; i++)
                end(storm->pids[i]);
}

static uint64_t count_published(const ShmArena *arena) {
        uint64_t n = 0;

        for (unsigned worker = 0; worker < N_WORKERS; worker++)
                for (unsigned i = 0; i < N_OBJECTS; i++)
                        n += shared->objects[worker][i] != 0 &&
                             shm_object_live(arena, shared->objects[worker][i]);
        return n;
}

/* The index of the map is in an epoch of its own. */
static uint32_t check_claims(const Storm *storm, struct tslab *pool) {
        ShmEpochInfo info;
        uint32_t id = 0;

        assert_int_equal(claims_end(&shared->claims, pool, storm->epoch), 0);
        assert_int_equal(shared->claims.n_doubled, 0);
        assert_int_equal(shared->claims.n_lost, 0);
        while (shm_epoch_get(storm->arena, id, &info) != 0 || strcmp(info.label, "maps") != 0)
                id++;
        return shm_epoch_number(id, info.era);
}

static void check_all_bytes(struct tslab *pool) {
        for (unsigned worker = 0; worker < N_WORKERS; worker++)
                for (unsigned i = 0; i < N_OBJECTS; i++)
                        if (shared->objects[worker][i] != 0)
                                check_bytes(pool, shared->objects[worker][i]);
        assert_int_equal(shared->n_wrong, 0);
        assert_int_equal(shared->n_reports, 0);
        for (unsigned worker = 0; worker < N_WORKERS; worker++)
                assert_int_equal(shared->bursts[worker].n_stale, 0);
}

/* The head, the chunks, and a block that names these if the head has no word for each. */
static uint64_t entry_objects(const ShmArena *arena, uint64_t version) {
        ShmMapView view;
        uint32_t size, bytes, n_chunks;

        assert_int_equal(shm_map_view(arena, version, &view), 0);
        if (!(view.head.flags & SHM_LEAF_CHAINED))
                return 1;
        bytes = shm_chain_head_bytes(arena, &view.head, view.room);
        n_chunks = (view.head.value_size - bytes + SHM_SLAB_SIZE - 1) / SHM_SLAB_SIZE;
        size = (uint32_t) shm_leaf_size(view.head.key_size, view.head.value_size, SHM_LEAF_CHAINED);
        return 1 + n_chunks + (n_chunks > 16 || size + (n_chunks - 1) * 8 + bytes > view.room);
}

/* The objects of its entries, beside its index. Nobody uses it any more. */
static uint64_t count_objects(const ShmArena *arena, struct tslab *pool) {
        struct tslab_map *map = open_map(pool);
        struct tslab_map_statistics s = { .size = sizeof(s) };
        uint64_t n_entries = 0, n_large = 0, n = 0;
        uint8_t none;

        if (!map)
                return 0;
        for (uint32_t key = 0; key < N_KEYS; key++) {
                struct tslab_map_info info = { .size = sizeof(info) };

                if (tslab_map_get_with(map, &key, sizeof(key), &none, 0, &info) == -ENOENT)
                        continue;
                n += entry_objects(arena, info.version);
                n_large += info.value_size > VALUE_MAX_TESTED;
                n_entries++;
        }
        assert_int_equal(tslab_map_count(map), n_entries);
        assert_int_equal(tslab_map_statistics(map, &s), 0);
        assert_true(s.bytes <= MAP_LIMIT_AT_ONCE);
        printf("%llu entries, %llu of them large, %llu evicted\n", (unsigned long long) n_entries,
               (unsigned long long) n_large, (unsigned long long) s.evictions);
        tslab_map_close(map);
        return n;
}

static void begin(void) {
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(shared, MAP_FAILED);
        alarm(WATCHDOG_SECONDS);
}

static void finish(const Storm *storm, uint64_t n_live, uint64_t n_in_map) {
        uint64_t n_ops = 0;

        for (unsigned i = 0; i < N_WORKERS; i++)
                n_ops += shared->n_ops[i];
        printf("%s, seed %llu: %u kills, %u stops, %llu operations, %llu objects live\n", storm->name,
               (unsigned long long) seed, storm->n_kills, storm->n_stops, (unsigned long long) n_ops,
               (unsigned long long) n_live);
        fflush(stdout);
        assert_int_equal(n_live, count_published(storm->arena) + n_in_map);
        assert_true(n_ops > 0);
        deaths_print(storm->deaths);
        munmap(shared, sizeof(*shared));
}

/* ASan finds its faults with fewer. */
static unsigned n_events(unsigned quick, unsigned full) {
        const char *value = getenv("TSLAB_TEST_FULL");

#ifdef __SANITIZE_ADDRESS__
        full = 2 * quick;
#endif
        if (n_asked != 0)
                return n_asked;
        return value && *value && *value != '0' ? full : quick;
}

static void test_daemon(void **state) {
        static Deaths deaths;
        Storm storm = { .name = "daemon" };
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        DaemonFixture daemon;
        RawClient reader;
        struct tslab *pool;
        uint64_t n_in_map;

        begin();
        daemon_start(&daemon, (const char *[]){ "--size=8M", "--threads=64", "--log-level=err", NULL });
        storm.control = daemon_connect(&daemon, 0);
        storm.daemon = &daemon;
        raw_client_open(&reader, &daemon, PROTO_ROLE_READER);
        storm.arena = &reader.arena;
        storm.epoch = operator_reserve(storm.control);
        assert_int_equal(tslab_open(&pool, daemon.socket, NULL), 0);
        claims_begin(pool);
        assert_null(tslab_close(pool));
        storm.deaths = &deaths;
        blow(&storm, n_events(1600, 40000));
        WAIT_FOR(daemon_n_clients(storm.control) == 1);
        expect_no_fault(&storm, true);
        assert_int_equal(deaths_left(&deaths, storm.arena), 0);
        assert_int_equal(tslab_open(&pool, daemon.socket, NULL), 0);
        n_in_map = count_objects(storm.arena, pool);
        operator_revoke(storm.control, check_claims(&storm, pool));
        assert_null(tslab_close(pool));
        operator_revoke(storm.control, storm.epoch);
        WAIT_FOR(daemon_n_clients(storm.control) == 1);
        reply = daemon_stats(storm.control);
        assert_int_equal(reply->stats->cached_objects, 0);
        assert_int_equal(tslab_open(&pool, daemon.socket, NULL), 0);
        check_all_bytes(pool);
        assert_null(tslab_close(pool));
        finish(&storm, reply->stats->live_objects, n_in_map);
        raw_client_close(&reader);
        proto_call_free(storm.control);
        daemon_stop(&daemon);
}

static void test_private(void **state) {
        static Deaths deaths;
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 8 << 20, .n_threads = 128 };
        Storm storm = { .name = "private pool" };
        uint64_t n_in_map;
        ShmStats stats;

        begin();
        assert_int_equal(tslab_create(&storm.pool, &options), 0);
        storm.arena = &storm.pool->arena;
        storm.deaths = &deaths;
        assert_int_equal(tslab_epoch_reserve(storm.pool, "bursts", &storm.epoch), 0);
        claims_begin(storm.pool);
        blow(&storm, n_events(2500, 100000));
        assert_in_range(tslab_reap(storm.pool), 0, 128);
        assert_int_equal(tslab_drain(storm.pool), 0);
        expect_no_fault(&storm, true);
        assert_int_equal(deaths_left(&deaths, storm.arena), 0);
        n_in_map = count_objects(storm.arena, storm.pool);
        assert_int_equal(tslab_epoch_close(storm.pool, check_claims(&storm, storm.pool), TSLAB_CLOSE_REVOKE),
                         0);
        assert_int_equal(tslab_epoch_close(storm.pool, storm.epoch, TSLAB_CLOSE_REVOKE), 0);
        shm_stats(storm.arena, &stats);
        assert_int_equal(stats.cached_objects, 0);
        check_all_bytes(storm.pool);
        finish(&storm, stats.live_objects, n_in_map);
        assert_null(tslab_close(storm.pool));
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_private),
                cmocka_unit_test(test_daemon),
        };

        seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t) time(NULL);
        n_asked = argc > 2 ? (unsigned) strtoul(argv[2], NULL, 0) : 0;
        return cmocka_run_group_tests(tests, NULL, NULL);
}
