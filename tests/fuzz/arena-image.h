#pragma once
/*
 * An arena image for fuzzing: small, in full use, put back as it was before each input; mapped between
 * pages that nobody may touch; written over by the input, also in front of the n-th access that the code
 * under test makes (shm is built with SHM_STEP).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "shm/arena/record.h"

#define require(_condition) ((_condition) ? (void) 0 : image_fail(#_condition, __FILE__, __LINE__))

static inline void image_fail(const char *condition, const char *file, int line) {
        fprintf(stderr, "%s:%d: %s\n", file, line, condition);
        abort();
}

#define IMAGE_N_SLABS 150U /* the last group is not whole */
#define IMAGE_N_RECORDS 7U
#define IMAGE_N_EPOCHS 4U
#define IMAGE_N_CLASSES 3U

/* Twelve bytes of the input. */
typedef struct ImageStep {
        uint8_t what, a;
        uint16_t b;
        uint64_t value;
} ImageStep;

enum {
        IMAGE_PUT, /* a word of region a */
        IMAGE_FLIP, /* bits of one */
        IMAGE_FILL, /* 64 of them */
        IMAGE_LATER, /* the next writes come in front of the b-th access from then on */
        IMAGE_STATE, /* slab a: its word without the bitmap */
        IMAGE_BITMAP, /* slab a */
        IMAGE_TAG, /* slab a, slot b */
        IMAGE_CACHE, /* b of record a: as full as the value says, of slots from its upper half on */
        IMAGE_HEAD, /* record a */
        IMAGE_INTENT, /* record a */
        IMAGE_NOTE, /* b of record a */
        IMAGE_EPOCH, /* the word of epoch a */
        IMAGE_SEALED, /* word b of the slabs, as the object there would: of a leaf, or (a & 2) of a node; the value, or
                       * (a & 1) the handle of slot `value`, whose kind is xor the highest bits of a */
        _IMAGE_WRITE_N,
};

/* Puts all as it was: the descriptor. It is the same each time. */
int image_reset(void);
/* A write that the input asks for: at once, or later. */
void image_write(const ImageStep *step);
/* The fields that make the memory an arena are put back. */
void image_repair_header(void);

/* Maps as the daemon does, between pages that nobody may touch; as shm_arena_map(). */
int image_attach(ShmArena *arena);
void image_detach(ShmArena *arena);

/* Accesses are counted anew: too many are a loop without an end. Writes yet to come do not come any more. */
void image_begin_operation(void);
void image_end_operation(void);

/* Time passes for entries. */
void image_pass(uint32_t ms);
