/* Redis, by hiredis. */
#include <string.h>

#include <hiredis/hiredis.h>

#include "bench/web/store.h"

static redisContext *redis;

static void redis_open(const StoreOptions *options) {
        redis = redisConnectUnix(options->socket);
        if (!redis || redis->err)
                bench_fail("redis: %s", redis ? redis->errstr : "out of memory");
}

static void redis_check(redisReply *reply, int type) {
        if (!reply || reply->type != type)
                bench_fail("redis: %s", reply && reply->str ? reply->str : redis->errstr);
}

static void redis_put(StoreItem *item) {
        redisReply *reply = redisCommand(redis, "SET %s %b", item->key, item->value, (size_t) item->size);

        redis_check(reply, REDIS_REPLY_STATUS);
        freeReplyObject(reply);
}

static bool redis_find(StoreItem *item) {
        redisReply *reply = redisCommand(redis, "GET %s", item->key);
        bool is_found = !reply || reply->type != REDIS_REPLY_NIL;

        if (is_found) {
                redis_check(reply, REDIS_REPLY_STRING);
                if (reply->len != item->size)
                        bench_fail("redis gets %zu bytes", (size_t) reply->len);
                memcpy(item->value, reply->str, item->size);
        }
        freeReplyObject(reply);
        return is_found;
}

static void redis_get(StoreItem *item) {
        if (!redis_find(item))
                bench_fail("redis does not find a key");
}

static void redis_delete(StoreItem *item) {
        redisReply *reply = redisCommand(redis, "DEL %s", item->key);

        redis_check(reply, REDIS_REPLY_INTEGER);
        freeReplyObject(reply);
}

static void redis_add(StoreItem *item) {
        redisReply *reply = redisCommand(redis, "INCR %s", item->key);

        redis_check(reply, REDIS_REPLY_INTEGER);
        freeReplyObject(reply);
}

const Store store_redis = {
        .name = "redis",
        .n_operations = 10000,
        .open = redis_open,
        .put = redis_put,
        .get = redis_get,
        .remove = redis_delete,
        .find = redis_find,
        .add = redis_add,
};
