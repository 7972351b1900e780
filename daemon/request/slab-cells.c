/*
 * Counting slabs by stretches
 *
 * Purpose: draws an arena, which may have millions of slabs, in as many cells as the request names.
 *
 * Who may do what: this code only reads.
 *
 * Crash: a death leaves nothing behind.
 */
#include "daemon/request/slab-cells.h"

void slab_cells_init(SlabCells *cells, const ShmArena *arena, uint32_t n_cells) {
        *cells = (SlabCells){};
        shm_slab_walk_begin(&cells->walk, arena, SHM_SLAB_WALK_ALL);
        cells->n_slabs = cells->walk.end;
        cells->slabs_per_cell = cells->n_slabs / n_cells + (cells->n_slabs % n_cells != 0);
        if (cells->slabs_per_cell == 0)
                cells->slabs_per_cell = 1;
}

static void add_slab(SlabSum *sum, uint32_t slots, uint32_t taken) {
        sum->slabs++;
        sum->slots += slots;
        sum->taken += taken;
}

static void count_cell_slab(SlabCells *cells, const ShmArena *arena, SlabWord w) {
        SlabState state = slab_word_state(w);
        uint32_t class = slab_word_class(w), epoch = slab_word_epoch(w), slots, taken;

        if (state >= _SLAB_STATE_N)
                return;
        cells->cell.places[state]++;
        if (state == SLAB_UNCOMMITTED || state == SLAB_FREE || state == SLAB_BUSY ||
            class >= arena->n_classes || epoch >= arena->n_epochs)
                return;

        slots = arena->classes[class].n_slots;
        taken = (uint32_t) __builtin_popcountll(w.low & ~arena->classes[class].tail_mask);
        cells->cell.slots += slots;
        cells->cell.taken += taken;
        cells->cell.epochs[epoch]++;
        cells->cell.classes[class]++;
        add_slab(&cells->epochs[epoch], slots, taken);
        add_slab(&cells->classes[class], slots, taken);
}

/* The end of the current cell. */
static uint32_t cell_end(const SlabCells *cells) {
        uint32_t begin = cells->walk.position - cells->walk.position % cells->slabs_per_cell;

        return cells->n_slabs - begin > cells->slabs_per_cell ? begin + cells->slabs_per_cell
                                                              : cells->n_slabs;
}

bool slab_cells_step(SlabCells *cells, const ShmArena *arena, uint32_t *budget) {
        uint32_t slab;
        SlabWord w;

        if (slab_cells_done(cells))
                return false;
        cells->walk.end = cell_end(cells);
        while (shm_slab_walk_next(&cells->walk, arena, budget, &slab, &w))
                count_cell_slab(cells, arena, w);
        return shm_slab_walk_done(&cells->walk);
}

void slab_cells_next(SlabCells *cells) {
        cells->cell = (SlabCell){};
}

bool slab_cells_done(const SlabCells *cells) {
        return cells->walk.position >= cells->n_slabs;
}
