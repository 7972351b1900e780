#pragma once

/* Standard streams that were closed, for programs: libraries leave them alone. */

#include <fcntl.h>

#include "proto/cleanup.h"

/*
 * To be called as a program begins: no file that it opens gets the number of a stream that is closed, and with that
 * what the program prints. Reads and writes of such a stream fail as before.
 */
static inline void proto_streams_reserve(void) {
        int fd;

        do
                fd = open("/", O_PATH | O_CLOEXEC);
        while (fd >= 0 && fd <= STDERR_FILENO);
        (void) proto_close(fd);
}
