/*
 * Batches
 *
 * Purpose: allocates and frees several objects in one operation, with one store of a cache's count, one compare-and-set
 *   for the tags of neighbours, and one for a slab whose slots go past the cache.
 *
 * Invariants
 *   1. Tags of slots on top of a cache become odd from the top down, before the count is lowered. So at any time the
 *      live slots in the cache are its topmost ones, and repair finds them all and rolls them back. Handles are stored
 *      after the count is lowered: the caller's memory may be shared, and a handle that others find there must not be
 *      rolled back. They are made of the tags that were stored, and no tag is read again: once the count is lowered, a
 *      revocation may give the slots back, and the tags be those of other threads' objects.
 *   2. CLAIM names the slots of a run, all of one slab. It stands from before the first of their tags becomes even
 *      until they are in the cache, or free in the slab. It does not say which of them were freed, and need not: a slot
 *      that is taken, has an even tag, and is in no cache, is lost. A run of one is freed as any single object is.
 *   3. An operation serves few enough objects that a maintainer that finds it under way soon finds it over.
 *   4. Words that name objects are stored, and bytes are copied, while the slots are in the cache, which no other
 *      thread changes. So the bytes need no guard: a revocation gives back no slot that is in a cache. The words name
 *      the slots by address, which is not the order in which tags become odd. Neither counts for anybody before the
 *      slots have left the cache.
 *
 * Who may do what: the owner of the record, while it is not frozen.
 *
 * Crash: in an allocation, the objects that are still on top of the cache are rolled back; words that name them name
 *   nothing then. In a free, each object of the run is live or freed, and repair gives back the slots of the freed
 *   ones.
 */
#include "shm/cache/batch.h"

#include "shm/arch/racy.h"
#include "shm/cache/cache-drain.h"
#include "shm/cache/cache-hit.h"
#include "shm/slab/slab.h"

#define OPERATION_MAX 256 /* objects */
#define FILLS_MAX 64U /* objects that one operation makes with their bytes: 256 KiB */
#define GROUP 4 /* slots with tags in the 16 bytes of one compare-and-set */
#ifdef SHM_STEP
#define PAST_CACHE_MIN 2 /* the explorer's slabs are small */
#else
#define PAST_CACHE_MIN 8 /* slots of one slab that go past a full cache: for fewer, a flush is cheaper */
#endif

/* Handles that follow each other, of slots of one slab. */
typedef struct BatchRun {
        uint32_t slab;
        uint32_t n;
        uint64_t mask;
} BatchRun;

/* Whether the caches are ours, and the copies of the epochs are new. Inside an operation. */
static bool batch_is_usual(const ShmActor *actor) {
        /* ORDER: acq, pairs with shm_freeze_begin(); as in the fast path. ORDER: rlx; as there. */
        return shm_load_acq(&actor->record->attention) == shm_peek_rlx(&actor->attention);
}

static uint32_t batch_slot(const ShmCache *cache, uint32_t count, uint32_t i) {
        return shm_load_rlx(&cache->slots[count - 1 - i]); /* ORDER: rlx; ours alone while not frozen. */
}

/* Makes an object in a slot of the cache. Returns tag and slot id, as a handle has them. */
static uint64_t batch_make_live(ShmActor *actor, uint32_t id) {
        uint32_t tag = shm_load_rlx(&actor->tags[id]) + 1; /* ORDER: rlx; a cached slot's tag is ours. */

        /* ORDER: rel, pairs with shm_object_get(); the object is live before its slot leaves the stack. */
        shm_store_rel(&actor->tags[id], tag);
        return (uint64_t) tag << 32 | id;
}

/* Makes objects in the top slots, from the topmost down. The slots stay in the cache. */
static void batch_make_all_live(ShmActor *actor, const ShmCache *cache, uint32_t count, uint64_t *ret_bits,
                                uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                ret_bits[i] = batch_make_live(actor, batch_slot(cache, count, i));
        shm_fence_rel(); /* ORDER: rel, pairs with shm_object_copy(); the objects' bytes are after their tags. */
}

