/* A program that uses <slab_alloc.h> and nothing else of ours: many calls of each kind, and no object is lost. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <slab_alloc.h>
#include <slab_stats.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/util/test.h"

#define N_OBJECTS 500000
#define WINDOW 4096
#define N_SIZES 8
#define N_THREADS 4
#define N_RACES 100
#define N_SHORT_THREADS 100
#define RSS_SLACK                                                                                            \
        (11                                                                                                  \
         << 18) /* tables of the slabs that were used, and caches of 16 classes; a leak of a byte a call: 3.8 MiB */

static const uint32_t sizes[N_SIZES] = { 64, 96, 128, 192, 256, 384, 512, 768 };

static SlabAllocator *make(void) {
        SlabAllocator *a = slab_allocator_create();

        assert_non_null(a);
        return a;
}

/* Room and retained memory by the environment. */
static void test_environment(void **test_state) {
        static const char *const bad[] = { "",     "x",   "1x", "-1", "1KK", "K", "1.5M", "99999999999G",
                                           "5000", "65G", "0" };
        SlabClassStats stats;
        SlabHandle handle;
        SlabAllocator *a;
        unsigned n = 0;

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                assert_int_equal(setenv("TSLAB_SIZE", bad[i], 1), 0);
                assert_null(slab_allocator_create());
        }
        assert_int_equal(setenv("TSLAB_SIZE", "64K", 1), 0);
        assert_int_equal(setenv("TSLAB_RETAIN", "8192", 1), 0);
        a = make();
        while (alloc_obj_epoch(a, 768, 0, &handle))
                n++;
        assert_int_equal(n, 16 * (4096 / 768));
        slab_allocator_free(a);
        assert_int_equal(setenv("TSLAB_RETAIN", "0", 1), 0);
        a = make();
        slab_stats_class(a, 0, &stats);
        assert_int_equal(stats.cache_capacity, 0);
        slab_allocator_free(a);
        assert_int_equal(setenv("TSLAB_RETAIN", "much", 1), 0);
        assert_null(slab_allocator_create());
        assert_int_equal(unsetenv("TSLAB_SIZE") | unsetenv("TSLAB_RETAIN"), 0);
}

/* A list that is none makes no allocator, and no classes of another. */
static void test_bad_classes(void **test_state) {
        static const char *const bad[] = {
                "",
                ",",
                "x",
                "64,",
                ",64",
                "64 128",
                "64,,128",
                "0",
                "48",
                "72",
                "4096",
                "64,64",
                "128,64",
                "-64",
                "64,99999999",
                "64;128",
                "64, 128",
                "0x40",
                "64K",
                "18446744073709551680",
                "64,80,96,112,128,144,160,176,192,208,224,240,256,272,288,304,320",
        };

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                SlabAllocator alloc;
                SlabHandle handle;

                assert_int_equal(setenv("TSLAB_CLASSES", bad[i], 1), 0);
                assert_null(slab_allocator_create());
                allocator_init(&alloc);
                assert_null(alloc_obj_epoch(&alloc, 64, 0, &handle));
                assert_int_equal(slab_object_count(64), 0);
        }
        assert_int_equal(unsetenv("TSLAB_CLASSES"), 0);
}

/* The figures of a class are found under its place in the list. */
static void check_class(SlabAllocator *a, uint32_t class, uint32_t size, uint32_t n, uint64_t live) {
        PerfCounters counters;
        SlabClassStats stats;

        slab_stats_class(a, class, &stats);
        get_perf_counters(a, class, &counters);
        assert_int_equal(stats.object_size, class < n ? size : 0);
        assert_int_equal(stats.live_bytes, live * (class < n ? size : 0));
        assert_int_equal(counters.new_slab_count > 0, live > 0);
}

