#include <tslab.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/util/test.h"

static int setup(void **state) {
        struct tslab *pool;

        assert_int_equal(tslab_create(&pool, NULL), 0);
        *state = pool;
        return 0;
}

static int teardown(void **state) {
        assert_null(tslab_close(*state));
        return 0;
}

static tslab_handle alloc(struct tslab *pool, size_t size) {
        tslab_handle handle = 0;

        assert_int_equal(tslab_alloc(pool, size, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
        assert_true(handle != 0);
        return handle;
}

static void test_version_is_known(void **state) {
        (void) state;
        assert_string_equal(tslab_version(), TEST_VERSION);
}

static void test_open_no_daemon(void **state) {
        struct tslab_options options = { .size = sizeof(options), .flags = 1 << 7 };
        struct tslab *pool = NULL;
        char path[200] = "/";

        (void) state;
        memset(path + 1, 'x', sizeof(path) - 2);
        assert_int_equal(tslab_open(&pool, "Not a name", NULL), -EINVAL);
        assert_int_equal(tslab_open(&pool, "/nowhere/to/be.found", &options), -EINVAL);
        assert_int_equal(tslab_open(&pool, "/nowhere/to/be.found", NULL), -ENOENT);
        assert_int_equal(tslab_open(&pool, path, NULL), -ENAMETOOLONG);
        assert_null(pool);
}

static void test_create_bad_options(void **state) {
        static const struct tslab_options good = { .size = sizeof(good) };
        struct {
                struct tslab_options options;
                uint64_t later;
        } longer = { .options = good };
        struct tslab *pool = (struct tslab *) &longer;
        struct tslab_options bad;

        (void) state;
#define REFUSED(field, value)                                                                                \
        do {                                                                                                 \
                bad = good;                                                                                  \
                bad.field = value;                                                                           \
                assert_int_equal(tslab_create(&pool, &bad), -EINVAL);                                        \
        } while (0)
        REFUSED(size, 0);
        REFUSED(size, SIZE_MAX);
        REFUSED(flags, 0x80);
        REFUSED(arena_bytes, 4097);
        REFUSED(arena_bytes, UINT64_MAX);
        REFUSED(n_threads, 4096);
        REFUSED(n_threads, UINT32_MAX);
        REFUSED(n_epochs, 1);
        REFUSED(n_epochs, 65);
        REFUSED(n_classes, 1); /* a class of size 0 */
        REFUSED(n_classes, 17);
        assert_ptr_equal(pool, &longer);

        /* A program that was compiled with a later version, and does not use its new fields. */
        longer.options.size = sizeof(longer);
        assert_int_equal(tslab_create(&pool, &longer.options), 0);
        pool = tslab_close(pool);
        longer.later = 1;
        assert_int_equal(tslab_create(&pool, &longer.options), -EINVAL);

        /* And with an earlier one. */
        bad = good;
        bad.size = offsetof(struct tslab_options, n_classes);
        bad.n_classes = 99;
        assert_int_equal(tslab_create(&pool, &bad), 0);
        assert_null(tslab_close(pool));
        assert_null(tslab_close(NULL));
}

static void test_create_own_classes(void **state) {
        struct tslab_options options = { .size = sizeof(options), .n_classes = 2, .classes = { 80, 4096 } };
        struct tslab *pool;
        tslab_handle handle;
        void *object;
        size_t size;

        (void) state;
        assert_int_equal(tslab_create(&pool, &options), 0);
        handle = alloc(pool, 81);
        assert_int_equal(tslab_get(pool, handle, &object, &size), 0);
        assert_int_equal(size, 4096);
        assert_int_equal(tslab_alloc(pool, 4097, 0, &handle, NULL), -E2BIG);
        assert_int_equal(tslab_size_max(pool), 4096);
        tslab_close(pool);
}

static void test_alloc_every_size(void **state) {
        static const size_t classes[] = { 64,  80,  96,  112, 128, 144, 160, 192,  224,  256,  304, 336,
                                          368, 400, 448, 512, 576, 672, 816, 1024, 1360, 2048, 4096 };
        struct tslab *pool = *state;
        size_t size, class = 0;
        tslab_handle handle;
        void *object, *found;

        for (size_t want = 1; want <= 4096; want++) {
                class += want > classes[class];
                assert_int_equal(tslab_alloc(pool, want, TSLAB_EPOCH_CURRENT, &handle, &object), 0);
                assert_int_equal((uintptr_t) object % 16, 0);
                memset(object, 0xa5, classes[class]);
                assert_int_equal(tslab_get(pool, handle, &found, &size), 0);
                assert_ptr_equal(found, object);
                assert_int_equal(size, classes[class]);
                assert_int_equal(tslab_free(pool, handle), 0);
        }
}

static void test_alloc_bad_sizes(void **state) {
        struct tslab *pool = *state;
        tslab_handle handle = 17;
        void *object = &handle;

        assert_int_equal(tslab_alloc(pool, 0, 0, &handle, &object), -EINVAL);
        assert_int_equal(tslab_alloc(pool, 4097, 0, &handle, &object), -E2BIG);
        assert_int_equal(tslab_alloc(pool, SIZE_MAX, 0, &handle, &object), -E2BIG);
        assert_int_equal(tslab_alloc(pool, 1, 16, &handle, &object), -EINVAL);
        assert_int_equal(tslab_alloc(pool, 1, 7 << 8, &handle, &object), -ESTALE);
        assert_int_equal(handle, 17);
        assert_ptr_equal(object, &handle);
}

static void test_alloc_out_of_memory(void **state) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 64 * 4096 };
        tslab_handle *handles = calloc(5000, sizeof(*handles));
        struct tslab *pool;
        ssize_t n;

        (void) state;
        assert_int_equal(tslab_create(&pool, &options), 0);
        for (int turn = 0; turn < 3; turn++) {
                n = tslab_alloc_batch(pool, 64, TSLAB_EPOCH_CURRENT, handles, 5000);
                assert_int_equal(n, 64 * 64);
                assert_int_equal(tslab_alloc_batch(pool, 64, TSLAB_EPOCH_CURRENT, handles + n, 1), -ENOMEM);
                assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, handles + n, NULL), -ENOMEM);
                assert_int_equal(tslab_free_batch(pool, handles, (size_t) n), n);
                assert_int_equal(tslab_free_batch(pool, handles, (size_t) n), 0);
        }
        tslab_close(pool);
        free(handles);
}

