/*
 * Maps: counts
 *
 * Purpose: tells, without a walk, how many entries a map has, how many bytes these take, and how many entries were
 *   inserted and removed.
 *
 * Invariants
 *   1. A writer counts a change after it has made it. The `map` of its record names the map from before the change
 *      until the change is counted, and also while the writer adds its tally to the state of a map. So after the death
 *      of a writer, the record tells which map may have wrong counts.
 *   2. All linked leaves count as entries, also stale ones, until they are unlinked. The bytes of a stale leaf are not
 *      known any more. So a sweep, which unlinks stale leaves, also counts the bytes of the map anew.
 *   3. A census is a walk while other threads may write. It meets about half of the changes that are made meanwhile, so
 *      its result is compared with the mean of the totals before and after it. It is exact if nothing changes, and
 *      otherwise off by the changes of one walk at most. Therefore entries are corrected only after a death: otherwise
 *      their count is right, and a census would make it wrong. If a correction may be off, or a thread was in a change
 *      when the census ended (it counts that change later), the next census corrects entries once more, whatever it is
 *      for. If nobody changes the map for a while, the maintainer asks for that census, which is exact then. A new map
 *      whose name was another map's is also counted: threads and walks that began in the earlier map may still count in
 *      it.
 *   4. A total is the sum of the map's state and of the tallies of that map in all records. A thread adds its tally to
 *      the state when the tally has many bytes or inserts, or when the thread turns to another map. Otherwise the tally
 *      stays in the record, also when the thread ends.
 *
 * Who may do what: the owner of a record counts in its tally, and adds that to the state. The maintainer ends a census.
 *
 * Crash: if the maintainer dies during a census, `counted` is unchanged, and the next maintainer begins the census
 *   again. The same holds if it dies after it has corrected the entries and before it has corrected the bytes.
 */
#include "shm/map/state/tally.h"

#include "shm/arena/root.h"
#include "shm/map/state/options.h"

/* Without changes for so long, a map is taken to be quiet: its walk takes a hundredth of that time at most. */
#define QUIET_MS UINT64_C(2000)
#define QUIET_ENTRIES_MS 50U /* entries for which it is a millisecond more */

uint32_t shm_map_index(const ShmArena *arena, uint64_t root) {
        uint32_t i = 0;

        while (i < SHM_ROOTS_MAX && shm_root_of(arena, i) != root)
                i++;
        return i;
}

void shm_map_attach(ShmTrie *trie) {
        uint32_t i = shm_map_index(trie->arena, trie->root);

        trie->map = i < SHM_ROOTS_MAX ? i + 1 : 0;
}

bool shm_map_open_root(ShmArena *arena, uint32_t i, ShmTrie *ret) {
        uint64_t handle = shm_root_of(arena, i);

        if (handle == 0 || shm_trie_open(ret, arena, handle) != 0)
                return false;
        ret->map = i + 1;
        return true;
}

void shm_tally_flush(ShmActor *actor) {
        ShmMapTally *tally = &actor->record->tally;
        uint64_t map = shm_load_rlx(&tally->map); /* ORDER: rlx; ours alone. */

        for (uint32_t i = 0; i < _SHM_MAP_COUNT_N; i++) {
                uint64_t n = shm_load_rlx(&tally->counts[i]); /* ORDER: rlx; ours alone. */

                if (n == 0)
                        continue;
                if (map - 1 < SHM_ROOTS_MAX)
                        /* ORDER: acqrel, pairs with state_counts(); the changes that are counted are before. */
                        (void) shm_add_acqrel(&actor->arena->header->maps[map - 1].counts[i], n);
                shm_hint_store(&tally->counts[i], 0);
        }
}

void shm_tally_turn(ShmActor *actor, uint32_t map) {
        ShmRecord *record = actor->record;

        /* ORDER: rlx; before the release of the first sum. ORDER: rlx; ours alone. */
        shm_store_rlx(&record->map, shm_load_rlx(&record->tally.map));
        shm_compiler_barrier();
        shm_tally_flush(actor);
        shm_store_rel(&record->map, 0); /* ORDER: rel; the flush is over. */
        shm_store_rel(&record->tally.map, map); /* ORDER: rel; all counts are 0. */
}

bool shm_tally_is_far_of(const ShmTrie *trie, uint64_t difference, uint64_t limit) {
        uint64_t n = (int64_t) difference < 0 ? -difference : difference;

        return n * 64 * shm_arena_n_records_ever(trie->arena) > limit;
}

typedef struct Counts {
        uint64_t n[_SHM_MAP_COUNT_N];
} Counts;

static Counts state_counts(const ShmArena *arena, uint32_t map) {
        Counts c;

        for (uint32_t i = 0; i < _SHM_MAP_COUNT_N; i++)
                /* ORDER: acq, pairs with shm_tally_flush(); a walk after it meets the changes that are in it. */
                c.n[i] = shm_load_acq(&arena->header->maps[map].counts[i]);
        return c;
}

