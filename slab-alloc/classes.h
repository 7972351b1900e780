#pragma once
/*
 * The size classes of an allocator: those that programs know, and those of its pool. Behind each of the former there is
 * one for what slab_malloc_epoch() puts into it, with its larger head.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/geometry.h"

#define ALLOCATOR_CLASSES                                                                                    \
        { 64, 96, 128, 192, 256, 384, 512, 768 }
#define ALLOCATOR_N_CLASSES 8
#define ALLOCATOR_CLASSES_MAX 16
#define ALLOCATOR_POOL_CLASSES_MAX (2 * ALLOCATOR_CLASSES_MAX)
#define ALLOCATOR_HEAD_SIZE 16 /* bytes that tslab_malloc() adds */
#define ALLOCATOR_HEAD_KNOWN 8 /* bytes that temporal-slab adds: so much less than a class fits one */
#define ALLOCATOR_CLASS_MAX (SHM_CLASS_SIZE_MAX - ALLOCATOR_HEAD_SIZE)
static_assert(ALLOCATOR_POOL_CLASSES_MAX <= SHM_CLASSES_MAX, "a pool has as many classes");

typedef struct AllocatorClasses {
        uint32_t n, n_pool;
        uint32_t sizes[ALLOCATOR_CLASSES_MAX];
        uint32_t pool_sizes[ALLOCATOR_POOL_CLASSES_MAX];
        uint8_t known[SHM_CLASSES_MAX]; /* by the pool's class: the class that programs know */
        uint16_t size_of[SHM_GRANULES_MAX]; /* by (size - 1) / SHM_CLASS_GRANULE: the size of the class */
} AllocatorClasses;

/* The classes of $TSLAB_CLASSES, or temporal-slab's. False: the variable is no list of classes. */
bool classes_read(AllocatorClasses *classes);

static inline uint32_t classes_size_max(const AllocatorClasses *classes) {
        return classes->sizes[classes->n - 1];
}

/* The size of the class of an object: from 1 to classes_size_max(). */
static inline uint32_t classes_size_of(const AllocatorClasses *classes, uint32_t size) {
        return classes->size_of[(size - 1) / SHM_CLASS_GRANULE];
}
