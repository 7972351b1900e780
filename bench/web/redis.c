/* Sessions in Redis, by hiredis. */
#include <string.h>

#include <hiredis/hiredis.h>

#include "bench/web/store.h"

static redisContext *redis;

static void open_redis(const char *socket, uint32_t n_keys) {
        redis = redisConnectUnix(socket);
        if (!redis || redis->err)
                bench_fail("redis: %s", redis ? redis->errstr : "out of memory");
}

static void redis_session_put(uint32_t number, const char *key, char *value) {
        redisReply *reply = redisCommand(redis, "SET %s %b", key, value, (size_t) WEB_VALUE_SIZE);

        if (!reply || reply->type != REDIS_REPLY_STATUS)
                bench_fail("redis does not set");
        freeReplyObject(reply);
}

static void redis_session_get(uint32_t number, const char *key, char *value) {
        redisReply *reply = redisCommand(redis, "GET %s", key);

        if (!reply || reply->type != REDIS_REPLY_STRING || reply->len != WEB_VALUE_SIZE)
                bench_fail("redis does not get");
        memcpy(value, reply->str, WEB_VALUE_SIZE);
        freeReplyObject(reply);
}

const WebStore web_redis = {
        .name = "redis",
        .n_operations = 10000,
        .open = open_redis,
        .operations = { { "put", false, redis_session_put }, { "get", true, redis_session_get } },
};
