/*
 * Epochs of an allocator
 *
 * Purpose: its epoch calls, and how many users each epoch has.
 * Invariants: 1. a word of refs counts users of the era that stands in it; other eras have none.
 * Who may do what: any thread of this process, by compare-and-set.
 * Crash: the counts are this process's, and end with it.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include <tslab.h>

#include "slab-alloc/counters.h"
#include "slab-alloc/metadata.h"
#include "shm/epoch/epoch.h"

#define STABLE_ROOT "slab-alloc.closed" /* not 0: a program closed epoch 0 */
#define WAIT_MAX_NS UINT64_C(1000000000) /* for a process that may be stopped */
#define PAUSE_NS 50000
#define USERS_BITS 40
#define USERS_MASK ((UINT64_C(1) << USERS_BITS) - 1)

static AllocatorState *state_with(const SlabAllocator *alloc, EpochId epoch) {
        return epoch < ALLOCATOR_EPOCHS ? allocator_state(alloc) : NULL;
}

uint32_t allocator_era(const AllocatorState *state, EpochId epoch) {
        ShmEpochInfo info;

        return shm_epoch_get(&state->pool->arena, epoch, &info) == 0 ? info.era : 0;
}

int allocator_stable(const AllocatorState *state, uint32_t *ret_number) {
        tslab_handle closed = 0;

        (void) tslab_root_get(state->pool, STABLE_ROOT, &closed);
        if (closed != 0)
                return -ESHUTDOWN;
        *ret_number = state->stable;
        return 0;
}

/* In the pool, where forked processes see it. */
static void set_stable_closed(AllocatorState *state, bool closed) {
        tslab_handle old = 0;

        (void) tslab_root_get(state->pool, STABLE_ROOT, &old);
        if ((old != 0) != closed)
                (void) tslab_root_set(state->pool, STABLE_ROOT, old, closed);
}

/* Whether the call is to be made again: another process was advancing or closing. After a second it is left. */
static bool wait_for_other(int r, uint64_t begin) {
        const struct timespec pause = { .tv_nsec = PAUSE_NS };

        if (r != -EBUSY || now_ns() - begin > WAIT_MAX_NS)
                return false;
        (void) nanosleep(&pause, NULL);
        return true;
}

static int close_number(AllocatorState *state, uint32_t number) {
        uint64_t begin = now_ns();
        int r;

        do
                r = tslab_epoch_close(state->pool, number, 0);
        while (wait_for_other(r, begin));
        return r;
}

static int advance_epoch(AllocatorState *state, uint32_t *ret_number) {
        uint64_t begin = now_ns();
        int r;

        do
                r = tslab_epoch_advance(state->pool, ret_number);
        while (wait_for_other(r, begin));
        return r;
}

void allocator_close(AllocatorState *state, uint32_t number) {
        if (close_number(state, number) == 0 && (number & 0xff) == 0)
                set_stable_closed(state, true);
}

_public_ EpochId epoch_current(SlabAllocator *alloc) {
        const AllocatorState *state = allocator_state(alloc);

        return state ? shm_epoch_current(&state->pool->arena) & 0xff : 0;
}

_public_ void epoch_advance(SlabAllocator *alloc) {
        AllocatorState *state = allocator_state(alloc);
        uint32_t number;

        if (!state || advance_epoch(state, &number) < 0)
                return;
        if ((number & 0xff) == 0)
                set_stable_closed(state, false);
        metadata_set_opened(alloc, number);
}

_public_ void epoch_close(SlabAllocator *alloc, EpochId epoch) {
        AllocatorState *state = state_with(alloc, epoch);
        uint64_t rss, begin;

        if (!state)
                return;
        rss = read_rss_bytes_linux();
        begin = now_ns();
        allocator_close(state, epoch);
        counters_note_close(state, now_ns() - begin);
        metadata_set_closed(alloc, epoch, rss, read_rss_bytes_linux());
}

_public_ void slab_epoch_set_label(SlabAllocator *alloc, EpochId epoch, const char *label) {
        AllocatorState *state = state_with(alloc, epoch);
        char text[TSLAB_LABEL_SIZE] = "";
        size_t n;

        if (!state)
                return;
        n = label ? strnlen(label, TSLAB_LABEL_SIZE) : 0;
        if (n == TSLAB_LABEL_SIZE) /* not in the middle of a character */
                for (n--; n > 0 && ((unsigned char) label[n] & 0xc0) == 0x80;)
                        n--;
        if (n > 0)
                memcpy(text, label, n);
        if (tslab_epoch_label(state->pool, epoch, text) == 0)
                metadata_set_label(alloc, epoch, text);
}

static uint64_t users_of(uint64_t refs, uint32_t era) {
        return refs >> USERS_BITS == era ? refs & USERS_MASK : 0;
}

static void change_users(AllocatorState *state, EpochId epoch, bool more) {
        uint32_t era = allocator_era(state, epoch);
        uint64_t *word = &state->refs[epoch];
        uint64_t old = shm_load_rlx(word), n; /* ORDER: rlx; the compare-and-set looks again. */

        do {
                n = users_of(old, era);
                if (!more && n == 0)
                        return;
                n = more ? n + 1 : n - 1;
                /* ORDER: acqrel, pairs with slab_epoch_get_refcount(); the work of a user is done when it goes. */
        } while (!shm_cas_acqrel(word, &old, (uint64_t) era << USERS_BITS | n));
}

_public_ void slab_epoch_inc_refcount(SlabAllocator *alloc, EpochId epoch) {
        AllocatorState *state = state_with(alloc, epoch);

        if (state)
                change_users(state, epoch, true);
}

_public_ void slab_epoch_dec_refcount(SlabAllocator *alloc, EpochId epoch) {
        AllocatorState *state = state_with(alloc, epoch);

        if (state)
                change_users(state, epoch, false);
}

_public_ uint64_t slab_epoch_get_refcount(SlabAllocator *alloc, EpochId epoch) {
        AllocatorState *state = state_with(alloc, epoch);

        /* ORDER: acq, pairs with change_users(); the work of users that are gone is done. */
        return state ? users_of(shm_load_acq(&state->refs[epoch]), allocator_era(state, epoch)) : 0;
}
