/*
 * The trie: walking it
 *
 * Purpose: finds the words where a leaf of a hash can be. Changes: shm/map/trie/trie-change.c.
 *
 * Invariants
 *   1. An inner node is linked once, at the end of the path of the hashes below it, and never again after it was
 *      unlinked (trie-shrink.c). A word is sealed with the handle of its node (shm/map/leaf/trie-word.h): a
 *      compare-and-set that was decided on before the node was removed fails, whatever the slot holds by then.
 *   2. Apart from its sealed words (leaf.h), a leaf never changes after it is linked. To replace or delete a
 *      leaf, a thread unlinks it first, then frees it. A handle that left the trie never comes back, since tags do not
 *      repeat. There is one exception: a leaf that a stale leaf replaced may come back, before anybody frees it
 *      (put_back()).
 *   3. A leaf moves only along the path of its hash, and stays linked while it moves. Downward: one compare-and-set
 *      puts an inner node that holds the leaf in place of the leaf. Upward: one compare-and-set puts the leaf in place
 *      of the node that holds it, frozen; the node holds it until the node is freed.
 *   4. From 1 to 3: if one walk down the path of a handle does not meet it, then the handle was not linked at one
 *      moment of the walk, and never will be. A walk that meets a freed node begins again.
 *   5. In a bucket no word becomes 0 again. The leaf of a key that has no word yet goes to the first word that is 0. So
 *      two threads that add the same key meet in one word, and that word is the key's for good. A deleted leaf leaves
 *      SHM_TRIE_GONE behind, with bits by which the caller recognizes the key. Buckets, and the nodes above them, stay.
 *      They are rare: no two of many keys have one hash by chance.
 *   6. An object that is not linked yet, or is about to be unlinked, has a note with root and hash. The note is made
 *      before the object's tag is odd, or before the link is cut. It goes after the object is linked, or freed.
 *   7. Any object may be revoked at any moment: its handle is stale then. Its memory is not reused while a note or a
 *      guard of a live thread names it. So a thread fills a leaf or a node under a note, and changes a word under a
 *      guard on its node. A word that was read counts only if its node is live after that.
 *   8. A stale object is not linked. A leaf may go stale between its writer's look at the tag and the compare-and-set.
 *      So the writer looks again before it frees the leaf that was replaced. If the new leaf is stale, it links the
 *      replaced one again: the key is absent only for a moment.
 *
 * Who may do what: any process that can read the arena walks. Writers change words, with their own actor, outside any
 *   operation, with at most three notes at a time.
 *
 * Crash: in an exchange, before the compare-and-set: the new leaf is noted and not linked, so repair frees it; the old
 *   leaf is noted and linked, so it stays. After the compare-and-set: the new leaf is linked and stays; the old one is
 *   noted and not linked, so repair frees it, unless somebody has. In a split: the node is noted. If it is not linked,
 *   repair frees it; if it is linked, it stays, and so does the leaf that came with it. Repair asks
 *   shm_trie_contains(). Repair clears a guard, and gives back the slot that the guard names if that was revoked. The
 *   note of a deleted leaf stands until needless nodes above the leaf were removed: repair shrinks the path of each
 *   note.
 */
#include "shm/map/trie/trie-walk.h"

#include <errno.h>

#include "shm/arena/root.h"

#define RESTARTS_MAX 65536 /* a walk begins again since somebody made progress, or scribbles */

int trie_load_renewed(const ShmTrie *trie, TrieLink above, ShmTrieCursor *c) {
        const ShmArena *arena = trie->arena;
        uint32_t tag = shm_handle_tag(arena->key, c->node) + 2;
        SlotId id = shm_handle_slot(c->node);
        uint64_t renewed = shm_handle_make(arena->key, id, tag);
        bool is_next, is_live, was_live;

        /* ORDER: acq, pairs with shm_trie_help(); before the word. */
        is_next = shm_load_acq(shm_slot_tag(arena, id)) == tag;
        /* ORDER: acq, pairs with shm_trie_help(); before the link: until that is changed nothing is frozen again. */
        c->raw = shm_load_acq(c->word);
        was_live = trie_live(arena, c->node);
        is_live = trie_live(arena, renewed);
        /* If the slot has another object by now, the node was unlinked before, or the node above was revoked, too. */
        if (!trie_link_holds(trie, above))
                return SHM_TRIE_E_CHANGED;
        if (!is_next || !is_live)
                return is_live || was_live ? SHM_TRIE_E_CHANGED : -EIDRM;
        c->value = c->raw ^ shm_trie_seal(renewed);
        if (shm_trie_is_frozen(c->value))
                c->value = c->raw ^ shm_trie_seal(c->node);
        c->node = renewed;
        c->unlinked = true;
        return 0;
}

