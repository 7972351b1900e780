/*
 * Idle threads
 *
 * Purpose: finds records that have caches, and whose owners began no operation between two looks, or that have no
 *   owner.
 *
 * Invariants
 *   1. Only a record with an even seq is found. Its owner may begin an operation at any moment: the freeze that follows
 *      is the handshake. This is only a hint which records to freeze.
 *
 * Who may do what: the maintainer reads, and writes nothing into the arena.
 *
 * Crash: nothing is left; the next maintainer looks twice before it finds anybody.
 */
#include "shm/arena/idle.h"

#include "shm/arena/record.h"

static bool has_bit(const uint64_t *bits, uint32_t i) {
        return bits[i / 64] >> i % 64 & 1;
}

static void put_bit(uint64_t *bits, uint32_t i, bool value) {
        bits[i / 64] = (bits[i / 64] & ~(UINT64_C(1) << i % 64)) | (uint64_t) value << i % 64;
}

static bool has_caches(const ShmArena *arena, const ShmRecord *r) {
        uint32_t n = (shm_arena_n_caches(arena) + 63) / 64;
        uint64_t used = 0;

        for (uint32_t i = 0; i < n; i++)
                used |= shm_load_rlx(&r->used[i]); /* ORDER: rlx; the freeze that follows orders it. */
        return used != 0;
}

static bool idle_look_at(ShmIdle *idle, const ShmArena *arena, uint32_t record) {
        const ShmRecord *r = shm_arena_record(arena, record);
        uint64_t seq = shm_hint_load(&r->seq); /* see invariant 1 */
        bool same = has_bit(idle->known, record) && idle->seqs[record] == seq;
        bool found = same && !(seq & 1) && !has_bit(idle->emptied, record) && has_caches(arena, r);

        idle->seqs[record] = seq;
        put_bit(idle->known, record, true);
        put_bit(idle->emptied, record, same && (found || has_bit(idle->emptied, record)));
        return found;
}

bool shm_idle_look(ShmIdle *idle, const ShmArena *arena, uint64_t now_usec) {
        uint32_t n = shm_arena_n_records_ever(arena), n_found = 0;

        if (!shm_idle_is_due(idle, now_usec))
                return false;
        shm_hint_store(&idle->due_usec, now_usec + SHM_IDLE_USEC);
        for (uint32_t i = 1; i < n; i++) {
                ShmRecordState state = shm_record_owner(arena, i).state;
                bool found = (state == SHM_RECORD_USED || state == SHM_RECORD_UNUSED) &&
                             idle_look_at(idle, arena, i);

                put_bit(idle->found, i, found);
                n_found += found;
        }
        return n_found > 0;
}
