/* The file that forbids huge pages, in folders that the test makes. */
#include "shm/keeper/huge-obstacle.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/util/test.h"

static char root[64];

static int setup(void **state) {
        static const char *const folders[] = { "/sys", "/sys/kernel", "/sys/kernel/mm",
                                               "/sys/kernel/mm/transparent_hugepage",
                                               "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB" };
        char path[256];

        strcpy(root, "/tmp/tslab-huge-XXXXXX");
        if (!mkdtemp(root))
                return -1;
        for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
                (void) snprintf(path, sizeof(path), "%s%s", root, folders[i]);
                if (mkdir(path, 0755) < 0)
                        return -1;
        }
        return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        return remove(path);
}

static int teardown(void **state) {
        return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void set(const char *name, const char *text) {
        char path[256];
        FILE *file;

        (void) snprintf(path, sizeof(path), "%s/sys/kernel/mm/transparent_hugepage/%s", root, name);
        file = fopen(path, "w");
        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
}

static void test_no_files(void **state) {
        assert_int_equal(shm_huge_obstacle(root), SHM_HUGE_LACKS);
}

static void test_denied(void **state) {
        set("shmem_enabled", "always within_size advise never [deny] force\n");
        set("hugepages-2048kB/shmem_enabled", "always [inherit] within_size advise never\n");
        assert_int_equal(shm_huge_obstacle(root), SHM_HUGE_DENIED);
        assert_non_null(strstr(shm_huge_obstacle_text(SHM_HUGE_DENIED), "/shmem_enabled is 'deny'"));
}

/* The value for all sizes that is "never" is no obstacle, but that for 2 MiB is. */
static void test_size(void **state) {
        set("shmem_enabled", "always within_size advise [never] deny force\n");
        set("hugepages-2048kB/shmem_enabled", "always [inherit] within_size advise never\n");
        assert_int_equal(shm_huge_obstacle(root), SHM_HUGE_LACKS);
        set("hugepages-2048kB/shmem_enabled", "always inherit within_size advise [never]\n");
        assert_int_equal(shm_huge_obstacle(root), SHM_HUGE_SIZE_NEVER);
        assert_non_null(strstr(shm_huge_obstacle_text(SHM_HUGE_SIZE_NEVER),
                               "hugepages-2048kB/shmem_enabled is 'never'"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_no_files, setup, teardown),
                cmocka_unit_test_setup_teardown(test_denied, setup, teardown),
                cmocka_unit_test_setup_teardown(test_size, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