/* While a thread adds its tally to the state, that tally may be in the sums twice, or not at all. */
static Counts sum_counts(const ShmArena *arena, uint32_t map) {
        Counts sums = state_counts(arena, map);

        for (uint32_t k = 0; k < shm_arena_n_records_ever(arena); k++) {
                const ShmMapTally *tally = &shm_arena_record(arena, k)->tally;

                if (shm_hint_load(&tally->map) != map + 1)
                        continue;
                for (uint32_t i = 0; i < _SHM_MAP_COUNT_N; i++)
                        /* ORDER: acq, pairs with shm_tally_add(); a walk after it meets these changes. */
                        sums.n[i] += shm_load_acq(&tally->counts[i]);
        }
        return sums;
}

/* A sum of differences may be below 0 for a moment. */
static uint64_t at_least_0(uint64_t sum) {
        return (int64_t) sum < 0 ? 0 : sum;
}

static uint64_t count_entries(const Counts *c) {
        return c->n[SHM_MAP_INSERTS] - c->n[SHM_MAP_DELETES] - c->n[SHM_MAP_EXPIRATIONS] -
               c->n[SHM_MAP_EVICTIONS] + c->n[SHM_MAP_MISCOUNTED];
}

uint64_t shm_map_entries_of(const ShmArena *arena, uint32_t i) {
        Counts c = state_counts(arena, i);

        return at_least_0(count_entries(&c));
}

uint64_t shm_map_entries(const ShmTrie *trie) {
        return shm_map_entries_of(trie->arena, trie->map - 1);
}

static uint64_t count_changes(const Counts *c) {
        return c->n[SHM_MAP_INSERTS] + c->n[SHM_MAP_DELETES] + c->n[SHM_MAP_EXPIRATIONS] +
               c->n[SHM_MAP_EVICTIONS];
}

static void sum_gets(const ShmArena *arena, uint32_t map, ShmMapTotals *ret) {
        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++) {
                const ShmRecord *r = shm_arena_record(arena, i);

                ret->hits += shm_hint_load(&r->map_gets[map].hits);
                ret->misses += shm_hint_load(&r->map_gets[map].misses);
        }
}

void shm_map_counts(const ShmArena *arena, uint32_t i, ShmMapTotals *ret) {
        Counts c = sum_counts(arena, i);

        *ret = (ShmMapTotals){
                .entries = at_least_0(count_entries(&c)),
                .bytes = at_least_0(c.n[SHM_MAP_BYTES]),
                .inserts = c.n[SHM_MAP_INSERTS],
                .deletes = c.n[SHM_MAP_DELETES],
                .expirations = c.n[SHM_MAP_EXPIRATIONS],
                .evictions = c.n[SHM_MAP_EVICTIONS],
                .failures = c.n[SHM_MAP_FAILURES],
        };
}

void shm_map_totals(const ShmArena *arena, uint32_t i, ShmMapTotals *ret) {
        shm_map_counts(arena, i, ret);
        sum_gets(arena, i, ret);
}

void shm_map_ask_for_census(ShmArena *arena, uint32_t i) {
        /* ORDER: acqrel, pairs with shm_map_census_begin(); the wrong count comes before it. */
        (void) shm_add_acqrel(&arena->header->maps[i].miscounts, 1);
        /* ORDER: acqrel, pairs with shm_map_miscounts(); a sweep that begins after it finds the map. */
        (void) shm_add_acqrel(&arena->header->n_miscounts, 1);
}

void shm_map_miscounted(ShmArena *arena, const ShmRecord *record) {
        uint64_t map = shm_load_rlx(&record->map); /* ORDER: rlx; the owner is dead. */

        if (map != 0 && map <= SHM_ROOTS_MAX)
                shm_map_ask_for_census(arena, (uint32_t) map - 1);
}

uint64_t shm_map_asked(const ShmArena *arena, uint32_t i) {
        /* A look at a state would give it a page. ORDER: rlx; asked again later. */
        if (shm_load_rlx(&arena->header->n_miscounts) == 0)
                return 0;
        /* ORDER: acq, pairs with shm_map_ask_for_census(); before the root or the totals. */
        return shm_load_acq(&arena->header->maps[i].miscounts);
}

bool shm_map_is_miscounted(const ShmArena *arena, uint32_t i) {
        uint64_t asked = shm_map_asked(arena, i);

        /* ORDER: rlx; the maintainer alone writes it. */
        return asked != 0 && asked != shm_load_rlx(&arena->header->maps[i].counted);
}

/* Whether a thread is in a change of the map. It may count that change only after this census. */
static bool is_in_change(const ShmArena *arena, uint32_t i) {
        for (uint32_t k = 0; k < shm_arena_n_records_ever(arena); k++)
                /* ORDER: acq, pairs with shm_tally_end(); all that the thread counted is in the sums. */
                if (shm_load_acq(&shm_arena_record(arena, k)->map) == i + 1)
                        return true;
        return false;
}

