#pragma once
/*
 * The members of a workload: processes, or threads where the allocator is private to a process. Each
 * runs on a processor of its own as far as there are enough.
 */
#include <stdbool.h>
#include <stdint.h>
#include <x86intrin.h>

#define GROUP_MEMBERS_MAX 64

/* Where members wait for each other; spins, and yields where there are more of them than processors. */
typedef struct Barrier {
        uint32_t n;
        uint32_t n_cpus;
        uint32_t n_arrived __attribute__((aligned(64)));
        uint32_t n_passed __attribute__((aligned(64)));
} Barrier;

void barrier_wait(Barrier *barrier);

/* Processors this process may run on; measured before it pins itself. */
uint32_t group_n_cpus(void);
/* Pins the calling thread to the i-th last of them, round and round: the first has the interrupts. */
void group_pin(uint32_t i);

/* Which member the calling thread is. */
extern __thread uint32_t group_self;

typedef void (*GroupFunction)(void *arg, uint32_t member);

/*
 * Runs n members and waits for them; fails when one does. With `processes` they see the caller's memory
 * as it was, and share only what bench_reserve() gave. A single member is the calling thread itself.
 * Returns the least part of its time that a member had a processor: below 1 they did not run side by side.
 */
double group_run(uint32_t n, bool processes, GroupFunction function, void *arg);

void spin_yield(void);

/* One turn of a loop that waits for another member. */
static inline void spin_once(uint32_t *turns) {
        if (++*turns % 1024 == 0)
                spin_yield();
        else
                _mm_pause();
}