/*
 * Whether the cursor is in the node of which `stop` is the value. A node that is renewed is met so, since no word holds
 * its next version yet.
 */
static bool is_in(const ShmTrieCursor *c, uint64_t stop) {
        return c->unlinked && c->node == (stop ^ SHM_TRIE_FLIP);
}

/*
 * One level down. A node that was moved before its next version was linked is live until it is freed, and its words go
 * on naming the nodes that were below it. So what was found from a word of such a node, but by a handle that is not
 * live, counts only if the word above the first node that is renewed still has it. *renewed: that word.
 */
static inline int walk_down(const ShmTrie *trie, ShmTrieCursor *c, TrieLink *renewed) {
        bool is_below = c->unlinked;
        int r;

        if (__builtin_expect(!is_below, 1))
                *renewed = (TrieLink){ c->word, c->raw, c->node };
        r = trie_down(trie, c);
        if (__builtin_expect(is_below, 0) && (r < 0 || c->unlinked) && !trie_link_holds(trie, *renewed))
                return SHM_TRIE_E_CHANGED;
        return r;
}

/*
 * To the end of the path, or to the word that holds the inner node `stop`; that walk also passes words that were frozen
 * since the trie is removed. SHM_TRIE_E_CHANGED: begin at the root. -EIDRM.
 */
static int walk_path(const ShmTrie *trie, ShmTrieCursor *c, uint64_t stop) {
        TrieLink renewed = {};
        bool is_frozen;
        int r = 0;

        for (;;) {
                while (r == 0 && shm_trie_is_inner(c->value) && c->value != stop && !is_in(c, stop))
                        r = walk_down(trie, c, &renewed);
                is_frozen = r == 0 && !shm_trie_in_bucket(trie, c) && shm_trie_is_frozen(c->value);
                c->frozen = is_frozen || (r == 0 && c->unlinked);
                if (__builtin_expect(!c->frozen, 1))
                        return r == 0 && c->raw == SHM_TRIE_CLOSED ? -EIDRM : r;
                if (!trie_is_removable(trie, c->depth) && stop == 0)
                        return -EIDRM; /* nobody could end that removal: the trie is removed */
                if (is_frozen)
                        c->value = shm_trie_thaw(c->value);
                if (!shm_trie_is_inner(c->value) || c->value == stop || is_in(c, stop))
                        return 0;
        }
}

/* As shm_trie_seek(), whatever the path meets. */
__attribute__((noinline)) static int seek_slowly(const ShmTrie *trie, uint64_t hash, ShmTrieCursor *ret) {
        int r = SHM_TRIE_E_CHANGED;

        for (uint32_t i = 0; i < RESTARTS_MAX && r == SHM_TRIE_E_CHANGED; i++) {
                trie_begin(trie, ret, hash);
                if (trie_load(trie, ret) != 0)
                        return -EIDRM;
                r = walk_path(trie, ret, 0);
        }
        return r == SHM_TRIE_E_CHANGED ? -EIDRM : r;
}

/*
 * The walk in most cases, with its data in registers: no word is frozen, and the path ends above the buckets.
 * seek_slowly() serves all other cases.
 *
 * It asks for the tags of the root and of the last node alone: below the first levels of a large map each tag is a
 * cache miss. A word that names a node under the seal of its own node was put there while that was linked: in a node
 * that was removed all words are frozen, and those of its slot's next object have another seal.
 */
int shm_trie_seek(const ShmTrie *trie, uint64_t hash, ShmTrieCursor *ret) {
        const ShmArena *arena = trie->arena;
        const uint32_t n_slots = shm_arena_n_slabs_ever(arena) * SHM_SLOTS_MAX;
        uint64_t *word = &trie_root(trie)->word, node = trie->root, raw, value;
        uint32_t depth = 0, index = 0;
        SlotId id;

        for (const ShmTrieLevel *level = trie->levels;; level++, depth++) {
                /* ORDER: acq, pairs with shm_trie_exchange() and shm_trie_split(); what it names is written. */
                raw = shm_load_acq(word);
                value = raw ^ shm_trie_seal(node);
                /* An inner node gives its slot, any other word a larger number. */
                id.value = (uint32_t) value ^ SHM_TRIE_INNER;
                if (id.value >= n_slots)
                        break;
                if (slot_id_slot(id) >= level->n_slots || depth == trie->n_levels)
                        return seek_slowly(trie, hash, ret);
                node = value ^ SHM_TRIE_FLIP;
                index = (uint32_t) (hash >> level->shift) & level->mask;
                word = (uint64_t *) (shm_arena_slab(arena, slot_id_slab(id)) +
                                     slot_id_slot(id) * level->stride) +
                       index;
        }
        if (__builtin_expect((!shm_trie_is_leaf(value) && value != 0) || !trie_live(arena, node) ||
                                     !trie_live(arena, trie->root),
                             0))
                return seek_slowly(trie, hash, ret);
        *ret = (ShmTrieCursor){
                .hash = hash,
                .word = word,
                .node = node,
                .raw = raw,
                .value = value,
                .depth = depth,
                .index = index,
        };
        return 0;
}

