#pragma once
/* The tags of a slab without pages: one number, its floor, stands for them. See shm/slab/tags.c. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/arena.h"

/* Slabs whose tags are in one page. The explorer, whose arenas have few slabs, has smaller pages. */
#ifndef SHM_TAGS_PER_PAGE
#define SHM_TAGS_PER_PAGE (SHM_SLAB_SIZE / (uint32_t) sizeof(ShmTags))
#endif
static_assert(64 % SHM_TAGS_PER_PAGE == 0, "a group of slabs has whole pages of tags");

/*
 * For a BUSY slab that is to be UNCOMMITTED: from now on its floor counts. False: the tags are too far apart for a
 * floor, and still count.
 */
bool shm_tags_put_away(const ShmArena *arena, uint32_t slab);
/* Whether the tags of the BUSY slabs [slab, slab + n) count, and so have pages. */
bool shm_tags_count(const ShmArena *arena, uint32_t slab, uint32_t n);
/* For a BUSY slab that is to be FREE, and whose tags have a page: from now on the tags count. */
void shm_tags_bring_back(const ShmArena *arena, uint32_t slab);

/* Whether the slab has no objects, and perhaps no page of tags: reading a tag would make that page. */
static inline bool shm_tags_away(const ShmArena *arena, uint32_t slab) {
        /* ORDER: acq, pairs with shm_slab_end(); before the tags. */
        return slab_word_state((SlabWord){ .high = shm_load_acq(&arena->lines[slab].word.high) }) ==
               SLAB_UNCOMMITTED;
}
