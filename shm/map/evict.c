/*
 * Maps: eviction
 *
 * Purpose: SIEVE without a queue. Entries stay where they are; a hand goes over the slabs, in sweeps. It spares an
 *   entry that was used since the hand last passed it, and evicts the others.
 *
 * The order of SIEVE is that of insertion, with new entries in front of the hand at the far end, where those that
 * nobody uses are soon found. A new entry here has the slot of one that was evicted, right behind the hand. If it had
 * to wait there for a whole sweep, that would be CLOCK, which misses up to 10 points more. So a bit says
 * that an entry is young, and a sweep is of one of two kinds:
 *
 *     full      passes all entries but those that are put while it is under way
 *     young     passes those that were put during the sweep before
 *
 * A young sweep follows one in which many entries were evicted, and so as many were put. The sweeps get smaller until
 * few entries are young; a full one is next. `young` has two bits for each slot, for sweeps of even and odd numbers: so
 * entries put in this sweep and in the one before are told apart, and an entry lives for a sweep at least.
 *
 * Each class has a hand, since where the pool has no memory only slots of one class help. Otherwise the hand that is
 * behind goes next: together they are one hand that goes over all slabs.
 *
 * Invariants
 *   1. A hand is one word. It is moved by compare-and-set, past what the mover then looks at: of several evictions at
 *      once each has slots of its own.
 *   2. An entry is deleted by its version. What the hand decided on was an entry of this map, and goes only if it is
 *      still that.
 *   3. An entry that is put while a sweep is under way is not evicted in that sweep: its young bit is set before it is
 *      linked.
 *   4. A slab with entries of a map has the map's bit in `maps`, and the map its class in `classes`, from before they
 *      are linked. Neither is ever cleared: a slab without such entries costs a look.
 *   5. All else here is a hint. A visit or a young bit that is lost, or is another entry's, costs an entry its turn.
 *   6. A search ends after a few sweeps: the second finds what the first has cleared.
 *
 * Who may do what: a put, with its own actor, outside any operation, before it has a leaf. Whoever reads an entry, and
 *   may write the arena, sets its bit.
 *
 * Crash: see trie-walk.c. A death after a hand was moved: what it passed is looked at in the next sweep. Nobody waits
 *   for a stopped thread: others move the hand on.
 */
#include "shm/map/evict.h"

#include <errno.h>

#include "shm/map/lifetime.h"
#include "shm/map/tally.h"
#include "shm/map/unlink.h"
#include "shm/slab/slab.h"

#define ENDS_MAX 10 /* a search: of a young sweep, a full one, two more, and what was young; two each */
#define YOUNG_SHARE                                                                                          \
        16 /* a sweep that evicts more than one of so many entries makes the next one a young one */
#define EXTRA_MAX 16 /* entries that a put evicts beside its own size, where the limit was lowered */
#define LEAD_MAX 2 /* sweeps that a class may be ahead of another, until it gets a slab of that */
#define CHOICE_MAX 8 /* slabs of which the one with least visits is emptied */
#define EMPTIED_MAX 512 /* slabs that are emptied for one put */
#define CHAINS_MAX 64 /* entries looked at for large ones */
#define TRIES_MAX 32 /* a put: others may take the memory that it made free */
#define FULL_MS 100 /* a pool that was full is taken to be full for so long */
#define ANY_KEY UINT64_MAX
#define NO_KEY (UINT64_MAX - 1)
#define CLASS_TRIES 2 /* then others take the slots of the class that it makes free */

/* The place of a hand, from the highest bit: */
#define SWEEP_SHIFT 32 /* 32: the number of its sweep */
#define SLAB_SHIFT 7 /* 25: the slab that is next; at the end of a sweep one more than any has */
#define SLOT_SHIFT 1 /* 6: its slot that is next */
#define PLACE_YOUNG UINT64_C(1) /* the sweep is a young one */
static_assert(SHM_MAP_HANDS == SHM_CLASSES_MAX, "a hand for each class");
static_assert(SHM_SLABS_MAX < 1 << 25 && SHM_SLOTS_MAX <= 1 << 6, "they fit a place");

typedef struct Hand {
        uint32_t sweep, slab, slot;
        bool young;
} Hand;

