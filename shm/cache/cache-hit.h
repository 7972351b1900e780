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
#include "shm/cache/uncached.h"
#include "shm/format/slab-word.h"

#define SHM_CACHE_CAPACITY_START 8

#define shm_unlikely(x) __builtin_expect(!!(x), 0)
#define shm_likely(x) __builtin_expect(!!(x), 1)
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

static inline ShmCache *shm_cache_at_place(const ShmActor *actor, const ShmPlaceOf *place) {
        return (ShmCache *) (actor->caches + place->cache_off);
}

/* The fast path cannot serve the call. It has entered an operation, and has changed nothing else. */
#define SHM_CACHE_E_MISS 1

/* Makes an object in the slot that is on top of the cache: it is the cache's slot n, and leaves it. */
shm_inline void shm_cache_pop_hit(ShmActor *actor, ShmRecord *record, const ShmSizeOf *s, ShmCache *cache,
                                  uint32_t n, uint32_t id, uint32_t tag, uint64_t bits, uint64_t *ret_handle,
                                  void **ret_object) {
        /* ORDER: rel, pairs with shm_object_get(); the object is live before its slot leaves the stack. */
        shm_store_rel(&actor->tags[id], tag);
        shm_store_rel(&cache->count, n); /* ORDER: rel; after the tag. */
        shm_fence_rel(); /* ORDER: rel, pairs with shm_object_copy(); the caller's bytes are after the tag. */
        shm_hint_count(&record->counters[SHM_COUNT_ALLOC_HITS]);
        *ret_handle = bits ^ actor->handle_bits;
        *ret_object = actor->slabs + (uint64_t) id * (SHM_SLAB_SIZE / SHM_SLOTS_MAX) +
                      (uint64_t) (id % SHM_SLOTS_MAX) * s->size_more;
}

/*
 * shm_object_alloc() without `pending`, if the cache has a slot. SHM_CACHE_E_MISS if it has none, or if anything else
 * is unusual: then the caller must leave the operation.
 */
shm_inline int shm_cache_alloc_hit(ShmActor *actor, size_t size, uint32_t epoch, uint64_t *ret_handle,
                                   void **ret_object) {
        ShmRecord *record = actor->record;
        const ShmSizeOf *s;
        uint32_t id, tag, n;
        uint64_t bits;
        ShmCache *cache;

        shm_record_enter(record);
        /* ORDER: acq, pairs with shm_freeze_begin(); if it is as last seen, caches are ours, and epochs as copied.
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

        n--;
        id = shm_load_rlx(&cache->slots[n]); /* ORDER: rlx; ours alone while not frozen. */
        /*
         * Id and tag are mostly those of the slot freed last. Then the actor has both, and the loads that depend on
         * each other only check them: the processor predicts the branches and does not wait.
         */
        if ((uint32_t) shm_private_again(&actor->freed_next) == id) {
                bits = shm_private_again(&actor->freed_next);
                tag = (uint32_t) (bits >> 32);
                /* ORDER: rlx; a cached slot's tag is ours. */
                if (shm_likely(shm_load_rlx(&actor->tags[(uint32_t) bits]) + 1 == tag)) {
                        shm_cache_pop_hit(actor, record, s, cache, n, (uint32_t) bits, tag, bits, ret_handle,
                                          ret_object);
                        shm_record_leave(record);
                        return 0;
                }
        }
        tag = shm_load_rlx(&actor->tags[id]) + 1; /* ORDER: rlx; a cached slot's tag is ours. */
        bits = (uint64_t) tag << 32 | id;
        shm_cache_pop_hit(actor, record, s, cache, n, id, tag, bits, ret_handle, ret_object);
        shm_record_leave(record);
        return 0;
}

/* The cache for slots whose slab's word has `state`, kept for the frees that follow. NULL: the epoch is not open. */
shm_inline ShmCache *shm_cache_of_state(ShmActor *actor, uint64_t state) {
        const ShmPlaceOf *place = &actor->places[shm_place_index_of(state)];

        if ((uint32_t) (state & SLAB_CACHED_MASK) != place->key)
                return NULL;
        actor->freed_key = place->key;
        actor->freed_cache = shm_cache_at_place(actor, place);
        return actor->freed_cache;
}

/*
 * Frees the object if the cache has room, inside an operation whose epochs are as copied. SHM_CACHE_E_MISS if it has
 * none, or if anything else is unusual.
 *
 * `bits` are tag and slot id: the handle ^ handle_bits. If the handle has another version than ours, the id exceeds
 * n_slots_ever. `final`: words to be closed, or NULL.
 */
shm_inline int shm_cache_free_one(ShmActor *actor, ShmRecord *record, uint64_t bits, ShmFinal *final) {
        uint32_t id = (uint32_t) bits, tag = (uint32_t) (bits >> 32), n;
        uint64_t state;
        ShmCache *cache;

        if (shm_unlikely(id >= actor->n_slots_ever || !(tag & 1)))
                return SHM_CACHE_E_MISS;
        /* ORDER: acq, pairs with shm_slab_claim(); class and epoch are the object's while it lives. */
        state = shm_load_acq(&actor->lines[id / SHM_SLOTS_MAX].word.high);
        cache = actor->freed_cache;
        if ((state & SLAB_CACHED_MASK) != actor->freed_key) {
                cache = shm_cache_of_state(actor, state);
                if (shm_unlikely(!cache))
                        return SHM_CACHE_E_MISS;
        }
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
        if (final)
                shm_final_close(final);
        /* ORDER: rel, pairs with gather_cache(); the tag is even before (refs.c, invariant 6). */
        shm_store_rel(&cache->slots[n], id);
        shm_store_rel(&cache->count, n + 1); /* ORDER: rel; the id is stored before. */
        shm_hint_count(&record->counters[SHM_COUNT_FREES_CACHED]);
        /* ORDER: rel, pairs with shm_record_intent(); the slot is in the stack before the intent is cleared. */
        shm_store_rel(&record->intent_what, 0);
        actor->freed_next = bits + (UINT64_C(2) << 32);
        return 0;
}

/* shm_object_free() by shm_cache_free_one(). If it misses, the caller must leave the operation. */
shm_inline int shm_cache_free_hit(ShmActor *actor, uint64_t bits, ShmFinal *final) {
        ShmRecord *record = actor->record;
        int r;

        shm_record_enter(record);
        /* ORDER: acq, pairs with shm_freeze_begin(); if it is as last seen, caches are ours, and epochs as copied.
           ORDER: rlx; tslab_close() sets ours to UINT64_MAX, then checks seq. */
        if (shm_unlikely(shm_load_acq(&record->attention) != shm_peek_rlx(&actor->attention)))
                return SHM_CACHE_E_MISS;
        r = shm_cache_free_one(actor, record, bits, final);
        if (shm_likely(r == 0))
                shm_record_leave(record);
        return r;
}
