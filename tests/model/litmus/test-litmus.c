/*
 * The weak memory of the explorer, by litmus tests: an outcome is shown exactly where RC11 allows it. The names are
 * herd's; files of the same tests, and what herd7 prints for them, are in this folder.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "shm/arch/atomic.h"
#include "tests/model/explore.h"
#include "tests/model/seam.h"

#define X (&memory[0])
#define Y (&memory[8])
#define PAIR ((ShmPair *) &memory[16])
#define TAGS ((uint32_t *) &memory[24])

static _Alignas(64) uint64_t memory[32];
static struct { uint64_t r[6]; } mine; /* the loads found these */

static void pre(void) {
        memset(memory, 0, sizeof(memory));
        memset(&mine, 0xff, sizeof(mine));
        model_memory(memory, sizeof(memory));
        model_private(&mine, sizeof(mine));
}

#define SHOWN(condition)                                                                                     \
        do {                                                                                                 \
                if (dead == 0 && (condition))                                                                \
                        model_fail("shown");                                                                 \
        } while (0)
#define ACTOR(name, ...)                                                                                     \
        static void name(void) {                                                                             \
                __VA_ARGS__;                                                                                 \
        }
#define POST(name, condition)                                                                                \
        static void name(unsigned dead) {                                                                    \
                SHOWN(condition);                                                                            \
        }
#define R(i) mine.r[i]

/* clang-format off */
/* MP: a message, and a flag after it. */
ACTOR(mp_w_rlx, shm_store_rlx(X, 1); shm_store_rlx(Y, 1))
ACTOR(mp_w_rel, shm_store_rlx(X, 1); shm_store_rel(Y, 1))
ACTOR(mp_w_fence, shm_store_rlx(X, 1); shm_fence_rel(); shm_store_rlx(Y, 1))
ACTOR(mp_w_rel_again, shm_store_rlx(X, 1); shm_store_rel(Y, 2); shm_store_rlx(Y, 1))
ACTOR(mp_w_rmw, shm_store_rlx(X, 1); (void) shm_xchg_acqrel(Y, 1))
ACTOR(mp_w_rel_first, shm_store_rel(X, 1); shm_store_rlx(Y, 1))
ACTOR(mp_r_rlx, R(0) = shm_load_rlx(Y); R(1) = shm_load_rlx(X))
ACTOR(mp_r_acq, R(0) = shm_load_acq(Y); R(1) = shm_load_rlx(X))
ACTOR(mp_r_acq_last, R(0) = shm_load_rlx(Y); R(1) = shm_load_acq(X))
ACTOR(mp_r_fence, R(0) = shm_load_rlx(Y); shm_fence_acq(); R(1) = shm_load_rlx(X))
ACTOR(mp_r_rmw, R(0) = shm_load_acq(Y); R(1) = shm_add_rlx(X, 2))
ACTOR(mp_r_rmw_rlx, R(0) = shm_load_rlx(Y); R(1) = shm_add_rlx(X, 2))
ACTOR(mp_r_barrier, R(0) = shm_load_rlx(Y); model_barrier(); R(1) = shm_load_rlx(X))
ACTOR(mp_r_cas, uint64_t expected = 1; R(0) = shm_cas_acqrel(Y, &expected, 1); R(1) = shm_load_rlx(X))
POST(mp, R(0) == 1 && R(1) == 0)

/* MP, and a third actor changes the flag between: a release sequence. */
ACTOR(seq_add, R(2) = shm_add_rlx(Y, 1))
ACTOR(seq_store, R(2) = shm_load_rlx(Y); shm_store_rlx(Y, 2))
POST(seq, R(0) == 2 && R(2) == 1 && R(1) == 0)