static Hand hand_unpack(uint64_t w) {
        return (Hand){
                .sweep = (uint32_t) (w >> SWEEP_SHIFT),
                .slab = (uint32_t) (w >> SLAB_SHIFT) & (2 * SHM_SLABS_MAX - 1),
                .slot = (uint32_t) (w >> SLOT_SHIFT) & (SHM_SLOTS_MAX - 1),
                .young = w & PLACE_YOUNG,
        };
}

static uint64_t hand_pack(Hand h) {
        return (uint64_t) h.sweep << SWEEP_SHIFT | (uint64_t) h.slab << SLAB_SHIFT |
               (uint64_t) h.slot << SLOT_SHIFT | (h.young ? PLACE_YOUNG : 0);
}

/* How many sweeps hand a is ahead of b; below 0: behind. */
static int32_t sweeps_ahead(uint64_t a, uint64_t b) {
        return (int32_t) ((uint32_t) (a >> SWEEP_SHIFT) - (uint32_t) (b >> SWEEP_SHIFT));
}

static bool is_behind(uint64_t a, uint64_t b) {
        return (int64_t) ((a >> SLAB_SHIFT << SLAB_SHIFT) - (b >> SLAB_SHIFT << SLAB_SHIFT)) < 0;
}

static ShmMapState *state_of(const ShmTrie *trie) {
        return &trie->arena->header->maps[trie->map - 1];
}

static uint64_t classes_in_use(const ShmTrie *trie) {
        /* ORDER: rlx; a hint. Classes beyond are scribbles. */
        return shm_load_rlx(&state_of(trie)->classes) & ((UINT64_C(1) << trie->arena->n_classes) - 1);
}

static ShmMapHand *hand_of(const ShmTrie *trie, uint32_t class) {
        return &state_of(trie)->hands[class];
}

static uint64_t hand_load(const ShmTrie *trie, uint32_t class) {
        /* ORDER: rlx; it is decided on by compare-and-set. */
        return shm_load_rlx(&hand_of(trie, class)->place);
}

static bool hand_move(const ShmTrie *trie, uint32_t class, uint64_t *w, uint64_t next) {
        /* ORDER: acqrel; what it passes is looked at after it. */
        if (!shm_cas_acqrel(&hand_of(trie, class)->place, w, next))
                return false;
        *w = next;
        return true;
}

/*
 * Hands that go together are in sweeps of one kind: else the short sweep of one class would take as long as the full
 * one of another. The first that begins the next one decides, by what all of them evicted.
 */
static Hand hand_next_sweep(const ShmTrie *trie, Hand h) {
        uint64_t classes = classes_in_use(trie), evicted = 0, entries = 0;

        for (; classes != 0; classes &= classes - 1) {
                const ShmMapHand *hand = hand_of(trie, (uint32_t) __builtin_ctzll(classes));
                Hand other = hand_unpack(shm_load_rlx(&hand->place)); /* ORDER: rlx; a hint. */

                if (other.sweep == h.sweep + 1)
                        return (Hand){ .sweep = other.sweep, .young = other.young };
                if (other.sweep != h.sweep)
                        continue;
                evicted += shm_load_rlx(&hand->evicted); /* ORDER: rlx; a hint. */
                /* ORDER: rlx; a hint. */
                entries += shm_load_rlx(other.young ? &hand->entries : &hand->passed);
        }
        return (Hand){ .sweep = h.sweep + 1, .young = evicted * YOUNG_SHARE > entries };
}

/* A sweep is over. What others count meanwhile is lost. */
static void hand_reset(const ShmTrie *trie, uint32_t class, bool young) {
        ShmMapHand *hand = hand_of(trie, class);
        uint32_t passed = shm_load_rlx(&hand->passed); /* ORDER: rlx; a hint. */

        if (!young)
                shm_store_rlx(&hand->entries, passed); /* ORDER: rlx; a hint. */
        shm_store_rlx(&hand->passed, 0); /* ORDER: rlx; a hint. */
        shm_store_rlx(&hand->evicted, 0); /* ORDER: rlx; a hint. */
}

