/* The yardstick: a plain mapping that processes share. No keys, no checks, nothing that a reader could rely on. */
#include <string.h>

#include "bench/web/store.h"

#define MEMORY_BYTES (UINT64_C(64) << 20)
#define MEMORY_COUNTERS 1000

static char *values;
static struct { uint64_t n __attribute__((aligned(64))); } * counters;

static void memory_open(const StoreOptions *options) {
        (void) options;
        values = bench_reserve(MEMORY_BYTES);
        counters = bench_reserve(MEMORY_COUNTERS * sizeof(*counters));
}

static char *memory_place(const StoreItem *item) {
        return values + (uint64_t) item->number * item->size % MEMORY_BYTES;
}

static void memory_put(StoreItem *item) {
        memcpy(memory_place(item), item->value, item->size);
}

static void memory_get(StoreItem *item) {
        memcpy(item->value, memory_place(item), item->size);
}

/* As much as any store needs that several processes change at once: one locked compare-and-set. */
static void memory_delete(StoreItem *item) {
        uint64_t *word = &counters[item->number % MEMORY_COUNTERS].n, expected = *word;

        if (!shm_cas_acqrel(word, &expected, expected + 1))
                bench_fail("somebody wrote to the word");
}

static void memory_add(StoreItem *item) {
        (void) shm_add_acqrel(&counters[item->number % MEMORY_COUNTERS].n, 1);
}

const Store store_memory = {
        .name = "memory",
        .n_operations = 1000000,
        .is_inherited = true,
        .open = memory_open,
        .put = memory_put,
        .get = memory_get,
        .remove = memory_delete,
        .add = memory_add,
};
