#pragma once
/*
 * A process is killed, or stopped, at a random moment: does the other one go on, and is anything lost?
 *
 * kill: two processes churn objects; one is killed. Is the other one still served? Then the survivor frees its
 * objects, and a process frees the objects that the victim had noted: can as many objects be allocated as in the
 * beginning? stop: one of the two is stopped. Is the other one still served?
 *
 * Every trial has a pool, and processes, of its own. Before each operation the churner notes the place that it is
 * about to change. With BENCH_HAS_CHECKS handles can be checked and freed twice, so the last operation's outcome
 * can be found out. Without it freeing the object might be wrong: it is left alone, and one object may be lost
 * though the allocator is whole.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/harness/harness.h"

#define SAFETY_OBJECTS 16384
#define SAFETY_PLACES 512
#define SAFETY_TRIALS 200
#define SAFETY_HUNG_MAX 20 /* a contender that hung so often is tried no more: that takes its time */
/* On a processor of its own, a process that is served makes progress in less. */
#define SAFETY_HUNG_MSEC 250
#define SAFETY_TRIAL_MSEC 5000
#define SAFETY_DELAY_USEC 2000
#define SAFETY_TOO_LONG (-1)

#if BENCH_SHARED
typedef struct SafetyTrial {
        Bench *bench;
        uint64_t seed;
        uint32_t done; /* churners end when it is set */
        uint32_t n_before, n_after, n_doubled;
        uint32_t served, counted, over;
        struct {
                uint64_t n_steps;
                uint64_t handles[SAFETY_PLACES];
                uint32_t changing; /* a place + 1; 0: none */
        } churners[2] __attribute__((aligned(64)));
        uint64_t all[SAFETY_OBJECTS * 2];
} SafetyTrial;

static void safety_step(SafetyTrial *trial, uint32_t me, Random *random) {
        uint32_t place = random_below(random, SAFETY_PLACES);
        uint64_t *handle = &trial->churners[me].handles[place], handle_was = *handle;
        size_t size = trial->bench->options.size;
        void *object;

        shm_store_rel(&trial->churners[me].changing, place + 1);
        if (handle_was) {
                bench_free(handle_was);
                shm_store_rel(handle, 0);
        } else {
#ifdef BENCH_HAS_CHECKS
                bench_alloc_noted(size, handle);
#else
                shm_store_rel(handle, bench_alloc_or_fail(size, &object));
#endif
                object = bench_get(*handle);
                if (!object)
                        bench_fail("an object is gone");
                bench_touch(object, *handle);
        }
        shm_store_rel(&trial->churners[me].changing, 0);
        shm_store_rel(&trial->churners[me].n_steps, trial->churners[me].n_steps + 1);
}

static void safety_free_all(SafetyTrial *trial, uint32_t whose) {
        for (uint32_t i = 0; i < SAFETY_PLACES; i++) {
                uint64_t handle = trial->churners[whose].handles[i];

#ifdef BENCH_HAS_CHECKS
                if (handle)
                        (void) bench_try_free(handle);
#else
                if (handle && trial->churners[whose].changing != i + 1)
                        bench_free(handle);
#endif
        }
}

static void safety_churn(SafetyTrial *trial, uint32_t me) {
        Random random;

        random_init(&random, trial->seed * 2 + me);
        bench_thread_init();
        while (!shm_load_acq(&trial->done))
                safety_step(trial, me, &random);
        safety_free_all(trial, me);
        bench_thread_deinit();
}

/* Allocates all objects, and writes to each: an object that another member has too does not keep its value. */
static void safety_count(SafetyTrial *trial, uint32_t *ret_n) {
        uint32_t n = 0;
        void *object;

        bench_thread_init();
        while (n < SAFETY_OBJECTS * 2 && (trial->all[n] = bench_alloc(trial->bench->options.size, &object))) {
                *(volatile uint64_t *) object = n;
                n++;
        }
        trial->n_doubled = 0;
        for (uint32_t i = 0; i < n; i++)
                trial->n_doubled += *(volatile uint64_t *) bench_get(trial->all[i]) != i;
        for (uint32_t i = 0; i < n && trial->n_doubled == 0; i++)
                bench_free(trial->all[i]);
        bench_thread_deinit();
        *ret_n = n;
}

static void safety_count_before(SafetyTrial *trial, uint32_t me) {
        safety_count(trial, &trial->n_before);
}

static void safety_count_after(SafetyTrial *trial, uint32_t me) {
        safety_free_all(trial, me);
        safety_count(trial, &trial->n_after);
}

static pid_t safety_fork(SafetyTrial *trial, uint32_t me, void (*function)(SafetyTrial *, uint32_t)) {
        pid_t parent = getpid(), pid = fork();

        if (pid < 0)
                bench_fail("fork failed");
        if (pid > 0)
                return pid;
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) /* it died before that */
                _exit(1);
        group_self = me;
        group_pin(me);
        function(trial, me);
        _exit(0);
}

