/*
 * The trie: all its leaves
 *
 * Purpose: meets every leaf, in the order of hashes, while others write. It also meets every inner node, to count the
 *   memory of the index, for people.
 *
 * Invariants
 *   1. A leaf's place in the order is its hash and, among equal hashes, its position: 0 above the buckets, then along
 *      the buckets. A leaf that moves down keeps its place. So a scan that goes on behind the last place that it saw
 *      meets each leaf that stays exactly once.
 *   2. Below a word that is 0, or that holds a leaf which the scan has passed, there is nothing else: the scan passes
 *      over the whole range of hashes of that word.
 *   3. Each round raises the place, whatever the arena holds. But in a damaged trie nodes may share the nodes below
 *      them, so that a scan would meet far more words than the pool has. A scan that has passed many times as many
 *      words as the pool has ends with an error.
 *   4. If a node is removed while its memory is counted, the count leaves out the rest below it: the size is of no
 *      single moment.
 *
 * Who may do what: anyone who can read the arena. Nothing is written.
 *
 * Crash: nothing is held.
 */
#include "shm/map/trie/trie-walk.h"

#include <errno.h>

static bool is_paused(const ShmTrieScan *scan) {
        return scan->pause != 0 && scan->n_words >= scan->pause;
}

/* The number of bits of the hash below those that led to the cursor's word. */
static uint32_t range_bits(const ShmTrie *trie, const ShmTrieCursor *c) {
        if (c->depth == 0)
                return 64;
        return shm_trie_in_bucket(trie, c) ? 0 : trie->levels[c->depth - 1].shift;
}

static void pass_range(ShmTrieScan *scan, uint32_t bits) {
        uint64_t last = bits == 64 ? UINT64_MAX : scan->hash | ((UINT64_C(1) << bits) - 1);

        scan->done = last == UINT64_MAX;
        scan->hash = last + 1;
        scan->position = 0;
}

/* Passes over the word's range. 0: the cursor is at the next word of its node; SHM_TRIE_E_LAST: there is none. */
static int pass_word(const ShmTrie *trie, ShmTrieScan *scan, ShmTrieCursor *c) {
        pass_range(scan, range_bits(trie, c));
        if (scan->done || c->depth == 0 || c->index >= trie->levels[c->depth - 1].mask)
                return SHM_TRIE_E_LAST;
        c->hash = scan->hash;
        c->index++;
        c->word++;
        return shm_trie_reload(trie, c);
}

/* 1: a leaf; 0: no more of this hash, the scan is behind it. */
static int scan_buckets(const ShmTrie *trie, ShmTrieScan *scan, ShmTrieCursor *c) {
        uint32_t n_words = trie->levels[trie->n_levels].n_words, position;
        int r;

        do {
                position = (c->depth - trie->n_levels - 1) * (n_words - 1) + c->index;
                scan->n_words += position > scan->position;
                if (shm_trie_is_leaf(c->value) && position >= scan->position) {
                        scan->position = position + 1;
                        return 1;
                }
                r = shm_trie_next(trie, c);
        } while (r == 0);
        if (r < 0)
                return r;
        pass_range(scan, 0);
        return 0;
}

/*
 * A leaf above the buckets. 1: it is the next one. 0: it is not, and the scan has not moved: the caller passes over the
 * leaf's range or, if *ret_again is set, looks at its word again.
 */
static int scan_leaf(const ShmTrie *trie, ShmTrieScan *scan, ShmTrieCursor *c, bool *ret_again) {
        uint32_t bits = range_bits(trie, c);
        uint64_t hash, seen = c->value;
        int r;

        *ret_again = false;
        if (shm_object_copy(trie->arena, c->value, 0, &hash, sizeof(hash)) != 0) {
                r = shm_trie_reload(trie, c);
                if (r)
                        return r;
                *ret_again = c->value != seen || range_bits(trie, c) != bits;
                if (*ret_again)
                        return 0;
                c->hash = scan->hash;
                pass_range(scan, bits);
                return 1;
        }
        if (bits < 64 && (hash ^ scan->hash) >> bits != 0)
                return 0;
        if (hash < scan->hash || (hash == scan->hash && scan->position > 0))
                return 0;
        c->hash = hash;
        scan->hash = hash;
        scan->position = 1;
        return 1;
}

/* From the cursor to the end of its node. 1: a leaf; 0: none, the scan is behind the node, or paused. */
static int scan_node(const ShmTrie *trie, ShmTrieScan *scan, ShmTrieCursor *c) {
        bool again;
        int r = 0;

        while (r == 0 && !is_paused(scan)) {
                scan->n_words++;
                if (trie_is_too_long(trie, scan->n_words))
                        return -EIDRM;
                if (shm_trie_in_bucket(trie, c))
                        return scan_buckets(trie, scan, c);
                again = false;
                if (shm_trie_is_leaf(c->value)) {
                        r = scan_leaf(trie, scan, c, &again);
                        if (r != 0)
                                return r;
                }
                if (!again)
                        r = pass_word(trie, scan, c);
        }
        return r < 0 ? r : 0;
}

int shm_trie_scan(const ShmTrie *trie, ShmTrieScan *scan, ShmTrieCursor *ret, uint64_t *ret_hash) {
        int r;

        while (!scan->done && !is_paused(scan)) {
                r = shm_trie_seek(trie, scan->hash, ret);
                if (r == 0)
                        r = scan_node(trie, scan, ret);
                if (r < 0)
                        return r;
                if (r == 1) {
                        *ret_hash = ret->hash;
                        return 1;
                }
        }
        return 0;
}

/* ---- The size of the index */

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
