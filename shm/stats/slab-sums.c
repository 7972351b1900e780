/*
 * Sums over slabs
 *
 * Purpose: a count of a large pool takes time by the number of slabs that changed since the last one, not by the
 *   number of all slabs.
 *
 * Invariants
 *   1. The sums are those of `seen`, at every moment: a slab that has changed is taken out of them as it was counted,
 *      and added as it is. So no count is taken in twice, and no error outlives the next look at the slab.
 *   2. A group is looked at if its mark is set (shm/slab/changed.h), and each walk looks at RENEWED_GROUPS more,
 *      by turns: so the damage that a stray write does to the marks is gone after some walks, too.
 *   3. The words that are read may be garbage: a slab whose class or epoch does not exist has pages, and is in no sum.
 *
 * Who may do what: one process clears the marks, which is the daemon; it reads words, and writes only to the marks.
 *
 * Crash: the next daemon begins with sums of zeros, and sets all marks.
 */
#include "shm/stats/slab-sums.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "shm/slab/changed.h"
#include "shm/slab/slab.h"

#define RENEWED_GROUPS 16U /* for each walk */

/* The content of `seen`: a kind, the number of slots taken, and class, epoch and era as in the slab word. */
enum {
        SEEN_NO_PAGES, /* no sum has it; all else of the digest is 0, as in fresh memory */
        SEEN_FREE,
        SEEN_NO_SUM, /* BUSY, or garbage: its page counts, and no more */
        SEEN_IN_USE,
};
#define SEEN_KIND 3U
#define SEEN_TAKEN_SHIFT 2
#define SEEN_KEY_SHIFT 9
static_assert(SHM_SLOTS_MAX < 1 << (SEEN_KEY_SHIFT - SEEN_TAKEN_SHIFT), "a slab's slots fit a digest");
static_assert(SLAB_KEY_MASK >> SLAB_CLASS_SHIFT << SEEN_KEY_SHIFT <= UINT32_MAX, "so does its key");

static inline uint32_t digest_kind(const ShmArena *arena, SlabWord w) {
        SlabState state = slab_word_state(w);

        if (state == SLAB_UNCOMMITTED || state >= _SLAB_STATE_N)
                return SEEN_NO_PAGES;
        if (state == SLAB_FREE)
                return SEEN_FREE;
        return state == SLAB_BUSY || slab_word_class(w) >= arena->n_classes ||
                               slab_word_epoch(w) >= arena->n_epochs
                       ? SEEN_NO_SUM
                       : SEEN_IN_USE;
}

static inline uint32_t digest_word(const ShmArena *arena, SlabWord w) {
        uint32_t kind = digest_kind(arena, w);
        const ShmClass *class = shm_slab_class(arena, w);
        uint64_t bits = w.low & ~class->tail_mask;
        uint32_t taken = bits == ~class->tail_mask ? class->n_slots : (uint32_t) __builtin_popcountll(bits);

        return kind != SEEN_IN_USE
                       ? kind
                       : kind | taken << SEEN_TAKEN_SHIFT |
                                 (uint32_t) ((w.high & SLAB_KEY_MASK) >> SLAB_CLASS_SHIFT) << SEEN_KEY_SHIFT;
}

/* `sign`: 1, or -1 to take it out. */
static void sum_slab(ShmSlabSums *sums, uint32_t seen, int64_t sign) {
        uint32_t kind = seen & SEEN_KIND;
        SlabWord w = { .high = (uint64_t) (seen >> SEEN_KEY_SHIFT) << SLAB_CLASS_SHIFT };
        uint64_t taken = (seen >> SEEN_TAKEN_SHIFT) % (1U << (SEEN_KEY_SHIFT - SEEN_TAKEN_SHIFT));
        uint64_t n = (uint64_t) sign * taken, size = n * shm_slab_class(sums->arena, w)->size;
        ShmEraSum *era;
        ShmSlabSum *sum;

        sums->committed += kind != SEEN_NO_PAGES ? (uint64_t) sign : 0;
        sums->free += kind == SEEN_FREE ? (uint64_t) sign : 0;
        if (kind != SEEN_IN_USE)
                return;
        era = shm_slab_sums_era(sums, slab_word_epoch(w), slab_word_era(w));
        sum = shm_slab_sums_of(sums, slab_word_epoch(w), slab_word_class(w));
        sum->slabs += (uint64_t) sign;
        sum->taken += n;
        sum->taken_size += size;
        era->slabs += (uint32_t) sign;
        era->taken += (uint32_t) n;
        era->taken_size += size;
}

