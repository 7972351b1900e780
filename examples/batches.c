/*
 * Message batches: one process builds batches of messages of many sizes, each batch in an epoch of its own;
 * another works on them. To hand a batch over, a process passes one handle, that of the batch's index. One
 * call frees the batch with all objects in it, however they refer to each other.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tslab.h>

#define BATCHES 20
#define MESSAGES 500

/* In the pool, like all else: handles, never pointers. */
struct node {
        tslab_handle next;
        size_t size;
        char text[];
};

struct batch {
        uint32_t epoch;
        tslab_handle first;
};

static int build_batch(struct tslab *pool, struct batch *ret) {
        tslab_handle next = 0, handle;
        struct node *node;
        uint32_t epoch;
        int r;

        r = tslab_epoch_reserve(pool, "batch", &epoch);
        for (int i = 0; r == 0 && i < MESSAGES; i++) {
                size_t size = 10 + (size_t) i % 600;

                r = tslab_alloc(pool, sizeof(*node) + size, epoch, &handle, (void **) &node);
                if (r < 0)
                        break;
                *node = (struct node){ .next = next, .size = size };
                memset(node->text, 'a' + i % 26, size);
                next = handle;
        }
        *ret = (struct batch){ .epoch = epoch, .first = next };
        return r;
}

static int work_on_batches(struct tslab *pool, const struct batch *batch) {
        size_t total = 0, n = 0;
        struct node *node;
        int r;

        for (tslab_handle at = batch->first; at != 0; at = node->next, n++) {
                r = tslab_get(pool, at, (void **) &node, NULL);
                if (r < 0)
                        return r;
                total += node->size;
        }
        /* All of it at once; a handle into it that somebody kept is stale from here on. */
        r = tslab_epoch_close(pool, batch->epoch, TSLAB_CLOSE_REVOKE);
        if (r < 0)
                return r;
        r = tslab_get(pool, batch->first, (void **) &node, NULL);
        printf("%zu messages, %zu bytes; now: %s\n", n, total, strerror(-r));
        return r == -ESTALE && n == MESSAGES ? 0 : -1;
}

int main(void) {
        struct tslab *pool;
        struct batch batch;
        int fds[2], status = 0, r;
        pid_t worker;

        r = tslab_create(&pool, NULL);
        if (r < 0 || pipe(fds) < 0)
                return 1;
        worker = fork();
        if (worker == 0) {
                close(fds[1]);
                while (r == 0 && read(fds[0], &batch, sizeof(batch)) == sizeof(batch))
                        do
                                r = work_on_batches(pool, &batch);
                        while (r == -EBUSY); /* a private pool: the other process reserves just now */
                fflush(stdout);
                _exit(r < 0);
        }
        for (int i = 0; r == 0 && i < BATCHES; i++) {
                do
                        r = build_batch(pool, &batch);
                /* It reserves just now, or has all epochs: it is behind. Killed in there, it leaves both so. */
                while ((r == -EBUSY || r == -ENOSPC) && waitpid(worker, &status, WNOHANG) == 0);
                if (r == 0 && write(fds[1], &batch, sizeof(batch)) != sizeof(batch))
                        r = -1;
        }
        close(fds[1]);
        close(fds[0]);
        wait(&status);
        tslab_close(pool);
        return r < 0 || status != 0;
}
