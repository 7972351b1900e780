/*
 * Maps: eviction
 *
 * Purpose: SIEVE without a queue. Entries stay where they are; a hand goes over the slabs, in sweeps. It spares an
 *   entry that was used since the hand last passed it, and evicts the others.
 *
 * SIEVE orders entries by insertion. A new entry is inserted at the end to which the hand moves, so an entry that is
 * never used is soon evicted. Here a new entry takes the slot of an evicted one, right behind the hand. If the hand had
 * to go over all slabs before it returned there, this would be CLOCK, which misses up to 10 points more. So each entry
 * has a bit that says that it is young, and there are two kinds of sweeps:
 *
 *     full      passes all entries except those that are put during the sweep
 *     young     passes those that were put during the sweep before
 *
 * A sweep in which many entries were put is followed by a young sweep. (The number of evictions would be a wrong
 * measure: one large entry makes room for many.) Young sweeps get smaller until few entries are young; then a full one
 * follows. `young` has two bits for each slot, one for sweeps of even numbers and one for odd numbers. They tell
 * entries that were put in this sweep from those of the sweep before, so each entry lives for one sweep at least.
 *
 * While only new keys are put, and no entry is used, one young sweep follows another. Each evicts one entry for each
 * entry that is put, so a put after 10^8 others costs no more than the first ones. Entries that were used before stay
 * meanwhile. SIEVE does the same: its hand then keeps its distance from the head.
 *
 * Sizes: an entry that takes less than a third of the map's mean is put as if it had been used. So the hand evicts it
 * in the second sweep, and a larger entry that is never used in the first: the room of one large entry is enough for
 * several small ones, and each of these may be hit. If all entries have one size, this is SIEVE. A large entry that is
 * used stays like any other. With a threshold at the mean itself an access log misses 8 points more, since nearly all
 * of its pages are smaller than the mean. With one at half of the mean fewer requests miss than at a third, but the
 * sizes change so much that more slots stay empty.
 *
 * A slab with few entries, which others of its class have room for, loses all of them: entries that are used would keep
 * it for ever while the sizes of entries change (is_to_be_emptied() in evict-pass.c).
 *
 * Each class has a hand: if the pool has no memory left, only slots of the put's class help. Otherwise the hand that is
 * furthest behind moves next, so that the hands together are one hand that goes over all slabs.
 *
 * Invariants
 *   1. An entry that is put during a sweep is not evicted in that sweep: its young bit is set before it is linked.
 *   2. Before an entry is linked, the class's bit is set in the map's `classes`. These bits are never cleared.
 *   3. A slab that has an entry of the map is in the map's set of slabs (shm_set_of_map()), and the map's bit is set in
 *      `maps` of the slab. A put links its entry, then looks at this bit; if it is clear, the put adds the slab to the
 *      set, sets the bit, then looks whether the slab is still in the set. A hand that finds no entry of the map in a
 *      slab takes the slab out of the set, clears the bit, then looks again, and puts both back if there is an entry.
 *      One of the two sees the other. From map 33 on maps share bits: hands clear none of these, and puts look at the
 *      set, too. So a small map does not visit the slabs of a large one: while maps whose numbers are 32 apart had one
 *      set, a put into a map of 4 entries beside a million others took 3.6 milliseconds.
 *   4. All else here is a hint.
 *
 * Who may do what: a put evicts, with its own actor, outside any operation, before it has a leaf. Each thread that
 *   reads an entry, and may write the arena, sets the entry's `visited` bit.
 *
 * This file has what puts call. The hands are in evict-hand.c, the passes over slots in evict-pass.c, and the choice
 * between maps, for a pool without free memory, in evict-from.c.
 *
 * Crash: a put that linked its entry, or a hand between its two looks, may leave a slab that is missing in the set.
 *   The census that follows a death in a change of the map adds the slabs of all its entries. For the rest see
 *   evict-pass.c.
 */
#include "shm/map/evict/evict.h"

#include <errno.h>

#include "shm/cache/cache.h"
#include "shm/clock/pool-clock.h"
#include "shm/map/evict/evict-from.h"
#include "shm/map/evict/evict-pass.h"
#include "shm/map/state/lifetime.h"
#include "shm/map/state/tally.h"
#include "shm/map/trie/trie-shrink.h"
#include "shm/slab/slab.h"

