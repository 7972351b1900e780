/*
 * Near caches of a Redis server, with tslabd, tslab-near and redis-server running:
 *
 *      hit         a hit, beside a get of a map
 *      changes     from a change in the server until all workers of all pools have read it
 *      mix         workers read keys by Zipf's law: how many requests does the server get?
 *
 * Prints JSON. bench/driver/near.py starts the servers, and tells more.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/near/near-rows.h"

#define WAIT_MS 50
#define COVER_SECONDS 10

static const struct {
        const char *name;
        void (*function)(NearBench *);
} modes[] = { { "hit", near_hit }, { "changes", near_changes }, { "mix", near_mix } };

void near_check(const char *what, int64_t r) {
        if (r < 0)
                bench_fail("%s: %s", what, strerror((int) -r));
}

static void ask_name(Reader *reader) {
        redisReply *info = reader_ask(reader, REDIS_REPLY_STRING, "INFO server");
        const char *at = strstr(info->str, "run_id:");

        if (at)
                (void) sscanf(at, "run_id:%40[0-9a-f]", reader->server);
        freeReplyObject(info);
}

void reader_open(Reader *reader, const NearBench *near_bench, uint32_t pool) {
        *reader = (Reader){ .redis = redisConnect("127.0.0.1", near_bench->port) };
        if (!reader->redis || reader->redis->err)
                bench_fail("redis: %s", reader->redis ? reader->redis->errstr : "out of memory");
        if (pool >= near_bench->n_pools)
                return;
        near_check("pool", tslab_open(&reader->pool, near_bench->pools[pool], NULL));
        near_check("near cache", tslab_near_open(&reader->near, reader->pool, "near", NULL));
        ask_name(reader);
}

void reader_close(Reader *reader) {
        (void) tslab_near_close(reader->near);
        if (reader->pool)
                (void) tslab_close(reader->pool);
        redisFree(reader->redis);
}

redisReply *reader_ask(Reader *reader, int type, const char *format, ...) {
        redisReply *reply;
        va_list args;

        va_start(args, format);
        reply = redisvCommand(reader->redis, format, args);
        va_end(args);
        if (!reply || reply->type != type)
                bench_fail("redis: %s", reply && reply->str ? reply->str : reader->redis->errstr);
        return reply;
}

static size_t ask_value(Reader *reader, const char *key, void *buffer) {
        redisReply *reply = reader_ask(reader, REDIS_REPLY_STRING, "GET %s", key);
        size_t n = (size_t) reply->len;

        if (n > NEAR_VALUE)
                bench_fail("%s: %zu bytes", key, n);
        memcpy(buffer, reply->str, n);
        freeReplyObject(reply);
        return n;
}

size_t reader_get(Reader *reader, const char *key, void *buffer) {
        struct tslab_near_claim claim = {};
        ssize_t n = -ENOENT;

        if (reader->near)
                n = tslab_near_get(reader->near, key, strlen(key), buffer, NEAR_VALUE, WAIT_MS, &claim);
        reader->n_hits += n >= 0;
        if (n == -ENOENT) {
                n = (ssize_t) ask_value(reader, key, buffer);
                if (claim.copy)
                        (void) tslab_near_fill(reader->near, key, strlen(key), &claim, reader->server, buffer,
                                               (size_t) n, TSLAB_MAP_TTL_NONE);
        }
        near_check(key, n);
        return (size_t) n;
}

void reader_await_cover(Reader *reader) {
        struct timespec nap = { .tv_nsec = 5000000 };
        time_t end = time(NULL) + COVER_SECONDS;
        char buffer[NEAR_VALUE];
        uint64_t n_hits;

        freeReplyObject(reader_ask(reader, REDIS_REPLY_STATUS, "SET p:probe 1"));
        do {
                if (time(NULL) > end)
                        bench_fail("nothing is covered: does tslab-near run?");
                (void) nanosleep(&nap, NULL);
                n_hits = reader->n_hits;
                (void) reader_get(reader, "p:probe", buffer);
                (void) reader_get(reader, "p:probe", buffer);
        } while (reader->n_hits < n_hits + 2);
        reader->n_hits = 0;
}

int main(int argc, char **argv) {
        static NearBench near_bench;

        if (argc < 5) {
                (void) fprintf(stderr,
                               "Usage: bench-near hit|changes|mix PORT WORKERS OPERATIONS [POOL...]\n");
                return 2;
        }
        near_bench.port = atoi(argv[2]);
        near_bench.n_workers = (uint32_t) atoi(argv[3]);
        near_bench.n = strtoull(argv[4], NULL, 10);
        near_bench.pools = argv + 5;
        near_bench.n_pools = (uint32_t) argc - 5;
        near_bench.bench.metrics = json_object_new_object();
        near_bench.bench.series = json_object_new_object();
        (void) group_n_cpus();
        clock_init(&near_bench.bench.clock);
        for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
                if (strcmp(modes[i].name, argv[1]) == 0)
                        modes[i].function(&near_bench);
        printf("%s\n", json_object_to_json_string_ext(near_bench.bench.metrics, JSON_C_TO_STRING_PLAIN));
        json_object_put(near_bench.bench.metrics);
        json_object_put(near_bench.bench.series);
        return 0;
}
