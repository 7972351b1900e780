/* See delay.h. */
#include "tests/model/delay.h"

#include <stdlib.h>
#include <string.h>

#include "tests/model/table.h"

#define RANGES_MAX 8

typedef struct Range {
        const uint8_t *base;
        size_t size;
} Range;

static Range ranges[MODEL_ACTORS_MAX][RANGES_MAX];

void model_delay(unsigned actor, const void *base, size_t size) {
        Range *r = ranges[actor];

        while (r->size > 0)
                if (++r == ranges[actor] + RANGES_MAX)
                        abort();
        *r = (Range){ base, size };
}

void delay_forget(void) {
        memset(ranges, 0, sizeof(ranges));
}

bool delay_may(unsigned actor, const void *address) {
        for (unsigned i = 0; i < RANGES_MAX; i++)
                if (address &&
                    (size_t) ((const uint8_t *) address - ranges[actor][i].base) < ranges[actor][i].size)
                        return true;
        return false;
}

void delay_add(Delays *delays, unsigned actor, void *address, const void *before, uint32_t size) {
        Late late = { .at = address, .size = size };

        memcpy(&late.value, address, size);
        memcpy(&late.under, before, size);
        delays->stores[actor][delays->n[actor]++] = late;
}

void delay_remove(Delays *delays, unsigned actor) {
        Late *stores = delays->stores[actor];

        memcpy(stores->at, &stores->value, stores->size);
        memmove(stores, stores + 1, --delays->n[actor] * sizeof(*stores));
        stores[delays->n[actor]] = (Late){};
        delays->owed[actor] -= delays->owed[actor] > 0;
}

void delay_show(Delays *delays, unsigned actor) {
        for (unsigned i = 0; i < delays->n[actor]; i++) {
                Late *late = &delays->stores[actor][i];

                memcpy(&late->under, late->at, late->size);
                memcpy(late->at, &late->value, late->size);
        }
}

void delay_hide(Delays *delays, unsigned actor) {
        for (unsigned i = delays->n[actor]; i-- > 0;) {
                Late *late = &delays->stores[actor][i];

                memcpy(late->at, &late->under, late->size);
                late->under = 0;
        }
}

uint64_t delay_hash(const Delays *delays) {
        uint64_t h = 0;

        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++) {
                h = delays->owed[i] ? table_mix(h + i + 1, delays->owed[i]) : h;
                for (unsigned k = 0; k < delays->n[i]; k++) {
                        const Late *late = &delays->stores[i][k];

                        h = table_mix(table_mix(h + i + 1, (uintptr_t) late->at + late->size), late->value);
                }
        }
        return h;
}
