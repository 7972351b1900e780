/*
 * Maps: passes of eviction
 *
 * Purpose: looks at the slots that a hand passes, and deletes the entries that it does not spare (evict.c).
 *
 * Invariants
 *   1. An entry is deleted by its version, and only if the map has it. A hand chooses a slot; if another entry came to
 *      this slot since, it is spared if it was put in the sweep under way.
 *   2. All else here is a hint. If a visited or young bit is lost, or was set for another entry, an entry is evicted
 *      too early or too late.
 *   3. A search ends after a few sweeps: the first one clears the visited bits, so the second one finds entries. It
 *      also ends after LOOKS_MAX slabs, unless the put would fail then.
 *
 * Who may do what: a put, with its own actor, outside any operation, before it has a leaf.
 *
 * Crash: see trie-walk.c; of the hand, see evict-hand.c.
 */
#include "shm/map/evict/evict-pass.h"

#include "shm/arch/probe.h"
#include "shm/cache/cache.h"
#include "shm/map/evict/evict-from.h"
#include "shm/map/state/lifetime.h"
#include "shm/map/state/tally.h"
#include "shm/map/state/unlink.h"
#include "shm/map/trie/trie-move.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"

/* The share of the map's bytes that a thread keeps in its cache of a class that it evicts from. */
#define KEPT_SHARE 1024
#define VICTIM_LOOKS 20U /* a slot without a victim, such as a claim, counts as so many slabs */
#define FORGET_LOOKS 4U /* so does a slab that is taken out of the map's set */
#define OTHERS_MAX                                                                                           \
        16U /* slabs looked at, at most, for one that has free slots: bits of others may be in the set */
#define CHOICE_MAX 8 /* slabs, of which the one with the fewest visited entries is emptied */

/* Whether the slot has a live leaf that names this map. The map need not hold it any more. */
static bool view_leaf(const ShmTrie *trie, SlotId id, ShmMapView *ret) {
        ShmArena *arena = trie->arena;
        /* ORDER: acq, pairs with shm_uncached_free(); the tag is read before the object. */
        uint32_t tag = shm_load_acq(shm_slot_tag(arena, id));

        return (tag & 1) && shm_map_view(arena, shm_handle_make(arena->key, id, tag), ret) == 0 &&
               ret->head.map == trie->map && shm_map_view_live(arena, ret);
}

/* The slots of the mask that have leaves of this map: other maps may have entries in the slab, too. */
static uint64_t own_slots(const ShmTrie *trie, uint32_t slab, uint64_t mask) {
        uint64_t own = 0;
        ShmMapView view;

        if (trie->map <= SHM_SET_OWN_BITS &&
            shm_hint_load(&trie->arena->lines[slab].maps) == shm_set_line_bit(trie->map))
                return mask;
        for (; mask != 0; mask &= mask - 1) {
                SlotId id = slot_id(slab, (uint32_t) __builtin_ctzll(mask));

                if (view_leaf(trie, id, &view))
                        own |= slot_id_mask(id);
        }
        return own;
}

/* *ret: the taken slots of a slab. False: there are none, or it has another class or key. */
static bool slab_slots(const ShmTrie *trie, uint32_t slab, uint32_t class, uint64_t key, uint64_t *ret) {
        SlabWord w = shm_slab_word(trie->arena, slab);

        *ret = w.low & ~shm_slab_class(trie->arena, w)->tail_mask;
        return *ret != 0 && slab_word_class(w) == class &&
               (key == ANY_KEY || (w.high & SLAB_KEY_MASK) == key);
}

/* Whether the slab has an entry of this map. */
static bool has_leaves(const ShmTrie *trie, uint32_t slab) {
        uint64_t slots = shm_slab_word(trie->arena, slab).low;
        ShmMapView view;

        for (; slots != 0; slots &= slots - 1)
                if (view_leaf(trie, slot_id(slab, (uint32_t) __builtin_ctzll(slots)), &view))
                        return true;
        return false;
}

/* Takes the slab out of the map's set if it has no entries: see shm/map/evict/evict.c, invariant 3. */
static void forget_slab(const ShmTrie *trie, uint32_t slab) {
        if (has_leaves(trie, slab))
                return;
        shm_set_forget(trie->arena, trie->map, slab);
        if (has_leaves(trie, slab))
                shm_set_add_for_map(trie->arena, trie->map, slab);
}

/* Whether no entry of the map can be in the slab: none of `slots` is taken, or the map never had one of its class. */
static bool is_foreign(const ShmTrie *trie, uint32_t slab, uint64_t slots) {
        return slots == 0 || !(classes_in_use(trie) >> slab_word_class(shm_slab_word(trie->arena, slab)) & 1);
}

