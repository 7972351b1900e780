#pragma once
/* An operator, while workers are busy: it advances, closes and revokes epochs, and trims memory. */
#include <stdint.h>
#include <tslab.h>

#include "proto/call.h"
#include "shm/arena/arena.h"

#define OPERATOR_EPOCHS 16

/* For bursts: the calls below leave reserved epochs alone. */
uint32_t operator_reserve(ProtoCall *control);
void operator_revoke(ProtoCall *control, uint32_t epoch);

void operator_daemon(ProtoCall *control, const ShmArena *arena, uint64_t random);
void operator_private(struct tslab *pool, uint64_t random);
