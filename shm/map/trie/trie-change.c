/*
 * The trie: changing words
 *
 * Purpose: links leaves and inner nodes, by one compare-and-set each.
 *
 * Invariants: see shm/map/trie/trie-walk.c.
 *
 * Who may do what: writers change words: see shm/map/trie/trie-walk.c.
 *
 * Crash: see shm/map/trie/trie-walk.c.
 */
#include "shm/arch/racy.h"
#include "shm/map/leaf/chain.h"
#include "shm/map/trie/trie-shrink.h"
#include "shm/map/trie/trie-walk.h"

#define MARK_TRIES_MAX 10000 /* a touch wins each time: not by chance */
#define PUT_BACK_TRIES_MAX 10000 /* others win each time: not by chance */

/* Finds the index that the value at the cursor has in a new node one level down. */
static int find_room(const ShmTrie *trie, const ShmTrieCursor *c, const ShmTrieLevel *level, uint32_t *ret) {
        uint64_t hash;
        int r;

        *ret = 0;
        if (level->mask == 0)
                return 0;
        r = shm_object_copy(trie->arena, c->value, 0, &hash, sizeof(hash));
        if (r)
                return r;
        *ret = (uint32_t) (hash >> level->shift) & level->mask;
        return 0;
}

/* Whether a leaf went stale between the look at its tag and its compare-and-set, and took the place of another leaf. */
static bool is_lost(const ShmTrie *trie, const ShmTrieCursor *c, uint64_t leaf) {
        return shm_trie_is_leaf(leaf) && shm_trie_is_leaf(c->value) && !trie_live(trie->arena, leaf);
}

/* In a bucket, other words of the hash come before the leaf's. False: no word holds the leaf. */
static bool seek_leaf(const ShmTrie *trie, uint64_t hash, uint64_t leaf, ShmTrieCursor *ret) {
        int r = shm_trie_seek(trie, hash, ret);

        while (r == 0 && ret->value != leaf)
                r = shm_trie_next(trie, ret);
        return r == 0;
}

/*
 * Takes the stale leaf out again, and links the leaf that it replaced, so that the key keeps its value. The stale leaf
 * may have moved meanwhile, and its word may be frozen. False: another thread has changed the word since.
 */
static bool put_back(ShmActor *actor, const ShmTrie *trie, const ShmTrieCursor *c, uint64_t leaf) {
        ShmTrieCursor at;
        bool found;

        for (uint32_t i = 0; i < PUT_BACK_TRIES_MAX; i++) {
                if (!seek_leaf(trie, c->hash, leaf, &at))
                        return false;
                if (at.frozen && shm_trie_help(actor, trie, c->hash, &found) != 0)
                        return false;
                if (!at.frozen && trie_change(actor, &at, c->value))
                        return true;
        }
        return false;
}

/* The end of a leaf that nobody looked at, if it may have a shortcut. */
__attribute__((noinline)) static uint64_t *find_end(const ShmTrie *trie, uint64_t leaf) {
        uint16_t flags;
        void *object;

        if (!trie_has_shortcuts(trie) || shm_object_get(trie->arena, leaf, &object, NULL) != 0)
                return NULL;
        shm_racy_copy(&flags, &((ShmMapLeaf *) object)->flags, sizeof(flags));
        return flags & SHM_LEAF_SHORTCUT ? &((ShmMapLeaf *) object)->expires : NULL;
}

/*
 * A get may find the leaf by a shortcut, without the trie. Before the leaf is unlinked it is marked, so that such a get
 * asks the trie. If the leaf stays after all, its shortcut is of no more use. The thread has noted the leaf, and then
 * guarded the node: so if the leaf is live, a revocation does not give its slot back. A thread that frees it closes its
 * end first.
 */
