#pragma once
/*
 * A pool's host does the work that calls leave to others: repair, giving pages back, expiry, control work. A pool is
 * made with one of two: a daemon, or the processes that use it themselves. Only libclient/host/ knows which.
 */
#include <tslab_map.h>

#include "libclient/pool/pool.h"
#include "shm/map/trie/trie.h"

#define HOST_CALLS 64 /* so many calls of a thread, that the fast path does not serve, are many */
#define HOST_SLEEP_USEC                                                                                      \
        20000 /* between looks at a claim, where the host wakes the waiters of a process that died */
#define HOST_SLEEP_ALONE_USEC 4000 /* where nobody does */

/* The attempts to find memory for one change of a map. Begin with zeros. */
typedef struct HostRetry {
        unsigned n_slices; /* attempts to delete expired entries */
        uint64_t n_slabs; /* that were looked at beside others' control work, since entries were deleted */
        unsigned n_vain; /* looks in a row that found nothing to delete */
        bool asked; /* for the caches of threads */
} HostRetry;

/* Between pool_begin() and pool_end(), unless another thing is said. */
struct Host {
        /* Makes the entry of this process in the client table, under attach_lock. The attach errors. */
        int (*join)(struct tslab *pool, uint32_t *ret_client);
        /* Gives up that entry, after all calls and the records of all threads. */
        void (*leave)(struct tslab *pool);
        /* tslab_stale(). Outside. */
        bool (*is_stale)(struct tslab *pool);
        /* This thread ends, perhaps in the middle of control work. Outside. */
        void (*thread_ends)(struct tslab *pool);
        /* Whether a process has died that the client table still names. */
        bool (*has_died)(const struct tslab *pool, uint32_t client);
        uint64_t sleep_usec; /* HOST_SLEEP_USEC, or HOST_SLEEP_ALONE_USEC */

        /* After a call, outside: a freeze waited for this thread, slabs drained, entries have an end, or many calls. */
        void (*thaw)(struct tslab *pool, const ThreadState *thread);
        void (*calls)(struct tslab *pool);
        void (*drained)(struct tslab *pool);
        void (*expires)(struct tslab *pool);
        /* This thread made a slab FREE: its pages, or pages of other slabs, may have to go. Outside. */
        void (*slab_freed)(struct tslab *pool, uint32_t slab);

        /* Empties all caches, except those of threads in the middle of an operation. False: nobody does it now. */
        bool (*empty_caches)(struct tslab *pool);
        /* For a change that found no memory, outside: deletes expired entries. False: there is nothing left to try. */
        bool (*delete_expired)(struct tslab *pool, HostRetry *retry);
        /* Records have run short: takes those that ended threads did not give back. False: there were none. */
        bool (*reap_threads)(struct tslab *pool);

        /* The calls of <tslab.h>. `advance` returns 1 if it advanced, and 0 where another epoch was current. */
        int (*advance)(struct tslab *pool, uint32_t expected, uint32_t *ret_epoch);
        int (*reserve)(struct tslab *pool, const char *label, bool lease, uint32_t *ret_epoch);
        int (*label)(struct tslab *pool, uint32_t epoch, const char *label);
        int (*close)(struct tslab *pool, uint32_t epoch, uint32_t flags);
        /* -EIDRM: another map has its name by now, or none. */
        int (*set_map)(struct tslab *pool, ShmTrie *trie, const struct tslab_map_options *options,
                       uint32_t set);
        /* A map was removed: frees its memory, or has it freed. */
        void (*sweep_maps)(struct tslab *pool);
        int (*reap)(struct tslab *pool);
        int (*control_owner)(struct tslab *pool);
};
