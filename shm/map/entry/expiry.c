/*
 * Maps: entries that expire
 *
 * Purpose: gives the memory of entries back soon after their end, and moves ends.
 *
 * Invariants
 *   1. An object is a leaf of a map if the map's trie holds it on the path of the hash with which the object begins. A
 *      thread that finds an object in a slab writes into it only once it knows this.
 *
 *   2. While a pass is under way, `first` of the arena is the earliest end that the pass has left behind, or that a
 *      writer has noted since the pass began; that entry may be in a slab that the pass has passed. It is PASS_BEGUN if
 *      there are no such ends. The pass looks at the slabs ahead, whatever `first` is. `first` is 0 only if no end is
 *      noted.
 *
 * Who may do what: writers touch; the maintainer steps; threads that need memory help.
 *
 * Crash: see shm/map/state/lifetime.c.
 */
#include "shm/map/entry/expiry.h"

#include "shm/arena/map-set.h"
#include "shm/arena/root.h"
#include "shm/map/evict/evict.h"
#include "shm/map/state/tally.h"
#include "shm/map/state/unlink.h"
#include "shm/slab/slab.h"

#define PASS_MS 250 /* from the beginning of one pass to that of the next */
#define TAGS_PASS_MS 5000 /* between two passes if tags were invalidated, and nothing else is due */
#define SLAB_COST 64U /* a look at the entries of a slab costs as much as passing over so many slabs */
#define TICK_MS_MAX 20 /* twice the longest tick of the kernel's clocks */
#define PASS_BEGUN UINT64_MAX /* later than any end: a writer that notes one lowers it */
#define BATCH_MAX SHM_TRIE_PREFETCH_MAX /* entries that are looked at together */
#define KEPT_MS_MAX                                                                                          \
        (UINT64_C(1) << 43) /* 278 years: buckets take up to 2^62 ns to fill; later ends are damage */

/* Where a touch copies the value to, if that is wanted. */
typedef struct TouchCopy {
        void *buffer;
        size_t size;
} TouchCopy;

/* 0: the copy, if there is one, is the value of the leaf. */
static int touch_copy(const ShmTrie *trie, const ShmMapView *view, const TouchCopy *copy) {
        int r;

        if (!copy)
                return 0;
        if (view->head.value_size > copy->size)
                return -EMSGSIZE;
        r = shm_map_copy(trie, view, 0, copy->buffer, view->head.value_size);
        return shm_map_view_live(trie->arena, view) ? r : SHM_TRIE_E_CHANGED;
}

/* Gives the leaf of the view its new end. SHM_TRIE_E_CHANGED: try again. */
static int touch_once(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, uint64_t end,
                      const TouchCopy *copy, ShmMapView *view) {
        ShmTrieCursor c;
        int r;

        r = shm_map_find(trie, key, &c, view);
        if (r)
                return r < 0 ? r : -ENOENT;
        if (view->is_over)
                return shm_map_settle_end(actor, view) ? -ENOENT : SHM_TRIE_E_CHANGED;
        if (view->head.flags & SHM_LEAF_BUCKET) /* without its leaf it would be full */
                return -EINVAL;
        r = touch_copy(trie, view, copy);
        if (r)
                return r;
        if (shm_map_view_has_tags(view)) {
                end = end ?: SHM_MAP_FOREVER;
                shm_map_hold_tags(actor, trie, view->tags, shm_leaf_n_tags(view->head.flags), end);
        }
        return shm_map_set_end(actor, view, end) ? 0 : SHM_TRIE_E_CHANGED;
}

static int touch_entry(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, uint64_t ttl_ms,
                       const TouchCopy *copy, ShmMapView *view) {
        uint64_t end;
        int r;

        if (trie->arena->read_only)
                return -EROFS;
        end = shm_map_end(trie, ttl_ms);
        shm_tally_begin(actor, trie);
        do {
                r = touch_once(actor, trie, key, end, copy, view);
        } while (r == SHM_TRIE_E_CHANGED);
        if (r == 0) {
                view->expires = end;
                shm_evict_visit_entry(trie, view);
                shm_expiry_note(trie->arena, view->handle, end);
        }
        shm_tally_end(actor, trie);
        return r;
}

int shm_map_touch(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, uint64_t ttl_ms) {
        ShmMapView view;

        return touch_entry(actor, trie, key, ttl_ms, NULL, &view);
}

