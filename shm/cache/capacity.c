/*
 * How large a cache is, and whether it pays
 *
 * Purpose: doubles a cache while it is refilled, or flushed, again and again. If a cache serves hardly any operation,
 *   operations go past it for a while. A cache becomes small again when its record is emptied as a whole, as happens to
 *   records of idle threads.
 *
 * Invariants
 *   1. `room` is the capacity, or 0 while frees go past the cache.
 *   2. A record's `used` bit of a cache is set before the cache is first written.
 *
 * Who may do what: the owner of the record, while it is not frozen.
 *
 * Crash: repair relies on nothing that is written here, except the `used` bit, which may be set though the cache is
 *   empty.
 */
#include "shm/cache/capacity.h"

#include "shm/cache/cache-drain.h"

/* Bounds caches of large classes, see capacity_bytes_max(). */
#define CAPACITY_BYTES 196608U
/* The bound in a large pool, whose maps may have values of this size: a put fills chunks from the cache. */
#define CAPACITY_BYTES_MAX (UINT32_C(1) << 20)
#define WINDOW 256 /* slots, or slab words, after which a window is full */
#define BYPASS 8192 /* operations that then go past a cache that did not pay */
#define RARE 16 /* a cache that moves one slot in so many hits of its thread, or fewer, is large enough */

static uint32_t window_hits(const ShmActor *actor, const ShmCacheWindow *window, ShmCounter counter) {
        /* ORDER: rlx; our own count. */
        return (uint32_t) shm_load_rlx(&actor->record->counters[counter]) - window->hits;
}

static void window_begin(const ShmActor *actor, ShmCacheWindow *window, ShmCounter counter) {
        window->hits += window_hits(actor, window, counter);
        window->n_words = window->n_slots = 0;
}

void shm_cache_begin_use(ShmActor *actor, ShmCache *cache) {
        shm_record_use_cache(actor->record, shm_cache_index(actor, cache));
        window_begin(actor, &cache->alloc, SHM_COUNT_ALLOC_HITS);
        window_begin(actor, &cache->free, SHM_COUNT_FREES_CACHED);
        cache->capacity = SHM_CACHE_CAPACITY_START;
        shm_store_rlx(&cache->room, SHM_CACHE_CAPACITY_START); /* ORDER: rlx; ours alone. */
}

/*
 * The most bytes of slots that a cache may have: a 64th of the pool, up to CAPACITY_BYTES; or a 256th if that is more,
 * up to CAPACITY_BYTES_MAX.
 */
static uint64_t capacity_bytes_max(const ShmArena *arena) {
        uint64_t size = (uint64_t) arena->n_slabs * SHM_SLAB_SIZE;

        if (size / 256 > CAPACITY_BYTES_MAX)
                return CAPACITY_BYTES_MAX;
        if (size / 256 > CAPACITY_BYTES)
                return size / 256;
        return size / 64 < CAPACITY_BYTES ? size / 64 : CAPACITY_BYTES;
}

/* A thread that uses large classes keeps no more memory from others than a thread that uses small ones. */
static bool may_grow(const ShmActor *actor, const ShmCache *cache) {
        uint32_t class = shm_arena_cache_class(actor->arena, shm_cache_index(actor, cache));

        return cache->capacity < SHM_CACHE_MAX && class < actor->arena->n_classes &&
               2 * cache->capacity * actor->arena->classes[class].size <= capacity_bytes_max(actor->arena);
}

/* Whether as many slots as the cache has room for were moved lately, several by each change of a slab word. */
static bool window_is_lively(const ShmActor *actor, const ShmCacheWindow *window, ShmCounter counter,
                             uint32_t capacity) {
        return window->n_slots >= capacity && window->n_slots >= 2 * window->n_words &&
               window_hits(actor, window, counter) / RARE <= window->n_slots;
}

void shm_cache_adapt_capacity(const ShmActor *actor, ShmCache *cache, uint32_t event) {
        bool alternates = cache->last != SHM_CACHE_LAST_NONE && cache->last != event;
        bool lively =
                event == SHM_CACHE_LAST_REFILL
                        ? window_is_lively(actor, &cache->alloc, SHM_COUNT_ALLOC_HITS, cache->capacity)
                        : window_is_lively(actor, &cache->free, SHM_COUNT_FREES_CACHED, cache->capacity);

        if ((alternates || lively) && may_grow(actor, cache)) {
                cache->capacity *= 2;
                if (cache->free.bypass == 0)
                        shm_store_rlx(&cache->room, cache->capacity); /* ORDER: rlx; ours alone. */
        }
        cache->last = event;
}

bool shm_cache_end_window(ShmActor *actor, ShmCacheWindow *window, ShmCounter counter) {
        uint32_t hits = window_hits(actor, window, counter);
        bool pays = hits > window->n_slots + hits / 50 || window->n_slots >= 2 * window->n_words;

        if (window->n_slots < WINDOW && window->n_words < WINDOW)
                return false;
        window_begin(actor, window, counter);
        if (pays || actor->mode != SHM_CACHE_ADAPTIVE)
                return false;
        window->bypass = BYPASS;
        shm_actor_count(actor, SHM_COUNT_BYPASS_WINDOWS, 1);
        return true;
}
