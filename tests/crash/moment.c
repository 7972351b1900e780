#include "tests/crash/moment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/util/test.h"

#define PAGE 4096U

/* Whether the system call waits for an answer. */
static bool waits(long call) {
        return call == SYS_poll || call == SYS_ppoll;
}

static bool maps(long call) {
        return call == SYS_mmap || call == SYS_mprotect || call == SYS_mremap;
}

static void protect(Walk *walk, uintptr_t address, size_t size, int how) {
        assert_int_equal(trace_inject(walk->trace, SYS_mprotect, address, size, (uint64_t) how), 0);
}

/* All mappings of the metadata that are of the other kind. */
static void protect_all(Walk *walk, bool watch) {
        char path[32], line[512], kind[8];
        unsigned long long begin, end, offset, inode;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/maps", (int) walk->trace->pid);
        file = fopen(path, "re");
        assert_non_null(file);
        while (fgets(line, sizeof(line), file)) {
                if (sscanf(line, "%llx-%llx %7s %llx %*s %llu", &begin, &end, kind, &offset, &inode) != 5 ||
                    inode != walk->inode || !strstr(line, "/memfd:tslab") || offset >= walk->size ||
                    strcmp(kind, watch ? "rw-s" : "r--s") != 0)
                        continue;
                if (end - begin > walk->size - offset)
                        end = begin + walk->size - offset;
                protect(walk, begin, end - begin, watch ? PROT_READ : PROT_READ | PROT_WRITE);
        }
        fclose(file);
}

/* The instruction that was about to write. It may write to two pages. */
static void let_through(Walk *walk) {
        uintptr_t pages[2];
        unsigned n = 0;
        int signal;

        do {
                assert_true(n < 2);
                pages[n] = trace_fault_address(walk->trace) / PAGE * PAGE;
                protect(walk, pages[n++], PAGE, PROT_READ | PROT_WRITE);
                signal = trace_try(walk->trace);
        } while (signal == SIGSEGV);
        assert_int_equal(signal, SIGTRAP);
        while (n-- > 0)
                protect(walk, pages[n], PAGE, PROT_READ);
}

static void begin_call(Walk *walk) {
        walk->in_call = true;
        walk->call = trace_call_number(walk->trace);
}

static void end_call(Walk *walk) {
        walk->in_call = false;
        if (waits(walk->call))
                daemon_hold(walk->daemon);
        if (maps(walk->call))
                protect_all(walk, true);
}

void walk_begin(Walk *walk, Trace *trace, const ShmArena *arena, const DaemonFixture *daemon) {
        struct stat st;

        assert_int_equal(fstat(arena->fd, &st), 0);
        *walk = (Walk){
                .trace = trace,
                .arena = arena,
                .daemon = daemon,
                .inode = st.st_ino,
                .size = (size_t) (arena->slabs - arena->base),
        };
        assert_true(trace_step(trace));
        protect_all(walk, true);
}

bool walk_next(Walk *walk) {
        int signal;

        if (walk->in_call && waits(walk->call))
                daemon_release(walk->daemon);
        if (!trace_run(walk->trace, &signal)) {
                if (signal != SIGSTOP)
                        trace_finish(walk->trace);
                return false;
        }
        if (signal == SIGSEGV) {
                let_through(walk);
                walk->moment.n_writes++;
                return true;
        }
        assert_int_equal(signal, TRACE_CALL);
        walk->moment = (Moment){ .n_calls = walk->moment.n_calls + 1 };
        if (walk->in_call)
                end_call(walk);
        else
                begin_call(walk);
        return true;
}

void walk_end(Walk *walk) {
        int signal;

        if (walk->in_call) {
                assert_true(trace_run(walk->trace, &signal));
                assert_int_equal(signal, TRACE_CALL);
                walk->in_call = false;
        }
        protect_all(walk, false);
}

static void step_over_call(Walk *walk, long call) {
        walk->call = call;
        if (waits(call))
                daemon_release(walk->daemon);
        (void) trace_try(walk->trace);
        end_call(walk);
}

/* Whether it may have written: by the system, or as it was found to. */
static bool step(Walk *walk) {
        long call;

        if (trace_at_call(walk->trace, &call)) {
                step_over_call(walk, call);
                return true;
        }
        if (trace_try(walk->trace) != SIGSEGV)
                return false;
        let_through(walk);
        return true;
}

unsigned walk_step_through(Walk *walk, unsigned *ret_missed) {
        const uint8_t *now = walk->arena->base;
        uint8_t *before = malloc(walk->size);
        unsigned n = 0;

        assert_non_null(before);
        memcpy(before, now, walk->size);
        *ret_missed = 0;
        for (; walk->trace->shared->inside == 1; n++) {
                bool found = step(walk);

                if (memcmp(before, now, walk->size) == 0)
                        continue;
                *ret_missed += !found;
                memcpy(before, now, walk->size);
        }
        free(before);
        return n;
}
