/*
 * Who names which slot
 *
 * Purpose: one picture of all caches and intents, linear in what they hold, however full of lies:
 *   memory goes by the number of slabs, not by what records claim to hold.
 *
 * Invariants
 *   1. A slot whose bit, tag and slab's gen are the same before and after the gathering was in one
 *      place meanwhile, or moved within one record: claims raise gen, allocating and freeing change
 *      the tag. Within a record the intent names the slot before it leaves its place and until it
 *      is in the next (shm/layout.h), so intent, caches, intent do not miss it.
 *   2. A slot that is live and in a cache is so lawfully only inside an operation that began before
 *      its tag was read: `seq` of the owner is odd, or the cache's count has been lowered.
 *   3. Nothing that is read here leads outside: slots of slabs at or above n_slabs are left out, so
 *      is what is no slot of its cache's class.
 *
 * Who may do what: it reads, and writes nothing.
 *
 * Crash: nothing is left.
 */
#include "shm/maintain/named.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shm/cache-walk.h"
#include "shm/intent.h"
#include "shm/record.h"
#include "shm/slab.h"

typedef struct Gathering {
        ShmNamed *named;
        const ShmArena *arena;
        uint32_t record;
        bool alive; /* its owner may be: what its caches hold is held */
        bool inside;
        ShmIntent intent;
} Gathering;

static void touch(ShmNamed *named, const ShmArena *arena, uint32_t slab) {
        uint32_t index = slab;

        for (uint32_t level = arena->shape.n_levels; level > 0; level--) {
                named->touched[arena->shape.level_off[level - 1] + index / 64] |= UINT64_C(1) << index % 64;
                index /= 64;
        }
}

bool shm_named_touches(const ShmNamed *named, const ShmArena *arena, uint32_t slab, uint32_t level) {
        uint32_t index = slab >> 6 * (arena->shape.n_levels - 1 - level);

        return named->touched[arena->shape.level_off[level] + index / 64] >> index % 64 & 1;
}

static uint32_t load_tag(const ShmArena *arena, SlotId id) {
        /* ORDER: acq, pairs with shm_object_free_uncached(); after the intent that says which tag it is to have. */
        return shm_load_acq(shm_slot_tag(arena, id));
}

/* Of a slab below n_slabs, as in gather_slot(). */
static void gather_unsure(const Gathering *g, SlotId id) {
        g->named->slabs[slot_id_slab(id)].unsure |= slot_id_mask(id);
        touch(g->named, g->arena, slot_id_slab(id));
}

/* Hostile runs could cover everything 4096 times over; lawful ones do not overlap. */
static void gather_run(const Gathering *g, uint32_t slab, uint64_t n) {
        ShmNamed *named = g->named;

        n = n < named->n_slabs - slab ? n : named->n_slabs - slab;
        n = n < named->run_budget ? n : named->run_budget;
        named->run_budget -= n;
        for (uint64_t i = slab; i < slab + n; i++) {
                named->slabs[i].run = 1;
                touch(named, g->arena, (uint32_t) i);
        }
}

static void gather_intent(const Gathering *g, ShmIntent intent) {
        uint32_t slab = slot_id_slab(intent.id);

        if (intent.kind == SHM_INTENT_NONE || slab >= g->named->n_slabs)
                return;
        if (intent.kind == SHM_INTENT_RUN) {
                gather_run(g, slab, intent.arg);
        } else if (intent.kind != SHM_INTENT_FLUSH) {
                touch(g->named, g->arena, slab);
                if (intent.kind == SHM_INTENT_CLAIM)
                        g->named->slabs[slab].unsure |= intent.mask;
                /* A FREE that lost its race, or has not begun, says nothing of the slot. */
                if (intent.kind == SHM_INTENT_TAKE ||
                    (intent.kind == SHM_INTENT_FREE && load_tag(g->arena, intent.id) == intent.tag + 1))
                        gather_unsure(g, intent.id);
        }
}

static void gather_note(const Gathering *g, uint64_t handle) {
        SlotId id = shm_handle_slot(handle);
        uint32_t tag;

        if (handle == 0 || !shm_handle_plausible(g->arena, handle) || slot_id_slab(id) >= g->named->n_slabs)
                return;
        tag = load_tag(g->arena, id);
        if (tag + 1 == shm_handle_tag(g->arena->key, handle) ||
            tag == shm_handle_tag(g->arena->key, handle) + 1)
                gather_unsure(g, id);
}

