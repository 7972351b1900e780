#pragma once
/*
 * Calls to a daemon, with --pool: attaching, advancing, closing a small epoch, asking for statistics. Meanwhile
 * --clients processes are attached, each with --threads threads that have used the pool, and --fill bytes of
 * objects live in it.
 *
 * With --restart it then says "ready" on stderr, waits for a line on stdin, and times the first control call:
 * the caller has put another daemon in place.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/harness/harness.h"

#ifdef BENCH_HAS_ATTACH
#define CONTROL_CALLS 20
#define CONTROL_CLOSE_BYTES (UINT64_C(4) << 20)

typedef struct Crowd {
        Bench *bench;
        uint32_t n_up; /* threads that have a record */
        int gate[2]; /* the threads end when it is closed */
} Crowd;

static void *control_thread(void *arg) {
        Crowd *crowd = arg;
        char byte;

        bench_thread_init();
        (void) shm_add_acqrel(&crowd->n_up, 1);
        (void) !read(crowd->gate[0], &byte, 1);
        return NULL;
}

static void control_client(Crowd *crowd) {
        uint32_t n = crowd->bench->options.n_threads;
        pthread_attr_t attr;
        pthread_t thread;

        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void) close(crowd->gate[1]);
        (void) pthread_attr_init(&attr);
        (void) pthread_attr_setstacksize(&attr, 64 << 10);
        for (uint32_t i = 1; i < n; i++)
                if (pthread_create(&thread, &attr, control_thread, crowd) != 0)
                        bench_fail("no thread %u", i);
        (void) control_thread(crowd);
        _exit(0);
}

static Crowd *control_crowd(Bench *bench) {
        Crowd *crowd = bench_reserve(sizeof(*crowd));
        uint32_t n = bench->options.n_clients;
        uint32_t turns = 0;

        crowd->bench = bench;
        if (pipe(crowd->gate) < 0)
                bench_fail("no pipe");
        for (uint32_t i = 0; i < n; i++) {
                pid_t pid = fork();

                if (pid == 0)
                        control_client(crowd);
                if (pid < 0)
                        bench_fail("no process %u", i);
        }
        while (shm_load_acq(&crowd->n_up) < n * bench->options.n_threads) {
                spin_once(&turns);
                if (waitpid(-1, NULL, WNOHANG) > 0)
                        bench_fail("a client failed");
        }
        return crowd;
}

static void control_disperse(Crowd *crowd) {
        (void) close(crowd->gate[1]);
        while (wait(NULL) > 0)
                ;
}

static double control_fill(Bench *bench) {
        uint64_t n = bench->options.fill / bench->options.size;
        void *object;

        for (uint64_t i = 0; i < n; i++) {
                (void) bench_alloc_or_fail(bench->options.size, &object);
                bench_touch(object, i);
        }
        return (double) n;
}

static void control_close_small(Bench *bench, Histogram *advance, Histogram *close) {
        uint64_t n = CONTROL_CLOSE_BYTES / bench->options.size, begin;
        uint64_t *handles = bench_reserve(n * sizeof(handles[0]));
        uint32_t epoch;
        void *object;

        for (uint64_t i = 0; i < n; i++)
                handles[i] = bench_alloc_or_fail(bench->options.size, &object);
        for (uint64_t i = 0; i < n; i++)
                bench_free(handles[i]);
        begin = clock_now();
        epoch = bench_epoch_advance();
        histogram_add(advance, clock_now() - begin);
        begin = clock_now();
        bench_epoch_close(epoch);
        histogram_add(close, clock_now() - begin);
        (void) munmap(handles, n * sizeof(handles[0]));
}

static void control_measure(Bench *bench) {
        Histogram *attach = histogram_new(), *advance = histogram_new(), *close = histogram_new(),
                  *stats = histogram_new();
        uint64_t begin;

        for (uint32_t i = 0; i < CONTROL_CALLS; i++) {
                control_close_small(bench, advance, close);
                begin = clock_now();
                bench_ask_stats(bench);
                histogram_add(stats, clock_now() - begin);
                bench_attach_once(bench, attach);
        }
        bench_latencies(bench, "attach", attach);
        bench_latencies(bench, "advance", advance);
        bench_latencies(bench, "close", close);
        bench_latencies(bench, "stats", stats);
}

static void control_restart(Bench *bench) {
        uint64_t begin;

        (void) fputs("ready\n", stderr);
        if (getchar() == EOF)
                bench_fail("nobody restarted the daemon");
        begin = clock_now();
        (void) bench_epoch_advance();
        bench_metric(bench, "first_call_ms",
                     clock_net_ns(&bench->clock, (double) (clock_now() - begin)) / 1e6);
}

static void workload_control(Bench *bench) {
        Crowd *crowd;

        (void) bench_n_members(bench, 1);
        bench->not_applicable = !bench->options.pool;
        if (bench->not_applicable)
                return;
        bench_init(bench, bench->options.size, 1);
        crowd = control_crowd(bench);
        bench_thread_init();
        bench_metric(bench, "filled_objects", control_fill(bench));
        if (bench->options.restart)
                control_restart(bench);
        else
                control_measure(bench);
        control_disperse(crowd);
        bench_thread_deinit();
}
#else
static void workload_control(Bench *bench) {
        bench->not_applicable = true;
}
#endif
