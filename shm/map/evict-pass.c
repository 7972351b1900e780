/*
 * Maps: passes of eviction
 *
 * Purpose: looks at slots that a hand passes, and deletes entries that go (shm/map/evict.c).
 *
 * Invariants
 *   1. An entry is deleted by its version. What the hand decided on was an entry of this map, and goes only if it is
 *      still that.
 *   2. All else here is a hint. A visit or a young bit that is lost, or is another entry's, costs an entry its turn.
 *   3. A search ends after a few sweeps: the second finds what the first has cleared.
 *
 * Who may do what: a put, with its own actor, outside any operation, before it has a leaf.
 *
 * Crash: see trie-walk.c; of the hand, see evict-hand.c.
 */
#include "shm/map/evict-pass.h"

#include "shm/cache/cache.h"
#include "shm/map/tally.h"
#include "shm/map/unlink.h"
#include "shm/slab/slab.h"

/* A thread's cache of a class that the map evicts from: one of so many bytes of the map. */
#define KEPT_SHARE 1024
#define CHOICE_MAX 8 /* slabs of which the one with least visits is emptied */

/* Whether the slot has a live leaf that says that it is of this map; the map may not hold it any more. */
static bool view_leaf(const ShmTrie *trie, SlotId id, ShmMapView *ret) {
        ShmArena *arena = trie->arena;
        /* ORDER: acq, pairs with shm_uncached_free(); before what is in the slot. */
        uint32_t tag = shm_load_acq(shm_slot_tag(arena, id));

        return (tag & 1) && shm_map_view(arena, shm_handle_make(arena->key, id, tag), ret) == 0 &&
               ret->head.map == trie->map && shm_map_view_live(arena, ret);
}

/* Those slots of the mask that are this map's, in a slab that others use, too. */
static uint64_t own_slots(const ShmTrie *trie, uint32_t slab, uint64_t mask) {
        uint64_t own = 0;
        ShmMapView view;

        /* ORDER: rlx; a hint. */
        if (shm_load_rlx(&trie->arena->lines[slab].maps) == UINT64_C(1) << (trie->map - 1))
                return mask;
        for (; mask != 0; mask &= mask - 1) {
                SlotId id = slot_id(slab, (uint32_t) __builtin_ctzll(mask));

                if (view_leaf(trie, id, &view))
                        own |= slot_id_mask(id);
        }
        return own;
}

/* The slots that are in use, of a slab with entries of the map. False: it is of another class, or key. */
static bool slab_slots(const ShmTrie *trie, uint32_t slab, uint32_t class, uint64_t key, uint64_t *ret) {
        SlabWord w;

        /* ORDER: rlx; a hint. */
        if (!(shm_load_rlx(&trie->arena->lines[slab].maps) >> (trie->map - 1) & 1))
                return false;
        w = shm_slab_word(trie->arena, slab);
        *ret = w.low & ~shm_slab_class(trie->arena, w)->tail_mask;
        return *ret != 0 && slab_word_class(w) == class &&
               (key == ANY_KEY || (w.high & SLAB_KEY_MASK) == key);
}

/* One step of a hand. */
typedef struct Step {
        ShmHand from, to;
        uint32_t slab;
        uint64_t passed; /* slots of it */
        uint64_t young; /* slots of these that were filled in this sweep */
        uint64_t spared; /* slots of these that were visited */
        uint64_t victim; /* one of them, or 0 */
} Step;

/* In the slab that the hand is at, it passes all slots up to a victim, or to the last one. */
static void step_in_slab(const ShmTrie *trie, ShmHand h, uint64_t slots, Step *ret) {
        const ShmSlabLine *line = &trie->arena->lines[h.slab];
        uint64_t young = shm_load_rlx(&line->young[(h.sweep & 1) ^ h.young]); /* ORDER: rlx; a hint. */
        uint64_t visited = shm_load_rlx(&line->visited); /* ORDER: rlx; a hint. */
        uint64_t ahead = UINT64_MAX << h.slot, looked_at = ahead & slots & (h.young ? young : ~young);
        uint64_t victims = looked_at & ~visited;

        ret->slab = h.slab;
        ret->victim = victims & -victims;
        ret->passed = ret->victim ? ahead & (ret->victim | (ret->victim - 1)) : ahead;
        ret->young = h.young ? 0 : slots & young & ret->passed;
        ret->spared = looked_at & visited & ret->passed;
        h.slot = ret->victim ? (uint32_t) __builtin_ctzll(ret->victim) + 1 : SHM_SLOTS_MAX;
        if (h.slot == SHM_SLOTS_MAX) {
                h.slab++;
                h.slot = 0;
        }
        ret->to = h;
}

