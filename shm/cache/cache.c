/*
 * Handle caches: the slow path
 *
 * Purpose: fills and empties caches, which are stacks of slot ids, in batches.
 *
 * Invariants
 *   1. All slots that a thread holds are in its record. A slot is in one cache of one record, or an intent names
 *      it, or it is live, or it is free in its slab's bitmap.
 *   2. Ids never move inside a stack. A refill stores ids above the count, then raises the count; a flush frees
 *      the top k slots under FLUSH, then lowers the count.
 *   3. The owner uses a cache only in operations that find the record's attention as the actor last saw it,
 *      without the freeze bit: while it has that bit, the maintainer may empty the cache.
 *   4. A record's `used` bit of a cache is set before the cache is first written.
 *
 * Who may do what: the owner uses its caches, unless its record is frozen; then the maintainer does, with the
 *   intents of its own record, and the owner works on the slab words.
 *
 * Crash: under CLAIM, slots of the mask are taken, and are in the stack or in none: repair frees a slot to which
 *   no record refers. Under FLUSH, some of the top k are free, and other threads may have claimed them already.
 */
#include "shm/cache/cache.h"

#include "shm/arch/probe.h"
#include "shm/cache/requested.h"
#include <errno.h>

#include "shm/cache/cache-drain.h"
#include "shm/cache/capacity.h"
#include "shm/cache/lookup.h"
#include "shm/epoch/epoch.h"
#include "shm/slab/search.h"
#include "shm/slab/slab.h"

#define REFILL_WORDS_MAX 8 /* slabs from which one refill takes slots, at most */

ShmCache shm_cache_none;

static ShmCache *cache_at(const ShmActor *actor, uint32_t epoch, uint32_t class) {
        return (ShmCache *) actor->caches + shm_arena_cache_index(actor->arena, epoch, class);
}

/* Copies the data of one epoch that the fast path uses. */
static void copy_epoch(ShmActor *actor, uint32_t epoch) {
        const ShmArena *arena = actor->arena;
        uint32_t id, era = 0;
        bool open = shm_epoch_admit(arena, epoch, &id, &era) == 0;

        actor->numbers[epoch] = open ? shm_epoch_number(epoch, era) : UINT32_MAX;
        for (uint32_t class = 0; class < arena->n_classes; class += 1)
                actor->places[shm_place_index(class, epoch)] = (ShmPlaceOf){
                        .key = open ? (uint32_t) slab_key(class, epoch, era) : UINT32_MAX,
                        .cache_off = shm_arena_cache_index(arena, epoch, class) * (uint32_t) sizeof(ShmCache),
                };
}

/* Copies the data of the current epoch, by size. */
static void copy_sizes(ShmActor *actor) {
        const ShmArena *arena = actor->arena;
        uint32_t current = shm_epoch_current(arena) % SHM_EPOCHS_MAX;

        actor->current = actor->numbers[current];
        for (uint32_t i = 0; i < arena->size_max / SHM_CLASS_GRANULE; i++) {
                uint32_t class = arena->class_of[i],
                         off = shm_arena_cache_index(arena, 0, class) * (uint32_t) sizeof(ShmCache);

                actor->sizes[i] = (ShmSizeOf){
                        .cache = shm_cache_of(actor, actor->numbers[current], off),
                        .cache_off = off,
                        .size_more = arena->classes[class].size - SHM_CLASS_SIZE_MIN,
                };
        }
}

static void cache_refresh_copies(ShmActor *actor) {
        /* ORDER: acq, pairs with shm_freeze_begin(); before the epochs: a later change of them changes it again. */
        actor->seen = actor->attention = shm_load_acq(&actor->record->attention);
        actor->n_slots_ever = (uint64_t) shm_arena_n_slabs_ever(actor->arena) * SHM_SLOTS_MAX;
        for (uint32_t i = 0; i < actor->arena->n_epochs; i++)
                copy_epoch(actor, i);
        copy_sizes(actor);
        actor->freed_key = UINT64_MAX;
        /* No record has this value, so every operation takes the slow path. */
        if (actor->attention & SHM_ATTENTION_FREEZE || actor->fences)
                actor->attention = UINT64_MAX;
}

/* Whether this thread may use its caches in this operation. */
static bool cache_is_ours(ShmActor *actor) {
        if (actor->fences)
                shm_fence_sc(); /* ORDER: sc; in place of the membarrier after epochs and attention change. */
        if (actor->mode >= SHM_CACHE_OFF)
                return false;
        /* ORDER: acq, pairs with shm_freeze_begin(); as in the fast path. */
        if (shm_load_acq(&actor->record->attention) != actor->seen)
                cache_refresh_copies(actor);
        return !(actor->seen & SHM_ATTENTION_FREEZE);
}

