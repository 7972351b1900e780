/*
 * A soak: sessions come and go at full speed in a small pool, for as long as the test runs, and a process is killed
 * each second. At the end the index of the map takes no more than early on, and neither do slabs. Latency is printed,
 * not tested. So is the time of writes to cache lines that all workers write: if a hypervisor moves processors apart,
 * that time doubles, and latency with it.
 *
 * tests/stress/draw-soak.py draws the table that this prints. An argument is the number of seconds: bench/ has the
 * program for its report.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libclient/map.h"
#include "shm/arch/atomic.h"
#include "shm/maintain/check.h"
#include "shm/stats/stats.h"

#include "tests/util/parent.h"

#define N_WORKERS 4
#define N_LIVE 2500 /* sessions of each worker */
#define ARENA_BYTES (UINT64_C(16) << 20)
#define VALUE_MAX 400
#define SECONDS 20
#define SECONDS_FULL 600
#define SAMPLES_MAX SECONDS_FULL
#define TIMED 64 /* one operation in so many */
#define N_LINES 64
#define LINE_SIZE 128 /* with the neighbour that processors fetch, too */
#define BUCKET_NS 16
#define N_BUCKETS 4096
#define GROWTH_MAX 1.05

#define CHECK(x) ((x) ? (void) 0 : fail(__LINE__, #x))

enum {
        SESSION, /* one session ends, another begins */
        LINES, /* each line is written once */
        N_TIMES,
};

typedef struct Worker {
        uint64_t keys
                [N_LIVE]; /* stored before the key is put, and until it is deleted: a successor goes on here */
        uint64_t n_keys, place, n_sessions;
        uint64_t latencies[N_TIMES][N_BUCKETS];
} Worker;

typedef struct Shared {
        uint64_t lines[N_LINES][LINE_SIZE / sizeof(uint64_t)];
        volatile int is_over;
        Worker workers[N_WORKERS];
} Shared;

typedef struct Sample {
        uint64_t n_sessions, n_entries, index_size, committed_size, p50_ns, p99_ns, lines_ns;
} Sample;

static Shared *shared;
static struct tslab *pool;
static struct tslab_map *map;

static void fail(int line, const char *what) {
        fprintf(stderr, "line %d: not so: %s\n", line, what);
        _exit(1);
}

static uint64_t now_ns(void) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}

