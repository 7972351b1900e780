#pragma once
/*
 * Rolling back a dead thread's record, once: objects that it allocated, and told nobody of, are freed. For the
 * maintainer, of a DEAD record, before it is ROLLED_BACK.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/cache-walk.h"
#include "shm/arena/record.h"

/* Of its intent and its notes. Returns how many objects that were. */
uint64_t shm_rollback_named(ShmArena *arena, uint32_t record);
/* Of one of its caches. */
uint64_t shm_rollback_cache(const ShmArena *arena, uint32_t record, const ShmCacheWalk *walk);

/* Makes the slot's tag even if it is this odd one. Returns whether it was. */
bool shm_rollback_object(const ShmArena *arena, SlotId id, uint32_t tag);