/* The first slab from `slab` on in a range that has, or had, entries of the map; UINT32_MAX: there is none. */
static uint32_t range_slab(const ShmTrie *trie, uint32_t slab) {
        uint32_t shift = range_shift(trie->arena), range = slab >> shift;

        while (range < SHM_MAP_RANGES) {
                /* ORDER: rlx; a hint. */
                uint64_t left = shm_load_rlx(&state_of(trie)->ranges[range / 64]) >> range % 64;

                if (left & 1)
                        return slab;
                range = left ? range + (uint32_t) __builtin_ctzll(left) : (range / 64 + 1) * 64;
                slab = range << shift;
        }
        return UINT32_MAX;
}

/* From the hand to the end of the next slab. False: none is left. */
static bool step_plan(const ShmTrie *trie, ShmHand h, uint32_t class, uint64_t key, Step *ret) {
        uint32_t n_slabs = shm_arena_n_slabs_ever(trie->arena), slab;
        uint64_t slots;

        ret->from = h;
        for (; (slab = range_slab(trie, h.slab)) < n_slabs; h.slab = slab + 1, h.slot = 0) {
                if (slab != h.slab)
                        h = (ShmHand){ h.sweep, slab, 0, h.young };
                if (slab_slots(trie, slab, class, key, &slots)) {
                        step_in_slab(trie, h, slots, ret);
                        return true;
                }
        }
        return false;
}

/* After the hand was moved. Slots that it passed are not young any more, and those that it spared not visited. */
static void step_end(const ShmTrie *trie, uint32_t class, const Step *step) {
        ShmSlabLine *line = &trie->arena->lines[step->slab];
        uint64_t *old = &line->young[!(step->from.sweep & 1)];
        uint64_t aged = shm_load_rlx(old) & step->passed; /* ORDER: rlx; a hint. */
        uint64_t own = own_slots(trie, step->slab, aged | step->spared);

        bits_clear(old, own & aged);
        bits_clear(&line->visited, own & step->spared);
        if (!step->from.young && (own & step->spared) | step->young)
                /* ORDER: rlx; a hint. */
                (void) shm_add_rlx(&hand_of(trie, class)->passed,
                                   (uint32_t) __builtin_popcountll((own & step->spared) | step->young));
}

/* An entry that may go. Claims end by themselves. What looks like a leaf can be what one left in a chunk's slot. */
static bool find_victim(const ShmTrie *trie, SlotId id, uint64_t old, ShmMapView *view, ShmTrieCursor *c) {
        return view_leaf(trie, id, view) && !(view->head.flags & SHM_LEAF_CLAIM) && view->handle != old &&
               shm_map_find_leaf(trie, view, c);
}

uint64_t shm_evict_slot(ShmActor *actor, const ShmTrie *trie, SlotId id, uint64_t old) {
        ShmTrieCursor c;
        ShmMapView view;

        if (!find_victim(trie, id, old, &view, &c))
                return 0;
        if (shm_map_unlink(actor, trie, &view, &c, SHM_MAP_EVICTIONS) != 0)
                return 0;
        return shm_map_view_cost(trie->arena, &view);
}

/*
 * The hand has come to the end. It waits there for those of other classes: the first that went on would decide of which
 * kind the next sweep is before these have counted, and full sweeps of all classes would follow each other.
 */
static bool step_is_last(const ShmTrie *trie, const Step *step) {
        return step->to.slab >= shm_arena_n_slabs_ever(trie->arena);
}

static void count_evicted(const ShmTrie *trie, uint32_t class) {
        (void) shm_add_rlx(&hand_of(trie, class)->evicted, 1); /* ORDER: rlx; a hint. */
        (void) shm_add_rlx(&hand_of(trie, class)->passed, 1); /* ORDER: rlx; a hint. */
}

