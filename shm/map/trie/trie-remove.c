/*
 * The trie: removing it
 *
 * Purpose: frees the memory of a whole trie. Nobody waits for writers that are inside.
 *
 *     word            becomes            then
 *     the root's      frozen             no walk passes it: -EIDRM
 *     inner node      frozen             the words of that node are closed; the node is freed; the word is CLOSED
 *     leaf            CLOSED             the leaf, which is noted, is freed
 *     empty           CLOSED
 *
 * Invariants
 *   1. A word that is CLOSED never changes again while its node is live, and names nothing. A writer that was inside
 *      the trie when it was removed finds it, and begins again at the root. All words of a node are CLOSED before the
 *      node is freed. So a leaf is linked only in a node that is still to be closed.
 *   2. The word above a node is frozen before the node's words are closed. So nobody unlinks the node, or renews it
 *      twice. A renewal may have begun before: the node is live under the handle in the word above, or under the next
 *      one, and its words have the seal of either.
 *   3. A word whose value names no live object, under either seal, names nothing.
 *   4. The root is freed last. So repair still learns from it which noted objects are linked (shm_trie_contains()).
 *
 * Who may do what: a writer removes; the maintainer closes and frees.
 *
 * Crash: the next maintainer begins at the root again. A leaf that was cut off and not freed is noted.
 */
#include "shm/map/trie/trie-remove.h"

#include "shm/map/leaf/chain.h"
#include "shm/map/trie/trie-walk.h"

#define PATH_MAX_NODES (SHM_TRIE_LEVELS_MAX + SHM_TRIE_BUCKETS_MAX + 1)

void shm_trie_remove(ShmActor *actor, const ShmTrie *trie) {
        ShmTrieCursor c;

        do {
                trie_begin(trie, &c, 0);
                if (trie_load(trie, &c) != 0 || shm_trie_is_frozen(c.value))
                        return;
        } while (!trie_change(actor, &c, shm_trie_freeze(c.value)));
}

/* The node that is being closed, or the root, and the word that is next. */
typedef struct Closing {
        uint64_t node; /* as the word above names it */
        uint64_t *words;
        uint32_t n_words, next;
} Closing;

typedef enum Child {
        NOTHING,
        LEAF,
        NODE,
} Child;

static uint64_t next_version(const ShmArena *arena, uint64_t node) {
        return shm_handle_make(arena->key, shm_handle_slot(node), shm_handle_tag(arena->key, node) + 2);
}

static bool is_bucket(const ShmTrie *trie, uint32_t depth) {
        return depth > trie->n_levels;
}

/* The child that the value of a word names. *ret: its handle; a node may be live under the next one. */
static Child child_named(const ShmTrie *trie, uint32_t depth, uint64_t value, uint64_t *ret) {
        uint32_t kind = shm_trie_kind(value);
        bool in_bucket = is_bucket(trie, depth);

        *ret = (value & ~SHM_TRIE_KIND) | (uint64_t) SHM_HANDLE_VERSION << 30;
        if (value != 0 && (kind == SHM_HANDLE_VERSION || (kind == 0 && !in_bucket)))
                return shm_object_live(trie->arena, *ret) ? LEAF : NOTHING;
        if ((kind != 2 && (kind != 3 || in_bucket)) || depth >= PATH_MAX_NODES - 1 ||
            !trie_node(trie, *ret, trie_level(trie, depth)))
                return NOTHING;
        return shm_object_live(trie->arena, *ret) ||
                               shm_object_live(trie->arena, next_version(trie->arena, *ret))
                       ? NODE
                       : NOTHING;
}

static Child child_of(const ShmTrie *trie, uint32_t depth, uint64_t node, uint64_t raw, uint64_t *ret) {
        Child child = child_named(trie, depth, raw ^ shm_trie_seal(node), ret);

        if (child == NOTHING && depth > 0)
                child = child_named(trie, depth, raw ^ shm_trie_seal(next_version(trie->arena, node)), ret);
        return child;
}

static bool close_word(uint64_t *word, uint64_t raw) {
        /* ORDER: acqrel, pairs with trie_load(); the leaf in it is noted before. */
        return shm_cas_acqrel(word, &raw, SHM_TRIE_CLOSED);
}

/* False: the word has changed. */
static bool close_leaf(ShmActor *control, const ShmTrie *trie, uint64_t *word, uint64_t raw, uint64_t leaf) {
        uint64_t hash;
        bool done;

        /* It was revoked meanwhile, or the record is damaged. */
        if (shm_object_copy(trie->arena, leaf, 0, &hash, sizeof(hash)) != 0 ||
            shm_actor_note(control, leaf, trie->root, hash) != 0)
                return close_word(word, raw);
        done = close_word(word, raw);
        if (done)
                (void) shm_chain_free(control, leaf);
        (void) shm_actor_unnote(control, leaf);
        return done;
}

/* Whether the word above is frozen now, so that the node may be entered. In buckets nodes stay as they are. */
static bool freeze_above(const ShmTrie *trie, uint32_t depth, uint64_t *word, uint64_t raw) {
        if (is_bucket(trie, depth) || shm_trie_kind(raw) == 3)
                return true;
        /* ORDER: acqrel, pairs with trie_load(); before the words of the node below are closed. */
        return shm_cas_acqrel(word, &raw, raw ^ SHM_TRIE_FREEZE);
}

static void free_node(ShmActor *control, uint64_t node) {
        if (shm_object_free(control, node) != 0)
                (void) shm_object_free(control, next_version(control->arena, node));
}

/* Whether all words of the node are closed. Those that are do not count as work: each step passes them again. */
static bool is_closed(Closing *at) {
        /* ORDER: rlx; a closed word stays so. */
        while (at->next < at->n_words && shm_load_rlx(&at->words[at->next]) == SHM_TRIE_CLOSED)
                at->next++;
        return at->next == at->n_words;
}

/* Deals with the next word of the last node on the path. Returns the new depth. */
static uint32_t close_next(ShmActor *control, const ShmTrie *trie, Closing *path, uint32_t depth) {
        Closing *at = &path[depth];
        uint64_t *word = &at->words[at->next], child = 0;
        uint64_t raw = shm_load_acq(word); /* ORDER: acq, pairs with shm_trie_exchange(); what it names. */
        const ShmTrieLevel *level = trie_level(trie, depth);

        switch (child_of(trie, depth, at->node, raw, &child)) {
        case NODE:
                if (freeze_above(trie, depth, word, raw))
                        path[++depth] = (Closing){ child, trie_node(trie, child, level), level->n_words, 0 };
                break;
        case LEAF:
                (void) close_leaf(control, trie, word, raw, child);
                break;
        case NOTHING:
                (void) close_word(word, raw);
        }
        return depth;
}

bool shm_trie_drain_step(ShmActor *control, uint64_t root, uint32_t n) {
        Closing path[PATH_MAX_NODES];
        uint32_t depth = 0;
        ShmTrie trie;

        if (shm_trie_open(&trie, control->arena, root) != 0)
                return true;
        shm_trie_remove(control, &trie);
        path[0] = (Closing){ root, &trie_root(&trie)->word, 1, 0 };
        for (uint32_t done = 0, before; done < n; done += depth <= before) { /* the way down is no work */
                before = depth;
                if (!is_closed(&path[depth])) {
                        depth = close_next(control, &trie, path, depth);
                } else if (depth > 0) {
                        free_node(control, path[depth].node); /* its word above names nothing then */
                        depth--;
                } else {
                        (void) shm_object_free(control, root);
                        return true;
                }
        }
        return false;
}
