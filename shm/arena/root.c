/*
 * Named roots
 *
 * Purpose: names for the objects from which a process finds all others. A hash table of 64 entries, with open
 *   addressing from the keyed hash of the name.
 *
 * Invariants
 *   1. An entry's hash goes from 0 to its value once, by one compare-and-set, and never changes: the
 *      entry belongs to that name for as long as the arena lives.
 *   2. Between the home position of a hash and its entry there is no entry of hash 0. So a lookup may
 *      stop at the first of these, and two threads that set one name meet at the same entry.
 *   3. The hash is keyed: an outsider cannot choose names that collide. Two names with the same 64-bit
 *      hash would be one root; among 64 names that does not happen.
 *   4. The handle is a plain value here: the caller finds out, by a lookup, whether it is live.
 *
 * Who may do what: any process that may write the arena takes an entry and changes its handle.
 *
 * Crash: after the hash is stored, the entry is taken, but absent (handle 0), and has no text: the next
 *   process that sets the name writes that. After the handle is stored, nothing is left to do.
 */
#include "shm/arena/root.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shm/format/siphash.h"
#include "shm/arena/text.h"

static_assert(SHM_SIPHASH_KEY_SIZE == sizeof((ShmArena){}.pool_key), "keyed by the pool's");

uint64_t shm_hash(const ShmArena *arena, const void *bytes, size_t size) {
        uint64_t hash = shm_siphash(bytes, size, arena->pool_key);

        return hash != 0 ? hash : 1;
}

static int hash_name(const ShmArena *arena, const char *name, uint64_t *ret) {
        size_t length = strnlen(name, SHM_ROOT_NAME_SIZE);

        if (length == 0 || length == SHM_ROOT_NAME_SIZE)
                return -EINVAL;
        *ret = shm_hash(arena, name, length);
        return 0;
}

/* The entry of a hash, or the free entry where it would go; NULL when there is neither. */
static ShmRoot *root_find_entry(const ShmArena *arena, uint64_t hash, uint64_t *ret_found) {
        for (uint32_t i = 0; i < SHM_ROOTS_MAX; i++) {
                ShmRoot *root = &arena->header->roots[(hash + i) % SHM_ROOTS_MAX];

                /* ORDER: acq, pairs with root_take_entry(); no other data depends on it. */
                *ret_found = shm_load_acq(&root->hash);
                if (*ret_found == hash || *ret_found == 0)
                        return root;
        }
        return NULL;
}

int shm_root_index(const ShmArena *arena, const char *name) {
        uint64_t hash, found;
        const ShmRoot *root;
        int r;

        r = hash_name(arena, name, &hash);
        if (r)
                return r;
        root = root_find_entry(arena, hash, &found);
        return root && found == hash ? (int) (root - arena->header->roots) : -ENOENT;
}

int shm_root_get(const ShmArena *arena, const char *name, uint64_t *ret_handle) {
        uint64_t hash, found, handle;
        ShmRoot *root;
        int r;

        r = hash_name(arena, name, &hash);
        if (r)
                return r;
        root = root_find_entry(arena, hash, &found);
        if (!root || found == 0)
                return -ENOENT;
        /* ORDER: acq, pairs with shm_root_set(); the object was filled before the root was set. */
        handle = shm_load_acq(&root->handle);
        if (handle == 0)
                return -ENOENT;
        *ret_handle = handle;
        return 0;
}

/* Idempotent: all threads that write the text of an entry write the same text. */
static void write_text(ShmRoot *root, const char *name) {
        uint64_t words[SHM_ROOT_NAME_SIZE / sizeof(uint64_t)] = {};

        /* ORDER: rlx; the text is for people, and may lag behind the hash. */
        if (shm_load_rlx(&root->name[0]) != 0)
                return;
        memcpy(words, name, strnlen(name, SHM_ROOT_NAME_SIZE - 1));
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
                shm_hint_store((uint64_t *) root->name + i, words[i]);
}

/* Finds the entry of a name, or takes one for it. Each further turn passes an entry that another thread took. */
static int root_take_entry(ShmArena *arena, uint64_t hash, ShmRoot **ret) {
        uint64_t found;

        for (uint32_t turn = 0; turn <= SHM_ROOTS_MAX; turn++) {
                ShmRoot *root = root_find_entry(arena, hash, &found);

                if (!root)
                        return -ENOSPC;
                /* ORDER: acqrel, pairs with root_find_entry(); one thread wins, the others compare its hash. */
                if (found == hash || shm_cas_acqrel(&root->hash, &found, hash) || found == hash) {
                        *ret = root;
                        return 0;
                }
        }
        return -ENOSPC; /* only if a process scribbles over the arena */
}

int shm_root_set(ShmArena *arena, const char *name, uint64_t expected, uint64_t handle) {
        uint64_t hash, found;
        ShmRoot *root;
        int r;

        if (arena->read_only)
                return -EROFS;
        r = hash_name(arena, name, &hash);
        if (r)
                return r;

        root = root_find_entry(arena, hash, &found);
        if ((!root || found == 0) && expected != 0)
                return -EAGAIN; /* the root is absent, so it is not `expected`; no entry is taken */
        if ((!root || found == 0) && handle == 0)
                return 0;
        r = root_take_entry(arena, hash, &root);
        if (r)
                return r;
        write_text(root, name);
        /* ORDER: acqrel, pairs with shm_root_get(); the object is filled before others can find it. */
        return shm_cas_acqrel(&root->handle, &expected, handle) ? 0 : -EAGAIN;
}

int shm_root_at(const ShmArena *arena, uint32_t i, char *ret_name, uint64_t *ret_handle) {
        const ShmRoot *root;
        uint64_t hash, handle;

        if (i >= SHM_ROOTS_MAX)
                return -ENOENT;
        root = &arena->header->roots[i];
        /* ORDER: acq, pairs with root_take_entry(); the hash before the handle. */
        hash = shm_load_acq(&root->hash);
        /* ORDER: acq, pairs with shm_root_set(); the text was written before. */
        handle = shm_load_acq(&root->handle);
        if (hash == 0 || handle == 0)
                return -ENOENT;

        shm_text_copy(ret_name, root->name, SHM_ROOT_NAME_SIZE);
        if (ret_name[0] == 0) /* a process scribbled over it, or died before it wrote it */
                snprintf(ret_name, SHM_ROOT_NAME_SIZE, "#%016" PRIx64, hash);
        *ret_handle = handle;
        return 0;
}
