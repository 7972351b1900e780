/* The explorer itself: planted faults are found, counts are exact, reductions lose no end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "shm/arch/atomic.h"
#include "tests/model/explore.h"
#include "tests/model/table.h"

#define N_CELLS 4
#define OPS_MAX 5

typedef enum OpKind { OP_LOAD, OP_STORE, OP_ADD, OP_CAS, OP_FENCE, OP_BARRIER, _OP_N } OpKind;

typedef struct Op {
        OpKind kind;
        unsigned cell;
        uint64_t value;
} Op;

static _Alignas(64) uint64_t memory[16];
static struct { uint64_t seen[MODEL_ACTORS_MAX]; } mine;
static Op program[MODEL_ACTORS_MAX][OPS_MAX];
static unsigned program_size[MODEL_ACTORS_MAX];

static void pre(void) {
        memset(memory, 0, sizeof(memory));
        memset(&mine, 0, sizeof(mine));
        model_memory(memory, sizeof(memory));
        model_private(&mine, sizeof(mine));
}

static void post_nothing(unsigned dead) {
        (void) dead;
}

static void add_torn(void) {
        uint64_t n = shm_load_rlx(&memory[0]);

        shm_store_rlx(&memory[0], n + 1);
}

static void add(void) {
        shm_add_rlx(&memory[0], 1);
}

static void add_twice(void) {
        add();
        add();
}

static void spin(void) {
        while (shm_load_acq(&memory[0]) == 0)
                ;
}

/* Not finished while the other goes on for ever, but never in one state twice. */
static void chase(void) {
        while (shm_load_acq(&memory[0]) < UINT64_MAX)
                add();
}

static void write_plainly(void) {
        add();
        memory[8] = 1; /* on another line */
        add();
}

static void write_plainly_and_load(void) {
        add();
        memory[8] = 1;
        (void) shm_load_acq(&memory[8]);
}

static void write_privately(void) {
        mine.seen[0] = shm_load_acq(&memory[0]);
        if (mine.seen[0] == 1)
                model_fail("seen");
}

static void post_sum(unsigned dead) {
        uint64_t n = 0;

        if (dead)
                return;
        n = shm_load_acq(&memory[0]);
        if (n != 2)
                model_fail("lost update: %lu", (unsigned long) n);
        shm_store_rel(&memory[0], 77); /* is undone */
}

static void post_dead(unsigned dead) {
        if (dead == 2 && shm_load_acq(&memory[0]) == 2)
                model_fail("the second died after its step");
}

static void test_planted(void **state) {
        /* clang-format off */
        static const ModelCase cases[] = {
                { .pre = pre, .actors = { add_torn, add_torn }, .post = post_sum, .planted = "lost update: 1" },
                { .pre = pre, .actors = { spin, add }, .post = post_nothing, .planted = "does not terminate" },
                { .pre = pre, .actors = { chase }, .post = post_nothing, .planted = "does not terminate within" },
                { .pre = pre, .actors = { write_plainly, add }, .post = post_nothing, .planted = "plain store" },
                { .pre = pre, .actors = { write_plainly_and_load }, .post = post_nothing, .planted = "plain store" },
                { .pre = pre, .actors = { write_privately, add_twice }, .post = post_nothing, .planted = "seen" },
                { .pre = pre, .actors = { add, add_twice }, .post = post_dead, .deaths = 1, .planted = "died after" },
        };
        /* clang-format on */

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                for (ModelMode mode = 0; mode < _MODEL_MODE_N; mode++) {
                        ModelCase bounded = cases[i];

                        bounded.preemptions = 2;
                        assert_true(model_run(&cases[i], mode).violated);
                        assert_true(model_run(&bounded, mode).violated);
                }
}

/*
 * Litmus tests of x86-TSO. X and Y are cells; each actor's stores may wait, two at a time.
 */
#define X (&memory[0])
#define Y (&memory[8])

static void pre_late(void) {
        pre();
        model_delay(0, memory, sizeof(memory));
        model_delay(1, memory, sizeof(memory));
}

/* Each stores to its own, then looks at the other's. */
static void look_0(void) {
        shm_store_rlx(X, 1);
        mine.seen[0] = 1 + shm_load_acq(Y);
}

