/*
 * Objects
 *
 * Purpose: from a size to a slot and a handle, and back.
 *
 * Invariants
 *   1. A slot's tag is odd exactly while it holds a live object; only the claimer makes it odd, and
 *      of all who free it one makes it even, by compare-and-set from the handle's tag.
 *   2. A slot that is claimed and not yet live is named by CLAIM or TAKE; one that is freed and not
 *      yet given back by FREE, with a tag one above the handle's.
 *   3. A handle's tag is read only below n_slabs_ever: garbage brings no page into being.
 *
 * Who may do what: any thread with its own actor; lookups need none and write nothing.
 *
 * Crash: allocation, after CLAIM's compare-and-set: bits set, tag even: given back. After the tag is
 *   odd, under TAKE: nobody has the handle: made even, given back. Freeing, after the tag is even,
 *   under FREE: given back.
 */
#include "shm/cache/object.h"

#include <errno.h>
#include <time.h>

#include "shm/cache/cache.h"
#include "shm/epoch/epoch.h"
#include "shm/slab/pages.h"
#include "shm/arch/racy.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"

/* Slabs of an earlier era, waiting to be drained, that a search passes over before it gives up. */
#define SKIPS_MAX 64

/* A set is searched from a home group on, so that threads meet in one word less often. */
static uint32_t home(const ShmActor *actor) {
        uint32_t n_groups = (shm_arena_n_slabs_ever(actor->arena) + 63) / 64;

        return n_groups > 1 ? actor->id % n_groups * 64 : 0;
}

static void remove_stale(ShmActor *actor, uint32_t set, uint32_t slab) {
        shm_actor_intend(actor, shm_intent_other(SHM_INTENT_SLAB, slab, 0));
        shm_set_remove(actor->arena, set, slab);
        shm_actor_intend(actor, 0);
}

/* What is looked for: one slot to use at once, or a slab to hold, and up to n of its slots. */
typedef struct Want {
        uint64_t target;
        uint32_t n;
        bool hold;
        bool spare; /* others will do: no memory is made for it */
} Want;

typedef struct Found {
        uint32_t slab;
        uint64_t mask;
        bool held;
} Found;

/* Whether something would be left to hold, after n slots were taken. */
static bool worth_holding(const ShmArena *arena, const Want *want, uint32_t slab) {
        SlabWord w = shm_slab_word(arena, slab);
        uint64_t taken = slab_word_place(w) == SLAB_FREE
                                 ? arena->classes[slab_target_class(want->target)].beyond
                                 : w.low;

        return (uint32_t) __builtin_popcountll(~taken) > want->n;
}

static bool take(ShmActor *actor, const Want *want, uint32_t slab, Found *ret) {
        int r;

        ret->slab = slab;
        ret->held = want->hold && worth_holding(actor->arena, want, slab);
        r = ret->held ? shm_slab_hold(actor, slab, want->target, want->n, &ret->mask)
                      : shm_slab_claim(actor, slab, want->target, want->n, &ret->mask);
        return r == 0;
}

static bool search_range(ShmActor *actor, uint32_t set, const Want *want, uint32_t from, uint32_t end,
                         Found *ret) {
        ShmArena *arena = actor->arena;
        uint32_t slab, skips = 0;

        for (; skips < SKIPS_MAX && shm_set_find(arena, set, from, &slab) && slab < end; from = slab + 1) {
                if (take(actor, want, slab, ret))
                        return true;
                if (shm_set_wants(arena, set, shm_slab_word(arena, slab)))
                        skips++;
                else
                        remove_stale(actor, set, slab);
        }
        return false;
}

static bool search(ShmActor *actor, uint32_t set, const Want *want, Found *ret) {
        uint32_t from = home(actor);

        return search_range(actor, set, want, from, UINT32_MAX, ret) ||
               (from > 0 && search_range(actor, set, want, 0, from, ret));
}

/*
 * The words themselves, before memory is called exhausted: a hint may be missing that a dead thread
 * should have set. At most every 100 ms, since a full arena would otherwise be read each time.
 */
