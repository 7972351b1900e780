/*
 * The trie: removing inner nodes
 *
 * Purpose: removes nodes with fewer than two leaves below them, so that the index shrinks with its entries.
 *
 *     word          holds     frozen                  then the node
 *     empty         0         SHM_TRIE_FROZEN_EMPTY   is removed if it holds at most one leaf: the word above takes
 *     leaf          kind 1    kind 0                  that leaf, or becomes empty. Otherwise something was put into
 *     inner node    kind 2    kind 3                  the node meanwhile, and the node is renewed.
 *
 * A removal freezes all words of a node, in any order. A frozen word does not change while the node's tag is the same.
 * So once the last word is frozen the contents of the node are settled, and all threads that help come to the same
 * decision.
 *
 * To renew a node, a thread raises the node's tag by 2, which gives the slot another handle. Then it writes the words
 * anew, with the seal of the new handle, and puts that handle into the word above. This needs no memory, so a delete
 * cannot fail for lack of it. A copy into a new node would be simpler, but could fail. Until the word above has the new
 * handle, nobody changes the words: so a node that is moved (trie-move.c) may be renewed meanwhile.
 *
 * Nodes of the first levels (n_fixed) stay: at most 65 nodes of 64 words, 33 KiB a map. A small map would otherwise
 * remove and make them all the time. Buckets stay, too: see invariant 5 in trie-walk.c. Where there is a class
 * of 64 bytes, nodes below the first levels have 8 words, one cache line, and the index takes these 33 KiB and 31 bytes
 * an entry, on average over hashes. With nodes of 16 words it would take 50 bytes an entry at some numbers of entries,
 * since most nodes then have two or three leaves.
 *
 * A deleted key is often put again. So a thread leaves the last node that it made sparse, with the note of the deleted
 * leaf, until it makes another node sparse, or ends. There is one such path for each record. A put of the same hash
 * takes the note over for its own leaf.
 *
 * Invariants
 *   1. Each compare-and-set that freezes, rewrites or unlinks a word expects the word with the seal of the tag that the
 *      node had. So a thread that comes late changes nothing, whether the node was renewed or its slot is another
 *      object's.
 *   2. A thread freezes a node only through a word above that names the node with its present tag. So after a renewal
 *      no word of the node is frozen again while the word above still has the previous tag. A reader that finds the
 *      next tag, and after that the word above unchanged, knows which of the two seals each word has.
 *   3. Of nested removals the upper one is ended first. A node that has an inner node in it is never removed.
 *   4. The thread that unlinks a node frees it, once. Others may still be reading the node; its tag tells them.
 *   5. After a delete the thread looks at the node that the leaf was in, and after a removal at the node above. So of
 *      two deletes in one node the later one sees the result of both. A sparse node is on the path of a note of the
 *      thread whose delete made it sparse. The thread may drop that note after it has put a leaf of the same hash: the
 *      node then has as many leaves as before, unless other threads deleted some. Those threads saw the node sparse,
 *      too, and have notes of their own.
 *   6. The note of a kept path does not name the deleted leaf, since the leaf's slot may be in use again. It has the
 *      handle of two versions before, with a kind that no object has. So nobody takes the slot for one that the thread
 *      has in hand.
 *
 * Who may do what: any writer begins a removal. A writer that meets a frozen word ends the removal itself before it
 *   changes the word, so it waits for nobody. Readers read through frozen words.
 *
 * Crash: a node of which some words are frozen has all its contents, and any thread goes on. The node is noted from
 *   before the first word is frozen until the node is freed. If it is unlinked by then, repair frees it; if it is still
 *   linked, repair ends the removal (shm_trie_shrink()).
 */
#include "shm/map/trie/trie-shrink.h"

#include "shm/map/trie/trie-walk.h"

#define FREEZE_TRIES_MAX 10000 /* others win each time: not by chance */