static void look_1(void) {
        shm_store_rlx(Y, 1);
        mine.seen[1] = 1 + shm_load_acq(X);
}

static void fence_0(void) {
        shm_store_rlx(X, 1);
        shm_fence_sc();
        mine.seen[0] = 1 + shm_load_acq(Y);
}

static void fence_1(void) {
        shm_store_rlx(Y, 1);
        shm_fence_sc();
        mine.seen[1] = 1 + shm_load_acq(X);
}

/* Keeps loads in order, which they are. */
static void fence_acq_1(void) {
        shm_store_rlx(Y, 1);
        shm_fence_acq();
        mine.seen[1] = 1 + shm_load_acq(X);
}

static void locked_1(void) {
        (void) shm_xchg_acqrel(Y, 1);
        mine.seen[1] = 1 + shm_load_acq(X);
}

/* A compare-and-set that fails is a locked instruction, too; so is the one of 16 bytes. */
static void failed_1(void) {
        uint64_t expected = 7;

        shm_store_rlx(Y, 1);
        (void) shm_cas_acqrel(&memory[4], &expected, 8);
        mine.seen[1] = 1 + shm_load_acq(X);
}

static void failed_pair_1(void) {
        ShmPair expected = { 7, 7 };

        shm_store_rlx(Y, 1);
        (void) shm_pair_cas_acqrel((ShmPair *) &memory[4], &expected, (ShmPair){ 8, 8 });
        mine.seen[1] = 1 + shm_load_acq(X);
}

static void barrier_1(void) {
        shm_store_rlx(Y, 1);
        model_barrier();
        mine.seen[1] = 1 + shm_load_acq(X);
}

/* As the fast path does it: others see the last store last; an actor sees its own stores at once. */
static void forward_0(void) {
        shm_store_rlx(X, 1);
        if (shm_load_acq(X) != 1)
                model_fail("its own store is not seen");
        mine.seen[0] = 1 + shm_load_acq(Y);
}

static void post_seen(unsigned dead) {
        if (dead == 0 && mine.seen[0] == 1 && mine.seen[1] == 1)
                model_fail("neither saw the other");
}

static void send_0(void) {
        shm_store_rlx(X, 1);
        shm_store_rlx(Y, 1);
}

static void receive_1(void) {
        mine.seen[0] = 1 + shm_load_acq(Y);
        mine.seen[1] = 1 + shm_load_acq(X);
}

static void post_sent(unsigned dead) {
        (void) dead;
        if (mine.seen[0] == 2 && mine.seen[1] == 1)
                model_fail("the second store is seen before the first");
}

static void write_0(void) {
        shm_store_rlx(X, 1);
        shm_store_rlx(Y, 2);
}

static void write_1(void) {
        shm_store_rlx(Y, 1);
        shm_store_rlx(X, 2);
}

static void post_written(unsigned dead) {
        if (dead == 0 && shm_load_acq(X) == 1 && shm_load_acq(Y) == 1)
                model_fail("each store came before the other");
}

/* It went out although its actor is dead, and was not seen before. */
static void post_died(unsigned dead) {
        if (shm_load_acq(X) != 1 && mine.seen[0] != 0)
                model_fail("a store is lost");
        if ((dead & 1) && shm_load_acq(X) == 1 && mine.seen[1] == 1)
                model_fail("the store of a dead actor is late");
}

