#pragma once
/* The geometry with which a pool is made, and the offsets of all parts of its arena, which follow from it alone. */
#include <stdint.h>

#include "shm/format/layout-record.h"
#include "shm/format/layout.h"

#define SHM_GRANULES_MAX (SHM_CLASS_SIZE_MAX / SHM_CLASS_GRANULE)

typedef struct ShmGeometry {
        uint64_t slabs_size; /* bytes of slabs, a multiple of SHM_SLAB_SIZE */
        uint32_t n_records; /* including record 0, the daemon's */
        uint32_t n_epochs;
        uint32_t n_classes;
        uint32_t class_size[SHM_CLASSES_MAX];
} ShmGeometry;

#define SHM_SET_LEVELS_MAX 4

/* The last sets are of maps, one for each: slab words do not tell of them. Those that no map has take no memory. */
#define SHM_SET_MAPS 256U

/* Offsets of the levels of a slab set, in words from its start; level 0 is the root. */
typedef struct ShmSetShape {
        uint32_t n_levels;
        uint32_t level_off[SHM_SET_LEVELS_MAX];
        uint32_t level_words[SHM_SET_LEVELS_MAX];
        uint64_t stride; /* words from one set to the next */
} ShmSetShape;

/* Words of the marks of groups that changed: whole cache lines, beside the first sets. See shm/slab/changed.h. */
static inline uint64_t shm_changed_words(uint32_t n_slabs) {
        uint64_t n_groups = ((uint64_t) n_slabs + SHM_CHANGED_SLABS - 1) / SHM_CHANGED_SLABS;

        return (n_groups + 511) / 512 * 8;
}

/* Offsets of the parts of the arena, in bytes from its start. */
typedef struct ShmOffsets {
        uint64_t clients, heads, records, changed, sets, lines, tags, shortcuts, slabs, total;
        uint64_t record_stride;
        ShmSetShape shape;
} ShmOffsets;

/*
 * Each is the largest multiple of 16 of which a page holds so many. None is larger than the one before by more than a
 * quarter, up to 816 bytes. A class that nobody uses takes no memory.
 */
#define SHM_CLASSES_DEFAULT                                                                                  \
        {                                                                                                    \
                64, 80, 96, 112, 128, 144, 160, 192, 224, 256, 304, 336, 368, 400, 448, 512, 576, 672, 816,  \
                        1024, 1360, 2048, 4096                                                               \
        }
#define SHM_N_CLASSES_DEFAULT ((uint32_t) (sizeof((uint32_t[]) SHM_CLASSES_DEFAULT) / sizeof(uint32_t)))
#define SHM_SIZE_DEFAULT (UINT64_C(256) << 20)
#define SHM_N_THREADS_DEFAULT 1024
#define SHM_N_EPOCHS_DEFAULT 16
#define SHM_RETAIN_DEFAULT (UINT64_C(16) << 20)

/* 0, or -EINVAL with *ret_why set to a sentence that tells the error. */
int shm_geometry_check(const ShmGeometry *geometry, const char **ret_why);

/* Computes the offsets for a geometry that shm_geometry_check() accepted. */
void shm_geometry_offsets(const ShmGeometry *geometry, ShmOffsets *ret);

/* Computes the levels of a set over n_slabs slabs. */
void shm_set_shape_init(ShmSetShape *shape, uint32_t n_slabs);
