/* Private pools: tslab_reap() puts memory together in huge pages. */
#include <tslab_map.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/api/map-pool.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define N 10000
#define VALUE_SIZE 3000
#define HUGE_SIZE (2UL << 20)

#define SIZE_FILE "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/shmem_enabled"

/* Whether this kernel makes huge pages of a memfd now, if it is asked to. */
static bool has_huge_pages(void) {
        int fd = memfd_create("test", MFD_CLOEXEC);
        uint8_t *room, *page;
        int r;

        assert_return_code(fd, errno);
        assert_return_code(ftruncate(fd, HUGE_SIZE), errno);
        room = mmap(NULL, 2 * HUGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(room, MAP_FAILED);
        page = room + (-(uintptr_t) room & (HUGE_SIZE - 1));
        page = mmap(page, HUGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
        assert_ptr_not_equal(page, MAP_FAILED);
        memset(page, 1, HUGE_SIZE);
        (void) madvise(page, HUGE_SIZE, MADV_HUGEPAGE);
        r = madvise(page, HUGE_SIZE, MADV_COLLAPSE) < 0 ? -errno : 0;
        assert_return_code(munmap(room, 2 * HUGE_SIZE), errno);
        close(fd);
        return r == 0;
}

/* Whether the system is set so that it makes some by itself. */
static bool makes_them_unasked(void) {
        FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "re");
        char line[128] = "";

        if (!file)
                return false;
        (void) fgets(line, sizeof(line), file);
        fclose(file);
        return !strstr(line, "[never]") && !strstr(line, "[deny]") && !strstr(line, "[advise]");
}

/* KiB of this process that huge pages of files map. */
static unsigned long mapped_huge(void) {
        FILE *file = fopen("/proc/self/smaps_rollup", "re");
        unsigned long kib = 0;
        char line[256];

        assert_non_null(file);
        while (fgets(line, sizeof(line), file))
                if (!strncmp(line, "ShmemPmdMapped:", 15))
                        kib = strtoul(line + 15, NULL, 10);
        fclose(file);
        return kib;
}

static void key_of(char key[16], unsigned i) {
        (void) snprintf(key, 16, "%u", i);
}

static void put_all(struct tslab_map *map) {
        uint8_t value[VALUE_SIZE];
        char key[16];

        for (unsigned i = 0; i < N; i++) {
                key_of(key, i);
                memset(value, (int) (i % 251), sizeof(value));
                assert_int_equal(
                        tslab_map_put(map, key, strlen(key), value, sizeof(value), TSLAB_EPOCH_CURRENT), 0);
        }
}

static void check_all(struct tslab_map *map) {
        uint8_t value[VALUE_SIZE];
        char key[16];

        for (unsigned i = 0; i < N; i++) {
                key_of(key, i);
                assert_int_equal(tslab_map_get(map, key, strlen(key), value, sizeof(value), NULL),
                                 VALUE_SIZE);
                assert_int_equal(value[0], i % 251);
                assert_int_equal(value[VALUE_SIZE - 1], i % 251);
        }
}

static void run(uint32_t huge, const char *variable, bool expected) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 128 << 20, .huge = huge };
        unsigned long before = mapped_huge();
        struct tslab *pool;
        struct tslab_map *map;

        if (variable)
                assert_return_code(setenv("TSLAB_HUGE", variable, 1), errno);
        assert_int_equal(tslab_create(&pool, &options), 0);
        assert_return_code(unsetenv("TSLAB_HUGE"), errno);
        assert_int_equal(tslab_map_open(&map, pool, "huge", NULL), 0);
        put_all(map);
        assert_int_equal(tslab_reap(pool), 0);
        check_all(map);
        if (expected && has_huge_pages())
                assert_true(mapped_huge() >= before + (4UL << 10));
        else if (!expected && !makes_them_unasked())
                assert_true(mapped_huge() == before);
        put_all(map);
        check_all(map);
        tslab_map_close(map);
        tslab_close(pool);
}

static void test_huge(void **state) {
        (void) state;
        run(1, NULL, true);
        run(0, NULL, false);
}

static void test_variable(void **state) {
        (void) state;
        run(0, "yes", true);
        run(1, "no", false);
}

/* Sets the whole system. False: it does not let itself be set. */
static bool set_size(const char *value) {
        FILE *file = fopen(SIZE_FILE, "we");
        bool done = file && fputs(value, file) >= 0;

        return file && fclose(file) == 0 && done;
}

/* With TSLAB_TEST_SYSFS=1, as it sets the whole system for a moment: huge pages for mappings that ask, then none. */
static void test_system_settings(void **state) {
        char line[128] = "", *value, *end;
        FILE *file;

        (void) state;
        if (!getenv("TSLAB_TEST_SYSFS"))
                skip();
        file = fopen(SIZE_FILE, "re");
        assert_non_null(file);
        assert_non_null(fgets(line, sizeof(line), file));
        (void) fclose(file);
        value = strchr(line, '[') + 1;
        end = strchr(value, ']');
        *end = '\0';
        assert_true(set_size("advise"));
        run(1, NULL, true);
        assert_true(set_size("never"));
        assert_false(has_huge_pages());
        run(1, NULL, false);
        assert_true(set_size(value));
}

static void test_bad_option(void **state) {
        struct tslab_options options = { .size = sizeof(options), .huge = 2 };
        struct tslab *pool;

        (void) state;
        assert_int_equal(tslab_create(&pool, &options), -EINVAL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_huge),
                cmocka_unit_test(test_variable),
                cmocka_unit_test(test_system_settings),
                cmocka_unit_test(test_bad_option),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
