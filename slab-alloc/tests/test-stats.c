/* <slab_stats.h>, <slab_diagnostics.h> and the members of struct SlabAllocator that programs read. */
#include <slab_diagnostics.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/util/test.h"

static int setup(void **state) {
        SlabAllocator *a = slab_allocator_create();

        *state = a;
        return a ? 0 : -1;
}

static int teardown(void **state) {
        slab_allocator_free(*state);
        return 0;
}

static SlabEpochStats epoch_of(SlabAllocator *a, uint32_t class, EpochId epoch) {
        SlabEpochStats stats;

        memset(&stats, 0xa5, sizeof(stats));
        slab_stats_epoch(a, class, epoch, &stats);
        assert_int_equal(stats.version, SLAB_STATS_VERSION);
        return stats;
}

static SlabClassStats class_of(SlabAllocator *a, uint32_t class) {
        SlabClassStats stats;

        memset(&stats, 0xa5, sizeof(stats));
        slab_stats_class(a, class, &stats);
        assert_int_equal(stats.version, SLAB_STATS_VERSION);
        return stats;
}

static SlabGlobalStats global_of(SlabAllocator *a) {
        SlabGlobalStats stats;

        memset(&stats, 0xa5, sizeof(stats));
        slab_stats_global(a, &stats);
        assert_int_equal(stats.version, SLAB_STATS_VERSION);
        return stats;
}

static void test_epoch_counts(void **state) {
        SlabAllocator *a = *state;
        SlabHandle here[100], there[7];

        for (int i = 0; i < 100; i++)
                assert_non_null(alloc_obj_epoch(a, 128, 1, &here[i]));
        for (int i = 0; i < 7; i++)
                assert_non_null(alloc_obj_epoch(a, 64, 2, &there[i]));
        assert_int_equal(epoch_of(a, 2, 1).alloc_count, 100);
        assert_int_equal(epoch_of(a, 2, 1).object_size, 128);
        assert_int_equal(epoch_of(a, 0, 1).alloc_count, 0);
        assert_int_equal(epoch_of(a, 0, 2).alloc_count, 7);
        assert_true(epoch_of(a, 2, 1).partial_slab_count + epoch_of(a, 2, 1).full_slab_count >= 4);
        for (int i = 0; i < 100; i++)
                assert_true(free_obj(a, here[i]));
        assert_int_equal(epoch_of(a, 2, 1).alloc_count, 0);
        for (int i = 0; i < 7; i++)
                assert_true(free_obj(a, there[i]));
}

/* All that programs allocated in epoch 0, also after the ring left it. */
static void test_epoch_0(void **state) {
        SlabAllocator *a = *state;

        assert_non_null(alloc_obj_epoch(a, 64, 0, NULL));
        epoch_advance(a);
        assert_int_equal(epoch_of(a, 0, 0).state, EPOCH_ACTIVE);
        assert_non_null(alloc_obj_epoch(a, 64, 0, NULL));
        assert_int_equal(epoch_of(a, 0, 0).alloc_count, 2);
        assert_int_equal(epoch_of(a, 0, 1).alloc_count, 0);
        epoch_close(a, 0);
        assert_int_equal(epoch_of(a, 0, 0).state, EPOCH_CLOSING);
        assert_int_equal(epoch_of(a, 0, 0).alloc_count, 2);
}

static void test_epoch_metadata(void **state) {
        SlabAllocator *a = *state;
        uint64_t before;

        assert_int_equal(epoch_of(a, 0, 0).open_since_ns, 0);
        for (unsigned i = 1; i <= 40; i++) {
                before = now_ns();
                epoch_advance(a);
                assert_true(epoch_of(a, 0, i % 16).open_since_ns >= before);
                assert_true(epoch_of(a, 0, i % 16).open_since_ns <= now_ns());
                assert_int_equal(epoch_of(a, 0, i % 16).epoch_era, i);
                assert_int_equal(a->epoch_era[i % 16], i);
                assert_int_equal(a->epoch_era_counter, i);
        }
        slab_epoch_set_label(a, 8, "requests");
        assert_string_equal(epoch_of(a, 0, 8).label, "requests");
        assert_string_equal(a->epoch_meta[8].label, "requests");
        for (unsigned i = 0; i < 16; i++)
                epoch_advance(a);
        assert_string_equal(epoch_of(a, 0, 8).label, "");
        assert_string_equal(a->epoch_meta[8].label, "");
}