/* Classes by the environment, also the most of them, neighbours that are 16 bytes apart, and the largest one. */
static void test_classes(void **test_state) {
        static const uint32_t some[] = { 64, 80, 1024, 4080 };
        SlabHandle handle;
        SlabAllocator *a;

        assert_int_equal(setenv("TSLAB_CLASSES", "64,80,1024,4080", 1), 0);
        a = make();
        for (uint32_t class = 0, from = 1; class < 4; from = some[class ++] + 1)
                for (uint32_t k = 0; k < 3; k++) {
                        uint32_t size = k == 0 ? from : some[class];

                        assert_non_null(alloc_obj_epoch(a, size, 0, &handle));
                        assert_int_equal(slab_object_count(size), 4096 / some[class]);
                }
        assert_null(alloc_obj_epoch(a, 4081, 0, &handle));
        assert_int_equal(slab_object_count(4081), 0);
        for (uint32_t class = 0; class < 5; class ++)
                check_class(a, class, class < 4 ? some[class] : 0, 4, class < 4 ? 3 : 0);
        assert_null(slab_malloc_epoch(a, 4073, 0));
        memset(slab_malloc_epoch(a, 4072, 0), 1, 4072);
        slab_allocator_free(a);

        assert_int_equal(setenv("TSLAB_CLASSES",
                                "64,96,128,160,192,256,320,384,448,512,640,768,1024,1360,2032,4080", 1),
                         0);
        a = make();
        assert_int_equal(unsetenv("TSLAB_CLASSES"), 0); /* an allocator that there is keeps its classes */
        for (uint32_t size = 1; size <= 4080; size++)
                assert_non_null(alloc_obj_epoch(a, size, 0, &handle));
        for (uint32_t size = 1; size <= 4072; size += 11)
                assert_non_null(slab_malloc_epoch(a, size, 0));
        slab_allocator_free(a);
        assert_int_equal(setenv("TSLAB_CLASSES", "128", 1), 0);
        a = make();
        assert_int_equal(unsetenv("TSLAB_CLASSES"), 0);
        assert_non_null(alloc_obj_epoch(a, 128, 0, &handle));
        assert_null(alloc_obj_epoch(a, 129, 0, &handle));
        check_class(a, 0, 128, 1, 1);
        slab_allocator_free(a);
}

static void test_sizes(void **test_state) {
        SlabAllocator *a = make();
        SlabHandle handle = 7;

        assert_null(alloc_obj_epoch(a, 0, 0, &handle));
        assert_null(alloc_obj_epoch(a, 769, 0, &handle));
        assert_null(alloc_obj_epoch(a, UINT32_MAX, 0, &handle));
        assert_null(alloc_obj_epoch(a, 64, 16, &handle));
        assert_null(alloc_obj_epoch(a, 64, 256, &handle)); /* not id 0 in another era */
        assert_null(alloc_obj_epoch(a, 64, UINT32_MAX, &handle)); /* nor the current one */
        assert_int_equal(handle, 7);
        for (uint32_t size = 1; size <= 768; size++) {
                uint8_t *p = alloc_obj_epoch(a, size, size % 16, &handle);

                assert_non_null(p);
                assert_int_equal((uintptr_t) p % 16, 0);
                memset(p, 1, size);
                assert_true(free_obj(a, handle));
        }
        assert_non_null(alloc_obj_epoch(a, 64, 0, NULL));
        slab_allocator_free(a);
}

static void test_malloc_call(void **test_state) {
        SlabAllocator *a = make();
        void *p[761];

        assert_null(slab_malloc_epoch(a, 0, 0));
        assert_null(slab_malloc_epoch(a, 761, 0));
        assert_null(slab_malloc_epoch(a, SIZE_MAX, 0));
        assert_null(slab_malloc_epoch(a, 64, 16));
        for (size_t size = 1; size <= 760; size++) {
                p[size] = slab_malloc_epoch(a, size, 3);
                assert_non_null(p[size]);
                assert_int_equal((uintptr_t) p[size] % 16, 0);
                memset(p[size], (int) size, size);
        }
        for (size_t size = 1; size <= 760; size++) {
                assert_int_equal(*(uint8_t *) p[size], (uint8_t) size);
                slab_free(a, p[size]);
                slab_free(a, p[size]); /* left alone */
        }
        slab_free(a, NULL);
        slab_free(a, &a);
        slab_allocator_free(a);
}

