#pragma once
/*
 * Reads the records of a process that was just killed, before they are repaired: the operation that it was
 * in, and the objects that were live though their handles had not been returned. After the repair none of
 * those objects may be live.
 */
#include <sys/types.h>

#include "shm/arena/record.h"

#define DEATHS_KINDS (SHM_INTENT_RUN + 1)

typedef struct Deaths {
        uint64_t n_intents[DEATHS_KINDS];
        uint64_t n_odd; /* objects on top of a cache */
        struct {
                SlotId id;
                uint32_t tag;
        } unreturned[4096];
        uint32_t n_unreturned;
} Deaths;

void deaths_note(Deaths *deaths, const ShmArena *arena, pid_t pid);
/* The number of objects that were live at a death, were not returned, and are live now. */
uint32_t deaths_left(const Deaths *deaths, const ShmArena *arena);
void deaths_print(const Deaths *deaths);
