/*
 * The attention words
 *
 * Purpose: how a change of the epoch table, and the request to leave its caches alone, reach a thread.
 *
 * Invariants
 *   1. `attention` is written by the maintainer alone; it rises, but for the freeze bit.
 *   2. A thread reads its record's word after its seq went odd, and copies the epochs anew where it changed.
 *
 * Who may do what: the maintainer writes, the owner of a record reads.
 *
 * Crash: some records have the new version, some do not: the next maintainer publishes anew.
 */
#include "shm/epoch/attention.h"

#include "shm/arena/record.h"

#define VERSION_ONE UINT64_C(2) /* above the freeze bit */

uint64_t shm_attention_next_version(ShmArena *arena) {
        uint64_t *version = &arena->header->attention.value;
        /* ORDER: rlx; the maintainer's alone. */
        uint64_t v = (shm_load_rlx(version) & ~SHM_ATTENTION_FREEZE) + VERSION_ONE;

        shm_store_rlx(version, v); /* ORDER: rlx; the maintainer's alone. */
        return v;
}

uint64_t shm_attention_load(const ShmArena *arena, uint32_t record) {
        /* ORDER: rlx; the maintainer's alone. */
        return shm_load_rlx(&shm_arena_record(arena, record)->attention);
}

void shm_attention_store(ShmArena *arena, uint32_t record, uint64_t attention) {
        /* ORDER: rel, pairs with shm_cache_alloc_hit(); epochs changed, caches emptied before. */
        shm_store_rel(&shm_arena_record(arena, record)->attention, attention);
}

void shm_attention_publish(ShmArena *arena) {
        uint64_t version = shm_attention_next_version(arena);

        /* ORDER: sc; a record that is taken after n_records_ever was read sees the epochs as they are now. */
        shm_fence_sc();
        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++)
                shm_attention_store(arena, i,
                                    version | (shm_attention_load(arena, i) & SHM_ATTENTION_FREEZE));
}
