/*
 * Counting in steps
 *
 * Purpose: high-water marks of what an arena holds, which nobody keeps on the allocation path.
 *
 * Invariants
 *   1. A step is short: so many slab words, or so many records.
 *   2. What is read may be garbage, and is but a figure: no index comes from it unchecked.
 *
 * Who may do what: it reads; the marks in the header are written by the daemon alone.
 *
 * Crash: marks of one look may be mixed with those of the one before; each is a true one.
 */
#include "shm/census.h"

#include <stddef.h>

#include "shm/asked.h"
#include "shm/cache-walk.h"
#include "shm/client.h"
#include "shm/record.h"
#include "shm/set.h"
#include "shm/slab.h"

#define SLABS 4096U
#define RECORDS 32U
#define N_WORDS (sizeof(ShmPeaks) / sizeof(uint64_t))

static void count_slab(ShmCensus *census, const ShmArena *arena, uint32_t slab) {
        SlabWord w = shm_slab_word(arena, slab);
        SlabPlace place = slab_word_place(w);
        uint32_t class = slab_word_class(w);

        if (place == SLAB_UNCOMMITTED || place >= _SLAB_PLACE_N)
                return;
        census->committed_slabs++;
        census->free_slabs += place == SLAB_FREE;
        if (place == SLAB_FREE || place == SLAB_BUSY || class >= arena->n_classes)
                return;
        census->class_slabs[class]++;
        census->class_objects[class] +=
                (uint64_t) __builtin_popcountll(w.low & ~shm_slab_class(arena, w)->beyond);
}

/* Groups that are wholly uncommitted are passed over by one word. */
static bool count_slabs(ShmCensus *census, const ShmArena *arena) {
        uint32_t end = shm_arena_n_slabs_ever(arena);

        for (uint32_t n = 0; n < SLABS && census->slab < end; n += 64) {
                uint32_t group = census->slab / 64;

                if (shm_set_group(arena, SHM_SET_UNCOMMITTED, group) != UINT64_MAX)
                        for (uint32_t i = 0; i < 64 && group * 64 + i < end; i++)
                                count_slab(census, arena, group * 64 + i);
                census->slab += 64;
        }
        return census->slab >= end;
}

static void count_record(ShmCensus *census, const ShmArena *arena, uint32_t record) {
        if (shm_record_owner(arena, record).state != SHM_RECORD_USED)
                return;
        census->threads++;
        for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, arena, record);)
                for (uint32_t i = 0; i < SHM_ASKED_MAX; i++) {
                        uint32_t size = shm_asked_get(walk.cache, i);

                        if (size != 0)
                                census->asked[(size - 1) / SHM_CLASS_GRANULE]++;
                }
}

static void count_clients(ShmCensus *census, const ShmArena *arena) {
        ShmClientInfo info;

        for (uint32_t i = 0; i < arena->n_records; i++)
                census->clients += shm_client_get(arena, i, &info) == 0;
}

bool shm_census_step(ShmCensus *census, const ShmArena *arena) {
        uint32_t end = shm_arena_n_records_ever(arena);

        if (!count_slabs(census, arena))
                return false;
        for (uint32_t n = 0; n < RECORDS && census->record < end; n++, census->record++)
                if (census->record > 0)
                        count_record(census, arena, census->record);
        if (census->record < end)
                return false;
        count_clients(census, arena);
        return true;
}

static void raise(uint64_t *peak, uint64_t value) {
        *peak = *peak < value ? value : *peak;
}

/* How much memory was wanted again after it had become free: what is worth retaining. */
static void raise_used(ShmPeaks *peaks, uint64_t used) {
        if (used < peaks->fallen_slabs)
                peaks->fallen_slabs = used;
        if (peaks->n_looks > 1)
                raise(&peaks->swing_slabs,
                      (used < peaks->used_slabs ? used : peaks->used_slabs) - peaks->fallen_slabs);
        if (used >= peaks->used_slabs)
                peaks->used_slabs = peaks->fallen_slabs = used;
}

void shm_peaks_raise(ShmPeaks *peaks, const ShmCensus *census, uint64_t now_usec) {
        uint64_t used = census->committed_slabs - census->free_slabs;

        if (peaks->since_usec == 0)
                *peaks = (ShmPeaks){ .since_usec = now_usec };
        peaks->n_looks++;
        raise(&peaks->committed_slabs, census->committed_slabs);
        raise(&peaks->retained_slabs, census->free_slabs);
        raise(&peaks->clients, census->clients);
        raise(&peaks->threads, census->threads);
        for (uint32_t i = 0; i < SHM_CLASSES_MAX; i++) {
                raise(&peaks->class_slabs[i], census->class_slabs[i]);
                raise(&peaks->class_objects[i], census->class_objects[i]);
        }
        raise_used(peaks, used);
}

void shm_peaks_load(const ShmArena *arena, ShmPeaks *ret) {
        const uint64_t *from = (const uint64_t *) &arena->header->peaks;
        uint64_t *to = (uint64_t *) ret;

        for (size_t i = 0; i < N_WORDS; i++)
                to[i] = shm_load_rlx(&from[i]); /* ORDER: rlx; figures for people. */
        if (ret->fallen_slabs > ret->used_slabs)
                ret->fallen_slabs = ret->used_slabs;
}

void shm_peaks_store(const ShmArena *arena, const ShmPeaks *peaks) {
        const uint64_t *from = (const uint64_t *) peaks;
        uint64_t *to = (uint64_t *) &arena->header->peaks;

        for (size_t i = 0; i < N_WORDS; i++)
                shm_store_rlx(&to[i], from[i]); /* ORDER: rlx; figures for people. */
}
