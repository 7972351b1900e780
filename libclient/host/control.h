#pragma once
/*
 * Control work of private pools, which have no daemon: by the owner of control work: see shm/owner/owner.h.
 */
#include "libclient/pool/pool.h"

/* How many bytes of zeros control work needs in this process, at the end of PoolLocal's memory. */
size_t control_size(void);

/*
 * Begins: *ret_control acts with record 0 until the end, and work that the last owner left undone is done. This process
 * has attached. `wait`: also waits for threads of this process, and for threads in the middle of a call. -EBUSY: others
 * do control work.
 */
int control_begin(struct tslab *pool, bool wait, ShmActor **ret_control);
/* Does all work that threads and earlier maintainers left: dead and frozen records, and revocations. */
void control_run_all(ShmActor *control);
/*
 * Does a part of the sweep of maps, for a millisecond, if one is due and as long has passed since the last part. False:
 * there is nothing to do now.
 */
bool control_sweep(ShmActor *control);
/*
 * Ends control work, and does the work that came up meanwhile. If that leaves maps to be swept, they are swept when
 * this returns, unless others do control work for 200 ms at a time.
 */
void control_end(struct tslab *pool);
/* As control_end(), and ends the sweeps that other processes have begun. */
void control_end_all(struct tslab *pool);

/*
 * Closes an epoch so that its slabs drain, waits for threads in the middle of an operation, at most 200 ms, and gives
 * the pages of empty slabs back. `brief`: unless it revokes, caches of a pool that other processes use, too, are
 * emptied later, when control work or one of their threads comes by. `flags`: as of tslab_epoch_close(). -EINVAL,
 * -ESTALE, -EBUSY.
 */
int control_close(ShmActor *control, uint32_t epoch, uint32_t flags, bool brief);

/* The rest as in struct Host. */
void control_thread_ends(struct tslab *pool);
void control_thaw(struct tslab *pool, const ThreadState *thread);
void control_calls(struct tslab *pool);
void control_drained(struct tslab *pool);
void control_slab_freed(struct tslab *pool, uint32_t slab);
bool control_empty_caches(struct tslab *pool);
bool control_reap_threads(struct tslab *pool);
