#include "tests/crash/crash-world.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/cache/cache.h"
#include "shm/arena/client.h"
#include "shm/maintain/check.h"
#include "shm/maintain/drain.h"
#include "shm/maintain/freeze.h"
#include "shm/slab/pages.h"
#include "shm/arena/root.h"
#include "shm/map/entry/cell.h"
#include "shm/map/entry/claim.h"
#include "shm/map/entry/take.h"
#include "shm/map/trie/trie-walk.h"
#include "shm/epoch/epoch-close.h"
#include "tests/util/maintain.h"
#include "tests/util/map-options.h"
#include "tests/util/reserve.h"
#include "tests/util/test.h"

static uint64_t make(World *w, ShmActor *actor, size_t size) {
        uint64_t handle;
        void *object;

        assert_int_equal(shm_object_alloc(actor, size, SHM_EPOCH_CURRENT, NULL, &handle, &object), 0);
        assert_true(w->n < WORLD_OBJECTS_MAX);
        return w->objects[w->n++] = handle;
}

static void make_many(World *w, ShmActor *actor, size_t size, uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                (void) make(w, actor, size);
}

static uint64_t pop(World *w) {
        return w->objects[--w->n];
}

static ShmCache *cache(World *w) {
        return shm_arena_cache(&w->arena, w->victim.id, 0, 0);
}

/* Allocating */

static int run_alloc(World *w) {
        uint64_t handle;
        void *object;

        return shm_object_alloc(&w->victim, 64, SHM_EPOCH_CURRENT, NULL, &handle, &object);
}

static int run_free(World *w) {
        return shm_object_free(&w->victim, w->objects[w->n - 1]);
}

static void prepare_hit(World *w) {
        make_many(w, &w->victim, 64, 3);
}

static void prepare_held(World *w) {
        make(w, &w->victim, 64);
        while (cache(w)->count > 0)
                make(w, &w->victim, 64);
        assert_int_not_equal(cache(w)->held, 0);
}

static void prepare_partial(World *w) {
        w->survivor.mode = SHM_CACHE_OFF;
        make_many(w, &w->survivor, 64, 3);
        w->survivor.mode = SHM_CACHE_ON;
}

static void prepare_nothing(World *w) {
}

static void prepare_commit(World *w) {
        shm_pages_trim(&w->control, 0, UINT32_MAX);
}

/* All slabs there are yet are in use. */
static void prepare_extend(World *w) {
        uint64_t handle;

        w->survivor.mode = SHM_CACHE_OFF;
        for (uint32_t i = 0; i < 16 * SHM_SLAB_SIZE / 256; i++)
                assert_int_equal(shm_object_alloc(&w->survivor, 256, 1, NULL, &handle, NULL), 0);
        w->survivor.mode = SHM_CACHE_ON;
}

static void prepare_off(World *w) {
        w->victim.mode = SHM_CACHE_OFF;
        make_many(w, &w->victim, 64, 3);
}

/* Freeing */

static void prepare_flush(World *w) {
        make_many(w, &w->victim, 64, 40);
        while (cache(w)->count < cache(w)->room)
                assert_int_equal(shm_object_free(&w->victim, pop(w)), 0);
        assert_true(w->n > 0);
}

static void prepare_last(World *w) {
        w->victim.mode = SHM_CACHE_OFF;
        make(w, &w->victim, 64);
}

static void prepare_closing(World *w) {
        static ShmFreeze freeze;
        ShmDrain drain = {};

        make_many(w, &w->victim, 64, 1);
        memset(&freeze, 0, sizeof(freeze));
        assert_int_equal(shm_epoch_close(&w->arena, 0, true), 0);
        (void) shm_freeze_begin(&w->control, &freeze, 1);
        assert_int_equal(shm_freeze_step(&w->control, &freeze, UINT32_MAX, UINT64_MAX), 0);
        assert_true(shm_drain_step(&w->control, &drain, UINT32_MAX - 64));
        assert_int_equal(drain.n_left, 1);
}

static void prepare_bypass(World *w) {
        make_many(w, &w->victim, 64, 16);
        cache(w)->alloc.bypass = cache(w)->free.bypass = 100;
        cache(w)->room = 0;
}

/* The freeze stands: the owner works uncached. */
static void prepare_frozen(World *w) {
        make_many(w, &w->victim, 64, 3);
        shm_arena_record(&w->arena, w->victim.id)->attention |= SHM_ATTENTION_FREEZE;
}

/* Pending, threads, roots */

