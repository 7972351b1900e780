#pragma once
/*
 * temporal-slab's interface on tslab's engine: programs written for it compile and run unchanged,
 * with -ltslab-slab-alloc.
 *
 *      SlabAllocator *a = slab_allocator_create();
 *      SlabHandle handle;
 *      void *object;
 *
 *      object = alloc_obj_epoch(a, 128, epoch_current(a), &handle);
 *      free_obj(a, handle);
 *      epoch_advance(a);
 *      slab_allocator_free(a);
 *
 * An allocator is a private pool, as of tslab_create() in <tslab.h>, with room for 2 GiB. There may be
 * several in a process. Epochs are numbers from 0 to 15, all open at first, 0 the current one; sizes are
 * bytes, up to 768 (see $TSLAB_CLASSES). Objects are aligned to 16 and not zeroed.
 *
 * $TSLAB_SIZE is the room of each allocator, from 4K to 64G (2G), and $TSLAB_RETAIN how much free memory one keeps
 * however long it is not used (416K): numbers of bytes, or with K, M or G. $TSLAB_CLASSES has the size classes in place
 * of temporal-slab's eight: up to 16 sizes that rise, multiples of 16 from 64 to 4080, as 64,128,1024,4080; the last
 * one is then the limit of an object, and 8 less that of slab_malloc_epoch(). Anything else makes no allocator, and a
 * line on stderr says why. A program that runs with more rights than its user does not read them.
 *
 * Epoch 0 is for state that lives long while requests rotate through the others: it stays open to allocation when
 * epoch_advance() leaves it, until epoch_close() names it.
 *
 * Threads: any thread may make any call at any time, but for calls that end an allocator.
 * Fork: the memory of an allocator is shared with forked children, not copied. While one process
 * advances or closes epochs, such calls of other processes wait for it; they have no effect if it is
 * stopped for a second. Nothing here is async-signal-safe or may be called between vfork() and exec.
 *
 * Every call accepts NULL, or an allocator that could not be made: every allocation in it fails.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLAB_PAGE_SIZE 4096u

/* 0 to 15. An id is used again, for a new lifetime, when advancing comes to it. */
typedef uint32_t EpochId;

/* The states of an epoch. */
typedef enum EpochLifecycleState {
        EPOCH_ACTIVE = 0,
        EPOCH_CLOSING = 1,
} EpochLifecycleState;

/* Names a live object of its allocator; 0 is never valid. */
typedef uint64_t SlabHandle;

#define SLAB_EPOCH_COUNT 16u
#define SLAB_LABEL_IDS 16

/* An epoch as the calls of this process know it. */
typedef struct EpochMetadata {
        uint64_t open_since_ns; /* CLOCK_MONOTONIC, at the epoch_advance() that opened it; 0: none did */
        char label[32];
        uint8_t label_id; /* in label_registry; 0: none */
        uint64_t rss_before_close; /* the process's, at epoch_close(); 0: not closed since it was opened */
        uint64_t rss_after_close;
} EpochMetadata;

/* Labels that were set first have ids, from 1. */
typedef struct LabelRegistry {
        char labels[SLAB_LABEL_IDS][32]; /* by id; 0 is "(unlabeled)" */
        uint8_t count; /* with that of id 0 */
} LabelRegistry;

/*
 * Complete so that it can be a variable. Programs may read the members below the line, as temporal-slab's tests do
 * with its internal header. They tell of calls by this process; while such calls run they may be of different moments.
 */
typedef struct SlabAllocator {
        void *state;
        uint64_t reserved[7];
        /* -- */
        uint64_t epoch_era_counter; /* advances so far */
        uint64_t epoch_era[SLAB_EPOCH_COUNT]; /* how many there were when each was opened */
        EpochMetadata epoch_meta[SLAB_EPOCH_COUNT];
        LabelRegistry label_registry;
} SlabAllocator;

/* Counts of one size class in this process; each only rises. */
typedef struct PerfCounters {
        uint64_t slow_path_hits; /* allocations for which the thread had no slot in hand */
        uint64_t new_slab_count; /* slabs that came to be of this class, fresh or emptied by others */
        uint64_t list_move_partial_to_full; /* slabs whose slots were all taken; this engine has no lists */
        uint64_t list_move_full_to_partial; /* such slabs that had a free slot again */
        uint64_t current_partial_null; /* slow allocations that had to take a new slab */
        uint64_t current_partial_full; /* slow allocations that found slots in slabs of this class */
        uint64_t empty_slab_recycled; /* slabs that were emptied, ready for any class and epoch */
        uint64_t empty_slab_overflowed; /* slabs of closed epochs that a free emptied: back to the system */
} PerfCounters;