#define SMALL_SHARE 3 /* an entry is small if it takes less than the mean divided by this */
#define SLABS_TRIED 8 /* the first slabs of a set may not be in it rightly */
#define EXTRA_MAX 16 /* entries that a put evicts at most for a lowered limit, unless its size needs more */
/* A map mostly exceeds its limit by less than this share. Threads have up to half of it in tallies of their own. */
#define EXCESS_SHARE 32
#define EMPTIED_MAX 512 /* slabs that are emptied for one put, at most */
#define CHAINS_MAX 64 /* entries that are evicted, at most, in search of chains */
#define TRIES_MAX 32 /* for one put: other threads may take the memory that it freed */
#define FULL_MS 100 /* for so long after an eviction for memory, the pool counts as full */
#define VAIN_MS 100 /* for so long after a search in vain, and for so many times as long as it took, */
#define VAIN_SHARE 64 /* no search of all maps, or walk over all slabs, is made while counts stay */
#define CLASS_TRIES 2 /* to free slots of the class: if they fail, other threads take the freed slots */
/*
 * The try at which the put's own map gives slots. The tries before it emptied slabs of other maps. That did not help if
 * these slabs have other objects, too.
 */
#define OWN_TRY 3

void shm_evict_set_visited(const ShmTrie *trie, uint64_t leaf) {
        SlotId id = shm_handle_slot(leaf);

        if (!trie->arena->read_only)
                /* ORDER: sc; a hint. */
                (void) shm_or_sc(&trie->arena->lines[slot_id_slab(id)].visited, slot_id_mask(id));
}

__attribute__((noinline)) void shm_evict_visit_tags(const ShmTrie *trie, const ShmMapView *view) {
        for (uint32_t i = 0; i < shm_leaf_n_tags(view->head.flags); i++)
                if (shm_handle_plausible(trie->arena, view->tags[i]))
                        shm_evict_visit(trie, view->tags[i]);
}

static bool evict_is_on(const ShmEvict *evict) {
        return evict->options.evict != SHM_MAP_EVICT_NEVER;
}

static bool is_small(const ShmTrie *trie, uint64_t cost) {
        uint64_t n = shm_map_entries(trie);

        return (cost - SHM_INDEX_SHARE) * SMALL_SHARE * n + SHM_INDEX_SHARE * n < shm_map_bytes(trie);
}

void shm_evict_offer(const ShmTrie *trie, bool evicts) {
        uint32_t i = trie->map - 1;

        (evicts ? bits_set : bits_clear)(&trie->arena->header->evicting.bits[i / 64], shm_map_set_bit(i));
}

void shm_evict_mark(const ShmTrie *trie, uint64_t leaf, uint32_t class, uint64_t cost, bool used) {
        SlotId id = shm_handle_slot(leaf);
        ShmSlabLine *line = &trie->arena->lines[slot_id_slab(id)];
        uint32_t parity;

        if (trie->map == 0)
                return;
        bits_set(&state_of(trie)->classes, UINT64_C(1) << class);
        if (shm_map_options_evict(trie) == SHM_MAP_EVICT_NEVER)
                return;
        shm_evict_offer(trie, true);
        if (!used)
                (void) shm_hint_add(&hand_of(trie, class)->put, 1);
        parity = hand_unpack(hand_load(trie, class)).sweep & 1;
        bits_set(&line->young[parity], slot_id_mask(id));
        bits_clear(&line->young[!parity], slot_id_mask(id));
        if (used || is_small(trie, cost))
                bits_set(&line->visited, slot_id_mask(id));
        else
                bits_clear(&line->visited, slot_id_mask(id));
}

/*
 * Whether this thread can delete entries, for which it needs a note. If it has too many objects pending, its put fails,
 * too; without this look, the put would first try each entry of the map, in several sweeps.
 */
static bool can_delete(ShmActor *actor) {
        return shm_actor_can_note(actor) || shm_trie_settle_kept(actor);
}

/* The pool counts as full until then; 0: it has free memory again. */
static void set_full(const ShmTrie *trie, uint64_t until_ms) {
        shm_hint_store(&state_of(trie)->full_ms, until_ms);
}