static void test_stale(void **test_state) {
        SlabAllocator *a = make(), *b = make();
        SlabHandle old, new, other;
        void *p;

        p = alloc_obj_epoch(a, 128, 0, &old);
        assert_non_null(p);
        assert_non_null(alloc_obj_epoch(b, 128, 0, &other));
        assert_false(free_obj(b, old));
        assert_false(free_obj(a, other));
        assert_true(free_obj(a, old));
        assert_false(free_obj(a, old));
        assert_ptr_equal(alloc_obj_epoch(a, 128, 0, &new), p); /* the slot is reused */
        assert_int_not_equal(new, old);
        assert_false(free_obj(a, old));
        assert_true(free_obj(a, new));
        assert_false(free_obj(a, 0));
        assert_false(free_obj(a, UINT64_MAX));
        assert_true(free_obj(b, other));
        slab_allocator_free(a);
        slab_allocator_free(b);
}

static void test_epochs(void **test_state) {
        SlabAllocator *a = make();
        SlabHandle handles[16], handle;

        assert_int_equal(epoch_current(a), 0);
        for (EpochId e = 0; e < 16; e++)
                assert_non_null(alloc_obj_epoch(a, 64, e, &handles[e]));
        epoch_close(a, 0);
        assert_int_equal(epoch_current(a), 0);
        assert_null(alloc_obj_epoch(a, 64, epoch_current(a), &handle));
        assert_null(slab_malloc_epoch(a, 64, epoch_current(a)));
        epoch_close(a, 99);
        epoch_advance(a);
        assert_int_equal(epoch_current(a), 1);
        assert_non_null(alloc_obj_epoch(a, 64, 1, &handle));
        assert_true(free_obj(a, handle));
        for (EpochId e = 1; e < 16; e++) {
                epoch_advance(a);
                assert_int_equal(epoch_current(a), (e + 1) % 16);
                assert_null(alloc_obj_epoch(a, 64, e, &handle)); /* the old one is closed */
        }
        assert_non_null(alloc_obj_epoch(a, 64, 0, &handle)); /* open again */
        assert_true(free_obj(a, handle));
        for (EpochId e = 0; e < 16; e++)
                assert_true(free_obj(a, handles[e])); /* objects of lifetimes that are over */
        slab_allocator_free(a);
}

static void test_labels_and_references(void **test_state) {
        SlabAllocator *a = make();

        slab_epoch_set_label(a, 2, "requests");
        slab_epoch_set_label(a, 2, "a label that is much longer than there is room for in an epoch");
        slab_epoch_set_label(a, 2, NULL);
        slab_epoch_set_label(a, 16, "none");
        slab_epoch_dec_refcount(a, 1);
        assert_int_equal(slab_epoch_get_refcount(a, 1), 0);
        slab_epoch_inc_refcount(a, 1);
        slab_epoch_inc_refcount(a, 1);
        slab_epoch_inc_refcount(a, 16);
        assert_int_equal(slab_epoch_get_refcount(a, 1), 2);
        assert_int_equal(slab_epoch_get_refcount(a, 0), 0);
        assert_int_equal(slab_epoch_get_refcount(a, 16), 0);
        slab_epoch_dec_refcount(a, 1);
        assert_int_equal(slab_epoch_get_refcount(a, 1), 1);
        epoch_advance(a); /* a new lifetime of 1 has no users yet */
        assert_int_equal(slab_epoch_get_refcount(a, 1), 0);
        slab_epoch_dec_refcount(a, 1);
        slab_epoch_inc_refcount(a, 1);
        assert_int_equal(slab_epoch_get_refcount(a, 1), 1);
        slab_allocator_free(a);
}

static void test_storage_of_the_caller(void **test_state) {
        SlabAllocator a, b;
        SlabHandle handle;

        memset(&a, 0xff, sizeof(a));
        allocator_init(&a);
        allocator_init(&b);
        assert_non_null(alloc_obj_epoch(&a, 64, 0, &handle));
        assert_true(free_obj(&a, handle));
        allocator_destroy(&a);
        allocator_destroy(&a);
        assert_null(alloc_obj_epoch(&a, 64, 0, &handle));
        assert_non_null(slab_malloc_epoch(&b, 64, 0));
        allocator_destroy(&b);
}

