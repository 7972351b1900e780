/*
 * Every state with every operation, against the table of edges; and the effect of an edge on the rest of the
 * word.
 */
#include "shm/format/slab-word.h"

#include "tests/util/test.h"

#define BEYOND (UINT64_MAX << 4) /* a class of four slots */
#define HOLDER 7

static const uint64_t bitmaps[] = { 0, BEYOND, BEYOND | 1, BEYOND | 6, BEYOND | 14, UINT64_MAX };

/* One slot of four is few. */
static bool should_be_sparse(SlabState from, uint64_t bitmap) {
        return from == SLAB_PARTIAL && __builtin_popcountll(bitmap & ~BEYOND) <= 1;
}

static SlabWord make(SlabState from, uint64_t bitmap, uint32_t holder) {
        return (SlabWord){
                .low = bitmap,
                .high = from | (should_be_sparse(from, bitmap) ? SLAB_SPARSE : 0) | slab_key(3, 5, 9) |
                        (uint64_t) holder << SLAB_HOLDER_SHIFT | 77 * SLAB_GEN_ONE,
        };
}

/* Words that can be: a bitmap that agrees with the state. */
static bool legal(SlabState from, uint64_t bitmap) {
        switch (from) {
        case SLAB_UNCOMMITTED:
        case SLAB_FREE:
        case SLAB_BUSY:
                return bitmap == 0;
        case SLAB_PARTIAL:
                return bitmap != 0 && bitmap != BEYOND && bitmap != UINT64_MAX;
        case SLAB_FULL:
                return bitmap == UINT64_MAX;
        case SLAB_ACTIVE:
                return bitmap != 0;
        default:
                return bitmap != 0 && bitmap != BEYOND;
        }
}

static int apply(SlabOp op, SlabWord w, uint64_t mask, SlabWord *ret) {
        uint64_t got, key = slab_key(3, 5, 9);

        switch (op) {
        case SLAB_OP_BEGIN:
                return slab_word_begin(w, HOLDER, ret);
        case SLAB_OP_COMMIT:
                return slab_word_commit(w, HOLDER, ret);
        case SLAB_OP_DROP:
                return slab_word_drop(w, HOLDER, ret);
        case SLAB_OP_CLAIM:
                return slab_word_claim(w, key, BEYOND, (uint32_t) mask, ret, &got);
        case SLAB_OP_HOLD:
                return slab_word_hold(w, HOLDER, key, BEYOND, (uint32_t) mask, ret, &got);
        case SLAB_OP_RELEASE:
                return slab_word_release(w, BEYOND, ret);
        case SLAB_OP_FREE_SLOTS:
                return slab_word_free_slots(w, mask, BEYOND, ret);
        case SLAB_OP_DRAIN:
                return slab_word_drain(w, key, BEYOND, ret);
        default:
                return slab_word_pin(w, 0, ret);
        }
}

static bool edge_exists(SlabState from, SlabOp op, SlabState to) {
        for (size_t i = 0; i < n_slab_edges; i++)
                if (slab_edges[i].from == from && slab_edges[i].op == op && slab_edges[i].to == to)
                        return true;
        return false;
}

/* The edges seen over all words and masks are exactly the table. */
static void test_edges_complete(void **state) {
        bool seen[_SLAB_STATE_N][_SLAB_OP_N][_SLAB_STATE_N] = {};

        for (SlabState from = 0; from < _SLAB_STATE_N; from++)
                for (SlabOp op = 0; op < _SLAB_OP_N; op++)
                        for (size_t b = 0; b < sizeof(bitmaps) / sizeof(bitmaps[0]); b++)
                                for (uint64_t mask = 1; mask < 16; mask++) {
                                        SlabWord w = make(from, bitmaps[b], HOLDER), new;

                                        if (!legal(from, bitmaps[b]) || apply(op, w, mask, &new))
                                                continue;
                                        assert_true(legal(slab_word_state(new), new.low));
                                        assert_int_equal(slab_word_is_sparse(new),
                                                         should_be_sparse(slab_word_state(new), new.low));
                                        seen[from][op][slab_word_state(new)] = true;
                                }

        for (SlabState from = 0; from < _SLAB_STATE_N; from++)
                for (SlabOp op = 0; op < _SLAB_OP_N; op++)
                        for (SlabState to = 0; to < _SLAB_STATE_N; to++)
                                if (seen[from][op][to] != edge_exists(from, op, to))
                                        fail_msg("%s by operation %d to %s: %s", slab_state_to_string(from),
                                                 op, slab_state_to_string(to),
                                                 seen[from][op][to] ? "not in the table" : "never happens");
}

/* A scribbled word is refused, or at worst becomes another word: nothing else can be asked of it. */
static void test_edges_garbage(void **state) {
        for (uint32_t from = 0; from < 16; from++)
                for (SlabOp op = 0; op < _SLAB_OP_N; op++)
                        for (size_t b = 0; b < sizeof(bitmaps) / sizeof(bitmaps[0]); b++) {
                                SlabWord w = make(from, bitmaps[b], 0xfff), new;
                                int r = apply(op, w, 3, &new);

                                assert_true(r == 0 || r == SLAB_E_REFUSED);
                                if ((from & SLAB_STATE_MASK) >= _SLAB_STATE_N)
                                        assert_int_equal(r, SLAB_E_REFUSED);
                        }
}

