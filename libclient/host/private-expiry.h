#pragma once
/* Private pools: calls that change maps delete expired entries. */
#include "libclient/pool/host.h"

/* For a short time, if that is due. */
void expiry_run(struct tslab *pool);
/* For a call that would fail. False: nothing is left to try. */
bool expiry_delete(struct tslab *pool, HostRetry *retry);
