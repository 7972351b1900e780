/*
 * Maps: stale entries of all of them
 *
 * Purpose: after a revocation, gives the index memory back that its entries took, without anybody asking for it.
 *
 * Invariants
 *   1. Only stale entries go: the epoch that is expired is none (NO_EPOCH).
 *   2. A step is short, and a sweep ends, whatever the arena holds: scans do (shm/map/trie-scan.c).
 *
 * Who may do what: the maintainer, with record 0, like any writer.
 *
 * Crash: the next maintainer sweeps all maps when it takes over. Its notes are for shm_rollback_control().
 */
#include "shm/map/map-sweep.h"

#define NO_EPOCH 0xffU /* no id is so large */

static_assert(SHM_EPOCHS_MAX <= NO_EPOCH, "an epoch that there is not");

/* False: the root names no map. */
static bool open_map(ShmArena *arena, uint32_t root, ShmTrie *ret) {
        /* ORDER: acq, pairs with shm_root_set(); the object is there. */
        uint64_t handle = shm_load_acq(&arena->header->roots[root].handle);

        return handle != 0 && shm_trie_open(ret, arena, handle) == 0;
}

bool shm_map_sweep_step(ShmActor *control, ShmMapSweep *sweep, uint32_t n) {
        ShmTrie trie;

        while (sweep->root < SHM_ROOTS_MAX && !open_map(control->arena, sweep->root, &trie))
                sweep->root++;
        sweep->done = sweep->root == SHM_ROOTS_MAX;
        if (sweep->done)
                return true;
        if (shm_map_expire(control, &trie, NO_EPOCH, &sweep->scan, n) < 0 || sweep->scan.done) {
                sweep->root++;
                sweep->scan = (ShmTrieScan){};
        }
        return false;
}
