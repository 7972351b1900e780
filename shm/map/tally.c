/*
 * Maps: counts
 *
 * Purpose: how many entries a map has, how large they are, and what became of others, without a walk.
 *
 * Invariants
 *   1. A writer counts a change after it, and its record names the map (`map`) from before the change until it was
 *      counted. So a map whose counts are not those of its entries, since a writer died, is known.
 *   2. Entries are what is linked, also stale leaves until somebody takes them out. The bytes of a stale leaf are not
 *      known any more: after a sweep, which takes them out, the map is counted, too.
 *   3. A census is a walk beside writers. It meets about half of what changes meanwhile: it is compared with the mean
 *      of the totals before and after. So it is exact where nothing changes, and else errs by the changes of one walk
 *      at most.
 *
 * Who may do what: any thread adds to the stripe of its record. The maintainer ends a census.
 *
 * Crash: of the maintainer in a census: `counted` is as before, and the next one begins again. Between its last two
 *   stores: entries may be corrected and bytes not; then `counted` is as before, too.
 */
#include "shm/map/tally.h"

#include <string.h>

uint32_t shm_map_index(const ShmArena *arena, uint64_t root) {
        uint32_t i = 0;

        /* ORDER: acq, pairs with shm_root_set(); the map's root is there. */
        while (i < SHM_ROOTS_MAX && shm_load_acq(&arena->header->roots[i].handle) != root)
                i++;
        return i;
}

void shm_map_attach(ShmTrie *trie) {
        uint32_t i = shm_map_index(trie->arena, trie->root);

        trie->map = i < SHM_ROOTS_MAX ? i + 1 : 0;
}

static uint64_t sum_stripes(const ShmMapState *state, ShmMapCount count) {
        uint64_t sum = 0;

        for (uint32_t i = 0; i < SHM_MAP_STRIPES; i++)
                sum += shm_load_rlx(&state->stripes[i].counts[count]); /* ORDER: rlx; a statistic. */
        return sum;
}

/* Sums of differences may be below 0 for a moment. */
static uint64_t at_least_0(uint64_t sum) {
        return (int64_t) sum < 0 ? 0 : sum;
}

static uint64_t sum_entries(const ShmMapState *state) {
        return sum_stripes(state, SHM_MAP_INSERTS) - sum_stripes(state, SHM_MAP_DELETES) -
               sum_stripes(state, SHM_MAP_EXPIRATIONS) - sum_stripes(state, SHM_MAP_EVICTIONS) +
               sum_stripes(state, SHM_MAP_MISCOUNTED);
}

static void sum_gets(const ShmArena *arena, uint32_t map, ShmMapTotals *ret) {
        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++) {
                const ShmRecord *r = shm_arena_record(arena, i);

                ret->hits += shm_load_rlx(&r->map_hits[map]); /* ORDER: rlx; a statistic. */
                ret->misses += shm_load_rlx(&r->map_misses[map]); /* ORDER: rlx; a statistic. */
        }
}

void shm_map_counts(const ShmArena *arena, uint32_t i, ShmMapTotals *ret) {
        const ShmMapState *state = &arena->header->maps[i];

        *ret = (ShmMapTotals){
                .entries = at_least_0(sum_entries(state)),
                .bytes = at_least_0(sum_stripes(state, SHM_MAP_BYTES)),
                .inserts = sum_stripes(state, SHM_MAP_INSERTS),
                .deletes = sum_stripes(state, SHM_MAP_DELETES),
                .expirations = sum_stripes(state, SHM_MAP_EXPIRATIONS),
                .evictions = sum_stripes(state, SHM_MAP_EVICTIONS),
                .failures = sum_stripes(state, SHM_MAP_FAILURES),
        };
}

void shm_map_totals(const ShmArena *arena, uint32_t i, ShmMapTotals *ret) {
        shm_map_counts(arena, i, ret);
        sum_gets(arena, i, ret);
}

void shm_map_miscounted(ShmArena *arena, const ShmRecord *record) {
        uint64_t map = shm_load_rlx(&record->map); /* ORDER: rlx; the owner is dead. */

        if (map == 0 || map > SHM_ROOTS_MAX)
                return;
        (void) shm_add_rlx(&arena->header->n_miscounts, 1); /* ORDER: rlx; before the next. */
        /* ORDER: acqrel, pairs with shm_map_census_begin(); what the dead thread counted is before. */
        (void) shm_add_acqrel(&arena->header->maps[map - 1].miscounts, 1);
}

bool shm_map_is_miscounted(const ShmArena *arena, uint32_t i) {
        const ShmMapState *state = &arena->header->maps[i];

        /* A look at a state would give it a page. ORDER: rlx; the maintainer alone writes it. */
        if (shm_load_rlx(&arena->header->n_miscounts) == 0)
                return false;
        /* ORDER: rlx; the maintainer alone writes them, as repair and as here. */
        return shm_load_rlx(&state->miscounts) != shm_load_rlx(&state->counted);
}

void shm_map_census_begin(const ShmArena *arena, uint32_t i, ShmMapCensus *ret) {
        const ShmMapState *state = &arena->header->maps[i];

        *ret = (ShmMapCensus){
                .asked = shm_load_acq(&state->miscounts), /* ORDER: acq; before the totals. */
                .entries_before = sum_entries(state),
                .bytes_before = sum_stripes(state, SHM_MAP_BYTES),
        };
}

void shm_map_uncounted(ShmArena *arena, uint32_t i) {
        ShmMapState *state = &arena->header->maps[i];

        /* ORDER: rlx; the maintainer alone writes it. */
        if (shm_map_is_miscounted(arena, i))
                shm_store_rlx(&state->counted, shm_load_rlx(&state->miscounts)); /* ORDER: rlx; as above. */
}

static uint64_t mean_of(uint64_t before, uint64_t after) {
        return before + (uint64_t) ((int64_t) (after - before) / 2);
}

static void correct_total(ShmMapState *state, ShmMapCount count, uint64_t n) {
        if (n != 0)
                (void) shm_add_rlx(&state->stripes[0].counts[count], n); /* ORDER: rlx; a statistic. */
}

void shm_map_census_end(ShmActor *control, uint32_t i, const ShmMapCensus *census) {
        ShmMapState *state = &control->arena->header->maps[i];
        uint64_t entries = sum_entries(state), bytes = sum_stripes(state, SHM_MAP_BYTES);

        correct_total(state, SHM_MAP_MISCOUNTED, census->entries - mean_of(census->entries_before, entries));
        correct_total(state, SHM_MAP_BYTES, census->bytes - mean_of(census->bytes_before, bytes));
        /* ORDER: rel; the totals are corrected. */
        shm_store_rel(&state->counted, census->asked);
}
