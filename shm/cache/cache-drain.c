/*
 * Handle caches: emptying
 *
 * Purpose: frees the slots of a cache, and releases the slab that is held for it; of the actor's own record, or
 *   of a frozen record.
 *
 * Invariants: see shm/cache/cache.c.
 *
 * Who may do what: the owner of the record, unless it is frozen; then the maintainer.
 *
 * Crash: under FLUSH, some of the top k are free, and other threads may have claimed them already: repair
 *   checks each, then lowers the count.
 */
#include "shm/cache/cache-drain.h"

#include "shm/arch/probe.h"
#include "shm/slab/slab.h"

typedef struct Group {
        uint32_t slab;
        uint64_t mask;
} Group;

/* The slots of one slab that follow each other from slots[i] on. */
static Group cache_next_slots(const uint32_t *slots, uint32_t k, uint32_t *i) {
        Group result = {};

        do {
                /* ORDER: rlx; ours, or of a frozen record. */
                SlotId id = { shm_load_rlx(&slots[*i]) & SHM_SLOT_ID_MASK };

                if (result.mask != 0 && slot_id_slab(id) != result.slab)
                        break;
                result.slab = slot_id_slab(id);
                result.mask |= slot_id_mask(id);
        } while (++*i < k);
        return result;
}

/* Sorts k slots into one mask for each slab, by a small hash table. Returns the number of slabs. */
static uint32_t cache_group_slots(const uint32_t *slots, uint32_t k, Group *groups) {
        uint16_t table[2 * SHM_CACHE_MAX] = {};
        uint32_t n = 0, i = 0;

        while (i < k) {
                Group next = cache_next_slots(slots, k, &i);
                uint32_t at = next.slab * UINT32_C(0x9e3779b1) >> 23;

                while (table[at] != 0 && groups[table[at] - 1].slab != next.slab)
                        at = (at + 1) % (2 * SHM_CACHE_MAX);
                if (table[at] == 0) {
                        groups[n++] = (Group){ .slab = next.slab };
                        table[at] = (uint16_t) n;
                }
                groups[table[at] - 1].mask |= next.mask;
        }
        return n;
}

/* Frees k slots, by one compare-and-set for each slab. Returns the number of slabs. */
static uint32_t cache_free_slots(ShmActor *actor, const uint32_t *slots, uint32_t k) {
        uint32_t n_slabs_ever = shm_arena_n_slabs_ever(actor->arena), n;
        Group groups[SHM_CACHE_MAX];

        n = cache_group_slots(slots, k, groups);
        for (uint32_t i = 0; i < n; i++)
                if (groups[i].slab < n_slabs_ever)
                        (void) shm_slab_free_slots(actor, groups[i].slab, groups[i].mask);
        return n;
}

uint32_t shm_cache_flush(ShmActor *actor, uint32_t record, ShmCache *cache, uint32_t index, uint32_t k) {
        uint32_t n = shm_load_rlx(&cache->count), n_words; /* ORDER: rlx; ours, or of a frozen record. */

        n = n < SHM_CACHE_MAX ? n : SHM_CACHE_MAX;
        k = k < n ? k : n;
        if (k == 0)
                return 0;
        shm_actor_intend(actor, shm_intent_other(SHM_INTENT_FLUSH, record, index << 9 | k));
        n_words = cache_free_slots(actor, cache->slots + (n - k), k);
        shm_cache_set_count(cache, n - k);
        shm_actor_intend(actor, 0);
        shm_probe(flush, record, index, k, n_words);
        return n_words;
}

void shm_cache_release_held(ShmActor *actor, uint32_t record, ShmCache *cache) {
        uint32_t slab = shm_load_rlx(&cache->held) - 1; /* ORDER: rlx; ours, or of a frozen record. */
        SlabWord w;

        if (slab >= shm_arena_n_slabs_ever(actor->arena))
                return;
        w = shm_slab_word(actor->arena, slab);
        if (slab_word_state(w) == SLAB_ACTIVE && slab_word_holder(w) == record) {
                shm_actor_intend(actor, shm_intent_other(SHM_INTENT_SLAB, slab, 0));
                (void) shm_slab_release(actor, slab);
                shm_actor_intend(actor, 0);
        }
        shm_store_rel(&cache->held, 0); /* ORDER: rel; after the release; the slab word decides. */
}

/*
 * The cache begins anew, with its first capacity: others want the memory, or the thread is idle or ends. When only the
 * cache's epoch is closed this is not done, since the same threads use the id's next era.
 */
static void cache_forget_use(ShmCache *cache) {
        shm_store_rlx(&cache->room, 0); /* ORDER: rlx; ours, or of a frozen record. */
        shm_compiler_barrier(); /* the room never exceeds the capacity, even if the thread dies here */
        cache->capacity = 0;
}

/* Passes places of other epochs: a thread that works in one epoch after the other comes to have used them all. */
static void skip_epochs(ShmCacheWalk *walk, const ShmArena *arena, uint64_t epochs) {
        uint32_t size = shm_cache_group(arena->n_classes), group = walk->next / size;
        uint32_t epoch = group % arena->n_epochs, end = arena->n_epochs - epoch, n;
        uint64_t rest = epochs >> epoch;

        if (rest & 1)
                return;
        n = rest != 0 ? (uint32_t) __builtin_ctzll(rest) : end;
        walk->next = (group + (n < end ? n : end)) * size;
}

bool shm_cache_drain_next(ShmActor *actor, uint32_t record, uint64_t epochs, ShmCacheWalk *walk) {
        do {
                skip_epochs(walk, actor->arena, epochs);
                if (!shm_cache_walk_next(walk, actor->arena, record))
                        return false;
        } while (!(epochs >> walk->epoch & 1));
        shm_cache_flush(actor, record, walk->cache, walk->index, SHM_CACHE_MAX);
        shm_cache_release_held(actor, record, walk->cache);
        walk->cache->last = SHM_CACHE_LAST_NONE;
        if (epochs == UINT64_MAX)
                cache_forget_use(walk->cache);
        return true;
}

void shm_cache_drain_record(ShmActor *actor, uint32_t record, uint64_t epochs) {
        for (ShmCacheWalk walk = {}; shm_cache_drain_next(actor, record, epochs, &walk);)
                ;
}
