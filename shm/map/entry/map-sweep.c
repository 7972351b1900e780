/*
 * Maps: sweeps that remove stale entries
 *
 * Purpose: after a revocation, takes the revoked entries out of the indexes of all maps. The index memory of these
 *   entries is then free again even if no thread uses the maps any more.
 *
 * Invariants
 *   1. Only stale entries are removed.
 *   2. A step is short, and a sweep ends, whatever the arena contains, as scans do (shm/map/trie/trie-scan.c).
 *
 * Who may do what: the maintainer, with record 0, like any writer.
 *
 * Crash: the next maintainer sweeps all maps when it takes over. shm_rollback_control() handles the notes of the
 *   maintainer that was killed.
 */
#include "shm/map/entry/map-sweep.h"

#include "shm/arena/root.h"
#include "shm/map/entry/shortcut.h"
#include "shm/map/state/map-remove.h"

#define WORDS_EACH 8U /* a step closes so many words of a map that was removed in place of a look at a leaf */

/* Opens the next map that is to be swept; without `map`, it was removed. False: there is none. */
static bool next_map(ShmArena *arena, ShmMapSweep *sweep, ShmTrie *ret) {
        uint64_t asked;

        for (; sweep->root < SHM_ROOTS_MAX; sweep->root++) {
                if (!sweep->miscounted_only || sweep->opened || shm_map_is_miscounted(arena, sweep->root)) {
                        asked = shm_map_asked(arena, sweep->root);
                        if (shm_map_open_root(arena, sweep->root, ret))
                                return true;
                        if (shm_root_removal(arena, sweep->root) != 0) {
                                ret->map = 0;
                                return true;
                        }
                        shm_map_uncounted(arena, sweep->root, asked);
                        shm_map_sweep_begin_map(sweep);
                }
                if (!shm_root_was_used(arena, sweep->root + 1))
                        sweep->root = SHM_ROOTS_MAX - 1; /* none behind it has a map */
        }
        return false;
}

bool shm_map_sweep_step(ShmActor *control, ShmMapSweep *sweep, uint32_t n) {
        ShmTrie trie;
        ssize_t r;

        sweep->done = !next_map(control->arena, sweep, &trie);
        if (sweep->done)
                return true;
        if (trie.map == 0) {
                (void) shm_map_drain_step(control, sweep->root, n * WORDS_EACH);
                return false;
        }
        if (!sweep->opened)
                shm_map_census_begin(control->arena, sweep->root, &sweep->census);
        sweep->opened = true;
        r = shm_map_clean(control, &trie, &sweep->scan, n, &sweep->census);
        if (r >= 0 && !sweep->scan.done)
                return false;
        shm_map_census_end(control, sweep->root, &sweep->census);
        *sweep = (ShmMapSweep){ .root = sweep->root + 1, .miscounted_only = sweep->miscounted_only };
        return false;
}

static bool is_under_way(const ShmMapSweep *sweep) {
        return sweep->root > 0 || sweep->opened;
}

uint32_t shm_map_miscounts(const ShmArena *arena) {
        /* ORDER: acq, pairs with shm_map_ask_for_census(); it raised `miscounts` of the map before. */
        return (uint32_t) shm_load_acq(&arena->header->n_miscounts);
}

bool shm_map_sweeps_ended(const ShmMapSweeps *sweeps, uint64_t asked, uint32_t miscounts) {
        return (int64_t) (sweeps->ended - asked) >= 0 && (int32_t) (sweeps->counted - miscounts) >= 0;
}

bool shm_map_sweeps_due(const ShmArena *arena, const ShmMapSweeps *sweeps) {
        return sweeps->asked != sweeps->ended || sweeps->counted != shm_map_miscounts(arena) ||
               is_under_way(&sweeps->sweep);
}

void shm_map_sweeps_step(ShmActor *control, ShmMapSweeps *sweeps, uint32_t n) {
        ShmMapSweep *sweep = &sweeps->sweep;

        if (!is_under_way(sweep)) {
                sweeps->begun = sweeps->asked;
                sweeps->counting = shm_map_miscounts(control->arena);
                sweep->miscounted_only = sweeps->asked == sweeps->ended;
        }
        if (!shm_map_sweep_step(control, sweep, n))
                return;
        shm_shortcut_trim(control);
        *sweep = (ShmMapSweep){};
        sweeps->ended = sweeps->begun;
        sweeps->counted = sweeps->counting;
}
