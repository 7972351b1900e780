/*
 * Repair
 *
 * Purpose: ends the operations in which threads died, and gives back the slots and slabs of these threads.
 *
 * Invariants
 *   1. All DEAD records are rolled back before the slots of any are checked (shm/maintain/rollback.h). Those that
 *      wait for guards (4) stay DEAD until all are, so that they wait once.
 *   2. A slot stays in the record until it was checked. Checking it twice does no harm: the second check finds a
 *      slot that went back free, or owned.
 *   3. A record is UNUSED last, when it is empty and thawed.
 *   4. An object that a dead thread names may be over though nobody closed its words (ShmFinal): the thread died before
 *      it did so, or the rollback, or a revocation that is not fenced yet, made the tag even. So a fence comes between
 *      that and the gathering of guards: a thread that changes these words sees the even tag, or its guard is seen. It
 *      comes before the record is ROLLED_BACK, since from then on a revocation may give such a slot back, which gathers
 *      as well. Another comes before the slots are checked if tags were made even since: by a revocation. If a
 *      thread does that and dies, its own record names the slot until it is rolled back.
 *
 * Who may do what: the maintainer repairs records whose owners are dead, and before them record 0, its own.
 *
 * Crash: if the maintainer dies, the record is DEAD or ROLLED_BACK as before; record 0 names a slab whose hints may
 *   be missing, or that is pinned. The next maintainer begins anew.
 */
#include "shm/maintain/repair.h"

#include "shm/arch/probe.h"
#include "shm/arena/note.h"
#include "shm/cache/cache-drain.h"
#include "shm/cache/cache-hit.h"
#include "shm/maintain/freeze.h"
#include "shm/maintain/hints.h"
#include "shm/maintain/rollback.h"
#include "shm/slab/pages.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"

static bool tag_is(const ShmArena *arena, SlotId id, uint32_t tag) {
        if (slot_id_slab(id) >= shm_arena_n_slabs_ever(arena))
                return false;
        /* ORDER: acq, pairs with shm_uncached_free(); a free that changed it is over. */
        return shm_load_acq(shm_slot_tag(arena, id)) == tag;
}

static const ShmEdge edges[] = {
        { SHM_REPAIR_ROLLBACK, SHM_REPAIR_EV_NEXT, SHM_REPAIR_ROLLBACK },
        { SHM_REPAIR_ROLLBACK, SHM_REPAIR_EV_NONE, SHM_REPAIR_COLLECT },
        { SHM_REPAIR_COLLECT, SHM_REPAIR_EV_NEXT, SHM_REPAIR_CHECK },
        { SHM_REPAIR_CHECK, SHM_REPAIR_EV_NEXT, SHM_REPAIR_SETTLE },
        { SHM_REPAIR_SETTLE, SHM_REPAIR_EV_NEXT, SHM_REPAIR_COLLECT },
        { SHM_REPAIR_COLLECT, SHM_REPAIR_EV_NONE, SHM_REPAIR_DONE },
};

const ShmEdges shm_repair_edges = SHM_EDGES(edges);

/* Slots in question */

static bool is_freed(const ShmArena *arena, ShmIntent intent) {
        return intent.kind == SHM_INTENT_FREE && tag_is(arena, intent.id, intent.tag + 1);
}

/* The next note that names an object that is over, or the guard, which is the last one. 0: there is none. */
static uint64_t next_ended(const ShmArena *arena, const ShmRecord *r, uint32_t *i) {
        while (*i <= SHM_NOTES_MAX) {
                /* ORDER: rlx; the owner is dead. */
                uint64_t handle = *i < SHM_NOTES_MAX ? shm_record_note(r, *i) : shm_load_rlx(&r->guard);

                ++*i;
                if (handle != 0 &&
                    tag_is(arena, shm_handle_slot(handle), shm_handle_tag(arena->key, handle) + 1))
                        return handle;
        }
        return 0;
}

/* Whether the dead thread names an object that is over. */
static bool names_ended(const ShmArena *arena, uint32_t record) {
        uint32_t i = 0;

        return is_freed(arena, shm_record_intent(arena, record)) ||
               next_ended(arena, shm_arena_record(arena, record), &i) != 0;
}

