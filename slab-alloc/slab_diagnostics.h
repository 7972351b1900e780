#pragma once
/*
 * temporal-slab's diagnostics: figures of <slab_stats.h>, arranged so that they give advice. All calls may be made by
 * any thread, and take NULL for an empty allocator. Where there is no memory for a report it is empty, and its array
 * NULL.
 */
#include <stdbool.h>
#include <stdint.h>

#include <slab_alloc.h>
#include <slab_stats.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLAB_DIAGNOSTICS_VERSION 1

/* A closed epoch that holds objects of a class. Members as in SlabEpochStats. */
typedef struct EpochLeakCandidate {
        uint32_t class_index;
        uint32_t object_size;
        EpochId epoch_id;
        uint64_t epoch_era;
        char label[32];

        uint64_t age_sec; /* since the epoch was opened */
        uint64_t alloc_count;
        uint64_t estimated_rss_bytes;

        uint32_t partial_slab_count;
        uint32_t full_slab_count;
        uint32_t reclaimable_slab_count;
} EpochLeakCandidate;

typedef struct EpochLeakReport {
        uint32_t version; /* SLAB_DIAGNOSTICS_VERSION */
        uint32_t threshold_sec;
        uint32_t candidate_count;
        uint32_t top_count; /* in candidates[] */
        EpochLeakCandidate *candidates; /* by memory, most first; for free() */
} EpochLeakReport;

/*
 * Finds classes of epochs that epoch_advance() opened here at least `threshold_sec` ago, that are closed, and that hold
 * objects: how many.
 */
uint32_t slab_detect_epoch_leaks(SlabAllocator *alloc, uint32_t threshold_sec, uint32_t max_top,
                                 EpochLeakReport *out);

/* Why allocations of a class were slow, or refused. */
typedef struct SlowPathAttribution {
        uint32_t class_index;
        uint32_t object_size;

        uint64_t total_slow_path_hits;
        uint64_t cache_miss_count; /* had to take a new slab */
        uint64_t epoch_closed_count; /* refused: the epoch is closed */
        uint64_t partial_null_count; /* 0: a slab is new, or has slots */
        uint64_t partial_full_count; /* found slots in slabs of the class */

        /* Shares of the slow and the refused together. */
        double cache_miss_pct;
        double epoch_closed_pct;
        double partial_null_pct;
        double partial_full_pct;

        char recommendation[128];
} SlowPathAttribution;

typedef struct SlowPathReport {
        uint32_t version;
        uint32_t class_count; /* 8, or as many as $TSLAB_CLASSES has */
        SlowPathAttribution *classes; /* for free() */
} SlowPathReport;

/* Says why allocations of each class were slow or refused, in this process. */
void slab_analyze_slow_path(SlabAllocator *alloc, SlowPathReport *out);

/* The memory that closing an epoch gave back. */
typedef struct EpochReclamation {
        uint32_t class_index; /* 0: slabs that go back are of no class */
        EpochId epoch_id;
        uint64_t epoch_era;

        uint64_t slabs_recycled; /* that gave their memory back, of this lifetime so far */
        uint64_t bytes_madvised;
        uint64_t rss_before; /* the process's, at epoch_close() */
        uint64_t rss_after;
        int64_t rss_delta; /* after less before */

        char label[32];
        bool was_closed;
} EpochReclamation;

typedef struct ReclamationReport {
        uint32_t version;
        uint64_t total_madvise_calls;
        uint64_t total_madvise_bytes;
        uint64_t total_madvise_failures;
        uint32_t epoch_count;
        EpochReclamation *epochs; /* each epoch that was closed by epoch_close() here; for free() */
} ReclamationReport;

/* Says how much memory closing gave back, for each epoch. */
void slab_analyze_reclamation(SlabAllocator *alloc, ReclamationReport *out);

#ifdef __cplusplus
}
#endif
