/*
 * Barriers in other threads hold on a processor where a thread has just ended, too.
 *
 * Of two threads, each stores a word and then loads the other's. One issues a membarrier in between, and the other does
 * nothing. At least one must see the other's store. The store waits for slow ones before it, so that the load overtakes
 * it by some microseconds.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/arch/atomic.h"
#include "shm/maintain/freeze.h"
#include "tests/util/process.h"
#include "tests/util/test.h"

#define N_TURNS 300 /* before each, a thread ends */
#define N_ROUNDS 60U
#define N_SLOW 100
#define PAGE 4096
#define TICKS 8000U

typedef struct Word {
        uint32_t value;
} __attribute__((aligned(128))) Word;

/* Shared by both processes. */
typedef struct Litmus {
        Word from_reader, from_barrier; /* the two words: the number of the round that stored last */
        Word round, seen, done; /* the round that began; the reader's load; its last round */
        Word n_turns, n_ended; /* turns that began, and those whose thread has ended */
        Word quit;
        uint8_t slow[N_SLOW * PAGE];
} Litmus;

static Litmus *litmus;
static int processors[2];
static int (*barrier)(void);

static void stay_on(int processor) {
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(processor, &set);
        (void) sched_setaffinity(0, sizeof(set), &set);
}

static uint32_t load(Word *word) {
        return shm_load_acq(&word->value); /* ORDER: acq; words of this test. */
}

static void store(Word *word, uint32_t value) {
        shm_store_rel(&word->value, value); /* ORDER: rel; words of this test. */
}

static void play_round(uint32_t round) {
        for (int i = 0; i < N_SLOW; i++)
                __builtin_ia32_clflush(&litmus->slow[i * PAGE]);
        shm_fence_sc(); /* ORDER: sc; all lines are away. */
        shm_pause(round * 37 % TICKS);
        for (int i = 0; i < N_SLOW; i++)
                *(volatile uint8_t *) &litmus->slow[i * PAGE] = (uint8_t) round;
        store(&litmus->from_reader, round);
        store(&litmus->seen, load(&litmus->from_barrier));
        store(&litmus->done, round);
}

static void *read_words(void *userdata) {
        uint32_t round, last = 0;

        stay_on(processors[0]);
        while (!load(&litmus->quit)) {
                round = load(&litmus->round);
                if (round != last)
                        play_round(round);
                last = round;
        }
        return userdata;
}

static void *end_there(void *userdata) {
        stay_on(processors[0]);
        return userdata;
}

/* The reader's process: for each turn a thread of it ends on the reader's processor. */
static int run_reader(void *userdata) {
        pthread_t reader, other;

        (void) userdata;
        CHECK(shm_membarrier_register() == 0);
        stay_on(processors[1]);
        CHECK(pthread_create(&reader, NULL, read_words, NULL) == 0);
        for (uint32_t turn = 1; turn <= N_TURNS; turn++) {
                while (load(&litmus->n_turns) != turn)
                        usleep(20);
                CHECK(pthread_create(&other, NULL, end_there, NULL) == 0);
                CHECK(pthread_join(other, NULL) == 0);
                store(&litmus->n_ended, turn);
        }
        CHECK(pthread_join(reader, NULL) == 0);
        return 0;
}

static void *run_reader_here(void *userdata) {
        return (void *) (intptr_t) run_reader(userdata);
}

/* Whether neither saw the other's store. */
static bool fails_round(uint32_t round) {
        uint32_t seen;

        store(&litmus->round, round);
        shm_pause(TICKS / 3 + round * 53 % TICKS);
        store(&litmus->from_barrier, round);
        assert_int_equal(barrier(), 0);
        seen = load(&litmus->from_reader);
        while (load(&litmus->done) != round)
                sched_yield();
        return seen != round && load(&litmus->seen) != round;
}

static uint32_t play(uint32_t n_rounds) {
        uint32_t round = 0, n_failed = 0;

        stay_on(processors[1]);
        for (uint32_t turn = 1; turn <= N_TURNS; turn++) {
                store(&litmus->n_turns, turn);
                while (load(&litmus->n_ended) != turn)
                        usleep(20);
                usleep(20); /* it has returned, and ends a moment later */
                for (uint32_t i = 0; i < n_rounds; i++)
                        n_failed += fails_round(++round);
        }
        store(&litmus->quit, 1);
        return n_failed;
}

/* The barrier of tslab_close(). */
static void test_membarrier_own(void **state) {
        pthread_t other;
        void *result;

        (void) state;
        barrier = shm_membarrier_own;
        assert_int_equal(shm_membarrier_register(), 0);
        assert_int_equal(pthread_create(&other, NULL, run_reader_here, NULL), 0);
        assert_int_equal(play(N_ROUNDS), 0);
        assert_int_equal(pthread_join(other, &result), 0);
        assert_int_equal((intptr_t) result, 0);
}

/* The barrier of a freeze. */
static int membarrier_and_wait(void) {
        int r = shm_membarrier();

        shm_await_stores();
        return r;
}

static void test_membarrier_other_process(void **state) {
        pid_t child;

        (void) state;
        barrier = membarrier_and_wait;
        child = test_child_start(TEST_FORK, run_reader, NULL);
        assert_int_equal(play(N_ROUNDS / 6), 0); /* each takes a millisecond */
        assert_int_equal(test_child_wait(child), 0);
}

static int find_processors(void) {
        cpu_set_t set;
        int n = 0;

        if (sched_getaffinity(0, sizeof(set), &set) < 0)
                return 0;
        for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
                if (CPU_ISSET(i, &set))
                        processors[n++] = i;
        return n;
}

static int setup(void **state) {
        (void) state;
        litmus = mmap(NULL, sizeof(*litmus), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (litmus == MAP_FAILED)
                return -1;
        memset(litmus, 0, sizeof(*litmus));
        return 0;
}

static int teardown(void **state) {
        (void) state;
        return munmap(litmus, sizeof(*litmus));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_membarrier_other_process, setup, teardown),
                cmocka_unit_test_setup_teardown(test_membarrier_own, setup, teardown),
        };

        if (find_processors() < 2) {
                printf("one processor: skipped\n");
                return 77;
        }
        return cmocka_run_group_tests(tests, NULL, NULL);
}