static void test_label_ids(void **state) {
        SlabAllocator *a = *state;
        char label[] = "label A";

        assert_int_equal(a->label_registry.count, 1);
        assert_string_equal(a->label_registry.labels[0], "(unlabeled)");
        for (unsigned i = 1; i < 20; i++) {
                label[6] = (char) ('A' + i);
                slab_epoch_set_label(a, 3, label);
                assert_int_equal(a->epoch_meta[3].label_id, i < 16 ? i : 0);
        }
        slab_epoch_set_label(a, 4, "label C");
        assert_int_equal(a->epoch_meta[4].label_id, 2);
        slab_epoch_set_label(a, 4, NULL);
        assert_int_equal(a->epoch_meta[4].label_id, 0);
        assert_int_equal(a->label_registry.count, 16);
}

typedef struct Labels {
        SlabAllocator *allocator;
        EpochId epoch;
        unsigned n_lost;
} Labels;

static void *set_labels(void *argument) {
        Labels *labels = argument;
        const char *label = labels->allocator->epoch_meta[labels->epoch].label;
        char text[] = "label A";

        for (unsigned i = 0; i < 100000; i++) {
                text[6] = (char) ('A' + i % 5);
                slab_epoch_set_label(labels->allocator, labels->epoch, text);
                labels->n_lost += strcmp(label, text) != 0;
        }
        return NULL;
}

static void test_labels_of_threads(void **state) {
        pthread_t threads[4];
        Labels labels[4];

        for (unsigned i = 0; i < 4; i++) {
                labels[i] = (Labels){ .allocator = *state, .epoch = i + 1 };
                assert_int_equal(pthread_create(&threads[i], NULL, set_labels, &labels[i]), 0);
        }
        for (unsigned i = 0; i < 4; i++) {
                assert_int_equal(pthread_join(threads[i], NULL), 0);
                assert_int_equal(labels[i].n_lost, 0);
        }
}

static void test_close(void **state) {
        SlabAllocator *a = *state;
        SlabHandle handles[1000];

        for (int i = 0; i < 1000; i++)
                assert_non_null(alloc_obj_epoch(a, 768, 1, &handles[i]));
        for (int i = 0; i < 1000; i++)
                assert_true(free_obj(a, handles[i]));
        assert_int_equal(epoch_of(a, 0, 1).rss_before_close, 0);
        epoch_close(a, 1);
        assert_true(epoch_of(a, 0, 1).rss_before_close > 0 && epoch_of(a, 0, 1).rss_after_close > 0);
        assert_int_equal(class_of(a, 7).epoch_close_calls, 1);
        assert_true(class_of(a, 7).epoch_close_total_ns > 0);
        assert_null(alloc_obj_epoch(a, 128, 1, NULL));
        assert_null(slab_malloc_epoch(a, 100, 1));
        assert_int_equal(class_of(a, 2).slow_path_epoch_closed, 2);
        assert_int_equal(global_of(a).total_slow_epoch_closed, 2);
        assert_true(global_of(a).total_madvise_bytes > 0);
        epoch_advance(a);
        assert_int_equal(epoch_of(a, 0, 1).rss_before_close, 0);
}

static void test_class(void **state) {
        SlabAllocator *a = *state;
        SlabClassStats stats;
        void *large;

        for (int i = 0; i < 64; i++)
                assert_non_null(alloc_obj_epoch(a, 64, 0, NULL));
        stats = class_of(a, 0);
        assert_int_equal(stats.object_size, 64);
        assert_int_equal(stats.live_bytes, 64 * 64);
        assert_true(stats.committed_bytes >= SLAB_PAGE_SIZE && stats.committed_bytes % SLAB_PAGE_SIZE == 0);
        assert_int_equal(stats.net_slabs, stats.total_partial_slabs + stats.total_full_slabs);
        assert_true(stats.slow_path_hits > 0);
        large = slab_malloc_epoch(a, 760, 0); /* its class is one that programs do not know */
        assert_non_null(large);
        assert_int_equal(class_of(a, 7).live_bytes, 768);
        slab_free(a, large);
        assert_int_equal(class_of(a, 7).live_bytes, 0);
}

