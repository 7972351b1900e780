/*
 * A limit on requests by address, for all workers together: so many a second, and a burst. A bucket is a word of shared
 * memory that changes in place; a bucket that is full again takes no memory.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tslab_map.h>

#define WORKERS 4
#define PER_SECOND 50.0
#define BURST 20
#define REQUESTS 200 /* by each worker */

/* Whether the request is to be answered; else the client may come again in *ret_retry_ms. */
static int admit(struct tslab_map *limits, const char *address, uint64_t *ret_retry_ms) {
        int r = tslab_map_limit(limits, address, strlen(address), PER_SECOND, BURST, 1, ret_retry_ms);

        return r < 0 ? r : r == 0;
}

/* Counts what it admitted, beside the others. */
static int serve(struct tslab_map *limits, struct tslab_map *counts) {
        uint64_t retry_ms;
        int r;

        for (int i = 0; i < REQUESTS; i++) {
                r = admit(limits, "192.0.2.7", &retry_ms);
                if (r > 0)
                        r = tslab_map_add(counts, "admitted", 8, 1, 0, TSLAB_MAP_TTL_NONE, NULL);
                else if (r == 0)
                        r = tslab_map_add(counts, "refused", 7, 1, 0, TSLAB_MAP_TTL_NONE, NULL);
                if (r < 0)
                        return r;
                nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        }
        return 0;
}

static int run_workers(struct tslab_map *limits, struct tslab_map *counts) {
        int status, n_failed = 0;

        for (int i = 0; i < WORKERS; i++) {
                pid_t pid = fork();

                if (pid < 0)
                        return -errno;
                if (pid == 0)
                        _exit(serve(limits, counts) < 0);
        }
        while (wait(&status) > 0)
                n_failed += status != 0;
        return n_failed > 0 ? -EIO : 0;
}

static int run(struct tslab *pool) {
        struct tslab_map *limits = NULL, *counts = NULL;
        int64_t admitted = 0, refused = 0;
        int r;

        r = tslab_map_open(&limits, pool, "limits", NULL);
        if (r == 0)
                r = tslab_map_open(&counts, pool, "counts", NULL);
        if (r == 0)
                r = run_workers(limits, counts);
        if (r == 0)
                r = tslab_map_add(counts, "admitted", 8, 0, 0, TSLAB_MAP_TTL_NONE, &admitted);
        if (r == 0)
                r = tslab_map_add(counts, "refused", 7, 0, 0, TSLAB_MAP_TTL_NONE, &refused);
        if (r == 0)
                printf("%lld requests answered, %lld refused\n", (long long) admitted, (long long) refused);
        if (r == 0 && admitted + refused != WORKERS * REQUESTS)
                r = -EIO;
        tslab_map_close(counts);
        tslab_map_close(limits);
        return r;
}

int main(void) {
        struct tslab *pool;
        int r;

        r = tslab_create(&pool, NULL);
        if (r == 0) {
                r = run(pool);
                tslab_close(pool);
        }
        if (r < 0)
                fprintf(stderr, "rate-limiter: %s\n", strerror(-r));
        return r < 0;
}