ssize_t shm_map_get_touch(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, uint64_t ttl_ms,
                          void *buffer, size_t size, ShmMapView *ret_view) {
        const TouchCopy copy = { buffer, size };
        int r = touch_entry(actor, trie, key, ttl_ms, &copy, ret_view);

        return r ?: (ssize_t) ret_view->head.value_size;
}

static bool is_squeeze_wanted(const ShmExpiry *expiry) {
        ShmMapSet maps = shm_map_set_load(&expiry->squeeze);

        return !shm_map_set_is_empty(&maps);
}

/* A pass that begins at once notes the exact time, later than the clock's last tick. A time far ahead is damage. */
static uint64_t since_ms(const uint64_t *at, uint64_t now_ms) {
        uint64_t then = shm_hint_load(at);

        return then > now_ms && then - now_ms <= TICK_MS_MAX ? 0 : now_ms - then;
}

bool shm_expiry_due(ShmArena *arena, bool at_once, uint64_t *ret_now_ms) {
        ShmExpiry *expiry = &arena->header->expiry;
        uint64_t first = shm_hint_load(&expiry->first);
        uint64_t now, since;

        if (first == 0)
                return false;
        now = (at_once ? shm_clock_exact_ns(arena) : shm_clock_ns(arena)) / SHM_NS_PER_MS;
        *ret_now_ms = now;
        if (shm_hint_load(&expiry->hand) != 0)
                return true;
        since = since_ms(&expiry->begun, now);
        /* PASS_BEGUN: the maintainer died at the very end of the last pass. */
        if (first <= now || first == PASS_BEGUN || shm_hint_load(&expiry->look_again) != 0 ||
            is_squeeze_wanted(expiry))
                return at_once || since >= PASS_MS;
        return shm_hint_load(&expiry->invalidated) != 0 && (at_once || since >= TAGS_PASS_MS);
}

/* False: look at the leaf again. */
static bool delete_leaf(ShmActor *control, const ShmTrie *trie, ShmMapView *view) {
        ShmTrieCursor c;
        int r;

        if (!shm_map_find_leaf(trie, view, &c))
                return true;
        if (view->expires != SHM_MAP_ENDED && !shm_map_set_end(control, view, SHM_MAP_ENDED))
                return false;
        r = shm_map_unlink(control, trie, view, &c, SHM_MAP_EXPIRATIONS);
        return r == 0 || r == -ENOENT;
}

static bool open_map_of(ShmArena *arena, const ShmMapView *view, ShmTrie *ret) {
        uint32_t map = view->head.map;

        if (map == 0 || map > SHM_ROOTS_MAX)
                return false;
        return (ret->map == map && ret->root == shm_root_of(arena, map - 1)) ||
               shm_map_open_root(arena, map - 1, ret);
}