/* No slab is left for the hand: it waits at the end until those of other classes are there; then a sweep begins. */
static void hand_end(const ShmTrie *trie, uint32_t class, uint64_t *w) {
        uint32_t n_slabs = shm_arena_n_slabs_ever(trie->arena);
        Hand h = hand_unpack(*w), at_end = { .sweep = h.sweep, .slab = n_slabs, .young = h.young };

        if (h.slab < n_slabs)
                (void) hand_move(trie, class, w, hand_pack(at_end));
        else if (hand_move(trie, class, w, hand_pack(hand_next_sweep(trie, h))))
                hand_reset(trie, class, h.young);
}

void shm_evict_set_visited(const ShmTrie *trie, uint64_t leaf) {
        SlotId id = shm_handle_slot(leaf);

        if (!trie->arena->read_only)
                /* ORDER: sc; a hint. */
                (void) shm_or_sc(&trie->arena->lines[slot_id_slab(id)].visited, slot_id_mask(id));
}

/* Bits that are mostly as they should be are not written. */
static void bits_set(uint64_t *word, uint64_t mask) {
        if (~shm_load_rlx(word) & mask) /* ORDER: rlx; a look. */
                (void) shm_or_sc(word, mask); /* ORDER: sc; before the leaf is linked. */
}

static void bits_clear(uint64_t *word, uint64_t mask) {
        if (shm_load_rlx(word) & mask) /* ORDER: rlx; a look. */
                (void) shm_and_sc(word, ~mask); /* ORDER: sc; before the leaf is linked. */
}

void shm_evict_mark(const ShmTrie *trie, uint64_t leaf, uint32_t class, bool used) {
        SlotId id = shm_handle_slot(leaf);
        ShmSlabLine *line = &trie->arena->lines[slot_id_slab(id)];
        uint32_t parity;

        if (trie->map == 0)
                return;
        bits_set(&line->maps, UINT64_C(1) << (trie->map - 1));
        bits_set(&state_of(trie)->classes, UINT64_C(1) << class);
        if (!shm_evict_is_on(trie))
                return;
        parity = hand_unpack(hand_load(trie, class)).sweep & 1;
        bits_set(&line->young[parity], slot_id_mask(id));
        bits_clear(&line->young[!parity], slot_id_mask(id));
        if (used)
                bits_set(&line->visited, slot_id_mask(id));
        else
                bits_clear(&line->visited, slot_id_mask(id));
}

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
        Hand from, to;
        uint32_t slab;
        uint64_t passed; /* slots of it */
        uint64_t young; /* slots of these that were filled in this sweep */
        uint64_t spared; /* slots of these that were visited */
        uint64_t victim; /* one of them, or 0 */
} Step;