/* SB: each stores, then looks at the other's. */
ACTOR(sb_0, shm_store_rlx(X, 1); R(0) = shm_load_acq(Y))
ACTOR(sb_1, shm_store_rel(Y, 1); R(1) = shm_load_acq(X))
ACTOR(sb_fence_0, shm_store_rlx(X, 1); shm_fence_sc(); R(0) = shm_load_rlx(Y))
ACTOR(sb_fence_1, shm_store_rlx(Y, 1); shm_fence_sc(); R(1) = shm_load_rlx(X))
ACTOR(sb_rmw_0, (void) shm_xchg_acqrel(X, 1); R(0) = shm_load_acq(Y))
ACTOR(sb_rmw_1, (void) shm_xchg_acqrel(Y, 1); R(1) = shm_load_acq(X))
ACTOR(sb_after_rmw_0, (void) shm_xchg_acqrel(X, 1); shm_fence_after_rmw(); R(0) = shm_load_acq(Y))
ACTOR(sb_after_rmw_1, (void) shm_xchg_acqrel(Y, 1); shm_fence_after_rmw(); R(1) = shm_load_acq(X))
ACTOR(sb_sc_0, (void) shm_or_sc(X, 1); R(0) = shm_load_sc(Y))
ACTOR(sb_sc_1, (void) shm_or_sc(Y, 1); R(1) = shm_load_sc(X))
ACTOR(sb_sc_acq_1, (void) shm_or_sc(Y, 1); R(1) = shm_load_acq(X))
ACTOR(sb_barrier_1, shm_store_rlx(Y, 1); model_barrier(); R(1) = shm_load_rlx(X))
POST(sb, R(0) == 0 && R(1) == 0)

/* LB: each loads, then stores for the other's load. Hardware may; RC11 forbids it, as all that is out of thin air. */
ACTOR(lb_0, R(0) = shm_load_rlx(X); shm_store_rlx(Y, 1))
ACTOR(lb_1, R(1) = shm_load_rlx(Y); shm_store_rlx(X, 1))
POST(lb, R(0) == 1 && R(1) == 1)

/* WRC: the second hands on what it read of the first. */
ACTOR(wrc_0, shm_store_rlx(X, 1))
ACTOR(wrc_1_rlx, R(0) = shm_load_rlx(X); shm_store_rlx(Y, 1))
ACTOR(wrc_1_rel, R(0) = shm_load_rlx(X); shm_store_rel(Y, 1))
ACTOR(wrc_2_rlx, R(1) = shm_load_rlx(Y); R(2) = shm_load_rlx(X))
ACTOR(wrc_2_acq, R(1) = shm_load_acq(Y); R(2) = shm_load_rlx(X))
POST(wrc, R(0) == 1 && R(1) == 1 && R(2) == 0)

/* RWC: as IRIW, but one that writes reads, too. */
ACTOR(rwc_1_acq, R(0) = shm_load_acq(X); R(1) = shm_load_acq(Y))
ACTOR(rwc_1_fence, R(0) = shm_load_rlx(X); shm_fence_sc(); R(1) = shm_load_rlx(Y))
ACTOR(rwc_2_rel, shm_store_rel(Y, 1); R(2) = shm_load_acq(X))
ACTOR(rwc_2_fence, shm_store_rlx(Y, 1); shm_fence_sc(); R(2) = shm_load_rlx(X))
ACTOR(rwc_2_barrier, shm_store_rlx(Y, 1); model_barrier(); R(2) = shm_load_rlx(X))
POST(rwc, R(0) == 1 && R(1) == 0 && R(2) == 0)

/* IRIW: two that read find two stores the other way round. */
ACTOR(iriw_x, shm_store_rel(X, 1))
ACTOR(iriw_y, shm_store_rel(Y, 1))
ACTOR(iriw_1_acq, R(0) = shm_load_acq(X); R(1) = shm_load_acq(Y))
ACTOR(iriw_2_acq, R(2) = shm_load_acq(Y); R(3) = shm_load_acq(X))
ACTOR(iriw_1_fence, R(0) = shm_load_rlx(X); shm_fence_sc(); R(1) = shm_load_rlx(Y))
ACTOR(iriw_2_fence, R(2) = shm_load_rlx(Y); shm_fence_sc(); R(3) = shm_load_rlx(X))
POST(iriw, R(0) == 1 && R(1) == 0 && R(2) == 1 && R(3) == 0)

/* 2+2W: each store comes before the other's. */
ACTOR(w_0_rlx, shm_store_rlx(X, 1); shm_store_rlx(Y, 2))
ACTOR(w_1_rlx, shm_store_rlx(Y, 1); shm_store_rlx(X, 2))
ACTOR(w_0_rel, shm_store_rlx(X, 1); shm_store_rel(Y, 2))
ACTOR(w_1_rel, shm_store_rlx(Y, 1); shm_store_rel(X, 2))
ACTOR(w_0_fence, shm_store_rlx(X, 1); shm_fence_sc(); shm_store_rlx(Y, 2))
ACTOR(w_1_fence, shm_store_rlx(Y, 1); shm_fence_sc(); shm_store_rlx(X, 2))
POST(w, shm_load_rlx(X) == 1 && shm_load_rlx(Y) == 1)

