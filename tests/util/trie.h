#pragma once
/* The inner nodes and leaves of a trie at rest, counted by a walk of the test's own. */
#include "shm/map/trie/trie.h"

typedef struct TrieCount {
        uint64_t n_nodes, n_leaves; /* leaves: also stale ones, and words of buckets that are gone */
        uint64_t size; /* bytes of the nodes */
        uint64_t n_sparse; /* nodes that ought to have been removed */
        uint64_t n_frozen; /* words */
        uint64_t n_stale; /* nodes: then nothing else is right */
} TrieCount;

static inline void trie_count_word(const ShmTrie *trie, uint64_t value, uint32_t depth, TrieCount *ret);

static inline uint64_t trie_count_value(const ShmTrie *trie, uint64_t named, uint64_t node, uint64_t raw,
                                        uint32_t depth, TrieCount *ret) {
        uint64_t value = raw ^ shm_trie_seal(node);

        if (depth >= trie->n_levels || !shm_trie_is_frozen(value))
                return value;
        ret->n_frozen++;
        return shm_trie_thaw(raw ^ shm_trie_seal(named));
}

/* A node below `depth` nodes, as the word above names it. */
static inline void trie_count_node(const ShmTrie *trie, uint64_t named, uint32_t depth, TrieCount *ret) {
        uint32_t key = trie->arena->key, n = 0;
        uint64_t node = named, *words;
        bool has_inner = false;
        size_t size;
        void *object;

        if (shm_object_get(trie->arena, node, &object, &size) != 0) {
                node = shm_handle_make(key, shm_handle_slot(node), shm_handle_tag(key, node) + 2);
                if (shm_object_get(trie->arena, node, &object, &size) != 0) {
                        ret->n_stale++;
                        return;
                }
        }
        words = object;
        for (uint32_t i = 0; i < trie->levels[depth < trie->n_levels ? depth : trie->n_levels].n_words; i++) {
                uint64_t value = trie_count_value(trie, named, node, words[i], depth, ret);

                n += value != 0;
                has_inner |= shm_trie_is_inner(value);
                trie_count_word(trie, value, depth + 1, ret);
        }
        ret->n_nodes++;
        ret->size += size;
        ret->n_sparse += n < 2 && !has_inner && depth >= trie->n_fixed && depth < trie->n_levels;
}

static inline void trie_count_word(const ShmTrie *trie, uint64_t value, uint32_t depth, TrieCount *ret) {
        if (shm_trie_is_inner(value))
                trie_count_node(trie, value ^ SHM_TRIE_FLIP, depth, ret);
        else
                ret->n_leaves += value != 0;
}

static inline TrieCount trie_count(const ShmTrie *trie) {
        const ShmTrieRoot *root = (const ShmTrieRoot *) (trie->arena->slabs + trie->root_off);
        TrieCount ret = {};

        trie_count_word(trie, root->word ^ shm_trie_seal(trie->root), 0, &ret);
        return ret;
}
