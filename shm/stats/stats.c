/*
 * Counting
 *
 * Purpose: counts, for operators, from the slab words and the records themselves: the allocation path keeps no
 *   counts of objects.
 *
 * Invariants
 *   1. Live objects are the slots taken in the bitmaps less the slots in caches. The two are read at different
 *      times, so each subtraction stops at zero. On an arena at rest all figures are exact.
 *   2. A step is short: each slab, record and cache costs part of its budget.
 *   3. The words that are read may be garbage: none is used as an index unchecked.
 *
 * Who may do what: any process may count; it writes nothing into the arena, but for sums (shm/stats/slab-sums.c).
 *
 * Crash: nothing was written.
 */
#include "shm/stats/stats.h"

#include "shm/arena/map-set.h"

#include "shm/cache/requested.h"
#include "shm/arena/client.h"
#include "shm/epoch/epoch.h"
#include "shm/arena/record.h"
#include "shm/slab/slab.h"

#define CACHE_COST 32U /* budget that a cache costs, since it is on a page of its own; a slab costs 1 */

static void count_add(ShmCount *count, uint64_t slabs, uint64_t objects, uint64_t size) {
        count->slabs += slabs;
        count->live_objects += objects;
        count->live_size += objects * size;
}

static void count_subtract(ShmCount *count, uint64_t objects, uint64_t size) {
        objects = objects < count->live_objects ? objects : count->live_objects;
        count->live_objects -= objects;
        count->live_size -= objects * size < count->live_size ? objects * size : count->live_size;
}

/* The count of the epoch's newest era, or the count of all its earlier eras. */
static ShmCount *epoch_count(const ShmStatsWalk *c, uint32_t epoch, uint32_t era) {
        return (era & SLAB_ERA_BITS) == c->eras[epoch] ? &c->stats->epochs[epoch] : &c->stats->older[epoch];
}

static void count_objects(const ShmStatsWalk *c, SlabWord w) {
        uint32_t class = slab_word_class(w), epoch = slab_word_epoch(w);
        uint64_t n = (uint64_t) __builtin_popcountll(w.low & ~shm_slab_class(c->arena, w)->tail_mask);
        uint64_t size = shm_slab_class(c->arena, w)->size;

        if (class >= c->arena->n_classes || epoch >= c->arena->n_epochs)
                return;
        count_add(epoch_count(c, epoch, slab_word_era(w)), 1, n, size);
        count_add(&c->stats->epoch_classes[epoch][class], 1, n, size);
        count_add(&c->stats->classes[class], 1, n, size);
        c->stats->class_taken[class] += n;
}

static void count_slab(const ShmStatsWalk *c, SlabWord w) {
        SlabState state = slab_word_state(w);

        if (state == SLAB_UNCOMMITTED || state >= _SLAB_STATE_N)
                return;
        c->stats->committed_size += SHM_SLAB_SIZE;
        if (state == SLAB_FREE)
                c->stats->retained_size += SHM_SLAB_SIZE;
        else if (state != SLAB_BUSY)
                count_objects(c, w);
}

static void count_requested(const ShmStatsWalk *c, const ShmCache *cache) {
        for (uint32_t i = 0; i < SHM_REQUESTED_MAX; i++) {
                uint32_t size = shm_requested_get(cache, i);

                if (size != 0)
                        c->stats->requested[(size - 1) / SHM_CLASS_GRANULE]++;
        }
}

static void count_cache(const ShmStatsWalk *c) {
        const ShmCacheWalk *walk = &c->cache;
        uint64_t n = shm_cache_walk_count(walk), size = c->arena->classes[walk->class].size;

        c->stats->cached_objects += n;
        count_subtract(epoch_count(c, walk->epoch, c->eras[walk->epoch]), n, size);
        count_subtract(&c->stats->epoch_classes[walk->epoch][walk->class], n, size);
        count_subtract(&c->stats->classes[walk->class], n, size);
        count_requested(c, walk->cache);
}

/* Repair frees the slots of a ROLLED_BACK record one by one. Its caches may list free slots: not subtracted. */
static bool record_holds_slots(uint32_t record, ShmRecordState state) {
        return record == 0 || state == SHM_RECORD_USED || state == SHM_RECORD_DEAD ||
               state == SHM_RECORD_LEFT;
}

static void count_counter(uint64_t *total, ShmCounter counter, uint64_t n) {
        if (!SHM_COUNTER_IS_MAX(counter))
                *total += n;
        else if (*total < n)
                *total = n;
}

static void count_gets(const ShmStatsWalk *c, const ShmRecord *r) {
        for (uint32_t i = 0; i < SHM_ROOTS_MAX; i++) {
                if (!shm_map_set_has(&c->maps, i))
                        continue;
                c->stats->map_gets[i].hits += shm_hint_load(&r->map_gets[i].hits);
                c->stats->map_gets[i].misses += shm_hint_load(&r->map_gets[i].misses);
        }
}

/* Counts the record, without its caches. Returns whether the slots in its caches are to be counted. */
static bool count_record(const ShmStatsWalk *c, uint32_t record) {
        const ShmRecord *r = shm_arena_record(c->arena, record);
        ShmRecordState state = shm_record_owner(c->arena, record).state;

        c->stats->threads += record > 0 && state == SHM_RECORD_USED;
        for (uint32_t i = 0; i < SHM_COUNTERS_MAX; i++)
                count_counter(&c->stats->counters[i], i, shm_hint_load(&r->counters[i]));
        count_gets(c, r);
        return record_holds_slots(record, state);
}