/* S and R: as MP and SB, one load of them a store. */
ACTOR(s_1_rlx, R(0) = shm_load_rlx(Y); shm_store_rlx(X, 1))
ACTOR(s_1_acq, R(0) = shm_load_acq(Y); shm_store_rlx(X, 1))
ACTOR(s_0, shm_store_rlx(X, 2); shm_store_rel(Y, 1))
POST(s, R(0) == 1 && shm_load_rlx(X) == 2)
ACTOR(r_0, shm_store_rlx(X, 1); shm_store_rel(Y, 1))
ACTOR(r_0_fence, shm_store_rlx(X, 1); shm_fence_sc(); shm_store_rlx(Y, 1))
ACTOR(r_1, shm_store_rlx(Y, 2); R(0) = shm_load_acq(X))
ACTOR(r_1_fence, shm_store_rlx(Y, 2); shm_fence_sc(); R(0) = shm_load_rlx(X))
POST(r, shm_load_rlx(Y) == 2 && R(0) == 0)

/* One location: all agree on its order; no update is lost. */
ACTOR(co_w, shm_store_rlx(X, 1); shm_store_rlx(X, 2))
ACTOR(co_r, R(0) = shm_load_rlx(X); R(1) = shm_load_rlx(X))
POST(co_rr, R(0) > R(1))
ACTOR(co_wr_0, shm_store_rlx(X, 1); R(0) = shm_load_rlx(X))
ACTOR(co_wr_1, shm_store_rlx(X, 2); R(1) = shm_load_rlx(X))
POST(co_wr, R(0) == 2 && R(1) == 1)
ACTOR(add, (void) shm_add_rlx(X, 1))
ACTOR(add_by_cas, uint64_t n = shm_load_rlx(X); while (!shm_cas_acqrel(X, &n, n + 1)))
ACTOR(add_torn, shm_store_rlx(X, shm_load_rlx(X) + 1))
POST(sum, shm_load_rlx(X) != 2)

/* Mixed sizes: a word of 16 bytes in halves, and tags of 4 bytes that are changed at once. */
ACTOR(pair_set, ShmPair old = { 0, 0 }; (void) shm_pair_cas_acqrel(PAIR, &old, (ShmPair){ 1, 1 });
      old = (ShmPair){ 1, 1 }; (void) shm_pair_cas_acqrel(PAIR, &old, (ShmPair){ 2, 2 }))
ACTOR(pair_get, ShmPair v = shm_pair_load_acq(PAIR); R(0) = v.low; R(1) = v.high)
ACTOR(pair_get_torn, R(0) = shm_load_rlx(&PAIR->low); R(1) = shm_load_rlx(&PAIR->high))
ACTOR(pair_get_acq, R(0) = shm_load_acq(&PAIR->low); R(1) = shm_load_rlx(&PAIR->high))
ACTOR(pair_cas, ShmPair v = { 7, 7 }; (void) shm_pair_cas_acqrel(PAIR, &v, v); R(0) = v.low; R(1) = v.high)
POST(pair_torn, R(0) != R(1))
POST(pair_back, R(0) > R(1))
ACTOR(tags_set, ShmPair old = { 0, 0 }; shm_store_rlx(X, 1);
      (void) shm_pair_cas_acqrel((ShmPair *) TAGS, &old, (ShmPair){ UINT64_C(1) << 32 | 1, 0 }))
ACTOR(tags_get, R(0) = shm_load_acq(&TAGS[1]); R(1) = shm_load_rlx(&TAGS[0]); R(2) = shm_load_rlx(X))
ACTOR(tags_get_rlx, R(0) = shm_load_rlx(&TAGS[1]); R(1) = shm_load_rlx(&TAGS[0]))
POST(tags, R(0) == 1 && (R(1) == 0 || R(2) == 0))
POST(tags_rlx, R(0) == 1 && R(1) == 0)

