/*
 * Reads a key of Redis or Valkey by way of the near cache: once from the server, then from the memory of this host,
 * until somebody changes the key. tslab-near keeps the near cache coherent:
 *
 *      tslabd & tslab-near --server=127.0.0.1 --prefix=page: &
 *      near-redis 127.0.0.1 6379 page:/index 1000
 *
 * Without tslab-near it reads the same values, all from the server.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>
#include <tslab_near.h>

#define WAIT_MS 50 /* for another process that has asked already */
#define VALUE_MAX 65536

typedef struct Reader {
        struct tslab_near *near;
        redisContext *redis;
        char server[41]; /* the run id of the server at the end of the connection */
        unsigned long n_asked;
} Reader;

/* The server's value, and its lifetime. -ENODATA: there is no such key. */
static ssize_t take_answer(const redisReply *value, const redisReply *ttl, char *buffer,
                           uint64_t *ret_ttl_ms) {
        if (ttl->type != REDIS_REPLY_INTEGER)
                return -EIO;
        *ret_ttl_ms = TSLAB_MAP_TTL_NONE;
        if (ttl->integer >= 0 && (uint64_t) ttl->integer < TSLAB_MAP_TTL_MAX)
                *ret_ttl_ms = (uint64_t) ttl->integer + 1;
        if (value->type == REDIS_REPLY_NIL)
                return -ENODATA;
        if (value->type != REDIS_REPLY_STRING)
                return -EIO;
        if ((size_t) value->len > VALUE_MAX)
                return -EMSGSIZE;
        memcpy(buffer, value->str, (size_t) value->len);
        return (ssize_t) value->len;
}

/* One round trip. */
static ssize_t ask_server(Reader *reader, const char *key, char *buffer, uint64_t *ret_ttl_ms) {
        redisReply *value = NULL, *ttl = NULL;
        ssize_t n = -EIO;

        reader->n_asked++;
        redisAppendCommand(reader->redis, "GET %s", key);
        redisAppendCommand(reader->redis, "PTTL %s", key);
        if (redisGetReply(reader->redis, (void **) &value) == REDIS_OK &&
            redisGetReply(reader->redis, (void **) &ttl) == REDIS_OK)
                n = take_answer(value, ttl, buffer, ret_ttl_ms);
        freeReplyObject(value);
        freeReplyObject(ttl);
        return n;
}

static ssize_t read_key(Reader *reader, const char *key, char *buffer) {
        struct tslab_near_claim claim;
        uint64_t ttl_ms;
        ssize_t n;

        n = tslab_near_get(reader->near, key, strlen(key), buffer, VALUE_MAX, WAIT_MS, &claim);
        if (n >= 0 || n == -ENODATA)
                return n;
        n = ask_server(reader, key, buffer, &ttl_ms);
        /* Where the key was changed meanwhile the fill is refused, and the answer is good for this caller alone. */
        if (n >= 0)
                (void) tslab_near_fill(reader->near, key, strlen(key), &claim, reader->server, buffer,
                                       (size_t) n, ttl_ms);
        else if (n == -ENODATA)
                (void) tslab_near_fill(reader->near, key, strlen(key), &claim, reader->server, NULL, 0,
                                       ttl_ms);
        else
                (void) tslab_near_give_up(reader->near, key, strlen(key), &claim);
        return n;
}

static int read_often(Reader *reader, const char *key, unsigned long times) {
        static char buffer[VALUE_MAX];
        ssize_t n = -ENODATA;

        for (unsigned long i = 0; i < times && (n >= 0 || n == -ENODATA); i++)
                n = read_key(reader, key, buffer);
        if (n >= 0)
                printf("%s: %.*s\n", key, (int) n, buffer);
        else if (n == -ENODATA)
                printf("%s is absent\n", key);
        printf("%lu reads, %lu questions\n", times, reader->n_asked);
        return n < 0 && n != -ENODATA ? (int) n : 0;
}

/* Without the server's name, as where its user may not call INFO, nothing is kept. */
static void ask_name(Reader *reader) {
        redisReply *info = redisCommand(reader->redis, "INFO server");
        const char *at = info && info->type == REDIS_REPLY_STRING ? strstr(info->str, "run_id:") : NULL;

        if (at)
                (void) sscanf(at, "run_id:%40[0-9a-f]", reader->server);
        freeReplyObject(info);
}

static int open_server(Reader *reader, const char *host, int port) {
        reader->redis = redisConnect(host, port);
        if (!reader->redis || reader->redis->err != 0)
                return -ECONNREFUSED;
        ask_name(reader);
        return 0;
}

int main(int argc, char **argv) {
        Reader reader = {};
        struct tslab *pool;
        int r;

        if (argc != 5) {
                fprintf(stderr, "Usage: near-redis HOST PORT KEY TIMES\n");
                return 2;
        }
        r = tslab_open(&pool, NULL, NULL); /* $TSLAB_POOL, or the pool "default" */
        if (r == 0) {
                r = tslab_near_open(&reader.near, pool, "near", NULL);
                if (r == 0)
                        r = open_server(&reader, argv[1], atoi(argv[2]));
                if (r == 0)
                        r = read_often(&reader, argv[3], strtoul(argv[4], NULL, 10));
                if (reader.redis)
                        redisFree(reader.redis);
                tslab_near_close(reader.near);
                tslab_close(pool);
        }
        if (r < 0)
                fprintf(stderr, "near-redis: %s\n", strerror(-r));
        return r < 0;
}
