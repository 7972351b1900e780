/* See shm/format/slab-word.h for the table of the transitions. */
#include "shm/format/slab-word.h"

/* A table. */
/* clang-format off */
const SlabEdge slab_edges[] = {
        { SLAB_UNCOMMITTED, SLAB_OP_BEGIN, SLAB_BUSY },  { SLAB_FREE, SLAB_OP_BEGIN, SLAB_BUSY },
        { SLAB_BUSY, SLAB_OP_COMMIT, SLAB_FREE },        { SLAB_BUSY, SLAB_OP_DROP, SLAB_UNCOMMITTED },
        { SLAB_FREE, SLAB_OP_CLAIM, SLAB_PARTIAL },       { SLAB_FREE, SLAB_OP_CLAIM, SLAB_FULL },
        { SLAB_PARTIAL, SLAB_OP_CLAIM, SLAB_PARTIAL },     { SLAB_PARTIAL, SLAB_OP_CLAIM, SLAB_FULL },
        { SLAB_FREE, SLAB_OP_HOLD, SLAB_ACTIVE },          { SLAB_PARTIAL, SLAB_OP_HOLD, SLAB_ACTIVE },
        { SLAB_ACTIVE, SLAB_OP_HOLD, SLAB_ACTIVE },          { SLAB_ACTIVE, SLAB_OP_RELEASE, SLAB_FREE },
        { SLAB_ACTIVE, SLAB_OP_RELEASE, SLAB_PARTIAL },     { SLAB_ACTIVE, SLAB_OP_RELEASE, SLAB_FULL },
        { SLAB_ACTIVE, SLAB_OP_FREE_SLOTS, SLAB_ACTIVE },     { SLAB_PARTIAL, SLAB_OP_FREE_SLOTS, SLAB_PARTIAL },
        { SLAB_PARTIAL, SLAB_OP_FREE_SLOTS, SLAB_FREE },   { SLAB_FULL, SLAB_OP_FREE_SLOTS, SLAB_PARTIAL },
        { SLAB_FULL, SLAB_OP_FREE_SLOTS, SLAB_FREE },     { SLAB_DRAINING, SLAB_OP_FREE_SLOTS, SLAB_DRAINING },
        { SLAB_DRAINING, SLAB_OP_FREE_SLOTS, SLAB_FREE }, { SLAB_ACTIVE, SLAB_OP_DRAIN, SLAB_DRAINING },
        { SLAB_ACTIVE, SLAB_OP_DRAIN, SLAB_FREE },         { SLAB_PARTIAL, SLAB_OP_DRAIN, SLAB_DRAINING },
        { SLAB_FULL, SLAB_OP_DRAIN, SLAB_DRAINING },     { SLAB_PARTIAL, SLAB_OP_PIN, SLAB_ACTIVE },
        { SLAB_FULL, SLAB_OP_PIN, SLAB_ACTIVE },         { SLAB_ACTIVE, SLAB_OP_PIN, SLAB_ACTIVE },
};
/* clang-format on */

const size_t n_slab_edges = sizeof(slab_edges) / sizeof(slab_edges[0]);

const char *slab_state_to_string(SlabState state) {
        static const char *const names[_SLAB_STATE_N] = {
                [SLAB_UNCOMMITTED] = "uncommitted",
                [SLAB_FREE] = "free",
                [SLAB_PARTIAL] = "listed",
                [SLAB_ACTIVE] = "held",
                [SLAB_FULL] = "full",
                [SLAB_DRAINING] = "draining",
                [SLAB_BUSY] = "busy",
        };

        return state < _SLAB_STATE_N ? names[state] : "invalid";
}

static SlabWord with_state(SlabWord w, SlabState state, uint32_t holder) {
        w.high &= ~(SLAB_STATE_MASK | SLAB_SPARSE | SLAB_HOLDER_MASK);
        w.high |= state | (uint64_t) holder << SLAB_HOLDER_SHIFT;
        return w;
}

static bool held_by(SlabWord w, SlabState state, uint32_t holder) {
        return slab_word_state(w) == state && slab_word_holder(w) == holder;
}

/* At most a quarter is taken, rounded so that one slot of two, or of five, is few. */
static bool is_sparse(uint64_t bitmap, uint64_t tail_mask) {
        uint32_t n_slots = 64 - (uint32_t) __builtin_popcountll(tail_mask);
        uint32_t n_taken = (uint32_t) __builtin_popcountll(bitmap & ~tail_mask);

        return n_taken <= (n_slots + 2) / 4;
}

/* Only here a word's state is computed from its bitmap. */
SlabWord slab_word_settle(SlabWord w, uint64_t tail_mask) {
        SlabState state = slab_word_state(w);
        bool empty = w.low == tail_mask;

        if (state == SLAB_ACTIVE || (state == SLAB_DRAINING && !empty))
                return w;
        if (empty) {
                w.low = 0;
                return with_state(w, SLAB_FREE, 0);
        }
        if (w.low == UINT64_MAX)
                return with_state(w, SLAB_FULL, 0);
        w = with_state(w, SLAB_PARTIAL, 0);
        w.high |= is_sparse(w.low, tail_mask) ? SLAB_SPARSE : 0;
        return w;
}

