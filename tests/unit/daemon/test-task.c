/* Tasks in a real event loop. No test waits for a time that could be missed: times lie an hour ahead, or are over. */
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "daemon/task.h"
#include "proto/deadline.h"
#include "tests/util/test.h"

#define HOUR_USEC (3600 * PROTO_USEC_PER_SEC)
#define SLOW_USEC (2 * TASK_TURN_USEC)

typedef struct Worker {
        Task task;
        char letter;
        unsigned n_steps; /* still to return 0; then `then_usec` */
        uint64_t then_usec;
        uint64_t stepped_usec; /* the time that the last step got */
        bool slow; /* a step takes longer than a turn may */
        bool is_last; /* in its last step the task goes, and its memory is something else's */
        bool wakes_itself; /* once */
        Task *victim; /* deinitialised in the next step */
} Worker;

static sd_event *event;
static TaskQueue *queue;
static char trace[64]; /* the letters of the steps, '|' between turns of the loop */

static void note(char letter) {
        size_t n = strlen(trace);

        assert_true(n + 1 < sizeof(trace));
        trace[n] = letter;
}

static uint64_t step(void *userdata, uint64_t now) {
        Worker *worker = userdata;

        note(worker->letter);
        worker->stepped_usec = now;
        while (worker->slow && proto_now_usec() < now + SLOW_USEC)
                ;
        if (worker->victim)
                task_deinit(worker->victim);
        worker->victim = NULL;
        if (worker->wakes_itself) {
                worker->wakes_itself = false;
                task_wake(&worker->task);
                return worker->then_usec;
        }
        if (worker->n_steps > 0) {
                worker->n_steps--;
                return 0;
        }
        if (worker->is_last) {
                task_deinit(&worker->task);
                memset(worker, 0xff, sizeof(*worker));
                return 0;
        }
        return worker->then_usec;
}

static void worker_init(Worker *worker, char letter, unsigned n_steps) {
        *worker = (Worker){ .letter = letter, .n_steps = n_steps, .then_usec = TASK_IDLE };
        task_init(&worker->task, queue, "worker", step, worker);
}

static void open_queue(uint64_t slice_usec) {
        memset(trace, 0, sizeof(trace));
        assert_true(sd_event_new(&event) >= 0);
        assert_int_equal(task_queue_new(&queue, event, slice_usec), 0);
}

static void close_queue(void) {
        queue = task_queue_free(queue);
        event = sd_event_unref(event);
}

/* Until the loop would wait. */
static void run_until_idle(void) {
        while (sd_event_run(event, 0) > 0)
                note('|');
}

static void test_order(void **state) {
        Worker a, b, c;

        (void) state;
        open_queue(0);
        worker_init(&a, 'a', 2);
        worker_init(&b, 'b', 0);
        worker_init(&c, 'c', 1);
        task_wake(&c.task);
        task_wake(&a.task);
        task_wake(&b.task);
        task_wake(&c.task);
        run_until_idle();
        assert_string_equal(trace, "c|a|b|c|a|a|");
        close_queue();
}

/* Short steps share a turn. */
static void test_turn(void **state) {
        Worker a, b;

        (void) state;
        open_queue(HOUR_USEC);
        worker_init(&a, 'a', 2);
        worker_init(&b, 'b', 2);
        task_wake(&a.task);
        task_wake(&b.task);
        run_until_idle();
        assert_string_equal(trace, "ababab|");
        close_queue();
}

static void test_slow(void **state) {
        uint64_t step_usec, turn_usec;
        Worker a, b;

        (void) state;
        open_queue(TASK_TURN_USEC);
        worker_init(&a, 'a', 1);
        worker_init(&b, 'b', 1);
        a.slow = b.slow = true;
        task_wake(&a.task);
        task_wake(&b.task);
        run_until_idle();
        assert_string_equal(trace, "a|b|a|b|");
        task_queue_longest_usec(queue, &step_usec, &turn_usec);
        assert_true(step_usec >= SLOW_USEC);
        assert_true(turn_usec >= step_usec);
        close_queue();
}

static void test_ends_itself(void **state) {
        Worker a, b;

        (void) state;
        open_queue(0);
        worker_init(&a, 'a', 1);
        a.is_last = true;
        worker_init(&b, 'b', 2);
        task_wake(&a.task);
        task_wake(&b.task);
        run_until_idle();
        assert_string_equal(trace, "a|b|a|b|b|");
        close_queue();
}