/* Counts the next record, or the next cache of the record at which the walk is. */
static void count_thread(ShmStatsWalk *c) {
        if (!c->in_record && !count_record(c, c->record)) {
                c->record++;
                return;
        }
        c->in_record = shm_cache_walk_next(&c->cache, c->arena, c->record);
        if (c->in_record) {
                count_cache(c);
                return;
        }
        c->cache = (ShmCacheWalk){};
        c->record++;
}

static uint32_t count_clients(const ShmArena *arena) {
        ShmClientInfo info;
        uint32_t n = 0;

        for (uint32_t i = 0; i < arena->n_records; i++)
                n += shm_client_get(arena, i, &info) == 0;
        return n;
}

static void eras_init(ShmStatsWalk *c) {
        ShmEpochInfo info;

        for (uint32_t id = 0; id < c->arena->n_epochs; id++)
                if (shm_epoch_get(c->arena, id, &info) == 0)
                        c->eras[id] = info.era & SLAB_ERA_BITS;
}

static void stats_add_totals(const ShmStatsWalk *c) {
        const ShmArena *arena = c->arena;
        uint64_t resident = shm_arena_resident_size(arena);
        ShmStats *s = c->stats;

        s->size = (uint64_t) arena->n_slabs * SHM_SLAB_SIZE;
        s->metadata_size = resident > s->committed_size ? resident - s->committed_size : 0;
        s->clients = count_clients(arena);
        s->n_unrecorded = shm_hint_load(&arena->header->n_unrecorded.value);
        s->huge_splits = shm_hint_load(&arena->header->counters[SHM_TOTAL_SPLIT].value);
        s->reclaimed_slabs = shm_hint_load(&arena->header->counters[SHM_TOTAL_RECLAIMED].value);
        for (uint32_t class = 0; class < arena->n_classes; class ++) {
                s->live_objects += s->classes[class].live_objects;
                s->live_size += s->classes[class].live_size;
        }
}

void shm_stats_begin(ShmStatsWalk *walk, const ShmArena *arena, ShmStats *stats) {
        *stats = (ShmStats){};
        *walk = (ShmStatsWalk){ .arena = arena, .stats = stats };
        shm_slab_walk_begin(&walk->slabs, arena, SHM_SLAB_WALK_ALL);
        stats->n_slabs_ever = walk->slabs.end;
        eras_init(walk);
}

void shm_stats_begin_sums(ShmStatsWalk *walk, ShmSlabSums *sums, ShmStats *stats) {
        shm_stats_begin(walk, sums->arena, stats);
        walk->sums = sums;
        walk->slabs.position = walk->slabs.end;
        shm_slab_sums_begin(&walk->changed, sums);
}

static ShmCount count_of(uint64_t slabs, uint64_t objects, uint64_t size) {
        return (ShmCount){ .slabs = slabs, .live_objects = objects, .live_size = size };
}

static void count_add_all(ShmCount *count, ShmCount more) {
        count->slabs += more.slabs;
        count->live_objects += more.live_objects;
        count->live_size += more.live_size;
}

/* The epoch's counts by class, and of its newest era. All its other slabs are of earlier eras. */
static void take_epoch_sums(const ShmStatsWalk *c, uint32_t epoch) {
        const ShmEraSum *era = shm_slab_sums_era(c->sums, epoch, c->eras[epoch]);
        ShmCount newest = count_of(era->slabs, era->taken, era->taken_size), all = {};
        ShmStats *s = c->stats;

        for (uint32_t class = 0; class < c->arena->n_classes; class ++) {
                const ShmSlabSum *sum = shm_slab_sums_of(c->sums, epoch, class);
                ShmCount count = count_of(sum->slabs, sum->taken, sum->taken_size);

                s->epoch_classes[epoch][class] = count;
                count_add_all(&s->classes[class], count);
                count_add_all(&all, count);
                s->class_taken[class] += sum->taken;
        }
        s->epochs[epoch] = newest;
        s->older[epoch] = count_of(all.slabs - newest.slabs, all.live_objects - newest.live_objects,
                                   all.live_size - newest.live_size);
}

static void take_sums(ShmStatsWalk *c) {
        c->stats->committed_size = c->sums->committed * SHM_SLAB_SIZE;
        c->stats->retained_size = c->sums->free * SHM_SLAB_SIZE;
        for (uint32_t epoch = 0; epoch < c->arena->n_epochs; epoch++)
                take_epoch_sums(c, epoch);
        c->sums = NULL;
}

bool shm_stats_step(ShmStatsWalk *walk, uint32_t budget) {
        uint32_t slab;
        SlabWord w;

        while (shm_slab_walk_next(&walk->slabs, walk->arena, &budget, &slab, &w))
                count_slab(walk, w);
        if (walk->sums && shm_slab_sums_step(&walk->changed, walk->sums, &budget))
                take_sums(walk);
        if (walk->sums)
                return false;
        for (; budget > 0 && walk->record < shm_arena_n_records_ever(walk->arena);
             budget -= budget < CACHE_COST ? budget : CACHE_COST)
                count_thread(walk);
        if (budget == 0)
                return false;
        stats_add_totals(walk);
        return true;
}

void shm_stats(const ShmArena *arena, ShmStats *ret) {
        ShmStatsWalk walk;

        shm_stats_begin(&walk, arena, ret);
        while (!shm_stats_step(&walk, UINT32_MAX))
                ;
}
