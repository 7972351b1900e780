#pragma once
/* Counts of maps: their entries and bytes, and how many entries were inserted, deleted, expired and evicted. */
#include "shm/arch/probe.h"
#include "shm/arena/actor.h"
#include "shm/map/leaf/chain.h"
#include "shm/map/state/options.h"
#include "shm/map/trie/trie.h"
#include "shm/map/state/wait.h"

typedef struct ShmMapTotals {
        uint64_t entries,
                bytes; /* present; approximate while threads write, and after a death until repair */
        uint64_t inserts, deletes, expirations, evictions, failures; /* ShmMapCount */
        uint64_t hits, misses; /* gets of threads that have records */
} ShmMapTotals;

/* The index of the named root that names a map's root; SHM_ROOTS_MAX: none does. */
uint32_t shm_map_index(const ShmArena *arena, uint64_t root);
/* From now on changes through this view of a map are counted, if a named root names the map. */
void shm_map_attach(ShmTrie *trie);
/* The map that root i names, attached. False: it names none. */
bool shm_map_open_root(ShmArena *arena, uint32_t i, ShmTrie *ret);

/* The counts of the map that root i names, or named. */
void shm_map_totals(const ShmArena *arena, uint32_t i, ShmMapTotals *ret);
/* The counts without hits and misses, which are 0: these would take a walk over all records. */
void shm_map_counts(const ShmArena *arena, uint32_t i, ShmMapTotals *ret);

/* The most bytes that a thread has in its tally. With a limit, all threads together have a 64th of it at most. */
#define SHM_TALLY_BYTES UINT64_C(65536)
/*
 * The most inserts that a tally has. If as many bytes are freed as put, the bytes alone would never move the tally to
 * the state. But the number of entries may change, and eviction needs their mean size.
 */
#define SHM_TALLY_INSERTS 256U

/* The bytes of the entries, for comparison with a limit. SHM_TALLY_BYTES says how far this may be off. */
static inline uint64_t shm_map_bytes_of(const ShmArena *arena, uint32_t i) {
        /* ORDER: rlx; it may be old. */
        uint64_t n = shm_load_rlx(&arena->header->maps[i].counts[SHM_MAP_BYTES]);

        return (int64_t) n < 0 ? 0 : n;
}

static inline uint64_t shm_map_bytes(const ShmTrie *trie) {
        return shm_map_bytes_of(trie->arena, trie->map - 1);
}

/* The number of entries of the map with this index. */
uint64_t shm_map_entries_of(const ShmArena *arena, uint32_t i);
/* The number of these entries. */
uint64_t shm_map_entries(const ShmTrie *trie);

/* Adds this thread's tally to the state of the tally's map, and clears it. The record must name the map as changed. */
void shm_tally_flush(ShmActor *actor);
/* From now on the tally is of another map. */
void shm_tally_turn(ShmActor *actor, uint32_t map);
/* Whether the difference is too large for a tally: by the limit of the map, or in any case. */
bool shm_tally_is_far_of(const ShmTrie *trie, uint64_t difference, uint64_t limit);
static inline bool shm_tally_is_far(const ShmTrie *trie, uint64_t difference) {
        uint64_t limit = shm_map_options_limit(trie);

        return difference + SHM_TALLY_BYTES > 2 * SHM_TALLY_BYTES ||
               (limit != 0 && shm_tally_is_far_of(trie, difference, limit));
}

/* The map to count for; 0: the root names another map by now, so nothing is counted: a tally of map 0 is dropped. */
static inline uint32_t shm_tally_map(const ShmTrie *trie) {
        /* ORDER: rlx; a root is rarely unset, and then a count may be lost. */
        return shm_load_rlx(&trie->arena->header->roots[trie->map - 1].handle) == trie->root ? trie->map : 0;
}

/*
 * A writer calls these before it changes a map, and after it has counted the change. If it dies in between, the map is
 * counted anew (shm_map_miscounted()). They do not nest. Between two changes a call may begin again, for another map.
 */
static inline void shm_tally_begin(ShmActor *actor, const ShmTrie *trie) {
        uint32_t map;

        if (trie->map == 0)
                return;
        map = shm_tally_map(trie);
        /* ORDER: rlx; only the owner writes it. */
        if (__builtin_expect(shm_load_rlx(&actor->record->tally.map) != map, 0))
                shm_tally_turn(actor, map);
        /* ORDER: rlx; before the release of the first change. */
        shm_store_rlx(&actor->record->map, map);
        shm_compiler_barrier();
}

