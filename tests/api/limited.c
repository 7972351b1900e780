/*
 * Allocates in a private pool, by several processes, until no memory is left: an error, and nobody is killed. With a
 * number, takes so many MiB for itself first, after the pool gave some memory.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tslab.h>
#include <unistd.h>

#define PROCESSES 3

static int fill(struct tslab *pool) {
        tslab_handle handle;
        unsigned long n = 0;
        int r;

        while ((r = tslab_alloc(pool, 4000, TSLAB_EPOCH_CURRENT, &handle, NULL)) == 0)
                n++;
        printf("%lu objects, then error %d\n", n, r);
        fflush(stdout);
        return r == -ENOMEM ? 0 : 1;
}

static bool take(struct tslab *pool, size_t size) {
        char *memory = malloc(size);
        tslab_handle handle;

        if (!memory || tslab_alloc(pool, 4000, TSLAB_EPOCH_CURRENT, &handle, NULL) < 0)
                return false;
        memset(memory, 1, size);
        printf("has %d MiB itself\n", memory[size / 2] * (int) (size >> 20));
        fflush(stdout);
        return true;
}

int main(int argc, char **argv) {
        struct tslab_options options = { .size = sizeof(options), .arena_bytes = 512 << 20 };
        struct tslab_stats stats = { .size = sizeof(stats) };
        struct tslab *pool;
        int status, bad = 0;

        if (tslab_create(&pool, &options) < 0)
                return 1;
        if (argc > 1 && !take(pool, (size_t) atoi(argv[1]) << 20))
                return 1;
        for (int i = 0; i < PROCESSES; i++)
                if (fork() == 0)
                        _exit(fill(pool));
        for (int i = 0; i < PROCESSES; i++)
                bad |= wait(&status) < 0 || status != 0;
        if (bad || tslab_stats(pool, &stats) < 0)
                return 1;
        printf("%llu times for the limit\n", (unsigned long long) stats.failures_limit);
        return stats.failures_limit == 0;
}
