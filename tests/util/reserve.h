#pragma once
#include "shm/epoch/epoch-open.h"

/* A reserved epoch of an arena that no thread uses yet: nothing is to be frozen before. */
static inline int test_reserve_epoch(ShmArena *arena, uint32_t *ret_epoch) {
        uint32_t id;
        int r;

        r = shm_epoch_spare(arena, &id);
        return r ? r : shm_epoch_reserve(arena, id, NULL, ret_epoch);
}