/* Whether the node of the cursor's word is to be removed, or another thread has begun to remove it. */
static bool is_sparse(const ShmTrie *trie, const ShmTrieCursor *c) {
        uint64_t *words = c->word - c->index, seal = shm_trie_seal(c->node);
        uint32_t n_words, n = 0;

        if (!trie_is_removable(trie, c->depth))
                return false;
        n_words = trie_level(trie, c->depth - 1)->n_words;
        for (uint32_t i = 0; i < n_words; i++) {
                uint64_t value =
                        shm_load_sc(&words[i]) ^ seal; /* ORDER: sc; after the delete in this node. */

                if (value == 0)
                        continue;
                if (shm_trie_is_frozen(value))
                        return true;
                n += shm_trie_is_inner(value) ? 2 : 1;
        }
        return n < 2;
}

/*
 * Finds the first node of the path whose removal has begun. If there is none, and `sparse` is set, finds the last node
 * of the path, if that is to be removed. *ret_found: whether one was found. SHM_TRIE_E_CHANGED: begin again. -EIDRM.
 */
static int find_removal(const ShmTrie *trie, uint64_t hash, bool sparse, TrieRemoval *ret, bool *ret_found) {
        ShmTrieCursor c;
        int r;

        trie_begin(trie, &c, hash);
        if (trie_load(trie, &c) != 0)
                return -EIDRM;
        while (shm_trie_is_inner(c.value)) {
                ret->above = c;
                r = trie_down(trie, &c);
                if (r)
                        return r;
                ret->node = ret->above.value ^ SHM_TRIE_FLIP;
                ret->words = c.word - c.index;
                ret->n_words = trie_level(trie, c.depth - 1)->n_words;
                *ret_found = trie_is_removable(trie, c.depth) &&
                             (c.node != ret->node || shm_trie_is_frozen(c.value));
                if (*ret_found)
                        return 0;
        }
        *ret_found = sparse && is_sparse(trie, &c);
        return 0;
}

static uint64_t frozen_word(uint64_t raw, uint64_t seal) {
        return shm_trie_is_frozen(raw ^ seal) ? raw : shm_trie_freeze(raw ^ seal) ^ seal;
}

/*
 * Freezes two words at once, with half as many locked instructions. *ret: the words as they are then. False: the node
 * has another tag by now.
 */
static bool freeze_pair(const ShmTrie *trie, const TrieRemoval *removal, ShmPair *at, ShmPair *ret) {
        uint64_t seal = shm_trie_seal(removal->node);
        /* ORDER: acq; before the tag: what was read was of this node. */
        ShmPair raw = { shm_load_acq(&at->low), shm_load_acq(&at->high) };

        for (uint32_t tries = 0; tries < FREEZE_TRIES_MAX && trie_live(trie->arena, removal->node); tries++) {
                *ret = (ShmPair){ frozen_word(raw.low, seal), frozen_word(raw.high, seal) };
                if (ret->low == raw.low && ret->high == raw.high)
                        return true;
                /* ORDER: acqrel, pairs with trie_load(); nothing is put into the words after this. */
                if (shm_pair_cas_acqrel(at, &raw, *ret))
                        return true;
        }
        return false;
}

bool trie_freeze_words(const ShmTrie *trie, const TrieRemoval *removal, TrieFrozen *ret) {
        uint64_t seal = shm_trie_seal(removal->node);

        ret->last = 0;
        ret->n = 0;
        for (uint32_t i = 0; i < removal->n_words; i += 2) {
                ShmPair pair;

                if (!freeze_pair(trie, removal, (ShmPair *) &removal->words[i], &pair))
                        return false;
                for (unsigned k = 0; k < 2; k++) {
                        uint64_t value = (k ? pair.high : pair.low) ^ seal;

                        if (shm_trie_is_frozen(value))
                                value = shm_trie_thaw(value);
                        if (ret->values)
                                ret->values[i + k] = value;
                        if (value == 0)
                                continue;
                        ret->n++;
                        ret->last = value;
                }
        }
        return true;
}