/* MP, by a loop that waits for the flag. It may read each stale store once, of that word or another. */
ACTOR(wait_rlx, while (shm_load_rlx(Y) != 1) model_wait(); R(1) = shm_load_rlx(X))
ACTOR(wait_acq, while (shm_load_acq(Y) != 1) model_wait(); R(1) = shm_load_rlx(X))
ACTOR(wait_both, while (shm_load_rlx(Y) != 1) { R(0) = shm_load_rlx(X); model_wait(); } R(1) = shm_load_rlx(X))
ACTOR(wait_again, R(0) = shm_load_rlx(X); while (shm_load_rlx(Y) != 1) model_wait();
      while (shm_load_rlx(X) != 1) { R(1) = 0; model_wait(); })
POST(waited, R(1) == 0)

static const struct Litmus {
        const char *name;
        void (*actors[MODEL_ACTORS_MAX])(void);
        void (*post)(unsigned dead);
        bool shown;
} litmus[] = {
        { "MP", { mp_w_rlx, mp_r_rlx }, mp, true },
        { "MP+rel+rlx", { mp_w_rel, mp_r_rlx }, mp, true },
        { "MP+rlx+acq", { mp_w_rlx, mp_r_acq }, mp, true },
        { "MP+rel+acq", { mp_w_rel, mp_r_acq }, mp, false },
        { "MP+fence+fence", { mp_w_fence, mp_r_fence }, mp, false },
        { "MP+fence+acq", { mp_w_fence, mp_r_acq }, mp, false },
        { "MP+rel+fence", { mp_w_rel, mp_r_fence }, mp, false },
        { "MP+fence+rlx", { mp_w_fence, mp_r_rlx }, mp, true },
        { "MP+rmw+acq", { mp_w_rmw, mp_r_acq }, mp, false },
        { "MP+rel-first+acq", { mp_w_rel_first, mp_r_acq }, mp, true },
        { "MP+rel+acq-last", { mp_w_rel, mp_r_acq_last }, mp, true },
        { "MP+rel-rlx+acq", { mp_w_rel_again, mp_r_acq }, mp, false },
        { "MP+rel+acq-rmw", { mp_w_rel, mp_r_rmw }, mp, false },
        { "MP+rel+rlx-rmw", { mp_w_rel, mp_r_rmw_rlx }, mp, true },
        { "MP+rlx+barrier", { mp_w_rlx, mp_r_barrier }, mp, false },
        { "MP+rel+cas", { mp_w_rel, mp_r_cas }, mp, false },
        { "MP+rel+rmw+acq", { mp_w_rel, seq_add, mp_r_acq }, seq, false },
        { "MP+rlx+rmw+acq", { mp_w_rlx, seq_add, mp_r_acq }, seq, true },
        { "MP+rel+store+acq", { mp_w_rel, seq_store, mp_r_acq }, seq, true },
        { "SB+acq+rel", { sb_0, sb_1 }, sb, true },
        { "SB+fence+rel", { sb_fence_0, sb_1 }, sb, true },
        { "SB+fence+fence", { sb_fence_0, sb_fence_1 }, sb, false },
        { "SB+rmw+rmw", { sb_rmw_0, sb_rmw_1 }, sb, true },
        { "SB+fence+rmw", { sb_fence_0, sb_rmw_1 }, sb, true },
        { "SB+after-rmw+after-rmw", { sb_after_rmw_0, sb_after_rmw_1 }, sb, false },
        { "SB+sc+sc", { sb_sc_0, sb_sc_1 }, sb, false },
        { "SB+sc+sc-acq", { sb_sc_0, sb_sc_acq_1 }, sb, true },
        { "SB+rlx+barrier", { sb_0, sb_barrier_1 }, sb, false },
        { "LB", { lb_0, lb_1 }, lb, false },
        { "WRC", { wrc_0, wrc_1_rlx, wrc_2_rlx }, wrc, true },
        { "WRC+rel+rlx", { wrc_0, wrc_1_rel, wrc_2_rlx }, wrc, true },
        { "WRC+rlx+acq", { wrc_0, wrc_1_rlx, wrc_2_acq }, wrc, true },
        { "WRC+rel+acq", { wrc_0, wrc_1_rel, wrc_2_acq }, wrc, false },
        { "RWC+acq+rel", { wrc_0, rwc_1_acq, rwc_2_rel }, rwc, true },
        { "RWC+fence+rel", { wrc_0, rwc_1_fence, rwc_2_rel }, rwc, true },
        { "RWC+fence+fence", { wrc_0, rwc_1_fence, rwc_2_fence }, rwc, false },
        { "RWC+acq+barrier", { wrc_0, rwc_1_acq, rwc_2_barrier }, rwc, false },
        { "IRIW+acq+acq", { iriw_x, iriw_y, iriw_1_acq, iriw_2_acq }, iriw, true },
        { "IRIW+fence+acq", { iriw_x, iriw_y, iriw_1_fence, iriw_2_acq }, iriw, true },
        { "IRIW+fence+fence", { iriw_x, iriw_y, iriw_1_fence, iriw_2_fence }, iriw, false },
        { "2+2W", { w_0_rlx, w_1_rlx }, w, true },
        { "2+2W+rel+rlx", { w_0_rel, w_1_rlx }, w, true },
        { "2+2W+rel+rel", { w_0_rel, w_1_rel }, w, true },
        { "2+2W+fence+rel", { w_0_fence, w_1_rel }, w, true },
        { "2+2W+fence+fence", { w_0_fence, w_1_fence }, w, false },
        { "S+rel+rlx", { s_0, s_1_rlx }, s, true },
        { "S+rel+acq", { s_0, s_1_acq }, s, false },
        { "R+rel+acq", { r_0, r_1 }, r, true },
        { "R+rel+fence", { r_0, r_1_fence }, r, true },
        { "R+fence+fence", { r_0_fence, r_1_fence }, r, false },
        { "CoRR", { co_w, co_r }, co_rr, false },
        { "CoWR", { co_wr_0, co_wr_1 }, co_wr, false },
        { "add+add", { add, add }, sum, false },
        { "add+cas", { add, add_by_cas }, sum, false },
        { "add+load-store", { add, add_torn }, sum, true },
        { "pair+load", { pair_set, pair_get }, pair_torn, false },
        { "pair+halves", { pair_set, pair_get_torn }, pair_back, true },
        { "pair+halves-acq", { pair_set, pair_get_acq }, pair_back, false },
        { "pair+cas", { pair_set, pair_cas }, pair_torn, false },
        { "tags+acq", { tags_set, tags_get }, tags, false },
        { "tags+rlx", { tags_set, tags_get_rlx }, tags_rlx, true },
        { "wait+rel+acq", { mp_w_rel, wait_acq }, waited, false },
        { "wait+rel+rlx", { mp_w_rel, wait_rlx }, waited, true },
        { "wait+rlx+acq", { mp_w_rlx, wait_acq }, waited, true },
        { "wait+rel+both", { mp_w_rel, wait_both }, waited, true },
        { "wait+rel+again", { mp_w_rel, wait_again }, waited, true },
};
/* clang-format on */

