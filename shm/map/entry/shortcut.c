/*
 * Maps: shortcuts
 *
 * Purpose: in a map that is larger than the caches, a get spends its time on the nodes of its path, each of them a
 *   cache miss. A shortcut leads from the key's hash to the leaf: one line in place of the path.
 *
 *     63           40 39           30 29          0
 *     [ hash, 24 bits ][ tag, 10 bits ][ slot id   ]        0: none
 *
 * The arena has one table for all maps; a key has its word among four, half a line. It grows by some pages at a time,
 * with the number of entries. Bits of the hash that a word has, too, select one of the pages in use, by linear hashing:
 * a page that comes takes the words from one other page whose next bit is set.
 *
 * Invariants
 *   1. A shortcut is a hint. A get believes the leaf alone: it is live, of this map, and has this very key.
 *   2. A leaf that is live may be unlinked already, and another may be in its place. So a thread marks a leaf
 *      (SHM_LEAF_LEAVING) before it unlinks it. Or it may not be linked yet: after 512 uses of a slot an old word, or
 *      one that a thread stores late, has the tag of its object again, which may be the same key's next leaf. So a leaf
 *      is made with a mark (SHM_LEAF_ARRIVING), which goes once it is linked. A get that finds a mark asks the trie;
 *      a leaf that is found without one was linked at that moment.
 *   3. Only leaves with SHM_LEAF_SHORTCUT have shortcuts: the others are unlinked without a mark. The flag never
 *      changes. A root says whether any leaf may have it, from before the first has.
 *   4. Leaves of a map that was removed are not marked. So a get looks at the trie's root after all else.
 *   5. A word is stored after its leaf was linked, and read before the leaf's bytes are. But an old word may name a
 *      leaf that came later: a get reads its end, without a mark, before the rest. So these bytes are the leaf's.
 *   6. A page has memory before it is in use, and is below n_shortcut_pages_made before it has any. A thread that is
 *      late may store into a page that went: such memory goes with the next pages that go.
 *
 * Who may do what: writers, and readers that can write, add shortcuts. Writers and the maintainer add pages, and take
 *   them away.
 *
 * Crash: nothing is held. A page that has memory and is not in use is used later, or goes with the next pages that go.
 *   If a thread dies that gives pages back, others may have some of these in use, without memory: stores make it.
 */
#include "shm/map/entry/shortcut.h"

#include "shm/arena/root.h"
#include "shm/slab/pages.h"

#define PAGE_WORDS ((uint32_t) (SHM_SLAB_SIZE / sizeof(uint64_t)))
#define PAGE_LINES (PAGE_WORDS / SHM_SHORTCUT_WORDS) /* halves of cache lines */
#define HASH_SHIFT 40 /* where a word has the lowest bits of the hash; some of these choose the page */
#define LINE_SHIFT 24 /* above these: the bits that choose the line */
#define TAG_SHIFT 30
#define TAG_MASK ((UINT64_C(1) << (HASH_SHIFT - TAG_SHIFT)) - 1)
#define VICTIM_SHIFT 50 /* bits that choose the word to be overwritten in a full line */
#define SPARE 2U /* pages are given back where this many times as many as needed are in use */

static uint32_t pages_max(const ShmArena *arena) {
        const uint32_t n = (uint32_t) (SHM_SLAB_SIZE / sizeof(ShmShortcuts)); /* slabs that a page serves */

        return (arena->n_slabs + n - 1) / n;
}

static uint32_t pages_in_use(const ShmArena *arena) {
        uint32_t n = shm_hint_load(&arena->header->n_shortcut_pages), max = pages_max(arena);

        return n < max ? n : max;
}

/*
 * A key has another hash in each map, but one time in 2^30. So the entries of a map whose index was revoked, which live
 * on, are not found in the map that takes its name.
 */
static uint64_t mix_hash(const ShmTrie *trie, uint64_t hash) {
        return hash ^ trie->shortcut_mix;
}

static uint64_t *page_at(const ShmArena *arena, uint32_t page) {
        return (uint64_t *) arena->shortcuts + (uint64_t) page * PAGE_WORDS;
}