void shm_map_census_begin(const ShmArena *arena, uint32_t i, ShmMapCensus *ret) {
        const ShmMapState *state = &arena->header->maps[i];
        Counts c;

        *ret = (ShmMapCensus){
                .asked = shm_load_acq(&state->miscounts), /* ORDER: acq; before the totals. */
        };
        c = sum_counts(arena, i);
        ret->entries_before = count_entries(&c);
        ret->bytes_before = c.n[SHM_MAP_BYTES];
        ret->changes_before = count_changes(&c);
}

void shm_map_uncounted(ShmArena *arena, uint32_t i, uint64_t asked) {
        if (asked == 0)
                return;
        shm_store_rlx(&arena->header->maps[i].roughly, 0); /* ORDER: rlx; the maintainer alone writes it. */
        shm_store_rlx(&arena->header->maps[i].counted, asked); /* ORDER: rlx; as above. */
}

static uint64_t mean_of(uint64_t before, uint64_t after) {
        return before + (uint64_t) ((int64_t) (after - before) / 2);
}

static void correct_total(ShmMapState *state, ShmMapCount count, uint64_t n) {
        if (n != 0)
                (void) shm_hint_add(&state->counts[count], n);
}

void shm_map_census_drop(ShmArena *arena, uint32_t i, const ShmMapCensus *census) {
        ShmMapState *state = &arena->header->maps[i];

        correct_total(state, SHM_MAP_MISCOUNTED, -census->entries_before);
        correct_total(state, SHM_MAP_BYTES, -census->bytes_before);
        if (census->changes_before != 0)
                shm_map_ask_for_census(arena, i);
}

/*
 * A mix of the changes of a map so far and of its bytes, in the high half, and since when they are so, above the bits
 * of SHM_MAP_ROUGH_*.
 */
static uint64_t quiet_make(const Counts *c, uint64_t now_ms) {
        uint64_t mix = (count_changes(c) << 32) + c->n[SHM_MAP_BYTES] * UINT64_C(0x9e3779b97f4a7c15);

        return (mix & ~(uint64_t) UINT32_MAX) | (uint32_t) (now_ms << 2);
}

static bool is_quiet(const Counts *c, uint64_t since, uint64_t now) {
        uint32_t ms = ((uint32_t) now - (uint32_t) since) / 4;

        return since >> 32 == now >> 32 && ms >= QUIET_MS + at_least_0(count_entries(c)) / QUIET_ENTRIES_MS;
}

static void count_roughly_again(ShmArena *arena, uint32_t i, uint64_t roughly, uint64_t now_ms) {
        uint64_t bits = roughly & (SHM_MAP_ROUGH_BYTES | SHM_MAP_ROUGH_ENTRIES), now;
        Counts c = sum_counts(arena, i);

        if (shm_map_is_miscounted(arena, i) || is_in_change(arena, i))
                return;
        now = quiet_make(&c, now_ms) | bits;
        if (roughly == bits || roughly >> 32 != now >> 32)
                /* ORDER: rlx; the maintainer alone writes it. */
                shm_store_rlx(&arena->header->maps[i].roughly, now);
        else if (is_quiet(&c, roughly, now))
                shm_map_ask_for_census(arena, i);
}

void shm_map_count_again(ShmArena *arena, uint64_t now_ms) {
        /* A look at a state would give it a page. ORDER: rlx; only a count that was asked for can be rough. */
        for (uint32_t i = 0; shm_root_was_used(arena, i) && shm_load_rlx(&arena->header->n_miscounts) != 0;
             i++) {
                /* ORDER: rlx; the maintainer alone writes it. */
                uint64_t roughly = shm_load_rlx(&arena->header->maps[i].roughly);

                if (roughly != 0)
                        count_roughly_again(arena, i, roughly, now_ms);
        }
}

void shm_map_census_end(ShmActor *control, uint32_t i, const ShmMapCensus *census) {
        ShmMapState *state = &control->arena->header->maps[i];
        bool moved = is_in_change(control->arena, i); /* before the totals */
        Counts c = sum_counts(control->arena, i);
        uint64_t roughly = shm_load_rlx(&state->roughly); /* ORDER: rlx; the maintainer alone writes it. */
        /* ORDER: rlx; the maintainer alone writes it. */
        bool is_wrong = census->asked != shm_load_rlx(&state->counted) || roughly & SHM_MAP_ROUGH_ENTRIES;

        moved |= count_changes(&c) != census->changes_before;
        if (is_wrong)
                correct_total(state, SHM_MAP_MISCOUNTED,
                              census->entries - mean_of(census->entries_before, count_entries(&c)));
        if (is_wrong || roughly != 0)
                /* ORDER: rlx; the maintainer alone writes it. */
                shm_store_rlx(&state->roughly, (is_wrong && moved ? SHM_MAP_ROUGH_ENTRIES : 0) |
                                                       (moved || c.n[SHM_MAP_BYTES] != census->bytes_before
                                                                ? SHM_MAP_ROUGH_BYTES
                                                                : 0));
        correct_total(state, SHM_MAP_BYTES,
                      census->bytes - mean_of(census->bytes_before, c.n[SHM_MAP_BYTES]));
        /* ORDER: rel; the totals are corrected. */
        shm_store_rel(&state->counted, census->asked);
}
