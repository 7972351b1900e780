/*
 * Maps: lifetimes
 *
 * Purpose: entries have an end, which can be moved.
 *
 * Invariants
 *   1. A thread may find that an entry's time is over, and therefore change the map, or refuse a change. Before that,
 *      it settles the end that it saw, by compare-and-set, or finds it settled. So no touch comes between. A reader
 *      only looks: a touch that was held up since before the end may bring back an entry that a reader has missed, if
 *      nobody took its memory.
 *   2. `first` of a slab, and of the arena, is not later than the end of any entry in it, except while a step looks at
 *      the slab, or a pass is under way. A writer stores the end of a leaf, links the leaf, lowers `first` of its slab,
 *      then that of the arena. A step sets the arena's to the latest time, then the slab's to 0, looks at the leaves,
 *      and lowers both to the earliest end that is left. So one of the two sees the other. See expiry.c, too.
 *
 * Who may do what: writers settle ends, move ends and lower `first`; the maintainer passes over the slabs
 *   (shm/map/entry/expiry.c).
 *
 * Crash: if a writer dies after the link, its record names the map. The map is counted then, and the count notes the
 *   ends of all entries. If the maintainer dies in a step, the next one sweeps all maps, and notes the ends, too.
 */
#include "shm/map/state/lifetime.h"

#include "shm/arena/client.h"
#include "shm/map/state/options.h"
#include "shm/slab/slab.h"

uint64_t shm_map_end_from(const ShmTrie *trie, uint64_t ttl_ms, uint64_t begun_ms) {
        if (ttl_ms == SHM_MAP_TTL_DEFAULT)
                ttl_ms = shm_map_options(trie).ttl_ms;
        if (ttl_ms == 0 || ttl_ms == SHM_MAP_TTL_NONE)
                return 0;
        return begun_ms + ttl_ms;
}

uint64_t shm_map_end(const ShmTrie *trie, uint64_t ttl_ms) {
        uint64_t end = shm_map_end_from(trie, ttl_ms, 0);

        /* For an entry without an end the clock is not read. */
        return end ? shm_map_now_ms(trie) + end : 0;
}

bool shm_map_is_past(const ShmTrie *trie, uint64_t ms) {
        return ms <= shm_map_now_ms(trie);
}

bool shm_map_is_absent(const ShmTrie *trie, const ShmMapView *view) {
        if (view->head.flags & (SHM_LEAF_CLAIM | SHM_LEAF_TAG) ||
            (view->expires != SHM_MAP_FOREVER && shm_map_is_past(trie, view->expires)))
                return true;
        return __builtin_expect(shm_map_view_has_tags(view), 0) && !shm_map_has_all_tags(trie->arena, view);
}

uint64_t shm_claim_stale_until(const ShmClaim *claim, uint32_t stale_ms) {
        return claim->value_end != 0 && stale_ms != 0 ? claim->value_end + stale_ms : 0;
}

/* The leaf's end, or an earlier one: `stale_ms` may be less than it was when the claim was made. */
static uint64_t claim_kept_for(const ShmTrie *trie, const ShmMapView *view, uint32_t stale_ms) {
        ShmClaim claim;
        uint64_t until;

        if (!shm_map_load_claim(trie, view, &claim))
                return view->expires;
        until = shm_map_has_all_tags(trie->arena, view) ? shm_claim_stale_until(&claim, stale_ms) : 0;
        until = until > claim.ends ? until : claim.ends;
        return until < view->expires ? until : view->expires;
}

uint64_t shm_map_kept_for(const ShmTrie *trie, const ShmMapView *view, uint32_t stale_ms) {
        if (view->expires == SHM_MAP_ENDED || (view->head.flags & (SHM_LEAF_CELL | SHM_LEAF_TAG)))
                return view->expires;
        if (view->head.flags & SHM_LEAF_CLAIM)
                return claim_kept_for(trie, view, stale_ms);
        if (!shm_map_has_all_tags(trie->arena, view))
                return 0;
        return view->expires == SHM_MAP_FOREVER ? SHM_MAP_FOREVER : view->expires + stale_ms;
}

uint64_t shm_map_kept_until(const ShmTrie *trie, const ShmMapView *view) {
        return shm_map_kept_for(trie, view, shm_map_options(trie).stale_ms);
}