/* One that is due, and one that waits. */
static void test_deinit_other(void **state) {
        Worker a, b, c;

        (void) state;
        open_queue(HOUR_USEC);
        worker_init(&a, 'a', 1);
        worker_init(&b, 'b', 0);
        worker_init(&c, 'c', 0);
        a.victim = &b.task;
        task_wake(&a.task);
        task_wake(&b.task);
        task_wake_at(&c.task, proto_now_usec() + HOUR_USEC);
        task_deinit(&c.task);
        task_deinit(&c.task);
        task_wake(&c.task);
        run_until_idle();
        assert_string_equal(trace, "aa|");
        close_queue();
}

/* A wake in the middle of the step is not lost, for every value that the step may return. */
static void test_wake_while_running(void **state) {
        Worker a, b;

        (void) state;
        open_queue(0);
        worker_init(&a, 'a', 0);
        worker_init(&b, 'b', 0);
        a.wakes_itself = b.wakes_itself = true;
        b.then_usec = proto_now_usec() + HOUR_USEC;
        task_wake(&a.task);
        task_wake(&b.task);
        run_until_idle();
        assert_string_equal(trace, "a|b|a|b|");
        task_deinit(&b.task);
        close_queue();
}

static void test_wake_at(void **state) {
        uint64_t now = proto_now_usec();
        Worker a, b;

        (void) state;
        open_queue(0);
        worker_init(&a, 'a', 0);
        worker_init(&b, 'b', 0);
        task_wake_at(&a.task, now + HOUR_USEC);
        task_wake_at(&b.task, now);
        task_wake_at(&b.task, now + HOUR_USEC); /* later than it is woken already */
        run_until_idle();
        assert_string_equal(trace, "b|");
        task_wake_at(&a.task, now); /* earlier */
        run_until_idle();
        assert_string_equal(trace, "b|a|");
        task_wake_at(&a.task, TASK_IDLE);
        run_until_idle();
        assert_string_equal(trace, "b|a|");
        close_queue();
}

/* The loop sleeps until a task is due, and the timer is set anew for the next one. */
static void test_wait(void **state) {
        uint64_t first = proto_now_usec() + 1000, second = first + 1000;
        Worker a, b;

        (void) state;
        open_queue(0);
        worker_init(&a, 'a', 0);
        worker_init(&b, 'b', 0);
        task_wake_at(&b.task, second);
        task_wake_at(&a.task, first);
        while (strlen(trace) < 2)
                assert_true(sd_event_run(event, UINT64_MAX) > 0);
        assert_int_equal(trace[0] + trace[1],
                         'a' + 'b'); /* in either order where we were kept from running */
        assert_true(a.stepped_usec >= first);
        assert_true(b.stepped_usec >= second);
        close_queue();
}

static void test_background(void **state) {
        Worker a, b, c;

        (void) state;
        open_queue(HOUR_USEC);
        worker_init(&a, 'a', 2);
        worker_init(&b, 'b', 2);
        worker_init(&c, 'c', 0);
        task_set_background(&a.task);
        task_wake(&a.task);
        task_wake(&b.task);
        assert_int_equal(sd_event_run(event, 0), 1);
        assert_int_equal(sd_event_run(event, 0), 1);
        assert_string_equal(trace, "bbba");
        task_wake(&c.task);
        run_until_idle();
        assert_string_equal(trace, "bbbac|a|a|");
        close_queue();
}

static int on_pipe(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        char byte;

        (void) source;
        (void) revents;
        (void) userdata;
        assert_int_equal(read(fd, &byte, 1), 1);
        note('i');
        return 0;
}

/* Beside a task that is always due, each of two reads comes in the turn after its byte or in the next. */
static void test_io(void **state) {
        sd_event_source *source;
        Worker a;
        int fds[2];

        (void) state;
        open_queue(0);
        assert_int_equal(pipe(fds), 0);
        assert_true(sd_event_add_io(event, &source, fds[0], EPOLLIN, on_pipe, NULL) >= 0);
        worker_init(&a, 'a', 1000000);
        task_wake(&a.task);
        for (int i = 0; i < 3; i++)
                assert_int_equal(sd_event_run(event, 0), 1);
        assert_string_equal(trace, "aaa");
        assert_int_equal(write(fds[1], "xy", 2), 2);
        for (int i = 0; i < 4; i++)
                assert_int_equal(sd_event_run(event, 0), 1);
        assert_non_null(strchr(trace, 'i'));
        assert_int_not_equal(strchr(trace, 'i'), strrchr(trace, 'i'));
        sd_event_source_disable_unref(source);
        close(fds[0]);
        close(fds[1]);
        close_queue();
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_order),        cmocka_unit_test(test_turn),
                cmocka_unit_test(test_slow),         cmocka_unit_test(test_ends_itself),
                cmocka_unit_test(test_deinit_other), cmocka_unit_test(test_wake_while_running),
                cmocka_unit_test(test_wake_at),      cmocka_unit_test(test_wait),
                cmocka_unit_test(test_background),   cmocka_unit_test(test_io),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
