#pragma once
/*
 * Rolling back a dead thread's record, once: frees the objects that the thread allocated and did not share. For the
 * maintainer. The record is DEAD before and ROLLED_BACK afterwards.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/cache-walk.h"
#include "shm/arena/record.h"

/*
 * Frees the objects that its intent and its notes name, and the chunks of noted leaves. Returns how many, without
 * chunks.
 */
uint64_t shm_rollback_named(ShmActor *control, uint32_t record);
/*
 * Makes the paths that the thread was changing in maps as short as they can be. To be called after
 * shm_rollback_named().
 */
void shm_rollback_paths(ShmActor *control, uint32_t record);
/* Clears the record's notes and guard, and the map that it names. To be called last. */
void shm_rollback_forget(ShmRecord *record);
/*
 * Does all this for the maintainer's own record, after its death: its notes name leaves and nodes that it was
 * unlinking.
 */
void shm_rollback_control(ShmActor *control);
/* Frees the objects that the thread had made in one of its caches. Returns how many. */
uint64_t shm_rollback_cache(const ShmArena *arena, uint32_t record, const ShmCacheWalk *walk);

/* Makes the slot's tag even if it is this odd one. Returns whether it was. */
bool shm_rollback_object(const ShmArena *arena, SlotId id, uint32_t tag);