static uint64_t *find_line(const ShmArena *arena, uint64_t mixed, uint32_t n_pages) {
        uint32_t mask = n_pages == 1 ? 0 : UINT32_MAX >> __builtin_clz(n_pages - 1);
        uint32_t page = (uint32_t) mixed & mask;

        static_assert(SHM_SLABS_MAX / (SHM_SLAB_SIZE / sizeof(ShmShortcuts)) <= UINT32_C(1) << LINE_SHIFT,
                      "a word tells its page");

        if (page >= n_pages)
                page &= mask >> 1;
        return page_at(arena, page) + (mixed >> LINE_SHIFT & (PAGE_LINES - 1)) * SHM_SHORTCUT_WORDS;
}

/* NULL: the map has no shortcuts. */
static uint64_t *line_of(const ShmTrie *trie, uint64_t mixed) {
        uint32_t n_pages = trie_has_shortcuts(trie) ? pages_in_use(trie->arena) : 0;

        return n_pages == 0 ? NULL : find_line(trie->arena, mixed, n_pages);
}

/* A word that is 0 may be taken for a key's: its leaf is not believed, since no live leaf has the tag 0. */
static bool has_hash(uint64_t word, uint64_t mixed) {
        return (word ^ mixed << HASH_SHIFT) >> HASH_SHIFT == 0;
}

/* The word for the hash; 0: there is none. Without a branch, which would be mispredicted each time. */
static uint64_t find_word(const uint64_t *line, uint64_t mixed) {
        uint64_t found = 0;

#pragma GCC unroll 4
        for (uint32_t i = 0; i < SHM_SHORTCUT_WORDS; i++) {
                /* ORDER: acq, pairs with store_word(); the leaf's bytes are read after it. */
                uint64_t word = shm_load_acq(&line[i]);

                found = has_hash(word, mixed) ? word : found;
        }
        return found;
}

void shm_shortcut_prefetch(const ShmTrie *trie, uint64_t hash) {
        uint64_t *line = line_of(trie, mix_hash(trie, hash));

        if (line)
                __builtin_prefetch(line);
}

uint64_t *shm_shortcut_prefetch_leaf(const ShmTrie *trie, uint64_t hash) {
        uint64_t mixed = mix_hash(trie, hash), *line = line_of(trie, mixed);
        const ShmArena *arena = trie->arena;
        uint32_t size = shm_hint_load(&trie->leaf_room);
        const uint8_t *object;
        SlotId id;

        if (!line)
                return NULL;
        id.value = (uint32_t) find_word(line, mixed) & SHM_SLOT_ID_MASK;
        if (slot_id_slab(id) >= shm_arena_n_slabs_ever(arena))
                return line;
        object = shm_arena_slab(arena, slot_id_slab(id)) + slot_id_slot(id) * size;
        shm_slot_prefetch(arena, id);
        __builtin_prefetch(object);
        __builtin_prefetch(object + 64);
        return line;
}

/* The handle of the leaf that the word names, if it is live. */
static uint64_t word_leaf(const ShmArena *arena, uint64_t word) {
        SlotId id = { (uint32_t) word & SHM_SLOT_ID_MASK };
        uint32_t tag;

        if (slot_id_slab(id) >= shm_arena_n_slabs_ever(arena))
                return 0;
        /* ORDER: acq, pairs with shm_uncached_alloc(); before the leaf. */
        tag = shm_load_acq(shm_slot_tag(arena, id));
        return tag & 1 && (tag & TAG_MASK) == (word >> TAG_SHIFT & TAG_MASK)
                       ? shm_handle_make(arena->key, id, tag)
                       : 0;
}

uint64_t shm_shortcut_find(const ShmTrie *trie, uint64_t hash) {
        uint64_t mixed = mix_hash(trie, hash), *line = line_of(trie, mixed), word;

        if (!line)
                return 0;
        word = find_word(line, mixed);
        return word == 0 ? 0 : word_leaf(trie->arena, word);
}

/* The entries of all maps; counts that are not of maps are 0. */
static uint64_t count_entries(const ShmArena *arena) {
        uint64_t n = 0;

        for (uint32_t i = 0; shm_root_was_used(arena, i); i++)
                if (shm_root_of(arena, i) != 0)
                        n += shm_map_entries_of(arena, i);
        return n;
}

