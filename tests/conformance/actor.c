/*
 * The actor of the C library: see README.md.
 *
 *      actor SOCKET
 *
 * A request is flat JSON whose texts are hexadecimal or plain words, so that a member is found by its quoted name.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tslab_map.h>

#define N_MAPS 8
#define N_KEYS 64

typedef struct Bytes {
        char *data;
        size_t size;
} Bytes;

typedef struct Opened {
        char *name;
        struct tslab_map *map;
} Opened;

static const char *arg_socket;
static struct tslab *pool;
static Opened maps[N_MAPS];
static size_t room_size;
static char *room;

/* Where a member's value begins; NULL: there is no such member. */
static const char *member(const char *request, const char *name) {
        char quoted[32];
        const char *at;

        (void) snprintf(quoted, sizeof(quoted), "\"%s\": ", name);
        at = strstr(request, quoted);
        return at ? at + strlen(quoted) : NULL;
}

/* Numbers stand as such, or as text where they may have 64 bits. */
static uint64_t number(const char *request, const char *name, uint64_t otherwise) {
        const char *at = member(request, name);

        if (!at)
                return otherwise;
        at += *at == '"';
        return *at == '-' ? (uint64_t) strtoll(at, NULL, 10) : strtoull(at, NULL, 10);
}

static double real(const char *request, const char *name) {
        const char *at = member(request, name);

        return at ? strtod(at, NULL) : 0;
}

static bool is_true(const char *request, const char *name) {
        const char *at = member(request, name);

        return at && *at == 't';
}

static char *word(const char *request, const char *name) {
        const char *at = member(request, name);

        return at ? strndup(at + 1, strcspn(at + 1, "\"")) : NULL;
}

static unsigned digit(char c) {
        return c <= '9' ? c - '0' : c - 'a' + 10;
}

static const char *decode(const char *at, Bytes *ret) {
        size_t n = strcspn(at, "\"");

        *ret = (Bytes){ .data = malloc(n / 2 + 1), .size = n / 2 };
        for (size_t i = 0; i < ret->size; i++)
                ret->data[i] = (char) (digit(at[2 * i]) * 16 + digit(at[2 * i + 1]));
        return at + n + 1;
}

static Bytes bytes(const char *request, const char *name) {
        const char *at = member(request, name);
        Bytes found = {};

        if (at)
                (void) decode(at + 1, &found);
        return found;
}

static size_t list(const char *request, const char *name, Bytes ret[N_KEYS]) {
        const char *at = member(request, name);
        size_t n = 0;

        if (!at)
                return 0;
        for (at++; *at == '"' && n < N_KEYS; at += strspn(at, ", "))
                at = decode(at + 1, &ret[n++]);
        return n;
}

static void write_hex(const char *data, size_t size) {
        putchar('"');
        for (size_t i = 0; i < size; i++)
                printf("%02x", (unsigned char) data[i]);
        putchar('"');
}

static void reply_error(int r) {
        printf("{\"error\": \"%s\"}\n", strerrorname_np(-r));
}

static void reply(int r) {
        if (r < 0)
                reply_error(r);
        else
                puts("{\"ok\": null}");
}

static void reply_value(ssize_t n) {
        if (n < 0) {
                reply_error((int) n);
                return;
        }
        printf("{\"ok\": ");
        write_hex(room, (size_t) n);
        puts("}");
}

static void reply_version(int r, tslab_handle version) {
        if (r == -EBUSY)
                printf("{\"error\": \"EBUSY\", \"version\": \"%" PRIu64 "\"}\n", version);
        else if (r < 0)
                reply_error(r);
        else
                printf("{\"ok\": {\"version\": \"%" PRIu64 "\"}}\n", version);
}

static Opened *find_map(const char *name) {
        size_t i = 0;

        while (maps[i].name && strcmp(maps[i].name, name) != 0)
                i++;
        return &maps[i];
}

static int open_map(const char *request) {
        char *name = word(request, "name"), *evict = word(request, "evict"), *map = word(request, "map");
        Opened *opened = find_map(map);
        struct tslab_map_options options = {
                .size = sizeof(options),
                .ttl_ms = (uint64_t) number(request, "ttl_ms", 0),
                .limit_bytes = number(request, "limit_bytes", 0),
                .value_max = (uint32_t) number(request, "value_max", 0),
                .stale_ms = (uint32_t) number(request, "stale_ms", 0),
                .evict = evict ? TSLAB_MAP_EVICT_SIEVE : TSLAB_MAP_EVICT_NEVER,
        };
        int r;

        if (!pool) {
                r = tslab_open(&pool, arg_socket, NULL);
                assert(r == 0);
        }
        tslab_map_close(opened->map);
        r = tslab_map_open(&opened->map, pool, name, &options);
        free(opened->name);
        opened->name = map;
        free(name);
        free(evict);
        return r;
}

