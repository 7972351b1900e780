#pragma once
/* Counts of maps: of their entries, and of what becomes of these. */
#include "shm/arena/actor.h"
#include "shm/map/chain.h"
#include "shm/map/options.h"
#include "shm/map/trie.h"
#include "shm/map/wait.h"

typedef struct ShmMapTotals {
        uint64_t entries,
                bytes; /* present; approximate beside writers, and after a death until it is repaired */
        uint64_t inserts, deletes, expirations, evictions, failures; /* ShmMapCount */
        uint64_t hits, misses; /* gets of threads that have records */
} ShmMapTotals;

/* The index of the named root that names a map's root; SHM_ROOTS_MAX: none does. */
uint32_t shm_map_index(const ShmArena *arena, uint64_t root);
/* From now on what is done through this view of a map that has a name is counted. */
void shm_map_attach(ShmTrie *trie);
/* The map that root i names, attached. False: it names none. */
bool shm_map_open_root(ShmArena *arena, uint32_t i, ShmTrie *ret);

/* The counts of the map that root i names, or named. */
void shm_map_totals(const ShmArena *arena, uint32_t i, ShmMapTotals *ret);
/* The same without hits and misses, which are 0: these are a walk over all records. */
void shm_map_counts(const ShmArena *arena, uint32_t i, ShmMapTotals *ret);

/* A thread keeps differences of the bytes to itself up to this, and all threads together up to a 64th of a limit. */
#define SHM_TALLY_BYTES UINT64_C(65536)
/* The bytes stay where as many go as come: the entries may not, and eviction asks for their mean. */
#define SHM_TALLY_INSERTS 256U

/* The size of the entries as limits count it: SHM_TALLY_BYTES says how far it may be off. */
static inline uint64_t shm_map_bytes_of(const ShmArena *arena, uint32_t i) {
        /* ORDER: rlx; as it was a moment ago. */
        uint64_t n = shm_load_rlx(&arena->header->maps[i].counts[SHM_MAP_BYTES]);

        return (int64_t) n < 0 ? 0 : n;
}

static inline uint64_t shm_map_bytes(const ShmTrie *trie) {
        return shm_map_bytes_of(trie->arena, trie->map - 1);
}

/* How many entries these are. */
uint64_t shm_map_entries(const ShmTrie *trie);

/* Adds the differences in this thread's record to the state of the map that its record names as being changed. */
void shm_tally_flush(ShmActor *actor);
/* From now on the differences are of another map. */
void shm_tally_turn(ShmActor *actor, uint32_t map);
/* Whether the thread keeps too large a difference to itself; the same for a map with a limit. */
bool shm_tally_is_far_of(const ShmTrie *trie, uint64_t difference, uint64_t limit);
static inline bool shm_tally_is_far(const ShmTrie *trie, uint64_t difference) {
        uint64_t limit = shm_map_options_limit(trie);

        return difference + SHM_TALLY_BYTES > 2 * SHM_TALLY_BYTES ||
               (limit != 0 && shm_tally_is_far_of(trie, difference, limit));
}

/* 0: the root has another map since, whose counts are not ours. A tally of no map goes nowhere. */
static inline uint32_t shm_tally_map(const ShmTrie *trie) {
        /* ORDER: rlx; a root is rarely unset, and a count of that moment may be lost. */
        return shm_load_rlx(&trie->arena->header->roots[trie->map - 1].handle) == trie->root ? trie->map : 0;
}

/*
 * Around each change of a map, and the counting of it: a map whose writer dies between the two is counted anew
 * (shm_map_miscounted()). They do not nest; between two changes a call may begin anew for another map.
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
        shm_store_rlx(sum, n); /* ORDER: rlx; others read it for statistics. */
        if (count == SHM_MAP_BYTES ? __builtin_expect(shm_tally_is_far(trie, n), 0)
                                   : count == SHM_MAP_INSERTS && n >= SHM_TALLY_INSERTS)
                shm_tally_flush(actor);
}

/* The size of the slots that an entry takes; `room`: of its leaf's. */
static inline uint64_t shm_leaf_cost(const ShmArena *arena, const ShmMapLeaf *head, uint64_t room) {
        if (__builtin_expect(head->flags & SHM_LEAF_CHAINED, 0))
                room += shm_chain_cost(arena, head, (uint32_t) room);
        return room;
}

static inline uint64_t shm_map_view_cost(const ShmArena *arena, const ShmMapView *view) {
        return shm_leaf_cost(arena, &view->head, view->room);
}

/* An entry went. */
static inline void shm_tally_gone(ShmActor *actor, const ShmTrie *trie, ShmMapCount count,
                                  const ShmMapView *view) {
        shm_tally_add(actor, trie, count, 1);
        shm_tally_add(actor, trie, SHM_MAP_BYTES, -shm_map_view_cost(trie->arena, view));
        if (__builtin_expect(view->head.flags & SHM_LEAF_CLAIM, 0))
                shm_wait_wake(trie, view->head.hash);
}

/* A get. Only the owner of the record calls them. */
static inline void shm_tally_hit(const ShmActor *actor, const ShmTrie *trie) {
        if (trie->map != 0)
                /* ORDER: rlx; a statistic. */
                shm_count_rlx(&actor->record->map_hits[trie->map - 1]);
}

static inline void shm_tally_miss(const ShmActor *actor, const ShmTrie *trie) {
        if (trie->map != 0)
                /* ORDER: rlx; a statistic. */
                shm_count_rlx(&actor->record->map_misses[trie->map - 1]);
}

/* For repair, of a dead thread's record: the map that it was changing is to be counted. */
void shm_map_miscounted(ShmArena *arena, const ShmRecord *record);

/* Counting a map anew, by a walk beside writers: see ShmMapCensus. */

/* Whether a map is to be counted, since somebody died in a change of it. */
bool shm_map_is_miscounted(const ShmArena *arena, uint32_t i);
void shm_map_census_begin(const ShmArena *arena, uint32_t i, ShmMapCensus *ret);
/* How often the map was to be counted; 0 where no map was. */
uint64_t shm_map_asked(const ShmArena *arena, uint32_t i);
/* There is nothing to be counted: after this was `asked`, the root named no map, or one that is no more. */
void shm_map_uncounted(ShmArena *arena, uint32_t i, uint64_t asked);
/* The root names a new map since, whose entries are not those that were counted when the census began. */
void shm_map_census_drop(ShmArena *arena, uint32_t i, const ShmMapCensus *census);
/* Corrects entries and bytes. */
void shm_map_census_end(ShmActor *control, uint32_t i, const ShmMapCensus *census);