static void test_no_allocator(void **test_state) {
        PerfCounters counters;

        assert_null(alloc_obj_epoch(NULL, 64, 0, NULL));
        assert_false(free_obj(NULL, 1));
        assert_null(slab_malloc_epoch(NULL, 64, 0));
        slab_free(NULL, &counters);
        assert_int_equal(epoch_current(NULL), 0);
        epoch_advance(NULL);
        epoch_close(NULL, 0);
        slab_epoch_set_label(NULL, 0, "x");
        slab_epoch_inc_refcount(NULL, 0);
        slab_epoch_dec_refcount(NULL, 0);
        assert_int_equal(slab_epoch_get_refcount(NULL, 0), 0);
        memset(&counters, 0xff, sizeof(counters));
        get_perf_counters(NULL, 0, &counters);
        assert_int_equal(counters.slow_path_hits, 0);
        allocator_init(NULL);
        allocator_destroy(NULL);
        slab_allocator_free(NULL);
}

static void test_counters(void **test_state) {
        SlabAllocator *a = make();
        PerfCounters c128, c256, none;
        SlabHandle handles[1000];

        for (uint32_t i = 0; i < 1000; i++)
                assert_non_null(alloc_obj_epoch(a, 128, 0, &handles[i]));
        get_perf_counters(a, 2, &c128);
        get_perf_counters(a, 4, &c256);
        get_perf_counters(a, 99, &none);
        assert_true(c128.slow_path_hits > 0 && c128.slow_path_hits <= 1000);
        assert_true(c128.new_slab_count >= 1000 / 32);
        assert_true(c128.list_move_partial_to_full > 0 &&
                    c128.list_move_partial_to_full <= c128.new_slab_count);
        assert_int_equal(c128.list_move_full_to_partial, 0);
        assert_int_equal(c128.current_partial_null + c128.current_partial_full, c128.slow_path_hits);
        assert_int_equal(c256.slow_path_hits + c256.new_slab_count, 0);
        assert_int_equal(none.slow_path_hits + none.new_slab_count, 0);
        for (uint32_t i = 0; i < 1000; i++)
                assert_true(free_obj(a, handles[i]));
        get_perf_counters(a, 2, &c128);
        assert_true(c128.empty_slab_recycled > 0);
        assert_true(c128.list_move_full_to_partial > 0);
        assert_int_equal(c128.empty_slab_overflowed, 0);

        /* Slabs of a closed epoch are not kept. */
        for (uint32_t i = 0; i < 1000; i++)
                assert_non_null(alloc_obj_epoch(a, 256, 1, &handles[i]));
        epoch_close(a, 1);
        for (uint32_t i = 0; i < 1000; i++)
                assert_true(free_obj(a, handles[i]));
        get_perf_counters(a, 4, &c256);
        assert_true(c256.empty_slab_overflowed >= 1000 / 16);
        slab_allocator_free(a);
}

static void test_utilities(void **test_state) {
        uint64_t t = now_ns();

        assert_int_equal(slab_object_count(0), 0);
        assert_int_equal(slab_object_count(769), 0);
        assert_int_equal(slab_object_count(64), 64);
        assert_int_equal(slab_object_count(65), 42);
        assert_int_equal(slab_object_count(768), 5);
        assert_true(t > 0 && now_ns() >= t);
        assert_true(read_rss_bytes_linux() > 100000);
}

/* Sanitizers keep more memory resident than the program touched. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RSS_IS_OURS 0
#else
#define RSS_IS_OURS 1
#endif

static void check_rss(uint64_t start, const char *when) {
        uint64_t now = read_rss_bytes_linux();

        if (RSS_IS_OURS && now > start + RSS_SLACK)
                fail_msg("%s: %lu KiB resident, %lu KiB at first", when, (unsigned long) (now >> 10),
                         (unsigned long) (start >> 10));
}

/* 500,000 in each class, a window of them live, each with contents of its own; every free counts. */
static void churn(SlabAllocator *a) {
        static SlabHandle handles[WINDOW];
        static uint64_t *objects[WINDOW];

        for (uint32_t s = 0; s < N_SIZES; s++) {
                for (uint64_t i = 0; i < N_OBJECTS + WINDOW; i++) {
                        uint32_t w = i % WINDOW;

                        if (i >= WINDOW) {
                                assert_true(*objects[w] == i - WINDOW);
                                assert_true(free_obj(a, handles[w]));
                        }
                        if (i >= N_OBJECTS)
                                continue;
                        objects[w] = alloc_obj_epoch(a, sizes[s], s, &handles[w]);
                        assert_true(objects[w] != NULL);
                        *objects[w] = i;
                }
        }
}

