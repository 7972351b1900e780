#pragma once
/* Attaching this process to a pool, and the records of its threads. */
#include "libclient/pool/pool.h"

/* Attaches this process if it is not attached. The caller holds no lock. The attach errors. */
int pool_attach(struct tslab *pool);

/*
 * Takes a record for a thread of this process, which has attached; `tid` 0: for all of its threads. -ENOSPC: none is
 * left; -EDQUOT: the last ones are for others.
 */
int pool_take_record(struct tslab *pool, uint32_t tid, ThreadState **ret);

/* Under spare_lock: takes a spare record where the last one was left to repair. -EUSERS, -EDQUOT: there is none. */
int pool_keep_spare(struct tslab *pool);
