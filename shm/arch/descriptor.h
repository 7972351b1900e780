#pragma once
/*
 * A program may have closed its standard streams. A file that got the number of one would receive what the program, or
 * a library in it, prints: in an arena, text over the header.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/*
 * The file of `fd`, which is closed, under a number above those of standard streams. `fd` itself, if it is above them
 * or negative. An error: `fd` is closed; -EMFILE if no such number is left, or allowed.
 */
static inline int shm_descriptor_above_streams(int fd) {
        int above, error;

        if (fd < 0 || fd > STDERR_FILENO)
                return fd;
        above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        error = errno == EINVAL ? EMFILE : errno; /* the limit is that number, or less */
        (void) close(fd);
        return above < 0 ? -error : above;
}