/*
 * Guards of objects that are over are seen after this (invariant 4). It may sleep for 1 ms, and leaves no budget then:
 * a step sleeps once.
 */
static void await_guards(const ShmActor *control, ShmRepair *repair, uint32_t *budget) {
        shm_freeze_fence_all(control);
        repair->fenced = true;
        *budget = 0;
}

void shm_repair_fence_again(ShmRepair *repair) {
        repair->fenced = false;
}

/* Slots that the intent and the notes of a dead thread put in question. */
static void add_named(const ShmArena *arena, ShmReach *reach, uint32_t record) {
        ShmIntent intent = shm_record_intent(arena, record);
        uint64_t handle;

        if (intent.kind == SHM_INTENT_CLAIM)
                (void) shm_reach_add(reach, slot_id_slab(intent.id), intent.mask);
        if (intent.kind == SHM_INTENT_TAKE || is_freed(arena, intent))
                (void) shm_reach_add_slot(reach, intent.id);
        for (uint32_t i = 0; (handle = next_ended(arena, shm_arena_record(arena, record), &i)) != 0;)
                (void) shm_reach_add_slot(reach, shm_handle_slot(handle));
}

/* False: there is no room for all of its slots. */
static bool add_cache(ShmReach *reach, const ShmCacheWalk *walk) {
        uint32_t n = shm_cache_walk_count(walk);

        for (uint32_t i = 0; i < n; i++)
                if (!shm_reach_add_slot(reach, shm_cache_walk_slot(walk, i)))
                        return false;
        return true;
}

static void count_checked(const ShmReach *reach, ShmRepairCounts *counts) {
        for (uint32_t i = 0; i < reach->refs.n; i++) {
                counts->slots += (uint64_t) __builtin_popcountll(reach->slabs[i].lost);
                counts->in_flight += (uint64_t) __builtin_popcountll(shm_reach_in_flight(reach, i));
        }
}

static bool is_in_flight(const ShmReach *reach, SlotId id) {
        int index = shm_refs_index(&reach->refs, slot_id_slab(id));

        return index >= 0 && (shm_reach_in_flight(reach, (uint32_t) index) & slot_id_mask(id)) != 0;
}

static uint64_t repair_release_slab(ShmActor *control, uint32_t record, uint32_t slab) {
        SlabWord w;

        if (slab >= shm_arena_n_slabs_ever(control->arena))
                return 0;
        w = shm_slab_word(control->arena, slab);
        if (slab_word_state(w) != SLAB_ACTIVE || slab_word_holder(w) != record)
                return 0;
        shm_actor_intend(control, shm_intent_other(SHM_INTENT_SLAB, slab, 0));
        (void) shm_slab_release(control, slab);
        shm_actor_intend(control, 0);
        return 1;
}

/* Slots that are in flight stay, at the bottom. Ids may move: nobody reads the caches of a ROLLED_BACK record. */
static void settle_cache(ShmActor *control, ShmRepair *repair, const ShmReach *reach,
                         const ShmCacheWalk *walk) {
        uint32_t n = shm_cache_walk_count(walk), n_kept = 0, held;

        for (uint32_t i = 0; i < n; i++) {
                SlotId id = shm_cache_walk_slot(walk, i);

                if (is_in_flight(reach, id)) {
                        /* ORDER: rlx; ordered by the count. */
                        shm_store_rlx(&walk->cache->slots[n_kept], id.value);
                        n_kept++;
                }
                if (slot_id_slab(id) < shm_arena_n_slabs_ever(control->arena))
                        shm_hints_repair(control->arena, slot_id_slab(id));
        }
        if (n > 0)
                shm_cache_set_count(walk->cache, n_kept);
        held = shm_load_rlx(&walk->cache->held); /* ORDER: rlx; the owner is dead. */
        repair->counts.slabs += repair_release_slab(control, repair->record, held - 1);
        shm_store_rlx(&walk->cache->held, 0); /* ORDER: rlx; before the record is free. */
        walk->cache->last = SHM_CACHE_LAST_NONE;
}

