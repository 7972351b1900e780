#pragma once
/*
 * The daemon's maintainer: runs the engine of shm/maintain/ as a task, logs its results, and ends the waits of
 * requests that closed an epoch.
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
 * A request that waits for a closed epoch. The caller fills in the members before the line. `on_done` is called once,
 * from the loop, and may free the wait, or begin it anew.
 */
struct CloseWait {
        QueueLink link;
        uint32_t epoch; /* id */
        uint32_t era; /* objects of this era are waited for and counted; 0: of all closed eras */
        uint64_t
                deadline_usec; /* for threads inside a call, and slots in the hands of threads; CLOCK_MONOTONIC */
        bool wait_drained; /* waits until no object remains ... */
        uint64_t drained_deadline_usec; /* ... but not longer than this */
        bool count; /* counts live objects at the end */
        void (*on_progress)(CloseWait *wait); /* ten times a second; may be NULL */
        void (*on_done)(CloseWait *wait);
        void *userdata;
        /* -- */
        uint64_t number; /* the request's number in the engine */
        uint64_t reclaimed_before;
        uint32_t split_before;
        uint64_t progress_usec;
        const EpochCount *live; /* the count; all zeros without `count` */
        uint64_t reclaimed_size;
        uint32_t n_split; /* huge pages that lost a part, see ShmSplits */
        uint32_t n_pending; /* threads */
        uint32_t n_left; /* slabs */
};

int maintainer_new(Maintainer **ret_maintainer, Pool *pool, Reserve *reserve);
/* Has `on_repaired` called after records of dead threads were repaired. */
void maintainer_set_on_repaired(Maintainer *maintainer, void (*on_repaired)(void *), void *userdata);
/* Calls `on_done` of all waits under way. NULL-safe, returns NULL. */
Maintainer *maintainer_free(Maintainer *maintainer);

/* Takes up the work that the last daemon left in the arena. Returns the number of epochs that drain. */
uint32_t maintainer_take_over(Maintainer *maintainer);

/* Drains an epoch that was closed, or revokes its objects. `wait` may be NULL: nobody waits. */
void maintainer_close(Maintainer *maintainer, uint32_t epoch, CloseWait *wait);
/* Empties the caches of all threads. Returns the number of the request, for maintainer_has_emptied(). */
uint64_t maintainer_empty_caches(Maintainer *maintainer);
bool maintainer_has_emptied(const Maintainer *maintainer, uint64_t number);
/* Repairs the records that were marked DEAD. */
void maintainer_repair(Maintainer *maintainer);
/* A client woke the daemon: slabs may have drained, or a thread may want the slots in others' caches. */
void maintainer_notify(Maintainer *maintainer);
/*
 * As maintainer_notify(), and searches the arena for records that were left or are dead, and for unfinished
 * revocations.
 */
void maintainer_rescan(Maintainer *maintainer);