/* The key of slabs that the leaf can be in. False: the epoch takes no objects now. */
static bool key_of(const ShmTrie *trie, const ShmEvict *evict, uint64_t *ret) {
        uint32_t id, era;

        if (shm_epoch_admit(trie->arena, evict->epoch, &id, &era) != 0)
                return false;
        *ret = slab_key(evict->class, id, era);
        return true;
}

/* A search for memory. */
typedef struct Search {
        ShmActor *actor;
        const ShmTrie *counts; /* the map for which the thread counts else; its `map` may be 0 */
        const ShmTrie *from; /* the map whose entries are evicted */
        const ShmEvict *evict;
        uint64_t key; /* the key (class, epoch, era) of slabs that the leaf can be in */
        uint64_t looks; /* slabs of the put's class that a search for one entry looks at */
        bool emptied; /* whole slabs were emptied, so the pool has free memory again */
} Search;

static uint64_t monotonic_ms(void) {
        return shm_clock_read(CLOCK_MONOTONIC_COARSE) / SHM_NS_PER_MS;
}

/*
 * Whether a chained value would have room without all entries that may go. If a walk over all slabs has just found none
 * for one that is no larger, there is none now: puts into a full pool fail at once.
 */
static bool may_fit(ShmActor *actor, const ShmTrie *trie, uint64_t cost) {
        uint64_t n_free = shm_hint_load(&trie->arena->header->n_free.value), begun;
        ShmUnfit *unfit = &actor->unfit;

        if (shm_evict_is_offered(trie, cost))
                return true;
        begun = monotonic_ms();
        if (unfit->until_ms > begun && cost >= unfit->cost && n_free == unfit->n_free)
                return false;
        if (shm_evict_may_fit(trie, cost))
                return true;
        *unfit = (ShmUnfit){
                .cost = cost,
                .n_free = n_free,
                .until_ms = begun + VAIN_MS + (monotonic_ms() - begun) * VAIN_SHARE,
        };
        return false;
}

/* From now on entries of this map are evicted, and counted for it. */
static void turn_to(Search *s, const ShmTrie *from) {
        s->from = from;
        shm_tally_begin(s->actor, from);
}

static void turn_back(Search *s) {
        shm_tally_end(s->actor, s->from);
        turn_to(s, s->counts);
}

/*
 * Evicts the map's entries in a slab, and adds their cost to *cost. True: *cost has come to `size`, and the last entry
 * had chunks that were whole slabs, so this slab need not become free.
 */
static bool empty_of_map(const Search *s, uint32_t slab, uint64_t size, uint64_t *cost) {
        uint64_t last = 0;
        uint64_t enough = shm_chain_takes_slabs(s->from->arena) ? shm_leaf_cost_unchained_max(s->from->arena)
                                                                : UINT64_MAX;

        for (uint32_t slot = 0; slot < SHM_SLOTS_MAX && (*cost < size || last <= enough); slot++) {
                last = shm_evict_slot(s->actor, s->from, slot_id(slab, slot), s->evict->old);
                *cost += last;
        }
        return *cost >= size && last > enough;
}

/* Evicts all entries of a slab, also those of other maps: with these left, the slab would not become free. */
static uint64_t empty_slab(Search *s, uint32_t slab, uint64_t size) {
        const ShmTrie *from = s->from;
        ShmMapSet maps = shm_evict_others(from, slab);
        uint64_t cost = 0;
        ShmTrie other;

        if (empty_of_map(s, slab, size, &cost))
                return cost;
        for (uint32_t i = 0; (i = shm_map_set_next(&maps, i)) < SHM_ROOTS_MAX; i++) {
                if (!shm_set_has(from->arena, shm_set_of_map(from->arena, i + 1), slab) ||
                    !shm_evict_open(from->arena, i, &other))
                        continue;
                turn_to(s, &other);
                (void) empty_of_map(s, slab, UINT64_MAX, &cost);
        }
        turn_to(s, from);
        return cost;
}