static int run_pending(World *w) {
        const ShmPending pending = {};
        uint64_t handle;
        void *object;
        int r;

        r = shm_object_alloc(&w->victim, 64, SHM_EPOCH_CURRENT, &pending, &handle, &object);
        return r ?: shm_object_publish(&w->victim, handle);
}

/* All notes are in use. */
static void prepare_no_note(World *w) {
        const ShmPending pending = {};
        uint64_t handle;

        for (int i = 0; i < SHM_NOTES_MAX; i++)
                assert_int_equal(shm_object_alloc(&w->victim, 64, SHM_EPOCH_CURRENT, &pending, &handle, NULL),
                                 0);
        w->victim.mode = SHM_CACHE_OFF;
}

static int run_no_note(World *w) {
        return run_pending(w) == -ENOBUFS ? 0 : -1;
}

static void prepare_leave(World *w) {
        const ShmPending pending = {};
        uint64_t handle;

        make_many(w, &w->victim, 64, 20);
        make_many(w, &w->victim, 256, 2);
        for (int i = 0; i < 10; i++)
                assert_int_equal(shm_object_free(&w->victim, pop(w)), 0);
        assert_int_equal(shm_object_alloc(&w->victim, 96, SHM_EPOCH_CURRENT, &pending, &handle, NULL), 0);
}

static int run_leave(World *w) {
        shm_cache_leave(&w->victim);
        return 0;
}

static int run_start(World *w) {
        static ShmActor actor;

        return shm_actor_init(&actor, &w->arena, WORLD_VICTIM, 3);
}

static int run_root(World *w) {
        return shm_root_set(&w->arena, "new", 0, w->objects[0]);
}

/* Maps. Under 1 nothing is; under 2 and 3 something is. */

static int put(World *w, ShmActor *actor, uint64_t hash, const char *value) {
        ShmMapPut p = { .value = value, .value_size = 40, .epoch = SHM_EPOCH_CURRENT };
        ShmMapKey key = { .bytes = &hash, .size = sizeof(hash), .hash = hash };

        return shm_map_put(actor, &w->trie, &key, &p, NULL);
}

static const char value[64] = "value";

static void prepare_map(World *w) {
        uint32_t epoch;
        uint64_t root;

        assert_int_equal(test_reserve_epoch(&w->arena, &epoch), 0);
        assert_int_equal(shm_trie_create(&w->survivor, epoch, &root), 0);
        assert_int_equal(shm_root_set(&w->arena, "map", 0, root), 0);
        assert_int_equal(shm_object_publish(&w->survivor, root), 0);
        assert_int_equal(shm_trie_open(&w->trie, &w->arena, root), 0);
        assert_int_equal(put(w, &w->survivor, 2, value), 0);
        assert_int_equal(put(w, &w->survivor, UINT64_C(3) << 40, value), 0);
}

static int run_insert(World *w) {
        return put(w, &w->victim, UINT64_C(1) << 63, value);
}

static int insert_in_pieces(World *w, uint32_t key_size) {
        static const char large[600], bytes[256];
        const ShmMapPut p = { .value = large, .value_size = sizeof(large), .epoch = SHM_EPOCH_CURRENT };
        const ShmMapKey key = { .bytes = bytes, .size = key_size, .hash = UINT64_C(1) << 63 };

        return shm_map_put(&w->victim, &w->trie, &key, &p, NULL);
}

/* A head with bytes, and two chunks. */
static int run_insert_in_pieces(World *w) {
        return insert_in_pieces(w, 8);
}

/* A head without room for more than one word, a block and three chunks. */
static int run_insert_in_blocks(World *w) {
        return insert_in_pieces(w, 208);
}

/* Makes nodes, down to where the two part. */
static int run_split(World *w) {
        return put(w, &w->victim, 2 | UINT64_C(1) << 20, value);
}

static int run_replace(World *w) {
        return put(w, &w->victim, 2, value);
}

static int run_delete(World *w) {
        uint64_t hash = 2;
        ShmMapKey key = { .bytes = &hash, .size = sizeof(hash), .hash = hash };

        return shm_map_delete(&w->victim, &w->trie, &key, 0);
}

static const uint64_t counter_hash = UINT64_C(1) << 63;

static void prepare_counter(World *w) {
        ShmMapKey key = { .bytes = &counter_hash, .size = sizeof(counter_hash), .hash = counter_hash };
        const ShmMapAdd add = { .delta = 5, .epoch = SHM_EPOCH_CURRENT };
        int64_t sum;

        prepare_map(w);
        assert_int_equal(shm_map_add(&w->survivor, &w->trie, &key, &add, &sum), 0);
}

