/* Values in chains, in pools of several classes: each number of chunks that a head names; one that needs a block. */
#include <errno.h>
#include <string.h>

#include "shm/cache/cache.h"
#include "shm/map/leaf/chain.h"
#include "shm/map/entry/map.h"
#include "tests/unit/shm/map-fixture.h"
#include "tests/api/entry-cost.h"

#define VALUE_MAX 80000

static uint8_t value[VALUE_MAX], buffer[VALUE_MAX];

/* Live objects, the sum of their slots' sizes, and of what these count with in a map. */
typedef struct Live {
        uint64_t n, bytes, memory;
} Live;

static Live count_live(const ShmArena *arena) {
        Live live = {};

        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(arena); slab++)
                for (uint32_t i = 0; i < SHM_SLOTS_MAX; i++) {
                        uint32_t tag = arena->tags[slab].tag[i];
                        SlotId id = { slab * SHM_SLOTS_MAX + i };
                        size_t size = 0;
                        void *object;

                        if (!(tag & 1))
                                continue;
                        assert_int_equal(
                                shm_object_get(arena, shm_handle_make(arena->key, id, tag), &object, &size),
                                0);
                        live.n++;
                        live.bytes += size;
                        live.memory += SLOT_COST(size);
                }
        return live;
}

static void put(MapFixture *f, const ShmMapKey *key, uint32_t size) {
        const ShmMapPut p = { .value = value, .value_size = size, .epoch = SHM_EPOCH_CURRENT };

        assert_int_equal(shm_map_put(&f->actor, &f->trie, key, &p, NULL), 0);
}

static void assert_part(MapFixture *f, const ShmMapKey *key, uint32_t size, uint32_t offset, uint32_t n) {
        ShmMapView view;

        n = n < size - offset ? n : size - offset;
        memset(buffer, 0, n);
        assert_int_equal(shm_map_look(&f->trie, key, &view), 0);
        assert_int_equal(shm_map_read(&f->trie, view.handle, offset, buffer, n), n);
        assert_memory_equal(buffer, value + offset, n);
}

/* Returns its objects. Two of them, so that the second is written over what the first one left. */
static Live try_value(MapFixture *f, const ShmMapKey *key, uint32_t size) {
        Live with, without;
        ShmMapTotals t;

        put(f, key, size);
        put(f, key, size);
        with = count_live(&f->arena);
        shm_map_totals(&f->arena, f->trie.map - 1, &t);
        assert_int_equal(shm_map_get(&f->trie, key, buffer, VALUE_MAX, NULL), size);
        assert_memory_equal(buffer, value, size);
        for (uint32_t offset = 0; offset < size; offset += size / 7 + 1)
                assert_part(f, key, size, offset, size / 5 + 1);
        assert_int_equal(shm_map_delete(&f->actor, &f->trie, key, 0), 0);
        without = count_live(&f->arena);
        assert_int_equal(t.bytes, with.memory - without.memory + INDEX_COST);
        return (Live){ .n = with.n - without.n, .bytes = with.bytes - without.bytes };
}

static void set_up(MapFixture *f, const uint32_t *classes, uint32_t n) {
        ShmGeometry g = { .slabs_size = UINT64_C(4) << 20, .n_records = 4, .n_epochs = 4, .n_classes = n };

        memcpy(g.class_size, classes, n * sizeof(*classes));
        for (uint32_t i = 0; i < VALUE_MAX; i++)
                value[i] = (uint8_t) (i * 7 + i / 251);
        assert_int_equal(shm_arena_create(&f->arena, &g, NULL), 0);
        assert_int_equal(shm_actor_init(&f->actor, &f->arena, 0, 1), 0);
        map_trie_create(&f->actor, &f->trie);
}

static void tear_down(MapFixture *f) {
        map_actor_leave(&f->actor);
        shm_arena_deinit(&f->arena);
}

static void try_pool(const uint32_t *classes, uint32_t n) {
        static const uint8_t bytes[SHM_CLASS_SIZE_MAX];
        MapFixture f;
        uint32_t room = classes[n - 1], key_max;

        set_up(&f, classes, n);
        key_max = (uint32_t) shm_map_key_max(&f.arena);
        for (uint32_t size = 8; size <= key_max; size += size < 32 ? 3 : key_max / 5) {
                const ShmMapKey key = { .bytes = bytes, .size = size, .hash = UINT64_C(1) << 63 };

                for (uint32_t chunks = 1; chunks <= 18; chunks++)
                        for (int32_t more = -9; more <= 64; more += 9)
                                (void) try_value(&f, &key, chunks * room + (uint32_t) more);
        }
        tear_down(&f);
}