/* The first slot of the mask that has a leaf of this map, as a mask; 0: there is none. */
static uint64_t first_own(const ShmTrie *trie, uint32_t slab, uint64_t mask) {
        ShmMapView view;

        for (; mask != 0; mask &= mask - 1)
                if (view_leaf(trie, slot_id(slab, (uint32_t) __builtin_ctzll(mask)), &view))
                        return mask & -mask;
        return 0;
}

/* One step of a hand. */
typedef struct Step {
        ShmHand from, to;
        uint32_t slab;
        uint64_t passed; /* mask of the slots that the hand passes */
        uint64_t young; /* the passed slots that were filled in this sweep */
        uint64_t spared; /* the passed slots whose entries were visited */
        uint64_t victim; /* the passed slot whose entry is to be evicted, or 0 */
        bool whole; /* it passes all slots of the slab, without a victim */
} Step;

/* Whether other slabs that entries of this class can be put into have free slots. */
static bool has_other_slabs(const ShmArena *arena, uint32_t slab, SlabWord w) {
        uint32_t set = shm_set_partial(arena, slab_word_epoch(w), slab_word_class(w)), other = 0;

        for (uint32_t n = 0; n < OTHERS_MAX && shm_set_find(arena, set, other, &other); n++, other++)
                if (other != slab && shm_set_wants(arena, set, shm_slab_word(arena, other)))
                        return true;
        return false;
}

/* Whether the slots have entries of this map alone, which take less memory than the slab has free. */
static bool are_worth_less(const ShmTrie *trie, uint32_t slab, uint64_t slots) {
        const ShmClass *class = shm_slab_class(trie->arena, shm_slab_word(trie->arena, slab));
        uint64_t n_free = class->n_slots - (uint64_t) __builtin_popcountll(slots), cost = 0;
        ShmMapView view;

        for (; slots != 0 && cost < n_free * class->share; slots &= slots - 1) {
                if (!view_leaf(trie, slot_id(slab, (uint32_t) __builtin_ctzll(slots)), &view))
                        return false;
                cost += shm_map_view_cost(trie->arena, &view);
        }
        return cost < n_free * class->share;
}

/*
 * Whether the slab is to lose all entries, also those that were used: it has few, and others of its class have room for
 * new ones. Else a few such entries would keep many slabs after the sizes of entries have changed.
 */
static bool is_to_be_emptied(const ShmTrie *trie, uint32_t slab, uint64_t slots) {
        SlabWord w = shm_slab_word(trie->arena, slab);

        return slab_word_is_sparse(w) && slab_word_epoch(w) < trie->arena->n_epochs &&
               slab_word_class(w) < trie->arena->n_classes && has_other_slabs(trie->arena, slab, w) &&
               are_worth_less(trie, slab, slots);
}

/* In the slab that the hand is at, it passes all slots up to the first victim or, without one, up to the last slot. */
static void step_in_slab(const ShmTrie *trie, ShmHand h, uint64_t slots, Step *ret) {
        const ShmSlabLine *line = &trie->arena->lines[h.slab];
        uint64_t young = shm_hint_load(&line->young[(h.sweep & 1) ^ h.young]);
        uint64_t visited = shm_hint_load(&line->visited);
        uint64_t ahead = UINT64_MAX << h.slot, looked_at = ahead & slots & (h.young ? young : ~young);
        uint64_t victims = looked_at & ~visited;

        if (__builtin_expect(is_to_be_emptied(trie, h.slab, slots), 0))
                victims = ahead & slots & ~shm_hint_load(&line->young[h.sweep & 1]);
        ret->slab = h.slab;
        ret->victim = first_own(trie, h.slab, victims);
        ret->whole = h.slot == 0 && ret->victim == 0;
        ret->passed = ret->victim ? ahead & (ret->victim | (ret->victim - 1)) : ahead;
        ret->young = h.young ? 0 : slots & young & ret->passed;
        ret->spared = looked_at & visited & ret->passed & ~ret->victim;
        h.slot = ret->victim ? (uint32_t) __builtin_ctzll(ret->victim) + 1 : SHM_SLOTS_MAX;
        if (h.slot == SHM_SLOTS_MAX) {
                h.slab++;
                h.slot = 0;
        }
        ret->to = h;
}

/* The first slab from `slab` on that has, or had, entries of the map; UINT32_MAX: there is none. */
static uint32_t next_slab(const ShmTrie *trie, uint32_t slab) {
        return shm_set_find(trie->arena, shm_set_of_map(trie->arena, trie->map), slab, &slab) ? slab
                                                                                              : UINT32_MAX;
}

/*
 * Plans the hand's step in the next slab that it has to look at or, if *looks falls to 0 before that, up to the slab
 * that it has come to. False: no slab is left.
 */
