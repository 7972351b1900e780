#pragma once
/*
 * The names of temporal-slab's internal header that its tests and tools use beside the public ones. Nothing of its
 * structure is here: struct SlabAllocator is the one of <slab_alloc.h>.
 */
#include <pthread.h>
#include <stdatomic.h>

#include <slab_alloc.h>

#define EPOCH_COUNT SLAB_EPOCH_COUNT
#define MAX_LABEL_IDS SLAB_LABEL_IDS
