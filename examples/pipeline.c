/*
 * Producer and consumer: messages stay where they were written, and 8 bytes each go through a pipe. The
 * process that takes a message frees it; another one may have made it.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tslab.h>

#define N_MESSAGES 100000

struct message {
        int number;
        char text[100];
};

static int produce_messages(struct tslab *pool, int pipe_fd) {
        struct message *message;
        tslab_handle handle;
        int r;

        for (int i = 0; i < N_MESSAGES; i++) {
                r = tslab_alloc(pool, sizeof(*message), TSLAB_EPOCH_CURRENT, &handle, (void **) &message);
                if (r < 0)
                        return r;
                message->number = i;
                snprintf(message->text, sizeof(message->text), "message %d of process %d", i, (int) getpid());
                /* A write of 8 bytes to a pipe is whole, and all that was written before it is seen with it. */
                if (write(pipe_fd, &handle, sizeof(handle)) != sizeof(handle))
                        return -1;
        }
        return 0;
}

static int consume_messages(struct tslab *pool, int pipe_fd) {
        struct message *message;
        tslab_handle handle;
        int n = 0, r;

        while (read(pipe_fd, &handle, sizeof(handle)) == sizeof(handle)) {
                r = tslab_get(pool, handle, (void **) &message, NULL);
                if (r < 0)
                        return r;
                if (message->number != n++)
                        return -1;
                if (message->number == N_MESSAGES - 1)
                        printf("the last one: %s\n", message->text);
                r = tslab_free(pool, handle);
                if (r < 0)
                        return r;
        }
        printf("process %d took %d messages\n", (int) getpid(), n);
        return n == N_MESSAGES ? 0 : -1;
}

int main(void) {
        struct tslab *pool;
        int fds[2], status = 0, r;

        r = tslab_create(&pool, NULL);
        if (r < 0) {
                fprintf(stderr, "no pool: %s\n", strerror(-r));
                return 1;
        }
        if (pipe(fds) < 0)
                return 1;
        if (fork() == 0) {
                close(fds[0]);
                _exit(produce_messages(pool, fds[1]) < 0);
        }
        close(fds[1]);
        r = consume_messages(pool, fds[0]);
        close(fds[0]); /* where a message was wrong, the producer does not wait for a reader */
        wait(&status);
        tslab_close(pool);
        return r < 0 || status != 0;
}
