#pragma once
/*
 * The slab word holds all state of a slab that changes together. Its transitions are pure functions
 * on plain values; shm/slab/slab.c wraps each in one compare-and-set loop.
 *
 *     bitmap 64   1 = slot taken (live, or in some cache) or beyond the class's count
 *     state   3   see SlabState
 *     sparse  1   few slots are taken, and no thread holds the slab: see SLAB_SPARSE
 *     class   5
 *     epoch   6
 *     era    12   low bits of the epoch's era
 *     holder 12   index of the record that holds the slab, when ACTIVE or BUSY
 *     gen    25   + 1 by every transition that sets bits or changes class, epoch or pages
 *
 * FREE, UNCOMMITTED and BUSY words have an empty bitmap. A FREE word keeps the class and epoch that
 * the slab last served. A word of zeros, as in a hole of the arena, is UNCOMMITTED.
 *
 *     edge                             function               by                            order
 *     UNCOMMITTED -> BUSY              slab_word_begin        daemon, a client out of       acqrel
 *                                                             free slabs
 *     BUSY        -> FREE              slab_word_commit       the holder                    acqrel
 *     BUSY        -> UNCOMMITTED       slab_word_drop         the holder; repair            acqrel
 *     FREE        -> BUSY              slab_word_begin        daemon                        acqrel
 *     FREE        -> PARTIAL | FULL    slab_word_claim        a client, uncached            acqrel
 *     FREE        -> ACTIVE            slab_word_hold         a client                      acqrel
 *     PARTIAL     -> PARTIAL | FULL    slab_word_claim        a client, uncached            acqrel
 *     PARTIAL     -> ACTIVE            slab_word_hold         a client                      acqrel
 *     ACTIVE      -> ACTIVE            slab_word_hold         the holder: more slots        acqrel
 *     ACTIVE      -> FREE | PARTIAL | FULL slab_word_release     the holder; daemon            acqrel
 *     ACTIVE      -> ACTIVE            slab_word_free_slots   any, with slots of it         acqrel
 *     PARTIAL     -> PARTIAL | FREE    slab_word_free_slots   any, with slots of it         acqrel
 *     FULL        -> PARTIAL | FREE    slab_word_free_slots   any, with slots of it         acqrel
 *     DRAINING    -> DRAINING | FREE   slab_word_free_slots   any, with slots of it         acqrel
 *     PARTIAL | FULL -> DRAINING       slab_word_drain        daemon: its era is over       acqrel
 *     ACTIVE      -> DRAINING | FREE   slab_word_drain        daemon: its era is over       acqrel
 *     PARTIAL | FULL | ACTIVE -> ACTIVE slab_word_pin         daemon: claims are to stop    acqrel
 *
 * All orders are acqrel because the word passes slots, and the objects in them, from one process
 * to another. slab_edges[] says the same to the test that tries every state with every operation.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/arch/atomic.h"

typedef ShmPair SlabWord; /* low: bitmap, high: the rest */

typedef enum SlabState {
        SLAB_UNCOMMITTED, /* it has no page; if there is one, it is surplus and may be dropped */
        SLAB_FREE, /* it has a page, and no slot is taken; in the set `free` */
        SLAB_PARTIAL, /* some slots are free, and any thread may claim them; in the set `partial` */
        SLAB_ACTIVE, /* only the holder may claim slots */
        SLAB_FULL, /* no slot is free */
        SLAB_DRAINING, /* its era is over, and no thread may claim slots */
        SLAB_BUSY, /* the holder is making or dropping its page */
        _SLAB_STATE_N,
} SlabState;

typedef enum SlabOp {
        SLAB_OP_BEGIN,
        SLAB_OP_COMMIT,
        SLAB_OP_DROP,
        SLAB_OP_CLAIM,
        SLAB_OP_HOLD,
        SLAB_OP_RELEASE,
        SLAB_OP_FREE_SLOTS,
        SLAB_OP_DRAIN,
        SLAB_OP_PIN,
        _SLAB_OP_N,
} SlabOp;

typedef struct SlabEdge {
        SlabState from;
        SlabOp op;
        SlabState to;
} SlabEdge;

extern const SlabEdge slab_edges[];
extern const size_t n_slab_edges;
const char *slab_state_to_string(SlabState state);

enum {
        _SLAB_E_SUCCESS,
        SLAB_E_REFUSED, /* the word has no such edge, perhaps because another thread changed it */
};

