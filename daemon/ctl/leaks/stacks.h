#pragma once

/*
 * Sampled allocations whose objects live, grouped by the stack that they came from. What clients
 * wrote is checked here, and text in it cleaned.
 */

#include <stddef.h>
#include <stdint.h>

#include "proto/samples.h"
#include "shm/arena/arena.h"

typedef struct StackModule {
        char path[SAMPLES_PATH_SIZE];
        uint8_t build_id[SAMPLES_BUILD_ID_MAX];
        uint32_t build_id_size;
} StackModule;

typedef struct StackFrame {
        uint32_t module; /* in Stacks.modules; UINT32_MAX: not known */
        uint64_t offset; /* in the module, or an address */
} StackFrame;

typedef struct StackSample {
        StackFrame frames[SAMPLES_FRAMES_MAX];
        uint32_t n_frames;
        uint32_t source; /* whose it is, as the caller counts them */
        uint32_t every;
        uint64_t size; /* of the object's class */
        uint64_t usec;
} StackSample;

typedef struct StackGroup {
        const StackSample *samples; /* of one stack */
        size_t n_samples;
        uint64_t n_objects; /* that there may be, by the rate of sampling */
        uint64_t n_bytes;
        uint64_t oldest_usec, newest_usec;
} StackGroup;

typedef struct Stacks {
        StackModule *modules;
        size_t n_modules;
        StackSample *samples;
        size_t n_samples, room;
        StackGroup *groups; /* those that hold most first */
        size_t n_groups;
} Stacks;

typedef struct StackSource {
        uint64_t n_taken; /* samples in all */
        uint64_t n_live;
        uint64_t n_lost;
} StackSource;

/* Takes in what a client wrote to the memfd. 0; -EBADMSG: that is none of samples; ... */
int stacks_add(Stacks *stacks, const ShmArena *arena, int fd, uint32_t source, uint32_t every,
               StackSource *ret);
/* When all are in. */
void stacks_group(Stacks *stacks);
void stacks_deinit(Stacks *stacks);