static bool step_plan(const ShmTrie *trie, ShmHand h, uint32_t class, uint64_t key, uint64_t *looks,
                      Step *ret) {
        uint32_t n_slabs = shm_arena_n_slabs_ever(trie->arena), slab;
        uint64_t slots;

        ret->from = h;
        for (; (slab = next_slab(trie, h.slab)) < n_slabs; h.slab = slab + 1, h.slot = 0) {
                if (slab != h.slab)
                        h = (ShmHand){ h.sweep, slab, 0, h.young };
                if (*looks == 0) {
                        *ret = (Step){ .from = ret->from, .to = h, .slab = slab };
                        return true;
                }
                --*looks;
                if (slab_slots(trie, slab, class, key, &slots)) {
                        step_in_slab(trie, h, slots, ret);
                        return true;
                }
                if (is_foreign(trie, slab, slots)) {
                        forget_slab(trie, slab);
                        *looks -= *looks < FORGET_LOOKS ? *looks : FORGET_LOOKS;
                }
        }
        return false;
}

/* After the hand was moved: clears the young bits of the slots that it passed, and the visited bits of those spared. */
static void step_end(const ShmTrie *trie, uint32_t class, const Step *step) {
        ShmSlabLine *line = &trie->arena->lines[step->slab];
        uint64_t *old = &line->young[!(step->from.sweep & 1)];
        uint64_t aged = shm_hint_load(old) & step->passed;
        uint64_t own = own_slots(trie, step->slab, aged | step->spared);

        bits_clear(old, own & aged);
        bits_clear(&line->visited, own & step->spared);
        if (step->whole)
                forget_slab(trie, step->slab);
        if (!step->from.young && (own & step->spared) | step->young)
                (void) shm_hint_add(&hand_of(trie, class)->passed,
                                    (uint32_t) __builtin_popcountll((own & step->spared) | step->young));
}

static bool is_standing_claim(const ShmTrie *trie, const ShmMapView *view) {
        ShmClaim claim;

        return shm_map_view_is_claim(view) && shm_map_load_claim(trie, view, &claim) &&
               shm_map_claim_stands(trie, &claim);
}

/*
 * Finds the entry in a slot, and its place in the trie, if it may be evicted. A claim that stands may not: it ends by
 * itself, and soon. One that was given up, or whose process died, may have a stale value for days. A slot of a chunk
 * may still have the bytes of an earlier leaf, so only the trie tells whether this is an entry.
 */
static bool find_victim(const ShmTrie *trie, SlotId id, uint64_t old, ShmMapView *view, ShmTrieCursor *c) {
        return view_leaf(trie, id, view) && view->handle != old && !is_standing_claim(trie, view) &&
               shm_map_find_leaf(trie, view, c);
}

static uint64_t evict_found(ShmActor *actor, const ShmTrie *trie, const ShmMapView *view, ShmTrieCursor *c) {
        if (shm_map_unlink(actor, trie, view, c, SHM_MAP_EVICTIONS) != 0)
                return 0;
        shm_probe(evict, shm_trie_name(trie), view->head.hash);
        return shm_map_view_cost(trie->arena, view);
}

uint64_t shm_evict_slot(ShmActor *actor, const ShmTrie *trie, SlotId id, uint64_t old) {
        ShmTrieCursor c;
        ShmMapView view;

        return find_victim(trie, id, old, &view, &c) ? evict_found(actor, trie, &view, &c) : 0;
}

/* Whether the entry in the slot was put in the sweep under way. */
static bool is_new(const ShmTrie *trie, uint32_t class, SlotId id) {
        uint32_t parity = hand_unpack(hand_load(trie, class)).sweep & 1;
        /* ORDER: rlx; set before the entry was linked, and it was found in the trie. */
        uint64_t young = shm_load_rlx(&trie->arena->lines[slot_id_slab(id)].young[parity]);

        return young >> slot_id_slot(id) & 1;
}

/*
 * Evicts the entry in the slot that the hand chose. Before this thread looks at it, another thread may have deleted it,
 * and put a new entry into the slot: that one stays.
 */
static uint64_t evict_chosen(ShmActor *actor, const ShmTrie *trie, uint32_t class, SlotId id, uint64_t old) {
        ShmTrieCursor c;
        ShmMapView view;
        uint64_t cost;

        if (!find_victim(trie, id, old, &view, &c) || is_new(trie, class, id))
                return 0;
        cost = evict_found(actor, trie, &view, &c);
        if (cost != 0)
                shm_trie_move(actor, trie, &c);
        return cost;
}

/* The hand has come to the end of the slabs: this is the first of the two ends of its sweep. */
static bool step_is_last(const ShmTrie *trie, const Step *step) {
        return step->to.slab >= shm_arena_n_slabs_ever(trie->arena);
}

