#pragma once
/*
 * Keeps one near cache coherent: finds the primaries, hears of their changes, drops changed keys, and covers the rest
 * for as long as all primaries answer. When any of them may have changed something unheard, it revokes all copies, and
 * begins again.
 */
#include <systemd/sd-event.h>
#include <tslab_near.h>

#include "near/near-options.h"

typedef struct Tracker Tracker;

int tracker_new(Tracker **ret, sd_event *event, struct tslab *pool, struct tslab_near *near,
                const Options *options);
Tracker *tracker_free(Tracker *tracker);