/* Ends the operation that the record's intent names, once its slots were checked. */
static void settle_intent(ShmActor *control, uint32_t record, ShmRepairCounts *counts) {
        ShmIntent intent = shm_record_intent(control->arena, record);

        if (intent.kind == SHM_INTENT_RUN)
                counts->slabs += shm_pages_undo(control, record, slot_id_slab(intent.id), intent.arg);
        if (intent.kind == SHM_INTENT_CLAIM || intent.kind == SHM_INTENT_SLAB)
                counts->slabs += repair_release_slab(control, record, slot_id_slab(intent.id));
        shm_hints_repair_intent(control->arena, intent);
}

static void free_record(ShmActor *control, ShmRepair *repair) {
        ShmRecord *r = shm_arena_record(control->arena, repair->record);
        uint64_t attention = shm_load_rlx(&r->attention); /* ORDER: rlx; the maintainer's alone. */

        shm_rollback_forget(r);
        shm_store_rlx(&r->intent_what, 0); /* ORDER: rlx; before the record is free. */
        shm_store_rlx(&r->attention, attention & ~SHM_ATTENTION_FREEZE); /* ORDER: rlx; the same. */
        if (!shm_record_set_unused(control->arena, repair->record))
                return;
        repair->counts.records++;
        shm_probe(repair, repair->record, repair->counts.slots, repair->counts.objects);
}

/* The pass */

/* Record 0 counts as ROLLED_BACK: it has the slots that were in flight when an earlier maintainer died. */
static bool is_in(const ShmArena *arena, uint32_t record, ShmRecordState state) {
        if (record == 0)
                return state == SHM_RECORD_ROLLED_BACK;
        return shm_record_owner(arena, record).state == state;
}

static bool find_record(const ShmArena *arena, ShmRepair *repair, ShmRecordState state) {
        for (; repair->record < shm_arena_n_records_ever(arena); repair->record++)
                if (is_in(arena, repair->record, state))
                        return true;
        return false;
}

static void next_record(ShmRepair *repair) {
        repair->record++;
        repair->begun = false;
}

/* Ends the rollback of the records that wait for guards. */
static void end_rollbacks(const ShmActor *control, ShmRepair *repair, uint32_t *budget) {
        if (!repair->any_waits)
                return;
        await_guards(control, repair, budget);
        for (uint32_t i = 0; i < SHM_RECORDS_MAX / 64; i++)
                for (uint64_t rest = repair->waits[i]; rest != 0; rest &= rest - 1)
                        shm_record_set_rolled_back(control->arena, i * 64 + (uint32_t) __builtin_ctzll(rest));
}

static ShmRepairEvent roll_back(ShmActor *control, ShmRepair *repair, uint32_t *budget) {
        ShmArena *arena = control->arena;

        if (!repair->begun) {
                if (!find_record(arena, repair, SHM_RECORD_DEAD)) {
                        end_rollbacks(control, repair, budget);
                        repair->record = 0;
                        return SHM_REPAIR_EV_NONE;
                }
                repair->begun = true;
                repair->to = (ShmCacheWalk){};
        } else if (shm_cache_walk_next(&repair->to, arena, repair->record)) {
                repair->counts.objects += shm_rollback_cache(arena, repair->record, &repair->to);
        } else {
                repair->counts.objects += shm_rollback_named(control, repair->record);
                shm_rollback_paths(control, repair->record);
                if (names_ended(arena, repair->record)) {
                        repair->waits[repair->record / 64] |= UINT64_C(1) << repair->record % 64;
                        repair->any_waits = true;
                } else {
                        shm_record_set_rolled_back(arena, repair->record);
                }
                next_record(repair);
        }
        return SHM_REPAIR_EV_NEXT;
}

/* A cache for which there is not enough room is begun anew by the next check. */
static bool add_caches(const ShmArena *arena, ShmRepair *repair, ShmReach *reach) {
        ShmCacheWalk before = repair->to;
        bool any = false;

        while (shm_cache_walk_next(&repair->to, arena, repair->record)) {
                if (reach->refs.n + shm_cache_walk_count(&repair->to) > SHM_REFS_MAX && any) {
                        repair->to = before;
                        return true;
                }
                (void) add_cache(reach, &repair->to);
                any = true;
                before = repair->to;
        }
        return any;
}

