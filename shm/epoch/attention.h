#pragma once
/*
 * ShmRecord.attention: the freeze bit and the version of the epoch table. For the maintainer; the owner of a record
 * compares it with the value it saw last (shm/cache/cache-hit.h).
 */
#include "shm/arena/arena.h"

#define SHM_ATTENTION_FREEZE UINT64_C(1)

/* A version that no record has yet, the freeze bit clear. */
uint64_t shm_attention_next_version(ShmArena *arena);
uint64_t shm_attention_load(const ShmArena *arena, uint32_t record);
void shm_attention_store(ShmArena *arena, uint32_t record, uint64_t attention);
/*
 * Tells all threads that the epoch table changed. Operations that begin after this call allocate by
 * the new table.
 */
void shm_attention_publish(ShmArena *arena);
