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
 * A young sweep follows one in which many entries were put. (Entries that were evicted do not tell: a large one makes
 * room for many.) The sweeps get smaller until few entries are young; a full one is next. `young` has two bits for
 * each slot, for sweeps of even and odd numbers: so entries put in this sweep and in the one before are told apart,
 * and an entry lives for a sweep at least.
 *
 * While only new keys are put, and none is used, one young sweep follows another. Each evicts an entry for each that is
 * put, so a put costs no more after 10^8 of them. Entries that were used before that stay meanwhile. So they do in
 * SIEVE, whose hand is then as far from the head for ever.
 *
 * Sizes: an entry that is put, and takes less than a third of the map's mean, begins as one that was used. So the hand
 * evicts it in its second sweep, where a larger one that nobody uses goes in the first: one of these has room for
 * several small entries, of which each may be hit. Where all entries are of one size that is SIEVE. A large entry that
 * is used stays as any other. A threshold at the whole mean lets an access log miss 8 points more, as nearly all of its
 * pages are smaller than that; at a half fewer requests miss than at a third, but sizes change so much that more slots
 * stay empty.
 *
 * Each class has a hand, since where the pool has no memory only slots of one class help. Otherwise the hand that is
 * behind goes next: together they are one hand that goes over all slabs.
 *
 * Invariants
 *   1. An entry that is put while a sweep is under way is not evicted in that sweep: its young bit is set before it is
 *      linked.
 *   2. A slab with entries of a map has the map's bit in `maps`, and the map its class in `classes` and its range in
 *      `ranges`, from before they are linked. None is ever cleared: a slab without such entries costs a look. Ranges
 *      spare a small map in a large pool most of these: 20 entries among 2^18 slabs take 28 us for each put without.
 *   3. All else here is a hint.
 *
 * Who may do what: a put, with its own actor, outside any operation, before it has a leaf. Whoever reads an entry, and
 *   may write the arena, sets its bit.
 *
 * The hands are in evict-hand.c, the passes over slots in evict-pass.c, the choice between maps where the pool has no
 * memory in evict-from.c, and here are the puts that call for them.
 *
 * Crash: see evict-pass.c.
 */
#include "shm/map/evict.h"

#include <errno.h>

#include "shm/map/evict-from.h"
#include "shm/map/evict-pass.h"
#include "shm/map/lifetime.h"
#include "shm/map/tally.h"

#define SMALL_SHARE 3 /* an entry is small below the mean over this */
#define EXTRA_MAX 16 /* entries that a put evicts beside its own size, where the limit was lowered */
/* A limit is mostly exceeded by less: threads keep half of that share to themselves. */
#define EXCESS_SHARE 32
#define EMPTIED_MAX 512 /* slabs that are emptied for one put */
#define CHAINS_MAX 64 /* entries looked at for large ones */
#define TRIES_MAX 32 /* a put: others may take the memory that it made free */
#define FULL_MS 100 /* a pool that was full is taken to be full for so long */
#define CLASS_TRIES 2 /* then others take the slots of the class that it makes free */
#define OWN_TRY 3 /* slabs of another map have objects, too, and did not help: slots of the own one may */

void shm_evict_set_visited(const ShmTrie *trie, uint64_t leaf) {
        SlotId id = shm_handle_slot(leaf);

        if (!trie->arena->read_only)
                /* ORDER: sc; a hint. */
                (void) shm_or_sc(&trie->arena->lines[slot_id_slab(id)].visited, slot_id_mask(id));
}

static bool evict_is_on(const ShmEvict *evict) {
        return evict->options.evict != SHM_MAP_EVICT_NEVER;
}

static bool is_small(const ShmTrie *trie, uint64_t cost) {
        return cost * SMALL_SHARE * shm_map_entries(trie) < shm_map_bytes(trie);
}

static void mark_range(const ShmTrie *trie, uint32_t slab) {
        uint32_t range = slab >> range_shift(trie->arena);

        bits_set(&state_of(trie)->ranges[range / 64 % (SHM_MAP_RANGES / 64)], UINT64_C(1) << range % 64);
}

void shm_evict_offer(const ShmTrie *trie, bool evicts) {
        (evicts ? bits_set : bits_clear)(&trie->arena->header->evicting, UINT64_C(1) << (trie->map - 1));
}

