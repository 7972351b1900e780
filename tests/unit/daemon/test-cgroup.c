/* The headroom that cgroups leave, in trees that the test makes. */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/cgroup.h"
#include "tests/util/test.h"

#define MIB (INT64_C(1) << 20)

static char root[64];

static int setup(void **state) {
        strcpy(root, "/tmp/tslab-cgroup-XXXXXX");
        return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        return remove(path);
}

static int teardown(void **state) {
        return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void put(const char *path, const char *text) {
        char full[512];
        FILE *file;

        snprintf(full, sizeof(full), "%s%s", root, path);
        for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = 0;
                assert_true(mkdir(full, 0755) == 0 || errno == EEXIST);
                *slash = '/';
        }
        file = fopen(full, "w");
        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
}

static void put_v2(const char *mount, const char *cgroup, const char *max, int64_t current) {
        char path[256], text[32];

        snprintf(path, sizeof(path), "%s%s/memory.max", mount, cgroup);
        put(path, max);
        snprintf(path, sizeof(path), "%s%s/memory.current", mount, cgroup);
        snprintf(text, sizeof(text), "%lld\n", (long long) current);
        put(path, text);
}

static void put_v1(const char *cgroup, const char *limit, int64_t usage) {
        char path[256], text[32];

        snprintf(path, sizeof(path), "/sys/fs/cgroup/memory%s/memory.limit_in_bytes", cgroup);
        put(path, limit);
        snprintf(path, sizeof(path), "/sys/fs/cgroup/memory%s/memory.usage_in_bytes", cgroup);
        snprintf(text, sizeof(text), "%lld\n", (long long) usage);
        put(path, text);
}

static void test_cgroup_headroom_none(void **state) {
        assert_true(cgroup_headroom(root) == INT64_MAX);
        put("/proc/self/cgroup", "0::/a/b\n");
        assert_true(cgroup_headroom(root) == INT64_MAX);
        put_v2("/sys/fs/cgroup", "/a/b", "max\n", 5 * MIB);
        assert_true(cgroup_headroom(root) == INT64_MAX);
}

/* Without a descriptor nobody can tell, and that is not the same as no limit. */
static void test_cgroup_headroom_without_descriptors(void **state) {
        struct rlimit old, none;
        CgroupRoom room = { .limit = 1 };

        put("/proc/self/cgroup", "0::/a\n");
        put_v2("/sys/fs/cgroup", "/a", "67108864\n", 5 * MIB);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
        none = (struct rlimit){ .rlim_max = old.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        assert_int_equal(cgroup_headroom(root), -EMFILE);
        assert_int_equal(cgroup_limit(root), -EMFILE);
        assert_int_equal(cgroup_find_room(&room, root), -EMFILE);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
        assert_int_equal(cgroup_headroom(root), 51 * MIB);
        assert_int_equal(cgroup_find_room(&room, root), 0);
        assert_int_equal(room.limit, 64 * MIB);
}

/* The tightest is neither the first nor the last of the ancestors. */
static void test_cgroup_headroom_v2(void **state) {
        put("/proc/self/cgroup", "0::/a/b/c\n");
        put_v2("/sys/fs/cgroup", "/a/b/c", "1073741824\n", 0);
        put_v2("/sys/fs/cgroup", "/a/b", "104857600\n", 40 * MIB);
        put_v2("/sys/fs/cgroup", "/a", "209715200\n", 50 * MIB);
        assert_int_equal(cgroup_headroom(root), 60 * MIB - CGROUP_MARGIN_SIZE);
        put_v2("/sys/fs/cgroup", "/a", "209715200\n", 190 * MIB);
        assert_int_equal(cgroup_headroom(root), 10 * MIB - CGROUP_MARGIN_SIZE);
}

static void test_cgroup_find_room(void **state) {
        CgroupRoom room;

        put("/proc/self/cgroup", "4:memory:/x\n0::/a/b\xff\n");
        cgroup_find_room(&room, root);
        assert_true(room.limit == INT64_MAX && cgroup_room_left(&room) == INT64_MAX);
        put_v2("/sys/fs/cgroup", "/a/b\xff", "104857600\n", 70 * MIB);
        put_v2("/sys/fs/cgroup", "/a", "209715200\n", 50 * MIB);
        cgroup_find_room(&room, root);
        assert_int_equal(room.limit, 100 * MIB);
        assert_int_equal(room.used, 70 * MIB);
        assert_string_equal(room.path, "/a/b?");
        assert_int_equal(cgroup_room_left(&room), 30 * MIB - CGROUP_MARGIN_SIZE);
        /* An ancestor with a larger limit leaves less, and the mount point of the other hierarchy least. */
        put_v2("/sys/fs/cgroup", "/a", "209715200\n", 190 * MIB);
        cgroup_find_room(&room, root);
        assert_string_equal(room.path, "/a");
        put_v1("", "52428800\n", 60 * MIB);
        cgroup_find_room(&room, root);
        assert_string_equal(room.path, "/");
        assert_int_equal(room.used, 60 * MIB);
        assert_int_equal(cgroup_room_left(&room), 0);
}

static void test_cgroup_headroom_used_up(void **state) {
        put("/proc/self/cgroup", "0::/a\n");
        put_v2("/sys/fs/cgroup", "/a", "104857600\n", 99 * MIB);
        assert_int_equal(cgroup_headroom(root), 0);
        put_v2("/sys/fs/cgroup", "/a", "104857600\n", 101 * MIB);
        assert_int_equal(cgroup_headroom(root), 0);
        put_v2("/sys/fs/cgroup", "/a", "0\n", 0);
        assert_int_equal(cgroup_headroom(root), 0);
}

/* The kernel drops pages of files that nobody used lately before it refuses memory. */
static void test_cgroup_headroom_cache(void **state) {
        put("/proc/self/cgroup", "4:memory:/x\n0::/a\n");
        put_v2("/sys/fs/cgroup", "/a", "104857600\n", 99 * MIB);
        put("/sys/fs/cgroup/a/memory.stat",
            "anon 1\ninactive_anon 7\ninactive_file 52428800\nactive_file 9\n");
        assert_int_equal(cgroup_headroom(root), 51 * MIB - CGROUP_MARGIN_SIZE);
        put_v1("/x", "104857600\n", 99 * MIB);
        put("/sys/fs/cgroup/memory/x/memory.stat", "inactive_file 1\ntotal_inactive_file 20971520\n");
        assert_int_equal(cgroup_headroom(root), 21 * MIB - CGROUP_MARGIN_SIZE);
        /* With a page less in use than the margin leaves, too: there is room for more than no slab at all. */
        put_v1("/x", "104857600\n", 92 * MIB - 4096);
        assert_int_equal(cgroup_headroom(root), 20 * MIB + 4096);
        /* More than is used: the figures are not of one moment. */
        put("/sys/fs/cgroup/memory/x/memory.stat", "total_inactive_file 209715200\n");
        assert_int_equal(cgroup_headroom(root), 51 * MIB - CGROUP_MARGIN_SIZE);
}

/* v1 has a limit on the root, too, and says "none" by a large number. */
static void test_cgroup_headroom_v1(void **state) {
        put("/proc/self/cgroup", "9:name=systemd:/x\n5:cpu,memory:/x/y\n3:memoryless:/z\n");
        put_v1("/x/y", "9223372036854771712\n", 3 * MIB);
        put_v1("/x", "9223372036854771712\n", 3 * MIB);
        assert_true(cgroup_headroom(root) == INT64_MAX);
        put_v1("", "104857600\n", 20 * MIB);
        put_v1("/z", "1\n", 1);
        assert_int_equal(cgroup_headroom(root), 80 * MIB - CGROUP_MARGIN_SIZE);
}

static void test_cgroup_headroom_hybrid(void **state) {
        put("/proc/self/cgroup", "4:memory:/x\n0::/y\n");
        put_v1("/x", "104857600\n", 20 * MIB);
        put_v2("/sys/fs/cgroup/unified", "/y", "52428800\n", 10 * MIB);
        assert_int_equal(cgroup_headroom(root), 40 * MIB - CGROUP_MARGIN_SIZE);
}

/* Nonsense is no limit; it leads nowhere, either. */
static void test_cgroup_headroom_nonsense(void **state) {
        static const char *const lines[] = {
                "", "\n", "0", "0:", "0::", "::::", "0::/../..\n", "0::/a\n0::/a\n", "4:memory:\n"
        };

        put("/sys/fs/cgroup/a/memory.max", "lots");
        put("/sys/fs/cgroup/a/memory.current", "");
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
                put("/proc/self/cgroup", lines[i]);
                assert_true(cgroup_headroom(root) == INT64_MAX);
        }
}