static ShmRepairEvent repair_collect_slots(ShmActor *control, ShmRepair *repair, ShmReach *reach,
                                           uint32_t *budget) {
        const ShmArena *arena = control->arena;
        bool first = !repair->begun;

        if (first && !find_record(arena, repair, SHM_RECORD_ROLLED_BACK))
                return SHM_REPAIR_EV_NONE;
        shm_reach_init(reach, control);
        if (first) {
                repair->begun = true;
                repair->record_in_flight = 0;
                repair->to = (ShmCacheWalk){};
                if (repair->record > 0)
                        add_named(arena, reach, repair->record);
                if (repair->record > 0 && !repair->fenced && names_ended(arena, repair->record))
                        await_guards(control, repair, budget);
        }
        repair->from = repair->to;
        (void) add_caches(arena, repair, reach);
        return SHM_REPAIR_EV_NEXT;
}

/* Whether the record has caches that were not checked yet. */
static bool has_more(const ShmArena *arena, const ShmRepair *repair) {
        ShmCacheWalk walk = repair->to;

        return shm_cache_walk_next(&walk, arena, repair->record);
}

static ShmRepairEvent repair_settle_record(ShmActor *control, ShmRepair *repair, const ShmReach *reach) {
        const ShmArena *arena = control->arena;
        uint64_t before = repair->counts.in_flight;
        ShmCacheWalk walk = repair->from;

        count_checked(reach, &repair->counts);
        repair->record_in_flight += repair->counts.in_flight - before;
        while (walk.next < repair->to.next && shm_cache_walk_next(&walk, arena, repair->record))
                settle_cache(control, repair, reach, &walk);
        if (has_more(arena, repair))
                return SHM_REPAIR_EV_NEXT;
        if (repair->record > 0) {
                settle_intent(control, repair->record, &repair->counts);
                if (repair->record_in_flight == 0)
                        free_record(control, repair);
        }
        next_record(repair);
        return SHM_REPAIR_EV_NEXT;
}

bool shm_repair_step(ShmActor *control, ShmRepair *repair, ShmReach *reach, uint32_t *budget) {
        while (*budget > 0 && repair->state != SHM_REPAIR_DONE) {
                ShmRepairEvent event = SHM_REPAIR_EV_NEXT;

                switch (repair->state) {
                case SHM_REPAIR_ROLLBACK:
                        event = roll_back(control, repair, budget);
                        break;
                case SHM_REPAIR_COLLECT:
                        event = repair_collect_slots(control, repair, reach, budget);
                        break;
                case SHM_REPAIR_CHECK:
                        if (!shm_reach_step(reach, budget))
                                return false;
                        break;
                default:
                        event = repair_settle_record(control, repair, reach);
                }
                repair->state = (ShmRepairState) shm_edge_to(shm_repair_edges, repair->state, event);
                *budget -= SHM_CACHE_MAX < *budget ? SHM_CACHE_MAX : *budget;
        }
        return repair->state == SHM_REPAIR_DONE;
}

/* The maintainer's own */

static bool record_holds_intent(const ShmCache *cache, uint32_t n, SlotId id) {
        for (uint32_t i = 0; i < n; i++)
                /* ORDER: rlx; the maintainer's alone. */
                if (shm_load_rlx(&cache->slots[i]) == id.value)
                        return true;
        return false;
}

static void keep_slot(ShmActor *control, SlotId id, SlabWord w) {
        uint32_t index = shm_arena_cache_index(control->arena, slab_word_epoch(w), slab_word_class(w)), n;
        ShmCacheWalk walk = { .cache = shm_arena_cache_at(control->arena, 0, index) };

        n = shm_cache_walk_count(&walk);
        if (n == SHM_CACHE_MAX || record_holds_intent(walk.cache, n, id))
                return;
        shm_record_use_cache(control->record, index);
        shm_store_rlx(&walk.cache->slots[n], id.value); /* ORDER: rlx; ordered by the count. */
        shm_cache_set_count(walk.cache, n + 1);
}

/*
 * Parks slots that are in flight in record 0. Idempotent, so a death here may repeat it. If the cache is full, since
 * more maintainers died than it has slots, the slot is left to the check.
 */
static void keep_in_flight(ShmActor *control, const ShmReach *reach) {
        for (uint32_t i = 0; i < reach->refs.n; i++) {
                uint32_t slab = shm_refs_slab(&reach->refs, i);
                SlabWord w = shm_slab_word(control->arena, slab);
                uint64_t rest = shm_reach_in_flight(reach, i) & shm_slab_view_taken(control->arena, w);

                for (; rest != 0; rest &= rest - 1)
                        keep_slot(control, slot_id(slab, (uint32_t) __builtin_ctzll(rest)), w);
        }
}