void shm_evict_mark(const ShmTrie *trie, uint64_t leaf, uint32_t class, uint64_t cost, bool used) {
        SlotId id = shm_handle_slot(leaf);
        ShmSlabLine *line = &trie->arena->lines[slot_id_slab(id)];
        uint32_t parity;

        if (trie->map == 0)
                return;
        bits_set(&state_of(trie)->classes, UINT64_C(1) << class);
        mark_range(trie, slot_id_slab(id));
        /* Last: the next put looks at no range, see shm_evict_is_marked(). */
        bits_set(&line->maps, UINT64_C(1) << (trie->map - 1));
        if (shm_map_options_evict(trie) == SHM_MAP_EVICT_NEVER)
                return;
        shm_evict_offer(trie, true);
        if (!used)
                (void) shm_add_rlx(&hand_of(trie, class)->put, 1); /* ORDER: rlx; a hint. */
        parity = hand_unpack(hand_load(trie, class)).sweep & 1;
        bits_set(&line->young[parity], slot_id_mask(id));
        bits_clear(&line->young[!parity], slot_id_mask(id));
        if (used || is_small(trie, cost))
                bits_set(&line->visited, slot_id_mask(id));
        else
                bits_clear(&line->visited, slot_id_mask(id));
}

/* 0: there is free memory again. */
static void set_full(const ShmTrie *trie, uint64_t until_ms) {
        shm_store_rlx(&state_of(trie)->full_ms, until_ms); /* ORDER: rlx; a hint. */
}

/* False: nothing can be put there now. */
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
        const ShmTrie *from; /* the map whose entries go */
        const ShmEvict *evict;
        uint64_t key; /* key of the slab that the leaf is to be in */
        bool emptied; /* whole slabs: there is free memory again */
} Search;

/* Entries of this map go; they are counted as its own. */
static void turn_to(Search *s, const ShmTrie *from) {
        s->from = from;
        shm_tally_begin(s->actor, from);
}

/* Evicts the map's entries in a slab. True: a large one is enough, if its chunks are slabs of their own. */
static bool empty_of_map(const Search *s, uint32_t slab, uint64_t size, uint64_t *cost) {
        uint64_t last = 0;
        uint64_t enough = shm_chain_takes_slabs(s->from->arena) ? s->from->arena->size_max : UINT64_MAX;

        for (uint32_t slot = 0; slot < SHM_SLOTS_MAX && (*cost < size || last <= enough); slot++) {
                last = shm_evict_slot(s->actor, s->from, slot_id(slab, slot), s->evict->old);
                *cost += last;
        }
        return *cost >= size && last > enough;
}

/* Evicts all entries of a slab, those of other maps, too: else it would not be free. */
static uint64_t empty_slab(Search *s, uint32_t slab, uint64_t size) {
        const ShmTrie *from = s->from;
        uint64_t cost = 0, maps = shm_evict_others(from, slab);
        ShmTrie other;

        if (empty_of_map(s, slab, size, &cost) || maps == 0)
                return cost;
        for (; maps != 0; maps &= maps - 1) {
                if (!shm_evict_open(from->arena, (uint32_t) __builtin_ctzll(maps), &other))
                        continue;
                turn_to(s, &other);
                (void) empty_of_map(s, slab, UINT64_MAX, &cost);
        }
        turn_to(s, from);
        return cost;
}

/* Evicts all entries of whole slabs, of `size` bytes or more: such a slab is free for any class. Returns their cost. */
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
 * Where only slots of one class and epoch help. A class that is small, and wanted by many, is swept again and again:
 * then it is to have a slab of the class that is swept least.
 */
static uint64_t evict_in_class(Search *s) {
        uint32_t class = s->evict->class;
        uint64_t before = hand_load(s->from, class), last, first, cost, now;

        cost = shm_evict_next(s->actor, s->from, class, s->key, ENDS_MAX, s->evict->old);
        now = hand_load(s->from, class);
        if (cost == 0 || sweeps_ahead(now, before) <= 0)
                return cost;
        (void) shm_hand_hindmost(s->from, &last, &first);
        if (sweeps_ahead(now, last) >= LEAD_MAX)
                cost += empty_slabs(s, s->key, 1);
        return cost;
}

/* Large entries first, by the hand: their chunks are slots as are wanted. */
static uint64_t evict_chains(const Search *s) {
        uint64_t cost = 0, next;

        for (uint32_t i = 0; i < CHAINS_MAX && cost < s->evict->cost; i++) {
                next = shm_evict_any(s->actor, s->from, s->evict->old);
                if (next == 0)
                        break;
                cost += next > s->from->arena->size_max ? next : 0;
        }
        return cost;
}

/*
 * Evicts in one map. Returns the cost of what went. Of another map whole slabs go: it may have no slot of the class and
 * epoch that are wanted, and each put would look for one in all of its slabs.
 */
static uint64_t evict_in_map(Search *s, bool is_own, uint32_t n_tries) {
        const ShmEvict *evict = s->evict;
        bool any_slab = evict->chained || evict->for_index || n_tries >= CLASS_TRIES || !is_own;
        uint64_t size = evict->for_index ? 1 : evict->cost, cost = 0;

        if (!any_slab)
                cost = evict_in_class(s);
        else if (evict->chained && !evict->for_index && n_tries < CLASS_TRIES)
                cost = evict_chains(s);
        /* More from try to try: in slabs where chunks of others are, too, entries may go without a slab being empty. */
        if (cost < size)
                cost += empty_slabs(s, any_slab ? NO_KEY : s->key, (size << n_tries) - cost);
        return cost;
}

