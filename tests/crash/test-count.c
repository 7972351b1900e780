/*
 * A process is killed after it has changed a map, and before it has counted the change: its record names the map, and
 * holds nothing else. The daemon counts the map anew.
 */
#include <tslab_map.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libclient/pool/pool.h"
#include "proto/deadline.h"
#include "shm/arena/client.h"
#include "shm/arena/record.h"
#include "tests/crash/crash-trace.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/test.h"

#define N_ENTRIES 20

static DaemonFixture fixture;
static struct tslab *pool;
static struct tslab_map *map;

static void open_map(void) {
        /* A cache would be repaired, whatever else the record has. */
        struct tslab_options options = { .size = sizeof(options), .cache = TSLAB_CACHE_OFF };

        assert_int_equal(tslab_open(&pool, fixture.socket, &options), 0);
        assert_int_equal(tslab_map_open(&map, pool, "m", NULL), 0);
}

static void close_map(void) {
        map = tslab_map_close(map);
        pool = tslab_close(pool);
}

static int put(const char *key) {
        return tslab_map_put(map, key, strlen(key), "value", 5, TSLAB_EPOCH_CURRENT);
}

static int drop(const char *key) {
        return tslab_map_delete(map, key, strlen(key));
}

static bool has(const char *key) {
        char buffer[8];

        return tslab_map_get(map, key, strlen(key), buffer, sizeof(buffer), NULL) == 5;
}

/* ---- in the child */

static int enter(World *world) {
        open_map();
        return put("other");
}

static int run_put(World *world) {
        return put("new");
}

static int run_delete(World *world) {
        return drop("1");
}

static const Operation putting = { "put", .enter = enter, .run = run_put };
static const Operation deleting = { "delete", .enter = enter, .run = run_delete };

/* ---- in the test */

/* That of its thread, which has counted something, and not the spare one. */
static const ShmRecord *record_of(pid_t pid) {
        const ShmArena *arena = &pool->arena;

        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++) {
                const ShmRecord *record = shm_arena_record(arena, i);
                ShmClientInfo info;

                if (record->tally.map != 0 &&
                    shm_client_get(arena, shm_record_owner(arena, i).client, &info) == 0 && info.pid == pid)
                        return record;
        }
        fail();
        return NULL;
}

static bool names_map_alone(const ShmRecord *r) {
        uint64_t n_notes = 0;

        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++)
                n_notes += r->notes[i].handle != 0;
        return r->map != 0 && n_notes == 0 && r->intent_what == 0 && r->guard == 0;
}

static struct tslab_map_statistics statistics(void) {
        struct tslab_map_statistics s = { .size = sizeof(s) };

        assert_int_equal(tslab_map_statistics(map, &s), 0);
        return s;
}

static bool is_counted(uint64_t entries, uint64_t bytes) {
        struct tslab_map_statistics s = statistics();

        return s.entries == entries && s.bytes == bytes;
}

static void kill_uncounted(const Operation *operation, const char *key, int difference) {
        Trace trace = { .shared = trace_shared_new() };
        struct tslab_map_statistics before;
        const ShmRecord *record;
        char text[8];
        uint64_t n;
        bool had;

        daemon_start(&fixture, (const char *[]){ "--size=16M", "--log-level=err", NULL });
        trace_start(&trace, NULL, operation);
        open_map();
        for (int i = 0; i < N_ENTRIES; i++) {
                snprintf(text, sizeof(text), "%d", i);
                assert_int_equal(put(text), 0);
        }
        before = statistics();
        assert_int_equal(before.entries, N_ENTRIES + 1);
        had = has(key);
        record = record_of(trace.pid);
        do
                assert_true(trace_step(&trace));
        while (has(key) == had || !names_map_alone(record));
        trace_kill(&trace);
        n = before.entries + (uint64_t) difference;
        WAIT_FOR(is_counted(n, before.bytes / before.entries * n));
        close_map();
        daemon_stop(&fixture);
        munmap(trace.shared, sizeof(*trace.shared));
}

static void test_put_uncounted(void **state) {
        kill_uncounted(&putting, "new", 1);
}

static void test_delete_uncounted(void **state) {
        kill_uncounted(&deleting, "1", -1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_put_uncounted),
                cmocka_unit_test(test_delete_uncounted),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
