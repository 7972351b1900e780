/*
 * Revoking
 *
 * Purpose: makes every handle into an era stale, while threads go on freeing, and some threads are stopped.
 *
 * Invariants
 *   1. A tag is made even by compare-and-set, so if a free and a revocation race, one of the two wins. A node of a
 *      map's index may be renewed at that moment (shm/map/trie/trie-shrink.c): it then has another odd tag, and the
 *      revocation tries again.
 *   2. Only slabs of eras that are over are marked. A slab that empties may become another epoch's at once. So the
 *      slab's word is read after the tags: if it has the era then, an object of another epoch whose tag was read before
 *      is gone, and its tag never comes back.
 *   3. A slot goes back only when no record refers to it. Before a thread writes into an object that others may revoke,
 *      it notes or guards the object, and then looks at the tag once more. MARK changes the tag before COLLECT looks
 *      for notes and guards. So no thread writes into a slot that was given back.
 *
 * Who may do what: the maintainer revokes; threads go on meanwhile.
 *
 * Crash: even tags stay even; their slots are taken, and no record refers to them. The epoch says that it is to be
 *   revoked until both passes are over: the next maintainer begins both anew, and collects these slots, too.
 */
#include "shm/maintain/revoke.h"

#include "shm/slab/set.h"
#include "shm/slab/slab.h"

#define MARK_TRIES_MAX 65536 /* others win each time: not by chance */

static bool is_revoked(const ShmArena *arena, const ShmRevoke *revoke, SlabWord w) {
        return shm_slab_view_taken(arena, w) != 0 && slab_word_epoch(w) == revoke->eras.id &&
               shm_revoking_has(&revoke->eras, slab_word_era(w));
}

/* The next slab of the eras. False: that was all, or the budget is used up. */
static bool revoke_find_slab(const ShmArena *arena, ShmRevoke *revoke, uint32_t *budget, uint32_t *ret_slab) {
        SlabWord w;

        if (revoke->slabs.end == 0)
                shm_slab_walk_begin(&revoke->slabs, arena, shm_set_of_epoch(arena, revoke->eras.id));
        while (shm_slab_walk_next(&revoke->slabs, arena, budget, ret_slab, &w))
                if (is_revoked(arena, revoke, w))
                        return true;
        return false;
}

static bool revoke_ends_pass(ShmRevoke *revoke) {
        if (!shm_slab_walk_done(&revoke->slabs))
                return false;
        revoke->slabs = (ShmSlabWalk){};
        return true;
}

/* False: the object was freed. A node of an index may be renewed meanwhile: its new tag is odd, too. */
static bool mark_slot(const ShmArena *arena, const ShmRevoke *revoke, uint32_t slab, uint32_t slot,
                      uint32_t tag) {
        uint32_t *at = &arena->tags[slab].tag[slot];

        for (uint32_t i = 0; i < MARK_TRIES_MAX; i++) {
                /* ORDER: acqrel, pairs with shm_object_copy(); the object is over before it is given back. */
                if (shm_cas_acqrel(at, &tag, tag + 1))
                        return true;
                if (!(tag & 1) || !is_revoked(arena, revoke, shm_slab_word(arena, slab)))
                        return false;
        }
        return false;
}

static void mark_slab(const ShmArena *arena, ShmRevoke *revoke, uint32_t slab) {
        ShmSlabView view;
        SlabWord w;

        shm_slab_view(arena, slab, &view);
        w = shm_slab_word(arena, slab);
        if (!is_revoked(arena, revoke, w))
                return; /* it is another's by now */
        for (uint64_t rest = view.live & shm_slab_view_taken(arena, w); rest != 0; rest &= rest - 1) {
                uint32_t i = (uint32_t) __builtin_ctzll(rest);

                revoke->objects += mark_slot(arena, revoke, slab, i, view.tags[i]);
        }
}

bool shm_revoke_mark(ShmActor *control, ShmRevoke *revoke, uint32_t n) {
        uint32_t slab;

        while (revoke_find_slab(control->arena, revoke, &n, &slab))
                mark_slab(control->arena, revoke, slab);
        return revoke_ends_pass(revoke);
}

/* Slabs for one check. */
static void collect_slabs(ShmActor *control, ShmRevoke *revoke, ShmReach *reach) {
        const ShmArena *arena = control->arena;
        uint32_t n = 16 * SHM_REFS_MAX, slab;

        shm_reach_init(reach, control);
        while (reach->refs.n < SHM_REFS_MAX && revoke_find_slab(arena, revoke, &n, &slab))
                (void) shm_reach_add(reach, slab, shm_slab_view_taken(arena, shm_slab_word(arena, slab)));
}

bool shm_revoke_collect(ShmActor *control, ShmRevoke *revoke, ShmReach *reach, uint32_t *budget) {
        if (!revoke->checking) {
                collect_slabs(control, revoke, reach);
                *budget -= SHM_REFS_MAX < *budget ? SHM_REFS_MAX : *budget;
                revoke->checking = true;
        }
        if (!shm_reach_step(reach, budget))
                return false;
        revoke->checking = false;
        for (uint32_t i = 0; i < reach->refs.n; i++)
                revoke->kept += (uint64_t) __builtin_popcountll(shm_reach_in_flight(reach, i) |
                                                                reach->slabs[i].owned);
        return revoke_ends_pass(revoke);
}