/* Pushes claimed slots, the lowest on top, and clears the intent CLAIM. Returns how many. */
static uint32_t cache_fill_stack(ShmActor *actor, ShmCache *cache, uint32_t slab, uint64_t mask) {
        uint32_t n = shm_load_rlx(&cache->count); /* ORDER: rlx; ours alone. */
        uint32_t n_new = (uint32_t) __builtin_popcountll(mask), at = n + n_new;

        /* From the lowest bit on: the next one is found at once, and the processor stores several at a time. */
        for (; mask != 0; mask &= mask - 1) {
                at--;
                /* ORDER: rel, pairs with gather_cache(); the claim is before (refs.c, invariant 6). */
                shm_store_rel(&cache->slots[at], slot_id(slab, (uint32_t) __builtin_ctzll(mask)).value);
        }
        shm_cache_set_count(cache, n + n_new);
        shm_actor_intend(actor, 0);
        return n_new;
}

/*
 * Takes up to n slots from the slab that is held for the cache, or from another slab, which is held from then on if
 * it has more. Returns how many.
 */
static uint32_t cache_refill_once(ShmActor *actor, ShmCache *cache, uint64_t key, uint32_t n,
                                  bool no_commit) {
        uint32_t held = shm_load_rlx(&cache->held); /* ORDER: rlx; ours alone. */
        ShmWant want = { .key = key, .n = n, .hold = true, .no_commit = no_commit };
        ShmFound found;
        uint64_t mask;

        if (held != 0) {
                if (held - 1 < actor->arena->n_slabs && shm_slab_hold(actor, held - 1, key, n, &mask) == 0)
                        return cache_fill_stack(actor, cache, held - 1, mask);
                shm_cache_release_held(actor, actor->id, cache);
        }
        if (shm_search(actor, &want, &found))
                return 0;
        if (found.held)
                /* ORDER: rlx; the slab word decides who holds it, and CLAIM names the slab. */
                shm_store_rlx(&cache->held, found.slab + 1);
        return cache_fill_stack(actor, cache, found.slab, found.mask);
}

/* Takes slots for half of the capacity. -ENOMEM: it found none at all. */
static int cache_refill(ShmActor *actor, ShmCache *cache, uint64_t key) {
        uint32_t want, got = 0, n = 0;

        if (cache->capacity == 0)
                shm_cache_begin_use(actor, cache);
        shm_cache_adapt_capacity(actor, cache, SHM_CACHE_LAST_REFILL);
        want = cache->capacity / 2;
        do {
                uint32_t more = cache_refill_once(actor, cache, key, want - got, got > 0);

                if (more == 0)
                        break;
                got += more;
                n++;
        } while (got < want && n < REFILL_WORDS_MAX);

        if (got == 0)
                return -ENOMEM;
        cache->alloc.n_words += n;
        cache->alloc.n_slots += got;
        shm_cache_end_window(actor, &cache->alloc, SHM_COUNT_ALLOC_HITS);
        shm_actor_count(actor, SHM_COUNT_REFILLS, 1);
        shm_actor_count(actor, SHM_COUNT_REFILLED_SLOTS, got);
        shm_probe(refill, actor->id, actor->arena->classes[slab_key_class(key)].size, got, n);
        return 0;
}

/* Makes an object in the top slot of the cache, which must not be empty. */
static int cache_pop_slot(ShmActor *actor, ShmCache *cache, const ShmPending *pending, uint64_t *ret_handle) {
        uint32_t n = shm_load_rlx(&cache->count), tag; /* ORDER: rlx; ours alone. */
        SlotId id = { shm_load_rlx(&cache->slots[n - 1]) & SHM_SLOT_ID_MASK }; /* ORDER: rlx; ours alone. */
        uint64_t handle;
        int r;

        tag = shm_load_rlx(shm_slot_tag(actor->arena, id)) | 1; /* ORDER: rlx; a cached slot's tag is ours. */
        handle = shm_handle_make(actor->arena->key, id, tag);
        if (pending) {
                r = shm_pending_note(actor, pending, handle);
                if (r)
                        return r;
        }
        /* ORDER: rel, pairs with shm_object_get(); noted before it is live, live before its slot leaves the stack. */
        shm_store_rel(shm_slot_tag(actor->arena, id), tag);
        shm_cache_set_count(cache, n - 1);
        *ret_handle = handle;
        shm_fence_rel(); /* ORDER: rel, pairs with shm_object_copy(); the caller's bytes are after the tag. */
        return 0;
}

