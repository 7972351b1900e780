/* See lines.h. */
#include "tests/lines/lines.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/lines/seam.h"

#define LINE 64U
#define N_LINES_MAX (1U << 21) /* a power of two */

typedef struct Line {
        uintptr_t address; /* 0: this place is empty */
        uint64_t has; /* actors whose caches have it, a bit each */
        uint64_t writers; /* since lines_begin() */
        uint64_t n_transfers;
        const char *function;
        uint64_t call; /* the last watched call that used it; 0: none */
} Line;

static Line table[N_LINES_MAX];
static _Thread_local int line_actor = -1;

#define COLD_CALLS                                                                                           \
        1000 /* a line that none of so many calls used is no longer in a cache near the processor */

static struct {
        uintptr_t begin, end;
        uint64_t call; /* 0: nothing is watched */
        LinesWatched count;
} watch;

void lines_set_actor(int actor) {
        line_actor = actor;
}

static Line *find(uintptr_t address) {
        uint32_t i = (uint32_t) ((address / LINE * UINT64_C(0x9e3779b97f4a7c15)) >> 43) & (N_LINES_MAX - 1);

        for (uint32_t n = 0; n < N_LINES_MAX; n++, i = (i + 1) & (N_LINES_MAX - 1)) {
                if (table[i].address == 0)
                        table[i].address = address;
                if (table[i].address == address)
                        return &table[i];
        }
        fprintf(stderr, "lines: the table is full\n");
        abort();
}

static void watch_access(uintptr_t first, uintptr_t end) {
        for (uintptr_t at = first; at < end; at += LINE) {
                Line *line;

                if (at < watch.begin || at >= watch.end)
                        continue;
                line = find(at);
                if (line->call == watch.call)
                        continue;
                watch.count.n_lines++;
                if (line->call == 0 || watch.call - line->call > COLD_CALLS)
                        watch.count.n_cold++;
                line->call = watch.call;
        }
}

void lines_watch(const void *begin, size_t size) {
        watch.begin = (uintptr_t) begin;
        watch.end = (uintptr_t) begin + size;
        watch.call = 0;
}

void lines_watch_call(void) {
        watch.call++;
}

LinesWatched lines_watch_end(void) {
        LinesWatched count = watch.count;

        watch.count = (LinesWatched){ 0 };
        return count;
}

void lines_access(const void *address, size_t size, bool is_store, const char *function) {
        uintptr_t first = (uintptr_t) address & ~(uintptr_t) (LINE - 1);

        if (watch.call != 0)
                watch_access(first, (uintptr_t) address + size);
        if (line_actor < 0 || size == 0)
                return;
        for (uintptr_t at = first; at < (uintptr_t) address + size; at += LINE) {
                uint64_t self = UINT64_C(1) << line_actor;
                Line *line = find(at);

                if (is_store ? (line->has & ~self) != 0 : line->has != 0 && (line->has & self) == 0)
                        line->n_transfers++;
                line->has = is_store ? self : line->has | self;
                if (is_store) {
                        line->writers |= self;
                        line->function = function;
                }
        }
}

void lines_begin(void) {
        for (uint32_t i = 0; i < N_LINES_MAX; i++)
                table[i].writers = table[i].n_transfers = 0;
}

static bool is_shared(const Line *line) {
        return (line->writers & (line->writers - 1)) != 0;
}

LinesCount lines_end(void) {
        LinesCount count = { .hottest = "" };

        for (uint32_t i = 0; i < N_LINES_MAX; i++) {
                count.n_transfers += table[i].n_transfers;
                count.n_lines += is_shared(&table[i]);
                if (table[i].n_transfers <= count.n_hottest)
                        continue;
                count.n_hottest = table[i].n_transfers;
                count.hottest = table[i].function ? table[i].function : "";
        }
        return count;
}

void lines_print(void) {
        for (uint32_t i = 0; i < N_LINES_MAX; i++)
                if (is_shared(&table[i]))
                        printf("    %#zx: %ju transfers, written by %d actors, last in %s()\n",
                               table[i].address, (uintmax_t) table[i].n_transfers,
                               __builtin_popcountll(table[i].writers), table[i].function);
}

#define N_TURNS 2000U
#define N_GAMES 200

static _Alignas(2 * LINE) atomic_uint ball;

/* Takes every other turn. */
static void *play(void *userdata) {
        for (unsigned i = *(const unsigned *) userdata; i < N_TURNS; i += 2) {
                while (atomic_load(&ball) != i)
                        ;
                atomic_store(&ball, i + 1);
        }
        return NULL;
}

static double game_ns(void) {
        struct timespec begin, end;
        unsigned even = 2, odd = 1;
        pthread_t other;

        ball = 0;
        if (pthread_create(&other, NULL, play, &odd) != 0)
                abort();
        atomic_store(&ball, 1);
        while (atomic_load(&ball) == 1) /* until the other has begun */
                ;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        play(&even);
        pthread_join(other, NULL);
        clock_gettime(CLOCK_MONOTONIC, &end);
        return (double) (end.tv_sec - begin.tv_sec) * 1e9 + (double) (end.tv_nsec - begin.tv_nsec);
}

/* The fastest game, since others may take the processors away. */
double lines_transfer_ns(void) {
        double least = 0;

        for (int i = 0; i < N_GAMES; i++) {
                double ns = game_ns();

                least = i == 0 || ns < least ? ns : least;
        }
        /* Each turn takes the line twice: to see the other's store, and for its own. */
        return least / N_TURNS / 2;
}
