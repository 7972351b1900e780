/* Two processes and one object: a parent shares it under a name, a child finds it there. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tslab.h>

static int run_child(struct tslab *pool) {
        tslab_handle handle;
        void *object;
        int r;

        r = tslab_root_get(pool, "greeting", &handle);
        if (r == 0)
                r = tslab_get(pool, handle, &object, NULL);
        if (r == 0)
                printf("process %d reads: %s\n", (int) getpid(), (char *) object);
        if (r == 0)
                r = tslab_free(pool, handle);
        fflush(stdout);
        return r;
}

int main(int argc, char **argv) {
        struct tslab *pool;
        tslab_handle handle;
        void *object;
        int r, status = 1;

        /* With a name: the pool of a daemon. Without: one of this process and its children. */
        r = argc > 1 ? tslab_open(&pool, argv[1], NULL) : tslab_create(&pool, NULL);
        if (r == 0)
                r = tslab_alloc(pool, 100, TSLAB_EPOCH_CURRENT, &handle, &object);
        if (r < 0) {
                fprintf(stderr, "%s: %s\n", argv[0], strerror(-r));
                return 1;
        }
        snprintf(object, 100, "hello from process %d", (int) getpid());
        tslab_root_set(pool, "greeting", 0, handle);

        if (fork() == 0)
                _exit(run_child(pool) < 0);
        wait(&status);

        /* The child freed it: the handle is stale, here too. */
        r = tslab_get(pool, handle, &object, NULL);
        printf("and now: %s\n", strerror(-r));
        tslab_root_set(pool, "greeting", handle, 0);
        tslab_close(pool);
        return status != 0;
}
