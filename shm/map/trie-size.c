/*
 * The trie: how much memory it takes
 *
 * Purpose: counts inner nodes, for people. Leaves are counted by writers (shm/map/tally.h).
 *
 * Invariants
 *   1. A node that goes while it is walked ends the walk of what was below it: the count is of no single moment.
 *   2. It ends, whatever the arena holds: as a scan does (shm/map/trie-scan.c), after many times as many words as the
 *      pool has.
 *
 * Who may do what: anyone who can read the arena. Nothing is written.
 *
 * Crash: nothing is held.
 */
#include "shm/map/trie-size.h"

#include "shm/map/trie-walk.h"

static void size_enter(const ShmTrie *trie, ShmTrieSize *size, uint64_t handle) {
        uint32_t level = size->depth < trie->n_levels ? size->depth : trie->n_levels;
        void *object;
        size_t bytes;

        if (size->depth >= sizeof(size->path) / sizeof(size->path[0]) ||
            shm_object_get(trie->arena, handle, &object, &bytes) != 0)
                return;
        size->bytes += bytes;
        size->path[size->depth].handle = handle;
        size->path[size->depth].next = 0;
        size->path[size->depth].n_words = trie->levels[level].n_words;
        size->depth++;
}

/* `depth`: nodes above the word. */
static void size_look(const ShmTrie *trie, ShmTrieSize *size, uint64_t node, uint64_t raw, uint32_t depth) {
        uint64_t value = raw ^ shm_trie_seal(node);

        if (depth <= trie->n_levels && shm_trie_is_frozen(value))
                value = shm_trie_thaw(value);
        if (shm_trie_is_inner(value))
                size_enter(trie, size, value ^ SHM_TRIE_FLIP);
}

static void size_begin(const ShmTrie *trie, ShmTrieSize *size) {
        ShmTrieRoot root;
        void *object;
        size_t bytes;

        size->n_words = 1;
        if (shm_object_get(trie->arena, trie->root, &object, &bytes) != 0 ||
            shm_object_copy(trie->arena, trie->root, 0, &root, sizeof(root)) != 0)
                return;
        size->bytes = bytes;
        size_look(trie, size, trie->root, root.word, 0);
}

static void size_next_word(const ShmTrie *trie, ShmTrieSize *size) {
        uint32_t depth = size->depth, next = size->path[depth - 1].next++;
        uint64_t node = size->path[depth - 1].handle, raw;

        size->n_words++;
        if (next >= size->path[depth - 1].n_words ||
            shm_object_copy(trie->arena, node, next * sizeof(raw), &raw, sizeof(raw)) != 0)
                size->depth--;
        else
                size_look(trie, size, node, raw, depth);
}

bool shm_trie_size_step(const ShmTrie *trie, ShmTrieSize *size, uint32_t n) {
        if (size->n_words == 0)
                size_begin(trie, size);
        for (; n > 0 && size->depth > 0 && !trie_is_too_long(trie, size->n_words); n--)
                size_next_word(trie, size);
        return size->depth == 0 || trie_is_too_long(trie, size->n_words);
}
