/*
 * Maps: removing them
 *
 * Purpose: takes a map away from all threads at once, and gives its memory back.
 *
 * Invariants
 *   1. The entry of the named roots keeps the handle of the map's root until all of the map is free: so a map that was
 *      removed is found by every maintainer.
 *   2. When shm_map_remove() returns, the root's word is frozen: calls that begin later find no map.
 *   3. A map that was removed counts as one to be counted anew (tally.h), so that a sweep comes.
 *
 * Who may do what: writers remove; the maintainer frees.
 *
 * Crash: if the thread dies between the change of the name and the freeze, the sweep freezes the word. While it removes
 *   the map, its record names that, so a sweep comes in any case.
 */
#include "shm/map/state/map-remove.h"

#include <errno.h>

#include "shm/arena/root.h"
#include "shm/map/state/tally.h"
#include "shm/map/trie/trie-remove.h"

static int remove_named(ShmActor *actor, const char *root, uint64_t handle, ShmTrie *trie) {
        int r;

        shm_tally_begin(actor, trie);
        r = shm_root_remove(actor->arena, root, handle);
        if (r == 0) {
                shm_trie_remove(actor, trie);
                shm_map_ask_for_census(actor->arena, trie->map - 1);
        }
        shm_tally_end(actor, trie);
        if (r == 0)
                shm_wait_wake_map(trie);
        return r;
}

int shm_map_remove(ShmActor *actor, const char *root, uint64_t expected) {
        ShmTrie trie = {};
        uint64_t handle;
        int r;

        do {
                r = shm_root_get(actor->arena, root, &handle);
                if (r)
                        return r;
                if (expected != 0 && handle != expected)
                        return -EAGAIN;
                r = shm_trie_open(&trie, actor->arena, handle);
                if (r == 0)
                        shm_map_attach(&trie);
                if (r == -ESTALE) /* its index was revoked: the name alone is left */
                        r = shm_root_set(actor->arena, root, handle, 0);
                else if (r == 0)
                        r = trie.map != 0 ? remove_named(actor, root, handle, &trie) : -EAGAIN;
        } while (r == -EAGAIN && expected == 0);
        return r == -EUCLEAN ? -ENOENT : r;
}

bool shm_map_drain_step(ShmActor *control, uint32_t i, uint32_t n) {
        uint64_t root = shm_root_removal(control->arena, i);

        if (root == 0)
                return true;
        if (!shm_trie_drain_step(control, root, n))
                return false;
        shm_root_removed(control->arena, i, root);
        return true;
}