/*
 * Makes an allocator, which the caller frees with slab_allocator_free(). NULL: no memory, no
 * descriptor, or no 16-byte compare-and-swap in this processor.
 */
SlabAllocator *slab_allocator_create(void);

/* Frees an allocator with all its objects. No other thread may be using it. NULL-safe. */
void slab_allocator_free(SlabAllocator *alloc);

/*
 * Makes an allocator in the caller's storage, which need not be initialised. If that fails, for the reasons of
 * slab_allocator_create(), allocations in it return NULL.
 */
void allocator_init(SlabAllocator *alloc);

/* Ends an allocator that allocator_init() made, with all its objects. No other thread may be using it. NULL-safe. */
void allocator_destroy(SlabAllocator *alloc);

/*
 * Allocates an object of 1 to 768 bytes, the largest class, in an epoch; *out_handle (may be NULL) is its handle. NULL,
 * and *out_handle untouched: another size, no such epoch, the epoch is closed, or no memory.
 */
void *alloc_obj_epoch(SlabAllocator *alloc, uint32_t size, EpochId epoch, SlabHandle *out_handle);

/*
 * Frees an object, which any thread may have allocated, in an epoch that is open or closed. False: the handle
 * names no live object of this allocator: it was freed before, its slot was reused, or it never was one.
 */
bool free_obj(SlabAllocator *alloc, SlabHandle handle);

/*
 * Allocates 1 to 760 bytes in an epoch, to be freed by slab_free(). NULL as alloc_obj_epoch(). 760 is the
 * limit in temporal-slab's header; its code refuses more than 504, and its test_malloc_wrapper.c expects
 * that.
 */
void *slab_malloc_epoch(SlabAllocator *alloc, size_t size, EpochId epoch);

/* Frees an object that slab_malloc_epoch() returned. NULL-safe; an object that was freed before is left alone. */
void slab_free(SlabAllocator *alloc, void *ptr);

/* The current epoch: where allocations are meant to go. 0 without an allocator. */
EpochId epoch_current(SlabAllocator *alloc);

/*
 * Closes the current epoch to allocation, unless it is 0, and makes the next one current, open and with neither label
 * nor references. The objects of both stay valid until they are freed.
 */
void epoch_advance(SlabAllocator *alloc);

/*
 * Closes an epoch to allocation. When the call returns, the memory of its empty slabs has left the
 * resident set; that of others follows as they empty. Where it is the current one, allocation in it
 * gives NULL until epoch_advance(). Waits up to 200 ms for threads that are in the middle of a call.
 */
void epoch_close(SlabAllocator *alloc, EpochId epoch);

/* Labels an epoch for people, in at most 31 bytes of it; goes when the id is opened anew. */
void slab_epoch_set_label(SlabAllocator *alloc, EpochId epoch, const char *label);

/* Counts one more user of an epoch, in this process: see slab_epoch_get_refcount(). */
void slab_epoch_inc_refcount(SlabAllocator *alloc, EpochId epoch);

/* Counts one less; never below 0. */
void slab_epoch_dec_refcount(SlabAllocator *alloc, EpochId epoch);

/* How many users were counted since the id was opened last. It keeps nothing open by itself. */
uint64_t slab_epoch_get_refcount(SlabAllocator *alloc, EpochId epoch);

/*
 * Copies the counters of a size class. The classes are, from 0: 64, 96, 128, 192, 256, 384, 512 and 768
 * bytes, or those of $TSLAB_CLASSES, each with what slab_malloc_epoch() puts into it. Another class has all 0. It looks
 * at all slabs. Beside calls of other threads the figures belong to no single moment.
 */
void get_perf_counters(SlabAllocator *alloc, uint32_t size_class, PerfCounters *out);

/* How many objects of so many bytes a slab holds; 0: not a size for alloc_obj_epoch(). */
uint32_t slab_object_count(uint32_t obj_size);

/* The resident set of this process in bytes, that of allocators included; 0: cannot be read. */
uint64_t read_rss_bytes_linux(void);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t now_ns(void);

#ifdef __cplusplus
}
#endif