static void safety_sleep(uint64_t usec) {
        const struct timespec time = { .tv_sec = (time_t) (usec / 1000000),
                                       .tv_nsec = (long) (usec % 1000000 * 1000) };

        (void) nanosleep(&time, NULL);
}

/* The exit status of a process that ends in time; one that hangs is killed. */
static int safety_wait(pid_t pid, uint32_t msec) {
        int status;

        for (uint32_t i = 0; i < msec * 10; i++) {
                if (waitpid(pid, &status, WNOHANG) == pid)
                        return status;
                safety_sleep(100);
        }
        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, &status, 0);
        return SAFETY_TOO_LONG;
}

static bool safety_is_served(const SafetyTrial *trial, uint32_t churner, uint32_t msec) {
        const uint64_t *n_steps = &trial->churners[churner].n_steps;
        uint64_t begin = shm_load_acq(n_steps);

        for (uint32_t i = 0; i < msec * 10; i++) {
                if (shm_load_acq(n_steps) > begin + 1000)
                        return true;
                safety_sleep(100);
        }
        return false;
}

/* The results are in `trial`, as this process may itself hang or crash. */
static void safety_trial(SafetyTrial *trial, bool kills) {
        Random random;
        pid_t victim, other;

        random_init(&random, trial->seed);
        bench_init(trial->bench, trial->bench->options.size, SAFETY_OBJECTS);
        if (safety_wait(safety_fork(trial, 0, safety_count_before), SAFETY_TRIAL_MSEC) != 0)
                bench_fail("the objects cannot be counted to begin with");
        victim = safety_fork(trial, 0, safety_churn);
        other = safety_fork(trial, 1, safety_churn);
        if (!safety_is_served(trial, 0, SAFETY_TRIAL_MSEC) || !safety_is_served(trial, 1, SAFETY_TRIAL_MSEC))
                bench_fail("it does not even begin");
        safety_sleep(random_below(&random, SAFETY_DELAY_USEC));
        (void) kill(victim, kills ? SIGKILL : SIGSTOP);
        if (kills)
                (void) waitpid(victim, NULL, 0);
#ifdef BENCH_HAS_CHECKS
        if (kills)
                bench_reap();
#endif
        trial->served = safety_is_served(trial, 1, SAFETY_HUNG_MSEC);
        shm_store_rel(&trial->done, 1);
        if (kills && trial->served && safety_wait(other, SAFETY_HUNG_MSEC) == 0)
                trial->counted =
                        safety_wait(safety_fork(trial, 0, safety_count_after), SAFETY_HUNG_MSEC * 2) == 0;
        else
                (void) kill(other, SIGKILL);
        if (!kills)
                (void) kill(victim, SIGKILL);
        trial->over = 1;
}

typedef struct SafetyCounts {
        uint32_t n_trials, n_hung, n_broken, n_with_lost, n_lost, n_doubled;
} SafetyCounts;

static void safety_sum(SafetyCounts *counts, const SafetyTrial *trial, bool kills) {
        counts->n_trials++;
        if (!trial->over)
                bench_fail("a trial (seed %llu) did not come to its end", (unsigned long long) trial->seed);
        if (!trial->served) {
                counts->n_hung++;
        } else if (kills && (!trial->counted || trial->n_doubled > 0)) {
                counts->n_broken++;
        } else if (kills && trial->n_after < trial->n_before) {
                counts->n_with_lost++;
                counts->n_lost += trial->n_before - trial->n_after;
        }
}

static void safety_run(Bench *bench, bool kills) {
        SafetyTrial *trial = bench_reserve(sizeof(*trial));
        uint64_t n = bench_n_ops(bench, SAFETY_TRIALS, 3);
        SafetyCounts counts = {};
        pid_t pid;

        bench->tight = true;
        for (uint64_t i = 0; i < n && counts.n_hung < SAFETY_HUNG_MAX; i++) {
                memset(trial, 0, offsetof(SafetyTrial, all));
                trial->bench = bench;
                trial->seed = i + 1;
                pid = fork();
                if (pid == 0) {
                        safety_trial(trial, kills);
                        _exit(bench->not_applicable ? 1 : 0);
                }
                if (pid < 0 || safety_wait(pid, 3 * SAFETY_TRIAL_MSEC) != 0)
                        bench_fail("a trial failed");
                safety_sum(&counts, trial, kills);
        }
        bench_metric(bench, "trials", counts.n_trials);
        bench_metric(bench, "hung", counts.n_hung);
        if (!kills)
                return;
        bench_metric(bench, "broken", counts.n_broken);
        bench_metric(bench, "with_lost", counts.n_with_lost);
        bench_metric(bench, "lost", counts.n_lost);
        /* The object in hand is not counted. */
        bench_metric(bench, "lost_more", counts.n_lost - counts.n_with_lost);
}

static void workload_safety_kill(Bench *bench) {
        safety_run(bench, true);
}

static void workload_safety_stop(Bench *bench) {
        safety_run(bench, false);
}
#else
static void workload_safety_kill(Bench *bench) {
        bench->not_applicable = true;
}

static void workload_safety_stop(Bench *bench) {
        bench->not_applicable = true;
}
#endif
