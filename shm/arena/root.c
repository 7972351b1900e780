/*
 * Named roots
 *
 * Purpose: finding the first object. 64 entries, open addressing from the name's keyed hash.
 *
 * Invariants
 *   1. An entry's hash goes from 0 to its value once, by one compare-and-set, and never changes: the
 *      name is decided by it, for as long as the arena lives.
 *   2. On the way from a hash's home to its entry there is no entry of hash 0, so that a lookup may
 *      stop at the first, and two who set one name meet at the same entry.
 *   3. The hash is keyed: nobody outside the pool chooses names that collide. Two names of one hash
 *      are one root; with 64 names that does not happen.
 *   4. The handle is a value: whether it names a live object is for whoever resolves it.
 *
 * Who may do what: anyone who may write the arena takes an entry and changes its handle.
 *
 * Crash: after the hash, the entry is taken, absent (handle 0), and without its text, which the
 *   next one to set the name writes. After the handle, all is done.
 */
#include "shm/arena/root.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <sodium/crypto_shorthash.h>

#include "shm/arena/text.h"

static_assert(crypto_shorthash_BYTES == sizeof(uint64_t), "shm_hash() returns it whole");
static_assert(crypto_shorthash_KEYBYTES == sizeof((ShmArena){}.pool_key), "keyed by the pool's");

uint64_t shm_hash(const ShmArena *arena, const void *bytes, size_t size) {
        uint64_t hash;

        crypto_shorthash((unsigned char *) &hash, bytes, size, arena->pool_key);
        return hash != 0 ? hash : 1;
}

static int hash_name(const ShmArena *arena, const char *name, uint64_t *ret) {
        size_t length = strnlen(name, SHM_ROOT_NAME_SIZE);

        if (length == 0 || length == SHM_ROOT_NAME_SIZE)
                return -EINVAL;
        *ret = shm_hash(arena, name, length);
        return 0;
}

/* The entry of a hash, or else the free one where it would go; NULL when there is neither. */
static ShmRoot *root_find_entry(const ShmArena *arena, uint64_t hash, uint64_t *ret_found) {
        for (uint32_t i = 0; i < SHM_ROOTS_MAX; i++) {
                ShmRoot *root = &arena->header->roots[(hash + i) % SHM_ROOTS_MAX];

                /* ORDER: acq, pairs with root_take_entry(); nothing but the hash itself hangs on it. */
                *ret_found = shm_load_acq(&root->hash);
                if (*ret_found == hash || *ret_found == 0)
                        return root;
        }
        return NULL;
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
        /* ORDER: acq, pairs with shm_root_set(); the object was filled before it was set. */
        handle = shm_load_acq(&root->handle);
        if (handle == 0)
                return -ENOENT;
        *ret_handle = handle;
        return 0;
}

/* Idempotent: whoever writes the text of an entry writes the same. */
static void write_text(ShmRoot *root, const char *name) {
        uint64_t words[SHM_ROOT_NAME_SIZE / sizeof(uint64_t)] = {};

        /* ORDER: rlx; the text is for people, and may lag behind the hash. */
        if (shm_load_rlx(&root->name[0]) != 0)
                return;
        memcpy(words, name, strnlen(name, SHM_ROOT_NAME_SIZE - 1));
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
                /* ORDER: rlx; the text is for people. */
                shm_store_rlx((uint64_t *) root->name + i, words[i]);
}

/* The entry of a name, taken now if it has none. Each turn passes an entry that somebody else took. */
static int root_take_entry(ShmArena *arena, uint64_t hash, ShmRoot **ret) {
        uint64_t found;

        for (uint32_t turn = 0; turn <= SHM_ROOTS_MAX; turn++) {
                ShmRoot *root = root_find_entry(arena, hash, &found);

                if (!root)
                        return -ENOSPC;
                /* ORDER: acqrel, pairs with root_find_entry(); one wins, the others look at what it took. */
                if (found == hash || shm_cas_acqrel(&root->hash, &found, hash) || found == hash) {
                        *ret = root;
                        return 0;
                }
        }
        return -ENOSPC; /* only where somebody scribbles */
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
                return -EAGAIN; /* absent: no reason to take an entry */
        if ((!root || found == 0) && handle == 0)
                return 0;
        r = root_take_entry(arena, hash, &root);
        if (r)
                return r;
        write_text(root, name);
        /* ORDER: acqrel, pairs with shm_root_get(); the object is filled before it can be found. */
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
        if (ret_name[0] == 0) /* scribbled over */
                snprintf(ret_name, SHM_ROOT_NAME_SIZE, "#%016" PRIx64, hash);
        *ret_handle = handle;
        return 0;
}
