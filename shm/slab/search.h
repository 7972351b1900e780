#pragma once
/* Finding slots of a class and epoch, wherever there are any. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/actor.h"

/* One slot to use at once, or a slab to hold and up to n of its slots. */
typedef struct ShmWant {
        uint64_t key;
        uint32_t n;
        bool hold;
        bool no_commit; /* where no slab has slots, none is made */
} ShmWant;

typedef struct ShmFound {
        uint32_t slab;
        uint64_t mask;
        bool held; /* more is left, and the actor holds the slab from now on */
} ShmFound;

/* 0 with the intent CLAIM standing, for the caller to replace; -ENOMEM with none. Inside an operation. */
int shm_search(ShmActor *actor, const ShmWant *want, ShmFound *ret);
