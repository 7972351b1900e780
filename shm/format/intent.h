#pragma once
/*
 * A record's intent: what its owner is about to do, for whoever repairs after its death.
 *
 *     63                32 31  30 29                   0
 *     [ tag             ][ kind ][ slot id             ]    FREE h, TAKE h
 *     [ arg 28   ][sub 4][  3   ][ slab, record << 6   ]    CLAIM slab, FLUSH r,cache,k, SLAB s, RUN s,n
 *
 * `mask` is written before `what`, `what` is cleared first; 0 is none. Intents never nest.
 */
#include <stdint.h>

#include "shm/format/handle.h"

typedef enum ShmIntentKind {
        SHM_INTENT_NONE,
        SHM_INTENT_FREE, /* about to make the tag even; not possession */
        SHM_INTENT_TAKE, /* claimed, its tag about to become odd */
        SHM_INTENT_CLAIM, /* about to set bits of the slab; the mask says which */
        SHM_INTENT_FLUSH, /* about to give back the top k of a cache of record r, mostly one's own */
        SHM_INTENT_SLAB, /* hints of the slab are being set */
        SHM_INTENT_RUN, /* pages of n slabs are being made or dropped */
} ShmIntentKind;

typedef struct ShmIntent {
        ShmIntentKind kind;
        SlotId id; /* CLAIM, SLAB, RUN: slot 0 of the slab; FLUSH: of what would be slab r */
        uint32_t tag; /* FREE, TAKE: of the handle, odd */
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

/* Of anything at all: what is not an intent is NONE. */
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

/* How many from the top of this cache of this record are being given back. */
static inline uint32_t shm_intent_flushed(ShmIntent intent, uint32_t record, uint32_t index) {
        if (intent.kind != SHM_INTENT_FLUSH || slot_id_slab(intent.id) != record || intent.arg >> 9 != index)
                return 0;
        return intent.arg & 0x1ff;
}