bool shm_map_load_claim(const ShmTrie *trie, const ShmMapView *view, ShmClaim *ret) {
        shm_racy_copy(ret,
                      view->bytes + shm_leaf_value_off(view->head.key_size, view->head.flags) - sizeof(*ret),
                      sizeof(*ret));
        return shm_map_view_live(trie->arena, view);
}

bool shm_map_claim_stands(const ShmTrie *trie, const ShmClaim *claim) {
        return !shm_map_is_past(trie, claim->ends) &&
               shm_client_identity(trie->arena, claim->client) == claim->process;
}

bool shm_map_set_end(ShmActor *actor, const ShmMapView *view, uint64_t expires) {
        uint64_t seal = shm_leaf_seal(view->handle);
        uint64_t expected = (view->expires | view->marks | (view->is_settled ? SHM_LEAF_SETTLED : 0)) ^ seal;
        bool done;

        if (!shm_actor_guard(actor, view->handle))
                return false;
        /* ORDER: acqrel, pairs with shm_expiry_step(); before `first`. */
        done = shm_cas_acqrel(shm_map_view_end(view), &expected, (expires | view->marks) ^ seal);
        shm_actor_unguard(actor);
        return done;
}

bool shm_map_settle_end(ShmActor *actor, const ShmMapView *view) {
        if (shm_map_view_is_claim(view))
                return true;
        return view->is_settled || shm_map_set_end(actor, view, view->expires | SHM_LEAF_SETTLED);
}

bool shm_expiry_lower(uint64_t *first, uint64_t expires) {
        uint64_t seen;

        /* ORDER: sc, pairs with shm_expiry_step() and shm_map_delete(); the leaf's change, or that of a slab's `first`,
           is before; the data from which a claim's value is computed is read after. */
        shm_fence_after_rmw();
        seen = shm_load_acq(first); /* ORDER: acq; by the fence. */
        while (seen == 0 || expires < seen)
                /* ORDER: acqrel, pairs with shm_expiry_step(); after the leaf was linked. */
                if (shm_cas_acqrel(first, &seen, expires))
                        return seen == 0;
        return false;
}

void shm_expiry_note(ShmArena *arena, uint64_t leaf, uint64_t expires) {
        if (expires == 0)
                return;
        (void) shm_expiry_lower(&arena->lines[slot_id_slab(shm_handle_slot(leaf))].expires_first, expires);
        if (shm_expiry_lower(&arena->header->expiry.first, expires))
                shm_wake(arena);
}

bool shm_map_prolong_tag(ShmActor *actor, const ShmMapView *view, uint64_t end, uint64_t extra) {
        if (view->expires == SHM_MAP_ENDED)
                return false;
        return view->expires >= end ||
               shm_map_set_end(actor, view, end == SHM_MAP_FOREVER ? end : end + extra);
}

/* Whether the tag can be prolonged. If it is gone, or ending, the entry is absent soon, which is right. */
static bool view_tag(const ShmTrie *trie, uint64_t tag, ShmMapView *ret) {
        return shm_map_view(trie->arena, tag, ret) == 0 && ret->head.map == trie->map &&
               ret->head.flags & SHM_LEAF_TAG && shm_map_view_live(trie->arena, ret) &&
               ret->expires != SHM_MAP_ENDED;
}

void shm_map_hold_tags(ShmActor *actor, const ShmTrie *trie, const uint64_t *tags, uint32_t n, uint64_t end) {
        uint64_t now_ms = shm_map_now_ms(trie), left = end > now_ms ? end - now_ms : 0;
        ShmMapView view;

        /* Twice as long: most entries that follow find it long enough. */
        for (uint32_t i = 0; i < n; i++)
                while (view_tag(trie, tags[i], &view) && !shm_map_prolong_tag(actor, &view, end, left))
                        ;
}

/* Threads that invalidate tags write this word if it is not set. Else the pass that takes it finds the tag gone. */
void shm_expiry_invalidated(ShmArena *arena) {
        uint64_t *word = &arena->header->expiry.invalidated;

        shm_fence_after_rmw(); /* ORDER: sc, pairs with expire_slab(); the tag was freed before. */
        /* ORDER: acq; by the fence. */
        if (shm_load_acq(word) == 0)
                /* ORDER: rel, pairs with begin_pass(); the tag was freed before. */
                shm_store_rel(word, 1);
}
