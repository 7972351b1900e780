#pragma once
/* An allocator in this process: its pool, and counts that its users keep. */
#include <slab_alloc.h>

#include "libclient/pool/pool.h"
#include "slab-alloc/classes.h"

#define ALLOCATOR_EPOCHS 16
/* The id of the epoch that stands in for epoch 0 once the ring has left it; out of the ring. */
#define ALLOCATOR_STABLE 16
/* Each a sum over this process's threads. */
typedef struct ClassCounters {
        uint64_t slow, slabs, slow_new, emptied, emptied_closed, refused, filled, reopened;
} __attribute__((aligned(64))) ClassCounters;

typedef struct AllocatorState {
        struct tslab *pool;
        uint32_t stable; /* ALLOCATOR_STABLE with its era */
        uint64_t refs[ALLOCATOR_EPOCHS]; /* era 24 | users 40; another era has no users */
        uint64_t n_closes, closes_ns; /* epoch_close() */
        uint64_t recycled_most[ALLOCATOR_CLASSES_MAX]; /* see find_recycled() */
        AllocatorClasses classes;
        ClassCounters counters[ALLOCATOR_POOL_CLASSES_MAX]; /* by the pool's class */
} AllocatorState;

/* The class that programs know of one of the pool's. */
static inline uint32_t allocator_class_known(const AllocatorState *state, uint32_t pool_class) {
        return state->classes.known[pool_class];
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
