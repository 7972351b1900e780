/*
 * The trie: moving inner nodes
 *
 * Purpose: empties slabs of an index that shrinks. Nodes go from everywhere, so that without moves each slab would keep
 *   some, and the index the memory of its largest time.
 *
 *     step                                                  the node has       found through the word above
 *     a node in another slab is allocated                   tag t
 *     the node is frozen, and its values go to the other    tag t, frozen      the node, frozen
 *     the tag is raised                                     tag t + 2          the node, being renewed
 *     the word above takes the other node                   tag t + 2          the other node
 *     the words that are still frozen are written anew      tag t + 2
 *     the node is freed                                     tag t + 3
 *
 * Up to the word above this is a renewal (shm/map/trie/trie-shrink.c), and threads that meet the node end it as one:
 * either that word takes the other node, or it takes the node's next version.
 *
 * Invariants
 *   1. No word of a next version is changed before that is linked (ShmTrieCursor.unlinked). So both have the same
 *      values, whichever is linked.
 *   2. Threads that renew the node may be late: each writes words of the next version in place of frozen words. So
 *      the thread that moved the node writes them all before it frees the node: a write that comes late does not find
 *      the word that it expects. Nobody else frees the node but repair, and a revocation. These await the guards of
 *      such threads, and this thread's note, under the next version, keeps the node until it has written the words.
 *   3. A node goes to a slab before its own alone. So each move is a step to an end, however many threads move nodes.
 *
 * Who may do what: a writer, with its own actor, outside any operation, with two notes.
 *
 * Crash: the other node is pending: repair frees it if it is not linked. The node is noted under its next version from
 *   before its tag is raised: if that is live, and neither linked nor about to be (shm_trie_contains()), repair frees
 *   it. Otherwise repair ends the renewal.
 */
#include "shm/map/trie/trie-move.h"

#include "shm/arch/racy.h"
#include "shm/cache/uncached.h"
#include "shm/epoch/epoch.h"
#include "shm/map/trie/trie-shrink.h"
#include "shm/map/trie/trie-walk.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"

/* A slab with at most so many of four slots taken is to be emptied. */
#define MOVE_QUARTERS 3U

/* Whether the node's slab is to be emptied. *ret_key: the slab's key. */
static bool is_to_be_emptied(const ShmTrie *trie, uint64_t node, uint64_t *ret_key) {
        SlabWord w = shm_slab_word(trie->arena, slot_id_slab(shm_handle_slot(node)));
        const ShmClass *class = shm_slab_class(trie->arena, w);

        *ret_key = w.high & SLAB_KEY_MASK;
        return slab_word_state(w) == SLAB_PARTIAL &&
               4 * (uint32_t) __builtin_popcountll(w.low & ~class->tail_mask) <=
                       MOVE_QUARTERS * class->n_slots;
}

static uint64_t *address_of(const ShmTrie *trie, uint64_t node, uint64_t key) {
        return shm_slot_address(trie->arena, shm_handle_slot(node), slab_key_class(key));
}

/* Readers of the slot's last object may still look at the words. They find the tag changed. */
static void fill_node(uint64_t *words, uint32_t n_words, uint64_t node, const TrieFrozen *from) {
        uint64_t seal = shm_trie_seal(node);

        for (uint32_t i = 0; i < n_words; i++) {
                uint64_t word = from->values[i] ^ seal;

                shm_racy_copy(&words[i], &word, sizeof(word));
        }
}

/* Writes those words of the next version that nobody has written (invariant 2). */
static void close_words(const TrieRemoval *old, uint64_t next) {
        uint64_t seal = shm_trie_seal(old->node), renewed = shm_trie_seal(next);

        for (uint32_t i = 0; i < old->n_words; i++) {
                uint64_t raw = shm_load_acq(&old->words[i]); /* ORDER: acq; as in renew_words(). */

                if (shm_trie_is_frozen(raw ^ renewed))
                        /* ORDER: acqrel, pairs with renew_words(); before the slot is another object's. */
                        (void) shm_cas_acqrel(&old->words[i], &raw, shm_trie_thaw(raw ^ seal) ^ renewed);
        }
}

