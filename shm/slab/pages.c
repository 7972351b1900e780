/*
 * Pages
 *
 * Purpose: making slabs (UNCOMMITTED -> BUSY -> FREE) and giving their pages back (FREE -> BUSY ->
 *   UNCOMMITTED), in runs of neighbours.
 *
 * Kernel facts (6.1 to 6.18): MADV_DONTNEED on a shared mapping frees nothing, MADV_REMOVE does. MADV_REMOVE
 *   fails with EINVAL if the mapping is locked; punching a hole through the descriptor still works then.
 *   fallocate() makes pages or fails, so no process gets SIGBUS; a signal makes it fail with EINTR, part done.
 *
 * Invariants
 *   1. Only the holder of a BUSY slab touches its pages.
 *   2. A slab's word has a page before n_slabs_ever covers it.
 *   3. A slab is FREE only after its page and that of its tags exist.
 *   4. A page of tags is dropped only by an actor that holds all slabs of it BUSY (shm/slab/tags.c).
 *
 * Who may do what: the daemon commits ahead of demand, and drops; a client that found no free slab commits
 *   a run of at most SHM_COMMIT_RUN_MAX.
 *
 * Crash: RUN names the slabs. Repair drops the BUSY slabs among them (punches them, and makes them UNCOMMITTED),
 *   and sets missing bits: of UNCOMMITTED slabs below n_slabs_ever in `uncommitted`, of FREE slabs in `free`.
 */
#include "shm/slab/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/arch/probe.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"
#include "shm/slab/tags.h"

#define TRIES_MAX 256U
#define TAGS_STAY_SHARE 128U /* small pools give all tags back */

/* The slabs of [slab, slab + n) that are in the group of `slab`, as a mask of the group. */
static uint64_t group_mask(uint32_t slab, uint32_t n) {
        uint32_t first = slab % 64;
        uint32_t in_group = n < 64 - first ? n : 64 - first;

        return (in_group == 64 ? UINT64_MAX : (UINT64_C(1) << in_group) - 1) << first;
}

static void add_run(ShmArena *arena, uint32_t set, uint32_t slab, uint32_t n) {
        for (uint32_t end = slab + n; slab < end; slab = (slab / 64 + 1) * 64)
                shm_set_add_mask(arena, set, slab / 64, group_mask(slab, end - slab));
}

static void remove_run(ShmArena *arena, uint32_t set, uint32_t slab, uint32_t n) {
        for (uint32_t end = slab + n; slab < end; slab = (slab / 64 + 1) * 64)
                shm_set_remove_mask(arena, set, slab / 64, group_mask(slab, end - slab));
}

/* fallocate() is a cancellation point, but the thread is inside an operation, with an intent. */
static int pages_fallocate(const ShmArena *arena, int mode, const void *address, uint64_t size) {
        int cancel_state, r;

        (void) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
        r = fallocate(arena->fd, mode, (const uint8_t *) address - arena->base, (off_t) size) < 0 ? -errno
                                                                                                  : 0;
        (void) pthread_setcancelstate(cancel_state, NULL);
        return r;
}

void shm_pages_punch(ShmArena *arena, void *address, size_t size) {
        int saved = errno;

        if (madvise(address, size, MADV_REMOVE) < 0)
                (void) pages_fallocate(arena, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, address, size);
        errno = saved;
}

static void pages_punch_run(ShmArena *arena, uint32_t slab, uint32_t n) {
        shm_pages_punch(arena, shm_arena_slab(arena, slab), (size_t) n * SHM_SLAB_SIZE);
}

/* Makes the n slabs from `slab` on BUSY, up to the first that cannot be. Returns how many became BUSY. */
static uint32_t begin_run(ShmActor *actor, uint32_t slab, uint32_t n, SlabState from) {
        uint32_t i = 0;

        while (i < n && shm_slab_begin(actor, slab + i, from) == 0)
                i++;
        return i;
}

/* The actor holds the slabs, so a transition is refused only if a process scribbled over the arena. */
static void end_run(ShmActor *actor, uint32_t slab, uint32_t n, SlabState to) {
        for (uint32_t i = 0; i < n; i++)
                (void) shm_slab_end(actor, actor->id, slab + i, to);
}

