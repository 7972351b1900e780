#include "daemon/ctl/leaks/stacks.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/ctl/base/complain.h"
#include "proto/cleanup.h"
#include "proto/text.h"
#include "shm/cache/object.h"

#define MODULES_MAX 4096U /* modules of all clients together */
#define OFFSET_MASK ((UINT64_C(1) << SAMPLES_MODULE_SHIFT) - 1)

/* Copies the file, because the client may write to it and cut it off all the while. */
static int read_file(int fd, SamplesFile *ret) {
        size_t n = 0;

        while (n < sizeof(*ret)) {
                ssize_t got = pread(fd, (uint8_t *) ret + n, sizeof(*ret) - n, (off_t) n);

                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return -errno;
                if (got == 0)
                        return -EBADMSG;
                n += (size_t) got;
        }
        return ret->magic == SAMPLES_MAGIC ? 0 : -EBADMSG;
}

static bool same_module(const StackModule *a, const StackModule *b) {
        return a->build_id_size == b->build_id_size && !strcmp(a->path, b->path) &&
               !memcmp(a->build_id, b->build_id, sizeof(a->build_id));
}

/* The index of the client's module among the modules of all clients. */
static uint32_t add_module(Stacks *stacks, const SamplesModule *from) {
        char path[SAMPLES_PATH_SIZE];
        StackModule module = {};

        memcpy(path, from->path, sizeof(path));
        path[sizeof(path) - 1] = 0;
        proto_text_clean(module.path, sizeof(module.path), path);
        if (from->build_id_size <= SAMPLES_BUILD_ID_MAX) {
                module.build_id_size = from->build_id_size;
                memcpy(module.build_id, from->build_id, from->build_id_size);
        }
        for (size_t i = 0; i < stacks->n_modules; ++i)
                if (same_module(&stacks->modules[i], &module))
                        return (uint32_t) i;
        if (stacks->n_modules == MODULES_MAX)
                return UINT32_MAX;
        if (!stacks->modules)
                stacks->modules = must(calloc(MODULES_MAX, sizeof(module)));
        stacks->modules[stacks->n_modules] = module;
        return (uint32_t) stacks->n_modules++;
}

static void add_frames(StackSample *sample, const SamplesEntry *entry, const uint32_t *modules,
                       uint32_t n_modules) {
        sample->n_frames = entry->n_frames < SAMPLES_FRAMES_MAX ? entry->n_frames : SAMPLES_FRAMES_MAX;
        for (uint32_t i = 0; i < sample->n_frames; ++i) {
                uint64_t module = entry->frames[i] >> SAMPLES_MODULE_SHIFT;

                sample->frames[i].module =
                        module > 0 && module <= n_modules ? modules[module - 1] : UINT32_MAX;
                sample->frames[i].offset = entry->frames[i] & OFFSET_MASK;
        }
}

static StackSample *add_sample(Stacks *stacks) {
        if (stacks->n_samples == stacks->room) {
                stacks->room = stacks->room ? 2 * stacks->room : 1024;
                stacks->samples = must(realloc(stacks->samples, stacks->room * sizeof(stacks->samples[0])));
        }
        stacks->samples[stacks->n_samples] = (StackSample){};
        return &stacks->samples[stacks->n_samples++];
}

/* An entry is whole if two readings have it alike and it is not being written. */
static bool is_whole(const SamplesEntry *a, const SamplesEntry *b) {
        return a->seq != 0 && a->seq % 2 == 0 && !memcmp(a, b, sizeof(*a));
}

int stacks_add(Stacks *stacks, const ShmArena *arena, int fd, uint32_t source, uint32_t every,
               StackSource *ret) {
        _cleanup_(proto_freep) SamplesFile *first = must(malloc(sizeof(*first)));
        _cleanup_(proto_freep) SamplesFile *second = must(malloc(sizeof(*second)));
        uint32_t modules[SAMPLES_MODULES_MAX], n_modules;
        int r;

        r = read_file(fd, first) ?: read_file(fd, second);
        if (r)
                return r;
        *ret = (StackSource){ .n_taken = second->n_taken, .n_lost = second->n_lost };
        n_modules = second->n_modules < SAMPLES_MODULES_MAX ? second->n_modules : SAMPLES_MODULES_MAX;
        for (uint32_t i = 0; i < n_modules; ++i)
                modules[i] = add_module(stacks, &second->modules[i]);

        for (size_t i = 0; i < SAMPLES_N; ++i) {
                const SamplesEntry *entry = &second->entries[i];
                StackSample *sample;
                size_t size;
                void *object;

                if (!is_whole(&first->entries[i], entry) ||
                    shm_object_get(arena, entry->handle, &object, &size) != 0)
                        continue;
                sample = add_sample(stacks);
                add_frames(sample, entry, modules, n_modules);
                sample->source = source;
                sample->every = every;
                sample->size = size;
                sample->usec = entry->usec;
                ret->n_live++;
        }
        return 0;
}

static int compare_stacks(const void *a, const void *b) {
        const StackSample *x = a, *y = b;

        for (uint32_t i = 0; i < x->n_frames && i < y->n_frames; ++i) {
                if (x->frames[i].module != y->frames[i].module)
                        return x->frames[i].module < y->frames[i].module ? -1 : 1;
                if (x->frames[i].offset != y->frames[i].offset)
                        return x->frames[i].offset < y->frames[i].offset ? -1 : 1;
        }
        return x->n_frames < y->n_frames ? -1 : x->n_frames > y->n_frames;
}

static int compare_groups(const void *a, const void *b) {
        const StackGroup *x = a, *y = b;

        if (x->n_bytes != y->n_bytes)
                return x->n_bytes > y->n_bytes ? -1 : 1;
        return x->oldest_usec < y->oldest_usec ? -1 : x->oldest_usec > y->oldest_usec;
}

static void add_to_group(StackGroup *group, const StackSample *sample) {
        if (group->n_samples++ == 0) {
                group->samples = sample;
                group->oldest_usec = group->newest_usec = sample->usec;
        }
        group->n_objects += sample->every;
        group->n_bytes += sample->every * sample->size;
        if (sample->usec < group->oldest_usec)
                group->oldest_usec = sample->usec;
        if (sample->usec > group->newest_usec)
                group->newest_usec = sample->usec;
}

void stacks_group(Stacks *stacks) {
        StackSample *samples = stacks->samples;

        if (stacks->n_samples == 0)
                return;
        qsort(samples, stacks->n_samples, sizeof(samples[0]), compare_stacks);
        stacks->groups = must(calloc(stacks->n_samples, sizeof(stacks->groups[0])));
        for (size_t i = 0; i < stacks->n_samples; ++i) {
                if (i == 0 || compare_stacks(&samples[i - 1], &samples[i]))
                        stacks->n_groups++;
                add_to_group(&stacks->groups[stacks->n_groups - 1], &samples[i]);
        }
        qsort(stacks->groups, stacks->n_groups, sizeof(stacks->groups[0]), compare_groups);
}

void stacks_deinit(Stacks *stacks) {
        free(stacks->modules);
        free(stacks->samples);
        free(stacks->groups);
        *stacks = (Stacks){};
}
