#pragma once
/* Allocators that tls_print_stats() knows. */
#include "slab-alloc/state.h"

/* tls_print_stats() prints `new` from now on, in place of `old`; either may be NULL. */
void stats_know_state(AllocatorState *old, AllocatorState *new);
