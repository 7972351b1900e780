#include "bench/harness/group.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/harness/memory.h"
#include "shm/arch/atomic.h"

typedef struct Member {
        GroupFunction function;
        void *arg;
        double *share; /* the part of its time that it had a processor */
        uint32_t index;
} Member;

__thread uint32_t group_self;

static cpu_set_t cpus; /* when the program started */
static uint32_t n_cpus;

uint32_t group_n_cpus(void) {
        if (n_cpus == 0) {
                if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
                        bench_fail("sched_getaffinity: %s", strerror(errno));
                n_cpus = (uint32_t) CPU_COUNT(&cpus);
        }
        return n_cpus;
}

void group_pin(uint32_t i) {
        uint32_t skip = i % group_n_cpus();
        cpu_set_t one;

        for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--) {
                if (!CPU_ISSET(cpu, &cpus) || skip-- > 0)
                        continue;
                CPU_ZERO(&one);
                CPU_SET(cpu, &one);
                (void) sched_setaffinity(0, sizeof(one), &one);
                return;
        }
}

void spin_yield(void) {
        (void) sched_yield();
}

void barrier_wait(Barrier *barrier) {
        uint32_t round = shm_load_acq(&barrier->n_passed), turns = 0;

        if (shm_add_acqrel(&barrier->n_arrived, 1) + 1 == barrier->n) {
                shm_store_rlx(&barrier->n_arrived, 0);
                shm_store_rel(&barrier->n_passed, round + 1);
                return;
        }
        while (shm_load_acq(&barrier->n_passed) == round)
                if (barrier->n > barrier->n_cpus)
                        spin_yield();
                else
                        spin_once(&turns);
}

static double now_seconds(clockid_t clock) {
        struct timespec now;

        clock_gettime(clock, &now);
        return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static void *run_thread(void *p) {
        const Member *member = p;
        double begin = now_seconds(CLOCK_MONOTONIC), used = now_seconds(CLOCK_THREAD_CPUTIME_ID);

        group_self = member->index;
        group_pin(member->index);
        member->function(member->arg, member->index);
        used = now_seconds(CLOCK_THREAD_CPUTIME_ID) - used;
        *member->share = used / (now_seconds(CLOCK_MONOTONIC) - begin);
        return NULL;
}

static void run_threads(uint32_t n, Member *members) {
        pthread_t threads[GROUP_MEMBERS_MAX];
        int r;

        for (uint32_t i = 0; i < n; i++) {
                r = pthread_create(&threads[i], NULL, run_thread, &members[i]);
                if (r != 0)
                        bench_fail("pthread_create: %s", strerror(r));
        }
        for (uint32_t i = 0; i < n; i++)
                (void) pthread_join(threads[i], NULL);
}

/* A member that fails leaves the others spinning at a barrier, so they are killed. */
static void wait_for(uint32_t n, pid_t *pids) {
        int status;
        pid_t pid;

        for (uint32_t left = n; left > 0; left--) {
                pid = wait(&status);
                for (uint32_t i = 0; i < n; i++)
                        if (pids[i] == pid)
                                pids[i] = 0;
                if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
                        continue;
                for (uint32_t i = 0; i < n; i++)
                        if (pids[i] > 0)
                                (void) kill(pids[i], SIGKILL);
                bench_fail("a member of the group failed (status 0x%x)", (unsigned int) status);
        }
}

static void run_processes(uint32_t n, Member *members) {
        pid_t pids[GROUP_MEMBERS_MAX], parent = getpid();

        for (uint32_t i = 0; i < n; i++) {
                pids[i] = fork();
                if (pids[i] < 0)
                        bench_fail("fork: %s", strerror(errno));
                if (pids[i] > 0)
                        continue;
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (getppid() == parent)
                        run_thread(&members[i]);
                _exit(0);
        }
        wait_for(n, pids);
}

double group_run(uint32_t n, bool processes, GroupFunction function, void *arg) {
        Member members[GROUP_MEMBERS_MAX];
        double *shares = bench_reserve(GROUP_MEMBERS_MAX * sizeof(shares[0])), least = 1;

        if (n == 0 || n > GROUP_MEMBERS_MAX)
                bench_fail("%u members, at most %d", n, GROUP_MEMBERS_MAX);
        for (uint32_t i = 0; i < n; i++)
                members[i] = (Member){ .function = function, .arg = arg, .share = &shares[i], .index = i };
        if (n == 1)
                run_thread(&members[0]);
        else if (processes)
                run_processes(n, members);
        else
                run_threads(n, members);
        for (uint32_t i = 0; i < n; i++)
                least = shares[i] < least ? shares[i] : least;
        return least;
}