/* From map to map, until one has something to give. One that has nothing is searched again after a put into it. */
static uint64_t evict_in_maps(Search *s, const ShmTrie *trie, uint64_t maps, uint32_t n_tries) {
        const ShmTrie *from;
        uint64_t cost = 0;
        ShmTrie other;

        while (cost == 0 && (from = shm_evict_from(trie, &maps, &other)) != NULL) {
                turn_to(s, from);
                cost = evict_in_map(s, from == trie, n_tries);
                shm_evict_offer(from, cost != 0);
        }
        turn_to(s, trie);
        return cost;
}

bool shm_evict_for_memory(ShmActor *actor, const ShmTrie *trie, const ShmEvict *evict, uint32_t n_tries) {
        Search s = { .actor = actor, .from = trie, .evict = evict };
        uint64_t maps, cost = 0;

        if (n_tries >= TRIES_MAX || trie->map == 0 || !evict_is_on(evict) ||
            (evict->chained && !shm_evict_may_fit(trie, evict->cost)) || !key_of(trie, evict, &s.key))
                return false;
        set_full(trie, shm_map_now_ms(trie) + FULL_MS);
        maps = shm_evict_maps(trie);
        if (n_tries == OWN_TRY && !evict->chained && !evict->for_index && (maps & (maps - 1)) != 0)
                cost = evict_in_class(&s);
        if (cost == 0)
                cost = evict_in_maps(&s, trie, maps, n_tries);
        /* Beside others a search may find nothing where there is something. */
        if (cost == 0)
                cost = evict_in_maps(&s, trie, ~maps, n_tries);
        /* A slab for a node is the index's: entries go on making room for each other. */
        if (s.emptied && !evict->for_index)
                set_full(trie, 0);
        return cost != 0;
}

/* Whether this thread has a slot for the put in its cache. */
static bool has_slot(const ShmActor *actor, uint64_t key) {
        const ShmPlaceOf *place = &actor->places[(key & SHM_PLACE_MASK) >> SLAB_CLASS_SHIFT];

        return place->key == key && shm_load_rlx(&place->cache->count) > 0; /* ORDER: rlx; ours, or a hint. */
}

bool shm_evict_was_full(const ShmTrie *trie) {
        uint64_t full_ms =
                trie->map != 0 ? shm_load_rlx(&state_of(trie)->full_ms) : 0; /* ORDER: rlx; a hint. */

        return full_ms != 0 && full_ms - 1 - shm_map_now_ms(trie) < FULL_MS;
}

/*
 * Where the pool was full a moment ago: before an allocation fails, which takes longer. Whole slabs of another map are
 * many slots: for these one allocation fails.
 */
static void evict_ahead(ShmActor *actor, const ShmTrie *trie, const ShmEvict *evict) {
        Search s = { .actor = actor, .from = trie, .evict = evict };
        uint64_t maps = shm_evict_maps(trie);
        ShmTrie other;

        /* ORDER: rlx; a hint. */
        if (shm_load_rlx(&state_of(trie)->full_ms) == 0 || evict->chained || !key_of(trie, evict, &s.key) ||
            has_slot(actor, s.key) || !shm_evict_was_full(trie) ||
            shm_evict_from(trie, &maps, &other) != trie)
                return;
        (void) evict_in_class(&s);
        if (s.emptied)
                set_full(trie, 0);
}

/* Evicts until so much more than the limit is gone, or as much as the put brings, and some more. */
static void evict_excess(ShmActor *actor, const ShmTrie *trie, uint64_t excess, const ShmEvict *evict) {
        uint64_t gone = 0, cost = 1;

        for (uint32_t n = 0; gone < excess && cost != 0 && (gone < evict->cost || n < EXTRA_MAX); n++) {
                cost = shm_evict_any(actor, trie, evict->old);
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
        /* A name that was another map's: that one's entries in tallies are below 0 here. ORDER: rlx; a hint. */
        int64_t used = (int64_t) shm_load_rlx(&state_of(trie)->counts[SHM_MAP_BYTES]) + own;

        return used < 0 ? 0 : (uint64_t) used;
}

/* With what all threads keep to themselves: a look at each record. */
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
 * By how much the map would exceed its limit. Where its name was another map's, or its limit was higher, threads that
 * did nothing since, or ended, may keep more to themselves than this limit allows. So before a put is refused, and
 * before much is evicted, the records are looked at.
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
                        evict_excess(actor, trie, excess, evict);
                        return 0;
                }
        }
        if (evict_is_on(evict))
                evict_ahead(actor, trie, evict);
        return 0;
}
