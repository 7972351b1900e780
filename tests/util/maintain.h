#pragma once
/* Runs the maintainer's parts by hand, each to its end or for some steps. All of them share one reachability check. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/maintain/freeze.h"
#include "shm/maintain/repair.h"
#include "shm/maintain/revoke.h"

static ShmReach maintain_reach;

/* Up to n caches' worth. True: the pass is over. */
static inline bool maintain_repair_step(ShmActor *control, ShmRepair *repair, uint32_t n) {
        uint32_t budget = n < UINT32_MAX / SHM_CACHE_MAX ? n * SHM_CACHE_MAX : UINT32_MAX;

        return shm_repair_step(control, repair, &maintain_reach, &budget);
}

/* Passes over all records. */
static inline ShmRepairCounts maintain_repair(ShmActor *control) {
        ShmRepair repair = {};

        while (!maintain_repair_step(control, &repair, UINT32_MAX))
                ;
        return repair.counts;
}

static inline void maintain_repair_control(ShmActor *control, ShmRepairCounts *ret) {
        shm_repair_control(control, &maintain_reach, ret);
}

/* Frees the objects of all eras of the id that are to be revoked. Slots in threads' hands are kept. */
static inline ShmRevoke maintain_revoke(ShmActor *control, uint32_t id) {
        ShmRevoke revoke = {};
        uint32_t budget;
        uint64_t usec;

        if (!shm_epoch_revoking(control->arena, id, &revoke.eras))
                return revoke;
        while (!shm_revoke_mark(control, &revoke, 64))
                ;
        (void) shm_freeze_fence(control, &usec); /* callers have no other processor's thread */
        do
                budget = 4096;
        while (!shm_revoke_collect(control, &revoke, &maintain_reach, &budget));
        return revoke;
}

/* Records that were left while they were frozen, and freezes that are not over; as far as no thread is inside. */
static inline void maintain_finish_left(ShmActor *control) {
        static ShmFreeze unfinished;

        unfinished.n = 0;
        unfinished.n_left = 0;
        if (shm_freeze_resume(control, &unfinished))
                for (uint32_t i = 0; i < 3; i++)
                        (void) shm_freeze_step(control, &unfinished, UINT32_MAX, UINT64_MAX);
}
