/*
 * Tasks
 *
 * Purpose: runs slices of all tasks in turn, in one thread; another may read the loop's data while a system call of a
 *   slice does not end.
 *
 * Invariants
 *   1. `slice` is 0 between two slices. Its low bit is set only by compare-and-set from the word of a slice.
 *   2. The loop leaves a slice whose word has the bit only after the other thread has unlocked, and that thread looks
 *      at the word after it has locked: the two never run at once.
 *
 * Who may do what: one thread makes all calls, except those that task.h offers to a thread that stands in.
 *
 * Crash: nothing of this outlives the process.
 *
 * The list of the queue holds the tasks that are not idle, in the order in which they were put there. The first task
 * that is due runs. It leaves the list before its slice and, unless it is idle then, goes to the end of the list after
 * it: so each task that is due runs once before any runs twice.
 *
 * One timer stands at the earliest time of any task. A deferred source of sd-event would not do: sd-event serves the
 * source that has been pending longest, and a deferred source stays pending from the time when it was enabled, so it
 * would let no other source through. An expired timer becomes pending anew in each turn, after the sources that are
 * pending already.
 */
#include "daemon/task.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "daemon/log.h"
#include "proto/deadline.h"
#include "shm/arch/atomic.h"

#define LONG_SLICE_USEC 10000U
#define STOOD UINT64_C(1)

struct TaskQueue {
        sd_event_source *timer;
        uint64_t
                slice; /* 0: in none; else twice the time when it began, + 1 while the other thread stands in */
        uint64_t n_stood; /* slices for which it stood in */
        pthread_mutex_t stand_in;
        uint64_t timer_usec; /* when the timer fires; TASK_IDLE: it is off */
        uint64_t max_turn_usec;
        uint64_t longest_slice_usec, longest_turn_usec;
        const char *longest_name; /* the task of the longest slice */
        Task *first, *last;
        Task *running; /* in its slice; NULL: none, or the slice deinitialised its task */
        bool turning; /* a turn is under way, and sets the timer at its end */
};

static void task_append(TaskQueue *queue, Task *task) {
        task->previous = queue->last;
        task->next = NULL;
        if (queue->last)
                queue->last->next = task;
        else
                queue->first = task;
        queue->last = task;
}

static void task_remove(TaskQueue *queue, Task *task) {
        if (task->at_usec == TASK_IDLE)
                return;
        if (task->previous)
                task->previous->next = task->next;
        else
                queue->first = task->next;
        if (task->next)
                task->next->previous = task->previous;
        else
                queue->last = task->previous;
        task->at_usec = TASK_IDLE;
}

