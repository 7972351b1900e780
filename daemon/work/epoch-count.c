/*
 * Counting live objects
 *
 * Purpose: counts the objects that remain after a close. The tags tell which objects are live; the slab words only
 *   tell which slabs to read.
 *
 * Invariants
 *   1. Every possible class index of a slab word has an entry in the arena's view, used or not: a damaged word causes
 *      no access outside of the view.
 *
 * Who may do what: this code only reads.
 *
 * Crash: a death leaves nothing behind.
 */
#include "daemon/work/epoch-count.h"

#include "shm/epoch/epoch.h"
#include "shm/slab/slab.h"

static uint32_t count_live(const ShmTags *tags, uint32_t n_slots) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < n_slots; i++)
                n += shm_hint_load(&tags->tag[i]) & 1;
        return n;
}

static bool is_counted_era(const EpochCount *count, const ShmArena *arena, uint32_t era) {
        if (count->eras)
                return shm_revoking_has(count->eras, era);
        return (count->era == 0 || era == (count->era & SLAB_ERA_BITS)) &&
               shm_epoch_over(arena, count->epoch, era);
}

static void note_era(EpochCount *count, uint32_t era) {
        if (count->oldest == 0 || shm_era_is_before(era, count->oldest))
                count->oldest = era;
        if (count->newest == 0 || shm_era_is_before(count->newest, era))
                count->newest = era;
}

static void count_slab(EpochCount *count, const ShmArena *arena, uint32_t slab, SlabWord w) {
        SlabState state = slab_word_state(w);
        uint32_t n;

        if (state == SLAB_UNCOMMITTED || state == SLAB_FREE || state >= SLAB_BUSY ||
            slab_word_epoch(w) != count->epoch || slab_word_class(w) >= arena->n_classes ||
            !is_counted_era(count, arena, slab_word_era(w)))
                return;
        n = count_live(&arena->tags[slab], shm_slab_class(arena, w)->n_slots);
        count->live_objects += n;
        count->classes[slab_word_class(w)] += n;
        if (n > 0)
                note_era(count, shm_era_whole(shm_epoch_load(arena, count->epoch).era, slab_word_era(w)));
}

bool epoch_count_step(EpochCount *count, const ShmArena *arena, uint32_t budget) {
        uint32_t slab;
        SlabWord w;

        if (count->walk.end == 0)
                shm_slab_walk_begin(&count->walk, arena, shm_set_of_epoch(arena, count->epoch));
        while (shm_slab_walk_next(&count->walk, arena, &budget, &slab, &w))
                count_slab(count, arena, slab, w);
        return shm_slab_walk_done(&count->walk);
}
