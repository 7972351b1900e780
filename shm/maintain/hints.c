/*
 * Hints after a death
 *
 * Purpose: sets the bits of slab sets that a thread which died may have left unset.
 *
 * Invariants: see shm/slab/set.c. This file only sets bits.
 *
 * Who may do what: the maintainer.
 *
 * Crash: the intent that names the slabs stands until all their bits are set.
 */
#include "shm/maintain/hints.h"

#include "shm/slab/changed.h"
#include "shm/slab/pages.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"

void shm_hints_repair(const ShmArena *arena, uint32_t slab) {
        SlabWord w = shm_slab_word(arena, slab);

        shm_changed_mark(arena, slab);
        shm_set_repair(arena, SHM_SET_FREE, slab);
        shm_set_repair(arena, SHM_SET_UNCOMMITTED, slab);
        if (slab_word_epoch(w) >= arena->n_epochs || slab_word_class(w) >= arena->n_classes)
                return;
        shm_set_repair(arena, shm_set_of_epoch(arena, slab_word_epoch(w)), slab);
        shm_set_repair(arena, shm_set_partial(arena, slab_word_epoch(w), slab_word_class(w)), slab);
}

/* A thread that died while it removed a bit left an intent that names the slab, but not the set. */
static void repair_all_sets(const ShmArena *arena, uint32_t slab) {
        uint32_t n_sets = shm_set_partial(arena, arena->n_epochs, 0);

        for (uint32_t set = 0; set < n_sets; set++)
                shm_set_repair(arena, set, slab);
}

void shm_hints_repair_intent(const ShmArena *arena, ShmIntent intent) {
        uint32_t n_slabs = shm_arena_n_slabs_ever(arena), slab = slot_id_slab(intent.id), end;

        if (intent.kind == SHM_INTENT_NONE || intent.kind == SHM_INTENT_FLUSH || slab >= n_slabs)
                return;
        if (intent.kind != SHM_INTENT_RUN) {
                shm_hints_repair(arena, slab);
                if (intent.kind == SHM_INTENT_SLAB)
                        repair_all_sets(arena, slab);
                return;
        }
        intent.arg = intent.arg < SHM_RUN_MAX ? intent.arg : SHM_RUN_MAX;
        end = intent.arg < n_slabs - slab ? slab + intent.arg : n_slabs;
        for (uint32_t i = slab; i < end; i++)
                shm_hints_repair(arena, i);
        for (; slab < end; slab = (slab / 64 + 1) * 64)
                repair_all_sets(arena, slab);
}