/* As many pages as two words for each entry take. */
static uint32_t pages_needed(const ShmArena *arena) {
        uint64_t n = (count_entries(arena) * 2 + PAGE_WORDS - 1) / PAGE_WORDS;

        return n < pages_max(arena) ? (uint32_t) n : pages_max(arena);
}

/* The page is about to be in use: takes its words from the page that has them until then. */
static void fill_page(const ShmArena *arena, uint32_t page) {
        uint32_t bit = page == 0 ? 0 : UINT32_C(1) << (31 - __builtin_clz(page));
        uint64_t *from = page_at(arena, page & ~bit), *to = page_at(arena, page);

        for (uint32_t i = 0; bit != 0 && i < PAGE_WORDS; i++) {
                /* ORDER: acq, pairs with store_word(); for the store. */
                uint64_t word = shm_load_acq(&from[i]);

                /* No branch: it would be mispredicted half of the time. A word that came meanwhile is forgotten. */
                uint64_t moved = word >> HASH_SHIFT & bit ? word : 0;

                /* ORDER: rel, pairs with shm_shortcut_find(); as the word was. */
                shm_store_rel(&to[i], moved);
                /* ORDER: rel, pairs with shm_shortcut_find(); as the word was. */
                shm_store_rel(&from[i], word ^ moved);
        }
}

/* Pages below `n` may have memory from now on. Returns whether that is new. */
static bool note_made(ShmArena *arena, uint32_t n) {
        /* ORDER: acq, pairs with trim_pages(); after the pages are in use, if they are. */
        uint32_t made = shm_load_acq(&arena->header->n_shortcut_pages_made);

        while (made < n)
                /* ORDER: acqrel, pairs with trim_pages(); before the pages are made. */
                if (shm_cas_acqrel(&arena->header->n_shortcut_pages_made, &made, n))
                        return true;
        return false;
}

/* Threads that do it at once disturb each other in nothing that counts. */
static void add_pages(ShmActor *actor, uint32_t needed) {
        ShmArena *arena = actor->arena;
        uint32_t n = pages_in_use(arena), now = n, more = SHM_SHORTCUT_GROW_PAGES;
        bool done;

        if (n >= needed)
                return;
        more = more < pages_max(arena) - n ? more : pages_max(arena) - n;
        (void) note_made(arena, n + more);
        if (!shm_pages_make(actor, page_at(arena, n), more))
                return;
        for (uint32_t i = 0; i < more; i++)
                fill_page(arena, n + i);
        /* ORDER: acqrel, pairs with trim_pages(); the pages have memory before. */
        done = shm_cas_acqrel(&arena->header->n_shortcut_pages, &now, n + more);
        now = n + more;
        shm_fence_after_rmw(); /* ORDER: sc, pairs with trim_pages(); before a look whether they went. */
        /* Another thread has taken them away meanwhile, and did not see them in use. */
        if (note_made(arena, n + more) && done && !shm_pages_make(actor, page_at(arena, n), more))
                /* ORDER: acqrel; before another thread takes them into use. */
                (void) shm_cas_acqrel(&arena->header->n_shortcut_pages, &now, n);
}

void shm_shortcut_begin(ShmActor *actor, const ShmTrie *trie) {
        if (trie->map == 0 || shm_map_bytes(trie) < SHM_SHORTCUT_MAP_BYTES || trie_has_shortcuts(trie))
                return;
        /* The map may have been removed meanwhile, and the root's slot have another object. */
        if (!shm_actor_guard(actor, trie->root))
                return;
        /* ORDER: rel, pairs with trie_has_shortcuts(); before the first such leaf is linked. */
        shm_store_rel(&trie_root(trie)->has_shortcuts, 1);
        shm_actor_unguard(actor);
}

static uint64_t make_word(const ShmTrie *trie, uint64_t mixed, uint64_t leaf) {
        uint64_t tag = shm_handle_tag(trie->arena->key, leaf) & TAG_MASK;

        return mixed << HASH_SHIFT | tag << TAG_SHIFT | shm_handle_slot(leaf).value;
}

