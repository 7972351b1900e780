/* See the header. Buffers have just the size that they are said to have: a sanitizer sees the first byte beyond. */
#include "tests/fuzz/arena-map.h"

#include <string.h>

#include "shm/arena/client.h"
#include "shm/arena/root.h"
#include "shm/map/entry/cell.h"
#include "shm/map/entry/claim.h"
#include "shm/map/entry/expiry.h"
#include "shm/map/entry/map.h"
#include "shm/map/entry/take.h"

#define NAME "map"
#define N_KEYS 40U
#define N_KEYS_MAX 64U /* some are absent at first */
#define EPOCH 1U /* entries are in it */
#define VALUE_MAX 40000U
#define LIMIT (UINT64_C(1) << 16) /* two large values exceed it */
#define CLEAN_SLICE 16U
#define LIMITS_NS UINT64_C(1000000)

static uint8_t value[VALUE_MAX];
static ShmArena *arena;
static ShmActor actor;
static bool has_actor, is_open;
static ShmTrie trie;

/* A few share a hash, down to the buckets. */
static ShmMapKey make_key(const uint64_t *id) {
        return (ShmMapKey){ .bytes = id, .size = sizeof(*id), .hash = *id < 20 ? 7 : *id << 57 | *id };
}

/* Making it */

static void make_entry(ShmActor *maker, ShmTrie *map, uint64_t id) {
        static const uint32_t sizes[10] = { 8, 100, 0, 8, 8, 900, 10000 };
        ShmMapKey key = make_key(&id);
        ShmMapPut put = { .value = value, .value_size = sizes[id % 10], .epoch = EPOCH };
        const ShmMapAdd add = { .delta = 1, .epoch = EPOCH };
        const ShmMapRate rate = { .burst_ns = 10 * LIMITS_NS, .cost_ns = LIMITS_NS, .epoch = EPOCH };
        const ShmMapClaim claim = { .epoch = EPOCH, .limit_ms = 1000 };
        ShmClaimed claimed;
        uint64_t wait_ns;
        int64_t sum;

        switch (id % 10) {
        case 7:
                require(shm_map_add(maker, map, &key, &add, &sum) == 0);
                break;
        case 8:
                require(shm_map_limit(maker, map, &key, &rate, &wait_ns) == 0);
                break;
        case 9:
                require(shm_map_claim(maker, map, &key, &claim, &claimed) == 0);
                break;
        default:
                put.ttl_ms = id % 10 == 4 ? 1000 : SHM_MAP_TTL_NONE;
                require(shm_map_put(maker, map, &key, &put, NULL) == 0);
        }
}

void image_map_make(ShmActor *maker) {
        const ShmMapOptions options = { .limit_bytes = LIMIT, .stale_ms = 500, .evict = SHM_MAP_EVICT_SIEVE };
        uint64_t root;
        ShmTrie map;

        require(shm_trie_create(maker, 3, &root) == 0);
        require(shm_root_set(maker->arena, NAME, 0, root) == 0);
        require(shm_actor_unnote(maker, root) == 0);
        require(shm_trie_open(&map, maker->arena, root) == 0);
        shm_map_options_store(trie_root(&map), &options);
        shm_map_attach(&map);
        for (uint64_t id = 0; id < N_KEYS; id++)
                make_entry(maker, &map, id);
}

/* Calling it */

void image_map_begin(ShmArena *of) {
        arena = of;
        has_actor = is_open = false;
}

static bool open_map(bool again) {
        uint64_t root;

        if (is_open && !again)
                return true;
        is_open = shm_root_get(arena, NAME, &root) == 0 && shm_trie_open(&trie, arena, root) == 0;
        if (is_open)
                shm_map_attach(&trie);
        return is_open;
}

static bool get_actor(void) {
        has_actor = has_actor || shm_actor_init(&actor, arena, 0, IMAGE_N_RECORDS) == 0;
        return has_actor;
}

static void *make_buffer(size_t size) {
        void *buffer = malloc(size ?: 1);

        require(buffer);
        return buffer;
}

typedef enum Read { GET, STALE, PART, TAKE, _READ_N } Read;

static ssize_t read_value(Read how, const ShmMapKey *key, uint32_t offset, void *buffer, uint32_t size) {
        ShmMapView view;

        switch (how) {
        case GET:
                return shm_map_get(&trie, key, buffer, size, &view);
        case STALE:
                return shm_map_get_stale(&trie, key, buffer, size, &view);
        case TAKE:
                return shm_map_take(&actor, &trie, key, buffer, size, &view);
        default:
                return shm_map_look(&trie, key, &view) == 0
                               ? shm_map_read(&trie, view.handle, offset, buffer, size)
                               : -ENOENT;
        }
}

static void call_read(Read how, const ShmMapKey *key, const ImageStep *s, uint32_t size) {
        void *buffer = make_buffer(size);

        require(read_value(how, key, (uint32_t) (s->value >> 8) % VALUE_MAX, buffer, size) <= (ssize_t) size);
        free(buffer);
}

static void call_put(const ShmMapKey *key, const ImageStep *s, uint32_t size) {
        const ShmMapPut put = {
                .mode = s->value >> 1 & 3,
                .value = value,
                .value_size = size,
                .epoch = (s->value >> 3 & 3) ?: SHM_EPOCH_CURRENT, /* 0 is closed in the end */
                .ttl_ms = s->value >> 5 & 0xffff,
        };
        uint64_t version;

        (void) shm_map_put(&actor, &trie, key, &put, &version);
}

