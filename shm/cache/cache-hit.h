#pragma once
/*
 * Handle caches: the fast path. A thread pops slots, which it freed or claimed in a batch before, from a cache
 * in its record; shm/cache/cache.c does the rest.
 *
 * Repair relies on this order of the stores:
 *     alloc   tag odd, count - 1
 *     free    FREE h, compare-and-set of the tag, slots[n] = id, count + 1, none
 * One comparison each detects a freeze, a change of the epochs, and a cache that is empty, full or bypassed. All of
 * these take the slow path.
 */
#include <stddef.h>
#include <stdint.h>

#include "shm/epoch/attention.h"
#include "shm/epoch/epoch.h"
#include "shm/format/handle.h"
#include "shm/format/intent.h"
#include "shm/arena/record.h"
#include "shm/format/slab-word.h"

#define SHM_CACHE_CAPACITY_START 8

#define shm_unlikely(x) __builtin_expect(!!(x), 0)
#define shm_inline static inline __attribute__((always_inline))

/* A cache that is always empty, in the place of those of an epoch that is not open. */
extern ShmCache shm_cache_none;

/* `off`: bytes from an epoch's first cache to the one in question. */
static inline ShmCache *shm_cache_of(const ShmActor *actor, uint32_t number, uint32_t off) {
        uint32_t id = number & 0xff;

        if (id >= SHM_EPOCHS_MAX || actor->numbers[id] != number)
                return &shm_cache_none;
        return (ShmCache *) (actor->caches + id * actor->epoch_stride + off);
}

/* The fast path cannot serve the call. It has entered an operation, and has changed nothing else. */
#define SHM_CACHE_E_MISS 1

/*
 * As shm_object_alloc() without `pending`, if the cache has a slot. SHM_CACHE_E_MISS if it has none, or if anything
 * else is unusual: then the caller must leave the operation.
 */
shm_inline int shm_cache_alloc_hit(ShmActor *actor, size_t size, uint32_t epoch, uint64_t *ret_handle,
                                   void **ret_object) {
        ShmRecord *record = actor->record;
        const ShmSizeOf *s;
        uint32_t id, tag, n;
        ShmCache *cache;

        shm_record_enter(record);
        /* ORDER: acq, pairs with shm_freeze_begin(); caches are ours, and the epochs as copied, if it stands.
           ORDER: rlx; tslab_close() sets ours to UINT64_MAX, then checks seq. */
        if (shm_unlikely(shm_load_acq(&record->attention) != shm_peek_rlx(&actor->attention) ||
                         size - 1 >= actor->size_max))
                return SHM_CACHE_E_MISS;
        s = (const ShmSizeOf *) ((const uint8_t *) actor->sizes + ((size - 1) & -sizeof(*s)));
        cache = s->cache;
        if (shm_unlikely(epoch != SHM_EPOCH_CURRENT))
                cache = shm_cache_of(actor, epoch, s->cache_off);
        n = shm_load_rlx(&cache->count); /* ORDER: rlx; ours alone while not frozen. */
        if (shm_unlikely(n == 0))
                return SHM_CACHE_E_MISS;

        id = shm_load_rlx(&cache->slots[n - 1]); /* ORDER: rlx; ours alone while not frozen. */
        tag = shm_load_rlx(&actor->tags[id]) + 1; /* ORDER: rlx; a cached slot's tag is ours. */
        /* ORDER: rel, pairs with shm_object_get(); the object is live before its slot leaves the stack. */
        shm_store_rel(&actor->tags[id], tag);
        shm_store_rel(&cache->count, n - 1); /* ORDER: rel; after the tag. */
        shm_count_rlx(&record->counters[SHM_COUNT_ALLOC_HITS]); /* ORDER: rlx; a count. */
        shm_record_leave(record);
        *ret_handle = ((uint64_t) tag << 32 | id) ^ actor->handle_bits;
        *ret_object = actor->slabs + (uint64_t) id * (SHM_SLAB_SIZE / SHM_SLOTS_MAX) +
                      (uint64_t) (id % SHM_SLOTS_MAX) * s->size_more;
        return 0;
}

/*
 * As shm_object_free(), if the cache has room. SHM_CACHE_E_MISS if it has none, or if anything else is unusual:
 * then the caller must leave the operation.
 */
shm_inline int shm_cache_free_hit(ShmActor *actor, uint64_t handle) {
        ShmRecord *record = actor->record;
        /* Tag and slot id. If the handle has another version than ours, the id exceeds n_slots_ever. */
        uint64_t bits = handle ^ actor->handle_bits, state;
        uint32_t id = (uint32_t) bits, tag = (uint32_t) (bits >> 32), n;
        const ShmPlaceOf *place;
        ShmCache *cache;

        shm_record_enter(record);
        /* ORDER: acq, pairs with shm_freeze_begin(); caches are ours, and the epochs as copied, if it stands.
           ORDER: rlx; tslab_close() sets ours to UINT64_MAX, then checks seq. */
        if (shm_unlikely(shm_load_acq(&record->attention) != shm_peek_rlx(&actor->attention) ||
                         id >= actor->n_slots_ever || !(tag & 1)))
                return SHM_CACHE_E_MISS;
        /* ORDER: acq, pairs with shm_slab_claim(); class and epoch are the object's while it lives. */
        state = shm_load_acq(&actor->lines[id / SHM_SLOTS_MAX].word.high);
        place = (const ShmPlaceOf *) ((const uint8_t *) actor->places + (state & SHM_PLACE_MASK));
        if (shm_unlikely((state & SLAB_CACHED_MASK) != place->key))
                return SHM_CACHE_E_MISS;
        cache = place->cache;
        n = shm_load_rlx(&cache->count); /* ORDER: rlx; ours alone while not frozen. */
        if (shm_unlikely(n >= shm_load_rlx(&cache->room))) /* ORDER: rlx; as the count. */
                return SHM_CACHE_E_MISS;

        /* ORDER: rel, pairs with shm_record_intent(); the intent stands before the tag changes. */
        shm_store_rel(&record->intent_what, bits | shm_intent_free(0, (SlotId){ 0 }));
        shm_compiler_barrier();
        /* ORDER: acqrel, pairs with shm_object_copy(); all accesses to the object are before the slot is ours. */
        if (shm_unlikely(!shm_cas_acqrel(&actor->tags[id], &tag, tag + 1))) {
                shm_actor_intend(actor, 0);
                return SHM_CACHE_E_MISS;
        }
        shm_store_rlx(&cache->slots[n], id); /* ORDER: rlx; ordered by the count below. */
        shm_store_rel(&cache->count, n + 1); /* ORDER: rel; the id is stored before. */
        shm_count_rlx(&record->counters[SHM_COUNT_FREES_CACHED]); /* ORDER: rlx; a count. */
        /* ORDER: rel, pairs with shm_record_intent(); the slot is in the stack before the intent is cleared. */
        shm_store_rel(&record->intent_what, 0);
        shm_record_leave(record);
        return 0;
}
