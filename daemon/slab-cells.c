/*
 * Counting slabs by stretches
 *
 * Purpose: the picture of an arena, which may have millions of slabs, in as many cells as somebody
 *   wants to look at.
 *
 * Invariants
 *   1. Nothing at or above n_slabs_ever is read: reading a hole would make a page.
 *   2. Groups that are uncommitted whole are skipped by their hint, as in shm/stats.c.
 *
 * Who may do what: it reads, and writes nothing.
 *
 * Crash: nothing is left.
 */
#include "daemon/slab-cells.h"

#include "shm/set.h"
#include "shm/slab.h"

void slab_cells_init(SlabCells *cells, const ShmArena *arena, uint32_t n_cells) {
        *cells = (SlabCells){ .n_slabs = shm_arena_n_slabs_ever(arena) };
        cells->slabs_per_cell = cells->n_slabs / n_cells + (cells->n_slabs % n_cells != 0);
        if (cells->slabs_per_cell == 0)
                cells->slabs_per_cell = 1;
}

static void add(SlabSum *sum, uint32_t slots, uint32_t taken) {
        sum->slabs++;
        sum->slots += slots;
        sum->taken += taken;
}

static void count(SlabCells *cells, const ShmArena *arena, SlabWord w) {
        SlabPlace place = slab_word_place(w);
        uint32_t class = slab_word_class(w), epoch = slab_word_epoch(w), slots, taken;

        if (place >= _SLAB_PLACE_N)
                return;
        cells->cell.places[place]++;
        if (place == SLAB_UNCOMMITTED || place == SLAB_FREE || place == SLAB_BUSY ||
            class >= arena->n_classes || epoch >= arena->n_epochs)
                return;

        slots = arena->classes[class].n_slots;
        taken = (uint32_t) __builtin_popcountll(w.low & ~arena->classes[class].beyond);
        cells->cell.slots += slots;
        cells->cell.taken += taken;
        cells->cell.epochs[epoch]++;
        cells->cell.classes[class]++;
        add(&cells->epochs[epoch], slots, taken);
        add(&cells->classes[class], slots, taken);
}

/* Of the cell in the making. */
static uint32_t cell_end(const SlabCells *cells) {
        uint32_t begin = cells->position - cells->position % cells->slabs_per_cell;

        return cells->n_slabs - begin > cells->slabs_per_cell ? begin + cells->slabs_per_cell
                                                              : cells->n_slabs;
}

/* To the end of the group, or of the cell; returns how many that were. */
static uint32_t look_at_group(SlabCells *cells, const ShmArena *arena, uint32_t end) {
        uint32_t group = cells->position / 64, begin = cells->position;

        if (end - begin > 64 - begin % 64)
                end = begin + 64 - begin % 64;
        if (shm_set_group(arena, SHM_SET_UNCOMMITTED, group) == UINT64_MAX)
                cells->cell.places[SLAB_UNCOMMITTED] += end - begin;
        else
                for (uint32_t slab = begin; slab < end; slab++)
                        count(cells, arena, shm_slab_word(arena, slab));
        cells->position = end;
        return end - begin;
}

bool slab_cells_step(SlabCells *cells, const ShmArena *arena, uint32_t *n_left) {
        uint32_t end;

        if (slab_cells_done(cells))
                return false;

        end = cell_end(cells);
        while (cells->position < end) {
                uint32_t n;

                if (*n_left == 0)
                        return false;
                n = look_at_group(cells, arena, end);
                *n_left -= n < *n_left ? n : *n_left;
        }
        return true;
}

void slab_cells_next(SlabCells *cells) {
        cells->cell = (SlabCell){};
}

bool slab_cells_done(const SlabCells *cells) {
        return cells->position >= cells->n_slabs;
}