static void test_late(void **state) {
        static const struct {
                void (*actors[2])(void);
                void (*post)(unsigned dead);
                unsigned late;
                unsigned deaths;
                const char *planted;
        } cases[] = {
                { { look_0, look_1 }, post_seen, 0, 0, NULL },
                { { look_0, look_1 }, post_seen, 1, 0, "neither saw the other" },
                { { look_0, look_1 }, post_seen, 2, 1, "neither saw the other" },
                { { fence_0, look_1 }, post_seen, 2, 0, "neither saw the other" },
                { { fence_0, fence_1 }, post_seen, 2, 1, NULL },
                { { fence_0, fence_acq_1 }, post_seen, 2, 0, "neither saw the other" },
                { { fence_0, locked_1 }, post_seen, 2, 1, NULL },
                { { fence_0, failed_1 }, post_seen, 2, 1, NULL },
                { { fence_0, failed_pair_1 }, post_seen, 2, 1, NULL },
                { { look_0, barrier_1 }, post_seen, 2, 1, NULL },
                { { forward_0, look_1 }, post_seen, 2, 0, "neither saw the other" },
                { { forward_0, barrier_1 }, post_seen, 2, 1, NULL },
                { { send_0, receive_1 }, post_sent, 2, 1, NULL },
                { { write_0, write_1 }, post_written, 2, 0, NULL },
                { { look_0, look_1 }, post_died, 1, 1, "the store of a dead actor is late" },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                for (ModelMode mode = 0; mode < _MODEL_MODE_N; mode++) {
                        ModelCase c = { .name = "litmus",
                                        .pre = pre_late,
                                        .actors = { cases[i].actors[0], cases[i].actors[1] },
                                        .post = cases[i].post,
                                        .late = cases[i].late,
                                        .deaths = cases[i].deaths,
                                        .planted = cases[i].planted };

                        assert_int_equal(model_run(&c, mode).violated, c.planted != NULL);
                }
}

static void wait_0(void) {
        while (shm_load_acq(X) != 2) {
                (void) shm_load_acq(Y); /* X may change here */
                model_wait();
        }
        mine.seen[0] = (unsigned) shm_load_acq(Y);
}

static void pass_1(void) {
        shm_store_rel(X, 1);
        shm_store_rel(Y, 3);
        shm_store_rel(X, 2);
}

static void pass_by_1(void) {
        shm_store_rel(X, 2);
        shm_store_rel(X, 1);
}

static void post_waited(unsigned dead) {
        if (dead == 0 && mine.seen[0] != 3)
                model_fail("it did not wait");
}

/* An actor that waits is woken by each change; where the last one is not the one that it waits for, that is told. */
static void test_wait(void **state) {
        (void) state;
        for (ModelMode mode = 0; mode < _MODEL_MODE_N; mode++) {
                ModelCase c = { .pre = pre, .actors = { wait_0, pass_1 }, .post = post_waited };

                assert_int_equal(model_run(&c, mode).n_ends, 1);
                c.actors[1] = pass_by_1;
                c.post = post_nothing;
                c.planted = "wait for ever";
                assert_true(model_run(&c, mode).violated);
        }
}

static void post_waited_in_vain(unsigned dead) {
        if (dead == 0 && mine.seen[0] != 3)
                model_fail("it does not know what was stored before");
}

static void pass_rlx_1(void) {
        shm_store_rlx(X, 1);
        shm_store_rlx(Y, 3);
        shm_store_rlx(X, 2);
}

/* Under a weak memory, too; a loop that reads stale stores ends, and not because of them. */
static void test_wait_weak(void **state) {
        (void) state;
        for (ModelMode mode = 0; mode <= MODEL_STATES; mode++) {
                ModelCase c = {
                        .pre = pre, .actors = { wait_0, pass_1 }, .post = post_waited_in_vain, .weak = true
                };

                assert_int_equal(model_run(&c, mode).n_ends, 1);
                c.actors[1] = pass_rlx_1;
                c.planted = "does not know";
                assert_true(model_run(&c, mode).violated);
                c.actors[1] = pass_by_1;
                c.post = post_nothing;
                c.planted = "wait for ever";
                assert_true(model_run(&c, mode).violated);
        }
}

static void test_preemptions(void **state) {
        ModelCase c = { .pre = pre, .actors = { add_torn, add_torn }, .post = post_nothing };

        (void) state;
        assert_int_equal(model_run(&c, MODEL_STATES).n_ends, 2);
        c.preemptions = 1;
        assert_int_equal(model_run(&c, MODEL_STATES).n_ends, 2);
        c.actors[0] = c.actors[1] = add_twice;
        c.preemptions = 0;
        assert_true(model_run(&c, MODEL_LITERAL).n_schedules == 6);
        c.preemptions = 1; /* not the two that alternate throughout, but with one of them */
        assert_true(model_run(&c, MODEL_LITERAL).n_schedules < 6);
}

/*
 * Interleavings of programs of n[i] steps, with at most `deaths` deaths: by recursion on the steps that each
 * has left.
 */
static double count(unsigned n[], unsigned dead, unsigned deaths) {
        double sum = 0;
        bool live = false;

        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++) {
                if (n[i] == 0 || (dead & 1U << i))
                        continue;
                live = true;
                n[i]--;
                sum += count(n, dead, deaths);
                if (n[i] > 0 && deaths > 0)
                        sum += count(n, dead | 1U << i, deaths - 1);
                n[i]++;
        }
        return live ? sum : 1;
}