/* Evicts the entries of whole slabs, until these took `size` bytes: any class can use such a slab. Returns the cost. */
static uint64_t empty_slabs(Search *s, uint64_t key, uint64_t size) {
        uint64_t cost = 0;

        for (uint32_t n = 0; n < EMPTIED_MAX && cost < size; n++) {
                uint32_t slab = shm_evict_take_slab(s->from, key, s->evict->old);

                if (slab == UINT32_MAX)
                        break;
                cost += empty_slab(s, slab, size - cost);
        }
        s->emptied |= cost != 0;
        return cost;
}

/*
 * Evicts where only slots of the put's class and epoch help. If a class has few slabs and many puts, it is swept again
 * and again: it then gets a slab from the class that is swept least.
 */
static uint64_t evict_in_class(Search *s) {
        uint32_t class = s->evict->class;
        uint64_t before = hand_load(s->from, class), last, first, cost, now;

        cost = shm_evict_next(s->actor, s->from, class, s->key, ENDS_MAX, s->looks, s->evict->old);
        now = hand_load(s->from, class);
        if (cost == 0 || sweeps_ahead(now, before) <= 0)
                return cost;
        (void) shm_hand_hindmost(s->from, &last, &first);
        if (sweeps_ahead(now, last) >= LEAD_MAX)
                cost += empty_slabs(s, s->key, 1);
        return cost;
}

/* For a chain: evicts in the order of the hands, and counts chains alone, since their chunks are the slots it needs. */
static uint64_t evict_chains(const Search *s) {
        uint64_t cost = 0, next;

        for (uint32_t i = 0; i < CHAINS_MAX && cost < s->evict->cost; i++) {
                next = shm_evict_any(s->actor, s->from, s->evict->old);
                if (next == 0)
                        break;
                cost += next > shm_leaf_cost_unchained_max(s->from->arena) ? next : 0;
        }
        return cost;
}

/*
 * Evicts in one map. Returns the cost of the entries that were evicted. Another map loses whole slabs: it may have no
 * slot of the class and epoch that the put needs, and each put would search all of its slabs for one.
 */
static uint64_t evict_in_map(Search *s, bool is_own, uint32_t n_tries) {
        const ShmEvict *evict = s->evict;
        bool any_slab = evict->chained || evict->for_index || n_tries >= CLASS_TRIES || !is_own;
        uint64_t size = evict->for_index ? 1 : evict->cost, cost = 0;

        if (!any_slab)
                cost = evict_in_class(s);
        else if (evict->chained && !evict->for_index && n_tries < CLASS_TRIES)
                cost = evict_chains(s);
        /* Each try evicts more: a slab that also has chunks of other entries does not become free. */
        if (cost < size)
                cost += empty_slabs(s, any_slab ? NO_KEY : s->key, (size << n_tries) - cost);
        return cost;
}

/*
 * Searches map after map until one has entries to evict. A map that has none is searched again after a put into it.
 * `trie`: see evict-from.h.
 */
static uint64_t evict_in_maps(Search *s, const ShmTrie *trie, ShmMapSet maps, uint32_t n_tries) {
        const ShmTrie *from;
        uint64_t cost = 0;
        ShmTrie other;

        while (cost == 0 && (from = shm_evict_from(trie, &maps, &other)) != NULL) {
                turn_to(s, from);
                cost = evict_in_map(s, from == trie, n_tries);
                shm_evict_offer(from, cost != 0);
        }
        turn_back(s);
        return cost;
}

/*
 * While other threads evict, a search may miss entries: so before a call fails, the maps without a bit are searched,
 * too. If such a search was in vain, it is not made again while the counts of all maps stay, unless it is long ago: so
 * puts into a full pool fail at once.
 */
static uint64_t evict_in_all_maps(Search *s, const ShmTrie *trie, const ShmMapSet *searched,
                                  uint32_t n_tries) {
        ShmMapSet all;
        uint64_t stamp = shm_evict_stamp(trie->arena, &all), begun = monotonic_ms(), cost;
        ShmVainSearch *vain = &s->actor->vain;

        if (vain->until_ms > begun && vain->stamp == stamp)
                return 0;
        cost = evict_in_maps(s, trie, shm_map_set_less(&all, searched), n_tries);
        if (cost == 0)
                *vain = (ShmVainSearch){
                        .stamp = stamp,
                        .until_ms = begun + VAIN_MS + (monotonic_ms() - begun) * VAIN_SHARE,
                };
        return cost;
}

