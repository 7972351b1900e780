#pragma once
/*
 * A check's findings, and the part of the check that needs no second look: epochs, records, caches and slab words, each
 * by itself.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/format/slab-word.h"
#include "shm/maintain/refs.h"

#define SHM_CHECK_PROBLEMS_MAX 16

typedef struct ShmCheck {
        uint64_t slabs, slots; /* looked at */
        uint64_t lost_slots; /* taken, but not live, and no record refers to them */
        uint64_t doubled_slots; /* in two caches; or live, or in a cache, while the bitmap says free */
        uint64_t in_flight_slots; /* an operation that is under way, or broke off, refers to them */
        uint64_t wrong_hints; /* a bit that should be set and is not */
        uint64_t repaired; /* slots, words and hints; these are in no other count */
        uint64_t problems; /* all kinds; `texts` describes the first ones */
        size_t n_texts;
        char texts[SHM_CHECK_PROBLEMS_MAX][128];
} ShmCheck;

/* Counts one more problem, and keeps its text while there is room for texts. */
void shm_check_problem(ShmCheck *check, const char *format, ...) __attribute__((format(printf, 2, 3)));

void shm_check_epochs(const ShmArena *arena, ShmCheck *check);
void shm_check_record(const ShmArena *arena, ShmCheck *check, uint32_t record);

static inline bool shm_check_in_use(SlabState state) {
        return state >= SLAB_PARTIAL && state <= SLAB_DRAINING;
}

/* Says how the word contradicts itself. NULL: it does not. */
const char *shm_check_word(const ShmArena *arena, SlabWord w);
/* Says how the word and its holder contradict each other; NULL: they agree. A dead holder is no fault: repair comes. */
const char *shm_check_holder(const ShmArena *arena, const ShmRefs *refs, uint32_t slab, SlabWord w);