/*
 * Makes a run of UNCOMMITTED slabs below n_slabs_ever BUSY, lowest first, and returns its length. 0: there is none,
 * or the daemon has met TRIES_MAX stale bits in `uncommitted`, and stops since it has other work to do.
 */
static uint32_t find_dropped(ShmActor *actor, uint32_t n, uint32_t *ret_slab) {
        ShmArena *arena = actor->arena;
        uint32_t ever = shm_arena_n_slabs_ever(arena), slab = 0, length = 0;
        uint32_t n_tries = actor->id == 0 ? TRIES_MAX : UINT32_MAX;

        while (length == 0 && n_tries-- > 0 && shm_set_find(arena, SHM_SET_UNCOMMITTED, slab, &slab) &&
               slab < ever) {
                /* The run has at least this slab, even if its bit was removed since: the intent must name it. */
                length = 1;
                while (length < n && slab + length < ever &&
                       shm_set_has(arena, SHM_SET_UNCOMMITTED, slab + length))
                        length++;
                shm_actor_intend(actor, shm_intent_other(SHM_INTENT_RUN, slab, length));
                length = begin_run(actor, slab, length, SLAB_UNCOMMITTED);
                if (length == 0) {
                        shm_set_remove(arena, SHM_SET_UNCOMMITTED, slab);
                        slab++;
                }
        }
        *ret_slab = slab;
        return length;
}

/*
 * Pages for the lines of n slabs from `slab`, which is n_slabs_ever. Where these share a page with the line before, it
 * has one already: a call less for nearly every run of a client.
 */
static int pages_populate_lines(const ShmArena *arena, uint32_t slab, uint32_t n) {
        const ShmSlabLine *lines = arena->lines;
        uint32_t end = slab + n;

        while (slab > 0 && slab < end && (uintptr_t) &lines[slab] % SHM_SLAB_SIZE != 0)
                slab++;
        return slab < end ? pages_fallocate(arena, 0, &lines[slab], (end - slab) * sizeof(*lines)) : 0;
}

/* Makes a run of slabs that were never used BUSY, by raising n_slabs_ever over them. */
static int pages_extend_arena(ShmActor *actor, uint32_t n, uint32_t *ret_slab, uint32_t *ret_n) {
        ShmArena *arena = actor->arena;
        uint64_t ever = shm_arena_n_slabs_ever(arena);
        uint32_t slab;
        int r;

        do {
                slab = (uint32_t) ever;
                actor->shortage = SHM_SHORTAGE_POOL;
                if (ever >= arena->n_slabs)
                        return -ENOMEM;
                actor->shortage = SHM_SHORTAGE_SYSTEM;
                n = n < arena->n_slabs - slab ? n : arena->n_slabs - slab;
                r = pages_populate_lines(arena, slab, n);
                if (r == -EINTR)
                        continue;
                if (r)
                        return -ENOMEM;
                shm_actor_intend(actor, shm_intent_other(SHM_INTENT_RUN, slab, n));
                /* ORDER: acqrel, pairs with shm_arena_n_slabs_ever(); words have pages. */
        } while (r == -EINTR ||
                 !shm_cas_acqrel(&arena->header->n_slabs_ever.value, &ever, (uint64_t) slab + n));

        *ret_slab = slab;
        *ret_n = begin_run(actor, slab, n, SLAB_UNCOMMITTED);
        add_run(arena, SHM_SET_UNCOMMITTED, slab + *ret_n, n - *ret_n);
        return 0;
}

static void pages_undo_run(ShmActor *actor, uint32_t slab, uint32_t n) {
        if (n == 0)
                return;
        pages_punch_run(actor->arena, slab, n);
        end_run(actor, slab, n, SLAB_UNCOMMITTED);
        add_run(actor->arena, SHM_SET_UNCOMMITTED, slab, n);
}

/*
 * Whether the page that has the tags of a BUSY slab is there, since the slab before, which shares it, has pages. It
 * stays: nobody else can hold all of its slabs. The word may lie, and then the tags get their page as they are written.
 * There may be no memory for it, so the daemon believes no word.
 */