/* Evicts for a put into a map that evicts: `trie`; else its `map` is 0. */
static bool evict_for(Search *s, const ShmTrie *trie, uint32_t n_tries) {
        const ShmEvict *evict = s->evict;
        ShmMapSet maps = shm_evict_maps(trie), own = shm_evict_own(trie),
                  others = shm_map_set_less(&maps, &own);
        uint64_t cost = 0;

        if (trie->map != 0 && n_tries == OWN_TRY && !evict->chained && !evict->for_index &&
            !shm_map_set_is_empty(&others))
                cost = evict_in_class(s);
        if (cost == 0)
                cost = evict_in_maps(s, trie, maps, n_tries);
        if (cost == 0)
                cost = evict_in_all_maps(s, trie, &maps, n_tries);
        return cost != 0;
}

bool shm_evict_for_memory(ShmActor *actor, const ShmTrie *trie, const ShmEvict *evict, uint32_t n_tries) {
        Search s = { .actor = actor, .counts = trie, .from = trie, .evict = evict, .looks = LOOKS_ALL };
        ShmTrie own = *trie;
        bool evicted;

        own.map = evict_is_on(evict) ? trie->map : 0;
        if (n_tries >= TRIES_MAX || !can_delete(actor) ||
            (evict->chained && !may_fit(actor, &own, evict->cost)) ||
            (own.map != 0 && !key_of(trie, evict, &s.key)))
                return false;
        if (own.map != 0)
                set_full(trie, shm_map_now_ms(trie) + FULL_MS);
        evicted = evict_for(&s, &own, n_tries);
        /* A slab that was emptied for a node belongs to the index: for entries, the pool is still full. */
        if (own.map != 0 && s.emptied && !evict->for_index)
                set_full(trie, 0);
        return evicted;
}

bool shm_evict_for_object(ShmActor *actor, uint64_t size, uint32_t n_tries) {
        const ShmTrie none = { .arena = actor->arena };
        const ShmEvict evict = { .cost = size };
        Search s = { .actor = actor, .counts = &none, .from = &none, .evict = &evict, .looks = LOOKS_ALL };

        if (n_tries >= TRIES_MAX || !can_delete(actor) || !evict_for(&s, &none, n_tries))
                return false;
        shm_cache_uncount_failure(actor);
        return true;
}

/* Whether one of the first slabs in the set is in the state, and of the class and epoch of the key; 0: of any. */
static bool has_slab(const ShmArena *arena, uint32_t set, SlabState state, uint64_t key) {
        uint32_t slab, from = 0;

        for (uint32_t i = 0; i < SLABS_TRIED && shm_set_find(arena, set, from, &slab); i++, from = slab + 1) {
                SlabWord w = shm_slab_word(arena, slab);

                if (slab_word_state(w) == state && (key == 0 || (w.high & SLAB_KEY_MASK) == key))
                        return true;
        }
        return false;
}

/*
 * Whether there is a slot for the put: in the cache of this thread, in a slab of its class, or in a free slab. A set
 * may have bits of other slabs, which allocations take out.
 */
static bool has_slot(const ShmActor *actor, uint64_t key) {
        const ShmPlaceOf *place = &actor->places[shm_place_index_of(key)];
        uint32_t partial = shm_set_partial(actor->arena, slab_key_epoch(key), slab_key_class(key));

        /* ORDER: rlx; ours, or a hint. */
        if (place->key == key && shm_load_rlx(&shm_cache_at_place(actor, place)->count) > 0)
                return true;
        return has_slab(actor->arena, partial, SLAB_PARTIAL, key) ||
               has_slab(actor->arena, SHM_SET_FREE, SLAB_FREE, 0);
}

bool shm_evict_was_full(const ShmTrie *trie) {
        uint64_t full_ms = trie->map != 0 ? shm_hint_load(&state_of(trie)->full_ms) : 0;

        return full_ms != 0 && full_ms - 1 - shm_map_now_ms(trie) < FULL_MS;
}

