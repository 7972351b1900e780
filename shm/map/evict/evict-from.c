/*
 * Maps: eviction from other maps
 *
 * Purpose: if the pool has no memory left for a put, chooses the map whose entries are evicted.
 *
 * All maps that evict share the memory of their entries. A put takes memory from the largest of these maps. So a map
 * that needs less than an equal share keeps all of its entries, however many entries are put into other maps, and the
 * other maps come to equal sizes. If a put evicted in its own map alone, a map that was made late, or that shrank,
 * would stay small for ever, and its puts would fail once it has no entries. If the age of entries decided, over all
 * maps, a map whose users read many keys once would empty the other maps.
 *
 * Another map is chosen only if it is larger by more than an eighth of its bytes. So among maps of nearly the same size
 * each put evicts in its own map, and threads do not have to flush their tallies with each put.
 *
 * Invariants
 *   1. A map that does not evict loses nothing: its options decide, whatever the bits of `evicting` say.
 *   2. If a map evicts, and its bit in `evicting` is clear, the last search found no entry in it, and none was put
 *      since. But a search may miss entries while other threads evict. So before a put fails, all maps are searched
 *      that have entries by their counts.
 *   3. All else here is a hint: the sizes of maps may be old.
 *
 * Who may do what: a put. Any process that may put into one map of a pool may delete in all of them.
 *
 * Crash: nothing is written.
 */
#include "shm/map/evict/evict-from.h"

#include "shm/arena/cache-walk.h"
#include "shm/arena/root.h"
#include "shm/map/state/tally.h"
#include "shm/slab/slab-walk.h"

#define MARGIN_SHARE 8 /* another map loses entries if it is larger by more than this share of its bytes */

bool shm_evict_open(ShmArena *arena, uint32_t i, ShmTrie *ret) {
        return shm_map_open_root(arena, i, ret) && shm_map_options_evict(ret) != SHM_MAP_EVICT_NEVER;
}

/*
 * A map without entries is not searched: it may have had entries in all slabs, and there may be 254 such maps. Tallies
 * are summed up only where they can hide as many bytes as the map seems to have.
 */
static bool has_entries(const ShmArena *arena, uint32_t i) {
        ShmMapTotals totals;

        if (shm_map_bytes_of(arena, i) > shm_arena_n_records_ever(arena) * SHM_TALLY_BYTES)
                return true;
        shm_map_counts(arena, i, &totals);
        return totals.entries != 0 || totals.bytes != 0 || shm_map_is_miscounted(arena, i);
}

/* Maps that the roots no longer name count as empty: a look at their states would give these pages. */
static uint64_t bytes_for(const ShmTrie *trie, uint32_t i) {
        uint64_t bytes = shm_root_of(trie->arena, i) != 0 ? shm_map_bytes_of(trie->arena, i) : 0;

        return bytes - (i == trie->map - 1 ? 0 : bytes / MARGIN_SHARE);
}

static bool may_give(const ShmTrie *trie, uint32_t i, ShmTrie *ret) {
        return shm_evict_open(trie->arena, i, ret) && has_entries(trie->arena, i);
}

/* The largest of the maps; SHM_ROOTS_MAX: there is none. With `gone`, those that have no entries go there. */
static uint32_t largest_of(const ShmTrie *trie, const ShmMapSet *maps, ShmMapSet *gone, ShmTrie *ret) {
        uint32_t own = trie->map - 1, largest = SHM_ROOTS_MAX;
        uint64_t most = 0;
        ShmTrie map = *trie;

        for (uint32_t i = 0; (i = shm_map_set_next(maps, i)) < SHM_ROOTS_MAX; i++) {
                uint64_t bytes = bytes_for(trie, i);

                if (largest < SHM_ROOTS_MAX && (bytes < most || (bytes == most && i != own)))
                        continue;
                if (gone && !may_give(trie, i, &map)) {
                        shm_map_set_add(gone, i);
                        continue;
                }
                largest = i;
                most = bytes;
                *ret = map;
        }
        return largest;
}

/*
 * Mostly the largest map has entries. Else each map that has none is taken out of the set when it is met: so all the
 * calls of a put that searches map after map look at it once.
 */
