#include "bench/harness/memory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

_Noreturn void bench_fail(const char *format, ...) {
        va_list args;

        va_start(args, format);
        (void) fprintf(stderr, "%s: ", program_invocation_short_name);
        (void) vfprintf(stderr, format, args);
        (void) fputc('\n', stderr);
        va_end(args);
        _exit(1);
}

void bench_prefault(void *memory, size_t size) {
        size_t page = (size_t) sysconf(_SC_PAGESIZE);

        if (madvise(memory, (size + page - 1) & ~(page - 1), MADV_POPULATE_WRITE) == 0)
                return;
        /* Linux before 5.14: writing back each page's own bytes faults as well. */
        for (size_t i = 0; i < size; i += page)
                ((volatile char *) memory)[i] = ((volatile char *) memory)[i];
}

void *bench_reserve(size_t size) {
        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        if (memory == MAP_FAILED)
                bench_fail("no memory for %zu bytes: %s", size, strerror(errno));
        bench_prefault(memory, size);
        return memory;
}

uint64_t bench_rss(void) {
        unsigned long size = 0, resident = 0;
        FILE *file = fopen("/proc/self/statm", "re");

        if (!file || fscanf(file, "%lu %lu", &size, &resident) != 2)
                bench_fail("cannot read /proc/self/statm");
        (void) fclose(file);
        return (uint64_t) resident * (uint64_t) sysconf(_SC_PAGESIZE);
}

uint64_t bench_n_faults(void) {
        struct rusage usage;

        (void) getrusage(RUSAGE_THREAD, &usage);
        return (uint64_t) usage.ru_minflt;
}
