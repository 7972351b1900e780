#pragma once
/*
 * Who names which slot: what all records together say of each slab, gathered in one walk into
 * private memory. The check judges by it.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena.h"
#include "shm/handle.h"

/* One bit per slot of the slab. */
typedef struct ShmNamedSlab {
        uint64_t cached; /* in a cache whose owner was between operations */
        uint64_t inside; /* in a cache whose owner was inside an operation */
        uint64_t twice; /* in a cache, and again in that one or another */
        uint64_t misfiled; /* in a cache of another class or epoch */
        uint64_t unsure; /* by an intent, a note, a cache under FLUSH or of a dead thread */
        uint64_t run; /* not 0: a RUN covers the slab */
} ShmNamedSlab;

typedef struct ShmNamed {
        ShmNamedSlab *slabs;
        uint64_t *touched; /* slabs that an intent names, with bits above as in a slab set */
        uint32_t n_slabs; /* those at or above are left out */
        uint64_t run_budget;
} ShmNamed;

/*
 * Gathers. Of a record: seq, then the intent, then each cache from the top down, then the intent
 * again. 0 or -ENOMEM; shm_named_deinit() in any case.
 */
int shm_named_init(ShmNamed *named, const ShmArena *arena, uint32_t n_slabs);
void shm_named_deinit(ShmNamed *named);

/* Whether an intent names the slab, or, above the leaves, one of those below the slab's bit at `level`. */
bool shm_named_touches(const ShmNamed *named, const ShmArena *arena, uint32_t slab, uint32_t level);

/* The first records that have the slot in a cache, for people: how many of the two were found. */
uint32_t shm_named_find(const ShmArena *arena, SlotId id, uint32_t ret_records[2]);