/* Long-lived state goes to epoch 0 while requests rotate through the others, however often. */
static void test_epoch_0_stays_open(void **test_state) {
        SlabAllocator *a = make();
        SlabHandle handles[40];
        void *objects[40];

        for (int i = 0; i < 40; i++) {
                objects[i] = i % 2 ? slab_malloc_epoch(a, 100, 0) : alloc_obj_epoch(a, 100, 0, &handles[i]);
                assert_non_null(objects[i]);
                memset(objects[i], i, 100);
                epoch_advance(a);
                assert_int_equal(epoch_current(a), (i + 1) % 16);
        }
        for (int i = 0; i < 40; i++) {
                assert_int_equal(((uint8_t *) objects[i])[99], i);
                if (i % 2)
                        slab_free(a, objects[i]);
                else
                        assert_true(free_obj(a, handles[i]));
        }
        slab_allocator_free(a);
}

static uint64_t count_advances(SlabAllocator *a) {
        SlabEpochStats stats;
        uint64_t n = 0;

        for (EpochId e = 0; e < SLAB_EPOCH_COUNT; e++) {
                slab_stats_epoch(a, 0, e, &stats);
                n = stats.epoch_era > n ? stats.epoch_era : n;
        }
        return n;
}

#define N_CHILDREN 4
#define N_ADVANCES 100

/* Forked processes that advance at the same time: each advance counts. */
static void test_advances_of_processes(void **test_state) {
        SlabAllocator *a = make();
        uint64_t before = count_advances(a);

        for (int i = 0; i < N_CHILDREN; i++)
                if (fork() == 0) {
                        for (int k = 0; k < N_ADVANCES; k++)
                                epoch_advance(a);
                        _exit(0);
                }
        while (wait(NULL) > 0)
                ;
        assert_int_equal(count_advances(a) - before, N_CHILDREN * N_ADVANCES);
        slab_allocator_free(a);
}

#define N_HANDED 20000

static uint64_t count_net(SlabAllocator *a, uint32_t class) {
        PerfCounters c;

        get_perf_counters(a, class, &c);
        return c.new_slab_count - c.empty_slab_recycled - c.empty_slab_overflowed;
}

#define N_ROUNDS 600
#define N_ROUND 2000 /* objects of 768 bytes, 5 in a slab: more than a cache has */

static void *empty_slabs(void *userdata) {
        SlabAllocator *a = userdata;
        SlabHandle handles[N_ROUND];

        for (int round = 0; round < N_ROUNDS; round++) {
                for (int i = 0; i < N_ROUND; i++)
                        if (!alloc_obj_epoch(a, 768, 0, &handles[i]))
                                abort();
                for (int i = 0; i < N_ROUND; i++)
                        free_obj(a, handles[i]);
        }
        return NULL;
}

/* Slabs that a free empties while they are counted count once. */
static void test_slabs_counted_once(void **test_state) {
        SlabAllocator *a = make();
        uint64_t recycled = 0;
        PerfCounters c;
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, empty_slabs, a), 0);
        while (pthread_tryjoin_np(thread, NULL) == EBUSY) {
                get_perf_counters(a, 7, &c);
                assert_in_range(c.empty_slab_recycled, recycled, c.new_slab_count);
                recycled = c.empty_slab_recycled;
        }
        get_perf_counters(a, 7, &c);
        assert_int_equal(c.empty_slab_recycled, c.new_slab_count); /* the thread gave all back */
        slab_allocator_free(a);
}

/* Slabs that another process empties count as recycled here: this one made them. */
static void test_slabs_emptied_elsewhere(void **test_state) {
        static SlabHandle handles[N_HANDED];
        SlabAllocator *a = make();

        for (int i = 0; i < N_HANDED; i++)
                assert_non_null(alloc_obj_epoch(a, 128, 0, &handles[i]));
        assert_in_range(count_net(a, 2), N_HANDED / 32, N_HANDED / 32 + 16);
        if (fork() == 0) {
                for (int i = 0; i < N_HANDED; i++)
                        (void) free_obj(a, handles[i]);
                _exit(0);
        }
        while (wait(NULL) > 0)
                ;
        assert_in_range(count_net(a, 2), 0, 40);
        slab_allocator_free(a);
}

