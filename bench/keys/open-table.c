/* The floor: an open-addressed table of indexes into an array, in memory that processes could share. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/harness/harness.h"
#include "bench/keys/keys.h"

typedef struct Entry {
        uint64_t key;
        uint8_t value[KEYS_VALUE_SIZE];
        uint8_t unused[64 - 8 - KEYS_VALUE_SIZE];
} Entry;

static uint64_t *table; /* index + 1; 0: empty */
static Entry *entries;
static uint64_t n_entries, mask;
static size_t mapped_size;

static void table_open(uint64_t n_max) {
        uint64_t n_places = 1;
        int fd = memfd_create("bench-keys", 0);

        while (n_places < n_max + n_max / 2)
                n_places *= 2;
        mapped_size = n_places * sizeof(*table) + n_max * sizeof(*entries);
        if (fd < 0 || ftruncate(fd, (off_t) mapped_size) < 0)
                bench_fail("no memory for the table");
        table = mmap(NULL, mapped_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (table == MAP_FAILED)
                bench_fail("no memory for the table");
        close(fd);
        entries = (Entry *) (table + n_places);
        mask = n_places - 1;
        n_entries = 0;
}

static void table_close(void) {
        (void) munmap(table, mapped_size);
}

static uint64_t table_hash(uint64_t key) {
        for (int i = 0; i < 2; i++)
                key = (key ^ key >> 32) * UINT64_C(0xd6e8feb86659fd93);
        return key ^ key >> 32;
}

/* Where the key's index is, or where it would be. */
static uint64_t *table_find(uint64_t key) {
        uint64_t i = table_hash(key) & mask;

        while (table[i] != 0 && entries[table[i] - 1].key != key)
                i = (i + 1) & mask;
        return &table[i];
}

static void table_put(uint64_t key, const void *value) {
        uint64_t *place = table_find(key);

        if (*place == 0) {
                entries[n_entries].key = key;
                *place = ++n_entries;
        }
        memcpy(entries[*place - 1].value, value, KEYS_VALUE_SIZE);
}

static void table_get(uint64_t key, void *value) {
        uint64_t place = *table_find(key);

        if (place == 0)
                bench_fail("a key is missing");
        memcpy(value, entries[place - 1].value, KEYS_VALUE_SIZE);
}

const KeyStore keys_table = {
        .name = "memory",
        .n_max = 10000000,
        .open = table_open,
        .close = table_close,
        .put = table_put,
        .get = table_get,
};