static void set_queue_timer(TaskQueue *queue, uint64_t usec) {
        queue->timer_usec = usec;
        (void) sd_event_source_set_time(queue->timer, usec);
        (void) sd_event_source_set_enabled(queue->timer, usec == TASK_IDLE ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

void task_wake_at(Task *task, uint64_t usec) {
        TaskQueue *queue = task->queue;

        if (usec >= task->at_usec)
                return;
        if (task->at_usec == TASK_IDLE)
                task_append(queue, task);
        task->at_usec = usec;
        if (!queue->turning && usec < queue->timer_usec)
                set_queue_timer(queue, usec);
}

void task_wake(Task *task) {
        task_wake_at(task, 0);
}

static Task *find_due_task(const TaskQueue *queue, uint64_t now, bool background) {
        for (Task *task = queue->first; task; task = task->next)
                if (task->background == background && task->at_usec <= now)
                        return task;
        return NULL;
}

static uint64_t earliest_time(const TaskQueue *queue) {
        uint64_t at = TASK_IDLE;

        for (const Task *task = queue->first; task; task = task->next)
                at = task->at_usec < at ? task->at_usec : at;
        return at;
}

static void enter_slice(TaskQueue *queue, uint64_t now) {
        /* ORDER: rel, pairs with task_slice_word(); all that the loop did is before. */
        shm_store_rel(&queue->slice, now << 1);
}

static void leave_slice(TaskQueue *queue) {
        /* ORDER: acqrel, pairs with task_slice_stand_in(); one of the two sees the other. */
        if (!(shm_xchg_acqrel(&queue->slice, 0) & STOOD))
                return;
        (void) pthread_mutex_lock(&queue->stand_in); /* until the other thread has ended its turn */
        queue->n_stood++;
        (void) pthread_mutex_unlock(&queue->stand_in);
}

/* Returns the time after the slice. */
static uint64_t run_task(TaskQueue *queue, Task *task, uint64_t begin) {
        const char *name = task->name;
        uint64_t at, end;

        task_remove(queue, task);
        queue->running = task;
        enter_slice(queue, begin);
        at = task->slice(task->userdata, begin);
        leave_slice(queue);
        if (queue->running)
                task_wake_at(task, at);
        queue->running = NULL;

        end = proto_now_usec();
        if (end - begin > queue->longest_slice_usec) {
                queue->longest_slice_usec = end - begin;
                queue->longest_name = name;
        }
        if (end - begin > LONG_SLICE_USEC)
                log_line(LOG_DEBUG, "a slice of %s took %llu us", name, (unsigned long long) (end - begin));
        return end;
}

static int on_queue_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        TaskQueue *queue = userdata;
        uint64_t begin = proto_now_usec(), now = begin;
        Task *task = find_due_task(queue, begin, false) ?: find_due_task(queue, begin, true);

        queue->turning = true;
        while (task) {
                bool more = !task->background;

                now = run_task(queue, task, now);
                task = more && now - begin < queue->max_turn_usec ? find_due_task(queue, now, false) : NULL;
        }
        queue->turning = false;
        if (now - begin > queue->longest_turn_usec)
                queue->longest_turn_usec = now - begin;
        set_queue_timer(queue, earliest_time(queue));
        return 0;
}

int task_queue_new(TaskQueue **ret_queue, sd_event *event, uint64_t max_turn_usec) {
        TaskQueue *queue = calloc(1, sizeof(*queue));
        int r;

        if (!queue)
                return -ENOMEM;
        queue->max_turn_usec = max_turn_usec;
        (void) pthread_mutex_init(&queue->stand_in, NULL);
        r = sd_event_add_time(event, &queue->timer, CLOCK_MONOTONIC, TASK_IDLE, 1, on_queue_timer, queue);
        if (r < 0) {
                free(queue);
                return r;
        }
        set_queue_timer(queue, TASK_IDLE);
        *ret_queue = queue;
        return 0;
}

TaskQueue *task_queue_free(TaskQueue *queue) {
        if (!queue)
                return NULL;
        log_line(LOG_DEBUG, "the longest turn took %llu us, the longest slice %llu us, one of %s",
                 (unsigned long long) queue->longest_turn_usec,
                 (unsigned long long) queue->longest_slice_usec, queue->longest_name ?: "none");
        (void) sd_event_source_disable_unref(queue->timer);
        free(queue);
        return NULL;
}

uint64_t task_slice_word(const TaskQueue *queue) {
        /* ORDER: acq, pairs with enter_slice(); reads of the loop's data come after. */
        return shm_load_acq(&queue->slice);
}

uint64_t task_slice_begin(uint64_t word) {
        return word >> 1;
}

bool task_slice_stand_in(TaskQueue *queue, uint64_t word) {
        /* ORDER: acqrel, pairs with leave_slice(); one of the two sees the other. */
        return word != 0 && shm_cas_acqrel(&queue->slice, &word, word | STOOD);
}

bool task_slice_lock(TaskQueue *queue, uint64_t word) {
        (void) pthread_mutex_lock(&queue->stand_in);
        if (task_slice_word(queue) == (word | STOOD))
                return true;
        task_slice_unlock(queue);
        return false;
}

void task_slice_unlock(TaskQueue *queue) {
        (void) pthread_mutex_unlock(&queue->stand_in);
}

uint64_t task_n_stood(const TaskQueue *queue) {
        return queue->n_stood;
}

void task_queue_longest_usec(const TaskQueue *queue, uint64_t *ret_slice_usec, uint64_t *ret_turn_usec) {
        *ret_slice_usec = queue->longest_slice_usec;
        *ret_turn_usec = queue->longest_turn_usec;
}

void task_init(Task *task, TaskQueue *queue, const char *name, TaskSlice *slice, void *userdata) {
        *task = (Task){
                .queue = queue, .name = name, .slice = slice, .userdata = userdata, .at_usec = TASK_IDLE
        };
}

void task_deinit(Task *task) {
        if (!task->queue)
                return;
        task_remove(task->queue, task);
        if (task->queue->running == task)
                task->queue->running = NULL;
        *task = (Task){};
}

void task_set_background(Task *task) {
        task->background = true;
}