static int close_pool(void) {
        for (size_t i = 0; i < N_MAPS; i++) {
                maps[i].map = tslab_map_close(maps[i].map);
                free(maps[i].name);
                maps[i].name = NULL;
        }
        pool = tslab_close(pool);
        return 0;
}

static void info(struct tslab_map *map, const Bytes *key, bool stale) {
        struct tslab_map_info found = { .size = sizeof(found), .accept = stale ? TSLAB_MAP_STALE : 0 };
        ssize_t n = tslab_map_get_with(map, key->data, key->size, room, room_size, &found);

        if (n < 0) {
                reply_error((int) n);
                return;
        }
        printf("{\"ok\": {\"value\": ");
        write_hex(room, (size_t) n);
        printf(", \"version\": \"%" PRIu64 "\", \"stale\": %s, \"counter\": %s, \"ttl_left_ms\": ",
               found.version, found.flags & TSLAB_MAP_STALE ? "true" : "false",
               found.flags & TSLAB_MAP_COUNTER ? "true" : "false");
        if (found.ttl_left_ms == UINT64_MAX)
                puts("null}}");
        else
                printf("%" PRIu64 "}}\n", found.ttl_left_ms);
}

static int put(struct tslab_map *map, const char *request, const Bytes *key, uint32_t mode) {
        Bytes value = bytes(request, "value");
        struct tslab_map_put_options options = {
                .size = sizeof(options),
                .epoch = TSLAB_EPOCH_CURRENT,
                .ttl_ms = (uint64_t) number(request, "ttl_ms", TSLAB_MAP_TTL_DEFAULT),
                .mode = mode,
                .version = number(request, "version", 0),
        };
        int r = tslab_map_put_with(map, key->data, key->size, value.data, value.size, &options);

        free(value.data);
        return r;
}

static void add(struct tslab_map *map, const char *request, const Bytes *key) {
        int64_t sum;
        int r = tslab_map_add(map, key->data, key->size, (int64_t) number(request, "delta", 0),
                              (int64_t) number(request, "initial", 0),
                              (uint64_t) number(request, "ttl_ms", 0), &sum);

        if (r < 0)
                reply_error(r);
        else
                printf("{\"ok\": \"%" PRId64 "\"}\n", sum);
}

static int set_counter(struct tslab_map *map, const char *request, const Bytes *key) {
        struct tslab_map_add_options options = {
                .size = sizeof(options),
                .mode = TSLAB_MAP_ADD_SET,
                .ttl_ms = (uint64_t) number(request, "ttl_ms", 0),
        };

        return tslab_map_add_with(map, key->data, key->size, (int64_t) number(request, "number", 0), &options,
                                  NULL);
}

static void limit(struct tslab_map *map, const char *request, const Bytes *key) {
        uint64_t retry_ms;
        int r = tslab_map_limit(map, key->data, key->size, real(request, "per_second"),
                                (uint32_t) number(request, "burst", 0), (uint32_t) number(request, "cost", 0),
                                &retry_ms);

        if (r < 0)
                reply_error(r);
        else
                printf("{\"ok\": %" PRIu64 "}\n", retry_ms);
}

static void get_many(struct tslab_map *map, const char *request) {
        struct tslab_map_item items[N_KEYS] = {};
        Bytes keys[N_KEYS];
        size_t n = list(request, "keys", keys);
        ssize_t r;

        for (size_t i = 0; i < n; i++)
                items[i] = (struct tslab_map_item){ .key = keys[i].data,
                                                    .key_size = keys[i].size,
                                                    .value = malloc(room_size),
                                                    .value_size = room_size };
        r = tslab_map_get_many(map, items, n);
        printf("{\"ok\": [");
        for (size_t i = 0; i < n; i++) {
                fputs(i ? ", " : "", stdout);
                if (items[i].result >= 0)
                        write_hex(items[i].value, items[i].value_size);
                else
                        fputs(items[i].result == -ENOENT ? "null" : "false", stdout);
                free(items[i].value);
                free(keys[i].data);
        }
        puts(r < 0 ? ", false]}" : "]}");
}

static int put_many(struct tslab_map *map, const char *request) {
        struct tslab_map_put_options options = {
                .size = sizeof(options),
                .epoch = TSLAB_EPOCH_CURRENT,
                .ttl_ms = (uint64_t) number(request, "ttl_ms", TSLAB_MAP_TTL_DEFAULT),
        };
        struct tslab_map_item items[N_KEYS] = {};
        Bytes keys[N_KEYS], values[N_KEYS];
        size_t n = list(request, "keys", keys);
        ssize_t r;

        (void) list(request, "values", values);
        for (size_t i = 0; i < n; i++)
                items[i] = (struct tslab_map_item){ .key = keys[i].data,
                                                    .key_size = keys[i].size,
                                                    .value = values[i].data,
                                                    .value_size = values[i].size };
        r = tslab_map_put_many(map, items, n, &options);
        for (size_t i = 0; i < n; i++) {
                free(keys[i].data);
                free(values[i].data);
        }
        return r == (ssize_t) n ? 0 : r < 0 ? (int) r : -EIO;
}

