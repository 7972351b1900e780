#pragma once
/*
 * Checking an arena, alive or not, without writing to it: every slot of every slab in use is free in its bitmap, live,
 * in exactly one cache, or in flight; hints agree with words.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/arena/record.h"
#include "shm/maintain/check-facts.h"

/* 0 or -ENOMEM. The arena is clean when `problems` is 0. */
int shm_check(const ShmArena *arena, ShmCheck *ret);
/*
 * As shm_check(), and it repairs: gives lost slots back, sets missing hints, and releases slabs whose holder's record
 * is not in use. For the maintainer.
 */
int shm_check_repair(ShmActor *control, ShmCheck *ret);

/*
 * The check in steps, between which the caller does other work. With `control` NULL it repairs nothing. The caller
 * owns `result`; its sums are final after the last step.
 *
 *     n_slabs = shm_arena_n_slabs_ever(arena);
 *     run = shm_check_begin(calloc(1, shm_check_size(arena, n_slabs)), arena, n_slabs, control, &result);
 *     while (shm_check_step(run, n))
 *             ;
 *     free(run);
 */
typedef struct ShmCheckRun ShmCheckRun;

/* How many bytes of zeros a check of the first n_slabs slabs takes from its caller. */
size_t shm_check_size(const ShmArena *arena, uint32_t n_slabs);
/* The run is `memory`, which the caller frees in the end. */
ShmCheckRun *shm_check_begin(void *memory, const ShmArena *arena, uint32_t n_slabs, ShmActor *control,
                             ShmCheck *result);
/* Looks at up to n slabs, or checks a batch of candidates. False: the check is over. */
bool shm_check_step(ShmCheckRun *run, uint32_t n);
/* How far the check is, in slabs. */
void shm_check_progress(const ShmCheckRun *run, uint32_t *ret_done, uint32_t *ret_total);
