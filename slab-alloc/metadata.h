#pragma once
/* The members of struct SlabAllocator that programs may read. */
#include "slab-alloc/state.h"

/* How many advances there had been when an epoch was opened; 0 for epochs that were open from the beginning. */
uint64_t metadata_era(uint32_t number);

void metadata_init(SlabAllocator *alloc);
/* An advance has opened it. */
void metadata_set_opened(SlabAllocator *alloc, uint32_t number);
void metadata_set_closed(SlabAllocator *alloc, EpochId epoch, uint64_t rss_before, uint64_t rss_after);
void metadata_set_label(SlabAllocator *alloc, EpochId epoch, const char *label);
