#pragma once
#include "libclient/pool.h"

/* Frees all of a pool that no thread uses. NULL-safe. */
struct tslab *pool_unref(struct tslab *pool);
