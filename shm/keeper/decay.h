#pragma once
/*
 * FREE slabs that nobody took for a second lose their pages, beyond those that the pool retains. Memory that a
 * program frees and takes again, in waves, stays.
 */
#include "shm/arena/actor.h"

/* Begin with zeros. Of one process: hints, which its threads may change at once. */
typedef struct ShmDecay {
        int64_t least_free; /* the least number of FREE slabs that was seen since */
        uint64_t least_usec; /* then */
} ShmDecay;

/* Whether more than the retained slabs are FREE, by an eighth: or pages would be dropped and made in turn. */
static inline bool shm_decay_is_over(const ShmArena *arena, uint32_t retain) {
        return (int64_t) shm_hint_load(&arena->header->n_free.value) > (int64_t) retain + retain / 8;
}
/*
 * Whether slabs are due: as many as were free at the least of times in that second. Other processes' least is not
 * known: if they work in turns with this one, a part of theirs may go once in that time.
 */
bool shm_decay_is_due(ShmDecay *decay, const ShmArena *arena, uint32_t retain);
/* Drops the slabs that are due, at most n_max; if that leaves some, they still are. For the maintainer. */
void shm_decay_trim(ShmDecay *decay, ShmActor *control, uint32_t retain, uint32_t n_max);