static double count_all(unsigned a, unsigned b, unsigned c, unsigned deaths) {
        unsigned n[] = { a, b, c };
        double sum = count(n, 0, deaths);

        for (unsigned i = 0; i < MODEL_ACTORS_MAX && deaths > 0; i++)
                if (n[i] > 0)
                        sum += count(n, 1U << i, deaths - 1);
        return sum;
}

static void test_counts(void **state) {
        ModelCase c = { .pre = pre, .actors = { add, add }, .post = post_sum };

        (void) state;
        assert_true(model_run(&c, MODEL_LITERAL).n_schedules == 2);
        c = (ModelCase){ .pre = pre, .actors = { add_twice, add_twice, add_twice }, .post = post_nothing };
        for (ModelMode mode = 0; mode < _MODEL_MODE_N; mode++) {
                c.deaths = 0;
                assert_true(model_run(&c, mode).n_schedules == 90); /* 6! / (2! 2! 2!) */
                c.deaths = 1;
                assert_true(model_run(&c, mode).n_schedules == count_all(2, 2, 2, 1));
                c.deaths = 2;
                assert_true(model_run(&c, mode).n_schedules == count_all(2, 2, 2, 2));
        }
}

static void run_program(unsigned actor) {
        for (unsigned i = 0; i < program_size[actor]; i++) {
                const Op *op = &program[actor][i];
                uint64_t *cell = &memory[op->cell * 2], *seen = &mine.seen[actor];

                switch (op->kind) {
                case OP_LOAD:
                        *seen = *seen * 3 + shm_load_acq(cell);
                        break;
                case OP_STORE:
                        shm_store_rel(cell, op->value);
                        break;
                case OP_ADD:
                        if (*seen & 1) /* the path depends on the value read */
                                *seen += shm_add_acqrel(cell, op->value);
                        break;
                case OP_FENCE:
                        shm_fence_sc();
                        break;
                case OP_BARRIER:
                        model_barrier();
                        break;
                default:
                        (void) shm_cas_acqrel(cell, seen, op->value);
                }
        }
}

static void p0(void) {
        run_program(0);
}

static void p1(void) {
        run_program(1);
}

static void p2(void) {
        run_program(2);
}

static void make_programs(unsigned n_actors, unsigned n_cells) {
        static const OpKind kinds[] = { OP_STORE, OP_STORE, OP_STORE, OP_LOAD,  OP_LOAD,
                                        OP_LOAD,  OP_ADD,   OP_CAS,   OP_FENCE, OP_BARRIER };

        for (unsigned a = 0; a < n_actors; a++) {
                program_size[a] = 1 + (unsigned) rand() % (n_actors == 3 ? 3 : OPS_MAX);
                for (unsigned i = 0; i < program_size[a]; i++)
                        program[a][i] = (Op){ kinds[(size_t) rand() % (sizeof(kinds) / sizeof(kinds[0]))],
                                              (unsigned) rand() % n_cells, 1 + (uint64_t) rand() % 2 };
        }
}

/* All of two actors, and one cell of the third. */
static void pre_some_late(void) {
        pre_late();
        model_delay(2, &memory[0], sizeof(uint64_t));
}

/* All three ways of searching end in the same states. */
static void compare_modes(const ModelCase *c, ModelResult r[static _MODEL_MODE_N]) {
        for (ModelMode mode = 0; mode < _MODEL_MODE_N; mode++)
                r[mode] = model_run(c, mode);
        for (ModelMode mode = 0; mode < _MODEL_MODE_N; mode++) {
                assert_int_equal(r[mode].n_ends, r[MODEL_LITERAL].n_ends);
                assert_int_equal(r[mode].n_ends_dead, r[MODEL_LITERAL].n_ends_dead);
                assert_int_equal(r[mode].ends, r[MODEL_LITERAL].ends);
        }
        assert_true(r[MODEL_STATES].n_schedules == r[MODEL_LITERAL].n_schedules);
}

