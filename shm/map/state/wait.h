#pragma once
/*
 * Waiting until a key's claim is no more. The state of a map has futex words, each for all keys of some hashes. Only
 * programs that ask for it wait; a change of a claim for which nobody waits makes no system call.
 */
#include "shm/map/trie/trie.h"

/* NULL: the map has no name, so that no waiting thread would be woken. */
uint32_t *shm_wait_word(const ShmTrie *trie, uint64_t hash);

/*
 * From now on a change wakes the caller. Look at the key after this call, then sleep with the value that it returned:
 * if somebody was woken meanwhile, the word has another value by then, and the sleep ends at once.
 */
uint32_t shm_wait_begin(uint32_t *word);
/* 0 (woken, or not slept at all), -ETIMEDOUT, -EINTR (a signal handler ran). The word may be read-only. */
int shm_wait_sleep(const uint32_t *word, uint32_t value, uint64_t timeout_ns);

/*
 * A word for threads that wait for claims of several hashes, by shm_wait_begin() of this and of their words: it is
 * woken after any of those was.
 */
static inline uint32_t *shm_wait_polled(ShmArena *arena) {
        return &arena->header->polled;
}
/* Ends the sleeps on a word. */
void shm_wait_poke(const uint32_t *word);

/* A claim on a key of this hash is no more. */
void shm_wait_wake(const ShmTrie *trie, uint64_t hash);
/* The map is no more. */
void shm_wait_wake_map(const ShmTrie *trie);
/*
 * For the maintainer, when a process has ended: its claims are free, and it may have died before it woke the waiters.
 */
void shm_wait_wake_all(ShmArena *arena);