/* How far a path was followed. */
typedef struct PathEnd {
        const uint64_t *word; /* NULL: to its end */
        uint64_t node;
} PathEnd;

/* One level down. Nothing that is read is checked: it may be of another object by now, or damaged. */
static void prefetch_down(const ShmTrie *trie, const ShmTrieLevel *level, uint64_t hash, PathEnd *end) {
        /* ORDER: rlx; a guess, which at worst prefetches in vain. */
        uint64_t value = shm_peek_rlx(end->word) ^ shm_trie_seal(end->node), *node = NULL;

        end->word = NULL;
        end->node = value ^ SHM_TRIE_FLIP;
        if (shm_trie_is_inner(value))
                node = trie_node(trie, end->node, level);
        if (!node)
                return;
        end->word = node + (hash >> level->shift & level->mask);
        __builtin_prefetch(end->word);
        shm_slot_prefetch(trie->arena, shm_handle_slot(end->node));
}

void shm_trie_prefetch(const ShmTrie *trie, const uint64_t *hashes, uint32_t n) {
        PathEnd ends[SHM_TRIE_PREFETCH_MAX];
        bool any = true;

        for (uint32_t i = 0; i < n; i++)
                ends[i] = (PathEnd){ &trie_root(trie)->word, trie->root };
        for (uint32_t depth = 0; any && depth < trie->n_levels; depth++) {
                any = false;
                for (uint32_t i = 0; i < n; i++) {
                        if (!ends[i].word)
                                continue;
                        prefetch_down(trie, &trie->levels[depth], hashes[i], &ends[i]);
                        any = any || ends[i].word;
                }
        }
}

/*
 * A live node with a word that is not frozen is linked. If the word is frozen, the node may be unlinked though it is
 * live, since it is freed later: its leaf may have moved up, and have been replaced there. While the cursor's node is
 * renewed, a word that still has the seal of the previous version reads as frozen.
 */
int shm_trie_reload(const ShmTrie *trie, ShmTrieCursor *c) {
        int r = trie_load(trie, c);

        if (r == 0 && (c->unlinked || (!shm_trie_in_bucket(trie, c) && shm_trie_is_frozen(c->value))))
                r = SHM_TRIE_E_CHANGED;
        r = r ?: walk_path(trie, c, 0);
        return r == SHM_TRIE_E_CHANGED ? seek_slowly(trie, c->hash, c) : r;
}

static bool bucket_goes_on(const ShmTrie *trie, const ShmTrieCursor *c) {
        return shm_trie_in_bucket(trie, c) && c->value != 0 &&
               c->index + 1U < trie->levels[trie->n_levels].n_words;
}

int shm_trie_next(const ShmTrie *trie, ShmTrieCursor *c) {
        if (!bucket_goes_on(trie, c))
                return SHM_TRIE_E_LAST;
        c->index++;
        c->word++;
        return shm_trie_reload(trie, c);
}

/* One walk along all words where a leaf of the hash can be. SHM_TRIE_E_CHANGED, -EIDRM. */
static int walk_contains(const ShmTrie *trie, uint64_t hash, uint64_t handle, bool *ret) {
        const uint64_t inner = handle ^ SHM_TRIE_FLIP;
        ShmTrieCursor c;

        trie_begin(trie, &c, hash);
        for (;;) {
                int r = trie_load(trie, &c) ?: walk_path(trie, &c, inner);

                if (r)
                        return r == SHM_TRIE_E_CHANGED && !trie_live(trie->arena, trie->root) ? -EIDRM : r;
                *ret = c.value == handle || c.value == inner || is_in(&c, inner);
                if (*ret || !bucket_goes_on(trie, &c))
                        return 0;
                c.index++;
                c.word++;
        }
}

bool shm_trie_contains(ShmArena *arena, uint64_t root, uint64_t hash, uint64_t handle) {
        int r = SHM_TRIE_E_CHANGED;
        bool contains = false;
        ShmTrie trie;

        if (root == SHM_NOTE_NAMED_ROOT)
                return shm_root_names(arena, handle);
        if (shm_trie_open(&trie, arena, root) != 0)
                return false;
        for (uint32_t i = 0; i < RESTARTS_MAX && r == SHM_TRIE_E_CHANGED; i++)
                r = walk_contains(&trie, hash, handle, &contains);
        return r == 0 && contains;
}
