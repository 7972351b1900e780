#pragma once
/*
 * Long work, cut into slices. A task is a function that does one slice of work and returns when it is to be called
 * again. One queue runs the tasks of all owners, beside the rest of the event loop.
 *
 * One turn of the queue runs slices of the tasks that are due, round robin, until they have taken TASK_TURN_USEC
 * together or no task is due. Then the loop serves I/O before the next turn. I/O therefore waits at most for
 * TASK_TURN_USEC and one slice more; a slice takes well under a millisecond, even if the arena is full or damaged.
 */
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#define TASK_TURN_USEC 1000U
#define TASK_IDLE UINT64_MAX

typedef struct Task Task;
typedef struct TaskQueue TaskQueue; /* the pool has one */

/*
 * Does one slice. Returns when the next one is due: 0 for at once, TASK_IDLE for when somebody wakes the task, else a
 * time on CLOCK_MONOTONIC. task_wake() can make it earlier. The function may deinit its own task; the returned value
 * then does not matter.
 */
typedef uint64_t TaskSlice(void *userdata, uint64_t now_usec);

/* Embedded in its owner. */
struct Task {
        TaskQueue *queue; /* NULL: not, or no longer, initialised */
        const char *name;
        TaskSlice *slice;
        void *userdata;
        bool background;
        uint64_t at_usec; /* TASK_IDLE: not in the list of the queue */
        Task *previous, *next;
};

/* max_turn_usec: TASK_TURN_USEC; 0, for tests: one slice in each turn. Returns 0 or a negative errno. */
int task_queue_new(TaskQueue **ret_queue, sd_event *event, uint64_t max_turn_usec);
/* Its tasks must be deinitialised before. NULL-safe, returns NULL. */
TaskQueue *task_queue_free(TaskQueue *queue);
/* The longest slice and the longest turn so far. */
void task_queue_longest_usec(const TaskQueue *queue, uint64_t *ret_slice_usec, uint64_t *ret_turn_usec);

/* The task begins idle. `name` is a literal, for the log line about a long slice. */
void task_init(Task *task, TaskQueue *queue, const char *name, TaskSlice *slice, void *userdata);
/* May be called from anywhere, even from the task's own slice. A task of zeros may be deinitialised, to no effect. */
void task_deinit(Task *task);
/* The task runs only in turns in which no other task is due, one slice in each. */
void task_set_background(Task *task);

/* Makes the task due. Of several times the earliest counts. */
void task_wake(Task *task);
void task_wake_at(Task *task, uint64_t usec);

/*
 * Another thread stands in for the loop, where a system call of a slice does not end. From task_slice_stand_in() on it
 * may read all that the loop may read, while it has locked. The loop waits at the end of the slice until the other
 * thread has unlocked.
 */

/* 0: the loop is in no slice. Else the word of a slice, which is the same until task_slice_stand_in(). */
uint64_t task_slice_word(const TaskQueue *queue);
/* When the slice of a word that is not 0 began, CLOCK_MONOTONIC. */
uint64_t task_slice_begin(uint64_t word);
/* False: the slice has ended. */
bool task_slice_stand_in(TaskQueue *queue, uint64_t word);
bool task_slice_lock(TaskQueue *queue, uint64_t word);
void task_slice_unlock(TaskQueue *queue);
/* Slices for which a thread stood in, so far. For the loop. */
uint64_t task_n_stood(const TaskQueue *queue);