static bool has_tags_of_neighbour(const ShmActor *actor, uint32_t slab) {
        SlabState state;

        if (actor->id == 0 || slab % SHM_TAGS_PER_PAGE == 0)
                return false;
        state = slab_word_state(
                (SlabWord){ /* ORDER: acq, pairs with shm_slab_end(); its tags had a page before. */
                            .high = shm_load_acq(&actor->arena->lines[slab - 1].word.high) });
        return state != SLAB_UNCOMMITTED && state != SLAB_BUSY;
}

/* Pages for the tags of a BUSY run. False: there is no memory. Tags that count have pages. */
static bool pages_populate_tags(const ShmActor *actor, uint32_t slab, uint32_t n) {
        const ShmArena *arena = actor->arena;
        uint32_t end = slab + n;
        int r;

        if (shm_tags_count(arena, slab, n))
                return true;
        if (has_tags_of_neighbour(actor, slab))
                slab = (slab / SHM_TAGS_PER_PAGE + 1) * SHM_TAGS_PER_PAGE;
        if (slab >= end)
                return true;
        do
                r = pages_fallocate(arena, 0, &arena->tags[slab], (end - slab) * sizeof(ShmTags));
        while (r == -EINTR);
        return r == 0;
}

/* Makes pages for the BUSY run; for half as many slabs after each EINTR. Returns for how many slabs. */
static uint32_t pages_populate_run(ShmActor *actor, uint32_t slab, uint32_t n) {
        ShmArena *arena = actor->arena;
        uint32_t m = n;
        int r;

        if (!pages_populate_tags(actor, slab, n))
                return 0;
        while ((r = pages_fallocate(arena, 0, shm_arena_slab(arena, slab), (uint64_t) m * SHM_SLAB_SIZE)) ==
               -EINTR)
                m = m > 1 ? m / 2 : 1;
        if (r)
                return 0;
        if (arena->populate)
                madvise(shm_arena_slab(arena, slab), (size_t) m * SHM_SLAB_SIZE, MADV_POPULATE_WRITE);
        return m;
}

static bool draw_allowance(uint64_t *allowance, uint32_t n) {
        /* ORDER: acqrel; a client that draws it below zero adds its part again, and does not commit. */
        if ((int64_t) shm_sub_acqrel(allowance, n) >= (int64_t) n)
                return true;
        shm_add_acqrel(allowance, n); /* ORDER: acqrel; see above. */
        return false;
}

/*
 * Clients commit at most as many slabs as the daemon, which watches the limits of memory, has published. In a private
 * pool a thread that finds too few of them looks at the limits itself, and publishes for all: one of several at a time.
 */
static bool pages_draw_allowance(ShmActor *actor, uint32_t n) {
        uint64_t *allowance = &actor->arena->header->commit_allowance.value;
        uint64_t seen;
        int64_t found;

        if (actor->id == 0)
                return true;
        while (!draw_allowance(allowance, n)) {
                seen = shm_hint_load(allowance);
                found = actor->arena->find_allowance ? actor->arena->find_allowance() : 0;
                if (found < (int64_t) n)
                        return false;
                /* ORDER: acqrel; it fails if the word has changed: then another thread draws, or has published. */
                (void) shm_cas_acqrel(allowance, &seen, (uint64_t) found);
        }
        return true;
}

/* For slabs that were drawn, and not made. */
static void return_allowance(const ShmActor *actor, uint32_t n) {
        if (actor->id != 0 && n != 0)
                /* ORDER: acqrel, pairs with draw_allowance(); nothing goes with it. */
                shm_add_acqrel(&actor->arena->header->commit_allowance.value, n);
}

bool shm_pages_make(ShmActor *actor, const void *address, uint32_t n) {
        int saved = errno, r;

        if (!pages_draw_allowance(actor, n))
                return false;
        do
                r = pages_fallocate(actor->arena, 0, address, (uint64_t) n * SHM_SLAB_SIZE);
        while (r == -EINTR);
        if (r != 0)
                return_allowance(actor, n);
        else /* one call in place of a fault for each page */
                (void) madvise((void *) address, (size_t) n * SHM_SLAB_SIZE, MADV_POPULATE_WRITE);
        errno = saved;
        return r == 0;
}

ShmShortage shm_pages_shortage_at_limit(const ShmArena *arena) {
        uint32_t slab;
        bool full = shm_arena_n_slabs_ever(arena) >= arena->n_slabs &&
                    !shm_set_find(arena, SHM_SET_UNCOMMITTED, 0, &slab);

        return full ? SHM_SHORTAGE_POOL : SHM_SHORTAGE_LIMIT;
}

