#pragma once
/*
 * Memfds with samples of allocations that clients gave us, one each, and kept when they die: that
 * is when they are asked for. We look into none of them.
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
        pid_t pid;
        uid_t uid;
        char comm[16];
        uint32_t every;
        int fd;
};

/* Whether `fd` is a memfd, of a size that may be. 0 or a negative errno. */
int samples_check(int fd);

/*
 * Keeps `fd`, which it takes when it succeeds, in place of what this client gave before; or of the
 * oldest one whose client is gone. -ENOBUFS: all that there are belong to clients that live.
 */
int samples_add(SamplesList *list, const Samples *about, int fd);
/* From 0, the oldest one; NULL: there are not so many. */
const Samples *samples_get(const SamplesList *list, uint32_t index);
/* Its client is no more. */
bool samples_is_gone(const SamplesList *list, const Samples *samples);
void samples_clear(SamplesList *list);