__attribute__((noinline)) static void mark_leaving(const ShmTrie *trie, uint64_t leaf, uint64_t *end) {
        uint64_t seal = shm_leaf_seal(leaf), raw;

        for (uint32_t i = 0; i < MARK_TRIES_MAX; i++) {
                raw = shm_load_acq(end); /* ORDER: acq, pairs with shm_map_set_end(); before the tag. */
                if ((raw ^ seal) & SHM_LEAF_LEAVING || !trie_live(trie->arena, leaf))
                        return;
                /* ORDER: acqrel, pairs with shm_map_view(); before the leaf is unlinked. */
                if (shm_cas_acqrel(end, &raw, raw ^ SHM_LEAF_LEAVING))
                        return;
        }
}

/*
 * Puts `value` into the word at the cursor. `end`: that of the leaf that it replaces, if this is to be marked.
 * SHM_TRIE_E_CHANGED: the word has changed, or its node is stale; SHM_TRIE_E_STALE: the leaf `value` is stale. If a
 * leaf went stale but replaced no other leaf, the result is 0, as if the leaf had been revoked a moment later.
 */
static int link_word(ShmActor *actor, const ShmTrie *trie, const ShmTrieCursor *c, uint64_t value,
                     uint64_t *end) {
        int r = SHM_TRIE_E_CHANGED;
        bool lost = false;

        if (!shm_actor_guard(actor, c->node))
                return SHM_TRIE_E_CHANGED;
        if (shm_trie_is_leaf(value) && !trie_live(trie->arena, value)) {
                r = SHM_TRIE_E_STALE;
        } else {
                if (__builtin_expect(end != NULL, 0))
                        mark_leaving(trie, c->value, end);
                if (trie_swap(c, value)) {
                        lost = is_lost(trie, c, value);
                        r = 0;
                }
        }
        shm_actor_unguard(actor);
        return lost && put_back(actor, trie, c, value) ? SHM_TRIE_E_STALE : r;
}

/*
 * The word at the cursor has changed, or is frozen. If it is frozen, helps to end the removal; then moves the cursor to
 * the end of the path.
 */
static int look_again(ShmActor *actor, const ShmTrie *trie, ShmTrieCursor *c) {
        bool was_frozen = c->frozen, found = false;
        uint64_t seen = c->raw;
        int r = was_frozen ? shm_trie_help(actor, trie, c->hash, &found) : 0;

        r = r ?: shm_trie_reload(trie, c);
        if (r)
                return r;
        /* A seal is of one version of one node. So the same word means the same removal, which cannot be ended. */
        return was_frozen && !found && c->frozen && c->raw == seen ? -EIDRM : SHM_TRIE_E_CHANGED;
}

/* Readers of the slot's last object may still look at the word. They find the tag changed. */
static void word_init(uint64_t *word, uint64_t value) {
        shm_racy_copy(word, &value, sizeof(value));
}

/*
 * Makes a node that has the cursor's value in the word `index`, and `leaf` in the word of the cursor's hash, if that is
 * another word.
 */
static int node_new(ShmActor *actor, const ShmTrie *trie, const ShmTrieCursor *c, uint32_t index,
                    uint64_t leaf, uint64_t *ret_handle) {
        const ShmPending pending = { .root = trie->root, .hash = c->hash };
        const ShmTrieLevel *level = trie_level(trie, c->depth);
        uint32_t leaf_index = (uint32_t) (c->hash >> level->shift) & level->mask;
        uint64_t handle, *node, seal;
        void *object;
        int r;

        r = shm_object_alloc(actor, level->n_words * sizeof(uint64_t), trie->epoch, &pending, &handle,
                             &object);
        if (r)
                return r == -ESTALE ? -ESHUTDOWN : r;
        node = object;
        seal = shm_trie_seal(handle);
        for (uint32_t i = 0; i < level->n_words; i++)
                word_init(&node[i], seal);
        word_init(&node[leaf_index], leaf ^ seal);
        word_init(&node[index],
                  c->value ^ seal); /* there is no room for the leaf, where it is the same word */
        *ret_handle = handle;
        return leaf_index == index ? SHM_TRIE_E_CHANGED : 0;
}

