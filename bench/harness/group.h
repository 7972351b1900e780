#pragma once
/*
 * The members of a workload: processes, or threads where the allocator is private to a process. Each
 * runs on a processor of its own as long as there are enough.
 */
#include <stdbool.h>
#include <stdint.h>

#include "bench/harness/clock.h"

#define GROUP_MEMBERS_MAX 64

/* Members wait here for each other. They spin, and yield where there are more of them than processors. */
typedef struct Barrier {
        uint32_t n;
        uint32_t n_cpus;
        uint32_t n_arrived __attribute__((aligned(64)));
        uint32_t n_passed __attribute__((aligned(64)));
} Barrier;

void barrier_wait(Barrier *barrier);

/* The processors this process may run on, counted before it pins itself. */
uint32_t group_n_cpus(void);
/* Pins the calling thread to the i-th last processor, round and round: the first one handles the interrupts. */
void group_pin(uint32_t i);

/* The calling thread's number as a member. */
extern __thread uint32_t group_self;

typedef void (*GroupFunction)(void *arg, uint32_t member);

/*
 * Runs n members and waits for them; ends the program when one fails. With `processes` each has a copy of
 * the caller's memory, and they share only memory from bench_reserve(). A single member is the calling
 * thread itself. Returns the smallest part of its time that any member had a processor: below 1 they did
 * not run side by side.
 */
double group_run(uint32_t n, bool processes, GroupFunction function, void *arg);

void spin_yield(void);

/* One round of a loop that waits for another member. */
static inline void spin_once(uint32_t *turns) {
        if (++*turns % 1024 == 0)
                spin_yield();
        else
                clock_relax();
}
