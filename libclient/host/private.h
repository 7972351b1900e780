#pragma once
#include "libclient/pool/host.h"

/* A pool that was just made: threads look at the limits of cgroups as they commit memory. */
void private_limit_memory(ShmArena *arena);

extern const Host host_private;
