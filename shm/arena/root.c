/*
 * Named roots
 *
 * Purpose: names for the objects from which a process finds all others. A name takes the first free entry of a table;
 *   a lookup passes the table up to the first entry that was never used.
 *
 *     entry                  says
 *     0         | 0          it was never used, nor was any entry behind it
 *     any hash  | 0          it is free
 *     hash | 1  | handle     PROPOSED: a thread is about to give the name this handle; for lookups it is not there
 *     hash      | handle     the name's
 *     REMOVED   | handle     a map that was removed, whose memory the maintainer is freeing
 *
 *     edge                  function                                     by
 *     free -> PROPOSED      shm_root_propose()                           a writer
 *     PROPOSED -> name's    shm_root_confirm()                           the same thread
 *     PROPOSED -> free      withdraw_proposal()                          any writer
 *     name's -> name's      shm_root_set(): another handle               a writer
 *     name's -> free        shm_root_set()                               a writer
 *     name's -> REMOVED     shm_root_remove()                            a writer
 *     REMOVED -> free       shm_root_removed()                           the maintainer
 *
 * Invariants
 *   1. An entry changes by one compare-and-set of hash and handle. So one thread decides on it at a time, and a late
 *      one fails: a handle comes once.
 *   2. At most one entry is a name's. Two threads may propose the same name. A thread that has proposed looks at all
 *      entries, withdraws the proposals of others for its name, gives up if one is the name's already, and only then
 *      confirms its own. Of two threads the one that proposed last sees the other's entry; and a proposal that was
 *      withdrawn cannot be confirmed.
 *      Two that go on in step would withdraw each other's proposals for ever; in practice one is a little faster.
 *   3. An entry that was used never becomes one that was not. So a lookup that stops at the first of these has passed
 *      all names that were there when it began.
 *   4. The hash is keyed: an outsider cannot choose names that collide. Two names with the same 62 bits of hash would
 *      be one root; among 255 names that does not happen.
 *   5. The handle is a plain value here: the caller finds out, by a lookup, whether it is live.
 *
 * Who may do what: any process that may write the arena sets names.
 *
 * Crash: a proposal of a dead thread stays until the same name is set, or a name finds no free entry, or repair asks
 *   whether any root names the object (shm_root_names()).
 */
#include "shm/arena/root.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shm/arch/racy.h"
#include "shm/arena/text.h"
#include "shm/format/siphash.h"

static_assert(SHM_SIPHASH_KEY_SIZE == sizeof((ShmArena){}.pool_key), "keyed by the pool's");

uint64_t shm_hash(const ShmArena *arena, const void *bytes, size_t size) {
        uint64_t hash = shm_siphash(bytes, size, arena->pool_key);

        return hash != 0 ? hash : 1;
}

#define PROPOSED UINT64_C(1)
#define REMOVED UINT64_C(2)
#define TURNS_MAX 1000 /* others come first each time: not by chance */
#ifdef SHM_STEP
#define ADD_TURNS_MAX 2
#else
#define ADD_TURNS_MAX 1000
#endif

/* No hash of a name has these bits, and none is REMOVED or 0. */
static int hash_name(const ShmArena *arena, const char *name, uint64_t *ret) {
        size_t length = strnlen(name, SHM_ROOT_NAME_SIZE);

        if (length == 0 || length == SHM_ROOT_NAME_SIZE)
                return -EINVAL;
        *ret = shm_hash(arena, name, length) | REMOVED;
        *ret = *ret == REMOVED ? UINT64_MAX & ~PROPOSED : *ret & ~PROPOSED;
        return 0;
}

/* ORDER: acq, pairs with root_change(); the object was filled before its root was set. */
static ShmPair root_load(const ShmArena *arena, uint32_t i) {
        return shm_pair_load_acq(&arena->header->roots[i].word); /* ORDER: acq; as above. */
}

static bool root_change(ShmArena *arena, uint32_t i, ShmPair *expected, uint64_t hash, uint64_t handle) {
        /* ORDER: acqrel, pairs with root_load(); the object is filled before others can find it. */
        return shm_pair_cas_acqrel(&arena->header->roots[i].word, expected,
                                   (ShmPair){ .low = hash, .high = handle });
}