static void put_back_node(ShmActor *actor, uint64_t node) {
        shm_actor_enter(actor);
        /* Past the cache: from there the slot would be the next node's, and the slab would not become empty. */
        (void) shm_uncached_free(actor, shm_handle_tag(actor->arena->key, node), shm_handle_slot(node), NULL);
        shm_actor_leave(actor);
}

/* Puts the other node in place of one that is frozen. *noted: the note of the node. */
static bool replace_node(ShmActor *actor, const ShmTrie *trie, const TrieRemoval *old, uint64_t other,
                         uint64_t *noted) {
        uint32_t tag = shm_handle_tag(trie->arena->key, old->node), expected = tag;
        SlotId id = shm_handle_slot(old->node);
        uint64_t next = shm_handle_make(trie->arena->key, id, tag + 2);

        if (!shm_trie_can_link(next) || shm_actor_renote(actor, *noted, next) != 0)
                return false;
        *noted = next;
        /* ORDER: acqrel, pairs with trie_load_renewed(); all words are frozen before. */
        (void) shm_cas_acqrel(shm_slot_tag(trie->arena, id), &expected, tag + 2);
        if (!trie_change(actor, &old->above, other ^ SHM_TRIE_FLIP))
                return false;
        close_words(old, next);
        put_back_node(actor, next);
        return true;
}

/* `other` is pending, and the node's. */
static bool move_to(ShmActor *actor, const ShmTrie *trie, const TrieRemoval *old, uint64_t other,
                    uint64_t *words) {
        uint64_t noted = old->node, values[TRIE_FROZEN_MAX];
        TrieFrozen at = { .values = values };
        bool moved = false;

        if (!shm_trie_can_link(other) || shm_actor_note(actor, noted, trie->root, old->above.hash) != 0)
                return false;
        if (shm_actor_guard(actor, old->node) && trie_freeze_words(trie, old, &at)) {
                shm_actor_unguard(actor);
                if (!trie_is_needless(&at)) {
                        fill_node(words, old->n_words, other, &at);
                        moved = replace_node(actor, trie, old, other, &noted);
                }
        }
        shm_actor_unguard(actor);
        if (!moved)
                (void) trie_shrink_path(actor, trie, old->above.hash, &noted);
        (void) shm_actor_unnote(actor, noted);
        return moved;
}

/* Allocates a node in a slab before that of `node`, which has this key. */
static int alloc_before(ShmActor *actor, const ShmTrie *trie, uint64_t node, uint64_t key, uint64_t hash,
                        uint64_t *ret) {
        const ShmPending pending = { .root = trie->root, .hash = hash };
        uint32_t slab = slot_id_slab(shm_handle_slot(node)), id, era;
        int r = -ENOMEM;

        shm_actor_enter(actor);
        if (slab > 0 && shm_epoch_admit(trie->arena, trie->epoch, &id, &era) == 0 &&
            slab_key(slab_key_class(key), id, era) == key)
                r = shm_uncached_alloc_before(actor, key, slab, &pending, ret);
        shm_actor_leave(actor);
        return r;
}

/* Whether the node has one leaf, and stays for now since the key of another may be put again. */
static bool is_kept(const ShmActor *actor, const ShmTrie *trie, uint64_t hash) {
        return actor->kept.note != 0 && actor->kept.hash == hash && actor->kept.root == trie->root;
}

void shm_trie_move(ShmActor *actor, const ShmTrie *trie, const ShmTrieCursor *c) {
        uint64_t key, other;
        TrieRemoval old;

        if (!trie_is_removable(trie, c->depth) || !is_to_be_emptied(trie, c->node, &key) ||
            is_kept(actor, trie, c->hash) || !trie_find_above(trie, c, &old) ||
            alloc_before(actor, trie, c->node, key, c->hash, &other) != 0)
                return;
        if (!move_to(actor, trie, &old, other, address_of(trie, other, key)))
                put_back_node(actor, other);
        (void) shm_actor_unnote(actor, other);
}
