#pragma once
/* How much memory a trie's root and inner nodes take: counted in steps, beside others that write. */
#include "shm/map/trie.h"

/* Begin with zeros. */
typedef struct ShmTrieSize {
        uint64_t bytes; /* the slots of root and inner nodes that were met */
        uint64_t n_words; /* passed over since it began */
        uint32_t depth; /* nodes of the path that is walked */
        struct {
                uint64_t handle;
                uint32_t next, n_words; /* the word that is next, and how many there are */
        } path[SHM_TRIE_LEVELS_MAX + SHM_TRIE_BUCKETS_MAX];
} ShmTrieSize;

/* Passes over n words at most. True: it is done, or the trie is no more. Nothing is written. */
bool shm_trie_size_step(const ShmTrie *trie, ShmTrieSize *size, uint32_t n);
