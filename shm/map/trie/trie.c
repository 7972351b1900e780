/* The trie: its root, and the shape of its nodes. Walking: trie-walk.c; changing: shm/map/trie/trie-change.c. */
#include "shm/map/trie/trie.h"

#include <errno.h>

#include "shm/map/leaf/leaf.h"

#define TOP_BITS 6
#define N_TOP 2
#define LOW_BITS_MIN 3
#define BITS_MIN 3 /* a node of the smallest class there can be */
#define BITS_MAX 9 /* in the largest node */

/* The widest node of at most `bits` that fills at least half of its class; else the widest that fits. */
static uint8_t choose_bits(const ShmArena *arena, uint8_t bits) {
        uint8_t widest;

        while (bits > BITS_MIN && (8U << bits) > shm_arena_size_max(arena))
                bits--;
        widest = bits;
        for (; bits >= BITS_MIN; bits--)
                if (arena->classes[shm_arena_class(arena, 8U << bits)].size <= 16U << bits)
                        return bits;
        return widest;
}

static uint32_t node_size(const ShmArena *arena, uint8_t bits) {
        return arena->classes[shm_arena_class(arena, 8U << bits)].size;
}

/*
 * For n leaves with random hashes, n / (bits x ln 2) nodes have two or more below them, within 3 %. So the memory of
 * the index is in proportion to a node's size divided by its bits: with a class of 64 bytes, 31 bytes a leaf.
 */
static uint8_t choose_low_bits(const ShmArena *arena) {
        uint8_t best = LOW_BITS_MIN;

        for (uint8_t bits = LOW_BITS_MIN + 1; bits <= SHM_TRIE_LOW_BITS_MAX; bits++)
                if ((8U << bits) <= shm_arena_size_max(arena) &&
                    node_size(arena, bits) * best < node_size(arena, best) * bits)
                        best = bits;
        return best;
}

int shm_trie_create(ShmActor *actor, uint32_t epoch, uint64_t *ret_root) {
        const ShmPending pending = { .root = SHM_NOTE_NAMED_ROOT };
        uint64_t handle;
        void *object;
        int r;

        r = shm_object_alloc(actor, sizeof(ShmTrieRoot), epoch, &pending, &handle, &object);
        if (r)
                return r;
        *(ShmTrieRoot *) object = (ShmTrieRoot){
                .magic = SHM_TRIE_MAGIC,
                .word = shm_trie_seal(handle),
                .epoch = epoch,
                .top_bits = choose_bits(actor->arena, TOP_BITS),
                .n_top = N_TOP,
                .low_bits = choose_low_bits(actor->arena),
        };
        *ret_root = handle;
        return 0;
}

static bool bits_fit(const ShmArena *arena, uint8_t bits) {
        return bits >= BITS_MIN && bits <= BITS_MAX && (8U << bits) <= shm_arena_size_max(arena);
}

static ShmTrieLevel level_make(const ShmArena *arena, uint32_t bits, uint32_t used, uint32_t shift) {
        const ShmClass *class = &arena->classes[shm_arena_class(arena, 8U << bits)];

        return (ShmTrieLevel){
                .shift = (uint8_t) shift,
                .mask = (uint16_t) ((1U << used) - 1),
                .n_words = (uint16_t) (1U << bits),
                .n_slots = (uint16_t) class->n_slots,
                .stride = class->size,
        };
}

static void levels_init(ShmTrie *trie, const ShmTrieRoot *root) {
        uint32_t left = 64, n = 0;

        while (left > 0) {
                uint32_t bits = n < root->n_top ? root->top_bits : root->low_bits;
                uint32_t used = bits < left ? bits : left;

                left -= used;
                trie->levels[n++] = level_make(trie->arena, bits, used, left);
        }
        trie->levels[n] = level_make(trie->arena, root->low_bits, 0, 0);
        trie->n_levels = n;
        trie->n_fixed = root->n_top;
}

int shm_trie_open(ShmTrie *trie, ShmArena *arena, uint64_t handle) {
        ShmTrieRoot root;
        void *object;
        int r;

        r = shm_object_get(arena, handle, &object, NULL);
        if (r)
                return r;
        r = shm_object_copy(arena, handle, 0, &root, sizeof(root));
        if (r)
                return r;
        if (root.magic != SHM_TRIE_MAGIC || !bits_fit(arena, root.top_bits) ||
            !bits_fit(arena, root.low_bits) || root.low_bits > SHM_TRIE_LOW_BITS_MAX)
                return -EUCLEAN;
        *trie = (ShmTrie){
                .arena = arena,
                .root = handle,
                .root_off = (uint64_t) ((uint8_t *) object - arena->slabs),
                .epoch = root.epoch,
                .shortcut_mix = shm_leaf_seal(handle) >> 32,
                .now_ns = shm_clock_ns,
                .exact_ns = shm_clock_exact_ns,
        };
        levels_init(trie, &root);
        return 0;
}