static int run_take(World *w) {
        const ShmMapKey key = { .bytes = &counter_hash, .size = sizeof(counter_hash), .hash = counter_hash };
        int64_t sum = 0;
        ShmMapView view;

        return shm_map_take(&w->victim, &w->trie, &key, &sum, sizeof(sum), &view) == 8 && sum == 5 ? 0 : -1;
}

static int run_expire(World *w) {
        ShmTrieScan scan = {};

        return shm_map_expire(&w->victim, &w->trie, 0, &scan, 100) == 2 ? 0 : -1;
}

/* Claims of the key 1, in a time that stands still. */

#define NOW_MS 1000
#define STALE_TTL_MS 10

static uint64_t now_ms;

static uint64_t clock_ns(const ShmArena *arena) {
        return now_ms * SHM_NS_PER_MS;
}

static int put_by_version(World *w, ShmActor *actor, uint64_t version) {
        ShmMapPut p = { .mode = SHM_MAP_REPLACE,
                        .expected = version,
                        .value = value,
                        .value_size = 40,
                        .epoch = SHM_EPOCH_CURRENT,
                        .ttl_ms = STALE_TTL_MS };
        uint64_t hash = UINT64_C(1) << 63;
        ShmMapKey key = { .bytes = &hash, .size = sizeof(hash), .hash = hash };

        return shm_map_put(actor, &w->trie, &key, &p, NULL);
}

static int claim(ShmActor *actor, const ShmTrie *trie, uint64_t *ret_version) {
        uint64_t hash = UINT64_C(1) << 63;
        ShmMapKey key = { .bytes = &hash, .size = sizeof(hash), .hash = hash };
        char buffer[64];
        const ShmMapClaim c = {
                .epoch = SHM_EPOCH_CURRENT, .limit_ms = 30000, .buffer = buffer, .buffer_size = sizeof(buffer)
        };
        ShmClaimed claimed = {};
        int r;

        r = shm_map_claim(actor, trie, &key, &c, &claimed);
        *ret_version = claimed.version;
        return r;
}

static ssize_t get_claimed(const ShmTrie *trie, bool stale) {
        uint64_t hash = UINT64_C(1) << 63;
        ShmMapKey key = { .bytes = &hash, .size = sizeof(hash), .hash = hash };
        char buffer[64];
        ShmMapView view;

        return stale ? shm_map_get_stale(trie, &key, buffer, sizeof(buffer), &view)
                     : shm_map_get(trie, &key, buffer, sizeof(buffer), &view);
}

static void prepare_claim(World *w) {
        prepare_map(w);
        now_ms = NOW_MS;
        w->trie.now_ns = clock_ns;
}

/* Its process ended before. */
static void prepare_dead_claim(World *w) {
        ShmClientInfo info = { .pid = 3, .start_time = 1 };
        static ShmActor actor;
        uint64_t version;

        prepare_claim(w);
        assert_int_equal(shm_client_add(&w->arena, &info), 0);
        assert_int_equal(shm_actor_init(&actor, &w->arena, info.index, 3), 0);
        assert_int_equal(claim(&actor, &w->trie, &version), 0);
        shm_cache_leave(&actor);
        shm_client_end(&w->arena, info.index);
}

static void prepare_stale(World *w) {
        prepare_claim(w);
        TRIE_SET_OPTION(&w->trie, stale_ms, 1000);
        assert_int_equal(put_by_version(w, &w->survivor, 0), 0);
        now_ms += STALE_TTL_MS;
}

static void prepare_own_claim(World *w) {
        prepare_claim(w);
        assert_int_equal(claim(&w->victim, &w->trie, &w->objects[0]), 0);
}

static void prepare_own_stale_claim(World *w) {
        prepare_stale(w);
        assert_int_equal(claim(&w->victim, &w->trie, &w->objects[0]), 0);
}

static int run_claim(World *w) {
        uint64_t version;

        return claim(&w->victim, &w->trie, &version);
}

static int run_fulfil(World *w) {
        return put_by_version(w, &w->victim, w->objects[0]);
}

static int run_give_up(World *w) {
        uint64_t hash = UINT64_C(1) << 63;
        ShmMapKey key = { .bytes = &hash, .size = sizeof(hash), .hash = hash };
        char buffer[40];
        const ShmMapClaim c = { .gone = w->objects[0], .buffer = buffer, .buffer_size = sizeof(buffer) };
        ShmClaimed claimed = {};

        return shm_map_give_up(&w->victim, &w->trie, &key, &c, &claimed);
}

