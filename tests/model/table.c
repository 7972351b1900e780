/* See table.h. */
#include "tests/model/table.h"

#include <stdlib.h>
#include <string.h>

uint64_t table_mix(uint64_t a, uint64_t b) {
        __uint128_t product =
                (__uint128_t) (a ^ UINT64_C(0x9e3779b97f4a7c15)) * (b ^ UINT64_C(0xd6e8feb86659fd93));

        return (uint64_t) product ^ (uint64_t) (product >> 64);
}

uint64_t table_hash(uint64_t seed, const uint8_t *bytes, size_t size) {
        uint64_t a = seed, b = ~seed, v[2];

        for (; size >= 16; bytes += 16, size -= 16) {
                memcpy(v, bytes, 16);
                a = table_mix(a ^ v[0], b + v[1]);
                b = table_mix(b + v[0], a ^ v[1]) + UINT64_C(0x2545f4914f6cdd1d);
        }
        for (; size > 0; bytes++, size--)
                a = table_mix(a ^ *bytes, b);
        return table_mix(a, b);
}

Entry *table_find(Table *t, uint64_t hash) {
        uint64_t i = hash & (t->size - 1);

        while (t->entries[i].hash != 0 && t->entries[i].hash != hash)
                i = (i + 1) & (t->size - 1);
        return &t->entries[i];
}

void table_reset(Table *t) {
        free(t->entries);
        *t = (Table){ .entries = calloc(1 << 12, sizeof(Entry)), .size = 1 << 12 };
}

Entry *table_add(Table *t, uint64_t hash, bool *ret_new) {
        Entry *e = table_find(t, hash);
        Table larger = { .size = t->size * 2, .n = t->n };

        *ret_new = e->hash == 0;
        if (!*ret_new)
                return e;
        if (t->n >= t->size / 2) {
                larger.entries = calloc(larger.size, sizeof(Entry));
                for (uint64_t i = 0; i < t->size; i++)
                        if (t->entries[i].hash != 0)
                                *table_find(&larger, t->entries[i].hash) = t->entries[i];
                free(t->entries);
                *t = larger;
                e = table_find(t, hash);
        }
        t->n++;
        e->hash = hash;
        return e;
}