static void test_chain_sizes(void **state) {
        static const uint32_t all[] = SHM_CLASSES_DEFAULT, few[] = { 64, 96, 128, 256 }, two[] = { 64, 1024 },
                              one[] = { 64 }, large[] = { 4096 }, far[] = { 64, 4096 };

        (void) state;
        try_pool(all, SHM_N_CLASSES_DEFAULT);
        try_pool(few, 4);
        try_pool(two, 2);
        try_pool(one, 1);
        try_pool(large, 1);
        try_pool(far, 2);
}

/* A head that has a word for each chunk needs no block. */
static void test_chain_objects(void **state) {
        static const uint32_t all[] = SHM_CLASSES_DEFAULT;
        const ShmMapKey key = { .bytes = "key", .size = 3, .hash = UINT64_C(1) << 63 };
        MapFixture f;

        (void) state;
        set_up(&f, all, SHM_N_CLASSES_DEFAULT);
        for (uint32_t n = 2; n <= 16; n++)
                assert_int_equal(try_value(&f, &key, n * SHM_CLASS_SIZE_MAX).n, 1 + n);
        assert_int_equal(try_value(&f, &key, 17 * SHM_CLASS_SIZE_MAX).n, 1 + 1 + 17);
        tear_down(&f);
}

/* In a pool of two classes at most: a value takes so much, no more for the sake of words in its head. */
static void try_bytes(uint32_t small, uint32_t large, uint32_t size, uint64_t bytes) {
        const uint32_t classes[] = { small, large };
        const ShmMapKey key = { .bytes = "key", .size = 3, .hash = UINT64_C(1) << 63 };
        MapFixture f;

        set_up(&f, classes, 1 + (large > 0));
        assert_int_equal(try_value(&f, &key, size).bytes, bytes);
        tear_down(&f);
}

/* The head: 48 bytes with a word. */
static void test_chain_bytes(void **state) {
        (void) state;
        /* It is full of bytes and the words of all other chunks: there is none that names nothing. */
        try_bytes(4096, 0, 4096 + 4048, 2 * 4096);
        try_bytes(4096, 0, 3 * 4096 + 4032, 4 * 4096);
        try_bytes(64, 4096, 4096 + 16, 64 + 4096);
        /* A block of the small class, and no head of the large one. */
        try_bytes(64, 4096, 4 * 4096, 64 + 64 + 4 * 4096);
        try_bytes(64, 1024, 4 * 1024 + 16, 64 + 64 + 4 * 1024);
        /* There is room for the words where the head is large for the sake of bytes. */
        try_bytes(64, 1024, 4 * 1024 + 800, 5 * 1024);
        /* A block would be of the large class. */
        try_bytes(64, 4096, 9 * 4096, 10 * 4096);
}

/* The words of a head name what a hostile process wrote there: a get reads nothing outside of the slabs. */
static void test_chain_damaged(void **state) {
        static const uint32_t all[] = SHM_CLASSES_DEFAULT;
        const ShmMapKey key = { .bytes = "key", .size = 3, .hash = UINT64_C(1) << 63 };
        ShmTrieCursor c;
        ShmMapView view;
        MapFixture f;

        (void) state;
        set_up(&f, all, SHM_N_CLASSES_DEFAULT);
        put(&f, &key, 16 * SHM_CLASS_SIZE_MAX);
        assert_int_equal(shm_map_find(&f.trie, &key, &c, &view), 0);
        for (unsigned i = 0; i < 16; i++) {
                uint32_t n_slots_ever = shm_arena_n_slabs_ever(&f.arena) * SHM_SLOTS_MAX;
                const uint64_t handles[] = {
                        shm_handle_make(f.arena.key, (SlotId){ n_slots_ever }, 1),
                        shm_handle_make(f.arena.key, (SlotId){ SHM_SLOT_ID_MASK }, 1),
                        shm_handle_make(f.arena.key, (SlotId){ 1 },
                                        1), /* slabs of chunks have slot 0 alone */
                        shm_handle_make(f.arena.key, (SlotId){ 0 }, 2), /* no live object has an even tag */
                };
                uint64_t word = view.at[i];

                for (unsigned k = 0; k < sizeof(handles) / sizeof(handles[0]); k++) {
                        view.at[i] = handles[k] ^ shm_leaf_seal(view.handle);
                        assert_int_equal(shm_map_get(&f.trie, &key, buffer, VALUE_MAX, NULL), -EUCLEAN);
                }
                view.at[i] = word;
        }
        assert_int_equal(shm_map_get(&f.trie, &key, buffer, VALUE_MAX, NULL), 16 * SHM_CLASS_SIZE_MAX);
        tear_down(&f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_chain_sizes),
                cmocka_unit_test(test_chain_objects),
                cmocka_unit_test(test_chain_bytes),
                cmocka_unit_test(test_chain_damaged),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
