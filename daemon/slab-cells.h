#pragma once
/* What stretches of slabs are used for, in slices. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena.h"
#include "shm/slab-word.h"

typedef struct SlabSum {
        uint64_t slabs, slots, taken;
} SlabSum;

/* One stretch. */
typedef struct SlabCell {
        uint32_t places[_SLAB_PLACE_N]; /* slabs */
        uint32_t slots, taken;
        uint32_t epochs[SHM_EPOCHS_MAX]; /* slabs that hold objects, or are kept for them */
        uint32_t classes[SHM_CLASSES_MAX];
} SlabCell;

typedef struct SlabCells {
        uint32_t n_slabs; /* to look at: those that were ever committed when it began */
        uint32_t slabs_per_cell;
        uint32_t position; /* slab to look at next */
        SlabCell cell; /* in the making */
        SlabSum epochs[SHM_EPOCHS_MAX], classes[SHM_CLASSES_MAX];
} SlabCells;

/* Stretches as small as they can be for no more than `n_cells` of them, which is not 0. */
void slab_cells_init(SlabCells *cells, const ShmArena *arena, uint32_t n_cells);

/*
 * Looks at up to *n_left slabs, and takes those it looked at off. True: cells->cell is whole; take
 * it, and call slab_cells_next().
 */
bool slab_cells_step(SlabCells *cells, const ShmArena *arena, uint32_t *n_left);
void slab_cells_next(SlabCells *cells);
bool slab_cells_done(const SlabCells *cells);
