#pragma once
/*
 * The epoch of each period, and the end of a period.
 *
 * A session is written into the epoch of the period of its latest request. So the sessions that are still
 * in the epoch of an old period had no request since: they have expired. They are booked in the ledger and
 * deleted, and when the epoch is closed their memory is given back.
 */
#include <stdint.h>

#include <tslab.h>
#include <tslab_map.h>

#include "examples/demo/timeline.h"

#define ROTATION_IDLE_MAX 2 /* periods without a request that a session outlives */

typedef struct Rotation {
        struct tslab *pool;
        struct tslab_map *sessions;
        struct tslab_map *ledger;
        struct tslab_map *pages;
        uint32_t ledger_epoch, pages_epoch; /* reserved: both outlive the periods */
        uint32_t epochs[TIMELINE_PERIODS_MAX]; /* each begun period has one */
        uint32_t n_begun;
        uint32_t n_closed; /* epochs[] below this are closed */
        uint64_t n_expired; /* sessions */
        uint64_t reclaimed_size; /* by closing */
} Rotation;

/*
 * Creates the maps, before any worker is told to serve; that of pages has this limit. Errors of tslab_open(),
 * tslab_map_open() and tslab_epoch_reserve().
 */
int rotation_init(Rotation *rotation, uint64_t pages_limit);
void rotation_deinit(Rotation *rotation);

/*
 * Begins the next period: its epoch. Expires sessions that were idle for too long. No worker may be
 * serving. Negative errno.
 */
int rotation_begin(Rotation *rotation, uint32_t *ret_epoch);
/* Expires all sessions: as if time went on, and no request came. Negative errno. */
int rotation_finish(Rotation *rotation);