static void count_evicted(const ShmTrie *trie, uint32_t class) {
        (void) shm_hint_add(&hand_of(trie, class)->evicted, 1);
        (void) shm_hint_add(&hand_of(trie, class)->passed, 1);
}

/*
 * Keeps the thread's cache for slots of this slab's class small: puts of other classes need the memory, too, and a
 * sweep evicts from all classes in turn. Otherwise caches would grow, as for a class that is allocated and freed in
 * turn: in a map of 16 MiB with values of 64 bytes to 8 KiB, a 16th of all memory was in the caches of one thread.
 */
static void keep_few(ShmActor *actor, const ShmTrie *trie, uint32_t slab) {
        SlabWord w = shm_slab_word(trie->arena, slab);

        shm_cache_shorten(actor, w.high & SLAB_KEY_MASK, shm_map_bytes(trie) / KEPT_SHARE);
}

/*
 * Moves the hand from *w to its next victim in a slab or past the slab, unless another thread has moved it. Returns the
 * cost of the entry that was evicted; 0: none was. *n falls by 1 if the hand comes to the end of the slabs, and *looks
 * with each slab.
 */
static uint64_t evict_step(ShmActor *actor, const ShmTrie *trie, uint32_t class, uint64_t key, uint64_t *w,
                           uint32_t *n, uint64_t *looks, uint64_t old) {
        uint64_t cost = 0;
        Step step;

        if (!step_plan(trie, hand_unpack(*w), class, key, looks, &step)) {
                shm_hand_end(trie, class, w);
                --*n;
        } else if (shm_hand_move(trie, class, w, hand_pack(step.to))) {
                if (step.victim != 0)
                        cost = evict_chosen(actor, trie, class,
                                            slot_id(step.slab, (uint32_t) __builtin_ctzll(step.victim)), old);
                if (step.victim != 0 && cost == 0)
                        *looks -= *looks < VICTIM_LOOKS ? *looks : VICTIM_LOOKS;
                step_end(trie, class, &step); /* last: it clears young bits */
                *n -= step_is_last(trie, &step);
        }
        if (cost != 0) {
                count_evicted(trie, class);
                keep_few(actor, trie, step.slab);
        }
        return cost;
}

uint64_t shm_evict_next(ShmActor *actor, const ShmTrie *trie, uint32_t class, uint64_t key, uint32_t n,
                        uint64_t looks, uint64_t old) {
        uint64_t w = hand_load(trie, class), cost = 0;

        while (cost == 0 && n > 0 && looks > 0)
                cost = evict_step(actor, trie, class, key, &w, &n, &looks, old);
        return cost;
}

/* The number of ends after which a search over all classes stops. */
static uint32_t ends_of_all(const ShmTrie *trie) {
        return (uint32_t) __builtin_popcountll(classes_in_use(trie)) * ENDS_MAX;
}

uint64_t shm_evict_any(ShmActor *actor, const ShmTrie *trie, uint64_t old) {
        uint64_t looks = LOOKS_MAX, cost = 0, w;
        uint32_t n_ends = ends_of_all(trie);

        while (cost == 0 && n_ends > 0 && looks > 0) {
                uint32_t class = shm_hand_next_class(trie, &w);

                cost = evict_step(actor, trie, class, ANY_KEY, &w, &n_ends, &looks, old);
        }
        return cost;
}

/* A slab that had entries may have only chunks, or slots in caches, by now. */
static bool has_victims(const ShmTrie *trie, uint32_t slab, uint64_t slots, uint64_t old) {
        ShmTrieCursor c;
        ShmMapView view;

        for (; slots != 0; slots &= slots - 1)
                if (find_victim(trie, slot_id(slab, (uint32_t) __builtin_ctzll(slots)), old, &view, &c))
                        return true;
        return false;
}

/*
 * Among the next CHOICE_MAX slabs that have entries, and another key, the one with the fewest visited entries.
 * UINT32_MAX: there is none up to the end.
 */
static uint32_t choose_slab(const ShmTrie *trie, uint32_t class, uint64_t key, uint32_t from, uint64_t old) {
        uint32_t n_slabs = shm_arena_n_slabs_ever(trie->arena), best = UINT32_MAX, least = UINT32_MAX, n = 0;
        uint64_t slots;

        for (uint32_t slab = from; (slab = next_slab(trie, slab)) < n_slabs && n < CHOICE_MAX; slab++) {
                uint32_t visits;

                if (!slab_slots(trie, slab, class, ANY_KEY, &slots) ||
                    slab_slots(trie, slab, class, key, &slots) || !has_victims(trie, slab, slots, old))
                        continue;
                visits = (uint32_t) __builtin_popcountll(shm_hint_load(&trie->arena->lines[slab].visited) &
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
                uint64_t w;
                uint32_t class = shm_hand_next_class(trie, &w), slab;
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