/* A word without a shortcut, or with one for the same hash; else any, if `is_put`; NULL: none. */
static uint64_t *choose_word(uint64_t *line, uint64_t mixed, bool is_put) {
        uint64_t *vacant = NULL, *same = NULL;

#pragma GCC unroll 4
        for (uint32_t i = 0; i < SHM_SHORTCUT_WORDS; i++) {
                uint64_t word = shm_hint_load(&line[i]);

                same = has_hash(word, mixed) ? &line[i] : same;
                vacant = word == 0 ? &line[i] : vacant;
        }
        if (same || vacant)
                return same ?: vacant;
        return is_put ? &line[mixed >> VICTIM_SHIFT & (SHM_SHORTCUT_WORDS - 1)] : NULL;
}

static inline __attribute__((always_inline)) void store_word(const ShmTrie *trie, uint64_t *line,
                                                             uint64_t mixed, uint64_t leaf, bool is_put) {
        uint64_t *at = choose_word(line, mixed, is_put);

        if (at)
                /* ORDER: rel, pairs with shm_shortcut_find(); the leaf was linked before. */
                shm_store_rel(at, make_word(trie, mixed, leaf));
}

void shm_shortcut_found(const ShmTrie *trie, uint64_t hash, uint64_t leaf) {
        uint64_t mixed = mix_hash(trie, hash), *line = line_of(trie, mixed);

        if (line && !trie->arena->read_only)
                store_word(trie, line, mixed, leaf, false);
}

/*
 * Pages behind those in use go, also those that a thread left there that died, or was late. Another thread may take
 * some of them into use meanwhile: they are made again, or, without memory, are in use no longer.
 */
static void trim_pages(ShmActor *actor, uint32_t needed) {
        ShmArena *arena = actor->arena;
        uint32_t made = shm_hint_load(&arena->header->n_shortcut_pages_made), max = pages_max(arena);
        uint32_t n = pages_in_use(arena), now;

        made = made < max ? made : max;
        if (made <= SPARE * (needed + SHM_SHORTCUT_GROW_PAGES))
                return;
        needed = n < needed ? n : needed;
        /* ORDER: acqrel, pairs with add_pages(); before the pages go. */
        if (n > needed && !shm_cas_acqrel(&arena->header->n_shortcut_pages, &n, needed))
                return;
        shm_pages_punch(arena, page_at(arena, needed), (uint64_t) (made - needed) * SHM_SLAB_SIZE);
        /* ORDER: acqrel, pairs with note_made(); after the pages went. */
        while (made > needed && !shm_cas_acqrel(&arena->header->n_shortcut_pages_made, &made, needed))
                ;
        shm_fence_after_rmw(); /* ORDER: sc, pairs with add_pages(); before a look at the pages in use. */
        now = pages_in_use(arena);
        if (now > needed && !shm_pages_make(actor, page_at(arena, needed), now - needed))
                /* ORDER: acqrel; before another thread takes them into use. */
                (void) shm_cas_acqrel(&arena->header->n_shortcut_pages, &now, needed);
        (void) note_made(arena, pages_in_use(arena));
}

/* Entries that are evicted ask for nothing: so puts also give pages back. */
static void adapt_pages(ShmActor *actor) {
        uint32_t needed = pages_needed(actor->arena);

        add_pages(actor, needed);
        trim_pages(actor, needed);
}

void shm_shortcut_trim(ShmActor *control) {
        if (shm_hint_load(&control->arena->header->n_shortcut_pages_made) != 0)
                trim_pages(control, pages_needed(control->arena));
}

void shm_shortcut_put(ShmActor *actor, const ShmTrie *trie, uint64_t hash, uint64_t leaf, uint64_t *line) {
        if (line)
                store_word(trie, line, mix_hash(trie, hash), leaf, true);
        if (__builtin_expect(shm_shortcut_is_turn(hash), 0))
                adapt_pages(actor);
}

void shm_shortcut_removed(ShmActor *actor, const ShmTrie *trie, uint64_t hash) {
        if (trie_has_shortcuts(trie) && shm_shortcut_is_turn(hash))
                shm_shortcut_trim(actor);
}