/*
 * If the pool was full a moment ago, and has no slot for the put, evicts before the allocation, since an allocation
 * that fails takes longer. If the next entries to evict are another map's, nothing is done: a failed allocation then
 * empties whole slabs, which is enough for many puts.
 */
static void evict_ahead(ShmActor *actor, const ShmTrie *trie, const ShmEvict *evict) {
        Search s = { .actor = actor, .counts = trie, .from = trie, .evict = evict, .looks = LOOKS_MAX };
        ShmMapSet maps = shm_evict_maps(trie);
        ShmTrie other;

        if (shm_hint_load(&state_of(trie)->full_ms) == 0 || !shm_map_set_has(&maps, trie->map - 1) ||
            evict->chained || !key_of(trie, evict, &s.key) || !shm_evict_was_full(trie) ||
            has_slot(actor, s.key) || shm_evict_from(trie, &maps, &other) != trie || !can_delete(actor))
                return;
        (void) evict_in_class(&s);
        if (s.emptied)
                set_full(trie, 0);
}

/*
 * Evicts the excess over the limit. If that is much, stops once it has evicted as many bytes as the put brings, and
 * EXTRA_MAX entries.
 */
static void evict_excess(ShmActor *actor, const ShmTrie *trie, uint64_t excess, const ShmEvict *evict) {
        uint64_t gone = 0, cost = 1;

        for (uint32_t n = 0; gone < excess && cost != 0 && (gone < evict->cost || n < EXTRA_MAX); n++) {
                cost = shm_evict_any(actor, trie, evict->old);
                gone += cost;
        }
}

/* The bytes in the state of the map, with those in the tally of this thread. */
static uint64_t bytes_used(const ShmActor *actor, const ShmTrie *trie) {
        const ShmMapTally *tally = &actor->record->tally;
        /* ORDER: rlx; ours alone. */
        bool counts = shm_load_rlx(&tally->map) == trie->map;
        /* ORDER: rlx; ours alone. */
        int64_t own = counts ? (int64_t) shm_load_rlx(&tally->counts[SHM_MAP_BYTES]) : 0;
        /* May be below 0: the name was another map's, whose entries are still in tallies. */
        int64_t used = (int64_t) shm_hint_load(&state_of(trie)->counts[SHM_MAP_BYTES]) + own;

        return used < 0 ? 0 : (uint64_t) used;
}

/* The bytes of the map with the tallies of all threads, which takes a walk over all records. */
static uint64_t bytes_exactly(const ShmTrie *trie) {
        ShmMapTotals totals;

        shm_map_counts(trie->arena, trie->map - 1, &totals);
        return totals.bytes;
}

static uint64_t excess_of(const ShmEvict *evict, uint64_t bytes) {
        uint64_t limit = evict->options.limit_bytes, used = bytes + evict->cost - evict->old_cost;

        return (int64_t) used > 0 && used > limit ? used - limit : 0;
}

/*
 * By how much the map would exceed its limit. If the limit was higher before, or the name was another map's, the
 * tallies of threads that are idle or have ended may hold more than the limit lets a thread keep. So before a put is
 * refused, and before much is evicted, the tallies of all records are summed up.
 */
static uint64_t excess_for(const ShmActor *actor, const ShmTrie *trie, const ShmEvict *evict) {
        uint64_t usual = evict_is_on(evict) ? evict->cost + evict->options.limit_bytes / EXCESS_SHARE : 0;
        uint64_t excess = excess_of(evict, bytes_used(actor, trie));

        return excess > usual ? excess_of(evict, bytes_exactly(trie)) : excess;
}

int shm_evict_for_put(ShmActor *actor, const ShmTrie *trie, const ShmEvict *evict) {
        uint64_t limit = evict->options.limit_bytes, excess;

        if (limit != 0) {
                if (evict->cost > limit)
                        return -E2BIG;
                excess = excess_for(actor, trie, evict);
                if (excess > 0) {
                        if (!evict_is_on(evict))
                                return evict->cost > evict->old_cost ? -ENOSPC : 0;
                        if (!can_delete(actor))
                                return -ENOBUFS;
                        evict_excess(actor, trie, excess, evict);
                        return 0;
                }
        }
        if (evict_is_on(evict))
                evict_ahead(actor, trie, evict);
        return 0;
}
