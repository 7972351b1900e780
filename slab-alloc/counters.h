#pragma once
/*
 * The counts that get_perf_counters() returns. The engine counts for each thread, not for each class. So a call is
 * counted here, for its class, if a counter of the engine's slow paths rose during the call. Other calls pay only for
 * the loads of these counters.
 */
#include "libclient/pool/enter.h"
#include "slab-alloc/state.h"
#include "shm/slab/slab.h"

/* Counts of this thread before a call. `record` is NULL if threads share one: then nothing is counted. */
typedef struct CountersMark {
        const ShmRecord *record;
        uint64_t slow, taken, emptied, filled, reopened;
        SlabWord word; /* for a free: the slab's word, since the slab may be gone after it */
} CountersMark;

static inline uint64_t counters_get(const ShmRecord *record, uint32_t counter) {
        return shm_load_rlx(&record->counters[counter]); /* ORDER: rlx; written by this thread alone. */
}

static inline uint64_t counters_slow(const ShmRecord *record) {
        return counters_get(record, SHM_COUNT_REFILLS) + counters_get(record, SHM_COUNT_ALLOCS_UNCACHED);
}

/* Returns this thread's record, and makes one if the thread has none. */
const ShmRecord *counters_record_slow(struct tslab *pool);

static inline const ShmRecord *counters_record(struct tslab *pool) {
        const ThreadState *thread = pool_thread(pool);

        return __builtin_expect(thread != NULL, 1) ? thread->actor.record : counters_record_slow(pool);
}

/* Before an allocation. */
static inline CountersMark counters_mark(struct tslab *pool) {
        CountersMark mark = { .record = counters_record(pool) };

        if (__builtin_expect(mark.record != NULL, 1)) {
                mark.slow = counters_slow(mark.record);
                mark.taken = counters_get(mark.record, SHM_COUNT_SLABS_TAKEN);
                mark.emptied = counters_get(mark.record, SHM_COUNT_SLABS_RECYCLED);
                mark.filled = counters_get(mark.record, SHM_COUNT_SLABS_FILLED);
                mark.reopened = counters_get(mark.record, SHM_COUNT_SLABS_REOPENED);
        }
        return mark;
}

/* Before a free in this slab; the number may be invalid. */
static inline CountersMark counters_mark_free(struct tslab *pool, uint32_t slab) {
        CountersMark mark = counters_mark(pool);

        if (mark.record && slab < shm_arena_n_slabs_ever(&pool->arena))
                mark.word = shm_slab_word(&pool->arena, slab);
        return mark;
}

/* An allocation of `size` bytes found its epoch closed. */
void counters_note_refused(AllocatorState *state, size_t size);
uint64_t counters_refused(const AllocatorState *state, uint32_t class);
void counters_note_close(AllocatorState *state, uint64_t ns);
void counters_get_closes(const AllocatorState *state, uint64_t *ret_n, uint64_t *ret_ns);

void counters_note_alloc_slow(AllocatorState *state, const CountersMark *mark, size_t size);
void counters_note_free_slow(AllocatorState *state, const CountersMark *mark);

/* After an allocation of `size` bytes. */
static inline void counters_note_alloc(AllocatorState *state, const CountersMark *mark, size_t size) {
        if (mark->record && counters_slow(mark->record) != mark->slow)
                counters_note_alloc_slow(state, mark, size);
}

/* After a free. */
static inline void counters_note_free(AllocatorState *state, const CountersMark *mark) {
        if (mark->record && (counters_get(mark->record, SHM_COUNT_SLABS_RECYCLED) != mark->emptied ||
                             counters_get(mark->record, SHM_COUNT_SLABS_REOPENED) != mark->reopened))
                counters_note_free_slow(state, mark);
}