/* In the slab that the hand is at, it passes all slots up to a victim, or to the last one. */
static void step_in_slab(const ShmTrie *trie, Hand h, uint64_t slots, Step *ret) {
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

/* From the hand to the end of the next slab. False: none is left. */
static bool step_plan(const ShmTrie *trie, Hand h, uint32_t class, uint64_t key, Step *ret) {
        uint32_t n_slabs = shm_arena_n_slabs_ever(trie->arena);
        uint64_t slots;

        ret->from = h;
        for (; h.slab < n_slabs; h.slab++, h.slot = 0)
                if (slab_slots(trie, h.slab, class, key, &slots)) {
                        step_in_slab(trie, h, slots, ret);
                        return true;
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

/* Deletes the entry in a slot, if it is one of the map's. Returns its cost, or 0. */
static uint64_t evict_slot(ShmActor *actor, const ShmTrie *trie, SlotId id, const ShmEvict *evict) {
        ShmTrieCursor c;
        ShmMapView view;

        /* Claims end by themselves. */
        if (!view_leaf(trie, id, &view) || (view.head.flags & SHM_LEAF_CLAIM) || view.handle == evict->old ||
            !shm_map_find_leaf(trie, &view, &c))
                return 0;
        if (shm_map_unlink(actor, trie, &view, &c, SHM_MAP_EVICTIONS) != 0)
                return 0;
        return shm_leaf_cost(trie->arena, &view.head);
}

static void count_evicted(const ShmTrie *trie, uint32_t class) {
        (void) shm_add_rlx(&hand_of(trie, class)->evicted, 1); /* ORDER: rlx; a hint. */
        (void) shm_add_rlx(&hand_of(trie, class)->passed, 1); /* ORDER: rlx; a hint. */
}

/*
 * Moves the hand of a class to the next entry that goes, over n ends at most: that of its slabs, and that of its sweep.
 * Returns the entry's cost; 0: there was none.
 */
static uint64_t evict_next(ShmActor *actor, const ShmTrie *trie, uint32_t class, uint64_t key, uint32_t n,
                           const ShmEvict *evict) {
        uint64_t w = hand_load(trie, class), cost = 0;
        Step step;

        while (cost == 0 && n > 0) {
                if (!step_plan(trie, hand_unpack(w), class, key, &step)) {
                        hand_end(trie, class, &w);
                        n--;
                } else if (hand_move(trie, class, &w, hand_pack(step.to))) {
                        step_end(trie, class, &step);
                        if (step.victim != 0)
                                cost = evict_slot(actor, trie,
                                                  slot_id(step.slab, (uint32_t) __builtin_ctzll(step.victim)),
                                                  evict);
                }
        }
        if (cost != 0)
                count_evicted(trie, class);
        return cost;
}

/* The class whose hand is behind those of the others. *ret_first: the place of the first. */
static uint32_t hindmost_class(const ShmTrie *trie, uint64_t *ret_last, uint64_t *ret_first) {
        uint64_t classes = classes_in_use(trie);
        uint32_t hindmost = (uint32_t) __builtin_ctzll(classes | 1 << (SHM_CLASSES_MAX - 1));

        *ret_last = *ret_first = hand_load(trie, hindmost);
        for (; classes != 0; classes &= classes - 1) {
                uint32_t class = (uint32_t) __builtin_ctzll(classes);
                uint64_t w = hand_load(trie, class);

                if (is_behind(w, *ret_last)) {
                        hindmost = class;
                        *ret_last = w;
                }
                if (is_behind(*ret_first, w))
                        *ret_first = w;
        }
        return hindmost;
}

/*
 * That class, to be evicted from. Where it is sweeps behind, since the others worked for memory, it catches up at once;
 * by an even number, so that young entries stay young.
 */
static uint32_t next_class(const ShmTrie *trie) {
        uint64_t last, first;
        uint32_t class = hindmost_class(trie, &last, &first);
        int32_t lead = sweeps_ahead(first, last);

        if (lead > LEAD_MAX)
                (void) hand_move(trie, class, &last, last + ((uint64_t) (lead & ~1) << SWEEP_SHIFT));
        return class;
}

/* As many ends as a search over all classes has. */
static uint32_t ends_of_all(const ShmTrie *trie) {
        return (uint32_t) __builtin_popcountll(classes_in_use(trie)) * ENDS_MAX;
}

/* The next entry of any class. Returns its cost, or 0. */
static uint64_t evict_any(ShmActor *actor, const ShmTrie *trie, const ShmEvict *evict) {
        uint32_t n_ends = ends_of_all(trie);
        uint64_t cost = 0;

        for (uint32_t i = 0; i < n_ends && cost == 0; i++)
                cost = evict_next(actor, trie, next_class(trie), ANY_KEY, 1, evict);
        return cost;
}

/* A slab that had entries may have none by now: only chunks, or slots in caches. */
static bool has_leaves(const ShmTrie *trie, uint32_t slab, uint64_t slots) {
        ShmMapView view;

        for (; slots != 0; slots &= slots - 1)
                if (view_leaf(trie, slot_id(slab, (uint32_t) __builtin_ctzll(slots)), &view))
                        return true;
        return false;
}

/*
 * The slab, among the next few with entries that have another key, which has least visits; UINT32_MAX: that was the
 * last one.
 */
static uint32_t choose_slab(const ShmTrie *trie, uint32_t class, uint64_t key, uint32_t from) {
        uint32_t n_slabs = shm_arena_n_slabs_ever(trie->arena), best = UINT32_MAX, least = UINT32_MAX, n = 0;
        uint64_t slots;

        for (uint32_t slab = from; slab < n_slabs && n < CHOICE_MAX; slab++) {
                uint32_t visits;

                if (!slab_slots(trie, slab, class, ANY_KEY, &slots) ||
                    slab_slots(trie, slab, class, key, &slots) || !has_leaves(trie, slab, slots))
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

/* A slab whose slots are of no use for `key`, behind the hand from now on. UINT32_MAX: there is none. */
static uint32_t take_slab(const ShmTrie *trie, uint64_t key) {
        uint32_t n_ends = ends_of_all(trie);

        while (n_ends > 0) {
                uint32_t class = next_class(trie), slab;
                uint64_t w = hand_load(trie, class);
                Hand h = hand_unpack(w);

                slab = choose_slab(trie, class, key, h.slab);
                h.slab = slab + 1;
                h.slot = 0;
                if (slab == UINT32_MAX) {
                        hand_end(trie, class, &w);
                        n_ends--;
                } else if (hand_move(trie, class, &w, hand_pack(h))) {
                        return slab;
                }
        }
        return UINT32_MAX;
}

/* 0: there is free memory again. */
static void set_full(const ShmTrie *trie, uint64_t until_ms) {
        shm_store_rlx(&state_of(trie)->full_ms, until_ms); /* ORDER: rlx; a hint. */
}

/* Evicts all entries of a slab; a large one that is enough is the last, if its chunks are slabs of their own. */
static uint64_t empty_slab(ShmActor *actor, const ShmTrie *trie, uint32_t slab, uint64_t size,
                           const ShmEvict *evict) {
        uint64_t cost = 0, last = 0;
        uint64_t enough = shm_chain_takes_slabs(trie->arena) ? trie->arena->size_max : UINT64_MAX;

        for (uint32_t slot = 0; slot < SHM_SLOTS_MAX && (cost < size || last <= enough); slot++) {
                last = evict_slot(actor, trie, slot_id(slab, slot), evict);
                cost += last;
        }
        return cost;
}

/* Evicts all entries of whole slabs, of `size` bytes or more: such a slab is free for any class. Returns their cost. */
static uint64_t empty_slabs(ShmActor *actor, const ShmTrie *trie, uint64_t key, uint64_t size,
                            const ShmEvict *evict) {
        uint64_t cost = 0;

        for (uint32_t n = 0; n < EMPTIED_MAX && cost < size; n++) {
                uint32_t slab = take_slab(trie, key);

                if (slab == UINT32_MAX)
                        break;
                cost += empty_slab(actor, trie, slab, size - cost, evict);
        }
        if (cost != 0)
                set_full(trie, 0);
        return cost;
}

/* False: nothing can be put there now. */
static bool key_of(const ShmTrie *trie, const ShmEvict *evict, uint64_t *ret) {
        uint32_t id, era;

        if (shm_epoch_admit(trie->arena, evict->epoch, &id, &era) != 0)
                return false;
        *ret = slab_key(evict->class, id, era);
        return true;
}

/*
 * Where only slots of one class and epoch help. A class that is small, and wanted by many, is swept again and again:
 * then it is to have a slab of the class that is swept least.
 */
static uint64_t evict_in_class(ShmActor *actor, const ShmTrie *trie, uint64_t key, const ShmEvict *evict) {
        uint64_t before = hand_load(trie, evict->class), last, first, cost, now;

        cost = evict_next(actor, trie, evict->class, key, ENDS_MAX, evict);
        now = hand_load(trie, evict->class);
        if (cost == 0 || sweeps_ahead(now, before) <= 0)
                return cost;
        (void) hindmost_class(trie, &last, &first);
        if (sweeps_ahead(now, last) >= LEAD_MAX)
                cost += empty_slabs(actor, trie, key, 1, evict);
        return cost;
}

/* Large entries first, by the hand: their chunks are slots as are wanted. */
static uint64_t evict_chains(ShmActor *actor, const ShmTrie *trie, const ShmEvict *evict) {
        uint64_t cost = 0, next;

        for (uint32_t i = 0; i < CHAINS_MAX && cost < evict->cost; i++) {
                next = evict_any(actor, trie, evict);
                if (next == 0)
                        break;
                cost += next > trie->arena->size_max ? next : 0;
        }
        return cost;
}

static bool exceeds_pool(const ShmTrie *trie, uint64_t cost) {
        return cost > (uint64_t) trie->arena->n_slabs * SHM_SLAB_SIZE;
}

bool shm_evict_for_memory(ShmActor *actor, const ShmTrie *trie, const ShmEvict *evict, uint32_t n_tries) {
        bool any_slab = evict->chained || evict->for_index || n_tries >= CLASS_TRIES;
        uint64_t size = evict->for_index ? 1 : evict->cost, key, cost = 0, until_ms;

        if (n_tries >= TRIES_MAX || trie->map == 0 || !shm_evict_is_on(trie) ||
            exceeds_pool(trie, evict->cost) || !key_of(trie, evict, &key))
                return false;
        until_ms = shm_map_now_ms(trie) + FULL_MS;
        set_full(trie, until_ms);
        if (!any_slab)
                cost = evict_in_class(actor, trie, key, evict);
        else if (evict->chained && !evict->for_index && n_tries < CLASS_TRIES)
                cost = evict_chains(actor, trie, evict);
        if (cost < size)
                cost += empty_slabs(actor, trie, any_slab ? NO_KEY : key, size - cost, evict);
        if (evict->for_index)
                set_full(trie,
                         until_ms); /* the slab is the index's: entries go on making room for each other */
        return cost != 0;
}

/* Whether this thread has a slot for the put in its cache. */
static bool has_slot(const ShmActor *actor, uint64_t key) {
        const ShmPlaceOf *place = &actor->places[(key & SHM_PLACE_MASK) >> SLAB_CLASS_SHIFT];

        return place->key == key && shm_load_rlx(&place->cache->count) > 0; /* ORDER: rlx; ours, or a hint. */
}

/* Where the pool was full a moment ago: before an allocation fails, which takes longer. */
static void evict_ahead(ShmActor *actor, const ShmTrie *trie, const ShmEvict *evict) {
        uint64_t full_ms = shm_load_rlx(&state_of(trie)->full_ms), key, now; /* ORDER: rlx; a hint. */

        if (full_ms == 0 || evict->chained || !key_of(trie, evict, &key) || has_slot(actor, key))
                return;
        now = shm_map_now_ms(trie);
        if (now < full_ms && full_ms - now <= FULL_MS)
                (void) evict_in_class(actor, trie, key, evict);
}

/* Evicts until so much more than the limit is gone, or as much as the put brings, and some more. */
static void evict_excess(ShmActor *actor, const ShmTrie *trie, uint64_t excess, const ShmEvict *evict) {
        uint64_t gone = 0, cost = 1;

        for (uint32_t n = 0; gone < excess && cost != 0 && (gone < evict->cost || n < EXTRA_MAX); n++) {
                cost = evict_any(actor, trie, evict);
                gone += cost;
        }
}

/* As all know it, and this thread itself. */
static uint64_t bytes_used(const ShmActor *actor, const ShmTrie *trie) {
        const ShmMapTally *tally = &actor->record->tally;
        /* ORDER: rlx; ours alone. */
        bool counts = shm_load_rlx(&tally->map) == trie->map;
        /* ORDER: rlx; ours alone. */
        int64_t own = counts ? (int64_t) shm_load_rlx(&tally->counts[SHM_MAP_BYTES]) : 0;
        int64_t used = (int64_t) shm_map_bytes(trie) + own;

        return used < 0 ? 0 : (uint64_t) used;
}

int shm_evict_for_put(ShmActor *actor, const ShmTrie *trie, const ShmEvict *evict) {
        uint64_t limit = shm_load_rlx(&trie_root(trie)->options.limit_bytes); /* ORDER: rlx; as it is now. */
        uint64_t used;

        if (limit != 0) {
                if (evict->cost > limit)
                        return -E2BIG;
                used = bytes_used(actor, trie) + evict->cost - evict->old_cost;
                if ((int64_t) used > 0 && used > limit) {
                        if (!shm_evict_is_on(trie))
                                return -ENOSPC;
                        evict_excess(actor, trie, used - limit, evict);
                        return 0;
                }
        }
        if (shm_evict_is_on(trie))
                evict_ahead(actor, trie, evict);
        return 0;
}