static void test_claim_lowest(void **state) {
        SlabWord w = make(SLAB_PARTIAL, BEYOND | 1, 0), new;
        uint64_t mask;

        assert_int_equal(slab_word_claim(w, slab_key(3, 5, 9), BEYOND, 2, &new, &mask), 0);
        assert_int_equal(mask, 6);
        assert_int_equal(slab_word_state(new), SLAB_PARTIAL);
        assert_int_equal(slab_word_gen(new), 78);
        assert_int_equal(slab_word_claim(w, slab_key(3, 5, 9), BEYOND, 64, &new, &mask), 0);
        assert_int_equal(mask, 14);
        assert_int_equal(slab_word_state(new), SLAB_FULL);
}

/* An id that was opened anew finds no room in slabs of its earlier era. */
static void test_claim_other_target(void **state) {
        const uint64_t others[] = { slab_key(2, 5, 9), slab_key(3, 4, 9), slab_key(3, 5, 10) };
        SlabWord w = make(SLAB_PARTIAL, BEYOND | 1, 0), held = make(SLAB_ACTIVE, BEYOND | 1, HOLDER), new;
        uint64_t mask;

        for (size_t i = 0; i < 3; i++) {
                assert_int_equal(slab_word_claim(w, others[i], BEYOND, 1, &new, &mask), SLAB_E_REFUSED);
                assert_int_equal(slab_word_hold(w, HOLDER, others[i], BEYOND, 1, &new, &mask),
                                 SLAB_E_REFUSED);
                assert_int_equal(slab_word_hold(held, HOLDER, others[i], BEYOND, 1, &new, &mask),
                                 SLAB_E_REFUSED);
        }
}

static void test_claim_free_takes_target(void **state) {
        SlabWord w = { .high = SLAB_FREE | slab_key(1, 2, 3) }, new;
        uint64_t mask;

        assert_int_equal(slab_word_claim(w, slab_key(3, 5, 9), BEYOND, 1, &new, &mask), 0);
        assert_int_equal(new.low, BEYOND | 1);
        assert_int_equal(slab_word_class(new), 3);
        assert_int_equal(slab_word_epoch(new), 5);
        assert_int_equal(slab_word_era(new), 9);
}

static void test_hold_not_mine(void **state) {
        SlabWord w = make(SLAB_ACTIVE, BEYOND | 1, HOLDER + 1), new;
        uint64_t mask;

        assert_int_equal(slab_word_hold(w, HOLDER, slab_key(3, 5, 9), BEYOND, 1, &new, &mask),
                         SLAB_E_REFUSED);
        w = make(SLAB_BUSY, 0, HOLDER + 1);
        assert_int_equal(slab_word_commit(w, HOLDER, &new), SLAB_E_REFUSED);
        assert_int_equal(slab_word_drop(w, HOLDER, &new), SLAB_E_REFUSED);
}

static void test_give_back_not_taken(void **state) {
        SlabWord w = make(SLAB_PARTIAL, BEYOND | 5, 0), new;

        assert_int_equal(slab_word_free_slots(w, 2, BEYOND, &new), SLAB_E_REFUSED);
        assert_int_equal(slab_word_free_slots(w, 1 << 4, BEYOND, &new), SLAB_E_REFUSED);
        assert_int_equal(slab_word_free_slots(w, 1, BEYOND, &new), 0);
        assert_int_equal(slab_word_gen(new), 77); /* giving back is not a claim */
}

/* Repair tells claims by gen: it changes whenever bits are set, or class, epoch or pages change. */
static void test_gen_changes(void **state) {
        for (SlabState from = 0; from < _SLAB_STATE_N; from++)
                for (SlabOp op = 0; op < _SLAB_OP_N; op++)
                        for (size_t b = 0; b < sizeof(bitmaps) / sizeof(bitmaps[0]); b++) {
                                SlabWord w = make(from, bitmaps[b], HOLDER), new;
                                bool claims = op <= SLAB_OP_HOLD;

                                if (!legal(from, bitmaps[b]) || apply(op, w, 1, &new))
                                        continue;
                                assert_int_equal(slab_word_gen(new), 77 + claims);
                        }
}

/* For every number of slots: the slab is sparse while at most a quarter is taken, and never while it is held. */
static void test_sparse_quarter(void **state) {
        for (uint32_t n_slots = 2; n_slots <= 64; n_slots++) {
                uint64_t tail = n_slots == 64 ? 0 : UINT64_MAX << n_slots, key = slab_key(3, 5, 9), mask;
                SlabWord w = { .low = UINT64_MAX, .high = SLAB_FULL | key }, held;

                for (uint32_t n_taken = n_slots - 1; n_taken > 0; n_taken--) {
                        assert_int_equal(slab_word_free_slots(w, UINT64_C(1) << n_taken, tail, &w), 0);
                        assert_int_equal(slab_word_is_sparse(w), n_taken <= (n_slots + 2) / 4);
                        assert_int_equal(slab_word_hold(w, HOLDER, key, tail, 1, &held, &mask), 0);
                        assert_false(slab_word_is_sparse(held));
                        assert_int_equal(slab_word_free_slots(held, mask, tail, &held), 0);
                        assert_false(slab_word_is_sparse(held));
                        assert_int_equal(slab_word_release(held, tail, &held), 0);
                        assert_int_equal(slab_word_is_sparse(held), slab_word_is_sparse(w));
                }
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_edges_complete),
                cmocka_unit_test(test_edges_garbage),
                cmocka_unit_test(test_claim_lowest),
                cmocka_unit_test(test_claim_other_target),
                cmocka_unit_test(test_claim_free_takes_target),
                cmocka_unit_test(test_hold_not_mine),
                cmocka_unit_test(test_give_back_not_taken),
                cmocka_unit_test(test_gen_changes),
                cmocka_unit_test(test_sparse_quarter),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
