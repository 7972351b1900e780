/*
 * Time namespaces
 *
 * Purpose: finds the offset of this process's clocks.
 *
 * Invariants
 *   1. `boot_ns` is an offset that this process had at some time, or 0.
 *
 * Who may do what: any thread. Nothing here is shared with other processes.
 *
 * Crash: nothing is shared.
 */
#include "shm/clock/time-namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shm/arch/atomic.h"

#define HOST "time:[4026531834]" /* PROC_TIME_INIT_INO of the kernel, which is part of its interface */

static int64_t boot_ns; /* as it was found last */

static bool read_link(const char *path, char *buffer, size_t size) {
        ssize_t n = readlink(path, buffer, size - 1);

        buffer[n < 0 ? 0 : n] = 0;
        return n > 0;
}

static bool read_text(const char *path, char *buffer, size_t size) {
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        ssize_t n = fd < 0 ? -1 : read(fd, buffer, size - 1);

        if (fd >= 0)
                close(fd);
        buffer[n < 0 ? 0 : n] = 0;
        return n > 0;
}

/* False: it cannot be found. */
static bool find_boot_ns(int64_t *ret) {
        char own[32], children[32], offsets[256], *at;
        long long s;
        long ns;

        if (!read_link("/proc/self/ns/time", own, sizeof(own)) ||
            !read_link("/proc/self/ns/time_for_children", children, sizeof(children)))
                return false;
        *ret = 0;
        if (strcmp(own, HOST) == 0)
                return true;
        /* The file tells the offsets of the namespace in which children begin: after an unshare(2), that is another. */
        if (strcmp(own, children) != 0 || !read_text("/proc/self/timens_offsets", offsets, sizeof(offsets)))
                return false;
        at = strstr(offsets, "boottime");
        if (!at || sscanf(at, "boottime %lld %ld", &s, &ns) != 2)
                return false;
        *ret = s * INT64_C(1000000000) + ns;
        return true;
}

int64_t shm_time_namespace_boot_ns(void) {
        int saved = errno; /* a caller looks at the clock */
        int64_t ns;

        if (find_boot_ns(&ns))
                shm_local_store_rlx(&boot_ns, ns); /* ORDER: rlx; one word. */
        else
                ns = shm_local_load_acq(&boot_ns); /* ORDER: acq; a value that was found. */
        errno = saved;
        return ns;
}
