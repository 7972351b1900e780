/*
 * Tags of slabs without pages
 *
 * Purpose: gives the tags of UNCOMMITTED slabs back to the system, and yet keeps stale handles stale. A slab's floor
 *   says where its versions go on. It takes 4 bytes in the slab's line, instead of 256.
 *
 * Invariants
 *   1. If `tag_floor` is odd, the slab's tags count, and have a page. If it is even, the tags count for nothing, and
 *      their page may be gone; at the next commit all of them become the floor. The floor is odd from before the slab
 *      is FREE until it is BUSY again, and may stay so without its pages: of the first slabs (shm/slab/pages.c), or by
 *      2.
 *   2. A floor is no earlier than any tag that it stands for. Versions wrap around, so `earlier` means something only
 *      for tags that are close to each other. Slabs whose tags are too far apart get no floor, and keep their page.
 *   3. Only the holder of the BUSY slab changes its floor, and its tags at that time. No other thread can: the tags are
 *      even, or zeros in a page that a late access made, and each compare-and-set of a tag, of 4 bytes or of 16,
 *      expects an odd one.
 *   4. A page of tags is dropped by an actor that holds all its slabs BUSY, after they got floors (shm/slab/pages.c).
 *
 * A floor is up to SPREAD_MAX ahead of a tag that it stands for, and never ahead of the tag of the slab's most used
 * slot. So a handle fits again, at the earliest, once 2^31 - SPREAD_MAX / 2 objects were made in its slab.
 *
 * Who may do what: see 3 and 4. Anybody may read a tag at any time; a page that is gone reads as zeros, no live object.
 *
 * Crash: one store of the floor decides whether the tags or the floor count. Both are valid before it and after it:
 *   tags are stored before the floor becomes odd, and their page goes after the floor became even. So repair leaves
 *   both as they are.
 */
#include "shm/slab/tags.h"

#define SPREAD_MAX (INT64_C(1) << 28)
#define TAGS_COUNT UINT32_C(1)

/* The number of tags in use: the smallest class has the most slots, and tags above that are never used. */
static uint32_t n_tags(const ShmArena *arena) {
        return arena->classes[0].n_slots;
}

static void tags_widen_arc(int32_t ahead, int32_t *low, int32_t *high) {
        *low = ahead < *low ? ahead : *low;
        *high = ahead > *high ? ahead : *high;
}

/*
 * Finds the even version that is not earlier than any tag. False: the tags are too far apart. It reads two tags at a
 * time.
 */
static bool tags_floor(const ShmArena *arena, uint32_t slab, uint32_t *ret) {
        const uint64_t *pairs = (const uint64_t *) arena->tags[slab].tag;
        /* ORDER: rlx; the word says that no slot is taken. */
        uint32_t first = (uint32_t) shm_load_rlx(&pairs[0]);
        uint32_t n = n_tags(arena);
        int32_t low = 0, high = 0;

        for (uint32_t i = 0; i < n; i += 2) {
                uint64_t pair = shm_load_rlx(&pairs[i / 2]); /* ORDER: rlx; the same. */

                tags_widen_arc((int32_t) ((uint32_t) pair - first), &low, &high);
                if (i + 1 < n)
                        tags_widen_arc((int32_t) ((uint32_t) (pair >> 32) - first), &low, &high);
        }
        if ((int64_t) high - low > SPREAD_MAX)
                return false;
        *ret = (first + (uint32_t) high + 1) & ~TAGS_COUNT;
        return true;
}

bool shm_tags_put_away(const ShmArena *arena, uint32_t slab) {
        uint32_t *floor = &arena->lines[slab].tag_floor, new;

        if (!(shm_load_rlx(floor) & TAGS_COUNT)) /* ORDER: rlx; the holder's alone. */
                return true;
        if (!tags_floor(arena, slab, &new))
                return false;
        shm_store_rel(floor, new); /* ORDER: rel; the tags were read before, and go after it. */
        return true;
}

bool shm_tags_count(const ShmArena *arena, uint32_t slab, uint32_t n) {
        /* ORDER: rlx; the holder's alone. */
        while (n > 0 && shm_load_rlx(&arena->lines[slab + n - 1].tag_floor) & TAGS_COUNT)
                n--;
        return n == 0;
}

void shm_tags_bring_back(const ShmArena *arena, uint32_t slab) {
        uint32_t *at = &arena->lines[slab].tag_floor,
                 floor = shm_load_rlx(at); /* ORDER: rlx; the holder's alone. */

        if (floor & TAGS_COUNT)
                return;
        for (uint32_t i = 0; i < n_tags(arena); i++)
                shm_store_rlx(&arena->tags[slab].tag[i], floor); /* ORDER: rlx; ordered by the floor. */
        shm_store_rel(at, floor | TAGS_COUNT); /* ORDER: rel; the tags are stored before they count. */
}