static inline void shm_tally_end(ShmActor *actor, const ShmTrie *trie) {
        if (trie->map != 0)
                shm_store_rel(&actor->record->map, 0); /* ORDER: rel; the change was counted. */
}

static inline void shm_tally_add(ShmActor *actor, const ShmTrie *trie, ShmMapCount count, uint64_t n) {
        uint64_t *sum = &actor->record->tally.counts[count];

        if (trie->map == 0 || n == 0)
                return;
        n += shm_load_rlx(sum); /* ORDER: rlx; only the owner writes it. */
        /* ORDER: rel, pairs with sum_counts(); the change that is counted is before. */
        shm_store_rel(sum, n);
        if (count == SHM_MAP_BYTES ? __builtin_expect(shm_tally_is_far(trie, n), 0)
                                   : count == SHM_MAP_INSERTS && n >= SHM_TALLY_INSERTS)
                shm_tally_flush(actor);
}

/*
 * The memory of an entry: of all slots that it takes, with what their slabs have beside slots, and of its part of the
 * index. `room`: the size of its leaf's slot.
 */
static inline uint64_t shm_leaf_cost(const ShmArena *arena, const ShmMapLeaf *head, uint32_t room) {
        uint64_t cost = arena->classes[shm_arena_class(arena, room)].share + SHM_INDEX_SHARE;

        if (__builtin_expect(head->flags & SHM_LEAF_CHAINED, 0))
                cost += shm_chain_cost(arena, head, room);
        return cost;
}

static inline uint64_t shm_map_view_cost(const ShmArena *arena, const ShmMapView *view) {
        return shm_leaf_cost(arena, &view->head, view->room);
}

/* An entry went. */
static inline void shm_tally_gone(ShmActor *actor, const ShmTrie *trie, ShmMapCount count,
                                  const ShmMapView *view) {
        if (count == SHM_MAP_EXPIRATIONS)
                shm_probe(expire, shm_trie_name(trie), view->head.hash);
        shm_tally_add(actor, trie, count, 1);
        shm_tally_add(actor, trie, SHM_MAP_BYTES, -shm_map_view_cost(trie->arena, view));
        if (__builtin_expect(view->head.flags & SHM_LEAF_CLAIM, 0))
                shm_wait_wake(trie, view->head.hash);
}

/* These two count a get. Only the owner of the record calls them. */
static inline void shm_tally_hit(const ShmActor *actor, const ShmTrie *trie) {
        if (trie->map != 0)
                shm_hint_count(&actor->record->map_gets[trie->map - 1].hits);
}

static inline void shm_tally_miss(const ShmActor *actor, const ShmTrie *trie) {
        if (trie->map != 0)
                shm_hint_count(&actor->record->map_gets[trie->map - 1].misses);
}

/* For repair, with the record of a dead thread: the map that the thread was changing is to be counted. */
void shm_map_miscounted(ShmArena *arena, const ShmRecord *record);

/* From now on the map's entries are to be counted; of a map that was removed, they are to be freed. */
void shm_map_ask_for_census(ShmArena *arena, uint32_t i);
static inline void shm_map_ask_for_census_of(const ShmTrie *trie) {
        if (trie->map != 0)
                shm_map_ask_for_census(trie->arena, trie->map - 1);
}

/* Counting a map anew, by a walk while other threads write: see ShmMapCensus. */

/* Whether a map is to be counted, since a thread died in a change of it. */
bool shm_map_is_miscounted(const ShmArena *arena, uint32_t i);
void shm_map_census_begin(const ShmArena *arena, uint32_t i, ShmMapCensus *ret);
/* How many counts of the map were asked for so far; 0 if none was, for any map. */
uint64_t shm_map_asked(const ShmArena *arena, uint32_t i);
/* There is nothing to count: shm_map_asked() returned `asked`, and after that the root named no map that exists. */
void shm_map_uncounted(ShmArena *arena, uint32_t i, uint64_t asked);
/* The root names a new map now: drops the entries and bytes that were counted for the earlier one at the begin. */
void shm_map_census_drop(ShmArena *arena, uint32_t i, const ShmMapCensus *census);
/*
 * Asks for a count of each map whose last one was made beside changes, and that nobody has changed for a while now. By
 * the clock of shm_now_usec(): all time namespaces share it, and if somebody sets it, a map is counted too early.
 */
void shm_map_count_again(ShmArena *arena, uint64_t now_ms);
/* Corrects entries and bytes. */
void shm_map_census_end(ShmActor *control, uint32_t i, const ShmMapCensus *census);