/*
 * The number of slabs that were ever committed is read after the mark was cleared: words above it change later, and
 * that sets the mark again. It is of the arena, and so may be less now than when the group was chosen.
 */
static void sum_group(ShmSlabSums *sums, uint32_t group) {
        uint32_t slab = group * SHM_CHANGED_SLABS, end = shm_arena_n_slabs_ever(sums->arena);

        end = end < slab + SHM_CHANGED_SLABS ? end : slab + SHM_CHANGED_SLABS;
        for (; slab < end; slab++) {
                uint32_t now = digest_word(sums->arena, shm_slab_word(sums->arena, slab));

                if (now == sums->seen[slab])
                        continue;
                sum_slab(sums, sums->seen[slab], -1);
                sum_slab(sums, now, 1);
                sums->seen[slab] = now;
        }
}

static uint32_t sums_n_groups(const ShmSlabSums *sums) {
        return (shm_arena_n_slabs_ever(sums->arena) + SHM_CHANGED_SLABS - 1) / SHM_CHANGED_SLABS;
}

/* From this group on, as far as the word of marks goes, the groups that the walk counts. */
static uint64_t sums_wanted(const ShmSumsWalk *walk, const ShmSlabSums *sums) {
        uint64_t marks = shm_changed_groups(sums->arena, walk->group / 64);

        for (uint32_t group = walk->renew_from; group < walk->renew_to; group++)
                if (group / 64 == walk->group / 64)
                        marks |= UINT64_C(1) << group % 64;
        return marks & UINT64_MAX << walk->group % 64;
}

bool shm_slab_sums_step(ShmSumsWalk *walk, ShmSlabSums *sums, uint32_t *budget) {
        uint32_t end = sums_n_groups(sums);

        while (*budget > 0 && walk->group < end) {
                uint64_t wanted = sums_wanted(walk, sums);
                uint32_t cost = 1;

                walk->group = walk->group / 64 * 64 + (wanted ? (uint32_t) __builtin_ctzll(wanted) : 64);
                if (wanted && walk->group < end) {
                        shm_changed_take(sums->arena, walk->group);
                        sum_group(sums, walk->group++);
                        cost = SHM_CHANGED_SLABS;
                }
                *budget -= cost < *budget ? cost : *budget;
        }
        return walk->group >= end;
}

void shm_slab_sums_begin(ShmSumsWalk *walk, ShmSlabSums *sums) {
        if (sums->renewed >= sums_n_groups(sums))
                sums->renewed = 0;
        *walk = (ShmSumsWalk){ .renew_from = sums->renewed, .renew_to = sums->renewed + RENEWED_GROUPS };
        sums->renewed = walk->renew_to;
}

static size_t size_of_seen(const ShmArena *arena) {
        return arena->n_slabs * sizeof(uint32_t);
}

static size_t size_of_eras(const ShmArena *arena) {
        return (size_t) arena->n_epochs * (SLAB_ERA_BITS + 1) * sizeof(ShmEraSum);
}

/* Zeros that take no memory before they are written, which calloc() does not promise. NULL: there is none. */
static void *map_zeros(size_t size) {
        void *zeros = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        return zeros == MAP_FAILED ? NULL : zeros;
}

int shm_slab_sums_init(ShmSlabSums *sums, const ShmArena *arena) {
        *sums = (ShmSlabSums){ .arena = arena };
        sums->seen = map_zeros(size_of_seen(arena));
        sums->eras = map_zeros(size_of_eras(arena));
        sums->of = calloc((size_t) arena->n_epochs * arena->n_classes, sizeof(*sums->of));
        if (!sums->seen || !sums->eras || !sums->of) {
                shm_slab_sums_deinit(sums);
                return -ENOMEM;
        }
        for (uint32_t i = 0; i * 64 < sums_n_groups(sums); i++)
                (void) shm_or_sc(&arena->changed[i], UINT64_MAX); /* ORDER: sc; no group was counted. */
        return 0;
}

void shm_slab_sums_deinit(ShmSlabSums *sums) {
        if (sums->seen)
                (void) munmap(sums->seen, size_of_seen(sums->arena));
        if (sums->eras)
                (void) munmap(sums->eras, size_of_eras(sums->arena));
        free(sums->of);
        *sums = (ShmSlabSums){};
}
