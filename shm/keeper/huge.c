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
 * Who may do what: any thread, but for shm_huge_settle().
 *
 * Crash: there is nothing to repair but surplus pages, which a trim drops.
 */
#include "shm/keeper/huge.h"

#include <errno.h>
#include <sys/mman.h>

#include "shm/arena/clock.h"
#include "shm/slab/pages.h"
#include "shm/slab/set.h"

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

bool shm_huge_step(ShmHuge *huge, const ShmArena *arena, uint32_t n_max) {
        uint64_t end = shm_monotonic_usec() + ALREADY_USEC;
        uint8_t *range;

        while (n_max-- > 0 && shm_monotonic_usec() < end) {
                if (huge->refused || !find_range(huge, arena, &range)) {
                        huge->size = huge->so_far;
                        huge->position = 0;
                        huge->so_far = 0;
                        return true;
                }
                huge->position++;
                if (!has_all_pages(arena, huge->first, huge->n))
                        continue;
                if (madvise(range, SHM_HUGE_SIZE, MADV_COLLAPSE) == 0)
                        huge->so_far += SHM_HUGE_SIZE;
                else
                        huge->refused =
                                errno == EINVAL; /* else there is no memory, or a page is in use elsewhere */
        }
        return false;
}

bool shm_huge_is_unsettled(const ShmHuge *huge, const ShmArena *arena) {
        return huge->n > 0 && !has_all_pages(arena, huge->first, huge->n);
}

void shm_huge_settle(const ShmHuge *huge, ShmActor *control) {
        if (shm_huge_is_unsettled(huge, control->arena))
                shm_pages_drop_surplus_of(control, huge->first, huge->n);
}
