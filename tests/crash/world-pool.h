#pragma once
/* Operations of a forked child by way of the library, in a private pool. */
#include "tests/crash/crash-world.h"

extern const Operation pool_operations[];
extern const unsigned n_pool_operations;