/* Writes those words of the node's next version that are not written yet. False: the renewal has ended. */
static bool renew_words(const ShmTrie *trie, const TrieRemoval *removal, uint64_t renewed) {
        TrieLink above = { removal->above.word, removal->above.raw, removal->above.node };
        uint64_t seal = shm_trie_seal(removal->node), next = shm_trie_seal(renewed);

        for (uint32_t i = 0; i < removal->n_words; i++) {
                /* ORDER: acq; before the word above: until that is changed nothing is frozen again. */
                uint64_t raw = shm_load_acq(&removal->words[i]);

                if (!trie_link_holds(trie, above))
                        return false;
                if (shm_trie_is_frozen(raw ^ next))
                        /* ORDER: acqrel, pairs with trie_load(); once, whoever comes first. */
                        (void) shm_cas_acqrel(&removal->words[i], &raw, shm_trie_thaw(raw ^ seal) ^ next);
        }
        return true;
}

/* -EIDRM: the next version of this very node could not be linked. */
static int renew_node(ShmActor *actor, const ShmTrie *trie, const TrieRemoval *removal) {
        uint32_t tag = shm_handle_tag(trie->arena->key, removal->node), expected = tag;
        SlotId id = shm_handle_slot(removal->node);
        uint64_t renewed = shm_handle_make(trie->arena->key, id, tag + 2);

        if (!shm_trie_can_link(renewed))
                return -EIDRM;
        /* ORDER: acqrel, pairs with trie_load_renewed(); all words are frozen before, and written anew after. */
        (void) shm_cas_acqrel(shm_slot_tag(trie->arena, id), &expected, tag + 2);
        if (!shm_actor_guard(actor, renewed))
                return 0;
        if (renew_words(trie, removal, renewed))
                (void) trie_change(actor, &removal->above, renewed ^ SHM_TRIE_FLIP);
        shm_actor_unguard(actor);
        return 0;
}

/* *noted: see shm_trie_shrink_at(). */
static int note_node(ShmActor *actor, const ShmTrie *trie, const TrieRemoval *removal, uint64_t *noted) {
        int r = *noted ? shm_actor_renote(actor, *noted, removal->node)
                       : shm_actor_note(actor, removal->node, trie->root, removal->above.hash);

        if (r == 0)
                *noted = removal->node;
        return r;
}

/*
 * 0: this thread removed the node. SHM_TRIE_E_CHANGED: another thread did, the node was renewed, or the word above
 * changed.
 */
static int end_removal(ShmActor *actor, const ShmTrie *trie, const TrieRemoval *removal, uint64_t *noted) {
        bool frozen, removed = false;
        TrieFrozen at = {};
        int r;

        r = note_node(actor, trie, removal, noted);
        if (r)
                return r;
        frozen = shm_actor_guard(actor, removal->node) && trie_freeze_words(trie, removal, &at);
        shm_actor_unguard(actor);
        if (frozen && trie_is_needless(&at)) {
                removed = trie_change(actor, &removal->above, at.last);
                if (removed)
                        (void) shm_object_free(actor, removal->node);
        } else if (frozen || !trie_live(trie->arena, removal->node)) {
                r = renew_node(actor, trie, removal);
        }
        return removed ? 0 : r ?: SHM_TRIE_E_CHANGED;
}

int shm_trie_help(ShmActor *actor, const ShmTrie *trie, uint64_t hash, bool *ret_found) {
        uint64_t noted = 0;
        TrieRemoval removal;
        int r;

        *ret_found = false;
        r = find_removal(trie, hash, false, &removal, ret_found);
        if (r == SHM_TRIE_E_CHANGED)
                *ret_found = true; /* somebody is at it */
        if (r == 0 && *ret_found)
                r = end_removal(actor, trie, &removal, &noted);
        (void) shm_actor_unnote(actor, noted);
        return r == SHM_TRIE_E_CHANGED ? 0 : r;
}

bool trie_find_above(const ShmTrie *trie, const ShmTrieCursor *c, TrieRemoval *ret) {
        trie_begin(trie, &ret->above, c->hash);
        if (trie_load(trie, &ret->above) != 0)
                return false;
        while (shm_trie_is_inner(ret->above.value) && ret->above.depth < c->depth - 1)
                if (trie_down(trie, &ret->above) != 0)
                        return false;
        ret->node = c->node;
        ret->words = c->word - c->index;
        ret->n_words = trie_level(trie, c->depth - 1)->n_words;
        return ret->above.depth == c->depth - 1 && !ret->above.unlinked &&
               ret->above.value == (c->node ^ SHM_TRIE_FLIP);
}

