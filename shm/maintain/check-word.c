/*
 * Purpose: the check of a slab's word by itself.
 *
 * Invariants
 *   1. What is reported here is lawful at no time while the word stands still.
 *
 * Who may do what: it reads, and writes nothing.
 *
 * Crash: nothing is left.
 */
#include "shm/maintain/check-word.h"

#include "shm/arena/record.h"
#include "shm/slab/slab.h"

/* What is wrong with the word by itself, or NULL. */
const char *shm_check_word(const ShmArena *arena, SlabWord w) {
        SlabPlace place = slab_word_place(w);
        uint64_t beyond = shm_slab_class(arena, w)->beyond;

        if (place >= _SLAB_PLACE_N)
                return "its place is none";
        if (slab_word_class(w) >= arena->n_classes)
                return "its class is none";
        if (slab_word_epoch(w) >= arena->n_epochs)
                return "its epoch is none";
        if (place != SLAB_HELD && place != SLAB_BUSY && slab_word_holder(w) != 0)
                return "it names a holder";
        if (!shm_check_in_use(place))
                return w.low != 0 ? "its bitmap is not empty" : NULL;
        if ((w.low & beyond) != beyond)
                return "slots beyond its class's count are free";
        if (w.low == beyond && (place == SLAB_LISTED || place == SLAB_DRAINING))
                return "no slot is taken";
        if (w.low == UINT64_MAX && place == SLAB_LISTED)
                return "all slots are taken";
        if (w.low != UINT64_MAX && place == SLAB_FULL)
                return "slots are free";
        return NULL;
}

/* The same for a word's holder. A dead thread's slab is for repair to take. */
const char *shm_check_holder(const ShmArena *arena, const ShmRefs *refs, uint32_t slab, SlabWord w) {
        SlabPlace place = slab_word_place(w);
        uint32_t holder = slab_word_holder(w);
        ShmRecordState state;

        if (place != SLAB_HELD && place != SLAB_BUSY)
                return NULL;
        if (holder >= shm_arena_n_records_ever(arena))
                return "its holder is no record";
        state = shm_record_owner(arena, holder).state;
        if (holder != 0 && (state == SHM_RECORD_UNUSED || state > SHM_RECORD_LEFT))
                return "its holder's record is not in use";
        if (place == SLAB_BUSY && !shm_refs_at(refs, slab).run)
                return "nobody is at work on its pages";
        return NULL;
}
