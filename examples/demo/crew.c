#include "examples/demo/crew.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "examples/demo/interrupt.h"
#include "examples/demo/demo-progress.h"

#define TICK_MS 100

/*
 * Runs in the child. It closes the parent's ends of all workers' sockets: by the hang-up a worker sees that the parent
 * has closed its end, so no worker may keep such an end open.
 */
static _Noreturn void be_worker(Crew *crew, uint32_t id, int fd) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        interrupt_leave_to_parent();
        for (uint32_t i = 0; i <= id; ++i)
                (void) close(crew->members[i].fd);
        _exit(worker_run(id, fd, crew->timeline, crew->shared));
}

static int start_one(Crew *crew, uint32_t id) {
        CrewMember *member = &crew->members[id];
        int fds[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
                return -errno;
        *member = (CrewMember){ .fd = fds[0] };
        member->pid = fork();
        if (member->pid == 0)
                be_worker(crew, id, fds[1]);
        (void) close(fds[1]);
        if (member->pid < 0) {
                (void) close(fds[0]);
                return -EAGAIN;
        }
        ++crew->n;
        ++crew->n_alive;
        return 0;
}

int crew_start(Crew *crew, const Timeline *timeline, uint32_t n, uint64_t pages_limit) {
        int r;

        *crew = (Crew){ .timeline = timeline, .shared_size = sizeof(WorkerShared) + n * sizeof(WorkerStats) };
        crew->shared =
                mmap(NULL, crew->shared_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (crew->shared == MAP_FAILED) {
                crew->shared = NULL;
                return -ENOMEM;
        }
        crew->shared->pages_limit = pages_limit;
        for (uint32_t i = 0; i < n; ++i) {
                r = start_one(crew, i);
                if (r)
                        return r;
        }
        return 0;
}

/* Closes the socket, at which the worker ends if it has not: its wait status. */
static int bury_worker(Crew *crew, CrewMember *member) {
        int status = 0;

        (void) close(member->fd);
        member->fd = -1;
        member->busy = false;
        --crew->n_alive;
        while (waitpid(member->pid, &status, 0) < 0 && errno == EINTR)
                ;
        return status;
}

void crew_stop(Crew *crew) {
        for (uint32_t i = 0; i < crew->n; ++i)
                if (crew->members[i].fd >= 0) {
                        /* One that is busy does not look at its socket. */
                        if (crew->members[i].busy)
                                (void) kill(crew->members[i].pid, SIGKILL);
                        (void) bury_worker(crew, &crew->members[i]);
                }
        if (crew->shared)
                (void) munmap(crew->shared, crew->shared_size);
        *crew = (Crew){};
}

static void lose_worker(Crew *crew, uint32_t id, int error) {
        CrewMember *member = &crew->members[id];
        int pid = member->pid, status = bury_worker(crew, member);

        /* On a terminal, over the line of progress. */
        (void) fprintf(stderr, "%stslab-demo: worker %u (process %d) ",
                       progress_is_terminal() ? "\r\033[K" : "", id, pid);
        if (error)
                (void) fprintf(stderr, "gave up: %s", strerror(-error));
        else if (WIFSIGNALED(status))
                (void) fprintf(stderr, "was killed: %s", strsignal(WTERMSIG(status)));
        else
                (void) fprintf(stderr, "ended with exit code %d", WEXITSTATUS(status));
        (void) fprintf(stderr, "; %u go on\n", crew->n_alive);
}

static void give_order(Crew *crew, uint32_t id, const WorkerOrder *order) {
        CrewMember *member = &crew->members[id];

        if (member->fd < 0)
                return;
        member->busy = true;
        /* If it is dead already, the hang-up tells. */
        (void) send(member->fd, order, sizeof(*order), MSG_NOSIGNAL);
}

static void hear_workers(Crew *crew, uint32_t id) {
        CrewMember *member = &crew->members[id];
        WorkerReply reply = {};

        if (recv(member->fd, &reply, sizeof(reply), MSG_DONTWAIT) == sizeof(reply) && !reply.error)
                member->busy = false;
        else
                lose_worker(crew, id, reply.error);
}

static bool any_busy(const Crew *crew) {
        for (uint32_t i = 0; i < crew->n; ++i)
                if (crew->members[i].busy)
                        return true;
        return false;
}

static int wait_for_news(Crew *crew) {
        struct pollfd fds[WORKERS_MAX];
        int r;

        for (uint32_t i = 0; i < crew->n; ++i)
                fds[i] = (struct pollfd){ .fd = crew->members[i].fd, .events = POLLIN };
        r = interrupt_poll(fds, crew->n, TICK_MS);
        for (uint32_t i = 0; r > 0 && i < crew->n; ++i)
                if (fds[i].revents)
                        hear_workers(crew, i);
        return r < 0 ? r : 0;
}

int crew_serve(Crew *crew, const WorkerOrder *order, void (*on_tick)(void *), void *userdata) {
        int r;

        crew->shared->next = crew->timeline->periods[order->period].first;
        for (uint32_t i = 0; i < crew->n; ++i)
                give_order(crew, i, order);
        while (any_busy(crew)) {
                r = wait_for_news(crew);
                if (r)
                        return r;
                on_tick(userdata);
        }
        return crew->n_alive > 0 ? 0 : -ECHILD;
}

uint64_t crew_taken(const Crew *crew, uint32_t period) {
        const Period *p = &crew->timeline->periods[period];
        uint64_t next = crew->shared->next, end = p->first + p->n;

        /* Each worker takes one chunk too many, to find that there is none. */
        return next < end ? next : end;
}

void crew_sum(const Crew *crew, WorkerStats *ret) {
        *ret = (WorkerStats){};
        for (uint32_t i = 0; i < crew->n; ++i) {
                const WorkerStats *stats = &crew->shared->workers[i];

                ret->n_requests += stats->n_requests;
                ret->n_sessions += stats->n_sessions;
                ret->n_returning += stats->n_returning;
                ret->n_others += stats->n_others;
                ret->n_retries += stats->n_retries;
                ret->n_pages += stats->n_pages;
                ret->n_pages_hit += stats->n_pages_hit;
                histogram_merge(&ret->latency, &stats->latency);
        }
}