static int alloc_cached(ShmActor *actor, ShmCache *cache, uint64_t key, const ShmPending *pending,
                        uint64_t *ret_handle) {
        uint32_t n = shm_load_rlx(&cache->count); /* ORDER: rlx; ours alone. */
        int r;

        if (n == 0 && cache->alloc.bypass > 0) {
                cache->alloc.bypass--;
                shm_actor_count(actor, SHM_COUNT_ALLOC_BYPASSED, 1);
                return shm_uncached_alloc(actor, key, pending, ret_handle);
        }
        /* If the refill finds no slot, the allocation past the cache may still find one. */
        if (n == 0 && cache_refill(actor, cache, key))
                return shm_uncached_alloc(actor, key, pending, ret_handle);
        r = cache_pop_slot(actor, cache, pending, ret_handle);
        if (r == 0)
                shm_actor_count(actor, SHM_COUNT_ALLOC_HITS, 1);
        return r;
}

/* The cache for an allocation on the slow path. It samples the size; a hit does not, since that would cost time. */
static ShmCache *requested_cache(ShmActor *actor, uint32_t id, uint32_t class, size_t size) {
        ShmCache *cache = cache_at(actor, id, class);

        if (cache->capacity != 0) /* a cache that was never used is not written, to save its page */
                shm_requested_note(cache, size);
        return cache;
}

static void count_failure(ShmActor *actor) {
        shm_actor_count(actor, SHM_COUNT_FAILURES, 1);
        if (actor->shortage == SHM_SHORTAGE_LIMIT)
                shm_actor_count(actor, SHM_COUNT_FAILURES_LIMIT, 1);
        if (actor->shortage == SHM_SHORTAGE_SYSTEM)
                shm_actor_count(actor, SHM_COUNT_FAILURES_SYSTEM, 1);
}

void shm_cache_uncount_failure(ShmActor *actor) {
        shm_actor_count(actor, SHM_COUNT_FAILURES, UINT64_MAX);
        if (actor->shortage == SHM_SHORTAGE_LIMIT)
                shm_actor_count(actor, SHM_COUNT_FAILURES_LIMIT, UINT64_MAX);
        if (actor->shortage == SHM_SHORTAGE_SYSTEM)
                shm_actor_count(actor, SHM_COUNT_FAILURES_SYSTEM, UINT64_MAX);
}

int shm_cache_alloc_slow(ShmActor *actor, size_t size, uint32_t epoch, const ShmPending *pending,
                         uint64_t *ret_handle, void **ret_object) {
        ShmArena *arena = actor->arena;
        uint32_t id, era, class;
        uint64_t key, handle;
        bool cached;
        int r;

        if (arena->read_only)
                return -EROFS;
        if (size == 0)
                return -EINVAL;
        if (size > arena->size_max) {
                shm_actor_count_too_large(actor, SHM_COUNT_TOO_LARGE, size);
                return -E2BIG;
        }

        cached = cache_is_ours(actor);
        r = shm_epoch_admit(arena, epoch, &id, &era);
        if (r)
                return r;
        class = shm_arena_class(arena, size);
        key = slab_key(class, id, era);
        /* If the epoch was closed and opened again since attention was read, the cache is not for the new era. */
        if (cached && actor->numbers[id] == shm_epoch_number(id, era))
                r = alloc_cached(actor, requested_cache(actor, id, class, size), key, pending, &handle);
        else
                r = shm_uncached_alloc(actor, key, pending, &handle);
        /* Before -ENOMEM: free the slots that this thread caches for other classes and epochs, and try again. */
        if (r == -ENOMEM && cached) {
                shm_cache_drain_record(actor, actor->id, UINT64_MAX);
                r = shm_uncached_alloc(actor, key, pending, &handle);
        }
        if (r) {
                if (r == -ENOMEM)
                        count_failure(actor);
                return r;
        }
        *ret_handle = handle;
        if (ret_object)
                *ret_object = shm_slot_address(arena, shm_handle_slot(handle), class);
        return 0;
}