static void test_batch_none_and_stale(void **state) {
        struct tslab *pool = *state;
        tslab_handle handles[8] = {};

        assert_int_equal(tslab_alloc_batch(pool, 64, TSLAB_EPOCH_CURRENT, handles, 0), 0);
        assert_int_equal(tslab_alloc_batch(pool, 0, TSLAB_EPOCH_CURRENT, handles, 8), -EINVAL);
        assert_int_equal(tslab_alloc_batch(pool, 100, TSLAB_EPOCH_CURRENT, handles, 8), 8);
        assert_int_equal(tslab_free(pool, handles[3]), 0);
        assert_int_equal(tslab_free_batch(pool, handles, 8), 7);
        assert_int_equal(tslab_free_batch(pool, handles, 0), 0);
}

static void test_free_twice(void **state) {
        struct tslab *pool = *state;
        tslab_handle handle = alloc(pool, 64);
        void *object;

        assert_int_equal(tslab_free(pool, handle), 0);
        assert_int_equal(tslab_free(pool, handle), -ESTALE);
        assert_int_equal(tslab_get(pool, handle, &object, NULL), -ESTALE);
}

static void test_free_after_reuse(void **state) {
        struct tslab *pool = *state;
        tslab_handle old = alloc(pool, 64), handle = 0;
        void *object;

        assert_int_equal(tslab_free(pool, old), 0);
        for (int i = 0; i < 1000000; i++) {
                assert_int_equal(tslab_alloc(pool, 64, TSLAB_EPOCH_CURRENT, &handle, NULL), 0);
                if (handle == old || tslab_free(pool, old) != -ESTALE ||
                    tslab_get(pool, old, &object, NULL) != -ESTALE)
                        fail();
                if (tslab_free(pool, handle) != 0)
                        fail();
        }
        assert_int_equal((uint32_t) handle, (uint32_t) old); /* it was that slot, all the time */
}

static uint64_t random64(uint64_t *seed) {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        return *seed ^= *seed << 17;
}

/* Garbage, and handles in which a few bits are wrong: nothing is found, nothing is freed. */
static void test_garbage_handles(void **state) {
        struct tslab *pool = *state;
        tslab_handle live[64];
        uint64_t seed = 0x9e3779b97f4a7c15;
        void *object;

        assert_int_equal(tslab_alloc_batch(pool, 64, TSLAB_EPOCH_CURRENT, live, 64), 64);
        for (int i = 0; i < 1000000; i++) {
                tslab_handle garbage = random64(&seed);

                if (i % 2)
                        garbage = live[i % 64] ^ UINT64_C(1) << garbage % 32 << 32; /* another tag */
                if (tslab_free(pool, garbage) != -ESTALE ||
                    tslab_get(pool, garbage, &object, NULL) != -ESTALE)
                        fail();
        }
        assert_int_equal(tslab_free(pool, 0), -ESTALE);
        for (int i = 0; i < 64; i++)
                assert_int_equal(tslab_free(pool, live[i]), 0);
}