static void test_global(void **state) {
        SlabAllocator *a = *state;
        SlabGlobalStats stats = global_of(a);

        assert_int_equal(stats.active_epoch_count, 16);
        assert_true(stats.rss_bytes_current > 0);
        for (int i = 0; i < 100; i++)
                assert_non_null(alloc_obj_epoch(a, 256, 0, NULL));
        epoch_advance(a);
        epoch_advance(a);
        stats = global_of(a);
        assert_int_equal(stats.current_epoch, 2);
        assert_int_equal(stats.active_epoch_count, 15);
        assert_int_equal(stats.closing_epoch_count, 1);
        assert_int_equal(stats.total_bitmap_alloc_attempts, 100);
        assert_true(stats.net_slabs >= 100 / 16 && stats.total_slabs_allocated >= stats.net_slabs);
        assert_true(stats.estimated_slab_rss_bytes >= stats.net_slabs * SLAB_PAGE_SIZE);
}

/* The text that tls_print_stats() prints. */
static void printed(char *text, size_t size) {
        FILE *file = tmpfile();
        int out = dup(STDOUT_FILENO);
        size_t n;

        assert_non_null(file);
        (void) fflush(stdout);
        assert_true(dup2(fileno(file), STDOUT_FILENO) == STDOUT_FILENO);
        tls_print_stats();
        (void) fflush(stdout);
        assert_true(dup2(out, STDOUT_FILENO) == STDOUT_FILENO);
        (void) close(out);
        rewind(file);
        n = fread(text, 1, size - 1, file);
        text[n] = '\0';
        (void) fclose(file);
}

static void test_print(void **state) {
        SlabAllocator *a = *state, *b = slab_allocator_create();
        SlabHandle handle;
        char text[1024];

        for (int i = 0; i < 100; i++)
                assert_non_null(alloc_obj_epoch(a, 256, 0, &handle));
        assert_true(free_obj(a, handle));
        printed(text, sizeof(text));
        assert_non_null(strstr(text, "  allocations 100: from a cache "));
        assert_non_null(strstr(text, "  frees 1: into a cache "));
        assert_non_null(strstr(text, "  allocations 0: from a cache 0, past it 0; refills 0\n"));
        slab_allocator_free(b);
        printed(text, sizeof(text));
        assert_non_null(strstr(text, "  allocations 100: from a cache "));
        assert_null(strstr(text, "  allocations 0: "));
}

static void test_leaks(void **state) {
        SlabAllocator *a = *state;
        EpochLeakReport report;

        epoch_advance(a);
        for (int i = 0; i < 50; i++)
                assert_non_null(alloc_obj_epoch(a, 128, 1, NULL));
        assert_non_null(alloc_obj_epoch(a, 64, 1, NULL));
        slab_epoch_set_label(a, 1, "leaky");
        assert_int_equal(slab_detect_epoch_leaks(a, 0, 10, &report), 0);
        free(report.candidates);
        epoch_close(a, 1);
        assert_int_equal(slab_detect_epoch_leaks(a, 3600, 10, &report), 0);
        free(report.candidates);
        assert_int_equal(slab_detect_epoch_leaks(a, 0, 1, &report), 2);
        assert_int_equal(report.candidate_count, 2);
        assert_int_equal(report.top_count, 1);
        assert_int_equal(report.candidates[0].object_size, 128); /* has more memory */
        assert_int_equal(report.candidates[0].alloc_count, 50);
        assert_string_equal(report.candidates[0].label, "leaky");
        free(report.candidates);
}

/* Nobody knows its age in this process; it is not that of the machine. */
static void test_no_leaks_of_epochs_open_from_the_beginning(void **state) {
        SlabAllocator *a = *state;
        EpochLeakReport report;

        assert_non_null(alloc_obj_epoch(a, 128, 3, NULL));
        epoch_close(a, 3);
        for (uint32_t seconds = 0; seconds <= 1; seconds++) {
                assert_int_equal(slab_detect_epoch_leaks(a, seconds, 10, &report), 0);
                free(report.candidates);
        }
}

