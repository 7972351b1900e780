/*
 * Huge pages
 *
 * Purpose: asks the kernel to put the pages of 2 MiB together.
 *
 * Invariants
 *   1. A range is put together only while all of it has pages, as far as hints tell: the kernel would make those that
 *      it lacks, and count them.
 *   2. Whatever the kernel does leaves the bytes as they are. Threads that touch the range meanwhile wait for the
 *      kernel, as they do for any page.
 *
 * Who may do what: any thread, but for shm_huge_settle_step().
 *
 * Crash: there is nothing to repair but surplus pages, which a trim drops.
 */
#include "shm/keeper/huge.h"

#include <errno.h>
#include <sys/mman.h>

#include "shm/arena/clock.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define ALREADY_USEC 50 /* for so long a step looks at ranges that are huge already */

/* The slabs whose memory, tags, or lines are in one huge page. */
#define SLABS (SHM_HUGE_SIZE / SHM_SLAB_SIZE)
#define SLABS_OF_TAGS (SHM_HUGE_SIZE / sizeof(ShmTags))
#define SLABS_OF_LINES (SHM_HUGE_SIZE / sizeof(ShmSlabLine))

/* Lines of slabs that were ever committed always have pages. */
static bool has_all_pages(const ShmArena *arena, uint32_t first, uint32_t n) {
        uint32_t missing;

        return n == SLABS_OF_LINES || !shm_set_find(arena, SHM_SET_UNCOMMITTED, first, &missing) ||
               missing >= first + n;
}

/* The range at the position: slabs first, then tags, then lines. False: there are no more. */
static bool find_range(ShmHuge *huge, const ShmArena *arena, uint8_t **ret) {
        uint32_t ever = shm_arena_n_slabs_ever(arena), at = huge->position;
        uint32_t n_slabs = ever / SLABS, n_tags = ever / SLABS_OF_TAGS, n_lines = ever / SLABS_OF_LINES;

        if (at < n_slabs) {
                huge->n = SLABS;
                huge->first = at * SLABS;
                *ret = shm_arena_slab(arena, huge->first);
        } else if (at - n_slabs < n_tags) {
                huge->n = SLABS_OF_TAGS;
                huge->first = (at - n_slabs) * SLABS_OF_TAGS;
                *ret = (uint8_t *) &arena->tags[huge->first];
        } else if (at - n_slabs - n_tags < n_lines) {
                huge->n = SLABS_OF_LINES;
                huge->first = (at - n_slabs - n_tags) * SLABS_OF_LINES;
                *ret = (uint8_t *) &arena->lines[huge->first];
        } else {
                return false;
        }
        return true;
}

/* A single range may be refused for a moment, as its pages are dropped. */
static void end_pass(ShmHuge *huge) {
        huge->refused = huge->n_refused > 0 && huge->so_far == 0;
        huge->size = huge->so_far;
        huge->position = huge->n_refused = 0;
        huge->so_far = 0;
}

/*
 * Where the kernel makes 2 MiB only for mappings that ask for it (hugepages-2048kB/shmem_enabled is "advise"), the
 * range asks. If it is refused nevertheless, others of the pass do not ask: each would be a mapping of its own.
 */
static int collapse_range(uint8_t *range, bool asks) {
        int r = madvise(range, SHM_HUGE_SIZE, MADV_COLLAPSE);

        if (r < 0 && errno == EINVAL && asks && madvise(range, SHM_HUGE_SIZE, MADV_HUGEPAGE) == 0)
                r = madvise(range, SHM_HUGE_SIZE, MADV_COLLAPSE);
        return r;
}

static void put_together(ShmHuge *huge, uint8_t *range) {
        huge->surplus = (ShmSurplus){ .position = huge->first, .tags_position = huge->first };
        if (collapse_range(range, huge->n_refused == 0) == 0)
                huge->so_far += SHM_HUGE_SIZE;
        else if (errno == EINVAL) /* else there is no memory, or a page is in use elsewhere */
                huge->n_refused++;
}

bool shm_huge_step(ShmHuge *huge, const ShmArena *arena, uint32_t n_max) {
        uint64_t end = shm_monotonic_usec() + ALREADY_USEC;
        uint8_t *range;

        for (; n_max > 0 && shm_monotonic_usec() < end; n_max--) {
                if (!find_range(huge, arena, &range)) {
                        huge->n = 0;
                        end_pass(huge);
                        return true;
                }
                huge->position++;
                if (has_all_pages(arena, huge->first, huge->n))
                        put_together(huge, range);
                else
                        huge->n = 0;
        }
        return false;
}

bool shm_huge_is_unsettled(const ShmHuge *huge, const ShmArena *arena) {
        uint32_t n = huge->n == SLABS_OF_LINES ? 0 : huge->n; /* these pages stay */

        for (uint32_t slab = huge->first; slab < huge->first + n; slab++) {
                SlabState state = slab_word_state(shm_slab_word(arena, slab));

                if (state == SLAB_BUSY || state == SLAB_UNCOMMITTED)
                        return true;
        }
        return false;
}

bool shm_huge_settle_step(ShmHuge *huge, ShmActor *control, uint32_t budget) {
        return shm_pages_drop_surplus_until(control, &huge->surplus, huge->first + huge->n, budget);
}