static void test_other_pool(void **state) {
        struct tslab *other;
        tslab_handle handle, here = alloc(*state, 64);
        void *object;

        assert_int_equal(tslab_create(&other, NULL), 0);
        handle = alloc(other, 64);
        assert_int_equal((uint32_t) handle, (uint32_t) here); /* the same place in both */
        assert_int_equal(tslab_free(*state, handle), -ESTALE);
        assert_int_equal(tslab_get(other, here, &object, NULL), -ESTALE);
        assert_int_equal(tslab_free(other, handle), 0);
        assert_false(tslab_stale(other));
        tslab_close(other);
        assert_int_equal(tslab_free(*state, here), 0);
}

static void test_read(void **state) {
        struct tslab *pool = *state;
        tslab_handle handle;
        uint8_t buffer[128] = {};
        void *object;

        assert_int_equal(tslab_alloc(pool, 90, TSLAB_EPOCH_CURRENT, &handle, &object), 0);
        memset(object, 0x5a, 96);
        assert_int_equal(tslab_read(pool, handle, buffer, 95), -EMSGSIZE);
        assert_int_equal(buffer[0], 0);
        assert_int_equal(tslab_read(pool, handle, buffer, sizeof(buffer)), 96);
        assert_memory_equal(buffer, object, 96);
        assert_int_equal(buffer[96], 0);
        assert_int_equal(tslab_free(pool, handle), 0);
        assert_int_equal(tslab_read(pool, handle, buffer, sizeof(buffer)), -ESTALE);
}

static void test_pending_publish(void **state) {
        struct tslab *pool = *state;
        tslab_handle handles[65], handle;
        void *object;

        for (int i = 0; i < 64; i++)
                assert_int_equal(tslab_alloc_pending(pool, 64, TSLAB_EPOCH_CURRENT, &handles[i], &object), 0);
        assert_int_equal(tslab_alloc_pending(pool, 64, TSLAB_EPOCH_CURRENT, &handle, &object), -ENOBUFS);
        assert_int_equal(tslab_publish(pool, handles[0]), 0);
        assert_int_equal(tslab_publish(pool, handles[0]), -ENOENT);
        assert_int_equal(tslab_alloc_pending(pool, 64, TSLAB_EPOCH_CURRENT, &handles[64], NULL), 0);
        /* Freeing one makes room, too. */
        assert_int_equal(tslab_free(pool, handles[1]), 0);
        assert_int_equal(tslab_publish(pool, handles[1]), -ENOENT);
        assert_int_equal(tslab_alloc_pending(pool, 64, TSLAB_EPOCH_CURRENT, &handles[1], NULL), 0);

        handle = alloc(pool, 64);
        assert_int_equal(tslab_publish(pool, handle), -ENOENT);
        assert_int_equal(tslab_publish(pool, 0), -ENOENT);
        assert_int_equal(tslab_free(pool, handle), 0);
        for (int i = 0; i < 65; i++)
                assert_int_equal(tslab_free(pool, handles[i]), 0);
        assert_int_equal(tslab_drain(pool), 0);
}

/* Handle 0 is nothing that is pending: freeing it takes no note of another object away. */
static void test_free_zero_while_pending(void **state) {
        struct tslab *pool = *state;
        const tslab_handle none[3] = {};
        tslab_handle handles[64];

        for (int round = 0; round < 2; round++) {
                for (int i = 0; i < 64; i++) {
                        assert_int_equal(
                                tslab_alloc_pending(pool, 64, TSLAB_EPOCH_CURRENT, &handles[i], NULL), 0);
                        if (round == 0)
                                assert_int_equal(tslab_free(pool, 0), -ESTALE);
                        else
                                assert_int_equal(tslab_free_batch(pool, none, 3), 0);
                }
                for (int i = 0; i < 64; i++)
                        assert_int_equal(tslab_free(pool, handles[i]), 0);
        }
        assert_int_equal(tslab_alloc_pending(pool, 64, TSLAB_EPOCH_CURRENT, &handles[0], NULL), 0);
        assert_int_equal(tslab_publish(pool, handles[0]), 0);
        assert_int_equal(tslab_free(pool, handles[0]), 0);
}