static uint64_t earlier_end(uint64_t a, uint64_t b) {
        return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Whether there is an entry with an end in the slot. */
static bool view_slot(const ShmArena *arena, SlotId id, ShmMapView *ret) {
        /* ORDER: acq, pairs with shm_uncached_free(); before what is in the slot. */
        uint32_t tag = shm_load_acq(shm_slot_tag(arena, id));

        return (tag & 1) && shm_map_view(arena, shm_handle_make(arena->key, id, tag), ret) == 0 &&
               ret->expires != 0 && shm_map_view_live(arena, ret);
}

static uint64_t kept_until(const ShmTrie *trie, const ShmMapView *view) {
        ShmMapSet squeezing = shm_map_set_load(&trie->arena->header->expiry.squeezing);

        return shm_map_set_has(&squeezing, trie->map - 1) ? shm_map_kept_for(trie, view, 0)
                                                          : shm_map_kept_until(trie, view);
}

/* A look at the entries of slabs, by a pass or for a call that needs memory. */
typedef struct Look {
        ShmActor *actor;
        uint64_t now_ms;
        ShmTrie trie; /* the last entry is in it */
        uint64_t n_deleted;
} Look;

/* Returns the end of the entry if it is still to come, or if the entry must be looked at again; else 0. */
static uint64_t expire_leaf(Look *look, ShmMapView *view) {
        uint64_t kept;
        bool done;

        if (!open_map_of(look->actor->arena, view, &look->trie))
                return 0;
        kept = kept_until(&look->trie, view);
        if (kept > look->now_ms)
                return kept == SHM_MAP_FOREVER || kept - look->now_ms <= KEPT_MS_MAX ? kept : 0;
        shm_tally_begin(look->actor, &look->trie);
        done = delete_leaf(look->actor, &look->trie, view);
        shm_tally_end(look->actor, &look->trie);
        look->n_deleted += done;
        return done ? 0 : view->expires;
}

/*
 * A delete spends most of its time on fetching the nodes of its entry's path, which others do not use. So the nodes of
 * several entries of one map are fetched together.
 */
static void fetch_paths(Look *look, const ShmMapView *views, uint32_t n) {
        uint64_t hashes[BATCH_MAX];
        uint32_t n_hashes = 0;

        if (n < 2 || !open_map_of(look->actor->arena, &views[0], &look->trie))
                return;
        for (uint32_t i = 0; i < n; i++)
                if (views[i].head.map == look->trie.map && views[i].expires <= look->now_ms)
                        hashes[n_hashes++] = views[i].head.hash;
        shm_trie_prefetch(&look->trie, hashes, n_hashes);
}

/* Looks at some slots of a slab, from `slot` on. Returns the earliest end of the entries that stay. */
static uint64_t expire_slots(Look *look, uint32_t slab, uint32_t slot) {
        ShmMapView views[BATCH_MAX];
        uint64_t left = 0;
        uint32_t n = 0;

        for (uint32_t i = 0; i < BATCH_MAX; i++)
                n += view_slot(look->actor->arena, slot_id(slab, slot + i), &views[n]);
        fetch_paths(look, views, n);
        for (uint32_t i = 0; i < n; i++)
                left = earlier_end(left, expire_leaf(look, &views[i]));
        return left;
}

static uint64_t expire_all_slots(Look *look, uint32_t slab) {
        uint64_t left = 0;

        for (uint32_t slot = 0; slot < SHM_SLOTS_MAX; slot += BATCH_MAX)
                left = earlier_end(left, expire_slots(look, slab, slot));
        return left;
}

/* Returns the earliest end of the entries that stay in the slab. *ret_cost: 1, or SLAB_COST. */
static uint64_t expire_slab(Look *look, uint32_t slab, uint32_t *ret_cost) {
        const ShmArena *arena = look->actor->arena;
        uint64_t *line = &arena->lines[slab].expires_first, left = 0;
        uint64_t first =
                shm_load_rlx(line); /* ORDER: rlx; a writer that lowers it now lowers the arena's, too. */
        const ShmExpiry *expiry = &arena->header->expiry;

        *ret_cost = 1;
        /* ORDER: rlx; the maintainer's alone. */
        if (first == 0 || (first > look->now_ms && !shm_load_rlx(&expiry->looking_again)))
                return first;
        *ret_cost = SLAB_COST;
        (void) shm_xchg_acqrel(line, 0); /* ORDER: acqrel; by the fence. */
        shm_fence_after_rmw(); /* ORDER: sc, pairs with shm_expiry_lower(); before a look at any leaf. */
        left = expire_all_slots(look, slab);
        if (left != 0)
                (void) shm_expiry_lower(line, left);
        return left;
}

void shm_expiry_look_again(ShmArena *arena) {
        /* ORDER: rel, pairs with begin_pass(); the new options are seen after it. */
        shm_store_rel(&arena->header->expiry.look_again, 1);
        shm_wake(arena);
}

/* The map's root stays in its slot meanwhile: the thread that does control work alone revokes and repairs. */
int shm_map_options_change(ShmArena *arena, const ShmTrie *trie, const ShmMapOptions *options) {
        void *root;
        int r = shm_object_get(arena, trie->root, &root, NULL);

        if (r)
                return r;
        shm_map_options_store(root, options);
        shm_expiry_look_again(arena);
        shm_evict_offer(trie, options->evict != SHM_MAP_EVICT_NEVER);
        return 0;
}

/* Whether a pass that began a moment ago took, or takes, the stale values of these maps. */
static bool are_squeezed(const ShmArena *arena, const ShmMapSet *maps) {
        const ShmExpiry *expiry = &arena->header->expiry;
        ShmMapSet squeezed = shm_map_set_load(&expiry->squeezed), left = shm_map_set_less(maps, &squeezed);
        uint64_t now_ms = shm_clock_ns(arena) / SHM_NS_PER_MS;

        return shm_map_set_is_empty(&left) && since_ms(&expiry->squeezed_ms, now_ms) < PASS_MS;
}

void shm_expiry_squeeze(ShmArena *arena, uint32_t map) {
        ShmMapSet maps = map != 0 ? shm_map_set_of(map - 1)
                                  : (ShmMapSet){ { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX } };
        ShmExpiry *expiry = &arena->header->expiry;

        /* ORDER: rlx; nothing has an end. */
        if (shm_load_rlx(&expiry->first) == 0 || are_squeezed(arena, &maps))
                return;
        for (uint32_t k = 0; k < 4; k++)
                /* ORDER: sc; nothing goes with it. */
                (void) shm_or_sc(&expiry->squeeze.bits[k], maps.bits[k]);
}

static void begin_pass(ShmExpiry *expiry, uint64_t now_ms) {
        ShmMapSet maps;
        uint64_t again;

        for (uint32_t k = 0; k < 4; k++)
                /* ORDER: acqrel; each request is met once. */
                maps.bits[k] = shm_xchg_acqrel(&expiry->squeeze.bits[k], 0);
        /* ORDER: acqrel, pairs with shm_expiry_look_again(); before a look at any options. */
        again = shm_xchg_acqrel(&expiry->look_again, 0) | !shm_map_set_is_empty(&maps);
        /* ORDER: acqrel, pairs with shm_expiry_invalidated(); before a look at any tag. */
        again |= shm_xchg_acqrel(&expiry->invalidated, 0);
        if (!shm_map_set_is_empty(&maps)) {
                shm_map_set_store(&expiry->squeezed, &maps);
                shm_hint_store(&expiry->squeezed_ms, now_ms);
        }
        shm_map_set_store(&expiry->squeezing, &maps);
        shm_store_rlx(&expiry->looking_again, again); /* ORDER: rlx; the maintainer's alone. */
        shm_store_rlx(&expiry->begun, now_ms); /* ORDER: rlx; the maintainer's alone. */
}

bool shm_expiry_step(ShmActor *control, uint64_t now_ms, uint32_t n) {
        ShmArena *arena = control->arena;
        ShmExpiry *expiry = &arena->header->expiry;
        uint32_t n_slabs = shm_arena_n_slabs_ever(arena), cost;
        uint64_t hand = shm_load_rlx(&expiry->hand); /* ORDER: rlx; the maintainer's alone. */
        /* ORDER: acqrel; by the fence. */
        uint64_t left = shm_xchg_acqrel(&expiry->first, PASS_BEGUN);
        Look look = { .actor = control, .now_ms = now_ms };

        shm_fence_after_rmw(); /* ORDER: sc, pairs with shm_expiry_lower(); before a look at any slab. */
        if (hand == 0) {
                left = PASS_BEGUN;
                begin_pass(expiry, now_ms);
        }
        for (uint32_t done = 0; hand < n_slabs && done < n; hand++, done += cost)
                left = earlier_end(left, expire_slab(&look, (uint32_t) hand, &cost));
        if (hand >= n_slabs)
                hand = 0;
        shm_store_rlx(&expiry->hand, hand); /* ORDER: rlx; the maintainer's alone. */
        if (left != PASS_BEGUN)
                (void) shm_expiry_lower(&expiry->first, left);
        else if (hand == 0)
                /* ORDER: acqrel; nobody has noted an end. */
                (void) shm_cas_acqrel(&expiry->first, &left, 0);
        return hand == 0;
}

/* Threads that help at once may look at the same slabs, or leave some to the next round. */
uint32_t shm_expiry_help(ShmActor *actor, uint64_t now_ms, uint32_t n, bool *deleted) {
        const ShmArena *arena = actor->arena;
        uint64_t *help = &arena->header->expiry.help, hand = shm_hint_load(help);
        uint32_t n_slabs = shm_arena_n_slabs_ever(arena), n_passed = 0;
        Look look = { .actor = actor, .now_ms = now_ms };

        for (uint32_t done = 0; n_passed < n_slabs && done < n; n_passed++, hand++) {
                uint64_t first;
                bool due;

                hand = hand < n_slabs ? hand : 0;
                first = shm_hint_load(&arena->lines[hand].expires_first);
                due = first != 0 && first <= now_ms;
                if (due)
                        (void) expire_all_slots(&look, (uint32_t) hand);
                done += due ? SLAB_COST : 1;
        }
        shm_hint_store(help, hand);
        *deleted |= look.n_deleted > 0;
        return n_passed;
}