static void test_slow_path(void **state) {
        SlabAllocator *a = *state;
        const SlowPathAttribution *c;
        SlowPathReport report;

        for (int i = 0; i < 1000; i++)
                assert_non_null(alloc_obj_epoch(a, 128, 1, NULL));
        epoch_close(a, 1);
        assert_null(alloc_obj_epoch(a, 128, 1, NULL));
        slab_analyze_slow_path(a, &report);
        assert_int_equal(report.class_count, 8);
        c = &report.classes[2];
        assert_true(c->total_slow_path_hits > 0);
        assert_int_equal(c->epoch_closed_count, 1);
        assert_true(c->cache_miss_pct + c->epoch_closed_pct + c->partial_null_pct + c->partial_full_pct >
                    99.9);
        assert_true(c->cache_miss_pct + c->epoch_closed_pct + c->partial_null_pct + c->partial_full_pct <
                    100.1);
        assert_true(strlen(c->recommendation) > 0);
        assert_int_equal(report.classes[5].total_slow_path_hits, 0);
        free(report.classes);
}

static void test_reclamation(void **state) {
        SlabAllocator *a = *state;
        SlabHandle handles[1000];
        ReclamationReport report;

        for (int i = 0; i < 1000; i++)
                assert_non_null(alloc_obj_epoch(a, 768, 1, &handles[i]));
        for (int i = 0; i < 1000; i++)
                assert_true(free_obj(a, handles[i]));
        epoch_close(a, 1);
        slab_analyze_reclamation(a, &report);
        assert_int_equal(report.epoch_count, 1);
        assert_int_equal(report.epochs[0].epoch_id, 1);
        assert_true(report.epochs[0].was_closed);
        assert_int_equal(report.epochs[0].rss_delta,
                         (int64_t) (report.epochs[0].rss_after - report.epochs[0].rss_before));
        assert_true(report.total_madvise_bytes >= report.epochs[0].bytes_madvised);
        free(report.epochs);
}

static void test_nothing(void **state) {
        EpochLeakReport leaks;
        SlowPathReport slow;
        ReclamationReport reclamation;

        assert_int_equal(global_of(NULL).net_slabs, 0);
        assert_int_equal(class_of(NULL, 0).object_size, 0);
        assert_int_equal(class_of(*state, 8).object_size, 0);
        assert_int_equal(epoch_of(NULL, 0, 0).object_size, 0);
        assert_int_equal(epoch_of(*state, 8, 0).object_size, 0);
        assert_int_equal(epoch_of(*state, 0, 16).object_size, 0);
        assert_int_equal(slab_detect_epoch_leaks(NULL, 0, 10, &leaks), 0);
        assert_null(leaks.candidates);
        slab_analyze_slow_path(NULL, &slow);
        free(slow.classes);
        slab_analyze_reclamation(NULL, &reclamation);
        assert_int_equal(reclamation.epoch_count, 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_epoch_counts, setup, teardown),
                cmocka_unit_test_setup_teardown(test_epoch_0, setup, teardown),
                cmocka_unit_test_setup_teardown(test_epoch_metadata, setup, teardown),
                cmocka_unit_test_setup_teardown(test_label_ids, setup, teardown),
                cmocka_unit_test_setup_teardown(test_labels_of_threads, setup, teardown),
                cmocka_unit_test_setup_teardown(test_close, setup, teardown),
                cmocka_unit_test_setup_teardown(test_class, setup, teardown),
                cmocka_unit_test_setup_teardown(test_global, setup, teardown),
                cmocka_unit_test_setup_teardown(test_print, setup, teardown),
                cmocka_unit_test_setup_teardown(test_leaks, setup, teardown),
                cmocka_unit_test_setup_teardown(test_no_leaks_of_epochs_open_from_the_beginning, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(test_slow_path, setup, teardown),
                cmocka_unit_test_setup_teardown(test_reclamation, setup, teardown),
                cmocka_unit_test_setup_teardown(test_nothing, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
