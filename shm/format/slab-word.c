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

const char *slab_place_to_string(SlabPlace place) {
        static const char *const names[_SLAB_PLACE_N] = {
                [SLAB_UNCOMMITTED] = "uncommitted",
                [SLAB_FREE] = "free",
                [SLAB_PARTIAL] = "listed",
                [SLAB_ACTIVE] = "held",
                [SLAB_FULL] = "full",
                [SLAB_DRAINING] = "draining",
                [SLAB_BUSY] = "busy",
        };

        return place < _SLAB_PLACE_N ? names[place] : "invalid";
}

static SlabWord with_place(SlabWord w, SlabPlace place, uint32_t holder) {
        w.high &= ~(SLAB_PLACE_MASK | SLAB_HOLDER_MASK);
        w.high |= place | (uint64_t) holder << SLAB_HOLDER_SHIFT;
        return w;
}

static bool held_by(SlabWord w, SlabPlace place, uint32_t holder) {
        return slab_word_place(w) == place && slab_word_holder(w) == holder;
}

/* The one place where a word's place follows from its bitmap. */
SlabWord slab_word_settle(SlabWord w, uint64_t beyond) {
        SlabPlace place = slab_word_place(w);
        bool empty = w.low == beyond;

        if (place == SLAB_ACTIVE || (place == SLAB_DRAINING && !empty))
                return w;
        if (empty) {
                w.low = 0;
                return with_place(w, SLAB_FREE, 0);
        }
        return with_place(w, w.low == UINT64_MAX ? SLAB_FULL : SLAB_PARTIAL, 0);
}

int slab_word_begin(SlabWord w, uint32_t holder, SlabWord *ret) {
        SlabPlace place = slab_word_place(w);

        if (place != SLAB_UNCOMMITTED && place != SLAB_FREE)
                return SLAB_E_REFUSED;

        *ret = with_place(w, SLAB_BUSY, holder);
        ret->low = 0;
        ret->high += SLAB_GEN_ONE;
        return 0;
}

static int slab_word_end_pages(SlabWord w, uint32_t holder, SlabPlace place, SlabWord *ret) {
        if (!held_by(w, SLAB_BUSY, holder))
                return SLAB_E_REFUSED;

        *ret = with_place(w, place, 0);
        ret->low = 0;
        ret->high &= ~SLAB_TARGET_MASK;
        ret->high += SLAB_GEN_ONE;
        return 0;
}

int slab_word_commit(SlabWord w, uint32_t holder, SlabWord *ret) {
        return slab_word_end_pages(w, holder, SLAB_FREE, ret);
}

int slab_word_drop(SlabWord w, uint32_t holder, SlabWord *ret) {
        return slab_word_end_pages(w, holder, SLAB_UNCOMMITTED, ret);
}

/* The lowest n free bits, or all there are. */
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

static int slab_word_take_slots(SlabWord w, uint64_t target, uint64_t beyond, uint32_t n, SlabWord *ret,
                                uint64_t *ret_mask) {
        uint64_t mask;

        if (slab_word_place(w) == SLAB_FREE) {
                w.low = beyond;
                w.high = (w.high & ~SLAB_TARGET_MASK) | target;
        } else if ((w.high & SLAB_TARGET_MASK) != target) {
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

int slab_word_claim(SlabWord w, uint64_t target, uint64_t beyond, uint32_t n, SlabWord *ret,
                    uint64_t *ret_mask) {
        SlabPlace place = slab_word_place(w);
        SlabWord taken;
        int r;

        if (place != SLAB_FREE && place != SLAB_PARTIAL)
                return SLAB_E_REFUSED;

        r = slab_word_take_slots(w, target, beyond, n, &taken, ret_mask);
        if (r)
                return r;

        *ret = slab_word_settle(with_place(taken, SLAB_PARTIAL, 0), beyond);
        return 0;
}

int slab_word_hold(SlabWord w, uint32_t holder, uint64_t target, uint64_t beyond, uint32_t n, SlabWord *ret,
                   uint64_t *ret_mask) {
        SlabPlace place = slab_word_place(w);
        SlabWord taken;
        int r;

        if (place != SLAB_FREE && place != SLAB_PARTIAL && !held_by(w, SLAB_ACTIVE, holder))
                return SLAB_E_REFUSED;

        r = slab_word_take_slots(w, target, beyond, n, &taken, ret_mask);
        if (r)
                return r;

        *ret = with_place(taken, SLAB_ACTIVE, holder);
        return 0;
}

int slab_word_release(SlabWord w, uint64_t beyond, SlabWord *ret) {
        if (slab_word_place(w) != SLAB_ACTIVE)
                return SLAB_E_REFUSED;

        *ret = slab_word_settle(with_place(w, SLAB_PARTIAL, 0), beyond);
        return 0;
}

int slab_word_free_slots(SlabWord w, uint64_t mask, uint64_t beyond, SlabWord *ret) {
        SlabPlace place = slab_word_place(w);

        if (place != SLAB_PARTIAL && place != SLAB_FULL && place != SLAB_ACTIVE && place != SLAB_DRAINING)
                return SLAB_E_REFUSED;
        if ((w.low & mask) != mask || (mask & beyond))
                return SLAB_E_REFUSED;

        w.low &= ~mask;
        *ret = slab_word_settle(w, beyond);
        return 0;
}

int slab_word_drain(SlabWord w, uint64_t target, uint64_t beyond, SlabWord *ret) {
        SlabPlace place = slab_word_place(w);

        if (place != SLAB_ACTIVE && place != SLAB_PARTIAL && place != SLAB_FULL)
                return SLAB_E_REFUSED;
        if ((w.high & SLAB_TARGET_MASK) != target)
                return SLAB_E_REFUSED;

        *ret = slab_word_settle(with_place(w, SLAB_DRAINING, 0), beyond);
        return 0;
}

int slab_word_pin(SlabWord w, uint32_t holder, SlabWord *ret) {
        SlabPlace place = slab_word_place(w);

        if (place != SLAB_PARTIAL && place != SLAB_FULL && place != SLAB_ACTIVE)
                return SLAB_E_REFUSED;

        *ret = with_place(w, SLAB_ACTIVE, holder);
        return 0;
}
