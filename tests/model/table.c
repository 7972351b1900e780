/* See table.h. */
#include "tests/model/table.h"

#include <stdlib.h>
#include <string.h>

uint64_t table_mix(uint64_t a, uint64_t b) {
        __uint128_t product =
                (__uint128_t) (a ^ UINT64_C(0x9e3779b97f4a7c15)) * (b ^ UINT64_C(0xd6e8feb86659fd93));

        return (uint64_t) product ^ (uint64_t) (product >> 64);
}

/* A factor may be 0, by a word that is the constant of the other: the lane's past is in the sum, too. */
static uint64_t lane_add(uint64_t lane, uint64_t v, uint64_t w) {
        return table_mix(lane ^ v, w) + v + (lane << 23 | lane >> 41);
}

/* Two lanes, so that one does not wait for the other's product. */
uint64_t table_hash(uint64_t seed, const uint8_t *bytes, size_t size) {
        uint64_t a = seed, b = ~seed + size, v[4] = {};

        for (; size >= 32; bytes += 32, size -= 32) {
                memcpy(v, bytes, 32);
                a = lane_add(a, v[0], v[1]);
                b = lane_add(b, v[2], v[3]);
        }
        memset(v, 0, sizeof(v));
        memcpy(v, bytes, size);
        a = lane_add(a, v[0], v[1]);
        b = lane_add(b, v[2], v[3]);
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
