#pragma once
/*
 * Two mistakes of a program, each in a process of its own: an object freed twice, and an object freed again
 * after somebody else got its memory. Then the process allocates all objects that are left. The outcome is a
 * number:
 */
#include "bench/harness/harness.h"
#include "bench/workloads/safety.h"

enum {
        MISUSE_REFUSED = 0,
        MISUSE_UNNOTICED = 1, /* no object was given out twice afterwards */
        MISUSE_DOUBLED = 2, /* an object was given out twice */
        MISUSE_CRASHED = 3,
        MISUSE_HUNG = 4,
};

#if BENCH_SHARED
#define MISUSE_OBJECTS 4096
#define MISUSE_MSEC 2000

typedef struct Misuse {
        Bench *bench;
        uint32_t outcome;
        uint64_t handles[2 * MISUSE_OBJECTS];
        void *objects[2 * MISUSE_OBJECTS];
} Misuse;

/* True: the allocator accepted the free, or has no checks. */
static bool misuse_free(uint64_t handle) {
#ifdef BENCH_HAS_CHECKS
        return bench_try_free(handle);
#else
        bench_free(handle);
        return true;
#endif
}

/* True: an object is given out twice from here on, or it is `taken`. */
static bool misuse_doubles(Misuse *m, const void *taken) {
        uint32_t n = 0;

        while (n < 2 * MISUSE_OBJECTS &&
               (m->handles[n] = bench_alloc(m->bench->options.size, &m->objects[n]))) {
                *(volatile uint64_t *) m->objects[n] = n;
                if (m->objects[n] == taken)
                        return true;
                n++;
        }
        for (uint32_t i = 0; i < n; i++)
                if (*(volatile uint64_t *) m->objects[i] != i)
                        return true;
        return false;
}

static void misuse_double_free(Misuse *m) {
        uint64_t handle;
        void *object;

        handle = bench_alloc_or_fail(m->bench->options.size, &object);
        bench_free(handle);
        if (!misuse_free(handle))
                m->outcome = MISUSE_REFUSED;
        else
                m->outcome = misuse_doubles(m, NULL) ? MISUSE_DOUBLED : MISUSE_UNNOTICED;
}

static void misuse_stale_free(Misuse *m) {
        size_t size = m->bench->options.size;
        void *object, *again = NULL;
        uint64_t handle;
        uint32_t n = 0;

        handle = bench_alloc_or_fail(size, &object);
        bench_free(handle);
        while (n++ < 2 * MISUSE_OBJECTS && again != object)
                (void) bench_alloc_or_fail(size, &again);
        if (again != object)
                bench_fail("memory that was freed does not come again");
        if (!misuse_free(handle))
                m->outcome = MISUSE_REFUSED;
        else
                m->outcome = misuse_doubles(m, again) ? MISUSE_DOUBLED : MISUSE_UNNOTICED;
}

static void misuse_one(Bench *bench, const char *name, void (*function)(Misuse *)) {
        Misuse *m = bench_reserve(sizeof(*m));
        int status;
        pid_t pid;

        m->bench = bench;
        pid = fork();
        if (pid == 0) {
                bench_init(bench, bench->options.size, MISUSE_OBJECTS);
                bench_thread_init();
                m->outcome = MISUSE_CRASHED;
                function(m);
                _exit(0);
        }
        if (pid < 0)
                bench_fail("fork failed");
        status = safety_wait(pid, MISUSE_MSEC);
        if (status == SAFETY_TOO_LONG)
                m->outcome = MISUSE_HUNG;
        else if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
                bench_fail("%s: not measured", name);
        bench_metric(bench, name, m->outcome);
}

static void workload_misuse(Bench *bench) {
        bench->tight = true;
        misuse_one(bench, "double_free", misuse_double_free);
        misuse_one(bench, "stale_free", misuse_stale_free);
}
#else
static void workload_misuse(Bench *bench) {
        bench->not_applicable = true;
}
#endif
