#pragma once
/* Finding slots of a class and epoch in any slab that has some. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/actor.h"

/* Up to n slots of one slab; with `hold` the rest of the slab too, for later. */
typedef struct ShmWant {
        uint64_t key;
        uint32_t n;
        bool hold;
        bool no_commit; /* fail if no committed slab has slots */
        uint32_t before; /* not 0: only in slabs before this one of which other slots are taken */
} ShmWant;

typedef struct ShmFound {
        uint32_t slab;
        uint64_t mask;
        bool held; /* the slab has more slots, and the actor holds it from now on */
} ShmFound;

/*
 * 0: the slots are the caller's, and its intent CLAIM names them until the caller changes the intent. -ENOMEM: no
 * slots and no intent. Inside an operation.
 */
int shm_search(ShmActor *actor, const ShmWant *want, ShmFound *ret);
