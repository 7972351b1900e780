#include "shm/arena/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/util/arena.h"
#include "tests/util/process.h"
#include "tests/util/test.h"

static void test_create_sealed(void **state) {
        TestArena *t = *state;
        struct stat st;

        assert_int_equal(fcntl(t->arena.fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
        assert_int_equal(fstat(t->arena.fd, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_true(fcntl(t->arena.fd, F_GETFD) & FD_CLOEXEC);
        assert_int_equal(ftruncate(t->arena.fd, 0), -1);
}

static int create_without_streams(void *userdata) {
        ShmGeometry g = test_geometry();
        ShmArena arena;

        (void) userdata;
        for (int fd = 0; fd < 3; fd++)
                (void) close(fd);
        CHECK(shm_arena_create(&arena, &g, NULL) == 0);
        CHECK(arena.fd > STDERR_FILENO);
        return 0;
}

/* The kernel's error differs, for limits of which 0 to 2 are all numbers. */
static int create_without_numbers(void *userdata) {
        ShmGeometry g = test_geometry();
        struct rlimit limit;
        ShmArena arena;

        (void) userdata;
        CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
        for (int fd = 0; fd < 3; fd++)
                (void) close(fd);
        for (limit.rlim_cur = 0; limit.rlim_cur <= STDERR_FILENO + 1; limit.rlim_cur++) {
                CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
                CHECK(shm_arena_create(&arena, &g, NULL) == -EMFILE);
                CHECK(fcntl(STDIN_FILENO, F_GETFD) < 0);
        }
        return 0;
}

/* A program without standard streams does not print into an arena. */
static void test_create_above_streams(void **state) {
        assert_int_equal(test_child_run(TEST_FORK, create_without_streams, NULL), 0);
        assert_int_equal(test_child_run(TEST_FORK, create_without_numbers, NULL), 0);
}

static void test_geometry_bad(void **state) {
        const struct {
                ShmGeometry change; /* fields that are not 0 replace the good ones */
                const char *why;
        } cases[] = {
                { { .slabs_size = 4095 }, "size" },
                { { .slabs_size = (UINT64_C(64) << 30) + 4096 }, "64 GiB" },
                { { .slabs_size = 4096 + 1 }, "multiple" },
                { { .n_records = 1 }, "threads" },
                { { .n_records = 4097 }, "threads" },
                { { .n_epochs = 1 }, "epochs" },
                { { .n_epochs = 65 }, "epochs" },
                { { .n_classes = 33 }, "classes" },
                { { .class_size = { 48 } }, "multiple of 16" },
                { { .class_size = { 72 } }, "multiple of 16" },
                { { .class_size = { 512 } }, "rise" },
        };
        ShmArena arena;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                ShmGeometry g = test_geometry();
                const ShmGeometry *c = &cases[i].change;
                const char *why = NULL;

                g.slabs_size = c->slabs_size ?: g.slabs_size;
                g.n_records = c->n_records ?: g.n_records;
                g.n_epochs = c->n_epochs ?: g.n_epochs;
                g.n_classes = c->n_classes ?: g.n_classes;
                g.class_size[0] = c->class_size[0] ?: g.class_size[0];
                assert_int_equal(shm_geometry_check(&g, &why), -EINVAL);
                assert_non_null(strstr(why, cases[i].why));
                assert_int_equal(shm_arena_create(&arena, &g, NULL), -EINVAL);
        }
}

static void test_map_same(void **state) {
        TestArena *t = *state;
        ShmArena other;

        assert_int_equal(shm_arena_map(&other, dup(t->arena.fd), false), 0);
        assert_memory_equal(other.arena_id, t->arena.arena_id, 16);
        assert_int_equal(other.key, t->arena.key);
        assert_int_equal(other.size, t->arena.size);
        assert_memory_equal(other.classes, t->arena.classes, sizeof(other.classes));
        assert_ptr_not_equal(other.base, t->arena.base);
        shm_arena_deinit(&other);
}

typedef struct HeaderFault {
        size_t offset;
        uint8_t byte;
        int expected;
} HeaderFault;

/* A file with any header is refused, or mapped as the arena that it is. */
static void test_map_bad_header(void **state) {
        const HeaderFault faults[] = {
                { offsetof(ShmHeader, magic), 'x', SHM_ARENA_E_FORMAT },
                { offsetof(ShmHeader, format_version), 99, SHM_ARENA_E_FORMAT },
                { offsetof(ShmHeader, format_hash), 1, SHM_ARENA_E_FORMAT },
                { offsetof(ShmHeader, total_size) + 7, 1, SHM_ARENA_E_DAMAGED },
                { offsetof(ShmHeader, slabs_size) + 4, 1, SHM_ARENA_E_DAMAGED },
                { offsetof(ShmHeader, n_slabs) + 2, 9, SHM_ARENA_E_DAMAGED },
                { offsetof(ShmHeader, n_records) + 3, 1, SHM_ARENA_E_DAMAGED },
                { offsetof(ShmHeader, n_epochs), 77, SHM_ARENA_E_DAMAGED },
                { offsetof(ShmHeader, n_classes), 0, SHM_ARENA_E_DAMAGED },
                { offsetof(ShmHeader, class_size), 1, SHM_ARENA_E_DAMAGED },
        };
        TestArena *t = *state;
        uint64_t *hash = &t->arena.header->format_hash, good_hash = *hash;
        ShmArena other;

        for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
                uint8_t *byte = t->arena.base + faults[i].offset, good = *byte;

                *byte = faults[i].byte;
                assert_int_equal(shm_arena_map(&other, t->arena.fd, false), faults[i].expected);
                *byte = good;
        }
        /* That of an earlier build of the same version: its chains have no bytes in their heads. */
        *hash = UINT64_C(0x1d994eb5b078cf84);
        assert_int_equal(shm_arena_map(&other, t->arena.fd, false), SHM_ARENA_E_FORMAT);
        *hash = good_hash;
        assert_int_equal(shm_arena_map(&other, dup(t->arena.fd), false), 0);
        shm_arena_deinit(&other);
}

static void test_map_not_an_arena(void **state) {
        ShmArena arena;
        int fd, fds[2];

        assert_int_equal(shm_arena_map(&arena, -1, false), -EBADF);
        assert_int_equal(pipe(fds), 0);
        assert_int_equal(shm_arena_map(&arena, fds[0], false), SHM_ARENA_E_FORMAT);
        close(fds[0]);
        close(fds[1]);
        fd = memfd_create("empty", MFD_CLOEXEC);
        assert_int_equal(shm_arena_map(&arena, fd, false), SHM_ARENA_E_FORMAT);
        close(fd);
}

/* Somebody who could shrink it could make every client meet SIGBUS. */
static void test_map_unsealed(void **state) {
        TestArena *t = *state;
        ShmArena arena;
        int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        assert_int_equal(ftruncate(fd, (off_t) t->arena.size), 0);
        assert_int_equal(pwrite(fd, t->arena.header, sizeof(ShmHeader), 0), sizeof(ShmHeader));
        assert_int_equal(shm_arena_map(&arena, fd, false), SHM_ARENA_E_DAMAGED);
        close(fd);
}

static void test_map_read_only(void **state) {
        TestArena *t = *state;
        uint64_t handle = test_alloc(t, 100, SHM_EPOCH_CURRENT), other = 0;
        ShmArena reader;
        ShmActor actor = {};
        uint8_t byte = 0;
        char path[64];
        int fd;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", t->arena.fd);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(shm_arena_map(&reader, fd, true), 0);
        actor.arena = &reader;
        assert_int_equal(shm_object_copy(&reader, handle, 99, &byte, 1), 0);
        assert_int_equal(byte, 0xa5);
        assert_int_equal(shm_object_alloc(&actor, 100, 0, NULL, &other, NULL), -EROFS);
        assert_int_equal(shm_object_free(&actor, handle), -EROFS);
        shm_arena_deinit(&reader);
}

static void test_class_lookup(void **state) {
        TestArena *t = *state;

        for (size_t size = 1; size <= shm_arena_size_max(&t->arena); size++) {
                uint32_t class = shm_arena_class(&t->arena, size);

                assert_true(t->arena.classes[class].size >= size);
                assert_true(class == 0 || t->arena.classes[class - 1].size < size);
        }
}

/* A new arena is small, however large it may become. */
static void test_create_sparse(void **state) {
        ShmGeometry g = test_geometry();
        ShmArena arena;

        g.slabs_size = UINT64_C(64) << 30;
        g.n_records = SHM_RECORDS_MAX;
        g.n_epochs = SHM_EPOCHS_MAX;
        assert_int_equal(shm_arena_create(&arena, &g, NULL), 0);
        assert_true(shm_arena_resident_size(&arena) <= 64 << 10);
        shm_arena_deinit(&arena);
}

/* It is an error, not the end of the program by SIGXFSZ. */
static void test_create_over_file_limit(void **state) {
        ShmGeometry g = test_geometry();
        struct rlimit usual, low;
        ShmArena arena;
        int r;

        assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
        low = (struct rlimit){ .rlim_cur = g.slabs_size, .rlim_max = usual.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
        r = shm_arena_create(&arena, &g, NULL);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
        assert_int_equal(r, -EFBIG);
}

#define WITH_ARENA(f) cmocka_unit_test_setup_teardown(f, test_arena_setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                WITH_ARENA(test_create_sealed),
                cmocka_unit_test(test_create_above_streams),
                cmocka_unit_test(test_geometry_bad),
                WITH_ARENA(test_map_same),
                WITH_ARENA(test_map_bad_header),
                cmocka_unit_test(test_map_not_an_arena),
                WITH_ARENA(test_map_unsealed),
                WITH_ARENA(test_map_read_only),
                WITH_ARENA(test_class_lookup),
                cmocka_unit_test(test_create_sparse),
                cmocka_unit_test(test_create_over_file_limit),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