static void check_and_keep(ShmActor *control, ShmReach *reach, ShmRepairCounts *counts) {
        (void) shm_reach_run(reach);
        count_checked(reach, counts);
        keep_in_flight(control, reach);
        for (uint32_t i = 0; i < reach->refs.n; i++)
                shm_hints_repair(control->arena, shm_refs_slab(&reach->refs, i));
}

/* FLUSH stands only while the maintainer may write the cache: the owner is frozen, has left the record, or is dead. */
static void end_flush(ShmActor *control, ShmReach *reach, ShmIntent intent, ShmRepairCounts *counts) {
        uint32_t record = slot_id_slab(intent.id), index = intent.arg >> 9, k = intent.arg & 0x1ff, n;
        const ShmArena *arena = control->arena;
        ShmCacheWalk walk;

        if (record >= shm_arena_n_records_ever(arena) || index >= shm_arena_n_caches(arena))
                return;
        walk = (ShmCacheWalk){ .cache = shm_arena_cache_at(arena, record, index), .index = index };
        n = shm_cache_walk_count(&walk);
        k = k < n ? k : n;
        shm_reach_init(reach, control);
        reach->refs.flush = intent;
        for (uint32_t i = n - k; i < n; i++)
                (void) shm_reach_add_slot(reach, shm_cache_walk_slot(&walk, i));
        /* Under the intent that stands, which names them all. */
        check_and_keep(control, reach, counts);
        shm_cache_set_count(walk.cache, n - k);
}

void shm_repair_control(ShmActor *control, ShmReach *reach, ShmRepairCounts *ret) {
        ShmIntent intent = shm_record_intent(control->arena, 0);
        ShmRepairCounts counts = {};

        if (intent.kind == SHM_INTENT_FLUSH) {
                end_flush(control, reach, intent, &counts);
        } else if (intent.kind == SHM_INTENT_RUN) {
                /* The intent stands while its own run is undone. */
                counts.slabs += shm_pages_undo(control, 0, slot_id_slab(intent.id), intent.arg);
        } else if (intent.kind != SHM_INTENT_NONE) {
                if (intent.kind == SHM_INTENT_TAKE)
                        counts.objects += shm_rollback_object(control->arena, intent.id, intent.tag);
                shm_reach_init(reach, control);
                add_named(control->arena, reach, 0);
                if (names_ended(control->arena, 0))
                        shm_freeze_fence_all(control);
                check_and_keep(control, reach, &counts);
                counts.slabs += repair_release_slab(control, 0, slot_id_slab(intent.id));
        }
        shm_hints_repair_intent(control->arena, intent);
        shm_actor_intend(control, 0);
        shm_rollback_control(control);
        *ret = counts;
}

bool shm_repair_kept(const ShmArena *arena) {
        for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, arena, 0);)
                /* ORDER: rlx; the maintainer's alone. */
                if (shm_cache_walk_count(&walk) > 0 || shm_load_rlx(&walk.cache->held) != 0)
                        return true;
        return false;
}

bool shm_repair_wanted(const ShmArena *arena) {
        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++) {
                ShmRecordState state = shm_record_owner(arena, i).state;

                if (state == SHM_RECORD_DEAD || state == SHM_RECORD_ROLLED_BACK)
                        return true;
        }
        return shm_repair_kept(arena);
}

bool shm_repair_holder(ShmActor *control, uint32_t slab) {
        SlabWord w = shm_slab_word(control->arena, slab);
        uint32_t holder = slab_word_holder(w);

        if (holder == 0 || holder >= control->arena->n_records ||
            shm_record_owner(control->arena, holder).state != SHM_RECORD_UNUSED)
                return false;
        /* The next owner of the record may have taken the slab since: gen then differs. */
        if (shm_slab_word(control->arena, slab).high != w.high)
                return false;
        if (slab_word_state(w) == SLAB_ACTIVE)
                return repair_release_slab(control, holder, slab) > 0;
        return slab_word_state(w) == SLAB_BUSY && shm_pages_undo(control, holder, slab, 1) > 0;
}
