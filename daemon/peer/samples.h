#pragma once
/*
 * Memfds with samples of allocations, one of each client that sends one. The daemon does not read them. It keeps a
 * memfd after its client has died, since that is when people ask for the samples.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/peer/client-watch.h"

#define SAMPLES_KEPT 64U

typedef struct Samples Samples;

/* Zeros, but for `clients`, are an empty list. */
typedef struct SamplesList {
        const Clients *clients;
        Samples *first; /* the newest */
} SamplesList;

struct Samples {
        Samples *next;
        uint32_t client;
        pid_t pid; /* 0: not known */
        uint32_t mark; /* as in ClientWatch: the number of a client, or a process, is given anew */
        uid_t uid;
        char comm[16];
        uint32_t every;
        int fd;
};

/* Checks that `fd` is a memfd of the right size. 0 or a negative errno. */
int samples_check(int fd);

/*
 * Keeps `fd`, and takes it on success. It replaces an earlier memfd of the same client or, if the list is full, the
 * oldest one of a client that has ended. -ENOBUFS: the list is full, and all its clients live.
 */
int samples_add(SamplesList *list, const Samples *about, int fd);
/* `index` counts from 0, the oldest one. NULL: there are not so many. */
const Samples *samples_get(const SamplesList *list, uint32_t index);
/* Whether the client has ended. */
bool samples_is_gone(const SamplesList *list, const Samples *samples);
void samples_clear(SamplesList *list);
