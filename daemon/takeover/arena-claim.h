#pragma once
/* The claim of a daemon to serve an arena alone, wherever its runtime directory is. */
#include "shm/arena/arena.h"

typedef struct Claim {
        int lock, mark; /* -1: none */
} Claim;

#define CLAIM_NONE ((Claim){ .lock = -1, .mark = -1 })

/*
 * Claims the memory until claim_deinit(), or the end of the daemon. A process of another user that has locked it is no
 * daemon: it is logged, and passed over. -EBUSY: another daemon serves it. Other errors: one sign at least could not be
 * set or looked for; the other, if it could, stays until claim_deinit().
 */
int claim_arena(Claim *claim, const ShmArena *arena);
void claim_deinit(Claim *claim);
