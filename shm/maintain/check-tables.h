#pragma once
/* The part of the check that is not about slabs: epochs, clients, records, what caches say of themselves. */
#include "shm/maintain/check.h"

void shm_check_epochs(const ShmArena *arena, ShmCheck *check);
void shm_check_record(const ShmArena *arena, ShmCheck *check, uint32_t record);

/* One more problem, in words as long as there is room for them. */
void shm_check_problem(ShmCheck *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
