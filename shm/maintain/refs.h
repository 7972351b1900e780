#pragma once
/*
 * References: the slots to which the records refer, gathered into private memory. Repair, revoking and the check decide
 * by them alone.
 *
 *     shm_refs_init_whole(refs, arena, n_slabs, memory)     or  shm_refs_init_some(refs, arena, storage)
 *     shm_refs_add(refs, slab)                      with _some: each slab that is in question
 *     shm_refs_expect(refs, word)                   and its word: only caches of that class and epoch are read
 *     shm_refs_begin(refs)                          forgets the last gathering
 *     while (!shm_refs_step(refs, &budget))
 *             budget = ...;
 *     shm_refs_at(refs, index)
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/cache-walk.h"
#include "shm/arena/record.h"

#ifndef SHM_REFS_MAX
#ifdef SHM_STEP
#define SHM_REFS_MAX 8U
#else
#define SHM_REFS_MAX 1024U
#endif
#endif
#define SHM_REFS_TABLE (4 * SHM_REFS_MAX)

/* One bit per slot of the slab. */
typedef struct ShmRefSlab {
        uint64_t cached; /* in a cache whose owner was between operations */
        uint64_t inside; /* in a cache whose owner was inside an operation */
        uint64_t twice; /* in a cache, and again in that one or another */
        uint64_t misfiled; /* in a cache of another class or epoch */
        uint64_t in_flight; /* in an intent, a note, a guard, a cache under FLUSH, or a dead thread's cache */
        uint32_t run; /* not 0: a RUN covers the slab */
        uint32_t round; /* the gathering that wrote this; zeros stand for any other */
} ShmRefSlab;

/* Room for some slabs. */
typedef struct ShmRefsSome {
        ShmRefSlab slabs[SHM_REFS_MAX];
        uint32_t ids[SHM_REFS_MAX];
        uint16_t table[SHM_REFS_TABLE]; /* by slab: index + 1 */
} ShmRefsSome;

typedef struct ShmRefs {
        const ShmArena *arena;
        ShmRefSlab *slabs;
        uint32_t n; /* how many slabs; if `some` is NULL, slabs from this index on are left out */
        ShmRefsSome *some; /* NULL: all slabs below n */
        uint64_t *touched; /* all slabs: a slab set of slabs that an intent names; else NULL */
        uint64_t caches[SHM_CACHES_MAX / 64]; /* some slabs: only these caches can hold their slots */
        ShmIntent flush; /* a dead maintainer's FLUSH: these slots do not count as cached */
        uint64_t run_budget;
        uint32_t round;

        /* Where the gathering is. */
        uint32_t record; /* to be looked at next, or just now */
        bool begun; /* with that record */
        bool alive; /* its owner may be: the slots that its caches list are owned */
        bool is_inside;
        ShmIntent intent;
        ShmCacheWalk walk;
} ShmRefs;

/* How many bytes of zeros shm_refs_init_whole() takes from its caller. */
size_t shm_refs_whole_size(const ShmArena *arena, uint32_t n_slabs);
void shm_refs_init_whole(ShmRefs *refs, const ShmArena *arena, uint32_t n_slabs, void *memory);
void shm_refs_init_some(ShmRefs *refs, const ShmArena *arena, ShmRefsSome *some);

/*
 * Returns the slab's index, even if it was added before; -1: there is no room for one more. With all slabs, the slab is
 * the index.
 */
int shm_refs_add(ShmRefs *refs, uint32_t slab);
/*
 * Call this before the gathering, with the slab's word as it was viewed: when the slab was added it may have had
 * another class.
 */
void shm_refs_expect(ShmRefs *refs, SlabWord w);
/* The index of a slab; -1: it was not added. */
int shm_refs_index(const ShmRefs *refs, uint32_t slab);
/* The slab at an index. */
static inline uint32_t shm_refs_slab(const ShmRefs *refs, uint32_t index) {
        return refs->some ? refs->some->ids[index] : index;
}

void shm_refs_begin(ShmRefs *refs);
/* Reads up to *budget slots, roughly, and takes them off. True: all records were read. */
bool shm_refs_step(ShmRefs *refs, uint32_t *budget);

static inline ShmRefSlab shm_refs_at(const ShmRefs *refs, uint32_t index) {
        return refs->slabs[index].round == refs->round ? refs->slabs[index] : (ShmRefSlab){};
}

/* With all slabs: whether an intent names the slab or, above the leaves, any slab below the slab's bit at `level`. */
bool shm_refs_touch(const ShmRefs *refs, uint32_t slab, uint32_t level);

/* The first records that have the slot in a cache, for people: how many of the two were found. */
uint32_t shm_refs_find(const ShmArena *arena, SlotId id, uint32_t ret_records[2]);