static size_t batch_pop(ShmActor *actor, ShmCache *cache, uint64_t *ret_handles, size_t n) {
        uint32_t count = shm_load_rlx(&cache->count); /* ORDER: rlx; ours alone while not frozen. */
        uint64_t bits[OPERATION_MAX];

        n = n < count ? n : count;
        if (n == 0)
                return 0;
        batch_make_all_live(actor, cache, count, bits, (uint32_t) n);
        shm_cache_set_count(cache, count - (uint32_t) n);
        shm_compiler_barrier();
        for (size_t i = 0; i < n; i++)
                ret_handles[i] = bits[i] ^ actor->handle_bits;
        shm_actor_count(actor, SHM_COUNT_ALLOC_HITS, n);
        return n;
}

/* The cache for a size, or one that is always empty if anything is unusual. Inside an operation. */
static ShmCache *batch_cache_for(const ShmActor *actor, size_t size, uint32_t epoch) {
        const ShmSizeOf *s;

        if (!batch_is_usual(actor) || size - 1 >= actor->size_max)
                return &shm_cache_none;
        s = &actor->sizes[(size - 1) / sizeof(*s)];
        return epoch == SHM_EPOCH_CURRENT ? s->cache : shm_cache_of(actor, epoch, s->cache_off);
}

size_t shm_batch_alloc(ShmActor *actor, size_t size, uint32_t epoch, uint64_t *ret_handles, size_t n) {
        size_t done;

        shm_actor_enter(actor);
        done = batch_pop(actor, batch_cache_for(actor, size, epoch), ret_handles,
                         n < OPERATION_MAX ? n : OPERATION_MAX);
        shm_actor_leave(actor);
        return done;
}

static uint8_t *batch_object(const ShmActor *actor, uint64_t bits, uint32_t class) {
        return shm_slot_address(actor->arena, (SlotId){ (uint32_t) bits }, class);
}

/* Sorts by the address of the slot. The input is mostly a few sorted runs: slots of freed values, or refills. */
static void batch_sort(uint64_t *bits, uint32_t n) {
        for (uint32_t i = 1; i < n; i++) {
                uint64_t next = bits[i];
                uint32_t at = i;

                for (; at > 0 && (uint32_t) bits[at - 1] > (uint32_t) next; at--)
                        bits[at] = bits[at - 1];
                bits[at] = next;
        }
}

static void batch_name(const ShmActor *actor, const uint64_t *bits, const ShmBatchFill *fill, uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                /* ORDER: rel, pairs with shm_trie_contains(); before the slots leave the cache. */
                shm_store_rel(&fill->words[i], bits[i] ^ actor->handle_bits ^ fill->seal);
}

/* Copies the bytes of neighbouring slots in one piece: one copy of 64 KiB is a tenth faster than 16 of 4 KiB. */
static void batch_copy(const ShmActor *actor, const uint64_t *bits, const ShmBatchFill *fill, uint32_t n) {
        uint32_t class = shm_arena_class(actor->arena, fill->size), k;
        const uint8_t *from = fill->from;

        for (uint32_t i = 0; i < n; i += k) {
                uint8_t *to = batch_object(actor, bits[i], class);

                for (k = 1; i + k < n; k++)
                        if (batch_object(actor, bits[i + k], class) != to + (size_t) k * fill->size)
                                break;
                shm_racy_copy(to, from + (size_t) i * fill->size, (size_t) k * fill->size);
        }
}

uint32_t shm_batch_fill(ShmActor *actor, uint32_t epoch, const ShmBatchFill *fill, uint32_t n) {
        uint64_t bits[FILLS_MAX];
        ShmCache *cache;
        uint32_t count;

        shm_actor_enter(actor);
        cache = batch_cache_for(actor, fill->size, epoch);
        count = shm_load_rlx(&cache->count); /* ORDER: rlx; ours alone while not frozen. */
        n = n < count ? n : count;
        n = n < FILLS_MAX ? n : FILLS_MAX;
        if (n > 0) {
                batch_make_all_live(actor, cache, count, bits, n);
                batch_sort(bits, n);
                batch_name(actor, bits, fill, n);
                batch_copy(actor, bits, fill, n);
                shm_cache_set_count(cache, count - n);
                shm_actor_count(actor, SHM_COUNT_ALLOC_HITS, n);
        }
        shm_actor_leave(actor);
        return n;
}

