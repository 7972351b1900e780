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
#include <stddef.h>
#include <stdint.h>

#include "shm/epoch.h"
#include "shm/handle.h"
#include "shm/intent.h"
#include "shm/record.h"
#include "shm/slab-word.h"

#define SHM_ATTENTION_FREEZE UINT64_C(1)
#define SHM_CACHE_CAPACITY_START 32

#define shm_unlikely(x) __builtin_expect(!!(x), 0)
#define shm_inline static inline __attribute__((always_inline))

/* Caches that are always empty: of an epoch that is not open. */
extern uint8_t shm_caches_none[SHM_CLASSES_MAX * sizeof(ShmCache)];

static inline uint8_t *shm_caches_of(const ShmActor *actor, uint32_t number) {
        uint32_t id = number & 0xff;

        if (id >= SHM_EPOCHS_MAX || actor->numbers[id] != number)
                return shm_caches_none;
        return actor->caches + id * actor->arena->n_classes * sizeof(ShmCache);
}

/* No hit: nothing was done. */
#define SHM_CACHE_E_MISS 1

/*
 * As shm_object_alloc(), without pending, where the cache has a slot; SHM_CACHE_E_MISS where it has
 * none, or anything else is unusual.
 */
shm_inline int shm_cache_alloc_hit(ShmActor *actor, size_t size, uint32_t epoch, uint64_t *ret_handle,
                                   void **ret_object) {
        ShmRecord *record = actor->record;
        uint64_t seq = shm_record_enter(record), granule = (size - 1) / SHM_CLASS_GRANULE;
        uint8_t *caches = actor->current;
        uint32_t n, id, tag;
        ShmCache *cache;
        ShmSize s;

        if (shm_unlikely(epoch != SHM_EPOCH_CURRENT))
                caches = shm_caches_of(actor, epoch);
        /* ORDER: acq, pairs with shm_freeze_begin(); caches are ours, and the epochs as copied, if it stands. */
        if (shm_unlikely(shm_load_acq(&record->attention) != actor->attention ||
                         granule >= actor->n_granules))
                goto miss;
        s = actor->sizes[granule];
        cache = (ShmCache *) (caches + s.cache_off);
        n = shm_load_rlx(&cache->count); /* ORDER: rlx; ours alone while not frozen. */
        if (shm_unlikely(n == 0))
                goto miss;

        id = shm_load_rlx(&cache->slots[n - 1]); /* ORDER: rlx; ours alone while not frozen. */
        tag = shm_load_rlx(&actor->tags[id]) + 1; /* ORDER: rlx; a cached slot's tag is ours. */
        /* ORDER: rel, pairs with shm_object_get(); it is live before it leaves the stack. */
        shm_store_rel(&actor->tags[id], tag);
        shm_store_rel(&cache->count, n - 1); /* ORDER: rel; after the tag. */
        shm_count_rlx(&record->counters[SHM_COUNT_ALLOC_HITS]); /* ORDER: rlx; a count. */
        shm_record_leave(record, seq);
        *ret_handle = ((uint64_t) tag << 32 | id) ^ actor->handle_bits;
        *ret_object = actor->slabs + (uint64_t) (id & ~63U) * (SHM_SLAB_SIZE / SHM_SLOTS_MAX) +
                      (id & 63) * s.class_size;
        return 0;
miss:
        shm_record_leave(record, seq);
        return SHM_CACHE_E_MISS;
}

/* As shm_object_free(), where the cache has room; SHM_CACHE_E_MISS where not, or anything else is unusual. */
shm_inline int shm_cache_free_hit(ShmActor *actor, uint64_t handle) {
        ShmRecord *record = actor->record;
        /* Tag and slot id. Of another version than ours, the id is above all there are. */
        uint64_t bits = handle ^ actor->handle_bits, seq = shm_record_enter(record), state;
        uint32_t id = (uint32_t) bits, tag = (uint32_t) (bits >> 32), n;
        const ShmPlaceOf *place;
        ShmCache *cache;
        int r = SHM_CACHE_E_MISS;

        /* ORDER: acq, pairs with shm_freeze_begin(); caches are ours, and the epochs as copied, if it stands. */
        if (shm_unlikely(shm_load_acq(&record->attention) != actor->attention || id >= actor->n_slots_ever ||
                         !(tag & 1)))
                goto leave;
        /* ORDER: acq, pairs with shm_slab_claim(); while the object lives, it says its class and epoch. */
        state = shm_load_acq(&actor->lines[id / SHM_SLOTS_MAX].word.high);
        place = (const ShmPlaceOf *) ((const uint8_t *) actor->places + (state & SHM_PLACE_MASK));
        if (shm_unlikely((state & SLAB_TARGET_MASK) != place->target))
                goto leave;
        cache = place->cache;
        n = shm_load_rlx(&cache->count); /* ORDER: rlx; ours alone while not frozen. */
        if (shm_unlikely(n >= shm_load_rlx(&cache->room))) /* ORDER: rlx; as the count. */
                goto leave;

        /* ORDER: rel, pairs with shm_record_intent(); it stands before the tag changes. */
        shm_store_rel(&record->intent_what, bits | shm_intent_free(0, (SlotId){ 0 }));
        shm_compiler_barrier();
        /* ORDER: acqrel, pairs with shm_object_copy(); the object is over before the slot is ours. */
        if (__builtin_expect(shm_cas_acqrel(&actor->tags[id], &tag, tag + 1), 1)) {
                shm_store_rlx(&cache->slots[n], id); /* ORDER: rlx; ordered by the count below. */
                shm_store_rel(&cache->count, n + 1); /* ORDER: rel; the id is there before it counts. */
                shm_count_rlx(&record->counters[SHM_COUNT_FREES_CACHED]); /* ORDER: rlx; a count. */
                r = 0;
        }
        /* ORDER: rel, pairs with shm_record_intent(); the slot is in the stack before it falls. */
        shm_store_rel(&record->intent_what, 0);
leave:
        shm_record_leave(record, seq);
        return r;
}
