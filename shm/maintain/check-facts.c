/*
 * Single facts of a check
 *
 * Purpose: finds faults that show in a single word: in the epoch table, a record, its caches, or a slab's word.
 *
 * Invariants
 *   1. No lawful operation passes through a state that is reported here, so one look is enough. Only a comparison of
 *      two words needs a second look.
 *
 * Who may do what: the checker reads, and writes nothing.
 *
 * Crash: nothing is left.
 */
#include "shm/maintain/check-facts.h"

#include <stdarg.h>
#include <stdio.h>

#include "shm/arena/cache-walk.h"
#include "shm/arena/client.h"
#include "shm/epoch/epoch.h"
#include "shm/arena/record.h"
#include "shm/slab/slab.h"

void shm_check_problem(ShmCheck *check, const char *format, ...) {
        va_list args;

        check->problems++;
        if (check->n_texts == SHM_CHECK_PROBLEMS_MAX)
                return;
        va_start(args, format);
        vsnprintf(check->texts[check->n_texts++], sizeof(check->texts[0]), format, args);
        va_end(args);
}

void shm_check_epochs(const ShmArena *arena, ShmCheck *check) {
        uint32_t current = shm_epoch_current(arena) & 0xff;

        for (uint32_t id = 0; id < arena->n_epochs; id++) {
                /* ORDER: acq; nothing hangs on it. */
                uint64_t word = shm_load_acq(&arena->header->epochs[id].word);
                uint32_t state = (uint32_t) (word >> 56);

                if (state == SHM_EPOCH_UNUSED || state > SHM_EPOCH_DRAINED)
                        shm_check_problem(check, "epoch %u: its state is %u, which is none", id, state);
        }
        if (current >= arena->n_epochs)
                shm_check_problem(check, "epoch %u is current, but there are only %u", current,
                                  arena->n_epochs);
}

/* The entry of a record's client is in use: it is taken before its records, and freed after them. */
static void check_client(const ShmArena *arena, ShmCheck *check, uint32_t record, ShmRecordOwner owner) {
        ShmClientInfo info;
        ShmRecordOwner again;

        if (owner.state != SHM_RECORD_USED && owner.state != SHM_RECORD_LEFT)
                return;
        if (shm_client_get(arena, owner.client, &info) == 0)
                return;
        again = shm_record_owner(arena, record);
        if (again.state == owner.state && again.client == owner.client && again.tid == owner.tid)
                shm_check_problem(check,
                                  "record %u: thread %u of client %u, which is not in the client table",
                                  record, owner.tid, owner.client);
}

static void check_slots(const ShmArena *arena, ShmCheck *check, uint32_t record, const ShmCacheWalk *walk) {
        uint32_t n = shm_cache_walk_count(walk), n_slots = arena->classes[walk->class].n_slots;

        for (uint32_t i = 0; i < n; i++) {
                /* ORDER: acq, pairs with pages_extend_arena(); n_slabs_ever was raised before a slot got here. */
                SlotId id = { shm_load_acq(&walk->cache->slots[i]) };

                if (slot_id_slab(id) < shm_arena_n_slabs_ever(arena) && slot_id_slot(id) < n_slots)
                        continue;
                shm_check_problem(
                        check,
                        "record %u: its cache for epoch %u, class %u holds slot %u of slab %u: no such slot",
                        record, walk->epoch, walk->class, slot_id_slot(id), slot_id_slab(id));
                return; /* one report for a cache is enough */
        }
}

static void check_cache(const ShmArena *arena, ShmCheck *check, uint32_t record, const ShmCacheWalk *walk) {
        /* ORDER: acq; each is a fact of its own. */
        uint32_t count = shm_load_acq(&walk->cache->count), held = shm_load_acq(&walk->cache->held);

        if (count > SHM_CACHE_MAX)
                shm_check_problem(
                        check,
                        "record %u: its cache for epoch %u, class %u has count %u, at most %u is possible",
                        record, walk->epoch, walk->class, count, SHM_CACHE_MAX);
        else
                check_slots(arena, check, record, walk);
        if (held > shm_arena_n_slabs_ever(arena))
                shm_check_problem(check,
                                  "record %u: its cache for epoch %u, class %u holds slab %u: no such slab",
                                  record, walk->epoch, walk->class, held - 1);
}

void shm_check_record(const ShmArena *arena, ShmCheck *check, uint32_t record) {
        ShmRecordOwner owner = shm_record_owner(arena, record);

        if (owner.state > SHM_RECORD_LEFT)
                shm_check_problem(check, "record %u: its state is %u, which is none", record,
                                  (unsigned) owner.state);
        else if (record > 0)
                check_client(arena, check, record, owner);
        if (record > 0 && (owner.state == SHM_RECORD_UNUSED || owner.state > SHM_RECORD_LEFT))
                return;
        for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, arena, record);)
                check_cache(arena, check, record, &walk);
}

const char *shm_check_word(const ShmArena *arena, SlabWord w) {
        SlabState state = slab_word_state(w);
        uint64_t tail_mask = shm_slab_class(arena, w)->tail_mask;

        if (state >= _SLAB_STATE_N)
                return "its state is none";
        if (slab_word_class(w) >= arena->n_classes)
                return "its class is none";
        if (slab_word_epoch(w) >= arena->n_epochs)
                return "its epoch is none";
        if (state != SLAB_ACTIVE && state != SLAB_BUSY && slab_word_holder(w) != 0)
                return "it names a holder";
        if (!shm_check_in_use(state))
                return w.low != 0 ? "its bitmap is not empty" : NULL;
        if ((w.low & tail_mask) != tail_mask)
                return "slots beyond its class's count are free";
        if (w.low == tail_mask && (state == SLAB_PARTIAL || state == SLAB_DRAINING))
                return "no slot is taken";
        if (w.low == UINT64_MAX && state == SLAB_PARTIAL)
                return "all slots are taken";
        if (w.low != UINT64_MAX && state == SLAB_FULL)
                return "slots are free";
        return NULL;
}

const char *shm_check_holder(const ShmArena *arena, const ShmRefs *refs, uint32_t slab, SlabWord w) {
        SlabState state = slab_word_state(w);
        uint32_t holder = slab_word_holder(w);
        ShmRecordState record_state;

        if (state != SLAB_ACTIVE && state != SLAB_BUSY)
                return NULL;
        if (holder >= shm_arena_n_records_ever(arena))
                return "its holder is no record";
        record_state = shm_record_owner(arena, holder).state;
        if (holder != 0 && (record_state == SHM_RECORD_UNUSED || record_state > SHM_RECORD_LEFT))
                return "its holder's record is not in use";
        if (state == SLAB_BUSY && !shm_refs_at(refs, slab).run)
                return "nobody is at work on its pages";
        return NULL;
}