static void walk(struct tslab_map *map) {
        struct tslab_map_cursor cursor = {};
        struct tslab_map_info found = { .size = sizeof(found) };
        bool is_first = true;
        int r;

        printf("{\"ok\": [");
        while ((r = tslab_map_next(map, &cursor, room, room_size, &found)) > 0) {
                printf("%s[", is_first ? "" : ", ");
                write_hex(room, found.key_size);
                printf(", ");
                write_hex(room + found.key_size, found.value_size);
                printf("]");
                is_first = false;
        }
        puts(r < 0 ? ", false]}" : "]}");
}

static void answer_in(struct tslab_map *map, const char *call, const char *request) {
        uint32_t limit_ms = (uint32_t) number(request, "limit_ms", 30000);
        tslab_handle version = number(request, "version", 0);
        Bytes key = bytes(request, "key");
        size_t n = key.size;
        char *k = key.data;
        int r;

        if (strcmp(call, "get") == 0)
                reply_value(tslab_map_get(map, k, n, room, room_size, NULL));
        else if (strcmp(call, "take") == 0)
                reply_value(tslab_map_take(map, k, n, room, room_size, NULL));
        else if (strcmp(call, "info") == 0)
                info(map, &key, is_true(request, "stale"));
        else if (strcmp(call, "put") == 0)
                reply(put(map, request, &key, TSLAB_MAP_PUT));
        else if (strcmp(call, "insert") == 0)
                reply(put(map, request, &key, TSLAB_MAP_INSERT));
        else if (strcmp(call, "update") == 0)
                reply(put(map, request, &key, TSLAB_MAP_UPDATE));
        else if (strcmp(call, "replace") == 0)
                reply(put(map, request, &key, TSLAB_MAP_REPLACE));
        else if (strcmp(call, "touch") == 0)
                reply(tslab_map_touch(map, k, n, (uint64_t) number(request, "ttl_ms", 0)));
        else if (strcmp(call, "delete") == 0 && version)
                reply(tslab_map_delete_version(map, k, n, version));
        else if (strcmp(call, "delete") == 0)
                reply(tslab_map_delete(map, k, n));
        else if (strcmp(call, "add") == 0)
                add(map, request, &key);
        else if (strcmp(call, "set_counter") == 0)
                reply(set_counter(map, request, &key));
        else if (strcmp(call, "limit") == 0)
                limit(map, request, &key);
        else if (strcmp(call, "claim") == 0) {
                r = tslab_map_claim_for(map, k, n, TSLAB_EPOCH_CURRENT, limit_ms, &version);
                reply_version(r, version);
        } else if (strcmp(call, "extend") == 0) {
                r = tslab_map_claim_extend(map, k, n, limit_ms, &version);
                reply_version(r, version);
        } else if (strcmp(call, "wait") == 0)
                reply(tslab_map_wait(map, k, n, version, (uint32_t) number(request, "timeout_ms", 0)));
        else if (strcmp(call, "get_many") == 0)
                get_many(map, request);
        else if (strcmp(call, "put_many") == 0)
                reply(put_many(map, request));
        else if (strcmp(call, "walk") == 0)
                walk(map);
        else if (strcmp(call, "count") == 0)
                printf("{\"ok\": %zd}\n", tslab_map_count(map));
        else
                reply(-ENOSYS);
        free(k);
}

static void answer(const char *request) {
        char *call = word(request, "call"), *name = word(request, "map");
        Opened *opened = find_map(name);

        if (strcmp(call, "map") == 0)
                reply(open_map(request));
        else if (strcmp(call, "close") == 0)
                reply(close_pool());
        else if (strcmp(call, "close_map") == 0)
                reply(!(opened->map = tslab_map_close(opened->map)) ? 0 : -EIO);
        else
                answer_in(opened->map, call, request);
        free(call);
        free(name);
}

int main(int argc, char **argv) {
        char *line = NULL;
        size_t size = 0;
        int r;

        arg_socket = argv[1];
        r = argc == 2 ? tslab_open(&pool, arg_socket, NULL) : -EINVAL;
        if (r < 0)
                return 1;
        room_size = 16 << 20;
        room = malloc(room_size);
        puts("{\"binding\": \"c\", \"lacks\": []}");
        (void) fflush(stdout);
        while (getline(&line, &size, stdin) > 0) {
                answer(line);
                (void) fflush(stdout);
        }
        (void) close_pool();
        free(room);
        free(line);
        return 0;
}