/* The first handles that are plausible, and name different slots of one slab. */
static BatchRun batch_run(const ShmActor *actor, const uint64_t *handles, size_t n) {
        BatchRun run = {};

        for (; run.n < n; run.n++) {
                uint64_t bits = handles[run.n] ^ actor->handle_bits;
                SlotId id = { (uint32_t) bits };

                if (run.n == 0)
                        run.slab = id.value / SHM_SLOTS_MAX;
                if (id.value >= actor->n_slots_ever || !(bits >> 32 & 1) ||
                    id.value / SHM_SLOTS_MAX != run.slab || (run.mask & slot_id_mask(id)))
                        break;
                run.mask |= slot_id_mask(id);
        }
        return run;
}

/* The cache of the run's slots; NULL: their epoch is not open, or their slab is sparse. */
static ShmCache *batch_cache(ShmActor *actor, const BatchRun *run) {
        /* ORDER: acq, pairs with shm_slab_claim(); class and epoch are the objects' while they live. */
        uint64_t state = shm_load_acq(&actor->lines[run->slab].word.high);

        if ((state & SLAB_CACHED_MASK) == actor->freed_key)
                return actor->freed_cache;
        return shm_cache_of_state(actor, state);
}

/* How many of the first handles have their tags in the same 16 bytes. */
static uint32_t batch_group(const ShmActor *actor, const uint64_t *handles, uint32_t n) {
        uint32_t first = (uint32_t) (handles[0] ^ actor->handle_bits) / GROUP, i = 1;

        while (i < n && i < GROUP && (uint32_t) (handles[i] ^ actor->handle_bits) / GROUP == first)
                i++;
        return i;
}

/* Makes one of four tags even. False: it is not `tag`. */
static bool group_free_tag(ShmPair *pair, uint32_t slot, uint32_t tag) {
        uint64_t *half = slot & 2 ? &pair->high : &pair->low;
        uint32_t shift = slot & 1 ? 32 : 0;

        if ((uint32_t) (*half >> shift) != tag)
                return false;
        *half = (*half & ~(UINT64_C(0xffffffff) << shift)) | (uint64_t) (tag + 1) << shift;
        return true;
}

/* Makes the tags of a group even: all, or none. False: some object is not live. */
static bool batch_free_group(ShmActor *actor, const uint64_t *handles, uint32_t n) {
        uint64_t bits = handles[0] ^ actor->handle_bits;
        ShmPair *pair = (ShmPair *) &actor->tags[(uint32_t) bits & ~(GROUP - 1U)], old, new;
        uint32_t tag = (uint32_t) (bits >> 32);

        if (n == 1)
                /* ORDER: acqrel, pairs with shm_object_copy(); all accesses to the object are before. */
                return shm_cas_acqrel(&actor->tags[(uint32_t) bits], &tag, tag + 1);
        /* ORDER: rlx; the compare-and-set decides. */
        old = (ShmPair){ .low = shm_load_rlx(&pair->low), .high = shm_load_rlx(&pair->high) };
        do {
                new = old;
                for (uint32_t i = 0; i < n; i++) {
                        bits = handles[i] ^ actor->handle_bits;
                        if (!group_free_tag(&new, (uint32_t) bits, (uint32_t) (bits >> 32)))
                                return false;
                }
                /* ORDER: acqrel, pairs with shm_object_copy(); all accesses to the objects are before. */
        } while (!shm_pair_cas_acqrel(pair, &old, new));
        return true;
}

