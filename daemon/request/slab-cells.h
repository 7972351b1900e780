#pragma once
/* What stretches of slabs are used for, in slices. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/slab/slab-walk.h"

typedef struct SlabSum {
        uint64_t slabs, slots, taken;
} SlabSum;

/* One stretch. */
typedef struct SlabCell {
        uint32_t places[_SLAB_PLACE_N]; /* slabs, but for groups that are uncommitted whole */
        uint32_t slots, taken;
        uint32_t epochs[SHM_EPOCHS_MAX]; /* slabs that hold objects, or are kept for them */
        uint32_t classes[SHM_CLASSES_MAX];
} SlabCell;

typedef struct SlabCells {
        uint32_t n_slabs; /* to look at: those that were ever committed when it began */
        uint32_t slabs_per_cell;
        ShmSlabWalk walk; /* to the end of the cell in the making */
        SlabCell cell; /* in the making */
        SlabSum epochs[SHM_EPOCHS_MAX], classes[SHM_CLASSES_MAX];
} SlabCells;

/* Stretches as small as they can be for no more than `n_cells` of them, which is not 0. */
void slab_cells_init(SlabCells *cells, const ShmArena *arena, uint32_t n_cells);

/* For *budget see shm/slab/slab-walk.h. True: cells->cell is whole; take it, and call slab_cells_next(). */
bool slab_cells_step(SlabCells *cells, const ShmArena *arena, uint32_t *budget);
void slab_cells_next(SlabCells *cells);
bool slab_cells_done(const SlabCells *cells);