/* The entry of a name, and its handle. -ENOENT. */
static int root_find(const ShmArena *arena, uint64_t hash, uint64_t *ret_handle) {
        for (uint32_t i = 0; i < SHM_ROOTS_MAX; i++) {
                ShmPair root = root_load(arena, i);

                if (root.low == 0)
                        break;
                if (root.low == hash && root.high != 0) {
                        *ret_handle = root.high;
                        return (int) i;
                }
        }
        return -ENOENT;
}

int shm_root_index(const ShmArena *arena, const char *name) {
        uint64_t hash, handle;

        return hash_name(arena, name, &hash) ?: root_find(arena, hash, &handle);
}

int shm_root_get(const ShmArena *arena, const char *name, uint64_t *ret_handle) {
        uint64_t hash, handle = 0;
        int r = hash_name(arena, name, &hash);

        r = r ?: root_find(arena, hash, &handle);
        if (r < 0)
                return r;
        *ret_handle = handle;
        return 0;
}

/* The thread's own proposal. If it was withdrawn meanwhile, the name of another thread's may be mixed with this one. */
static void write_text(ShmRoot *root, const char *name) {
        uint64_t words[SHM_ROOT_NAME_SIZE / sizeof(uint64_t)] = {};

        memcpy(words, name, strnlen(name, SHM_ROOT_NAME_SIZE - 1));
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
                shm_hint_store((uint64_t *) root->name + i, words[i]); /* shm_root_at() compares its hash */
}

/* Frees the entry if it is a proposal, of the hash or, with 0, of any. */
static bool withdraw_proposal(ShmArena *arena, uint32_t i, uint64_t hash) {
        ShmPair root = root_load(arena, i);

        return root.low & PROPOSED && root.high != 0 && (hash == 0 || root.low == (hash | PROPOSED)) &&
               root_change(arena, i, &root, root.low & ~PROPOSED, 0);
}

/* A free entry; SHM_ROOTS_MAX: there is none. */
static uint32_t find_free(ShmArena *arena, ShmPair *ret) {
        uint32_t i = 0;

        for (; i < SHM_ROOTS_MAX; i++) {
                *ret = root_load(arena, i);
                if (ret->high == 0)
                        break;
        }
        return i;
}

int shm_root_propose(ShmArena *arena, const char *name, uint64_t handle, ShmRootProposal *ret) {
        uint64_t hash, found;
        bool withdrew = true;
        int r;

        if (arena->read_only)
                return -EROFS;
        r = hash_name(arena, name, &hash);
        if (r)
                return r;
        for (uint32_t turn = 0; turn < TURNS_MAX && withdrew; turn++) {
                ShmPair root;
                uint32_t i;

                if (root_find(arena, hash, &found) >= 0)
                        return -EAGAIN;
                i = find_free(arena, &root);
                if (i < SHM_ROOTS_MAX && root_change(arena, i, &root, hash | PROPOSED, handle)) {
                        write_text(&arena->header->roots[i], name);
                        *ret = (ShmRootProposal){ .hash = hash, .handle = handle, .i = i };
                        return 0;
                }
                withdrew = i < SHM_ROOTS_MAX;
                for (uint32_t k = 0; i == SHM_ROOTS_MAX && k < SHM_ROOTS_MAX; k++)
                        withdrew |= withdraw_proposal(arena, k, 0);
        }
        return -ENOSPC;
}

int shm_root_confirm(ShmArena *arena, const ShmRootProposal *proposal) {
        ShmPair own = { .low = proposal->hash | PROPOSED, .high = proposal->handle }, root;

        shm_fence_sc(); /* ORDER: sc, pairs with shm_root_confirm(); the proposal is before the look at others. */
        for (uint32_t i = 0; i < SHM_ROOTS_MAX; i++) {
                if (i == proposal->i)
                        continue;
                root = root_load(arena, i);
                while (root.low == (proposal->hash | PROPOSED) && root.high != 0 &&
                       !root_change(arena, i, &root, proposal->hash, 0))
                        ;
                if (root.low == proposal->hash && root.high != 0) {
                        (void) root_change(arena, proposal->i, &own, proposal->hash, 0);
                        return -EAGAIN;
                }
                if (root.low == 0)
                        break;
        }
        return root_change(arena, proposal->i, &own, proposal->hash, proposal->handle) ? 0
                                                                                       : SHM_ROOT_E_WITHDRAWN;
}

