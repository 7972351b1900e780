#pragma once
/*
 * Gives the pages of free slabs back to the system: in the background the slabs beyond the retained size, and
 * all slabs when an operator asks for a trim or memory is short.
 */
#include "daemon/pool.h"
#include "daemon/queue.h"
#include "daemon/work/maintainer.h"
#include "daemon/work/reserve.h"

typedef struct Trimmer Trimmer;
typedef struct TrimJob TrimJob;

/* A wait for a trim. The caller fills in the members before the line. */
struct TrimJob {
        QueueLink link;
        bool (*is_wanted)(const TrimJob *job); /* false: nobody waits any more, and the trim is skipped */
        void (*on_done)(TrimJob *job); /* called once, from the loop, also if nobody waits; frees the job */
        void *userdata;
        /* -- */
        uint64_t emptying; /* number of the request to empty all caches, which comes first */
        uint64_t reclaimed_size; /* bytes, with the surplus */
        uint32_t n_split; /* huge pages that lost a part */
        uint64_t surplus_size; /* pages that no slab uses */
};

/* A part of a message: how many huge pages lost a part to a trim or a close. Empty: none. */
#define TRIMMER_SPLIT_MAX 64
void trimmer_tell_split(char text[TRIMMER_SPLIT_MAX], uint32_t n);

int trimmer_new(Trimmer **ret_trimmer, Pool *pool, Maintainer *maintainer, Reserve *reserve);
/* Ends all jobs. NULL-safe, returns NULL. */
Trimmer *trimmer_free(Trimmer *trimmer);

/* Gives back all that is free now, and surplus pages. One pass serves all jobs that were there when it began. */
void trimmer_start(Trimmer *trimmer, TrimJob *job);
/* Memory is short: gives back all that is free now, in the background. */
void trimmer_press(Trimmer *trimmer);
void trimmer_tick(Trimmer *trimmer);
/*
 * For a daemon that has taken a pool up: a tick and its pass at once. The last daemon may have been killed at the limit
 * of a cgroup, and this one needs room before it serves. If a process keeps the lock of the arena's file, the pass is
 * left to the loop, for which another thread answers while it waits.
 */
void trimmer_begin(Trimmer *trimmer);
