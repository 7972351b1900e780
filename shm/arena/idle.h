#pragma once
/* Threads that did nothing for some seconds: their caches are emptied, since nobody else can use the slots in them. */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arch/atomic.h"
#include "shm/arena/arena.h"

#define SHM_IDLE_USEC UINT64_C(2000000) /* between two looks */

typedef struct ShmIdle {
        uint64_t due_usec; /* when the next look is due */
        uint64_t seqs[SHM_RECORDS_MAX]; /* as the last look found them */
        uint64_t known[SHM_RECORDS_MAX / 64]; /* a bit for each record that a look has seen */
        uint64_t emptied[SHM_RECORDS_MAX /
                         64]; /* a bit for each record that was found idle since its seq moved */
        uint64_t found[SHM_RECORDS_MAX / 64]; /* the result of the last look: a bit for each idle record */
} ShmIdle;

static inline bool shm_idle_is_due(const ShmIdle *idle, uint64_t now_usec) {
        return now_usec >= shm_hint_load(&idle->due_usec);
}

/*
 * Finds the threads in `found` that began no operation since the last look, and whose record has used a cache since it
 * was last found. True: there are any. Does nothing if no look is due. An ShmIdle of zeros begins.
 */
bool shm_idle_look(ShmIdle *idle, const ShmArena *arena, uint64_t now_usec);
