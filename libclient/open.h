#pragma once
#include "libclient/pool/pool.h"

/* Frees all of a pool that no thread uses. NULL-safe. */
struct tslab *pool_unref(struct tslab *pool);
