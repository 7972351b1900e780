#pragma once
/*
 * Walks over the slabs of epochs that are over, until nothing is left of them.
 *
 * One that was just closed is marked: all threads are frozen, to empty their caches of it; those
 * that are inside an operation then keep them, and may still add slabs to it. A walk is final when
 * none of these is left at its beginning; until then it is repeated. Walks of several epochs take
 * turns, a slice each.
 *
 *      idle -> walk            drainer_start(), or a wake while slabs are left
 *      walk -> idle            final, or nobody waits
 *      walk -> wait            threads are inside an operation still
 *      wait -> walk            they have moved on; a wake
 *      walk | idle -> queued   a wake, within 10 ms of the last walk
 *      queued -> walk          after these
 */
#include <stdbool.h>
#include <stdint.h>

#include "daemon/epoch-count.h"
#include "daemon/manager.h"

typedef struct DrainJob DrainJob;

/*
 * Somebody who waits for a walk. Filled in by the caller: what stands before the line; `on_done`
 * is called once, from the loop, and may free the job.
 */
struct DrainJob {
        uint32_t epoch; /* id */
        uint64_t deadline_usec; /* for threads inside an operation; CLOCK_MONOTONIC */
        bool wait_drained; /* until no object remains ... */
        uint64_t drained_deadline_usec; /* ... or then */
        bool count; /* live objects */
        void (*on_progress)(DrainJob *job); /* ten times a second; may be NULL */
        void (*on_done)(DrainJob *job);
        void *userdata;
        /* -- */
        DrainJob *next;
        uint64_t mark; /* the walk that counts, or a later one */
        uint64_t reclaimed_before;
        uint64_t progress_usec;
        bool counting;
        EpochCount live;
        uint64_t reclaimed_size;
        uint32_t n_pending; /* threads */
        uint32_t n_left; /* slabs */
};

int drainer_new(Drainer **ret_drainer, Manager *manager);
/* Jobs that are under way are the caller's: on_done is called for each. NULL-safe, returns NULL. */
Drainer *drainer_free(Drainer *drainer);

/*
 * Freezes all threads, to empty their caches of an epoch that was closed; drainer_start() goes on
 * with it. Between the two the id may be opened anew.
 */
void drainer_freeze(Drainer *drainer, uint32_t epoch);
/* Walks over an epoch that was closed. `job` may be NULL: nobody waits. */
void drainer_start(Drainer *drainer, uint32_t epoch, DrainJob *job);
/* Empties the caches of all threads that are not in the middle of an operation. */
void drainer_empty_caches(Drainer *drainer);
/* Slabs may have drained, or caches be wanted. */
void drainer_wake(Drainer *drainer);
/* Slabs that are to drain may have emptied. */
void drainer_look(Drainer *drainer);
void drainer_tick(Drainer *drainer);