#define TEST(_test) cmocka_unit_test_setup_teardown(_test, setup, teardown)

/* The limit alone, used or not. */
static void test_cgroup_limit(void **state) {
        assert_true(cgroup_limit(root) == INT64_MAX);
        put("/proc/self/cgroup", "0::/a/b\n");
        put_v2("/sys/fs/cgroup", "/a/b", "max\n", 5 * MIB);
        put_v2("/sys/fs/cgroup", "/a", "209715200\n", 150 * MIB);
        assert_int_equal(cgroup_limit(root), 200 * MIB);
}

static void assert_pressure(const char *cgroup, const char *expected) {
        char path[512], line[256], full[512];

        snprintf(line, sizeof(line), "4:memory:/elsewhere\n0::%s\n", cgroup);
        put("/proc/self/cgroup", line);
        assert_int_equal(cgroup_pressure_path(root, path, sizeof(path)), 0);
        snprintf(full, sizeof(full), "%s%s", root, expected);
        assert_string_equal(path, full);
}

static void test_cgroup_pressure_path(void **state) {
        char path[512];

        assert_int_equal(cgroup_pressure_path(root, path, sizeof(path)), -ENOENT);
        put("/sys/fs/cgroup/unified/a/b/memory.pressure", "");
        assert_pressure("/a/b", "/sys/fs/cgroup/unified/a/b/memory.pressure");
        put("/sys/fs/cgroup/a/b/memory.pressure", "");
        assert_pressure("/a/b", "/sys/fs/cgroup/a/b/memory.pressure");
        /* The pressure of the slice is told where the slice is that of a pool. */
        put("/sys/fs/cgroup/tslab.slice/tslab-x.slice/memory.pressure", "");
        assert_pressure("/tslab.slice/tslab-x.slice/tslabd@x.service",
                        "/sys/fs/cgroup/tslab.slice/tslab-x.slice/memory.pressure");
        put("/proc/self/cgroup", "0::/../outside\n");
        assert_int_equal(cgroup_pressure_path(root, path, sizeof(path)), -ENOENT);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_cgroup_headroom_none),
                TEST(test_cgroup_headroom_v2),
                TEST(test_cgroup_find_room),
                TEST(test_cgroup_headroom_used_up),
                TEST(test_cgroup_headroom_v1),
                TEST(test_cgroup_headroom_hybrid),
                TEST(test_cgroup_headroom_nonsense),
                TEST(test_cgroup_limit),
                TEST(test_cgroup_pressure_path),
                TEST(test_cgroup_headroom_cache),
                TEST(test_cgroup_headroom_without_descriptors),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
