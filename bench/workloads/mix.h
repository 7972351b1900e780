#pragma once
/*
 * Objects of mixed sizes: the lengths of the lines of a public web server's access log (10,000 of them, 236
 * bytes in the mean), at 32 evenly spaced quantiles, in random order.
 *
 * mix: 100,000 of them live, a tenth is replaced a hundred times. Reported: the requested part of the bytes in
 * size classes (efficiency), and the memory that they take.
 */
#include "bench/harness/harness.h"

#define MIX_LIVE 100000
#define MIX_CYCLES 100
#define MIX_LARGEST 423

static const uint16_t mix_sizes[32] = {
        103, 137, 154, 160, 165, 165, 170, 180, 190, 197, 200, 207, 211, 216, 222, 227,
        234, 240, 246, 253, 259, 266, 272, 280, 286, 292, 298, 305, 312, 322, 336, 423,
};

static inline size_t mix_size(Random *random) {
        return mix_sizes[random_below(random, 32)];
}

#ifdef BENCH_HAS_SIZES
typedef struct Mix {
        Random random;
        uint32_t n_live;
        uint64_t requested, held; /* requested bytes of the live objects */
        uint64_t *handles;
        uint16_t *sizes;
} Mix;

static void mix_fill(Mix *mix, uint32_t i) {
        size_t size = mix_size(&mix->random);
        void *object;

        mix->handles[i] = bench_alloc_or_fail(size, &object);
        mix->sizes[i] = (uint16_t) size;
        mix->requested += size;
        mix->held += bench_room(mix->handles[i]);
        memset(object, (int) i, size);
}

static void mix_empty(Mix *mix, uint32_t i) {
        mix->requested -= mix->sizes[i];
        mix->held -= bench_room(mix->handles[i]);
        bench_free(mix->handles[i]);
}

static void workload_mix(Bench *bench) {
        Mix mix = { .n_live = (uint32_t) bench_n_live(bench, MIX_LIVE) };
        uint64_t before;

        (void) bench_n_members(bench, 1);
        mix.handles = bench_reserve(mix.n_live * sizeof(mix.handles[0]));
        mix.sizes = bench_reserve(mix.n_live * sizeof(mix.sizes[0]));
        random_init(&mix.random, 1);
        bench_init(bench, MIX_LARGEST, mix.n_live);
        group_pin(0);
        before = bench->processes ? 0 : bench_resident();
        bench_thread_init();
        for (uint32_t i = 0; i < mix.n_live; i++)
                mix_fill(&mix, i);
        for (uint32_t i = 0; i < mix.n_live / 10 * MIX_CYCLES; i++) {
                uint32_t place = random_below(&mix.random, mix.n_live);

                mix_empty(&mix, place);
                mix_fill(&mix, place);
        }
        bench_metric(bench, "efficiency", (double) mix.requested / (double) mix.held);
        bench_metric(bench, "resident_over_requested",
                     (double) (bench_resident() - before) / (double) mix.requested);
        bench_thread_deinit();
}
#else
static void workload_mix(Bench *bench) {
        bench->not_applicable = true;
}
#endif
