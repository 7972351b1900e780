#pragma once
/* Pages: committing slabs ahead of use, and dropping the pages of FREE slabs. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/record.h"
#include "shm/slab/slab-walk.h"

/*
 * Slabs that a client commits at once, at most. With 16, one allocation in 500 of 128 bytes took 30 us, and p99.9 was
 * that; with 4 it is 12, and a pool that grows is as fast.
 */
#define SHM_COMMIT_RUN_MAX 4
#define SHM_RUN_MAX 256U /* slabs that one intent RUN names, at most */
#define SHM_DROP_COST 32U /* budget that dropping a slab's page costs; looking at a slab costs 1 */

/*
 * Commits up to n neighbouring slabs, which become FREE. -ENOMEM: the arena is full, or the system
 * has no memory, or the allowance for clients is used up; actor->shortage says which. Inside an operation.
 */
int shm_pages_commit(ShmActor *actor, uint32_t n, uint32_t *ret_n);
/* The reason to give if the cgroups leave no memory for a commit. The pool may be full, too. */
ShmShortage shm_pages_shortage_at_limit(const ShmArena *arena);

/*
 * Drops the pages of the slabs in `mask`, of one group of 64, that are FREE, in runs of neighbours.
 * Returns how many it dropped. For the maintainer.
 */
uint32_t shm_pages_drop(ShmActor *control, uint32_t group, uint64_t mask);

/*
 * Ranges of a huge page that had all pages, and lost some, but not all: the kernel has to split a huge page for that.
 * One that loses the rest by the same pass counts no more.
 */
typedef struct ShmSplits {
        uint32_t n;
        uint32_t last; /* the last such range, + 1 */
} ShmSplits;
/* shm_pages_drop() of a pass, which begins with splits of zeros. They are counted in a pool with huge pages. */
uint32_t shm_pages_drop_counted(ShmActor *control, ShmSplits *splits, uint32_t group, uint64_t mask);
/* After the pass: adds them to the pool's sum, SHM_TOTAL_SPLIT. */
void shm_pages_add_splits(ShmArena *arena, const ShmSplits *splits);

/*
 * Drops FREE slabs, highest first, until at most `keep` are left or n_max were dropped. Returns how many it dropped.
 * For the maintainer.
 */
uint32_t shm_pages_trim(ShmActor *control, uint32_t keep, uint32_t n_max);
/* Trims in steps: `budget` as for shm_slab_walk_next(). True: no more than `keep` are left. */
typedef struct ShmTrim {
        ShmSlabWalk count; /* the first phase, which counts FREE slabs; the second drops them */
        uint32_t n_free; /* FREE slabs that are left, as far as is known */
        uint32_t group; /* groups below this one are still to be looked at */
        uint32_t n_dropped;
        ShmSplits splits;
        bool whole; /* this pass takes only ranges of which nothing is in use: where there are huge pages */
} ShmTrim;
void shm_pages_trim_begin(ShmTrim *trim, const ShmArena *arena);
bool shm_pages_trim_step(ShmActor *control, ShmTrim *trim, uint32_t keep, uint32_t budget);

/*
 * Drops surplus pages: those that stores by stale pointers made in UNCOMMITTED slabs, and pages of tags whose slabs are
 * all UNCOMMITTED. Returns the bytes of the former. For the maintainer.
 */
uint64_t shm_pages_drop_surplus(ShmActor *control);
/* Drops surplus pages in steps, beginning with an ShmSurplus of zeros. True: it is done. */
typedef struct ShmSurplus {
        uint32_t position; /* slab to look at next */
        uint32_t tags_position; /* slab whose page of tags is the next to look at */
        uint64_t size; /* bytes dropped */
} ShmSurplus;
bool shm_pages_drop_surplus_step(ShmActor *control, ShmSurplus *surplus, uint32_t budget);
/* The same up to the slab `end`, which is at most the number of slabs that were committed at some time. */
bool shm_pages_drop_surplus_until(ShmActor *control, ShmSurplus *surplus, uint32_t end, uint32_t budget);

/* Gives pages of the arena back to the system: they read as zeros then. `address` is the start of a page. */
void shm_pages_punch(ShmArena *arena, void *address, size_t size);
/* Memory for n pages of a table, out of the allowance of slabs. False: there is none. */
bool shm_pages_make(ShmActor *actor, const void *address, uint32_t n);

/*
 * After a death: drops those of n slabs that are BUSY with this holder. Returns how many. For the maintainer. If the
 * holder is 0, the maintainer's own record, the intent stands already.
 */
uint32_t shm_pages_undo(ShmActor *control, uint32_t holder, uint32_t slab, uint32_t n);
