#pragma once
/* What a check of an arena found: counts, and the first problems in words. */
#include <stddef.h>
#include <stdint.h>

#define SHM_CHECK_PROBLEMS_MAX 16

typedef struct ShmCheck {
        uint64_t slabs, slots; /* looked at */
        uint64_t lost_slots; /* taken, but neither live nor named anywhere */
        uint64_t doubled_slots; /* named twice, or live or named and free in the bitmap */
        uint64_t unsettled_slots; /* an operation is under way, or broke off, in whose intent they are */
        uint64_t wrong_hints; /* a bit that should be set and is not */
        uint64_t repaired; /* slots, words and hints that were mended, and are in no other count */
        uint64_t problems; /* of all kinds; the first of them in words: */
        size_t n_texts;
        char texts[SHM_CHECK_PROBLEMS_MAX][128];
} ShmCheck;

/* One more problem, in words as long as there is room for them. */
void shm_check_problem(ShmCheck *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
