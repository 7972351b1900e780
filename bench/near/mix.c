/*
 * Workers read keys by Zipf's law with exponent 1: first n reads that fill the near cache, then n that are measured.
 * The server counts its commands itself.
 */
#include <stdio.h>
#include <string.h>

#include "bench/near/near-rows.h"

typedef struct Mix {
        NearBench *near_bench;
        double *shares; /* the part of all reads that is of this key or an earlier one */
        uint64_t *hits; /* by worker */
        uint64_t *figures; /* ticks, questions before and after */
        Barrier *barrier;
} Mix;

enum { TICKS, BEFORE, AFTER, N_FIGURES };

static void make_shares(double *shares) {
        double sum = 0;

        for (uint32_t i = 0; i < NEAR_KEYS; i++)
                shares[i] = sum += 1.0 / (i + 1);
        for (uint32_t i = 0; i < NEAR_KEYS; i++)
                shares[i] /= sum;
}

static uint32_t pick_key(const double *shares, Random *random) {
        double x = random_below(random, UINT32_MAX) / (double) UINT32_MAX;
        uint32_t low = 0, high = NEAR_KEYS - 1;

        while (low < high) {
                uint32_t middle = (low + high) / 2;

                if (shares[middle] < x)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static void write_key(char *key, uint32_t i) {
        (void) snprintf(key, NEAR_KEY_SIZE, "p:%08x", i * 2654435761U);
}

static void load_keys(Reader *reader) {
        char key[NEAR_KEY_SIZE], value[NEAR_VALUE] = "";

        for (uint32_t i = 0; i < NEAR_KEYS; i++) {
                write_key(key, i);
                memcpy(value, &i, sizeof(i));
                freeReplyObject(
                        reader_ask(reader, REDIS_REPLY_STATUS, "SET %s %b", key, value, (size_t) NEAR_VALUE));
        }
}

static void read_keys(const Mix *mix, Reader *reader, Random *random) {
        char key[NEAR_KEY_SIZE], value[NEAR_VALUE];

        for (uint64_t i = 0; i < mix->near_bench->n; i++) {
                uint32_t picked = pick_key(mix->shares, random);

                write_key(key, picked);
                if (reader_get(reader, key, value) != NEAR_VALUE ||
                    memcmp(value, &picked, sizeof(picked)) != 0)
                        bench_fail("%s has another key's value", key);
        }
}

/* GETs that the server has answered. */
static uint64_t n_questions(Reader *reader) {
        redisReply *reply = reader_ask(reader, REDIS_REPLY_STRING, "INFO commandstats");
        const char *line = strstr(reply->str, "cmdstat_get:calls=");
        unsigned long long n = 0;

        if (line && sscanf(line, "cmdstat_get:calls=%llu", &n) != 1)
                bench_fail("INFO commandstats has an unknown form");
        freeReplyObject(reply);
        return n;
}

static void run_mix_member(void *arg, uint32_t member) {
        Mix *mix = arg;
        Random random;
        Reader reader;

        reader_open(&reader, mix->near_bench, 0);
        random_init(&random, member);
        if (reader.near)
                reader_await_cover(&reader);
        read_keys(mix, &reader, &random);
        reader.n_hits = 0;
        barrier_wait(mix->barrier);
        if (member == 0) {
                mix->figures[BEFORE] = n_questions(&reader);
                mix->figures[TICKS] = clock_now();
        }
        barrier_wait(mix->barrier);
        read_keys(mix, &reader, &random);
        mix->hits[member] = reader.n_hits;
        barrier_wait(mix->barrier);
        if (member == 0) {
                mix->figures[TICKS] = clock_now() - mix->figures[TICKS];
                mix->figures[AFTER] = n_questions(&reader);
        }
        reader_close(&reader);
}

static void report_mix(NearBench *near_bench, const Mix *mix) {
        Bench *bench = &near_bench->bench;
        double seconds = clock_net_ns(&bench->clock, (double) mix->figures[TICKS]) / 1e9;
        double reads = (double) near_bench->n * near_bench->n_workers, hits = 0;
        double questions = (double) (mix->figures[AFTER] - mix->figures[BEFORE]);

        for (uint32_t i = 0; i < near_bench->n_workers; i++)
                hits += (double) mix->hits[i];
        bench_metric(bench, "reads_per_s", reads / seconds);
        bench_metric(bench, "hit_ratio", hits / reads);
        bench_metric(bench, "questions_per_read", questions / reads);
        bench_metric(bench, "questions_per_s", questions / seconds);
}

void near_mix(NearBench *near_bench) {
        Mix mix = { .near_bench = near_bench };
        Reader reader;

        mix.shares = bench_reserve(NEAR_KEYS * sizeof(*mix.shares));
        mix.hits = bench_reserve(GROUP_MEMBERS_MAX * sizeof(*mix.hits));
        mix.figures = bench_reserve(N_FIGURES * sizeof(*mix.figures));
        mix.barrier = bench_reserve(sizeof(*mix.barrier));
        *mix.barrier = (Barrier){ .n = near_bench->n_workers, .n_cpus = group_n_cpus() };
        make_shares(mix.shares);
        reader_open(&reader, near_bench, UINT32_MAX);
        load_keys(&reader);
        reader_close(&reader);
        (void) group_run(near_bench->n_workers, true, run_mix_member, &mix);
        report_mix(near_bench, &mix);
}