static void bring_back_run(const ShmArena *arena, uint32_t slab, uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                shm_tags_bring_back(arena, slab + i);
}

int shm_pages_commit(ShmActor *actor, uint32_t n, uint32_t *ret_n) {
        ShmArena *arena = actor->arena;
        uint32_t slab, length, done = 0;
        int r = 0;

        n = n < SHM_RUN_MAX ? n : SHM_RUN_MAX;
        if (!pages_draw_allowance(actor, n)) {
                actor->shortage = shm_pages_shortage_at_limit(arena);
                return -ENOMEM;
        }
        length = find_dropped(actor, n, &slab);
        if (length == 0)
                r = pages_extend_arena(actor, n, &slab, &length);
        if (r == 0) {
                done = pages_populate_run(actor, slab, length);
                pages_undo_run(actor, slab + done, length - done);
                bring_back_run(arena, slab, done);
                end_run(actor, slab, done, SLAB_FREE);
                shm_free_added(arena, done);
                add_run(arena, SHM_SET_FREE, slab, done);
                remove_run(arena, SHM_SET_UNCOMMITTED, slab, done);
                shm_actor_count(actor, SHM_COUNT_SLABS_COMMITTED, done);
                shm_probe(commit, slab, done);
                *ret_n = done;
                actor->shortage = SHM_SHORTAGE_SYSTEM;
                r = done > 0 ? 0 : -ENOMEM;
        }
        shm_actor_intend(actor, 0);
        return_allowance(actor, n - done);
        return r;
}

/* Makes the slabs of `mask` that are `from` BUSY. Returns their mask. */
static uint64_t begin_group(ShmActor *control, uint32_t group, uint64_t mask, SlabState from) {
        uint64_t taken = 0;

        for (; mask != 0; mask &= mask - 1) {
                uint32_t bit = (uint32_t) __builtin_ctzll(mask);

                if (group * 64 + bit < control->arena->n_slabs)
                        taken |= (uint64_t) begin_run(control, group * 64 + bit, 1, from) << bit;
        }
        return taken;
}

/* Gives `held` back as UNCOMMITTED slabs. */
static void end_group(ShmActor *control, uint32_t group, uint64_t held) {
        for (uint64_t rest = held; rest != 0; rest &= rest - 1)
                end_run(control, group * 64 + (uint32_t) __builtin_ctzll(rest), 1, SLAB_UNCOMMITTED);
        shm_set_add_mask(control->arena, SHM_SET_UNCOMMITTED, group, held);
}

static void punch_group(ShmArena *arena, uint32_t group, uint64_t rest) {
        while (rest != 0) {
                uint32_t first = (uint32_t) __builtin_ctzll(rest);
                uint64_t shifted = rest >> first;
                uint32_t length = shifted == UINT64_MAX ? 64 : (uint32_t) __builtin_ctzll(~shifted);

                pages_punch_run(arena, group * 64 + first, length);
                rest &= ~group_mask(group * 64 + first, length);
        }
}

/*
 * Slabs of the group whose tags stay: at most the first 64 of a pool, 16 KiB, which are taken again and again. To give
 * a page of tags back, and to make it again, takes a sixth of the time of a request with an epoch of its own.
 */
static uint64_t tags_that_stay(const ShmArena *arena, uint32_t group) {
        uint32_t n = arena->n_slabs / TAGS_STAY_SHARE;

        if (group > 0 || n < SHM_TAGS_PER_PAGE)
                return 0;
        return group_mask(0, n < 64 ? n / SHM_TAGS_PER_PAGE * SHM_TAGS_PER_PAGE : 64);
}

/* The slabs whose tags are in the same page as those of the group's slab number `first`. */
static uint64_t tags_page_mask(uint32_t first) {
        return group_mask(first, SHM_TAGS_PER_PAGE);
}

static bool all_uncommitted(const ShmArena *arena, uint32_t group, uint64_t mask) {
        for (; mask != 0; mask &= mask - 1) {
                uint32_t slab = group * 64 + (uint32_t) __builtin_ctzll(mask);

                if (slab >= shm_arena_n_slabs_ever(arena) || !shm_tags_away(arena, slab))
                        return false;
        }
        return true;
}