int trie_shrink_path(ShmActor *actor, const ShmTrie *trie, uint64_t hash, uint64_t *noted) {
        bool found = true;
        TrieRemoval removal;
        int r = 0;

        /*
         * One round for each level, and as many again where others remove nodes here. Nodes that are left then are
         * theirs.
         */
        for (uint32_t i = 0; i < 2 * SHM_TRIE_LEVELS_MAX && r >= 0 && (found || r); i++) {
                r = find_removal(trie, hash, true, &removal, &found);
                if (r == 0 && found)
                        r = end_removal(actor, trie, &removal, noted);
        }
        return r < 0 ? r : 0;
}

/* `trie`: any open trie; NULL: the caller has none. */
static void shrink_kept(ShmActor *actor, const ShmTrie *trie) {
        ShmTrie other;

        if (!trie || trie->root != actor->kept.root)
                trie = shm_trie_open(&other, actor->arena, actor->kept.root) == 0 ? &other : NULL;
        if (trie)
                (void) trie_shrink_path(actor, trie, actor->kept.hash, &actor->kept.note);
        (void) shm_actor_unnote(actor, actor->kept.note);
        actor->kept.note = 0;
}

/* Leaves the path for later. *noted: the note of the deleted leaf. False: the path cannot be kept. */
static bool keep_path(ShmActor *actor, const ShmTrie *trie, uint64_t hash, uint64_t *noted) {
        uint32_t key = trie->arena->key;
        uint64_t older;

        if (!actor->keeps_path || *noted == 0)
                return false;
        if (actor->kept.note != 0)
                shrink_kept(actor, trie);
        older = shm_handle_make(key, shm_handle_slot(*noted), shm_handle_tag(key, *noted) - 2) ^
                SHM_TRIE_FLIP;
        if (shm_actor_renote(actor, *noted, older) != 0)
                return false;
        actor->kept = (ShmKeptPath){ .note = older, .root = trie->root, .hash = hash };
        *noted = 0;
        return true;
}

bool shm_trie_settle_kept(ShmActor *actor) {
        if (actor->kept.note == 0)
                return false;
        shrink_kept(actor, NULL);
        return true;
}

void shm_trie_settle(ShmActor *actor) {
        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++) {
                uint64_t root = shm_load_rlx(&actor->record->notes[i].root); /* ORDER: rlx; this thread's. */
                uint64_t hash = shm_load_rlx(&actor->record->notes[i].hash); /* ORDER: rlx; this thread's. */
                uint64_t handle = shm_record_note(actor->record, i);
                ShmTrie trie;

                if (handle == 0 || root <= SHM_NOTE_NAMED_ROOT)
                        continue;
                if (shm_trie_open(&trie, actor->arena, root) == 0)
                        (void) shm_trie_shrink(actor, &trie, hash);
                (void) shm_actor_unnote(actor, handle);
        }
        actor->kept.note = 0;
}

int shm_trie_shrink_at(ShmActor *actor, const ShmTrie *trie, const ShmTrieCursor *c, uint64_t *noted) {
        TrieRemoval removal;
        int r;

        if (!is_sparse(trie, c) || keep_path(actor, trie, c->hash, noted))
                return 0;
        if (!trie_find_above(trie, c, &removal))
                return trie_shrink_path(actor, trie, c->hash, noted);
        r = end_removal(actor, trie, &removal, noted);
        if (r == SHM_TRIE_E_CHANGED || (r == 0 && is_sparse(trie, &removal.above)))
                r = trie_shrink_path(actor, trie, c->hash, noted);
        return r;
}

int shm_trie_shrink(ShmActor *actor, const ShmTrie *trie, uint64_t hash) {
        uint64_t noted = 0;
        int r = trie_shrink_path(actor, trie, hash, &noted);

        (void) shm_actor_unnote(actor, noted);
        return r;
}
