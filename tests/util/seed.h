#pragma once
/* Numbers that look random, from a seed that is printed: TSLAB_TEST_SEED=N repeats a run. */
#include <stdbool.h>
#include <stdint.h>

/* Prints it, once a process. */
uint64_t seed_get(void);

/* The next number of the sequence that *state stands in; any state will do. */
uint64_t seed_next(uint64_t *state);
/* Below n, which is not 0. */
uint32_t seed_below(uint64_t *state, uint32_t n);

/* Whether time-boxed tests are to stay longer. */
bool seed_full(void);
