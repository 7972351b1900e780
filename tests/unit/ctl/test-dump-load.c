/* A dump of several maps in many blocks, loaded by several workers; a file that changes between check and load. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon/ctl/entry/dump-load.h"
#include "daemon/ctl/entry/dump-writer.h"
#include "proto/cleanup.h"

#define MAPS 5U
#define KEYS 3000U
#define VALUE_SIZE 600U /* a map takes more than one block, and ends in the middle of one */

typedef struct Fixture {
        char path[64];
        Entries entries; /* a private pool */
} Fixture;

static int set_up(void **state) {
        static Fixture fixture;
        const struct tslab_options options = { .size = sizeof(options), .arena_bytes = UINT64_C(64) << 20 };

        (void) snprintf(fixture.path, sizeof(fixture.path), "/tmp/tslab-test-%d.dump", (int) getpid());
        fixture.entries = (Entries) ENTRIES_INIT;
        assert_int_equal(tslab_create(&fixture.entries.pool, &options), 0);
        *state = &fixture;
        return 0;
}

static int tear_down(void **state) {
        Fixture *f = *state;

        entries_deinit(&f->entries);
        (void) unlink(f->path);
        return 0;
}

static void fill_value(uint8_t value[VALUE_SIZE], uint32_t map, uint32_t key, uint8_t fill) {
        memset(value, fill, VALUE_SIZE);
        memcpy(value, &map, sizeof(map));
        memcpy(value + sizeof(map), &key, sizeof(key));
}

/* Keys are the same in each map, values are not. */
static void write_dump(const char *path, uint8_t fill) {
        _cleanup_(dump_writer_deinit) DumpWriter writer = DUMP_WRITER_INIT;
        const DumpMap options = { .ttl_ms = 0 };

        assert_int_equal(dump_create(&writer, path), CTL_DONE);
        for (uint32_t map = 0; map < MAPS; map++) {
                DumpRecord record = { .kind = DUMP_MAP, .key_size = 2, .value_size = sizeof(options) };
                char name[3] = { 'm', (char) ('0' + map) };

                assert_int_equal(dump_add(&writer, &record, name, &options), CTL_DONE);
                for (uint32_t key = 0; key < KEYS; key++) {
                        uint8_t value[VALUE_SIZE];

                        fill_value(value, map, key, fill);
                        record = (DumpRecord){ .kind = DUMP_VALUE,
                                               .key_size = sizeof(key),
                                               .value_size = VALUE_SIZE,
                                               .ttl_left_ms = UINT64_MAX };
                        assert_int_equal(dump_add(&writer, &record, &key, value), CTL_DONE);
                }
        }
        assert_int_equal(dump_finish(&writer), CTL_DONE);
}

static void check_map(Fixture *f, uint32_t map) {
        const struct tslab_map_options existing = { .size = sizeof(existing), .flags = TSLAB_MAP_EXISTING };
        const char name[3] = { 'm', (char) ('0' + map) };

        assert_int_equal(entries_open_map(&f->entries, name, &existing), CTL_DONE);
        for (uint32_t key = 0; key < KEYS; key++) {
                uint8_t value[VALUE_SIZE], expected[VALUE_SIZE];

                fill_value(expected, map, key, 'x');
                assert_int_equal(tslab_map_get(f->entries.map, &key, sizeof(key), value, sizeof(value), NULL),
                                 VALUE_SIZE);
                assert_memory_equal(value, expected, VALUE_SIZE);
        }
        entries_close_map(&f->entries);
}

static void test_load_run_each_entry_in_its_map(void **state) {
        Fixture *f = *state;
        _cleanup_(load_deinit) Load load = LOAD_INIT;
        LoadCounts counts;

        write_dump(f->path, 'x');
        assert_int_equal(load_open(&load, f->path, NULL, 0), CTL_DONE);
        assert_int_equal(load_check(&load), CTL_DONE);
        assert_true(load.reader.number > MAPS);
        assert_int_equal(load_run(&load, &f->entries, &counts), CTL_DONE);
        assert_int_equal(counts.maps, MAPS);
        assert_int_equal(counts.entries, MAPS * KEYS);
        for (uint32_t map = 0; map < MAPS; map++)
                check_map(f, map);
}

static void test_load_run_wanted_maps_alone(void **state) {
        const struct tslab_map_options existing = { .size = sizeof(existing), .flags = TSLAB_MAP_EXISTING };
        char *names[] = { "m3", "m1" };
        Fixture *f = *state;
        _cleanup_(load_deinit) Load load = LOAD_INIT;
        struct tslab_map *map;
        LoadCounts counts;

        write_dump(f->path, 'x');
        assert_int_equal(load_open(&load, f->path, names, 2), CTL_DONE);
        assert_int_equal(load_check(&load), CTL_DONE);
        assert_int_equal(load_run(&load, &f->entries, &counts), CTL_DONE);
        assert_int_equal(counts.maps, 2);
        assert_int_equal(counts.entries, 2 * KEYS);
        check_map(f, 1);
        check_map(f, 3);
        assert_int_equal(tslab_map_open(&map, f->entries.pool, "m2", &existing), -ENOENT);
}

/* Each block of the new content is sound. */
static void test_load_run_changed_file(void **state) {
        char other[80];
        Fixture *f = *state;
        _cleanup_(load_deinit) Load load = LOAD_INIT;
        _cleanup_(proto_closep) int from = -1;
        int to;
        LoadCounts counts;

        write_dump(f->path, 'x');
        (void) snprintf(other, sizeof(other), "%s.other", f->path);
        write_dump(other, 'y');
        assert_int_equal(load_open(&load, f->path, NULL, 0), CTL_DONE);
        assert_int_equal(load_check(&load), CTL_DONE);
        from = open(other, O_RDONLY | O_CLOEXEC);
        to = open(f->path, O_WRONLY | O_CLOEXEC);
        while (copy_file_range(from, NULL, to, NULL, 1 << 20, 0) > 0)
                ;
        (void) close(to);
        (void) unlink(other);
        assert_int_equal(load_run(&load, &f->entries, &counts), CTL_FAILED);
}

static void test_load_check_cut_file(void **state) {
        Fixture *f = *state;
        _cleanup_(load_deinit) Load load = LOAD_INIT;

        write_dump(f->path, 'x');
        assert_int_equal(load_open(&load, f->path, NULL, 0), CTL_DONE);
        assert_int_equal(truncate(f->path, (off_t) load.reader.size - 1), 0);
        assert_int_equal(load_check(&load), CTL_FAILED);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_load_run_each_entry_in_its_map, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_load_run_wanted_maps_alone, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_load_run_changed_file, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_load_check_cut_file, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