static void call_add(ShmMapKey *key, const ImageStep *s) {
        const ShmMapAdd add = { .delta = (int64_t) s->value, .initial = 1, .epoch = EPOCH };
        int64_t sum;

        (void) shm_map_add(&actor, &trie, key, &add, &sum);
        (void) shm_map_add_at(&actor, &trie, s->value & 2 ? actor.found.leaf : s->value, 1, &sum);
}

static void call_limit(ShmMapKey *key, const ImageStep *s) {
        const ShmMapRate rate = { .burst_ns = (s->value | 1) % LIMITS_NS, .cost_ns = 1, .epoch = EPOCH };
        uint64_t wait_ns;

        (void) shm_map_limit(&actor, &trie, key, &rate, &wait_ns);
}

static void call_claim(const ShmMapKey *key, const ImageStep *s, uint32_t size) {
        void *buffer = make_buffer(size);
        const ShmMapClaim claim = {
                .epoch = EPOCH,
                .limit_ms = s->value >> 3 & 0xfff,
                .buffer = buffer,
                .buffer_size = size,
        };
        ShmMapPut put = { .mode = SHM_MAP_REPLACE, .epoch = EPOCH };
        ShmClaimed claimed = {};
        ShmClaim found;

        if (shm_map_claim(&actor, &trie, key, &claim, &claimed) == 0)
                require(shm_map_find_claim(&trie, key, claimed.version, &found) <= 1);
        put.expected = claimed.version;
        if (s->value & 2 ||
            (s->value & 4 && shm_map_fulfil(&trie, key, claimed.version, claim.limit_ms, 100, &put) == 0)) {
                put.value = value;
                put.value_size = size;
                (void) shm_map_put(&actor, &trie, key, &put, NULL);
        }
        free(buffer);
}

static void call_expire(const ImageStep *s) {
        ShmMapCensus census = {};
        ShmTrieScan scan = {};
        ssize_t r = 0;

        while (r >= 0 && !scan.done)
                r = s->value & 2 ? shm_map_expire(&actor, &trie, s->value >> 2 & 3, &scan, CLEAN_SLICE)
                                 : shm_map_clean(&actor, &trie, &scan, CLEAN_SLICE, &census);
}

static void call_list(void) {
        void *buffer = make_buffer(SHM_CLASS_SIZE_MAX);
        ShmTrieSize size = {};
        ShmTrieScan scan = {};
        ShmMapView view;
        int r;

        while ((r = shm_map_next(&trie, &scan, buffer, SHM_CLASS_SIZE_MAX, &view)) == 1 || r == -EUCLEAN)
                require(view.head.key_size <= SHM_CLASS_SIZE_MAX);
        free(buffer);
        (void) shm_map_count(&trie);
        while (!shm_trie_size_step(&trie, &size, CLEAN_SLICE))
                ;
        for (uint64_t hash = 1; hash != 0; hash <<= 9)
                (void) shm_trie_contains(arena, trie.root, hash, trie.root ^ hash);
}

/* As the daemon does for an operator. */
static void call_set(const ImageStep *s) {
        ShmMapOptions options = {
                .limit_bytes = s->value >> 8 & 0xffff,
                .ttl_ms = s->value >> 24 & 0xffff,
                .stale_ms = s->value >> 40 & 0xff,
                .evict = s->value >> 1 & 1,
        };
        uint64_t root;
        ShmMapTotals totals;
        void *object;

        if (shm_root_get(arena, NAME, &root) != 0 || root != trie.root ||
            shm_object_get(arena, root, &object, NULL) != 0)
                return;
        shm_map_options_store(object, &options);
        if (trie.map != 0)
                shm_map_totals(arena, trie.map - 1, &totals);
}

enum { PUT = _READ_N, DELETE, ADD, RATE, TOUCH, CLAIM, EXPIRE, LIST, SET, _CALL_N };

/* Calls that are not read_value()'s. */
static void call_writer(uint32_t what, ShmMapKey *key, const ImageStep *s, uint32_t size) {
        switch (what) {
        case PUT:
                call_put(key, s, size);
                break;
        case DELETE:
                (void) shm_map_delete(&actor, &trie, key, s->value & 2 ? actor.found.leaf : 0);
                break;
        case ADD:
                call_add(key, s);
                break;
        case RATE:
                call_limit(key, s);
                break;
        case TOUCH:
                (void) shm_map_touch(&actor, &trie, key, (uint32_t) (s->value >> 1));
                break;
        case CLAIM:
                call_claim(key, s, size);
                break;
        case EXPIRE:
                call_expire(s);
                break;
        case LIST:
                call_list();
                break;
        default:
                call_set(s);
        }
}

void image_map_call(const ImageStep *s) {
        static const uint32_t sizes[8] = { 0, 8, 100, 600, 900, 4000, 10000, VALUE_MAX };
        uint32_t what = s->a % _CALL_N, size = sizes[s->b >> 6 & 7];
        uint64_t id = s->b % N_KEYS_MAX;
        ShmMapKey key = make_key(&id);

        if (!open_map(s->value & 1) || !get_actor())
                return;
        if (what < _READ_N)
                call_read(what, &key, s, size);
        else
                call_writer(what, &key, s, size);
        image_pass(s->b >> 9);
}

void image_map_call_all(void) {
        for (uint8_t what = 0; what < _CALL_N; what++) /* SET, which ends eviction, is the last */
                for (uint16_t id = 0; id < 10; id++)
                        image_map_call(&(ImageStep){ .a = what, .b = 7 << 6 | (id * 3 + 10), .value = 1 });
}