/*
 * A thread keeps little of what it made free for puts of other classes: these need memory, and in the order of a sweep
 * all classes have their turn. Else caches grow as where one class is allocated and freed by turns: in a map of 16 MiB
 * with values of 64 bytes to 8 KiB a 16th of all memory was in one thread's caches.
 */
static void keep_few(ShmActor *actor, const ShmTrie *trie, uint32_t slab) {
        SlabWord w = shm_slab_word(trie->arena, slab);

        shm_cache_shorten(actor, w.high & SLAB_KEY_MASK, shm_map_bytes(trie) / KEPT_SHARE);
}

uint64_t shm_evict_next(ShmActor *actor, const ShmTrie *trie, uint32_t class, uint64_t key, uint32_t n,
                        uint64_t old) {
        uint64_t w = hand_load(trie, class), cost = 0;
        Step step;

        while (cost == 0 && n > 0) {
                if (!step_plan(trie, hand_unpack(w), class, key, &step)) {
                        shm_hand_end(trie, class, &w);
                        n--;
                } else if (shm_hand_move(trie, class, &w, hand_pack(step.to))) {
                        step_end(trie, class, &step);
                        if (step.victim != 0)
                                cost = shm_evict_slot(
                                        actor, trie,
                                        slot_id(step.slab, (uint32_t) __builtin_ctzll(step.victim)), old);
                        n -= step_is_last(trie, &step);
                }
        }
        if (cost != 0) {
                count_evicted(trie, class);
                keep_few(actor, trie, step.slab);
        }
        return cost;
}

/* As many ends as a search over all classes has. */
static uint32_t ends_of_all(const ShmTrie *trie) {
        return (uint32_t) __builtin_popcountll(classes_in_use(trie)) * ENDS_MAX;
}

uint64_t shm_evict_any(ShmActor *actor, const ShmTrie *trie, uint64_t old) {
        uint32_t n_ends = ends_of_all(trie);
        uint64_t cost = 0;

        for (uint32_t i = 0; i < n_ends && cost == 0; i++)
                cost = shm_evict_next(actor, trie, shm_hand_next_class(trie), ANY_KEY, 1, old);
        return cost;
}

/* A slab that had entries may have none by now: only chunks, or slots in caches. */
static bool has_victims(const ShmTrie *trie, uint32_t slab, uint64_t slots, uint64_t old) {
        ShmTrieCursor c;
        ShmMapView view;

        for (; slots != 0; slots &= slots - 1)
                if (find_victim(trie, slot_id(slab, (uint32_t) __builtin_ctzll(slots)), old, &view, &c))
                        return true;
        return false;
}

/*
 * The slab, among the next few with entries that have another key, which has least visits; UINT32_MAX: that was the
 * last one.
 */
static uint32_t choose_slab(const ShmTrie *trie, uint32_t class, uint64_t key, uint32_t from, uint64_t old) {
        uint32_t n_slabs = shm_arena_n_slabs_ever(trie->arena), best = UINT32_MAX, least = UINT32_MAX, n = 0;
        uint64_t slots;

        for (uint32_t slab = from; (slab = range_slab(trie, slab)) < n_slabs && n < CHOICE_MAX; slab++) {
                uint32_t visits;

                if (!slab_slots(trie, slab, class, ANY_KEY, &slots) ||
                    slab_slots(trie, slab, class, key, &slots) || !has_victims(trie, slab, slots, old))
                        continue;
                /* ORDER: rlx; a hint. */
                visits = (uint32_t) __builtin_popcountll(shm_load_rlx(&trie->arena->lines[slab].visited) &
                                                         slots);
                if (visits < least) {
                        least = visits;
                        best = slab;
                }
                n++;
        }
        return best;
}

uint32_t shm_evict_take_slab(const ShmTrie *trie, uint64_t key, uint64_t old) {
        uint32_t n_ends = ends_of_all(trie);

        while (n_ends > 0) {
                uint32_t class = shm_hand_next_class(trie), slab;
                uint64_t w = hand_load(trie, class);
                ShmHand h = hand_unpack(w);

                slab = choose_slab(trie, class, key, h.slab, old);
                h.slab = slab + 1;
                h.slot = 0;
                if (slab == UINT32_MAX) {
                        shm_hand_end(trie, class, &w);
                        n_ends--;
                } else if (shm_hand_move(trie, class, &w, hand_pack(h))) {
                        return slab;
                }
        }
        return UINT32_MAX;
}
