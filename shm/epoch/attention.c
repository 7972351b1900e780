/*
 * The attention words
 *
 * Purpose: tells threads that the epoch table changed, or that they must not use their caches.
 *
 * Invariants
 *   1. Only the maintainer writes `attention`; it only rises, apart from the freeze bit.
 *   2. A thread reads the word of its record after its seq became odd, and copies the epochs again if it changed.
 *
 * Who may do what: the maintainer writes, the owner of a record reads.
 *
 * Crash: some records have the new version and some do not: the next maintainer publishes again.
 */
#include "shm/epoch/attention.h"

#include "shm/arena/record.h"

#define VERSION_ONE UINT64_C(2) /* above the freeze bit */

uint64_t shm_attention_next_version(ShmArena *arena) {
        uint64_t *version = &arena->header->attention.value;
        /* ORDER: rlx; only the maintainer uses it. */
        uint64_t v = (shm_load_rlx(version) & ~SHM_ATTENTION_FREEZE) + VERSION_ONE;

        shm_store_rlx(version, v); /* ORDER: rlx; only the maintainer uses it. */
        return v;
}

uint64_t shm_attention_load(const ShmArena *arena, uint32_t record) {
        /* ORDER: rlx; only the maintainer writes it. */
        return shm_load_rlx(&shm_arena_record(arena, record)->attention);
}

void shm_attention_store(ShmArena *arena, uint32_t record, uint64_t attention) {
        /* ORDER: rel, pairs with shm_cache_alloc_hit(); the change of the epochs, or the emptying, is before. */
        shm_store_rel(&shm_arena_record(arena, record)->attention, attention);
}

void shm_attention_publish(ShmArena *arena) {
        uint64_t version = shm_attention_next_version(arena);

        /* ORDER: sc; the owner of a record taken after n_records_ever is read here sees the changed epochs. */
        shm_fence_sc();
        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++)
                shm_attention_store(arena, i,
                                    version | (shm_attention_load(arena, i) & SHM_ATTENTION_FREEZE));
}
