#pragma once
/*
 * Huge pages: where all slabs of 2 MiB of the arena have pages, the kernel is asked to put these together into one,
 * which takes one entry of page tables and of the TLB in each process. Slabs, their tags and their lines alike.
 *
 * The kernel need not be set up for that: whatever /sys/kernel/mm/transparent_hugepage/shmem_enabled is, Linux 6.1 and
 * later do it, unless that is "deny", or the file for 2 MiB beside it is "never" (shm/keeper/huge-obstacle.h).
 */
#include "shm/slab/pages.h"

/* Begin with zeros. */
typedef struct ShmHuge {
        uint32_t position; /* the range to look at next */
        uint64_t so_far; /* bytes that this pass has found, or made, huge */
        uint64_t size; /* in the last pass that ended */
        uint32_t n_refused; /* ranges of this pass */
        bool refused; /* the kernel made none in the last pass that ended */
        uint32_t first, n; /* slabs of the range that was put together last; 0: none */
        ShmSurplus surplus; /* the place in these slabs, as they are settled */
} ShmHuge;

/*
 * Looks at `n_max` ranges at most, and puts one together at most. That takes half a millisecond, or many where
 * processors are busy; a range that is huge takes a microsecond. True: the pass has ended.
 *
 * One thread, of any process, beside anything else. A slab that loses its page meanwhile may get one back: if the
 * range is unsettled, the maintainer settles it before the next step.
 */
bool shm_huge_step(ShmHuge *huge, const ShmArena *arena, uint32_t n_max);
/* Whether slabs of the last range have no page, or are about to lose it. */
bool shm_huge_is_unsettled(const ShmHuge *huge, const ShmArena *arena);
/* Drops pages that these got back. `budget` as for shm_slab_walk_next(). True: it is done. For the maintainer. */
bool shm_huge_settle_step(ShmHuge *huge, ShmActor *control, uint32_t budget);
