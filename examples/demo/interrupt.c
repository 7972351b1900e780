#include "examples/demo/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
static volatile sig_atomic_t caught;

static void on_signal(int number) {
        caught = number;
}

static void signals_set(void (*handler)(int), int how) {
        struct sigaction action = { .sa_handler = handler };
        sigset_t set;

        (void) sigemptyset(&set);
        for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); ++i) {
                (void) sigaction(signals[i], &action, NULL);
                (void) sigaddset(&set, signals[i]);
        }
        (void) sigprocmask(how, &set, NULL);
}

void interrupt_init(void) {
        signals_set(on_signal, SIG_BLOCK);
        (void) signal(SIGPIPE, SIG_IGN);
}

int interrupt_poll(struct pollfd *fds, nfds_t n, int timeout_ms) {
        struct timespec timeout = { timeout_ms / 1000, timeout_ms % 1000 * 1000000L };
        sigset_t none;
        int r;

        (void) sigemptyset(&none);
        r = ppoll(fds, n, &timeout, &none);
        if (caught)
                return -EINTR;
        return r < 0 ? -errno : r;
}

bool interrupted(void) {
        return interrupt_poll(NULL, 0, 0) == -EINTR;
}

void interrupt_raise(void) {
        int number = caught;

        if (number == 0)
                return;
        signals_set(SIG_DFL, SIG_UNBLOCK);
        (void) raise(number);
}

void interrupt_leave_to_parent(void) {
        signals_set(SIG_DFL, SIG_UNBLOCK);
        (void) signal(SIGINT, SIG_IGN);
}
