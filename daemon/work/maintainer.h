#pragma once
/*
 * The daemon's maintainer: drives the engine of shm/maintain/ as a task, tells people what it did, and answers
 * requests that wait for an epoch that was closed.
 */
#include <stdbool.h>
#include <stdint.h>

#include "daemon/work/epoch-count.h"
#include "daemon/pool.h"
#include "daemon/queue.h"
#include "daemon/work/reserve.h"

typedef struct Maintainer Maintainer;
typedef struct CloseWait CloseWait;

/*
 * A request that waits for an epoch that was closed. The caller fills in the members before the line; `on_done`
 * is called once, from the loop, and may free the wait, or begin it anew.
 */
struct CloseWait {
        QueueLink link;
        uint32_t epoch; /* id */
        uint32_t era; /* whose objects are waited for and counted; 0: of all that are over */
        uint64_t deadline_usec; /* for threads inside an operation, and slots in hand; CLOCK_MONOTONIC */
        bool wait_drained; /* until no object remains ... */
        uint64_t drained_deadline_usec; /* ... or then */
        bool count; /* live objects */
        void (*on_progress)(CloseWait *wait); /* ten times a second; may be NULL */
        void (*on_done)(CloseWait *wait);
        void *userdata;
        /* -- */
        uint64_t number; /* of the request to the engine */
        uint64_t reclaimed_before;
        uint64_t progress_usec;
        const EpochCount *live; /* what was counted; nothing without `count` */
        uint64_t reclaimed_size;
        uint32_t n_pending; /* threads */
        uint32_t n_left; /* slabs */
};

int maintainer_new(Maintainer **ret_maintainer, Pool *pool, Reserve *reserve);
/* Has `on_repaired` called after records of dead threads were repaired. */
void maintainer_set_on_repaired(Maintainer *maintainer, void (*on_repaired)(void *), void *userdata);
/* Waits that are under way are the callers': on_done is called for each. NULL-safe, returns NULL. */
Maintainer *maintainer_free(Maintainer *maintainer);

/* Goes on from what the arena says. How many epochs are to drain. */
uint32_t maintainer_take_over(Maintainer *maintainer);

/* An epoch was closed, or objects of it are to be revoked. `wait` may be NULL: nobody waits. */
void maintainer_close(Maintainer *maintainer, uint32_t epoch, CloseWait *wait);
/* Empties the caches of all threads. The number of the request, for maintainer_has_emptied(). */
uint64_t maintainer_empty_caches(Maintainer *maintainer);
bool maintainer_has_emptied(const Maintainer *maintainer, uint64_t number);
/* Records were marked DEAD. */
void maintainer_repair(Maintainer *maintainer);
/* Slabs may have drained, or caches be wanted. */
void maintainer_wake(Maintainer *maintainer);
/* The same, and records that were left, or are dead; revocations that nobody is at. */
void maintainer_rescan(Maintainer *maintainer);
