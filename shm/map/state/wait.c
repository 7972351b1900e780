/*
 * Maps: waiting for claims
 *
 * Purpose: a thread that waits for a claim sleeps until the claim is no more.
 *
 * Invariants
 *   1. The lowest bit of a word says that threads may sleep on it; the other bits count. A thread that waits sets the
 *      bit, looks at the key, then sleeps if the word is as it was. A thread that ends a claim changes the key, then
 *      looks at the word: if the bit is set, it clears the bit, raises the count, and wakes all. So one of the two sees
 *      the other.
 *   2. A bit may be set though nobody sleeps: then one system call is in vain, and clears it.
 *   3. A thread that waits for claims of several hashes sets the bit of the word `polled` of the arena, then those of
 *      their words, and sleeps on `polled`. A thread that cleared the bit of another word does the same to `polled`.
 *   4. The caller limits each sleep, since the thread that ended the claim may have been killed or stopped before it
 *      woke anybody: see libclient/map-claim.c.
 *
 * Who may do what: any thread of a writer waits and wakes. A process that can only read the arena just sleeps.
 *
 * Crash: a thread that dies before it wakes the others: see 4. In a daemon's pool the daemon wakes all as well.
 */
#include "shm/map/state/wait.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shm/arena/root.h"

#define SLEEPERS UINT32_C(1)

uint32_t *shm_wait_word(const ShmTrie *trie, uint64_t hash) {
        return trie->map == 0 ? NULL : &trie->arena->header->maps[trie->map - 1].waits[hash % SHM_MAP_WAITS];
}

uint32_t shm_wait_begin(uint32_t *word) {
        uint32_t value;

        /* ORDER: sc, pairs with shm_wait_wake(); before the look at the key. */
        value = shm_or_sc(word, SLEEPERS) | SLEEPERS;
        shm_fence_sc(); /* ORDER: sc, pairs with shm_wait_wake(); the same for loads that are no sc ones. */
        return value;
}

int shm_wait_sleep(const uint32_t *word, uint32_t value, uint64_t timeout_ns) {
        const struct timespec timeout = {
                .tv_sec = (time_t) (timeout_ns / (1000 * SHM_NS_PER_MS)),
                .tv_nsec = (long) (timeout_ns % (1000 * SHM_NS_PER_MS)),
        };

        if (syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0) == 0)
                return 0;
        return errno == ETIMEDOUT || errno == EINTR ? -errno : 0;
}

void shm_wait_poke(const uint32_t *word) {
        (void) syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Returns whether threads may have slept. */
static bool clear_sleepers(uint32_t *word) {
        uint32_t value = shm_load_rlx(word); /* ORDER: rlx; the caller's fence is before it. */

        while (value & SLEEPERS)
                /* ORDER: acqrel; sleepers from now on looked at the key after it was changed. */
                if (shm_cas_acqrel(word, &value, value + 1))
                        return true;
        return false;
}

static void wake_polled(ShmArena *arena) {
        uint32_t *word = shm_wait_polled(arena);

        if (clear_sleepers(word))
                shm_wait_poke(word);
}

void shm_wait_wake(const ShmTrie *trie, uint64_t hash) {
        uint32_t *word = shm_wait_word(trie, hash);

        if (!word)
                return;
        shm_fence_sc(); /* ORDER: sc, pairs with shm_wait_begin(); the key was changed before. */
        if (!clear_sleepers(word))
                return;
        shm_wait_poke(word);
        wake_polled(trie->arena);
}

void shm_wait_wake_map(const ShmTrie *trie) {
        for (uint64_t hash = 0; hash < SHM_MAP_WAITS; hash++)
                shm_wait_wake(trie, hash);
}

void shm_wait_wake_all(ShmArena *arena) {
        shm_fence_sc(); /* ORDER: sc, pairs with shm_wait_begin(); the process is known to be no more. */
        for (uint32_t i = 0; shm_root_was_used(arena, i); i++) {
                /* Only states of maps have pages. ORDER: rlx; a thread waits for a map that has long been there. */
                if (shm_load_rlx(&arena->header->roots[i].handle) == 0)
                        continue;
                for (uint32_t k = 0; k < SHM_MAP_WAITS; k++) {
                        uint32_t *word = &arena->header->maps[i].waits[k];

                        (void) clear_sleepers(word);
                        if (shm_load_rlx(word) != 0) /* ORDER: rlx; 0: nobody ever waited. */
                                shm_wait_poke(word);
                }
        }
        wake_polled(arena);
}
