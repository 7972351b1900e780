#pragma once
/* Whether a process, or a thread, that the arena names is still the one that it was. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct ShmProcess {
        uint32_t start_time; /* clock ticks since boot, low 32 bits */
        uint64_t program; /* a number that another program of the process has not; 0: it cannot be seen */
} ShmProcess;

/* -ESRCH: there is no such process; or another error of open() or read(). */
int shm_process_look(pid_t pid, ShmProcess *ret);
/* Only its start time. */
int shm_process_start_time(pid_t pid, uint32_t *ret);
/*
 * Whether the process has ended, or executes another program by now. False also if that is not known: if its start time
 * was not known, its number may be another process's.
 */
bool shm_process_is_gone(pid_t pid, const ShmProcess *was);

/* The time now in clock ticks since boot, as the start time of a thread that begins now. 0: not known. */
uint64_t shm_process_ticks(void);
/*
 * Whether the thread with this number, of the process whose directory of /proc is open, has ended. *ret_started: if it
 * has not, a tick at which it had not begun, or 0.
 */
bool shm_thread_has_ended(int proc_fd, uint32_t tid, uint64_t *ret_started);
/* Asks about a thread of our own process, without /proc; but its number may be another thread's by now. */
bool shm_own_thread_has_ended(uint32_t tid);
/* The directory of /proc of a process in our pid namespace; negative: it cannot be seen, or is another. */
int shm_process_open(pid_t pid, uint32_t start_time);
/* Whether a thread is stopped, by a signal or a debugger. */
bool shm_thread_is_stopped(int proc_fd, uint32_t tid);
