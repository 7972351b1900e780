/*
 * A worker that may be killed anywhere, and is started again. Its objects are pending until they are linked:
 * if the worker dies before that, they are freed; if it dies later, all of them stay. So each job is done
 * once, though the worker is killed all the time.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tslab.h>

#define JOBS 60

struct result {
        int job;
        int pid;
        char text[200];
};

/* The roots name finished jobs: here, linking an object means setting its root. */
static int do_job(struct tslab *pool, int job) {
        struct result *result;
        tslab_handle handle;
        char name[20];
        int r;

        snprintf(name, sizeof(name), "job %d", job);
        if (tslab_root_get(pool, name, &handle) == 0)
                return 0; /* an earlier worker did it */
        r = tslab_alloc_pending(pool, sizeof(*result), TSLAB_EPOCH_CURRENT, &handle, (void **) &result);
        if (r < 0)
                return r;
        *result = (struct result){ .job = job, .pid = getpid() };
        snprintf(result->text, sizeof(result->text), "%d squared is %d", job, job * job);
        /* Published first: a root must not name an object that a death frees. A death between the two loses one. */
        r = tslab_publish(pool, handle);
        return r < 0 ? r : tslab_root_set(pool, name, 0, handle);
}

static int work_on_jobs(struct tslab *pool) {
        int r = 0;

        for (int job = 0; r == 0 && job < JOBS; job++)
                r = do_job(pool, job);
        return r;
}

/* Starts it, kills it somewhere, over and over, until one comes to the end. How many it took; negative: it failed. */
static int supervise_worker(struct tslab *pool) {
        for (int n = 1;; n++) {
                struct timespec a_while = { .tv_nsec = rand() % 300000 * n };
                pid_t pid = fork();
                int status, r;

                if (pid < 0)
                        return -1;
                if (pid == 0)
                        _exit(work_on_jobs(pool) < 0);
                nanosleep(&a_while, NULL);
                kill(pid, SIGKILL);
                waitpid(pid, &status, 0);
                r = tslab_reap(pool); /* a daemon does that by itself */
                if (r < 0 || (WIFEXITED(status) && WEXITSTATUS(status) != 0))
                        return -1;
                if (WIFEXITED(status))
                        return n;
        }
}

static int check_jobs(struct tslab *pool) {
        struct result *result;
        tslab_handle handle;
        char name[20];
        int r;

        for (int job = 0; job < JOBS; job++) {
                snprintf(name, sizeof(name), "job %d", job);
                r = tslab_root_get(pool, name, &handle);
                if (r == 0)
                        r = tslab_get(pool, handle, (void **) &result, NULL);
                if (r < 0 || result->job != job)
                        return -1;
        }
        printf("the last: %s (process %d)\n", result->text, result->pid);
        return 0;
}

int main(void) {
        struct tslab *pool;
        int n, r;

        r = tslab_create(&pool, NULL);
        if (r < 0) {
                fprintf(stderr, "no pool: %s\n", strerror(-r));
                return 1;
        }
        n = supervise_worker(pool);
        r = n < 0 ? n : check_jobs(pool);
        if (r == 0)
                printf("%d jobs were done by %d workers, of which %d were killed\n", JOBS, n, n - 1);
        tslab_close(pool);
        return r < 0;
}