/*
 * Makes BUSY the UNCOMMITTED slabs that share a page of tags with the taken ones, if no other slab of that page is in
 * use.
 */
static uint64_t begin_sharers(ShmActor *control, uint32_t group, uint64_t taken) {
        uint64_t sharers = 0;

        taken &= ~tags_that_stay(control->arena, group);
        for (uint32_t first = 0; first < 64; first += SHM_TAGS_PER_PAGE) {
                uint64_t page = tags_page_mask(first);

                if ((taken & page) != 0 && all_uncommitted(control->arena, group, page & ~taken))
                        sharers |= begin_group(control, group, page & ~taken, SLAB_UNCOMMITTED);
        }
        return sharers;
}

/* The number of bytes of tags, from slab `first` of the group on, in pages whose slabs are all in `away`. */
static size_t tags_run_size(uint64_t away, uint32_t first) {
        uint32_t end = first;

        while (end < 64 && (away & tags_page_mask(end)) == tags_page_mask(end))
                end += SHM_TAGS_PER_PAGE;
        return (end - first) * sizeof(ShmTags);
}

/*
 * Gives BUSY slabs their floors, then drops the pages of tags that they share with no other slab. Neighbouring pages go
 * in one call, as each call takes microseconds.
 */
static void drop_tags(ShmArena *arena, uint32_t group, uint64_t held) {
        uint64_t away = 0;

        for (uint64_t rest = held & ~tags_that_stay(arena, group); rest != 0; rest &= rest - 1) {
                uint32_t bit = (uint32_t) __builtin_ctzll(rest);

                away |= (uint64_t) shm_tags_put_away(arena, group * 64 + bit) << bit;
        }
        for (uint32_t first = 0; first < 64; first += SHM_TAGS_PER_PAGE) {
                size_t size = tags_run_size(away, first);

                if (size > 0)
                        shm_pages_punch(arena, &arena->tags[group * 64 + first], size);
                first += (uint32_t) (size / sizeof(ShmTags)); /* and the page that stays */
        }
}

uint32_t shm_pages_drop(ShmActor *control, uint32_t group, uint64_t mask) {
        ShmArena *arena = control->arena;
        uint64_t taken, held;
        uint32_t n;

        shm_actor_intend(control, shm_intent_other(SHM_INTENT_RUN, group * 64, 64));
        taken = begin_group(control, group, mask, SLAB_FREE);
        n = (uint32_t) __builtin_popcountll(taken);
        if (n > 0) {
                shm_free_taken(arena, n);
                held = taken | begin_sharers(control, group, taken);
                drop_tags(arena, group, held);
                punch_group(arena, group, taken);
                end_group(control, group, held);
                shm_set_remove_mask(arena, SHM_SET_FREE, group, taken);
                shm_hint_add(&arena->header->counters[SHM_TOTAL_RECLAIMED].value, n);
                shm_probe(drop, group, taken, n);
        }
        shm_actor_intend(control, 0);
        return n;
}

static uint64_t drop_if_surplus(ShmActor *control, uint32_t slab) {
        uint64_t size = 0;

        shm_actor_intend(control, shm_intent_other(SHM_INTENT_RUN, slab, 1));
        if (begin_run(control, slab, 1, SLAB_UNCOMMITTED) == 1) {
                pages_undo_run(control, slab, 1);
                size = SHM_SLAB_SIZE;
        }
        shm_actor_intend(control, 0);
        return size;
}

/* Does nothing unless all slabs whose tags are in the page are UNCOMMITTED. */
static void drop_tags_page(ShmActor *control, uint32_t slab) {
        uint64_t held;

        if (tags_that_stay(control->arena, slab / 64) & tags_page_mask(slab))
                return;
        shm_actor_intend(control, shm_intent_other(SHM_INTENT_RUN, slab, SHM_TAGS_PER_PAGE));
        held = begin_group(control, slab / 64, tags_page_mask(slab), SLAB_UNCOMMITTED);
        drop_tags(control->arena, slab / 64, held);
        end_group(control, slab / 64, held);
        shm_actor_intend(control, 0);
}

/*
 * Asks the file for data: the first page at or after `at` that exists, as a number of pages from `at`; UINT32_MAX:
 * none.
 */
