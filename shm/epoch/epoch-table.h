#pragma once
/* The words of the epoch table, for the files that change them: shm/epoch/epoch.c and shm/epoch/epoch-close.c. */
#include "shm/epoch/epoch.h"

ShmEpochWord shm_epoch_load(const ShmArena *arena, uint32_t id);
/* False: there is no such edge. The maintainer's. */
bool shm_epoch_change(ShmArena *arena, uint32_t id, ShmEpochEvent event, uint32_t flags);
