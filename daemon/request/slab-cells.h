#pragma once
/* Counts the uses of slabs by stretches, in slices. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/slab/slab-walk.h"

typedef struct SlabSum {
        uint64_t slabs, slots, taken;
} SlabSum;

/* One stretch. */
typedef struct SlabCell {
        uint32_t places[_SLAB_STATE_N]; /* slabs, without groups that are uncommitted as a whole */
        uint32_t slots, taken;
        uint32_t epochs[SHM_EPOCHS_MAX]; /* slabs that hold objects, or are kept for objects */
        uint32_t classes[SHM_CLASSES_MAX];
} SlabCell;

typedef struct SlabCells {
        uint32_t n_slabs; /* slabs that had ever been committed when the walk began */
        uint32_t slabs_per_cell;
        ShmSlabWalk walk; /* to the end of the current cell */
        SlabCell cell; /* the current one */
        SlabSum epochs[SHM_EPOCHS_MAX], classes[SHM_CLASSES_MAX];
} SlabCells;

/* Chooses the smallest stretches that make at most `n_cells` of them. n_cells is not 0. */
void slab_cells_init(SlabCells *cells, const ShmArena *arena, uint32_t n_cells);

/* For *budget see shm/slab/slab-walk.h. True: cells->cell is complete. Use it, then call slab_cells_next(). */
bool slab_cells_step(SlabCells *cells, const ShmArena *arena, uint32_t *budget);
void slab_cells_next(SlabCells *cells);
bool slab_cells_done(const SlabCells *cells);
