#pragma once
/* Sweeping a dead thread's record, once: what it allocated, and told nobody of, is made free. Control work. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/record.h"

/* Of a DEAD record, before it is SWEPT. Returns how many objects that were. */
uint64_t shm_sweep_record(ShmArena *arena, uint32_t record);

/* Makes the slot's tag even if it is this odd one. Returns whether it was. */
bool shm_sweep_object(const ShmArena *arena, SlotId id, uint32_t tag);
