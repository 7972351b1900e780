#pragma once
/* What can be wrong with a slab's word: in words, or NULL. Part of shm/maintain/check.h. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/maintain/refs.h"
#include "shm/format/slab-word.h"

static inline bool shm_check_in_use(SlabPlace place) {
        return place >= SLAB_LISTED && place <= SLAB_DRAINING;
}

/* By itself. */
const char *shm_check_word(const ShmArena *arena, SlabWord w);
/* Its holder. A dead thread's slab is for repair to take. */
const char *shm_check_holder(const ShmArena *arena, const ShmRefs *refs, uint32_t slab, SlabWord w);
