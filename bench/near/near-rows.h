#pragma once
/* Workers that read a Redis server by way of near caches. */
#include <hiredis/hiredis.h>
#include <tslab_near.h>

#include "bench/harness/harness.h"

#define NEAR_KEYS 20000
#define NEAR_VALUE 256
#define NEAR_KEY_SIZE 16

typedef struct NearBench {
        Bench bench;
        int port;
        uint32_t n_workers; /* in each pool */
        uint64_t n; /* operations of each, or changes */
        char **pools;
        uint32_t n_pools; /* 0: the server is asked each time */
} NearBench;

/* One process's connections. */
typedef struct Reader {
        struct tslab *pool;
        struct tslab_near *near; /* NULL: none */
        redisContext *redis;
        char server[41]; /* its run id */
        uint64_t n_hits;
} Reader;

void near_check(const char *what, int64_t r);
void reader_open(Reader *reader, const NearBench *near_bench, uint32_t pool);
void reader_close(Reader *reader);
/* The size of the value, in a buffer of NEAR_VALUE bytes. */
size_t reader_get(Reader *reader, const char *key, void *buffer);
/* Until tslab-near covers copies. */
void reader_await_cover(Reader *reader);
/* Ends the program if the server does not answer with that type. */
redisReply *reader_ask(Reader *reader, int type, const char *format, ...);

void near_hit(NearBench *near_bench);
void near_changes(NearBench *near_bench);
void near_mix(NearBench *near_bench);
