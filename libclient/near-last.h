#pragma once
/* A near cache that is open in this process, and the values that it heard last. */
#include <sys/types.h>
#include <tslab_near.h>

#include "libclient/map-claim.h"
#include "shm/arena/root.h"
#include "shm/near/cover.h"

struct tslab_near {
        struct tslab_map *map;
        struct tslab_map *last; /* values that were heard last; NULL: not opened yet */
        bool keeps; /* this program puts values there */
        char root[SHM_ROOT_NAME_SIZE];
        uint64_t handle; /* the cover's, as this process saw it last; 0: none */
        uint32_t lease; /* the epoch that the giver leased, and is to give back; 0: none */
        pid_t giver; /* the process that has the lease, and gives the cover: this, or its parent */
        uint64_t own; /* the cover that the giver gives; 0: none */
        ShmCoverTime until; /* as it was stored last */
};

/* Before the engine is asked: notes in the claim which value an answer may replace. */
void near_last_begin(struct tslab_near *near, const void *key, size_t key_size,
                     struct tslab_near_claim *claim);
/* The engine's answer. Without a note of near_last_begin(), a value that differs from the answer is forgotten. */
void near_last_answer(struct tslab_near *near, const void *key, size_t key_size,
                      const struct tslab_near_claim *claim, const void *value, size_t value_size,
                      uint64_t ttl_ms);
/* The engine gave no answer: a value that was there before stays. */
void near_last_give_up(struct tslab_near *near, const void *key, size_t key_size,
                       const struct tslab_near_claim *claim);
/* 0, or errors of tslab_map_delete() and tslab_map_open(). */
int near_last_drop(struct tslab_near *near, const void *key, size_t key_size);
