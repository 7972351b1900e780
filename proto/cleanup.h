#pragma once

/* Unwinding by attribute, for this folder's types. */

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef _cleanup_
#define _cleanup_(_x) __attribute__((__cleanup__(_x)))
#endif

/* The value of a variable, which becomes NULL. */
#define proto_steal(_p)                                                                                      \
        ({                                                                                                   \
                __typeof__(_p) _from = (_p);                                                                 \
                __typeof__(*_from) _v = *_from;                                                              \
                *_from = NULL;                                                                               \
                _v;                                                                                          \
        })

/* The value of a descriptor variable, which becomes -1. */
static inline int proto_steal_fd(int *fd) {
        int v = *fd;

        *fd = -1;
        return v;
}

static inline void proto_freep(void *p) {
        free(*(void **) p);
}

/* close() of a descriptor of our own; NULL of descriptors is -1. errno stays. */
static inline int proto_close(int fd) {
        if (fd >= 0) {
                int saved = errno;

                (void) close(fd);
                errno = saved;
        }
        return -1;
}

static inline void proto_closep(int *fd) {
        (void) proto_close(*fd);
}