/* The classes have room for the 16 bytes before the memory of slab_malloc_epoch(), where temporal-slab has 8. */
static void test_malloc_memory(void **test_state) {
        SlabAllocator *a = make();
        SlabClassStats stats;

        for (uint32_t class = 0; class < N_SIZES; class ++) {
                uint32_t size = sizes[class] - 8;

                for (int i = 0; i < 1000; i++)
                        assert_non_null(slab_malloc_epoch(a, size, 0));
                slab_stats_class(a, class, &stats);
                assert_int_equal(stats.live_bytes, 1000 * sizes[class]);
                assert_in_range(stats.net_slabs, 1, 1000 / (4096 / (size + 24)) + 20);
        }
        slab_allocator_free(a);
}

/* Until it is closed by name; and again when it comes round. */
static void test_epoch_0_closed(void **test_state) {
        SlabAllocator *a = make();
        SlabHandle handle;

        epoch_advance(a);
        assert_non_null(alloc_obj_epoch(a, 64, 0, &handle));
        epoch_close(a, 0);
        assert_null(alloc_obj_epoch(a, 64, 0, NULL));
        assert_null(slab_malloc_epoch(a, 64, 0));
        assert_true(free_obj(a, handle));
        while (epoch_current(a) != 0) {
                assert_null(alloc_obj_epoch(a, 64, 0, NULL));
                epoch_advance(a);
        }
        assert_non_null(alloc_obj_epoch(a, 64, 0, &handle));
        epoch_advance(a);
        assert_true(free_obj(a, handle));
        assert_non_null(alloc_obj_epoch(a, 64, 0, &handle));
        assert_true(free_obj(a, handle));
        slab_allocator_free(a);
}

/* Objects that are freed in epochs after theirs, over 20 advances. */
static void cross_epochs(SlabAllocator *a) {
        static SlabHandle handles[20][1000];

        for (uint32_t i = 0; i < 20; i++) {
                EpochId old = epoch_current(a);

                for (uint32_t k = 0; k < 1000; k++)
                        assert_non_null(alloc_obj_epoch(a, sizes[k % N_SIZES], old, &handles[i][k]));
                epoch_advance(a);
                epoch_close(a, old);
                for (uint32_t k = 0; k < 1000 && i > 0; k++)
                        assert_true(free_obj(a, handles[i - 1][k]));
        }
        for (uint32_t k = 0; k < 1000; k++)
                assert_true(free_obj(a, handles[19][k]));
}

typedef struct Race {
        SlabAllocator *a;
        atomic_bool over;
        atomic_ulong n_allocated, n_freed;
} Race;

static void *race(void *userdata) {
        Race *r = userdata;
        SlabHandle handles[64];

        for (uint32_t round = 0; !atomic_load(&r->over); round++) {
                uint32_t k = 0;

                while (k < 64 &&
                       alloc_obj_epoch(r->a, sizes[(round + k) % N_SIZES], epoch_current(r->a), &handles[k]))
                        k++;
                atomic_fetch_add(&r->n_allocated, k);
                while (k > 0)
                        atomic_fetch_add(&r->n_freed, free_obj(r->a, handles[--k]));
        }
        return NULL;
}

static void close_beside_threads(SlabAllocator *a) {
        Race r = { .a = a };
        pthread_t threads[N_THREADS];

        for (uint32_t i = 0; i < N_THREADS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, race, &r), 0);
        for (uint32_t i = 0; i < N_RACES; i++) {
                unsigned long before;

                epoch_close(a, epoch_current(a)); /* they are refused until it advances */
                epoch_advance(a);
                before = atomic_load(&r.n_allocated);
                while (atomic_load(&r.n_allocated) == before)
                        sched_yield();
        }
        atomic_store(&r.over, true);
        for (uint32_t i = 0; i < N_THREADS; i++)
                pthread_join(threads[i], NULL);
        assert_int_equal(atomic_load(&r.n_freed), atomic_load(&r.n_allocated));
}