int slab_word_begin(SlabWord w, uint32_t holder, SlabWord *ret) {
        SlabState state = slab_word_state(w);

        if (state != SLAB_UNCOMMITTED && state != SLAB_FREE)
                return SLAB_E_REFUSED;

        *ret = with_state(w, SLAB_BUSY, holder);
        ret->low = 0;
        ret->high += SLAB_GEN_ONE;
        return 0;
}

static int slab_word_end_pages(SlabWord w, uint32_t holder, SlabState state, SlabWord *ret) {
        if (!held_by(w, SLAB_BUSY, holder))
                return SLAB_E_REFUSED;

        *ret = with_state(w, state, 0);
        ret->low = 0;
        ret->high &= ~SLAB_KEY_MASK;
        ret->high += SLAB_GEN_ONE;
        return 0;
}

int slab_word_commit(SlabWord w, uint32_t holder, SlabWord *ret) {
        return slab_word_end_pages(w, holder, SLAB_FREE, ret);
}

int slab_word_drop(SlabWord w, uint32_t holder, SlabWord *ret) {
        return slab_word_end_pages(w, holder, SLAB_UNCOMMITTED, ret);
}

/* The lowest n free bits, or all free bits if there are fewer. */
static uint64_t lowest_free(uint64_t bitmap, uint32_t n) {
        uint64_t rest = ~bitmap, mask = 0;

        if (n >= 64)
                return rest;
        for (; n > 0 && rest != 0; n--) {
                mask |= rest & -rest;
                rest &= rest - 1;
        }
        return mask;
}

static int slab_word_take_slots(SlabWord w, uint64_t key, uint64_t tail_mask, uint32_t n, SlabWord *ret,
                                uint64_t *ret_mask) {
        uint64_t mask;

        if (slab_word_state(w) == SLAB_FREE) {
                w.low = tail_mask;
                w.high = (w.high & ~SLAB_KEY_MASK) | key;
        } else if ((w.high & SLAB_KEY_MASK) != key) {
                return SLAB_E_REFUSED;
        }

        mask = lowest_free(w.low, n);
        if (mask == 0)
                return SLAB_E_REFUSED;
        w.low |= mask;
        w.high += SLAB_GEN_ONE;
        *ret = w;
        *ret_mask = mask;
        return 0;
}

int slab_word_claim(SlabWord w, uint64_t key, uint64_t tail_mask, uint32_t n, SlabWord *ret,
                    uint64_t *ret_mask) {
        SlabState state = slab_word_state(w);
        SlabWord taken;
        int r;

        if (state != SLAB_FREE && state != SLAB_PARTIAL)
                return SLAB_E_REFUSED;

        r = slab_word_take_slots(w, key, tail_mask, n, &taken, ret_mask);
        if (r)
                return r;

        *ret = slab_word_settle(with_state(taken, SLAB_PARTIAL, 0), tail_mask);
        return 0;
}

int slab_word_hold(SlabWord w, uint32_t holder, uint64_t key, uint64_t tail_mask, uint32_t n, SlabWord *ret,
                   uint64_t *ret_mask) {
        SlabState state = slab_word_state(w);
        SlabWord taken;
        int r;

        if (state != SLAB_FREE && state != SLAB_PARTIAL && !held_by(w, SLAB_ACTIVE, holder))
                return SLAB_E_REFUSED;

        r = slab_word_take_slots(w, key, tail_mask, n, &taken, ret_mask);
        if (r)
                return r;

        *ret = with_state(taken, SLAB_ACTIVE, holder);
        return 0;
}

int slab_word_release(SlabWord w, uint64_t tail_mask, SlabWord *ret) {
        if (slab_word_state(w) != SLAB_ACTIVE)
                return SLAB_E_REFUSED;

        *ret = slab_word_settle(with_state(w, SLAB_PARTIAL, 0), tail_mask);
        return 0;
}

int slab_word_free_slots(SlabWord w, uint64_t mask, uint64_t tail_mask, SlabWord *ret) {
        SlabState state = slab_word_state(w);

        if (state != SLAB_PARTIAL && state != SLAB_FULL && state != SLAB_ACTIVE && state != SLAB_DRAINING)
                return SLAB_E_REFUSED;
        if ((w.low & mask) != mask || (mask & tail_mask))
                return SLAB_E_REFUSED;

        w.low &= ~mask;
        *ret = slab_word_settle(w, tail_mask);
        return 0;
}

int slab_word_drain(SlabWord w, uint64_t key, uint64_t tail_mask, SlabWord *ret) {
        SlabState state = slab_word_state(w);

        if (state != SLAB_ACTIVE && state != SLAB_PARTIAL && state != SLAB_FULL)
                return SLAB_E_REFUSED;
        if ((w.high & SLAB_KEY_MASK) != key)
                return SLAB_E_REFUSED;

        *ret = slab_word_settle(with_state(w, SLAB_DRAINING, 0), tail_mask);
        return 0;
}

int slab_word_pin(SlabWord w, uint32_t holder, SlabWord *ret) {
        SlabState state = slab_word_state(w);

        if (state != SLAB_PARTIAL && state != SLAB_FULL && state != SLAB_ACTIVE)
                return SLAB_E_REFUSED;

        *ret = with_state(w, SLAB_ACTIVE, holder);
        return 0;
}
