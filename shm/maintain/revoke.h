#pragma once
/*
 * Revoking: all objects of eras that were closed are freed at once, in two passes. For the maintainer, in steps.
 *
 *     MARK       makes the tags of their objects even: all handles are stale from then on
 *     COLLECT    gives back slots of these eras that are taken, even, and referred to by no record
 *
 * Slots that some record refers to are kept, since a thread may have them in hand. A later pass collects them.
 */
#include "shm/epoch/epoch.h"
#include "shm/maintain/reach.h"
#include "shm/slab/slab-walk.h"

typedef struct ShmRevoke {
        ShmRevoking eras;
        ShmSlabWalk slabs; /* the walk over the id's slabs; zeros begin a pass */
        bool checking; /* a reachability check is under way */
        uint64_t objects; /* freed */
        uint64_t kept; /* slots in the hands of threads */
} ShmRevoke;

/* Looks at up to n slabs. True: the pass is over, and `slabs` zeros again. */
bool shm_revoke_mark(ShmActor *control, ShmRevoke *revoke, uint32_t n);
/*
 * Call this after a membarrier: then each thread sees that the tags are even, or the check sees that the thread has the
 * slot in hand. `reach` is the maintainer's; no other check uses it while `checking`. True: the pass is over.
 */
bool shm_revoke_collect(ShmActor *control, ShmRevoke *revoke, ShmReach *reach, uint32_t *budget);