const ShmTrie *shm_evict_from(const ShmTrie *trie, ShmMapSet *maps, ShmTrie *space) {
        ShmMapSet gone = {};
        uint32_t i = largest_of(trie, maps, NULL, space);

        if (i < SHM_ROOTS_MAX && !may_give(trie, i, space))
                i = largest_of(trie, maps, &gone, space);
        if (i < SHM_ROOTS_MAX)
                shm_map_set_add(&gone, i);
        *maps = shm_map_set_less(maps, &gone);
        return i == SHM_ROOTS_MAX ? NULL : i == trie->map - 1 ? trie : space;
}

uint64_t shm_evict_stamp(ShmArena *arena, ShmMapSet *ret_maps) {
        uint64_t stamp = 0;
        ShmMapTotals t;
        ShmTrie map;

        *ret_maps = (ShmMapSet){};
        for (uint32_t i = 0; shm_root_was_used(arena, i); i++) {
                if (!shm_evict_open(arena, i, &map))
                        continue;
                shm_map_set_add(ret_maps, i);
                shm_map_counts(arena, i, &t);
                stamp = (stamp + t.bytes) * UINT64_C(0x9e3779b97f4a7c15);
                stamp = (stamp + t.inserts + t.deletes + t.expirations + t.evictions) *
                        UINT64_C(0xd6e8feb86659fd93);
        }
        return stamp;
}

/*
 * The memory of all slots that are taken, except for indexes, which shrink when entries are evicted. Slab by slab, as
 * the `share` of a slot is rounded up: the slots of a full slab would come to up to 36 bytes more than the slab.
 */
static uint64_t taken_bytes(const ShmTrie *trie) {
        const ShmArena *arena = trie->arena;
        SlabWord index = shm_slab_word(arena, slot_id_slab(shm_handle_slot(trie->root))), w;
        uint32_t budget = UINT32_MAX, slab;
        uint64_t bytes = 0;
        ShmSlabWalk walk;

        shm_slab_walk_begin(&walk, arena, SHM_SLAB_WALK_ALL);
        while (shm_slab_walk_next(&walk, arena, &budget, &slab, &w)) {
                const ShmClass *class = shm_slab_class(arena, w);

                if (slab_word_epoch(w) != slab_word_epoch(index))
                        bytes += (uint64_t) __builtin_popcountll(w.low & ~class->tail_mask) * SHM_SLAB_COST /
                                 class->n_slots;
        }
        return bytes;
}

static uint64_t cached_bytes(const ShmArena *arena) {
        uint64_t bytes = 0;

        for (uint32_t i = 0; i < shm_arena_n_records_ever(arena); i++)
                for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, arena, i);)
                        bytes += (uint64_t) shm_cache_walk_count(&walk) * arena->classes[walk.class].share;
        return bytes;
}

/* The part of taken_bytes() that entries may give. False: not known, as a thread died in a change of a map. */
static bool evictable_bytes(ShmArena *arena, uint64_t *ret) {
        ShmMapTotals totals;
        uint64_t index;
        ShmTrie map;

        *ret = 0;
        for (uint32_t i = 0; shm_root_was_used(arena, i); i++) {
                if (!shm_evict_open(arena, i, &map))
                        continue;
                if (shm_map_is_miscounted(arena, i))
                        return false;
                shm_map_counts(arena, i, &totals);
                index = totals.entries * SHM_INDEX_SHARE;
                *ret += totals.bytes > index ? totals.bytes - index : 0; /* counts may be wrong */
        }
        return true;
}

static uint64_t offered_bytes(const ShmTrie *trie) {
        ShmMapSet maps = shm_evict_maps(trie);
        uint64_t bytes = 0;

        if (trie->map != 0)
                shm_map_set_add(&maps, trie->map - 1);
        for (uint32_t i = 0; (i = shm_map_set_next(&maps, i)) < SHM_ROOTS_MAX; i++)
                bytes += shm_root_of(trie->arena, i) != 0 ? shm_map_bytes_of(trie->arena, i) : 0;
        return bytes;
}

bool shm_evict_is_offered(const ShmTrie *trie, uint64_t cost) {
        return cost <= (uint64_t) trie->arena->n_slabs * SHM_SLAB_COST && cost <= offered_bytes(trie);
}

/* Slabs of entries may have free slots, too. */
bool shm_evict_may_fit(const ShmTrie *trie, uint64_t cost) {
        uint64_t size = (uint64_t) trie->arena->n_slabs * SHM_SLAB_COST, taken, evictable;

        if (cost > size)
                return false;
        if (!evictable_bytes(trie->arena, &evictable))
                return true;
        evictable += cached_bytes(trie->arena);
        taken = taken_bytes(trie);
        return taken <= evictable || cost + taken - evictable <= size;
}