#define N_LITMUS (sizeof(litmus) / sizeof(litmus[0]))

static bool is_shown(const struct Litmus *l, ModelMode mode, uint64_t *ret_states) {
        ModelCase c = { .name = l->name, .pre = pre, .post = l->post, .weak = true, .planted = "shown" };
        ModelResult r;

        memcpy(c.actors, l->actors, sizeof(c.actors));
        r = model_run(&c, mode);
        *ret_states = r.n_states;
        return r.violated;
}

static void test_litmus(void **state) {
        unsigned n_wrong = 0;
        uint64_t n_states;

        (void) state;
        for (size_t i = 0; i < N_LITMUS; i++)
                for (ModelMode mode = 0; mode <= MODEL_STATES; mode++) {
                        bool shown = is_shown(&litmus[i], mode, &n_states);

                        if (mode == MODEL_REDUCED)
                                printf("%-24s %-9s %lu states\n", litmus[i].name,
                                       shown ? "Sometimes" : "Never", (unsigned long) n_states);
                        if (shown == litmus[i].shown)
                                continue;
                        n_wrong++;
                        printf("%s: wrong, in mode %u\n", litmus[i].name, mode);
                }
        assert_int_equal(n_wrong, 0);
}

/* Without it, none is shown but what an interleaving shows. */
static void test_not_weak(void **state) {
        (void) state;
        for (size_t i = 0; i < N_LITMUS; i++) {
                ModelCase c = { .name = "SC", .pre = pre, .post = litmus[i].post, .planted = "shown" };

                memcpy(c.actors, litmus[i].actors, sizeof(c.actors));
                assert_int_equal(model_run(&c, MODEL_REDUCED).violated,
                                 strcmp(litmus[i].name, "add+load-store") == 0);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_litmus),
                cmocka_unit_test(test_not_weak),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