/* shm_cache_alloc_hit() for an object that is noted. SHM_CACHE_E_MISS: the caller takes the slow way. */
static inline int alloc_pending_hit(ShmActor *actor, size_t size, uint32_t epoch, const ShmPending *pending,
                                    uint64_t *ret_handle, void **ret_object) {
        const ShmSizeOf *s;
        ShmCache *cache;
        uint32_t n, id, tag;
        uint64_t bits;
        int r;

        /* ORDER: acq, pairs with shm_freeze_begin(); as in shm_cache_alloc_hit(). ORDER: rlx; as there. */
        if (shm_load_acq(&actor->record->attention) != shm_peek_rlx(&actor->attention) ||
            size - 1 >= actor->size_max)
                return SHM_CACHE_E_MISS;
        s = &actor->sizes[(size - 1) / SHM_CLASS_GRANULE];
        cache = epoch == SHM_EPOCH_CURRENT || epoch == actor->current
                        ? s->cache
                        : shm_cache_of(actor, epoch, s->cache_off);
        n = shm_load_rlx(&cache->count); /* ORDER: rlx; ours alone. */
        if (n == 0)
                return SHM_CACHE_E_MISS;
        id = shm_load_rlx(&cache->slots[n - 1]); /* ORDER: rlx; ours alone. */
        tag = shm_load_rlx(&actor->tags[id]) | 1; /* ORDER: rlx; a cached slot's tag is ours. */
        bits = (uint64_t) tag << 32 | id;
        r = shm_pending_note(actor, pending, bits ^ actor->handle_bits);
        if (r == 0)
                shm_cache_pop_hit(actor, actor->record, s, cache, n - 1, id, tag, bits, ret_handle,
                                  ret_object);
        return r;
}

int shm_cache_alloc_pending(ShmActor *actor, size_t size, uint32_t epoch, const ShmPending *pending,
                            uint64_t *ret_handle, void **ret_object) {
        int r;

        shm_actor_enter(actor);
        r = alloc_pending_hit(actor, size, epoch, pending, ret_handle, ret_object);
        if (shm_unlikely(r == SHM_CACHE_E_MISS))
                r = shm_cache_alloc_slow(actor, size, epoch, pending, ret_handle, ret_object);
        shm_actor_leave(actor);
        return r;
}

/*
 * Frees all slots but n, then halves the capacity, if that is not too small. If frees go past the cache, they still do
 * so afterwards.
 */
static void cache_halve(ShmActor *actor, ShmCache *cache, uint32_t n) {
        uint32_t count = shm_load_rlx(&cache->count); /* ORDER: rlx; ours alone. */

        if (count <= n)
                return;
        (void) shm_cache_flush(actor, actor->id, cache, shm_cache_index(actor, cache), count - n);
        shm_actor_count(actor, SHM_COUNT_FLUSHES, 1);
        shm_actor_count(actor, SHM_COUNT_FLUSHED_SLOTS, count - n);
        if (cache->capacity / 2 < SHM_CACHE_CAPACITY_START || cache->capacity / 2 < n)
                return;
        if (shm_load_rlx(&cache->room) != 0) /* ORDER: rlx; ours alone. */
                shm_store_rlx(&cache->room, cache->capacity / 2); /* ORDER: rlx; ours alone. */
        shm_compiler_barrier(); /* the room never exceeds the capacity, even if the thread dies here */
        cache->capacity /= 2;
}

static void make_room(ShmActor *actor, ShmCache *cache) {
        uint32_t k;

        shm_cache_adapt_capacity(actor, cache, SHM_CACHE_LAST_FLUSH);
        if (shm_load_rlx(&cache->count) < cache->capacity) /* ORDER: rlx; ours alone. */
                return;
        k = cache->capacity / 2;
        cache->free.n_words += shm_cache_flush(actor, actor->id, cache, shm_cache_index(actor, cache), k);
        cache->free.n_slots += k;
        if (shm_cache_end_window(actor, &cache->free, SHM_COUNT_FREES_CACHED))
                shm_store_rlx(&cache->room, 0); /* ORDER: rlx; ours alone. */
        shm_actor_count(actor, SHM_COUNT_FLUSHES, 1);
        shm_actor_count(actor, SHM_COUNT_FLUSHED_SLOTS, k);
}

/* How many slots have so many bytes; at least the capacity with which a cache begins. */
static uint32_t cache_slots(const ShmActor *actor, uint64_t key, uint64_t size) {
        uint64_t n = size / actor->arena->classes[slab_key_class(key)].size;

        if (n < SHM_CACHE_CAPACITY_START)
                return SHM_CACHE_CAPACITY_START;
        return n < SHM_CACHE_MAX ? (uint32_t) n : SHM_CACHE_MAX;
}

void shm_cache_shorten(ShmActor *actor, uint64_t key, uint64_t size) {
        const ShmPlaceOf *place = &actor->places[shm_place_index_of(key)];
        ShmCache *cache = shm_cache_at_place(actor, place);
        uint32_t n;

        /* ORDER: rlx; ours, or a hint. */
        if (place->key != key || shm_load_rlx(&cache->count) <= SHM_CACHE_CAPACITY_START)
                return;
        n = cache_slots(actor, key, size);
        if (shm_load_rlx(&cache->count) <= n) /* ORDER: rlx; ours, or a hint. */
                return;
        shm_actor_enter(actor);
        if (cache_is_ours(actor) && place->key == key)
                cache_halve(actor, cache, n / 2);
        shm_actor_leave(actor);
}

