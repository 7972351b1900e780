#pragma once
/*
 * Work in slices. A task is a step function that does one small piece of work and says when it wants
 * to be called again; one queue runs the tasks of all owners, beside the rest of the event loop.
 *
 * One turn of the loop runs steps of the tasks that are due, round robin, until they have taken
 * TASK_SLICE_USEC together or none is due; then the loop serves I/O before the next turn. So what the
 * loop can be held up for is that, and one step: a step takes well under a millisecond, whatever
 * stands in the arena.
 */
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#define TASK_SLICE_USEC 1000U
#define TASK_IDLE UINT64_MAX

typedef struct Task Task;
typedef struct TaskQueue TaskQueue; /* one, in the manager */

/*
 * Returns when it is to be called again: 0 at once, TASK_IDLE when somebody wakes the task, else a
 * time on CLOCK_MONOTONIC. It may be called earlier, by task_wake(). It may deinit its own task, and
 * then returns anything.
 */
typedef uint64_t TaskStep(void *userdata, uint64_t now_usec);

/* Embedded in its owner. */
struct Task {
        TaskQueue *queue; /* NULL: not, or no longer, initialised */
        const char *name;
        TaskStep *step;
        void *userdata;
        bool background;
        uint64_t at_usec; /* TASK_IDLE: not in the queue's list */
        Task *previous, *next;
};

/* slice_usec: TASK_SLICE_USEC; 0, for tests: one step in each turn. 0 or negative errno. */
int task_queue_new(TaskQueue **ret_queue, sd_event *event, uint64_t slice_usec);
/* After its tasks. NULL-safe, returns NULL. */
TaskQueue *task_queue_free(TaskQueue *queue);
/* The longest step and the longest turn so far. */
void task_queue_longest_usec(const TaskQueue *queue, uint64_t *ret_step_usec, uint64_t *ret_turn_usec);

/* Begins idle. `name` is a literal: who is to blame for a long step. */
void task_init(Task *task, TaskQueue *queue, const char *name, TaskStep *step, void *userdata);
/* From anywhere, its own step too. Leaves zeros: these may be deinitialised and woken, to no effect. */
void task_deinit(Task *task);
/* It runs only in turns in which no other task is due, and one step in each. */
void task_set_background(Task *task);

/* Of several times the earliest counts. */
void task_wake(Task *task);
void task_wake_at(Task *task, uint64_t usec);