/* Gives a name that has no root one. */
static int root_add(ShmArena *arena, const char *name, uint64_t handle) {
        ShmRootProposal proposal;
        int r = SHM_ROOT_E_WITHDRAWN;

        for (uint32_t turn = 0; turn < ADD_TURNS_MAX && r == SHM_ROOT_E_WITHDRAWN; turn++)
                r = shm_root_propose(arena, name, handle, &proposal) ?: shm_root_confirm(arena, &proposal);
        return r == SHM_ROOT_E_WITHDRAWN ? -EAGAIN : r; /* see invariant 2 */
}

/* Changes the entry of a name that has the root `expected`. */
static int root_turn(ShmArena *arena, const char *name, uint64_t expected, uint64_t to_hash,
                     uint64_t handle) {
        ShmPair root = { .high = expected };
        uint64_t found;
        int i, r;

        if (arena->read_only)
                return -EROFS;
        r = hash_name(arena, name, &root.low);
        if (r)
                return r;
        i = root_find(arena, root.low, &found);
        return i >= 0 && root_change(arena, (uint32_t) i, &root, to_hash ?: root.low, handle) ? 0 : -EAGAIN;
}

int shm_root_set(ShmArena *arena, const char *name, uint64_t expected, uint64_t handle) {
        uint64_t found;
        int r;

        if (expected != 0)
                return root_turn(arena, name, expected, 0, handle);
        if (handle != 0)
                return root_add(arena, name, handle);
        if (arena->read_only)
                return -EROFS;
        r = shm_root_get(arena, name, &found);
        return r == 0 ? -EAGAIN : r == -ENOENT ? 0 : r;
}

int shm_root_remove(ShmArena *arena, const char *name, uint64_t expected) {
        return root_turn(arena, name, expected, REMOVED, expected);
}

uint64_t shm_root_removal(const ShmArena *arena, uint32_t i) {
        ShmPair root = root_load(arena, i);

        return root.low == REMOVED ? root.high : 0;
}

void shm_root_removed(ShmArena *arena, uint32_t i, uint64_t handle) {
        ShmPair root = { .low = REMOVED, .high = handle };

        (void) root_change(arena, i, &root, REMOVED, 0);
}

uint64_t shm_root_of(const ShmArena *arena, uint32_t i) {
        ShmPair root = root_load(arena, i);

        return root.low == REMOVED || root.low & PROPOSED ? 0 : root.high;
}

bool shm_root_names(ShmArena *arena, uint64_t handle) {
        for (uint32_t i = 0; i < SHM_ROOTS_MAX; i++) {
                ShmPair root = root_load(arena, i);

                /* A proposal of a dead thread is withdrawn, or was. */
                while (root.high == handle && root.low & PROPOSED &&
                       !root_change(arena, i, &root, root.low & ~PROPOSED, 0))
                        ;
                if (root.high == handle && !(root.low & PROPOSED))
                        return true;
        }
        return false;
}

bool shm_root_was_used(const ShmArena *arena, uint32_t i) {
        return i < SHM_ROOTS_MAX && root_load(arena, i).low != 0;
}

/* A look at entries that were never used would give them pages. */
uint32_t shm_root_n_free(const ShmArena *arena) {
        uint32_t n = 0, i = 0;

        for (; shm_root_was_used(arena, i); i++)
                n += root_load(arena, i).high == 0;
        return n + SHM_ROOTS_MAX - i;
}

/* Whether a text is what it was when it was written: it may be of a name that had the entry before. */
static bool is_text_of(const ShmArena *arena, const uint8_t *name, uint64_t hash) {
        uint64_t own;

        return hash_name(arena, (const char *) name, &own) == 0 && own == hash;
}

int shm_root_at(const ShmArena *arena, uint32_t i, char *ret_name, uint64_t *ret_handle) {
        uint8_t text[SHM_ROOT_NAME_SIZE];
        ShmPair root;

        if (i >= SHM_ROOTS_MAX)
                return -ENOENT;
        root = root_load(arena, i);
        if (root.high == 0 || root.low == REMOVED || root.low & PROPOSED)
                return -ENOENT;
        shm_racy_copy(text, arena->header->roots[i].name, sizeof(text));
        text[sizeof(text) - 1] = 0;
        shm_text_copy(ret_name, text, SHM_ROOT_NAME_SIZE);
        if (!is_text_of(arena, text, root.low)) /* a process scribbled over it */
                snprintf(ret_name, SHM_ROOT_NAME_SIZE, "#%016" PRIx64, root.low);
        *ret_handle = root.high;
        return 0;
}