/* Makes room in the cache if it is full. False: this free must go past the cache. */
static bool has_room(ShmActor *actor, ShmCache *cache) {
        if (cache->capacity == 0)
                shm_cache_begin_use(actor, cache);
        if (cache->free.bypass > 0) {
                if (--cache->free.bypass == 0)
                        shm_store_rlx(&cache->room, cache->capacity); /* ORDER: rlx; ours alone. */
                shm_actor_count(actor, SHM_COUNT_FREE_BYPASSED, 1);
                return false;
        }
        if (shm_load_rlx(&cache->count) >= shm_load_rlx(&cache->room)) /* ORDER: rlx; ours alone. */
                make_room(actor, cache);
        /* ORDER: rlx; ours alone. */
        return shm_load_rlx(&cache->count) < shm_load_rlx(&cache->room);
}

static int free_cached(ShmActor *actor, ShmCache *cache, uint32_t tag, SlotId id, ShmFinal *final) {
        uint32_t n = shm_load_rlx(&cache->count), expected = tag; /* ORDER: rlx; ours alone. */
        int r = -ESTALE;

        shm_actor_intend(actor, shm_intent_free(tag, id));
        /* ORDER: acqrel, pairs with shm_object_copy(); all accesses to the object are before the slot is ours. */
        if (shm_cas_acqrel(shm_slot_tag(actor->arena, id), &expected, tag + 1)) {
                if (final)
                        shm_final_close(final);
                /* ORDER: rel, pairs with gather_cache(); the tag is even before (refs.c, invariant 6). */
                shm_store_rel(&cache->slots[n], id.value);
                shm_cache_set_count(cache, n + 1);
                shm_actor_count(actor, SHM_COUNT_FREES_CACHED, 1);
                r = 0;
        }
        shm_actor_intend(actor, 0);
        return r;
}

int shm_cache_free_slow(ShmActor *actor, uint64_t handle, ShmFinal *final) {
        ShmArena *arena = actor->arena;
        SlotId id = shm_handle_slot(handle);
        uint32_t tag = shm_handle_tag(arena->key, handle), epoch;
        ShmCache *cache = NULL;
        SlabWord w;
        int r;

        if (arena->read_only)
                return -EROFS;
        if (!shm_object_live(arena, handle)) {
                shm_actor_count(actor, SHM_COUNT_STALE, 1);
                return -ESTALE;
        }
        w = shm_slab_word(arena, slot_id_slab(id));
        epoch = slab_word_epoch(w);
        if (cache_is_ours(actor) && slab_word_class(w) < arena->n_classes &&
            actor->places[shm_place_index_of(w.high)].key == (w.high & SLAB_CACHED_MASK))
                cache = cache_at(actor, epoch, slab_word_class(w));
        actor->n_slots_ever = (uint64_t) shm_arena_n_slabs_ever(arena) * SHM_SLOTS_MAX;

        if (cache && has_room(actor, cache))
                r = free_cached(actor, cache, tag, id, final);
        else
                r = shm_uncached_free(actor, tag, id, final);
        if (r == -ESTALE)
                shm_actor_count(actor, SHM_COUNT_STALE, 1);
        return r;
}

bool shm_cache_drain(ShmActor *actor) {
        if (!cache_is_ours(actor))
                return actor->mode >= SHM_CACHE_OFF;
        shm_cache_drain_record(actor, actor->id, UINT64_MAX);
        return true;
}

void shm_cache_free_pending(ShmActor *actor) {
        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++) {
                /* ORDER: rlx; only this thread writes its notes. */
                uint64_t handle = shm_load_rlx(&actor->record->notes[i].handle);

                if (handle == 0)
                        continue;
                (void) shm_cache_free(actor, handle);
                (void) shm_actor_unnote(actor, handle);
        }
}

void shm_cache_leave(ShmActor *actor) {
        bool ours;

        if (!actor->record)
                return;
        shm_cache_free_pending(actor);
        shm_actor_enter(actor);
        ours = shm_cache_drain(actor);
        shm_actor_leave(actor);
        /* Either call is this thread's last access to the record: another thread may own it at once. */
        if (ours)
                shm_actor_deinit(actor);
        else
                shm_record_set_left(actor->arena, actor->id);
        *actor = (ShmActor){};
}
