/*
 * Counters of an allocator
 *
 * Purpose: the figures of get_perf_counters(), by class, from the counters that the engine has by thread.
 * Invariants: 1. each counter only rises.
 * Who may do what: any thread adds; no code decides by the counters.
 * Crash: they are this process's, and end with it.
 */
#include "slab-alloc/counters.h"

#include <string.h>

#include "shm/epoch/epoch.h"
#include "shm/slab/slab-walk.h"

static void add_count(uint64_t *counter, uint64_t n) {
        (void) shm_add_rlx(counter, n); /* ORDER: rlx; a count. */
}

static uint64_t read_count(const uint64_t *counter) {
        return shm_load_rlx(counter); /* ORDER: rlx; a count. */
}

const ShmRecord *counters_record_slow(struct tslab *pool) {
        ThreadState *thread;
        const ShmRecord *record;

        if (pool_enter(pool, &thread) < 0)
                return NULL;
        record = pool_is_spare(pool, thread) ? NULL : thread->actor.record;
        pool_leave(pool, thread);
        return record;
}

static uint32_t class_of(const AllocatorState *state, size_t size) {
        const AllocatorClasses *classes = &state->classes;
        uint32_t class = 0;

        while (class < classes->n_pool - 1 && size > classes->pool_sizes[class])
                class ++;
        return class;
}

__attribute__((noinline)) void counters_note_alloc_slow(AllocatorState *state, const CountersMark *mark,
                                                        size_t size) {
        uint64_t taken = counters_get(mark->record, SHM_COUNT_SLABS_TAKEN) - mark->taken;
        ClassCounters *class = &state->counters[class_of(state, size)];

        add_count(&class->slow, 1);
        add_count(&class->filled, counters_get(mark->record, SHM_COUNT_SLABS_FILLED) - mark->filled);
        if (taken != 0) {
                add_count(&class->slabs, taken);
                add_count(&class->slow_new, 1);
        }
}

__attribute__((noinline)) void counters_note_free_slow(AllocatorState *state, const CountersMark *mark) {
        uint64_t emptied = counters_get(mark->record, SHM_COUNT_SLABS_RECYCLED) - mark->emptied;
        const ShmArena *arena = &state->pool->arena;
        uint32_t class = slab_word_class(mark->word);

        /* A cache is of one class and epoch: so are all the slabs that it was flushed to. */
        if (class >= state->classes.n_pool)
                return;
        add_count(&state->counters[class].reopened,
                  counters_get(mark->record, SHM_COUNT_SLABS_REOPENED) - mark->reopened);
        if (shm_epoch_over(arena, slab_word_epoch(mark->word), slab_word_era(mark->word)))
                add_count(&state->counters[class].emptied_closed, emptied);
        else
                add_count(&state->counters[class].emptied, emptied);
}

void counters_note_refused(AllocatorState *state, size_t size) {
        add_count(&state->counters[class_of(state, size)].refused, 1);
}

uint64_t counters_refused(const AllocatorState *state, uint32_t class) {
        uint64_t n = 0;

        for (uint32_t i = 0; i < state->classes.n_pool; i++)
                if (allocator_class_known(state, i) == class)
                        n += read_count(&state->counters[i].refused);
        return n;
}

void counters_note_close(AllocatorState *state, uint64_t ns) {
        add_count(&state->n_closes, 1);
        add_count(&state->closes_ns, ns);
}

void counters_get_closes(const AllocatorState *state, uint64_t *ret_n, uint64_t *ret_ns) {
        *ret_n = read_count(&state->n_closes);
        *ret_ns = read_count(&state->closes_ns);
}

static void add_class(const ClassCounters *class, PerfCounters *out) {
        out->current_partial_null += read_count(&class->slow_new);
        out->slow_path_hits += read_count(&class->slow);
        out->list_move_partial_to_full += read_count(&class->filled);
        out->list_move_full_to_partial += read_count(&class->reopened);
        out->empty_slab_recycled += read_count(&class->emptied);
        out->empty_slab_overflowed += read_count(&class->emptied_closed);
        out->new_slab_count += read_count(&class->slabs);
}

/* Each is read once, and slabs that came after those that were emptied. */
static void add_classes(const AllocatorState *state, uint32_t class, PerfCounters *out) {
        for (uint32_t i = 0; i < state->classes.n_pool; i++)
                if (allocator_class_known(state, i) == class)
                        add_class(&state->counters[i], out);
}

static uint64_t count_slabs_in_use(const AllocatorState *state, uint32_t class) {
        const ShmArena *arena = &state->pool->arena;
        uint32_t budget = UINT32_MAX, slab;
        ShmSlabWalk walk;
        SlabWord word;
        uint64_t n = 0;

        shm_slab_walk_begin(&walk, arena, SHM_SLAB_WALK_ALL);
        while (shm_slab_walk_next(&walk, arena, &budget, &slab, &word)) {
                SlabState s = slab_word_state(word);

                n += allocator_class_known(state, slab_word_class(word)) == class && s != SLAB_FREE &&
                     s != SLAB_BUSY && s != SLAB_UNCOMMITTED;
        }
        return n;
}

/*
 * Slabs are also emptied by other processes, by threads that end and by closes: they are those that came, and are
 * neither in use nor counted. Slabs that are emptied and counted during the walk are not to count twice, so the sum is
 * looked for, and no difference is kept. `n_new` was read before the walk. The most that was ever told is kept, since a
 * counter only rises.
 */
static uint64_t find_recycled(AllocatorState *state, uint32_t class, uint64_t n_new, PerfCounters *out) {
        uint64_t *most = &state->recycled_most[class], seen = read_count(most), in_use = n_new, n;

        if (n_new > out->empty_slab_recycled + out->empty_slab_overflowed &&
            n_new > seen + out->empty_slab_overflowed)
                in_use = count_slabs_in_use(state, class);
        *out = (PerfCounters){ 0 };
        add_classes(state, class, out);
        n = out->empty_slab_recycled;
        if (n_new > in_use + out->empty_slab_overflowed + n)
                n = n_new - in_use - out->empty_slab_overflowed;
        while (n > seen)
                if (shm_cas_acqrel(most, &seen, n)) /* ORDER: acqrel; a count. */
                        seen = n;
        /* A free that emptied a slab of a closed epoch, and counts it just now, may be in `seen`, too. */
        n = out->new_slab_count - out->empty_slab_overflowed;
        return seen < n ? seen : n;
}

_public_ void get_perf_counters(SlabAllocator *alloc, uint32_t size_class, PerfCounters *out) {
        AllocatorState *state = allocator_state(alloc);

        if (!out)
                return;
        memset(out, 0, sizeof(*out));
        if (!state || size_class >= state->classes.n)
                return;
        add_classes(state, size_class, out);
        out->empty_slab_recycled = find_recycled(state, size_class, out->new_slab_count, out);
        out->current_partial_full = out->slow_path_hits - out->current_partial_null;
}
