#pragma once
/*
 * Children that end with their test, also if that is killed while it forks them.
 *
 *      if (fork() == 0) {
 *              end_with_parent();
 *              ...
 *
 * The process that forks is noted before each fork(), as prctl() says nothing of a parent that has died already.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

static pid_t parent_forking; /* 0: no fork() yet */

static void parent_note(void) {
        parent_forking = getpid();
}

__attribute__((constructor)) static void parent_watch(void) {
        (void) pthread_atfork(parent_note, NULL, NULL);
}

static inline void end_with_parent(void) {
        pid_t parent;

        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        parent = getppid();
        /* 0: it is in another pid namespace. */
        if (parent != 0 && parent_forking != 0 && parent != parent_forking)
                _exit(1);
}
