/*
 * Purpose: the loop never waits for the file system of a descriptor that a peer sent.
 *
 * Invariants
 *   1. The threads hold no lock while they close, and touch nothing but the list of descriptors.
 *   2. At most DESCRIPTORS_MAX descriptors wait. While there is not room for all that a message may bring, the loop
 *      receives no message with descriptors; the connection waits.
 *   3. The number of a descriptor stays in use until its file is closed, so closer_holds() tells whether a file that
 *      has this number is one that a thread closes. close() would free the number first, and is left for numbers
 *      that are above a lowered RLIMIT_NOFILE: no other file gets these.
 *
 * Who may do what: the loop adds descriptors; the threads take them.
 *
 * Crash: a thread that waits in close() keeps the process from ending until the file system answers.
 */
#include "daemon/peer/closer.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/log.h"
#include "proto/socket.h"

#define THREADS_MAX 32U
#define DESCRIPTORS_MAX 384U
#define STACK_SIZE (64U * 1024U)

static struct {
        pthread_mutex_t lock;
        pthread_cond_t added;
        int fds[DESCRIPTORS_MAX];
        unsigned n_fds;
        int closing[THREADS_MAX]; /* by each thread; -1: none */
        unsigned n_threads;
        unsigned n_idle; /* threads that wait for a descriptor */
        int empty; /* a descriptor whose close() does not wait; -1: there was none to be had */
} closer = { .lock = PTHREAD_MUTEX_INITIALIZER, .added = PTHREAD_COND_INITIALIZER, .empty = -1 };

static void *closer_thread(void *userdata) {
        int *closing = userdata;
        bool emptied;

        (void) pthread_mutex_lock(&closer.lock);
        for (;;) {
                *closing = -1;
                closer.n_idle++;
                while (closer.n_fds == 0)
                        (void) pthread_cond_wait(&closer.added, &closer.lock);
                closer.n_idle--;
                *closing = closer.fds[--closer.n_fds];
                (void) pthread_mutex_unlock(&closer.lock);
                emptied = dup3(closer.empty, *closing, O_CLOEXEC) >= 0; /* closes the file that was there */
                if (!emptied)
                        (void) close(*closing);
                (void) pthread_mutex_lock(&closer.lock);
                if (emptied)
                        (void) close(*closing);
        }
        return NULL;
}

/* Threads inherit the loop's signal mask, which blocks the signals that the loop reads. */
static void start_thread(void) {
        pthread_attr_t attributes;
        pthread_t thread;

        (void) pthread_attr_init(&attributes);
        (void) pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        (void) pthread_attr_setstacksize(&attributes, STACK_SIZE);
        closer.closing[closer.n_threads] = -1;
        if (pthread_create(&thread, &attributes, closer_thread, &closer.closing[closer.n_threads]) == 0)
                closer.n_threads++;
        (void) pthread_attr_destroy(&attributes);
}

/* Called again while descriptors wait: a thread for which there was no memory before may be started now. */
static void start_missing_thread(void) {
        if (closer.n_fds > closer.n_idle && closer.n_threads < THREADS_MAX)
                start_thread();
}

/*
 * Only memfds, and files of their file system, have seals, and none of them waits in close(). A socket may: it lingers,
 * or its queue has messages with descriptors of sockets that linger.
 */
static bool closes_at_once(int fd) {
        return fcntl(fd, F_GET_SEALS) >= 0;
}

static void closer_close(int fd) {
        if (closes_at_once(fd)) {
                (void) close(fd);
                return;
        }
        (void) pthread_mutex_lock(&closer.lock);
        if (closer.n_fds < DESCRIPTORS_MAX) {
                closer.fds[closer.n_fds++] = fd;
                fd = -1;
        }
        start_missing_thread();
        (void) pthread_cond_signal(&closer.added);
        (void) pthread_mutex_unlock(&closer.lock);
        if (fd >= 0) /* it stays open */
                log_peer(LOG_WARNING, 0,
                         "a descriptor that a process sent cannot be closed: file systems do not answer");
}

bool closer_has_room(void) {
        bool has_room;

        (void) pthread_mutex_lock(&closer.lock);
        start_missing_thread();
        has_room = closer.n_fds + PROTO_FDS_RECEIVED_MAX <= DESCRIPTORS_MAX;
        (void) pthread_mutex_unlock(&closer.lock);
        if (!has_room)
                log_peer(
                        LOG_WARNING, 0,
                        "descriptors that processes sent cannot be closed, since their file systems do not answer: "
                        "messages with further ones have to wait");
        return has_room;
}

bool closer_holds(int fd) {
        bool holds = false;

        (void) pthread_mutex_lock(&closer.lock);
        for (unsigned i = 0; i < closer.n_fds && !holds; i++)
                holds = closer.fds[i] == fd;
        for (unsigned i = 0; i < closer.n_threads && !holds; i++)
                holds = closer.closing[i] == fd;
        (void) pthread_mutex_unlock(&closer.lock);
        return holds;
}

void closer_init(void) {
        static const ProtoCloser functions = { .close = closer_close, .has_room = closer_has_room };

        closer.empty = eventfd(0, EFD_CLOEXEC);
        proto_set_closer(&functions);
}
