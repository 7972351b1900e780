#pragma once
/* An allocator in this process: its pool, and counts that its users keep. */
#include <slab_alloc.h>

#include "libclient/pool/pool.h"

#define ALLOCATOR_EPOCHS 16
/* The id of the epoch that stands in for epoch 0 once the ring has left it; out of the ring. */
#define ALLOCATOR_STABLE 16
#define ALLOCATOR_SIZE_MAX 768
#define ALLOCATOR_MALLOC_MAX 760
#define ALLOCATOR_HEAD_SIZE 16 /* bytes that tslab_malloc() adds */
/* The classes that programs know. */
#define ALLOCATOR_CLASSES                                                                                    \
        { 64, 96, 128, 192, 256, 384, 512, 768 }
#define ALLOCATOR_N_CLASSES 8
/* The pool's: behind each of these is one for what slab_malloc_epoch() puts into it, with its larger head. */
#define ALLOCATOR_POOL_CLASSES                                                                               \
        { 64, 80, 96, 112, 128, 144, 192, 208, 256, 272, 384, 400, 512, 528, 768, 784 }
#define ALLOCATOR_N_POOL_CLASSES 16

/* Each a sum over this process's threads. */
typedef struct ClassCounters {
        uint64_t slow, slabs, slow_new, emptied, emptied_closed, refused, filled, reopened;
} __attribute__((aligned(64))) ClassCounters;

typedef struct AllocatorState {
        struct tslab *pool;
        uint32_t stable; /* ALLOCATOR_STABLE with its era */
        uint64_t refs[ALLOCATOR_EPOCHS]; /* era 24 | users 40; another era has no users */
        uint64_t n_closes, closes_ns; /* epoch_close() */
        uint64_t recycled_most[ALLOCATOR_N_CLASSES]; /* see find_recycled() */
        ClassCounters classes[ALLOCATOR_N_POOL_CLASSES];
} AllocatorState;

/* The class that programs know of one of the pool's. */
static inline uint32_t allocator_class_known(uint32_t pool_class) {
        return pool_class / 2;
}

/* The size of the class of an object: up to ALLOCATOR_SIZE_MAX. */
static inline uint32_t allocator_size_known(uint32_t size) {
        static const uint32_t sizes[] = ALLOCATOR_CLASSES;
        uint32_t class = 0;

        while (size > sizes[class])
                class ++;
        return sizes[class];
}

/* NULL: there is nothing to be had in it. */
static inline AllocatorState *allocator_state(const SlabAllocator *alloc) {
        return alloc ? (AllocatorState *) alloc->state : NULL;
}

/*
 * The epoch that allocations in epoch 0 go to while 0 itself is closed because the ring has left it: 0, or
 * -ESHUTDOWN if a program closed epoch 0.
 */
int allocator_stable(const AllocatorState *state, uint32_t *ret_number);
/* Closes an epoch; for epoch 0 also the one that stands in for it. */
void allocator_close(AllocatorState *state, uint32_t number);

/* The lifetime that an id is in, open or closed; the id is below ALLOCATOR_EPOCHS. */
uint32_t allocator_era(const AllocatorState *state, EpochId epoch);
