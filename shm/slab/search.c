/*
 * Finding slots
 *
 * Purpose: claims slots of a class and an epoch for the caller: in a partial slab, in a free slab, or in a slab that
 *   is committed for it.
 *
 * Invariants
 *   1. A set's bit is a hint, and so is a slab that the thread emptied before: a slot is the caller's once the
 *      compare-and-set of its slab's word has claimed it.
 *   2. A stale bit is removed while the actor's intent names the slab (invariant 2 of shm/slab/set.c).
 *   3. Before -ENOMEM the next slab words themselves are searched, at most once in 100 ms.
 *
 * Who may do what: any thread with its own actor, inside an operation.
 *
 * Crash: CLAIM names the slots that were claimed, SLAB the slab whose bit was being removed, RUN the slabs whose pages
 *   were being made.
 */
#include "shm/slab/search.h"

#include <errno.h>

#include "shm/clock/pool-clock.h"
#include "shm/slab/pages.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"

/*
 * A search gives up a set after so many slabs that are in it rightly, but belong to an earlier era that has not drained
 * yet.
 */
#define SKIPS_MAX 64
#define WORDS_MAX 1024U /* words that one search looks at before -ENOMEM: they take some 10 us */

/*
 * Each thread searches a set from a home of its own, far from the homes of others (by the golden ratio), so that
 * threads rarely take slots of one slab. If another processor wrote an object or its tag last, fetching that line takes
 * longer than all else. In a small pool all threads begin with the first slab.
 */
static uint32_t search_home(const ShmActor *actor) {
        uint32_t n = shm_arena_n_slabs_ever(actor->arena);

        return n > 64 ? (uint32_t) ((uint64_t) (actor->id * UINT32_C(0x9e3779b9)) * n >> 32) : 0;
}

static void search_remove_stale(ShmActor *actor, uint32_t set, uint32_t slab) {
        shm_actor_intend(actor, shm_intent_other(SHM_INTENT_SLAB, slab, 0));
        shm_set_remove(actor->arena, set, slab);
        shm_actor_intend(actor, 0);
}

/* Whether free slots would be left after n were taken: only then is it useful to hold the slab. */
static bool search_leaves_slots(const ShmArena *arena, const ShmWant *want, uint32_t slab) {
        SlabWord w = shm_slab_word(arena, slab);
        uint64_t taken =
                slab_word_state(w) == SLAB_FREE ? arena->classes[slab_key_class(want->key)].tail_mask : w.low;

        return (uint32_t) __builtin_popcountll(~taken) > want->n;
}

static bool search_claim(ShmActor *actor, const ShmWant *want, uint32_t slab, ShmFound *ret) {
        int r;

        ret->slab = slab;
        ret->held = want->hold && search_leaves_slots(actor->arena, want, slab);
        r = ret->held ? shm_slab_hold(actor, slab, want->key, want->n, &ret->mask)
                      : shm_slab_claim(actor, slab, want->key, want->n, &ret->mask);
        return r == 0;
}

/*
 * A slab that became free is in its set of partial slabs for some time yet. It is taken from there, and both its bits
 * stay, unless free slabs are to be spared: then a slab with a slot may come after it.
 */
static bool search_spares(const ShmActor *actor, uint32_t set, const ShmWant *want, uint32_t slab) {
        return (actor->mode == SHM_CACHE_SPARING || want->before != 0) && set != SHM_SET_FREE &&
               slab_word_state(shm_slab_word(actor->arena, slab)) == SLAB_FREE;
}

static bool search_range(ShmActor *actor, uint32_t set, const ShmWant *want, uint32_t from, uint32_t end,
                         ShmFound *ret) {
        ShmArena *arena = actor->arena;
        uint32_t slab, skips = 0;

        for (; skips < SKIPS_MAX && shm_set_find(arena, set, from, &slab) && slab < end; from = slab + 1) {
                if (!search_spares(actor, set, want, slab) && search_claim(actor, want, slab, ret))
                        return true;
                if (shm_set_wants(arena, set, shm_slab_word(arena, slab)))
                        skips++;
                else
                        search_remove_stale(actor, set, slab);
        }
        return false;
}

static bool search_set(ShmActor *actor, uint32_t set, const ShmWant *want, ShmFound *ret) {
        uint32_t from = search_home(actor);

        return search_range(actor, set, want, from, UINT32_MAX, ret) ||
               (from > 0 && search_range(actor, set, want, 0, from, ret));
}

/*
 * The slabs that this thread emptied, the last one first. If each thread takes its own slabs again, threads do not take
 * turns with the lines of slabs, tags and objects, nor with those of the set `free`: the bits of these slabs just stay
 * set.
 */
static bool search_recent(ShmActor *actor, const ShmWant *want, ShmFound *ret) {
        while (actor->n_recent > 0) {
                actor->n_recent--;
                if (search_claim(actor, want, actor->recent[--actor->recent_end % SHM_RECENT_MAX], ret))
                        return true;
        }
        return false;
}

static bool search_free(ShmActor *actor, const ShmWant *want, ShmFound *ret) {
        return search_recent(actor, want, ret) || search_set(actor, SHM_SET_FREE, want, ret);
}

/*
 * Searches the words themselves before -ENOMEM: a thread that died may not have set the hint of a slab with free
 * slots. At most once in 100 ms, since otherwise each allocation in a full arena would read words; and a part of them
 * at a time, as all of 1 GiB take two milliseconds.
 */
static bool search_words(ShmActor *actor, const ShmWant *want, ShmFound *ret) {
        ShmArena *arena = actor->arena;
        uint32_t n = shm_arena_n_slabs_ever(arena);
        uint64_t msec = shm_clock_read(CLOCK_MONOTONIC_COARSE) / SHM_NS_PER_MS;

        if (actor->searched_msec != 0 && msec - actor->searched_msec < 100)
                return false;
        actor->searched_msec = msec;

        for (uint32_t i = 0; i < n && i < WORDS_MAX; i++) {
                uint32_t slab = actor->searched < n ? actor->searched : 0;
                SlabState state = slab_word_state(shm_slab_word(arena, slab));

                actor->searched = slab + 1;
                if ((state == SLAB_FREE || state == SLAB_PARTIAL) && search_claim(actor, want, slab, ret))
                        return true;
        }
        return false;
}

int shm_search(ShmActor *actor, const ShmWant *want, ShmFound *ret) {
        uint32_t partial =
                shm_set_partial(actor->arena, slab_key_epoch(want->key), slab_key_class(want->key));
        uint32_t n;

        if (want->before != 0)
                return search_range(actor, partial, want, 0, want->before, ret) ? 0 : -ENOMEM;
        for (;;) {
                if (search_set(actor, partial, want, ret) || search_free(actor, want, ret))
                        return 0;
                if (want->no_commit)
                        return -ENOMEM;
                if (shm_pages_commit(actor, SHM_COMMIT_RUN_MAX, &n) == 0)
                        continue;
                if (search_set(actor, SHM_SET_FREE, want, ret) || search_words(actor, want, ret))
                        return 0;
                return -ENOMEM;
        }
}