/* The next one has the claim, and nobody besides; or there is a value. */
static void after_claim(ShmArena *arena) {
        uint64_t hash = UINT64_C(1) << 63, root, version, other;
        ShmMapKey key = { .bytes = &hash, .size = sizeof(hash), .hash = hash };
        static ShmActor actor;
        ShmTrie trie;
        int r;

        shm_client_end(arena, WORLD_VICTIM);
        assert_int_equal(shm_actor_init(&actor, arena, WORLD_SURVIVOR, 6), 0);
        assert_int_equal(shm_root_get(arena, "map", &root), 0);
        assert_int_equal(shm_trie_open(&trie, arena, root), 0);
        trie.now_ns = clock_ns;
        if (shm_map_options(&trie).stale_ms > 0)
                assert_int_equal(get_claimed(&trie, true), 40);
        r = claim(&actor, &trie, &version);
        if (r == -EEXIST) {
                assert_int_equal(get_claimed(&trie, false), 40);
        } else {
                assert_int_equal(r, 0);
                assert_int_equal(claim(&actor, &trie, &other), -EBUSY);
                assert_true(other == version);
                assert_int_equal(shm_map_delete(&actor, &trie, &key, version), 0);
        }
        shm_cache_leave(&actor);
}

static int run_get(World *w) {
        uint64_t hash = 2;
        ShmMapKey key = { .bytes = &hash, .size = sizeof(hash), .hash = hash };
        char buffer[64];

        return shm_map_get(&w->trie, &key, buffer, sizeof(buffer), NULL) == 40 ? 0 : -1;
}

#define OPERATION(_name, _prepare, _run, _least, _most, _warm, _is_alloc)                                    \
        {                                                                                                    \
                .name = _name, .prepare = _prepare, .run = _run, .least = _least, .most = _most,             \
                .warm = _warm, .is_alloc = _is_alloc                                                         \
        }

#define CLAIM(_name, _prepare, _run, _least, _most)                                                          \
        {                                                                                                    \
                .name = _name, .prepare = _prepare, .run = _run, .least = _least, .most = _most,             \
                .warm = true, .after = after_claim                                                           \
        }

const Operation operations[] = {
        OPERATION("alloc hit", prepare_hit, run_alloc, 0, 1, true, true),
        OPERATION("free hit", prepare_hit, run_free, -1, 0, true, false),
        OPERATION("refill from the slab held", prepare_held, run_alloc, 0, 1, true, true),
        OPERATION("refill from a partial slab", prepare_partial, run_alloc, 0, 1, true, true),
        OPERATION("refill from a free slab", prepare_nothing, run_alloc, 0, 1, false, true),
        OPERATION("refill after a commit", prepare_commit, run_alloc, 0, 1, false, true),
        OPERATION("refill after an extension", prepare_extend, run_alloc, 0, 1, false, true),
        OPERATION("flush", prepare_flush, run_free, -1, 0, true, false),
        OPERATION("free that empties a slab", prepare_last, run_free, -1, 0, false, false),
        OPERATION("free into a closing epoch", prepare_closing, run_free, -1, 0, true, false),
        OPERATION("uncached alloc", prepare_off, run_alloc, 0, 1, true, true),
        OPERATION("uncached free", prepare_off, run_free, -1, 0, true, false),
        OPERATION("alloc that steps aside", prepare_bypass, run_alloc, 0, 1, true, true),
        OPERATION("free that steps aside", prepare_bypass, run_free, -1, 0, true, false),
        OPERATION("frozen alloc", prepare_frozen, run_alloc, 0, 1, true, true),
        OPERATION("frozen free", prepare_frozen, run_free, -1, 0, true, false),
        OPERATION("pending and publish", prepare_hit, run_pending, 0, 1, true, false),
        OPERATION("uncached pending and publish", prepare_off, run_pending, 0, 1, true, false),
        OPERATION("pending without a note", prepare_no_note, run_no_note, -SHM_NOTES_MAX, -SHM_NOTES_MAX,
                  true, false),
        OPERATION("thread exit", prepare_leave, run_leave, -1, -1, false, false),
        OPERATION("thread start", prepare_nothing, run_start, 0, 0, false, false),
        OPERATION("root set", prepare_hit, run_root, 0, 0, true, false),
        OPERATION("map get", prepare_map, run_get, 0, 0, true, false),
        OPERATION("map insert", prepare_map, run_insert, 0, 1, true, false),
        OPERATION("map insert in pieces", prepare_map, run_insert_in_pieces, 0, 3, true, false),
        OPERATION("map insert in blocks", prepare_map, run_insert_in_blocks, 0, 5, true, false),
        OPERATION("map insert with nodes", prepare_map, run_split, 0, 12, true, false),
        OPERATION("map replace", prepare_map, run_replace, 0, 0, true, false),
        /* With the five nodes above the two leaves. */
        OPERATION("map delete", prepare_map, run_delete, -6, 0, true, false),
        OPERATION("map take", prepare_counter, run_take, -1, 0, true, false),
        OPERATION("map expire", prepare_map, run_expire, -7, 0, true, false),
        CLAIM("map claim", prepare_claim, run_claim, 0, 1),
        CLAIM("map claim over a dead one", prepare_dead_claim, run_claim, 0, 0),
        CLAIM("map claim over a stale value", prepare_stale, run_claim, 0, 0),
        CLAIM("map fulfil", prepare_own_claim, run_fulfil, 0, 0),
        CLAIM("map give up", prepare_own_claim, run_give_up, -1, 0),
        CLAIM("map give up with a stale value", prepare_own_stale_claim, run_give_up, 0, 0),
};

