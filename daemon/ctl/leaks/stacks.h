#pragma once

/*
 * Sampled allocations with live objects, grouped by the call stack. Clients write the samples, so all
 * numbers are checked here and all text is cleaned.
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
        uint32_t source; /* index of the client, as the caller counts clients */
        uint32_t every;
        uint64_t size; /* bytes, by the class of the object */
        uint64_t usec;
} StackSample;

typedef struct StackGroup {
        const StackSample *samples; /* all with the same stack */
        size_t n_samples;
        uint64_t n_objects; /* estimated from the sampling rate */
        uint64_t n_bytes;
        uint64_t oldest_usec, newest_usec;
} StackGroup;

typedef struct Stacks {
        StackModule *modules;
        size_t n_modules;
        StackSample *samples;
        size_t n_samples, room;
        StackGroup *groups; /* largest first */
        size_t n_groups;
} Stacks;

typedef struct StackSource {
        uint64_t n_taken; /* all samples, live or not */
        uint64_t n_live;
        uint64_t n_lost;
} StackSource;

/* Adds the samples that a client wrote to its memfd. 0; -EBADMSG: the file holds no samples; ... */
int stacks_add(Stacks *stacks, const ShmArena *arena, int fd, uint32_t source, uint32_t every,
               StackSource *ret);
/* Groups the samples after the last stacks_add(). */
void stacks_group(Stacks *stacks);
void stacks_deinit(Stacks *stacks);
