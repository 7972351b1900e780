#pragma once
/*
 * Handle caches: the fast path. A thread pops slots that it freed, or claimed in a batch, from its
 * record; shm/cache.c does the rest.
 *
 * The stores, in this order, are what repair relies on:
 *     alloc   tag odd, count - 1
 *     free    FREE h, compare-and-set of the tag, slots[n] = id, count + 1, none
 * A freeze, an epoch that changed, a cache that is empty, full or steps aside: all go the slow way,
 * by one comparison each.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/handle.h"
#include "shm/object.h"
#include "shm/record.h"
#include "shm/slab-word.h"

#define SHM_ATTENTION_FREEZE UINT64_C(1)
#define SHM_CACHE_CAPACITY_MIN 8
#define SHM_CACHE_CAPACITY_START 32

#define shm_unlikely(x) __builtin_expect(!!(x), 0)

/* As shm_object_alloc(), inside an operation, with nothing assumed. */
int shm_cache_alloc_slow(ShmActor *actor, size_t size, uint32_t epoch, const ShmPending *pending,
                         uint64_t *ret_handle, void **ret_object);
/* As shm_object_free(), inside an operation. */
int shm_cache_free_slow(ShmActor *actor, uint64_t handle);

/* Gives back all the slots and slabs that the actor holds; false: it is frozen. Inside an operation. */
bool shm_cache_drain(ShmActor *actor);
/* A thread ends: gives back its pending objects, its caches and its record. NULL-safe. */
void shm_cache_leave(ShmActor *actor);

static inline ShmCache *shm_cache_current(ShmActor *actor, uint32_t epoch) {
        uint32_t id = epoch & 0xff;

        if (epoch == SHM_EPOCH_CURRENT)
                return actor->current;
        if (id >= SHM_EPOCHS_MAX || actor->numbers[id] != epoch)
                return NULL;
        return actor->caches + id * actor->arena->n_classes;
}

/* As shm_object_alloc(), without pending. */
static inline int shm_cache_alloc(ShmActor *actor, size_t size, uint32_t epoch, uint64_t *ret_handle,
                                  void **ret_object) {
        const ShmArena *arena = actor->arena;
        uint32_t class, n, id, tag;
        ShmCache *cache;
        int r;

        shm_actor_enter(actor);
        cache = shm_cache_current(actor, epoch);
        /* ORDER: acq, pairs with shm_freeze_begin(); caches are ours, and the epochs as copied, if it stands. */
        if (shm_unlikely(shm_load_acq(&actor->record->attention) != actor->attention || !cache ||
                         size - 1 >= arena->size_max))
                goto slow;
        class = arena->class_of[(size + SHM_CLASS_GRANULE - 1) / SHM_CLASS_GRANULE];
        cache += class;
        n = shm_load_rlx(&cache->count); /* ORDER: rlx; ours alone while not frozen. */
        if (shm_unlikely(n - 1 >= SHM_CACHE_MAX))
                goto slow;

        id = shm_load_rlx(&cache->slots[n - 1]); /* ORDER: rlx; ours alone while not frozen. */
        /* ORDER: rlx; a cached slot's tag is ours. */
        tag = shm_load_rlx(&arena->tags->tag[id & SHM_SLOT_ID_MASK]) + 1;
        /* ORDER: rel, pairs with shm_object_get(); it is live before it leaves the stack. */
        shm_store_rel(&arena->tags->tag[id & SHM_SLOT_ID_MASK], tag);
        shm_store_rel(&cache->count, n - 1); /* ORDER: rel; after the tag. */
        *ret_handle = shm_handle_make(arena->key, (SlotId){ id }, tag);
        *ret_object = shm_slot_address(arena, (SlotId){ id }, class);
        /* ORDER: rlx; a count. */
        shm_count_rlx(&actor->record->counters[SHM_COUNT_ALLOC_HITS]);
        shm_actor_leave(actor);
        return 0;
slow:
        r = shm_cache_alloc_slow(actor, size, epoch, NULL, ret_handle, ret_object);
        shm_actor_leave(actor);
        return r;
}

/* As shm_object_free(). */
static inline int shm_cache_free(ShmActor *actor, uint64_t handle) {
        const ShmArena *arena = actor->arena;
        uint32_t id = (uint32_t) handle & SHM_SLOT_ID_MASK, tag = shm_handle_tag(arena->key, handle), n,
                 epoch;
        uint32_t expected = tag;
        ShmCache *cache;
        uint64_t state;
        int r;

        shm_actor_enter(actor);
        /* ORDER: acq, pairs with shm_freeze_begin(); caches are ours, and the epochs as copied, if it stands. */
        if (shm_unlikely(shm_load_acq(&actor->record->attention) != actor->attention ||
                         id >= actor->n_slots_ever || ((uint32_t) handle >> 30) != SHM_HANDLE_VERSION ||
                         !(tag & 1)))
                goto slow;
        /* ORDER: acq, pairs with shm_slab_claim(); while the object lives, it says its class and epoch. */
        state = shm_load_acq(&arena->lines[id >> 6].word.high);
        epoch = (state >> SLAB_EPOCH_SHIFT) & 0x3f;
        if (shm_unlikely(((state >> SLAB_EPOCH_SHIFT) & 0x3ffff) != actor->open[epoch]))
                goto slow;
        cache = actor->caches + epoch * arena->n_classes + ((state >> SLAB_CLASS_SHIFT) & 0xf);
        n = shm_load_rlx(&cache->count); /* ORDER: rlx; ours alone while not frozen. */
        if (shm_unlikely(n >= shm_load_rlx(&cache->room))) /* ORDER: rlx; as the count. */
                goto slow;

        shm_actor_intend(actor, shm_intent_free(tag, (SlotId){ id }));
        r = -ESTALE;
        /* ORDER: acqrel, pairs with shm_object_copy(); the object is over before the slot is ours. */
        if (__builtin_expect(shm_cas_acqrel(&arena->tags->tag[id], &expected, tag + 1), 1)) {
                shm_store_rlx(&cache->slots[n], id); /* ORDER: rlx; ordered by the count below. */
                shm_store_rel(&cache->count, n + 1); /* ORDER: rel; the id is there before it counts. */
                /* ORDER: rlx; a count. */
                shm_count_rlx(&actor->record->counters[SHM_COUNT_FREES_CACHED]);
                r = 0;
        } else {
                shm_actor_count(actor, SHM_COUNT_STALE, 1);
        }
        shm_actor_intend(actor, 0);
        shm_actor_leave(actor);
        return r;
slow:
        r = shm_cache_free_slow(actor, handle);
        shm_actor_leave(actor);
        return r;
}
