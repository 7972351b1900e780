/*
 * Pages: trimming
 *
 * Purpose: drops the pages of FREE slabs, highest first, until no more are left than the pool retains. In a pool with
 * huge pages, whole ones go first: to drop a part of one, the kernel has to split it.
 *
 * Invariants
 *   1. A pass counts the slabs, then drops some. Both the count and the choice are hints: shm_pages_drop() goes by the
 *      slab's word, so a slab that is taken meanwhile is not dropped. A slab that is taken still counts as left. So a
 *      pass may leave fewer FREE slabs than are to be kept, by as many as threads took in its time; they are committed
 *      again when they are needed. A pass of the daemon takes many slices, and the daemon ends it as soon as the pool
 *      has no more FREE slabs than it retains. In a private pool a pass is one step.
 *
 * Who may do what: the maintainer.
 *
 * Crash: see shm/slab/pages.c.
 */
#include "shm/slab/pages.h"

#include "shm/slab/set.h"

#define HUGE_GROUPS (SHM_HUGE_SIZE / SHM_SLAB_SIZE / 64)

static void pass_begin(ShmTrim *trim, bool whole) {
        trim->group = (trim->count.end + 63) / 64;
        trim->whole = whole;
}

void shm_pages_trim_begin(ShmTrim *trim, const ShmArena *arena) {
        *trim = (ShmTrim){};
        shm_slab_walk_begin(&trim->count, arena, SHM_SET_FREE);
        pass_begin(trim, arena->huge);
}

/* False: this pass was the last one. */
static bool pass_next(ShmTrim *trim) {
        if (!trim->whole)
                return false;
        pass_begin(trim, false);
        return true;
}

/* The range of a huge page around a group: slabs that are FREE, and those without pages. */
typedef struct Around {
        bool is_whole; /* else no huge page is there: it would end behind the arena */
        uint32_t n_free, n_uncommitted;
} Around;

static Around look_around(const ShmArena *arena, uint32_t group) {
        uint32_t first = group / HUGE_GROUPS * HUGE_GROUPS;
        Around around = { .is_whole = (first + HUGE_GROUPS) * 64 <= arena->n_slabs };

        for (group = first; around.is_whole && group < first + HUGE_GROUPS; group++) {
                around.n_free += (uint32_t) __builtin_popcountll(shm_set_group(arena, SHM_SET_FREE, group));
                around.n_uncommitted +=
                        (uint32_t) __builtin_popcountll(shm_set_group(arena, SHM_SET_UNCOMMITTED, group));
        }
        return around;
}

uint32_t shm_pages_drop_counted(ShmActor *control, ShmSplits *splits, uint32_t group, uint64_t mask) {
        ShmArena *arena = control->arena;
        uint32_t range = group / HUGE_GROUPS + 1, n;
        Around around = {};

        if (arena->huge)
                around = look_around(arena, group);
        n = shm_pages_drop(control, group, mask);
        if (n > 0 && around.is_whole && around.n_uncommitted == 0) {
                splits->n++;
                splits->last = range;
        }
        if (splits->last == range && look_around(arena, group).n_uncommitted == HUGE_GROUPS * 64) {
                splits->n--;
                splits->last = 0;
        }
        return n;
}

void shm_pages_add_splits(ShmArena *arena, const ShmSplits *splits) {
        if (splits->n > 0)
                shm_hint_add(&arena->header->counters[SHM_TOTAL_SPLIT].value, splits->n);
}

/* Goes down to the next group that may have FREE slabs. False: this word of 64 groups has none, and is skipped. */
static bool go_down(ShmTrim *trim, const ShmArena *arena) {
        uint32_t last = trim->group - 1;
        uint64_t groups = shm_set_groups(arena, SHM_SET_FREE, last / 64) & UINT64_MAX >> (63 - last % 64);

        trim->group = last / 64 * 64 + (groups == 0 ? 0 : 63 - (uint32_t) __builtin_clzll(groups));
        return groups != 0;
}

/* Drops the FREE slabs of the group, except those to be kept. Returns how many bits of `free` it had. */
static uint32_t trim_group(ShmActor *control, ShmTrim *trim, uint32_t keep) {
        uint64_t mask = shm_set_group(control->arena, SHM_SET_FREE, trim->group);
        uint32_t n = (uint32_t) __builtin_popcountll(mask);
        Around around = {};

        if (control->arena->huge)
                around = look_around(control->arena, trim->group);
        if (trim->whole && (!around.is_whole || around.n_free + around.n_uncommitted < HUGE_GROUPS * 64))
                return 0;
        trim->n_free -= n < trim->n_free ? n : trim->n_free;
        for (; trim->n_free < keep && mask != 0; trim->n_free++)
                mask &= mask - 1; /* the lowest stay */
        if (mask != 0)
                trim->n_dropped += shm_pages_drop_counted(control, &trim->splits, trim->group, mask);
        return n;
}

bool shm_pages_trim_step(ShmActor *control, ShmTrim *trim, uint32_t keep, uint32_t budget) {
        uint64_t mask;
        uint32_t group;

        while (shm_slab_walk_group(&trim->count, control->arena, &budget, &group, &mask))
                trim->n_free += (uint32_t) __builtin_popcountll(mask);
        while (budget > 0 && trim->n_free > keep && (trim->group > 0 || pass_next(trim))) {
                uint32_t cost = 1;

                if (go_down(trim, control->arena))
                        cost += SHM_DROP_COST * trim_group(control, trim, keep);
                budget -= cost < budget ? cost : budget;
        }
        return shm_slab_walk_done(&trim->count) &&
               ((trim->group == 0 && !trim->whole) || trim->n_free <= keep);
}

uint32_t shm_pages_trim(ShmActor *control, uint32_t keep, uint32_t n_max) {
        ShmTrim trim;

        shm_pages_trim_begin(&trim, control->arena);
        while (trim.n_dropped < n_max && !shm_pages_trim_step(control, &trim, keep, 1))
                ;
        shm_pages_add_splits(control->arena, &trim.splits);
        return trim.n_dropped;
}