static bool search_words(ShmActor *actor, const Want *want, Found *ret) {
        ShmArena *arena = actor->arena;
        uint32_t n = shm_arena_n_slabs_ever(arena);
        struct timespec now;
        uint64_t msec;

        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
        msec = (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
        if (actor->searched_msec != 0 && msec - actor->searched_msec < 100)
                return false;
        actor->searched_msec = msec;

        for (uint32_t slab = 0; slab < n; slab++) {
                SlabPlace place = slab_word_place(shm_slab_word(arena, slab));

                if ((place == SLAB_FREE || place == SLAB_LISTED) && take(actor, want, slab, ret))
                        return true;
        }
        return false;
}

/* A partial slab, a free one, or one of fresh pages; with CLAIM standing. */
static int find(ShmActor *actor, const Want *want, Found *ret) {
        uint32_t partial = shm_set_partial(actor->arena, slab_target_epoch(want->target),
                                           slab_target_class(want->target));
        uint32_t n;

        for (;;) {
                if (search(actor, partial, want, ret) || search(actor, SHM_SET_FREE, want, ret))
                        return 0;
                if (want->spare)
                        return -ENOMEM;
                if (shm_pages_commit(actor, SHM_COMMIT_RUN_MAX, &n) == 0)
                        continue;
                if (search(actor, SHM_SET_FREE, want, ret) || search_words(actor, want, ret))
                        return 0;
                return -ENOMEM;
        }
}

int shm_object_find_slab(ShmActor *actor, uint64_t target, uint32_t n, bool spare, uint32_t *ret_slab,
                         uint64_t *ret_mask, bool *ret_held) {
        Found found;
        int r;

        r = find(actor, &(Want){ .target = target, .n = n, .hold = true, .spare = spare }, &found);
        if (r)
                return r;
        *ret_slab = found.slab;
        *ret_mask = found.mask;
        *ret_held = found.held;
        return 0;
}

int shm_object_alloc_uncached(ShmActor *actor, uint64_t target, const ShmPending *pending,
                              uint64_t *ret_handle) {
        ShmArena *arena = actor->arena;
        uint32_t *tag, value;
        uint64_t handle;
        Found found;
        SlotId id;
        int r;

        r = find(actor, &(Want){ .target = target, .n = 1 }, &found);
        if (r)
                return r;

        id = slot_id(found.slab, (uint32_t) __builtin_ctzll(found.mask));
        tag = shm_slot_tag(arena, id);
        /* ORDER: rlx; the claim's compare-and-set made the slot, and its tag, ours. */
        value = shm_load_rlx(tag) | 1;
        handle = shm_handle_make(arena->key, id, value);
        /* Under CLAIM: given back under TAKE, the slot could be another's object, of the very tag. */
        if (pending)
                r = shm_actor_note(actor, handle, pending->root, pending->hash);
        if (r == 0) {
                shm_actor_intend(actor, shm_intent_take(value, id));
                /* ORDER: rel, pairs with shm_object_get(); the intent and the note stand before it is live. */
                shm_store_rel(tag, value);
        } else {
                (void) shm_slab_give_back(actor, found.slab, found.mask);
        }
        shm_actor_intend(actor, 0);
        if (r)
                return r;
        shm_actor_count(actor, SHM_COUNT_ALLOCS_UNCACHED, 1);
        *ret_handle = handle;
        return 0;
}

int shm_object_alloc(ShmActor *actor, size_t size, uint32_t epoch, const ShmPending *pending,
                     uint64_t *ret_handle, void **ret_object) {
        void *object;
        int r;

        if (actor->arena->read_only)
                return -EROFS;
        if (!ret_object)
                ret_object = &object;
        if (!pending)
                return shm_cache_alloc(actor, size, epoch, ret_handle, ret_object);
        shm_actor_enter(actor);
        r = shm_cache_alloc_slow(actor, size, epoch, pending, ret_handle, ret_object);
        shm_actor_leave(actor);
        return r;
}

int shm_object_free_uncached(ShmActor *actor, uint32_t tag, SlotId id) {
        uint32_t expected = tag;
        int r = -ESTALE;

        shm_actor_intend(actor, shm_intent_free(tag, id));
        /* ORDER: acqrel, pairs with shm_object_copy(); the object is over before the slot is given back. */
        if (shm_cas_acqrel(shm_slot_tag(actor->arena, id), &expected, tag + 1)) {
                r = shm_slab_give_back(actor, slot_id_slab(id), slot_id_mask(id)) == 0 ? 0 : -EUCLEAN;
                shm_actor_count(actor, SHM_COUNT_FREES_UNCACHED, 1);
        }
        shm_actor_intend(actor, 0);
        return r;
}

int shm_object_free(ShmActor *actor, uint64_t handle) {
        if (actor->arena->read_only)
                return -EROFS;
        return shm_cache_free(actor, handle);
}

int shm_object_publish(ShmActor *actor, uint64_t handle) {
        return shm_actor_unnote(actor, handle);
}

void shm_object_free_pending(ShmActor *actor) {
        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++) {
                /* ORDER: rlx; notes are this thread's alone. */
                uint64_t handle = shm_load_rlx(&actor->record->notes[i].handle);

                if (handle == 0)
                        continue;
                (void) shm_object_free(actor, handle);
                (void) shm_actor_unnote(actor, handle);
        }
}

bool shm_object_live(const ShmArena *arena, uint64_t handle) {
        if (!shm_handle_plausible(arena, handle))
                return false;
        /* ORDER: acq, pairs with shm_object_alloc_uncached(); the object is there when its tag is. */
        return shm_load_acq(shm_slot_tag(arena, shm_handle_slot(handle))) ==
               shm_handle_tag(arena->key, handle);
}

int shm_object_get(const ShmArena *arena, uint64_t handle, void **ret_object, size_t *ret_size) {
        SlotId id = shm_handle_slot(handle);
        uint64_t state;
        uint32_t class;

        if (!shm_handle_plausible(arena, handle))
                return -ESTALE;
        /*
         * The class before the tag: an object that is live by its tag afterwards was live, and its
         * slab of that class, at the first load too.
         */
        /* ORDER: acq, pairs with shm_slab_claim(); before the tag. */
        state = shm_load_acq(&arena->lines[slot_id_slab(id)].word.high);
        /* ORDER: acq, pairs with shm_object_alloc_uncached(); the object is there when its tag is. */
        if (shm_load_acq(shm_slot_tag(arena, id)) != shm_handle_tag(arena->key, handle))
                return -ESTALE;
        class = slab_word_class((SlabWord){ .high = state });
        if (class >= arena->n_classes || slot_id_slot(id) >= arena->classes[class].n_slots)
                return -ESTALE;
        *ret_object = shm_slot_address(arena, id, class);
        if (ret_size)
                *ret_size = arena->classes[class].size;
        return 0;
}

int shm_object_copy(const ShmArena *arena, uint64_t handle, size_t offset, void *buffer, size_t size) {
        void *object;
        size_t room;
        int r;

        r = shm_object_get(arena, handle, &object, &room);
        if (r)
                return r;
        if (offset > room || size > room - offset)
                return -EMSGSIZE;
        shm_racy_copy(buffer, (const uint8_t *) object + offset, size);
        /* ORDER: acq, pairs with shm_object_free_uncached(); the bytes are read before the tag is again. */
        shm_fence_acq();
        return shm_object_live(arena, handle) ? 0 : -ESTALE;
}