static void *be_short(void *userdata) {
        SlabAllocator *a = userdata;
        SlabHandle handles[100];

        for (uint32_t i = 0; i < 100; i++)
                if (!alloc_obj_epoch(a, sizes[i % N_SIZES], epoch_current(a), &handles[i]))
                        return NULL;
        for (uint32_t i = 0; i < 100; i++)
                if (!free_obj(a, handles[i]))
                        return NULL;
        return a;
}

static void short_threads(SlabAllocator *a) {
        pthread_t thread;
        void *ret;

        for (uint32_t i = 0; i < N_SHORT_THREADS; i++) {
                assert_int_equal(pthread_create(&thread, NULL, be_short, a), 0);
                pthread_join(thread, &ret);
                assert_ptr_equal(ret, a);
        }
}

/* The process's own memory (code, these arrays, stacks) is resident at the start. */
static void warm_up(void) {
        SlabAllocator *a = make();

        churn(a);
        cross_epochs(a);
        close_beside_threads(a);
        short_threads(a);
        slab_allocator_free(a);
}

static void test_all_of_it(void **test_state) {
        SlabAllocator *a;
        SlabHandle handle;
        uint64_t start;

        warm_up();
        start = read_rss_bytes_linux();
        a = make();
        churn(a);
        /* Free slabs wait to be taken again: as many as were in use at once. */
        check_rss(start + WINDOW * (uint64_t) sizes[N_SIZES - 1], "after 500,000 in each class");
        cross_epochs(a);
        check_rss(start, "after 20 advances");
        close_beside_threads(a);
        short_threads(a);
        for (EpochId e = 0; e < 16; e++)
                epoch_close(a, e);
        check_rss(start, "at the end");
        assert_null(alloc_obj_epoch(a, 64, epoch_current(a), &handle));
        epoch_advance(a);
        assert_non_null(alloc_obj_epoch(a, 64, epoch_current(a), &handle));
        slab_allocator_free(a);
}

/* 16 MiB of objects leave when their epoch closes after they were freed, and as they are freed after it closed. */
static void test_memory_leaves_on_close(void **test_state) {
        static SlabHandle handles[65536];
        SlabAllocator *a = make();

        for (EpochId e = 0; e < 2; e++) {
                uint64_t start, full;
                void *p;

                assert_non_null(alloc_obj_epoch(a, 256, e, &handles[0]));
                start = read_rss_bytes_linux();
                for (uint32_t i = 1; i < 65536; i++) {
                        p = alloc_obj_epoch(a, 256, e, &handles[i]);
                        assert_non_null(p);
                        memset(p, 1, 256);
                }
                full = read_rss_bytes_linux();
                assert_true(full >= start + (15 << 20));
                if (e == 1)
                        epoch_close(a, e);
                for (uint32_t i = 0; i < 65536; i++)
                        assert_true(free_obj(a, handles[i]));
                if (e == 0)
                        epoch_close(a, e);
                /* 320 bytes of each slab's metadata stay: 1.25 MiB */
                check_rss(start, e == 0 ? "freed, then closed" : "closed, then freed");
        }
        slab_allocator_free(a);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all_of_it), /* first: it looks at resident memory */
                cmocka_unit_test(test_memory_leaves_on_close),
                cmocka_unit_test(test_bad_classes),
                cmocka_unit_test(test_classes),
                cmocka_unit_test(test_environment),
                cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_malloc_call),
                cmocka_unit_test(test_stale),
                cmocka_unit_test(test_epochs),
                cmocka_unit_test(test_labels_and_references),
                cmocka_unit_test(test_storage_of_the_caller),
                cmocka_unit_test(test_no_allocator),
                cmocka_unit_test(test_counters),
                cmocka_unit_test(test_utilities),
                cmocka_unit_test(test_epoch_0_stays_open),
                cmocka_unit_test(test_advances_of_processes),
                cmocka_unit_test(test_malloc_memory),
                cmocka_unit_test(test_slabs_emptied_elsewhere),
                cmocka_unit_test(test_slabs_counted_once),
                cmocka_unit_test(test_epoch_0_closed),
        };

        /* glibc makes more heaps for threads under load, and keeps them: their memory is not the pool's. */
        (void) mallopt(M_ARENA_MAX, 1);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