int shm_trie_split(ShmActor *actor, const ShmTrie *trie, ShmTrieCursor *c, uint64_t leaf) {
        uint64_t handle = 0;
        uint32_t index;
        int r, linked;

        if (c->depth >= trie->n_levels + SHM_TRIE_BUCKETS_MAX)
                return -ENOSPC;
        if (!trie_live(trie->arena, leaf) || !shm_trie_can_link(leaf))
                return SHM_TRIE_E_STALE;
        if (c->frozen || find_room(trie, c, trie_level(trie, c->depth), &index) != 0)
                return look_again(actor, trie, c);
        r = node_new(actor, trie, c, index, leaf, &handle);
        if (r < 0)
                return r;
        linked = shm_trie_can_link(handle) ? link_word(actor, trie, c, handle ^ SHM_TRIE_FLIP, NULL)
                                           : SHM_TRIE_E_CHANGED;
        if (linked != 0)
                (void) shm_object_free(actor, handle);
        (void) shm_actor_unnote(actor, handle);
        if (linked == 0 && r == 0)
                (void) shm_actor_unnote(actor, leaf);
        return linked ?: r;
}

/*
 * The note of a deleted leaf, or of a node that took the leaf's place in the note, stands until the path is as short as
 * it can be.
 */
static void end_exchange(ShmActor *actor, const ShmTrie *trie, const ShmTrieCursor *c, uint64_t old,
                         ShmFinal *final) {
        ShmFinal plain = { .word = c->seen_end, .closed = shm_leaf_closed(old) };
        uint64_t noted = old;

        if (old == c->seen && !(c->seen_flags & (SHM_LEAF_CHAINED | SHM_LEAF_CELL)))
                final = &plain;
        /*
         * The handle is stale if somebody else freed the leaf, with its epoch or by its handle: nothing is left to free
         * then.
         */
        if (old && final)
                (void) shm_object_finish(actor, old, final);
        else if (old)
                (void) shm_chain_free(actor, old);
        if (c->value == 0 && trie_is_removable(trie, c->depth))
                (void) shm_trie_shrink_at(actor, trie, c, &noted);
        if (noted)
                (void) shm_actor_unnote(actor, noted);
        if (shm_trie_is_leaf(c->value))
                (void) shm_actor_unnote(actor, c->value);
}

static int exchange_leaf(ShmActor *actor, const ShmTrie *trie, ShmTrieCursor *c, uint64_t value,
                         ShmFinal *final) {
        uint64_t old = shm_trie_is_leaf(c->value) ? c->value : 0, *end = NULL;
        int r;

        if (c->frozen)
                return look_again(actor, trie, c);
        if (shm_trie_is_leaf(value) && !shm_trie_can_link(value))
                return SHM_TRIE_E_STALE;
        if (old) {
                r = shm_actor_note(actor, old, trie->root, c->hash);
                if (r)
                        return r;
                if (__builtin_expect(old != c->seen, 0))
                        end = find_end(trie, old);
                else if (__builtin_expect(c->seen_flags & SHM_LEAF_SHORTCUT, 0))
                        end = c->seen_end;
        }
        r = link_word(actor, trie, c, value, end);
        if (r) {
                if (old)
                        (void) shm_actor_unnote(actor, old);
                return r == SHM_TRIE_E_CHANGED ? look_again(actor, trie, c) : r;
        }
        c->raw = value ^ trie_cursor_seal(c);
        c->value = value;
        end_exchange(actor, trie, c, old, final);
        return 0;
}

int shm_trie_exchange(ShmActor *actor, const ShmTrie *trie, ShmTrieCursor *c, uint64_t value) {
        return exchange_leaf(actor, trie, c, value, NULL);
}

int shm_trie_take(ShmActor *actor, const ShmTrie *trie, ShmTrieCursor *c, uint64_t vacancy, ShmFinal *final) {
        return exchange_leaf(actor, trie, c, vacancy, final);
}
