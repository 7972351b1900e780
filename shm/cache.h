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

/* Caches that are always empty: of an epoch that is not open. */
extern uint8_t shm_caches_none[SHM_CLASSES_MAX * sizeof(ShmCache)];

static inline uint8_t *shm_caches_of(const ShmActor *actor, uint32_t number) {
        uint32_t id = number & 0xff;

        if (id >= SHM_EPOCHS_MAX || actor->numbers[id] != number)
                return shm_caches_none;
        return actor->caches + id * actor->arena->n_classes * sizeof(ShmCache);
}

/* As shm_object_alloc(), without pending. */
static inline int shm_cache_alloc(ShmActor *actor, size_t size, uint32_t epoch, uint64_t *ret_handle,
                                  void **ret_object) {
        uint64_t seq = shm_record_enter(actor->record), granule = (size - 1) / SHM_CLASS_GRANULE;
        uint8_t *caches = actor->current;
        uint32_t n, id, tag;
        ShmCache *cache;
        ShmSize s;
        int r;

        if (shm_unlikely(epoch != SHM_EPOCH_CURRENT))
                caches = shm_caches_of(actor, epoch);
        /* ORDER: acq, pairs with shm_freeze_begin(); caches are ours, and the epochs as copied, if it stands. */
        if (shm_unlikely(shm_load_acq(&actor->record->attention) != actor->attention ||
                         granule >= actor->n_granules))
                goto slow;
        s = actor->sizes[granule];
        cache = (ShmCache *) (caches + s.cache_off);
        n = shm_load_rlx(&cache->count); /* ORDER: rlx; ours alone while not frozen. */
        if (shm_unlikely(n == 0))
                goto slow;

        id = shm_load_rlx(&cache->slots[n - 1]); /* ORDER: rlx; ours alone while not frozen. */
        tag = shm_load_rlx(&actor->tags[id]) + 1; /* ORDER: rlx; a cached slot's tag is ours. */
        /* ORDER: rel, pairs with shm_object_get(); it is live before it leaves the stack. */
        shm_store_rel(&actor->tags[id], tag);
        shm_store_rel(&cache->count, n - 1); /* ORDER: rel; after the tag. */
        *ret_handle = ((uint64_t) tag << 32 | id) ^ actor->handle_bits;
        *ret_object = actor->slabs + (uint64_t) (id & ~63U) * (SHM_SLAB_SIZE / SHM_SLOTS_MAX) +
                      (id & 63) * s.class_size;
        /* ORDER: rlx; a count. */
        shm_count_rlx(&actor->record->counters[SHM_COUNT_ALLOC_HITS]);
        shm_record_leave(actor->record, seq);
        return 0;
slow:
        r = shm_cache_alloc_slow(actor, size, epoch, NULL, ret_handle, ret_object);
        shm_record_leave(actor->record, seq);
        return r;
}

/* As shm_object_free(). */
static inline int shm_cache_free(ShmActor *actor, uint64_t handle) {
        /* Tag and slot id. Of another version than ours, the id is above all there are. */
        uint64_t bits = handle ^ actor->handle_bits, seq = shm_record_enter(actor->record), state;
        uint32_t id = (uint32_t) bits, tag = (uint32_t) (bits >> 32), expected = tag, n;
        const ShmPlaceOf *place;
        ShmCache *cache;
        int r;

        /* ORDER: acq, pairs with shm_freeze_begin(); caches are ours, and the epochs as copied, if it stands. */
        if (shm_unlikely(shm_load_acq(&actor->record->attention) != actor->attention ||
                         id >= actor->n_slots_ever || !(tag & 1)))
                goto slow;
        /* ORDER: acq, pairs with shm_slab_claim(); while the object lives, it says its class and epoch. */
        state = shm_load_acq(&actor->lines[id / SHM_SLOTS_MAX].word.high) >> SLAB_CLASS_SHIFT;
        place = &actor->places[state & ((1 << SHM_TARGET_INDEX_BITS) - 1)];
        if (shm_unlikely(((uint32_t) state & (SLAB_TARGET_MASK >> SLAB_CLASS_SHIFT)) != place->target))
                goto slow;
        cache = (ShmCache *) (actor->caches + place->cache_off);
        n = shm_load_rlx(&cache->count); /* ORDER: rlx; ours alone while not frozen. */
        if (shm_unlikely(n >= shm_load_rlx(&cache->room))) /* ORDER: rlx; as the count. */
                goto slow;

        /* ORDER: rel, pairs with shm_record_intent(); it stands before the tag changes. */
        shm_store_rel(&actor->record->intent_what, bits | shm_intent_free(0, (SlotId){ 0 }));
        shm_compiler_barrier();
        r = -ESTALE;
        /* ORDER: acqrel, pairs with shm_object_copy(); the object is over before the slot is ours. */
        if (__builtin_expect(shm_cas_acqrel(&actor->tags[id], &expected, tag + 1), 1)) {
                shm_store_rlx(&cache->slots[n], id); /* ORDER: rlx; ordered by the count below. */
                shm_store_rel(&cache->count, n + 1); /* ORDER: rel; the id is there before it counts. */
                /* ORDER: rlx; a count. */
                shm_count_rlx(&actor->record->counters[SHM_COUNT_FREES_CACHED]);
                r = 0;
        } else {
                shm_actor_count(actor, SHM_COUNT_STALE, 1);
        }
        /* ORDER: rel, pairs with shm_record_intent(); the slot is in the stack before it falls. */
        shm_store_rel(&actor->record->intent_what, 0);
        shm_record_leave(actor->record, seq);
        return r;
slow:
        r = shm_cache_free_slow(actor, handle);
        shm_record_leave(actor->record, seq);
        return r;
}