const unsigned n_operations = sizeof(operations) / sizeof(operations[0]);

/* The victim has seen the epochs as they are: that is 20,000 instructions. */
static void warm(World *w) {
        uint64_t handle;

        assert_int_equal(shm_object_alloc(&w->victim, 256, 1, NULL, &handle, NULL), 0);
        assert_int_equal(shm_object_free(&w->victim, handle), 0);
}

void world_init(World *w, const Operation *operation) {
        ShmGeometry g = {
                .slabs_size = 48 * SHM_SLAB_SIZE,
                .n_records = 5,
                .n_epochs = 3,
                .n_classes = 4,
                .class_size = { 64, 96, 128, 256 },
        };
        uint32_t n;

        memset(w, 0, sizeof(*w));
        if (operation->make) {
                operation->make(w);
                operation->prepare(w);
                return;
        }
        assert_int_equal(shm_arena_create(&w->arena, &g, NULL), 0);
        for (int i = 0; i < 2; i++)
                assert_int_equal(shm_client_add(&w->arena, &(ShmClientInfo){ .pid = i + 1, .start_time = 1 }),
                                 0);
        shm_actor_init_daemon(&w->control, &w->arena);
        assert_int_equal(shm_actor_init(&w->survivor, &w->arena, WORLD_SURVIVOR, 1), 0);
        assert_int_equal(shm_actor_init(&w->victim, &w->arena, WORLD_VICTIM, 2), 0);
        w->survivor.mode = w->victim.mode = SHM_CACHE_ON;
        assert_int_equal(shm_pages_commit(&w->control, 16, &n), 0);
        operation->prepare(w);
        if (operation->warm)
                warm(w);
}

void world_deinit(World *w) {
        if (w->deinit)
                w->deinit(w);
        else
                shm_arena_deinit(&w->arena);
}

#define REBASE(_copy, _arena, _member)                                                                       \
        ((_copy)->_member = (void *) ((uint8_t *) (_arena)->_member - (_arena)->base + (_copy)->base))

void world_copy_init(ShmArena *copy, const ShmArena *arena) {
        int fd = memfd_create("copy", MFD_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, (off_t) arena->size), 0);
        *copy = *arena;
        copy->fd = fd;
        copy->wake_fd = -1;
        copy->base = mmap(NULL, arena->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_ptr_not_equal(copy->base, MAP_FAILED);
        REBASE(copy, arena, header);
        REBASE(copy, arena, clients);
        REBASE(copy, arena, heads);
        REBASE(copy, arena, records);
        REBASE(copy, arena, sets);
        REBASE(copy, arena, lines);
        REBASE(copy, arena, tags);
        REBASE(copy, arena, slabs);
        memcpy(copy->base, arena->base, arena->size);
}

void world_copy_deinit(ShmArena *copy) {
        munmap(copy->base, copy->size);
        close(copy->fd);
}

void world_repair(ShmArena *arena, ShmRepairCounts *ret) {
        ShmRepair repair = {};
        ShmActor control;

        shm_actor_init_daemon(&control, arena);
        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++)
                if (shm_record_owner(arena, i).client == WORLD_VICTIM)
                        (void) shm_record_mark_dead(arena, i);
        while (!maintain_repair_step(&control, &repair, 3))
                ;
        *ret = repair.counts;
}

uint64_t world_count_live(const ShmArena *arena) {
        uint64_t n = 0;

        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(arena); slab++)
                for (uint32_t i = 0; i < SHM_SLOTS_MAX; i++)
                        n += arena->tags[slab].tag[i] & 1;
        return n;
}