/* Frees the first handles of a run, until a group has a stale one. Returns how many, and their mask. CLAIM stands. */
static uint32_t batch_free_tags(ShmActor *actor, const uint64_t *handles, uint32_t n, uint64_t *ret_mask) {
        uint32_t done = 0, k;

        *ret_mask = 0;
        for (; done < n; done += k) {
                k = batch_group(actor, handles + done, n - done);
                if (!batch_free_group(actor, handles + done, k))
                        break;
                for (uint32_t i = 0; i < k; i++)
                        *ret_mask |= UINT64_C(1) << (handles[done + i] ^ actor->handle_bits) % SHM_SLOTS_MAX;
        }
        return done;
}

static void batch_push(ShmActor *actor, ShmCache *cache, const uint64_t *handles, uint32_t n) {
        uint32_t count = shm_load_rlx(&cache->count); /* ORDER: rlx; ours alone. */

        shm_fence_rel(); /* ORDER: rel, pairs with gather_cache(); the tags are even before (refs.c, invariant 6). */
        for (uint32_t i = 0; i < n; i++)
                /* ORDER: rlx; ordered by the count. */
                shm_store_rlx(&cache->slots[count + i], (uint32_t) (handles[i] ^ actor->handle_bits));
        shm_cache_set_count(cache, count + n);
        shm_actor_count(actor, SHM_COUNT_FREES_CACHED, n);
}

/* Returns how many of the run's objects it freed. `cache` is NULL: their slots go to the slab. */
static uint32_t batch_free_run(ShmActor *actor, const BatchRun *run, ShmCache *cache,
                               const uint64_t *handles) {
        uint64_t freed;
        uint32_t done;

        shm_actor_intend_mask(actor, run->mask);
        shm_actor_intend(actor, shm_intent_other(SHM_INTENT_CLAIM, run->slab, 0));
        done = batch_free_tags(actor, handles, run->n, &freed);
        if (done > 0 && cache) {
                batch_push(actor, cache, handles, done);
        } else if (done > 0) {
                (void) shm_slab_free_slots(actor, run->slab, freed);
                shm_actor_count(actor, SHM_COUNT_FREES_UNCACHED, done);
        }
        shm_actor_intend(actor, 0);
        return done;
}

/* Returns how many of the first handles it freed: up to a run's end, or until the cache is full. */
static uint32_t batch_free_some(ShmActor *actor, const uint64_t *handles, size_t n) {
        BatchRun run = batch_run(actor, handles, n);
        ShmCache *cache = run.n > 0 ? batch_cache(actor, &run) : NULL;
        uint32_t count, room;

        if (!cache)
                return 0;
        /* ORDER: rlx; both are ours alone while not frozen. */
        count = shm_load_rlx(&cache->count), room = shm_load_rlx(&cache->room);
        if (count >= room)
                return run.n < PAST_CACHE_MIN ? 0 : batch_free_run(actor, &run, NULL, handles);
        if (run.n > room - count)
                run = batch_run(actor, handles, room - count);
        return batch_free_run(actor, &run, cache, handles);
}

/* Whether the first handle is a run of its own: freeing it as a single object takes one intent. */
static bool batch_is_single(const ShmActor *actor, const uint64_t *handles, size_t n) {
        return n == 1 || (uint32_t) (handles[0] ^ actor->handle_bits) / SHM_SLOTS_MAX !=
                                 (uint32_t) (handles[1] ^ actor->handle_bits) / SHM_SLOTS_MAX;
}

size_t shm_batch_free(ShmActor *actor, const uint64_t *handles, size_t n) {
        size_t done = 0;
        uint32_t k = 1;

        n = n < OPERATION_MAX ? n : OPERATION_MAX;
        shm_actor_enter(actor);
        for (bool usual = batch_is_usual(actor); usual && done < n && k > 0; done += k)
                if (batch_is_single(actor, handles + done, n - done))
                        k = shm_cache_free_one(actor, actor->record, handles[done] ^ actor->handle_bits,
                                               NULL) == 0;
                else
                        k = batch_free_some(actor, handles + done, n - done);
        shm_actor_leave(actor);
        return done;
}