static void test_malloc_mfree(void **state) {
        struct tslab *pool = *state;
        uint8_t *a, *b, *garbage;

        for (size_t size = 1; size <= 4080; size++) {
                a = tslab_malloc(pool, size, TSLAB_EPOCH_CURRENT);
                assert_non_null(a);
                assert_int_equal((uintptr_t) a % 16, 0);
                memset(a, 0xff, size);
                tslab_mfree(pool, a);
        }
        errno = 0;
        assert_null(tslab_malloc(pool, 4081, TSLAB_EPOCH_CURRENT));
        assert_int_equal(errno, E2BIG);
        assert_null(tslab_malloc(pool, SIZE_MAX, TSLAB_EPOCH_CURRENT));
        assert_int_equal(errno, E2BIG);
        assert_null(tslab_malloc(pool, 0, TSLAB_EPOCH_CURRENT));
        assert_int_equal(errno, EINVAL);

        a = tslab_malloc(pool, 48, TSLAB_EPOCH_CURRENT);
        b = tslab_malloc(pool, 48, TSLAB_EPOCH_CURRENT);
        tslab_mfree(pool, NULL);
        tslab_mfree(pool, &garbage);
        tslab_mfree(pool, a + 16); /* not where one begins */
        tslab_mfree(pool, a + 1);
        tslab_mfree(pool, a);
        tslab_mfree(pool, a); /* twice: stale */
        assert_ptr_equal(tslab_malloc(pool, 48, TSLAB_EPOCH_CURRENT), a);
        tslab_mfree(pool, a);
        tslab_mfree(pool, b);
        assert_int_equal(errno, EINVAL);
}

/* Pages that a process makes in a private pool are mapped there at once: a store into a new object is no page fault. */
static void test_prefault(void **state) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 16 << 20 };
        enum { N = 1000 };
        void *objects[N];
        struct rusage before, after;
        struct tslab *pool;
        tslab_handle handle;

        (void) state;
        assert_int_equal(tslab_create(&pool, &options), 0);
        for (int i = 0; i < N; i++)
                assert_int_equal(tslab_alloc(pool, 4096, TSLAB_EPOCH_CURRENT, &handle, &objects[i]), 0);
        assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
        for (int i = 0; i < N; i++)
                *(volatile int *) objects[i] = i;
        assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
        assert_true(after.ru_minflt - before.ru_minflt < N / 4);
        tslab_close(pool);
}

/* Paths at which there is something else than the socket of a daemon. */
static void test_open_other_paths(void **state) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        char folder[] = "/tmp/tslab-open-XXXXXX", path[sizeof(folder) + 16];
        struct tslab *pool;
        int fd;

        (void) state;
        assert_non_null(mkdtemp(folder));
        (void) snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", folder);
        fd = socket(AF_UNIX, SOCK_STREAM, 0);
        assert_int_equal(bind(fd, (struct sockaddr *) &address, sizeof(address)), 0);
        assert_int_equal(listen(fd, 1), 0);
        assert_int_equal(tslab_open(&pool, address.sun_path, NULL), -EPROTO);
        assert_int_equal(close(fd), 0);
        assert_int_equal(tslab_open(&pool, address.sun_path, NULL), -ECONNREFUSED);
        assert_int_equal(tslab_open(&pool, "/dev/null/socket", NULL), -ENOENT);
        (void) snprintf(path, sizeof(path), "%s/loop", folder);
        assert_int_equal(symlink("loop", path), 0);
        assert_int_equal(tslab_open(&pool, path, NULL), -ENOENT);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(unlink(address.sun_path), 0);
        assert_int_equal(rmdir(folder), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_version_is_known),
                cmocka_unit_test(test_open_no_daemon),
                cmocka_unit_test(test_open_other_paths),
                cmocka_unit_test(test_create_bad_options),
                cmocka_unit_test(test_create_own_classes),
                cmocka_unit_test_setup_teardown(test_alloc_every_size, setup, teardown),
                cmocka_unit_test_setup_teardown(test_alloc_bad_sizes, setup, teardown),
                cmocka_unit_test(test_alloc_out_of_memory),
                cmocka_unit_test_setup_teardown(test_batch_none_and_stale, setup, teardown),
                cmocka_unit_test_setup_teardown(test_free_twice, setup, teardown),
                cmocka_unit_test_setup_teardown(test_free_after_reuse, setup, teardown),
                cmocka_unit_test_setup_teardown(test_garbage_handles, setup, teardown),
                cmocka_unit_test_setup_teardown(test_other_pool, setup, teardown),
                cmocka_unit_test_setup_teardown(test_read, setup, teardown),
                cmocka_unit_test_setup_teardown(test_pending_publish, setup, teardown),
                cmocka_unit_test_setup_teardown(test_free_zero_while_pending, setup, teardown),
                cmocka_unit_test_setup_teardown(test_malloc_mfree, setup, teardown),
                cmocka_unit_test(test_prefault),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
