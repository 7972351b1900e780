#pragma once
/* The bench's own memory, random numbers, and bench_fail(). */
#include <stddef.h>
#include <stdint.h>

/*
 * Zeroed memory that the members of a group share. All its pages exist and are mapped in this process, so
 * writing to it faults none. A forked member calls bench_prefault() first.
 */
void *bench_reserve(size_t size);
void bench_prefault(void *memory, size_t size);

/* Resident bytes of this process. */
uint64_t bench_rss(void);

/* Page faults without I/O of the calling thread so far. */
uint64_t bench_n_faults(void);

/* Prints the message, and ends the process. */
_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* xorshift64*: one multiplication a number, and the same numbers for every allocator. */
typedef struct Random {
        uint64_t state;
} Random;

static inline void random_init(Random *random, uint64_t seed) {
        random->state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

/* A number below n, all equally likely; n is less than 2^32. */
static inline uint32_t random_below(Random *random, uint32_t n) {
        random->state ^= random->state >> 12;
        random->state ^= random->state << 25;
        random->state ^= random->state >> 27;
        return (uint32_t) (((random->state * UINT64_C(0x2545f4914f6cdd1d)) >> 32) * n >> 32);
}