#define SLAB_CLASS_SHIFT 4
#define SLAB_EPOCH_SHIFT 9
#define SLAB_ERA_SHIFT 15
#define SLAB_HOLDER_SHIFT 27
#define SLAB_GEN_SHIFT 39
#define SLAB_STATE_MASK UINT64_C(0x7)
/*
 * Set in a PARTIAL slab with at most a quarter of its slots taken. A thread that frees an object in such a slab gives
 * the slot back at once: from a cache the slot would be allocated again and again, and the slab would never empty. With
 * a larger share, half full slabs would empty, too, but then many a slab would be sparse just while a batch of its
 * objects is freed. Every transition computes the bit anew; a thread that acts on an old bit puts one slot too many
 * into a cache, or into the slab.
 */
#define SLAB_SPARSE UINT64_C(0x8)
#define SLAB_HOLDER_MASK (UINT64_C(0xfff) << SLAB_HOLDER_SHIFT)
#define SLAB_GEN_ONE (UINT64_C(1) << SLAB_GEN_SHIFT)
#define SLAB_ERA_BITS UINT32_C(0xfff)
/* Class, epoch and era: a claim succeeds only if the slab's agree with the caller's. */
#define SLAB_KEY_MASK (UINT64_C(0x7fffff) << SLAB_CLASS_SHIFT)
/* The key and SLAB_SPARSE: a slot goes into the cache of this key if its slab's word has the key and not the bit. */
#define SLAB_CACHED_MASK (SLAB_KEY_MASK | SLAB_SPARSE)

static inline SlabState slab_word_state(SlabWord w) {
        return (SlabState) (w.high & SLAB_STATE_MASK);
}

static inline bool slab_word_is_sparse(SlabWord w) {
        return w.high & SLAB_SPARSE;
}

static inline uint32_t slab_word_class(SlabWord w) {
        return (w.high >> SLAB_CLASS_SHIFT) & 0x1f;
}

static inline uint32_t slab_word_epoch(SlabWord w) {
        return (w.high >> SLAB_EPOCH_SHIFT) & 0x3f;
}

static inline uint32_t slab_word_era(SlabWord w) {
        return (w.high >> SLAB_ERA_SHIFT) & SLAB_ERA_BITS;
}

static inline uint32_t slab_word_holder(SlabWord w) {
        return (w.high >> SLAB_HOLDER_SHIFT) & 0xfff;
}

static inline uint32_t slab_word_gen(SlabWord w) {
        return (uint32_t) (w.high >> SLAB_GEN_SHIFT);
}

/* Class, epoch and era in their places in the word. */
static inline uint64_t slab_key(uint32_t class, uint32_t epoch, uint32_t era) {
        return (uint64_t) class << SLAB_CLASS_SHIFT | (uint64_t) epoch << SLAB_EPOCH_SHIFT |
               (uint64_t) (era & SLAB_ERA_BITS) << SLAB_ERA_SHIFT;
}

static inline uint32_t slab_key_class(uint64_t key) {
        return (key >> SLAB_CLASS_SHIFT) & 0x1f;
}

static inline uint32_t slab_key_epoch(uint64_t key) {
        return (key >> SLAB_EPOCH_SHIFT) & 0x3f;
}

/* In each call `tail_mask` has the bits beyond the slots of the class: that of the key or, without one, of the word. */
SlabWord slab_word_settle(SlabWord w, uint64_t tail_mask);
int slab_word_begin(SlabWord w, uint32_t holder, SlabWord *ret);
int slab_word_commit(SlabWord w, uint32_t holder, SlabWord *ret);
int slab_word_drop(SlabWord w, uint32_t holder, SlabWord *ret);
int slab_word_claim(SlabWord w, uint64_t key, uint64_t tail_mask, uint32_t n, SlabWord *ret,
                    uint64_t *ret_mask);
int slab_word_hold(SlabWord w, uint32_t holder, uint64_t key, uint64_t tail_mask, uint32_t n, SlabWord *ret,
                   uint64_t *ret_mask);
int slab_word_release(SlabWord w, uint64_t tail_mask, SlabWord *ret);
int slab_word_free_slots(SlabWord w, uint64_t mask, uint64_t tail_mask, SlabWord *ret);
int slab_word_drain(SlabWord w, uint64_t key, uint64_t tail_mask, SlabWord *ret);
int slab_word_pin(SlabWord w, uint32_t holder, SlabWord *ret);