static uint64_t mix(uint64_t x) {
        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

/* An old session ends, a new one begins in its place. */
static void renew_session(Worker *w, uint64_t key) {
        static const char value[VALUE_MAX];
        uint64_t *place = &w->keys[w->place];
        int r;

        r = *place ? tslab_map_delete(map, place, sizeof(*place)) : 0;
        CHECK(r == 0 || r == -ENOENT);
        *place = key;
        CHECK(tslab_map_replace(map, place, sizeof(*place), 0, value, mix(key) % VALUE_MAX,
                                TSLAB_EPOCH_CURRENT) == 0);
        w->place = (w->place + 1) % N_LIVE;
        w->n_sessions++;
}

static void note_time(uint64_t *latencies, uint64_t begin) {
        uint64_t bucket = (now_ns() - begin) / BUCKET_NS;

        latencies[bucket < N_BUCKETS ? bucket : N_BUCKETS - 1]++;
}

static void time_session(Worker *w, uint64_t key) {
        uint64_t begin = now_ns();

        renew_session(w, key);
        note_time(w->latencies[SESSION], begin);
        begin = now_ns();
        for (unsigned i = 0; i < N_LINES; i++)
                shm_add_rlx(shared->lines[i], 1); /* ORDER: rlx; a yardstick. */
        note_time(w->latencies[LINES], begin);
}

static void work(uint64_t worker) {
        Worker *w = &shared->workers[worker];

        while (!shared->is_over) {
                uint64_t key = (worker + 1) << 56 | ++w->n_keys;

                if (key % TIMED == 0)
                        time_session(w, key);
                else
                        renew_session(w, key);
        }
}

static pid_t worker_start(unsigned worker) {
        pid_t pid = fork();

        CHECK(pid >= 0);
        if (pid == 0) {
                end_with_parent();
                work(worker);
                _exit(0);
        }
        return pid;
}

/* In nanoseconds: so many in 1000 took at most so long, since `before`. */
static uint64_t quantile(const uint64_t *before, const uint64_t *now, uint64_t in_1000) {
        uint64_t n = 0, seen = 0;
        unsigned i;

        for (i = 0; i < N_BUCKETS; i++)
                n += now[i] - before[i];
        for (i = 0; i < N_BUCKETS - 1 && seen * 1000 <= n * in_1000; i++)
                seen += now[i] - before[i];
        return i * BUCKET_NS;
}

static void sample(Sample *ret) {
        static uint64_t before[N_TIMES][N_BUCKETS];
        uint64_t now[N_TIMES][N_BUCKETS] = {};
        static ShmStats stats;

        shm_stats(&pool->arena, &stats);
        *ret = (Sample){ .n_entries = (uint64_t) tslab_map_count(map),
                         .index_size = stats.epochs[map->trie.epoch & 0xff].live_size,
                         .committed_size = stats.committed_size };
        for (unsigned w = 0; w < N_WORKERS; w++) {
                ret->n_sessions += shared->workers[w].n_sessions;
                for (unsigned t = 0; t < N_TIMES; t++)
                        for (unsigned i = 0; i < N_BUCKETS; i++)
                                now[t][i] += shared->workers[w].latencies[t][i];
        }
        ret->p50_ns = quantile(before[SESSION], now[SESSION], 500);
        ret->p99_ns = quantile(before[SESSION], now[SESSION], 990);
        ret->lines_ns = quantile(before[LINES], now[LINES], 500);
        memcpy(before, now, sizeof(before));
}

static void print_sample(unsigned second, const Sample *s) {
        printf("%7u %12lu %8lu %10.1f %12.1f %7lu %7lu %8lu\n", second, (unsigned long) s->n_sessions,
               (unsigned long) s->n_entries, (double) s->index_size / 1024, (double) s->committed_size / 1024,
               (unsigned long) s->p50_ns, (unsigned long) s->p99_ns, (unsigned long) s->lines_ns);
        fflush(stdout);
}

/* However slow they are: before, the index grows as it should. */
static void wait_for_all_sessions(void) {
        for (unsigned w = 0; w < N_WORKERS; w++)
                while (*(volatile const uint64_t *) &shared->workers[w].n_sessions < N_LIVE)
                        usleep(1000);
}

static void run(unsigned n_seconds, Sample *samples) {
        pid_t pids[N_WORKERS];

        printf("# second    sessions  entries  index/KiB committed/KiB  p50/ns  p99/ns lines/ns\n");
        for (unsigned w = 0; w < N_WORKERS; w++)
                pids[w] = worker_start(w);
        wait_for_all_sessions();
        for (unsigned second = 0; second < n_seconds; second++) {
                unsigned victim = second % N_WORKERS;

                usleep(1000000);
                CHECK(kill(pids[victim], SIGKILL) == 0);
                CHECK(waitpid(pids[victim], NULL, 0) == pids[victim]);
                CHECK(tslab_reap(pool) >= 0);
                sample(&samples[second]);
                print_sample(second + 1, &samples[second]);
                pids[victim] = worker_start(victim);
        }
        shared->is_over = 1;
        for (unsigned w = 0; w < N_WORKERS; w++) {
                int status;

                CHECK(waitpid(pids[w], &status, 0) == pids[w]);
                CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
        CHECK(tslab_reap(pool) >= 0);
}

/* Each entry is some worker's session: a killed one left nothing else. */
static void check_entries(void) {
        ssize_t n = 0;

        for (unsigned w = 0; w < N_WORKERS; w++)
                for (unsigned i = 0; i < N_LIVE; i++) {
                        const uint64_t *key = &shared->workers[w].keys[i];
                        char value[VALUE_MAX];
                        ssize_t size = tslab_map_get(map, key, sizeof(*key), value, sizeof(value), NULL);

                        CHECK(size == -ENOENT || size == (ssize_t) (mix(*key) % VALUE_MAX));
                        n += size >= 0;
                }
        CHECK(n <= N_WORKERS * N_LIVE && n >= N_WORKERS * (N_LIVE - 1));
        CHECK(tslab_map_count(map) == n);
}

static void check_arena(void) {
        ShmCheck check;

        CHECK(shm_check(&pool->arena, &check) == 0);
        for (size_t i = 0; i < check.n_texts; i++)
                fprintf(stderr, "%s\n", check.texts[i]);
        CHECK(check.problems + check.in_flight_slots == 0);
}

static double mean(const Sample *samples, unsigned from, unsigned to, size_t offset) {
        double sum = 0;

        for (unsigned i = from; i < to; i++)
                sum += (double) *(const uint64_t *) ((const char *) &samples[i] + offset);
        return sum / (to - from);
}

/* The last tenth beside the second. False: it grew. */
static bool compare(const Sample *samples, unsigned n, const char *name, size_t offset) {
        double early = mean(samples, n / 10, n / 5, offset), late = mean(samples, n - n / 10, n, offset);

        printf("# %s: %.3f x\n", name, late / early);
        return late <= early * GROWTH_MAX;
}

static unsigned seconds(const char *argument) {
        unsigned long n = argument                    ? strtoul(argument, NULL, 10)
                          : getenv("TSLAB_TEST_FULL") ? SECONDS_FULL
                                                      : SECONDS;

        CHECK(n >= 10 && n <= SAMPLES_MAX);
        return (unsigned) n;
}

int main(int argc, char **argv) {
        struct tslab_options options = { .size = sizeof(options),
                                         .arena_bytes = ARENA_BYTES,
                                         .n_threads = 64 };
        unsigned n = seconds(argc >= 2 ? argv[1] : NULL);
        static Sample samples[SAMPLES_MAX];
        bool fine;

        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(shared != MAP_FAILED);
        CHECK(tslab_create(&pool, &options) == 0);
        CHECK(tslab_map_open(&map, pool, "sessions", NULL) == 0);
        run(n, samples);
        check_entries();
        check_arena();
        fine = compare(samples, n, "index", offsetof(Sample, index_size));
        fine &= compare(samples, n, "committed", offsetof(Sample, committed_size));
        (void) compare(samples, n, "p50", offsetof(Sample, p50_ns));
        (void) compare(samples, n, "p99", offsetof(Sample, p99_ns));
        (void) compare(samples, n, "lines", offsetof(Sample, lines_ns));
        map = tslab_map_close(map);
        pool = tslab_close(pool);
        return !fine;
}
