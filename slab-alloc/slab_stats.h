#pragma once
/*
 * temporal-slab's statistics, as far as this engine can answer: programs that read them compile and run.
 *
 * Figures without a counterpart are 0: lists that slabs are moved between, retries of compare-and-set, contended locks,
 * the mode in which bitmaps are scanned. Each call walks through the allocator's slabs in use, some milliseconds for a
 * GiB; beside other threads' calls the figures are of no single moment. Any thread may make any call. NULL,
 * or an allocator that could not be made, counts as an empty one. Every call fills *out.
 *
 * Slow-path sampling (ENABLE_SLOWPATH_SAMPLING) is not offered: see tslab_thread_stats() in <tslab.h>.
 */
#include <stdint.h>
#include <time.h>

#include <slab_alloc.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLAB_STATS_VERSION 2

/* The whole allocator. */
typedef struct SlabGlobalStats {
        uint32_t version; /* SLAB_STATS_VERSION */

        uint32_t current_epoch;
        uint32_t active_epoch_count; /* open to allocation */
        uint32_t closing_epoch_count;

        uint64_t total_slabs_allocated; /* slabs that came to be of a class, in this process */
        uint64_t total_slabs_recycled; /* slabs that a free emptied, in this process */
        uint64_t net_slabs; /* slabs in use now, by all processes */

        uint64_t rss_bytes_current; /* read_rss_bytes_linux() */
        uint64_t estimated_slab_rss_bytes; /* memory of slabs, in use or kept for allocations to come */

        uint64_t total_slow_path_hits;
        uint64_t total_cache_overflows; /* slabs of closed epochs that a free emptied */

        uint64_t total_slow_cache_miss; /* slow calls that had to take a new slab */
        uint64_t total_slow_epoch_closed; /* refused: the epoch is closed */

        uint64_t total_madvise_calls; /* slabs whose memory went back; runs of them take one system call */
        uint64_t total_madvise_bytes;
        uint64_t total_madvise_failures; /* 0 */

        uint64_t total_bitmap_alloc_cas_retries; /* 0 */
        uint64_t total_bitmap_free_cas_retries; /* 0 */
        uint64_t total_current_partial_cas_failures; /* 0 */
        uint64_t total_bitmap_alloc_attempts; /* allocations */
        uint64_t total_bitmap_free_attempts; /* frees */
        uint64_t total_current_partial_cas_attempts; /* 0 */
} SlabGlobalStats;

/* One size class. */
typedef struct SlabClassStats {
        uint32_t version;
        uint32_t class_index; /* 0 to 7 */
        uint32_t object_size;

        /* As PerfCounters. */
        uint64_t slow_path_hits;
        uint64_t new_slab_count;
        uint64_t list_move_partial_to_full;
        uint64_t list_move_full_to_partial;
        uint64_t current_partial_null;
        uint64_t current_partial_full;
        uint64_t empty_slab_recycled;
        uint64_t empty_slab_overflowed;

        uint64_t slow_path_cache_miss; /* as current_partial_null */
        uint64_t slow_path_epoch_closed;

        uint64_t madvise_calls; /* 0: slabs that go back are of no class; see SlabGlobalStats */
        uint64_t madvise_bytes; /* 0 */
        uint64_t madvise_failures; /* 0 */

        uint64_t epoch_close_calls; /* epoch_close(), for epochs with objects of any class */
        uint64_t epoch_close_scanned_slabs; /* 0 */
        uint64_t epoch_close_recycled_slabs; /* 0 */
        uint64_t epoch_close_total_ns;

        uint64_t bitmap_alloc_cas_retries; /* 0 */
        uint64_t bitmap_free_cas_retries; /* 0 */
        uint64_t current_partial_cas_failures; /* 0 */
        uint64_t bitmap_alloc_attempts; /* 0: allocations are counted for all classes together */
        uint64_t bitmap_free_attempts; /* 0 */
        uint64_t current_partial_cas_attempts; /* 0 */

        uint64_t lock_fast_acquire; /* 0: there are no locks */
        uint64_t lock_contended; /* 0 */

        uint32_t scan_adapt_checks; /* 0 */
        uint32_t scan_adapt_switches; /* 0 */
        uint32_t scan_mode; /* 0 */

        uint64_t committed_bytes; /* the slabs of this class */
        uint64_t live_bytes; /* live objects, each as large as the class */
        uint64_t empty_slabs_count; /* 0: a slab that empties is of no class any more */

        double avg_alloc_cas_retries_per_attempt; /* 0 */
        double avg_free_cas_retries_per_attempt; /* 0 */
        double current_partial_cas_failure_rate; /* 0 */
        double lock_contention_rate; /* 0 */

#ifdef ENABLE_LABEL_CONTENTION
#error "this engine has no contention to attribute to labels"
#endif

        uint32_t cache_size; /* free slabs that keep their memory, for any class */
        uint32_t cache_capacity; /* how many may */
        uint32_t cache_overflow_len; /* 0 */

        uint32_t total_partial_slabs; /* with a slot that is neither live nor held by a thread */
        uint32_t total_full_slabs;

        double recycle_rate_pct; /* the share of open epochs in all slabs that were emptied */
        uint64_t net_slabs; /* partial and full */
        uint64_t estimated_rss_bytes; /* these slabs' */
} SlabClassStats;

/* One epoch within a size class, with the rest of its earlier lifetimes. Epoch 0: all that was allocated in it. */
typedef struct SlabEpochStats {
        uint32_t version;
        uint32_t class_index; /* 0 to 7 */
        uint32_t object_size;
        EpochId epoch_id;
        uint64_t epoch_era; /* how many advances there had been when it was opened */
        EpochLifecycleState state;

        uint64_t open_since_ns; /* CLOCK_MONOTONIC; 0: not opened by epoch_advance() in this process */
        uint64_t alloc_count; /* live objects of this class */
        char label[32];

        uint64_t rss_before_close; /* this process's, at the last epoch_close(); 0: not closed since opened */
        uint64_t rss_after_close;

        uint32_t partial_slab_count;
        uint32_t full_slab_count;
        uint64_t estimated_rss_bytes; /* these slabs' */

        uint32_t reclaimable_slab_count; /* 0: a slab that empties is of no epoch any more */
        uint64_t reclaimable_bytes; /* 0 */
} SlabEpochStats;

/* Counts the whole allocator. */
void slab_stats_global(SlabAllocator *alloc, SlabGlobalStats *out);

/*
 * Prints on stdout the counts of the threads' caches, by allocator. An allocator that was made while 16 others were
 * there is not printed. The counts are of all processes that share one. No other thread may be ending an allocator.
 */
void tls_print_stats(void);

/* Counts a class. Another one than 0 to 7: all 0, but for the version. */
void slab_stats_class(SlabAllocator *alloc, uint32_t size_class, SlabClassStats *out);

/* Counts an epoch in a class. Another class than 0 to 7, or epoch than 0 to 15: all 0, but for the version. */
void slab_stats_epoch(SlabAllocator *alloc, uint32_t size_class, EpochId epoch, SlabEpochStats *out);

#ifdef __cplusplus
}
#endif
