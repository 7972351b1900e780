#pragma once
/* The part of the check that needs no second look: epochs, records, caches and slab words, each by itself. */
#include <stdbool.h>

#include "shm/format/slab-word.h"
#include "shm/maintain/check-result.h"
#include "shm/maintain/refs.h"

void shm_check_epochs(const ShmArena *arena, ShmCheck *check);
void shm_check_record(const ShmArena *arena, ShmCheck *check, uint32_t record);

static inline bool shm_check_in_use(SlabPlace place) {
        return place >= SLAB_LISTED && place <= SLAB_DRAINING;
}

/* What is wrong with the word by itself, or NULL. */
const char *shm_check_word(const ShmArena *arena, SlabWord w);
/* The same for its holder. A dead thread's slab is for repair to take. */
const char *shm_check_holder(const ShmArena *arena, const ShmRefs *refs, uint32_t slab, SlabWord w);
