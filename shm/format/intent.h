#pragma once
/*
 * A record's intent: the step that its owner is about to take. After a death, repair finishes or undoes that step.
 *
 *     63                32 31  30 29                   0
 *     [ tag             ][ kind ][ slot id             ]    FREE h, TAKE h
 *     [ arg 28   ][sub 4][  3   ][ slab, record << 6   ]    CLAIM slab, FLUSH r,cache,k, SLAB s, RUN s,n
 *
 * The record has two words of it. To set an intent its owner writes the mask (intent_mask), then this word
 * (intent_what); to clear it, it stores 0 in this word. Intents never nest.
 */
#include <stdint.h>

#include "shm/format/handle.h"

typedef enum ShmIntentKind {
        SHM_INTENT_NONE,
        SHM_INTENT_FREE, /* about to make the tag even; does not own the slot: another free may win */
        SHM_INTENT_TAKE, /* has claimed the slot, and is about to make its tag odd */
        SHM_INTENT_CLAIM, /* about to take the slots of the mask in the slab, or to make their tags even */
        SHM_INTENT_FLUSH, /* about to free the top k slots of a cache of record r, mostly its own record */
        SHM_INTENT_SLAB, /* setting hints of the slab */
        SHM_INTENT_RUN, /* making or dropping the pages of n slabs */
} ShmIntentKind;

typedef struct ShmIntent {
        ShmIntentKind kind;
        SlotId id; /* CLAIM, SLAB, RUN: slot 0 of the slab; FLUSH: record r in place of the slab */
        uint32_t tag; /* FREE, TAKE: the handle's tag, which is odd */
        uint32_t arg; /* RUN: n; FLUSH: cache << 9 | k */
        uint64_t mask; /* CLAIM */
} ShmIntent;

static inline uint64_t shm_intent_free(uint32_t tag, SlotId id) {
        return (uint64_t) tag << 32 | UINT64_C(1) << 30 | id.value;
}

static inline uint64_t shm_intent_take(uint32_t tag, SlotId id) {
        return (uint64_t) tag << 32 | UINT64_C(2) << 30 | id.value;
}

static inline uint64_t shm_intent_other(ShmIntentKind kind, uint32_t slab, uint32_t arg) {
        return (uint64_t) arg << 36 | (uint64_t) kind << 32 | UINT64_C(3) << 30 | slab << 6;
}

/* Accepts any two words; words that are no intent decode as NONE. */
static inline ShmIntent shm_intent_decode(uint64_t what, uint64_t mask) {
        ShmIntent i = { .id = { (uint32_t) what & SHM_SLOT_ID_MASK },
                        .tag = (uint32_t) (what >> 32),
                        .mask = mask };
        uint32_t kind = ((uint32_t) what >> 30) & 3;

        if (kind < 3) {
                i.kind = (ShmIntentKind) kind;
                return i;
        }
        i.kind = (ShmIntentKind) (i.tag & 0xf);
        i.arg = i.tag >> 4;
        if (i.kind < SHM_INTENT_CLAIM || i.kind > SHM_INTENT_RUN)
                i.kind = SHM_INTENT_NONE;
        return i;
}

/* How many slots, from the top of this cache of this record, are being freed under FLUSH. */
static inline uint32_t shm_intent_flushed(ShmIntent intent, uint32_t record, uint32_t index) {
        if (intent.kind != SHM_INTENT_FLUSH || slot_id_slab(intent.id) != record || intent.arg >> 9 != index)
                return 0;
        return intent.arg & 0x1ff;
}
