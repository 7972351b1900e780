#include "bench/harness/clock.h"

#include <stdlib.h>
#include <time.h>

#define CALIBRATE_NS 20000000
#define N_SAMPLES 4001

typedef struct Moment {
        uint64_t ticks, ns;
} Moment;

static uint64_t raw_ns(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC_RAW, &now);
        return (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
}

/* Both clocks at one moment. An interrupt may fall between the readings, so the closest of several counts. */
static Moment moment_now(void) {
        uint64_t best = UINT64_MAX, begin, end, ns;
        Moment m = {};

        for (int i = 0; i < 20; i++) {
                begin = clock_now();
                ns = raw_ns();
                end = clock_now();
                if (end - begin >= best)
                        continue;
                best = end - begin;
                m = (Moment){ .ticks = begin + best / 2, .ns = ns };
        }
        return m;
}

static int sample_compare(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

        return (x > y) - (x < y);
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
        uint64_t rest;

        for (; b != 0; b = rest) {
                rest = a % b;
                a = b;
        }
        return a;
}

static void measure_cost(Clock *clock) {
        static uint64_t samples[N_SAMPLES];
        uint64_t begin, sum = 0, kept = N_SAMPLES - N_SAMPLES / 100;

        /* The first of two rounds faults the samples' pages in. */
        for (int round = 0; round < 2; round++)
                for (int i = 0; i < N_SAMPLES; i++) {
                        begin = clock_now();
                        samples[i] = clock_now() - begin;
                }
        qsort(samples, N_SAMPLES, sizeof(samples[0]), sample_compare);
        clock->step_ticks = 0;
        for (uint64_t i = 0; i < kept; i++) {
                sum += samples[i];
                clock->step_ticks = common_divisor(samples[i], clock->step_ticks);
        }
        clock->cost_ticks = (double) sum / (double) kept;
}

void clock_init(Clock *clock) {
        Moment begin = moment_now(), end;

        while (raw_ns() - begin.ns < CALIBRATE_NS)
                clock_relax();
        end = moment_now();
        clock->ns_per_tick = (double) (end.ns - begin.ns) / (double) (end.ticks - begin.ticks);
        measure_cost(clock);
}
