/* The calls that need no allocator. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "slab-alloc/state.h"

_public_ uint32_t slab_object_count(uint32_t obj_size) {
        AllocatorClasses classes;

        if (!classes_read(&classes) || obj_size == 0 || obj_size > classes_size_max(&classes))
                return 0;
        return SHM_SLAB_SIZE / classes_size_of(&classes, obj_size);
}

_public_ uint64_t read_rss_bytes_linux(void) {
        unsigned long long size, resident;
        FILE *file = fopen("/proc/self/statm", "re");
        int n;

        if (!file)
                return 0;
        n = fscanf(file, "%llu %llu", &size, &resident);
        fclose(file);
        return n == 2 ? resident * (uint64_t) sysconf(_SC_PAGESIZE) : 0;
}

_public_ uint64_t now_ns(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}