static ModelCase case_of(void (*before)(void), unsigned n_actors, unsigned deaths) {
        return (ModelCase){ .pre = before,
                            .actors = { p0, p1, n_actors == 3 ? p2 : NULL },
                            .post = post_nothing,
                            .deaths = deaths };
}

static void test_reductions(void **state) {
        double literal = 0, reduced = 0;

        (void) state;
        srand(1);
        for (unsigned i = 0; i < 600; i++) {
                unsigned n_actors = 2 + i % 2;
                ModelCase c = case_of(pre, n_actors, i / 2 % 3);
                ModelResult r[_MODEL_MODE_N];

                make_programs(n_actors, N_CELLS);
                compare_modes(&c, r);
                literal += r[MODEL_LITERAL].n_schedules;
                reduced += r[MODEL_REDUCED].n_schedules;
        }
        print_message("%.0f schedules one by one, %.0f reduced\n", literal, reduced);
}

/* A bound leaves out the same, whether states are visited once or not; steps that commute are free for it. */
static void test_reductions_bounded(void **state) {
        unsigned n_less = 0;

        (void) state;
        srand(3);
        for (unsigned i = 0; i < 600; i++) {
                unsigned n_actors = 2 + i % 2;
                ModelCase c = case_of(pre, n_actors, i / 2 % 3);
                ModelResult all, literal, states;

                make_programs(n_actors, N_CELLS);
                all = model_run(&c, MODEL_STATES);
                for (c.preemptions = 1; c.preemptions <= 3; c.preemptions++) {
                        literal = model_run(&c, MODEL_LITERAL);
                        states = model_run(&c, MODEL_STATES);
                        assert_int_equal(states.n_ends, literal.n_ends);
                        assert_int_equal(states.ends, literal.ends);
                        assert_true(model_run(&c, MODEL_REDUCED).n_ends >= literal.n_ends);
                        n_less += literal.n_ends < all.n_ends;
                }
        }
        assert_true(n_less > 0);
}

/* So they do where stores wait; and there are ends that there are not where none does. */
static void test_reductions_late(void **state) {
        unsigned n_more = 0;

        (void) state;
        srand(2);
        for (unsigned i = 0; i < 400; i++) {
                unsigned n_actors = 2 + i % 2;
                ModelCase c = case_of(pre_some_late, n_actors, i / 2 % 2);
                ModelResult r[_MODEL_MODE_N];
                uint64_t n_ends = 0;

                make_programs(n_actors, 2);
                for (c.late = 0; c.late <= 2; c.late++) {
                        compare_modes(&c, r);
                        assert_true(r[0].n_ends >= n_ends);
                        n_more += c.late > 0 && r[0].n_ends > n_ends;
                        n_ends = r[0].n_ends;
                }
        }
        assert_true(n_more > 0);
        print_message("%u times more ends with more stores that wait\n", n_more);
}

/* Also where a word is a constant of the hash, as the seal of a leaf was: what comes before it counts. */
static void test_table_hash_words(void **state) {
        uint64_t words[12] = {}, hash;

        for (unsigned i = 4; i < 12; i++)
                words[i] = UINT64_C(0xd6e8feb86659fd93);
        hash = table_hash(0, (uint8_t *) words, sizeof(words));
        for (unsigned i = 0; i < 4; i++) {
                words[i] = 1;
                assert_int_not_equal(table_hash(0, (uint8_t *) words, sizeof(words)), hash);
                words[i] = 0;
        }
}

int main(void) {
        /* clang-format off */
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_table_hash_words),
                cmocka_unit_test(test_planted),
                cmocka_unit_test(test_late),
                cmocka_unit_test(test_wait),
                cmocka_unit_test(test_wait_weak),
                cmocka_unit_test(test_preemptions),
                cmocka_unit_test(test_counts),
                cmocka_unit_test(test_reductions),
                cmocka_unit_test(test_reductions_bounded),
                cmocka_unit_test(test_reductions_late),
        };
        /* clang-format on */

        unsetenv("TSLAB_TEST_FULL"); /* this tests the bounds that are given here */
        return cmocka_run_group_tests(tests, NULL, NULL);
}
