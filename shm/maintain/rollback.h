#pragma once
/*
 * Rolling a dead thread's record back, once: frees objects that the thread allocated and did not share. For the
 * maintainer; the record is DEAD, and ROLLED_BACK afterwards.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/cache-walk.h"
#include "shm/arena/record.h"

/* Frees the objects of its intent and its notes, and chunks of the latter. Returns how many, chunks apart. */
uint64_t shm_rollback_named(ShmActor *control, uint32_t record);
/* Makes the paths of maps that it was changing as short as they can be. After the above. */
void shm_rollback_paths(ShmActor *control, uint32_t record);
/* Clears its notes and its guard: last. */
void shm_rollback_forget(ShmRecord *record);
/* The same for the maintainer's own record, after a death: nodes that it unlinked, or was about to. */
void shm_rollback_control(ShmActor *control);
/* Frees the objects of one of its caches. Returns how many. */
uint64_t shm_rollback_cache(const ShmArena *arena, uint32_t record, const ShmCacheWalk *walk);

/* Makes the slot's tag even if it is this odd one. Returns whether it was. */
bool shm_rollback_object(const ShmArena *arena, SlotId id, uint32_t tag);
