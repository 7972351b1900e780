/* See delay.h. A word holds what its own actor sees; around a step of another one it is what that one does. */
#include "tests/model/delay.h"

#include <string.h>

#include "tests/model/table.h"

static uint64_t *words[MODEL_ACTORS_MAX];
static uint64_t stored[MODEL_ACTORS_MAX]; /* while what others see stands in its place */

void model_delay(unsigned actor, uint64_t *word) {
        words[actor] = word;
}

void delay_forget(void) {
        memset(words, 0, sizeof(words));
}

bool delay_may(unsigned actor, const void *address) {
        return address && words[actor] == address;
}

void delay_begin(Delays *delays, unsigned actor, uint64_t old) {
        delays->waits[actor] = true;
        delays->old[actor] = old;
}

void delay_hide(const Delays *delays, unsigned actor) {
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++)
                if (delays->waits[i] && i != actor) {
                        stored[i] = *words[i];
                        *words[i] = delays->old[i];
                }
}

void delay_show(const Delays *delays, unsigned actor) {
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++)
                if (delays->waits[i] && i != actor)
                        *words[i] = stored[i];
}

void delay_end_all(Delays *delays, unsigned actor) {
        delay_show(delays, actor);
        *delays = (Delays){};
}

uint64_t delay_hash(const Delays *delays) {
        uint64_t h = 0;

        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++)
                if (delays->waits[i])
                        h = table_mix(h + i + 1, delays->old[i]);
        return h;
}
