#pragma once
/*
 * Revoking: all objects of an epoch that was closed are freed at once. Control work.
 *
 *     close, and empty the caches of it       shm_epoch_close(), shm_freeze_begin() and _step()
 *     sweep                                   shm_revoke_step() until it is true
 *     where threads were pending, or objects kept: again when these have moved on
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/record.h"

/* Set `epoch`, an id, and `era`; the rest zeros. */
typedef struct ShmRevoke {
        uint32_t epoch;
        uint32_t era; /* and those before; what came after stays, though it is over too. 0: all */
        uint32_t position;
        uint64_t objects; /* freed */
        uint64_t kept; /* in the hands of threads that are inside an operation */
} ShmRevoke;

/* Goes on with up to n slabs. True: the sweep is over. */
bool shm_revoke_step(ShmActor *control, ShmRevoke *revoke, uint32_t n);