static uint32_t next_page(const ShmArena *arena, const void *at) {
        off_t from = (const uint8_t *) at - arena->base, data = lseek(arena->fd, from, SEEK_DATA);

        return data < 0 ? UINT32_MAX : (uint32_t) ((data - from) / SHM_SLAB_SIZE);
}

static uint32_t drop_surplus_pages(ShmActor *control, ShmSurplus *surplus, uint32_t end, uint32_t budget) {
        const ShmArena *arena = control->arena;

        for (; budget > 0 && surplus->position < end; budget--, surplus->position++) {
                uint32_t skipped;

                if (!shm_tags_away(arena, surplus->position))
                        continue;
                skipped = next_page(arena, shm_arena_slab(arena, surplus->position));
                if (skipped >= end - surplus->position)
                        surplus->position = end - 1;
                else if (skipped > 0)
                        surplus->position += skipped - 1;
                else {
                        surplus->size += drop_if_surplus(control, surplus->position);
                        budget -= SHM_DROP_COST < budget ? SHM_DROP_COST : budget - 1;
                }
        }
        return budget;
}

/*
 * Drops pages of tags that no other drop meets: of slabs that a client could not commit, or made by a look at a stale
 * handle.
 */
static void drop_surplus_tags(ShmActor *control, ShmSurplus *surplus, uint32_t end, uint32_t budget) {
        const ShmArena *arena = control->arena;

        for (; budget > 0 && surplus->tags_position < end; budget--) {
                uint32_t slab = surplus->tags_position, skipped = next_page(arena, &arena->tags[slab]);

                if (skipped >= (end - slab) / SHM_TAGS_PER_PAGE) {
                        surplus->tags_position = end;
                } else if (skipped > 0) {
                        surplus->tags_position += skipped * SHM_TAGS_PER_PAGE;
                } else {
                        if (all_uncommitted(arena, slab / 64, tags_page_mask(slab))) {
                                drop_tags_page(control, slab);
                                budget -= SHM_DROP_COST < budget ? SHM_DROP_COST : budget - 1;
                        }
                        surplus->tags_position += SHM_TAGS_PER_PAGE;
                }
        }
}

bool shm_pages_drop_surplus_until(ShmActor *control, ShmSurplus *surplus, uint32_t end, uint32_t budget) {
        uint32_t tags_end = end / SHM_TAGS_PER_PAGE * SHM_TAGS_PER_PAGE;

        budget = drop_surplus_pages(control, surplus, end, budget);
        drop_surplus_tags(control, surplus, tags_end, budget);
        return surplus->position >= end && surplus->tags_position >= tags_end;
}

bool shm_pages_drop_surplus_step(ShmActor *control, ShmSurplus *surplus, uint32_t budget) {
        return shm_pages_drop_surplus_until(control, surplus, shm_arena_n_slabs_ever(control->arena), budget);
}

uint64_t shm_pages_drop_surplus(ShmActor *control) {
        ShmSurplus surplus = {};

        while (!shm_pages_drop_surplus_step(control, &surplus, UINT32_MAX))
                ;
        return surplus.size;
}

uint32_t shm_pages_undo(ShmActor *control, uint32_t holder, uint32_t slab, uint32_t n) {
        uint32_t n_slabs = shm_arena_n_slabs_ever(control->arena), n_undone = 0;

        if (slab >= n_slabs)
                return 0;
        n = n < n_slabs - slab ? n : n_slabs - slab;
        n = n < SHM_RUN_MAX ? n : SHM_RUN_MAX;
        if (holder != 0)
                shm_actor_intend(control, shm_intent_other(SHM_INTENT_RUN, slab, n));
        for (uint32_t i = slab; i < slab + n; i++) {
                SlabWord w = shm_slab_word(control->arena, i);

                if (slab_word_state(w) != SLAB_BUSY || slab_word_holder(w) != holder)
                        continue;
                pages_punch_run(control->arena, i, 1);
                (void) shm_slab_end(control, holder, i, SLAB_UNCOMMITTED);
                shm_set_add(control->arena, SHM_SET_UNCOMMITTED, i);
                n_undone++;
        }
        if (holder != 0)
                shm_actor_intend(control, 0);
        return n_undone;
}