static void gather_slot(const Gathering *g, const ShmCacheWalk *walk, SlotId id) {
        ShmNamedSlab *slab = &g->named->slabs[slot_id_slab(id)];
        SlabWord w = shm_slab_word(g->arena, slot_id_slab(id));
        uint64_t bit = slot_id_mask(id);

        if (slab_word_class(w) != walk->class || slab_word_epoch(w) != walk->epoch)
                slab->misfiled |= bit;
        if ((slab->cached | slab->inside) & bit)
                slab->twice |= bit;
        if (g->inside)
                slab->inside |= bit;
        else
                slab->cached |= bit;
}

/* By its owner, or, when that is frozen, by control. */
static uint32_t flushed(const Gathering *g, const ShmCacheWalk *walk) {
        uint32_t own = shm_intent_flushed(g->intent, g->record, walk->index);
        uint32_t control = shm_intent_flushed(shm_record_intent(g->arena, 0), g->record, walk->index);

        return own > control ? own : control;
}

static void gather_cache(const Gathering *g, const ShmCacheWalk *walk) {
        uint32_t n = shm_cache_walk_count(walk), top = flushed(g, walk);

        for (uint32_t i = n; i > 0; i--) {
                /* ORDER: acq, pairs with shm_cache_free_hit(); downwards, as a thread that allocates goes. */
                SlotId id = { shm_load_acq(&walk->cache->slots[i - 1]) };

                if (slot_id_slab(id) >= g->named->n_slabs ||
                    slot_id_slot(id) >= g->arena->classes[walk->class].n_slots)
                        continue;
                if (!g->alive || n - i < top)
                        gather_unsure(g, id);
                else
                        gather_slot(g, walk, id);
        }
}

static void gather_record(Gathering *g) {
        const ShmRecord *r = shm_arena_record(g->arena, g->record);

        /* ORDER: acq, pairs with shm_actor_leave(); before the caches (invariant 2). */
        g->inside = shm_load_acq(&r->seq) & 1;
        g->intent = shm_record_intent(g->arena, g->record);
        gather_intent(g, g->intent);
        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++)
                /* ORDER: acq, pairs with shm_actor_note(); in front of the caches, like the intent. */
                gather_note(g, shm_load_acq(&r->notes[i].handle));
        for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, g->arena, g->record);)
                gather_cache(g, &walk);
        gather_intent(g, shm_record_intent(g->arena, g->record));
}

/* Record 0 is the daemon's, whatever its head says. */
static bool in_use(uint32_t record, ShmRecordState state) {
        return record == 0 || (state > SHM_RECORD_UNUSED && state <= SHM_RECORD_LEFT);
}

int shm_named_init(ShmNamed *named, const ShmArena *arena, uint32_t n_slabs) {
        Gathering g = { .named = named, .arena = arena };
        uint32_t n_records = shm_arena_n_records_ever(arena);

        *named = (ShmNamed){ .n_slabs = n_slabs,
                             .run_budget = 2 * (uint64_t) n_slabs + 128 * (uint64_t) n_records };
        named->slabs = calloc(n_slabs > 0 ? n_slabs : 1, sizeof(*named->slabs));
        named->touched = calloc(arena->shape.stride, sizeof(*named->touched));
        if (!named->slabs || !named->touched)
                return -ENOMEM;

        for (g.record = 0; g.record < n_records; g.record++) {
                ShmRecordState state = shm_record_owner(arena, g.record).state;

                /* What record 0 keeps is in question: it has no use for caches. */
                g.alive = g.record > 0 && (state == SHM_RECORD_USED || state == SHM_RECORD_LEFT);
                if (in_use(g.record, state))
                        gather_record(&g);
        }
        return 0;
}

void shm_named_deinit(ShmNamed *named) {
        free(named->slabs);
        free(named->touched);
        *named = (ShmNamed){};
}

static bool has_slot(const ShmCacheWalk *walk, SlotId id) {
        for (uint32_t i = 0, n = shm_cache_walk_count(walk); i < n; i++)
                /* ORDER: rlx; for a text. */
                if (shm_load_rlx(&walk->cache->slots[i]) == id.value)
                        return true;
        return false;
}

uint32_t shm_named_find(const ShmArena *arena, SlotId id, uint32_t ret_records[2]) {
        uint32_t n = 0;

        for (uint32_t record = 0; record < shm_arena_n_records_ever(arena); record++) {
                if (!in_use(record, shm_record_owner(arena, record).state))
                        continue;
                for (ShmCacheWalk walk = {}; n < 2 && shm_cache_walk_next(&walk, arena, record);)
                        if (has_slot(&walk, id))
                                ret_records[n++] = record;
        }
        return n;
}
