/*
 * The program that test-syscalls.py traces: `syscalls-worker MODE SOCKET ...`. Calls are counted between write(-1,
 * "begin") and write(-1, "end"), which do nothing else. It prints where its arena is and waits for a
 * line before it begins, and before it ends.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tslab.h>
#include <unistd.h>

#include "shm/arch/atomic.h"
#include "tests/util/seed.h"

#define N_THREADS 4U
#define N_HELD 64U
#define N_ROUNDS 100000U
#define SLOTS 5U /* slots of 816 bytes in a slab */

static void fail(const char *what) {
        fprintf(stderr, "syscalls-worker: %s\n", what);
        exit(1);
}

static void marker(const char *name) {
        if (write(-1, name, strlen(name)) >= 0)
                fail("a write to nowhere");
}

static void wait_for_line(void) {
        char line[16];

        if (!fgets(line, sizeof(line), stdin))
                fail("nobody says go on");
}

static void say_where(void) {
        FILE *maps = fopen("/proc/self/maps", "re");
        char line[512];

        while (maps && fgets(line, sizeof(line), maps))
                if (strstr(line, "/memfd:"))
                        printf("%.*s\n", (int) strcspn(line, " "), line);
        if (maps)
                fclose(maps);
        printf("ready\n");
        fflush(stdout);
}

/* All calls of the allocation path, on a few objects. */
static void work(struct tslab *pool, uint64_t seed) {
        tslab_handle held[N_HELD] = {}, batch[8];
        uint32_t epoch;
        ssize_t n;

        if (tslab_epoch_current(pool, &epoch) < 0)
                fail("no epoch");
        for (uint32_t i = 0; i < N_ROUNDS; i++) {
                tslab_handle *h = &held[seed_below(&seed, N_HELD)];
                uint8_t buffer[816];
                void *object;

                if (*h) {
                        if (tslab_get(pool, *h, &object, NULL) < 0 ||
                            tslab_read(pool, *h, buffer, sizeof(buffer)) < 0 || tslab_free(pool, *h) < 0)
                                fail("a live object");
                        if (tslab_free(pool, *h) == 0)
                                fail("freed twice");
                        *h = 0;
                } else if (tslab_alloc(pool, 1 + seed_below(&seed, 816), i % 2 ? epoch : TSLAB_EPOCH_CURRENT,
                                       h, &object) < 0) {
                        fail("alloc");
                }
                if (i % 16 == 0) {
                        n = tslab_alloc_batch(pool, 100, TSLAB_EPOCH_CURRENT, batch, 8);
                        if (n != 8 || tslab_free_batch(pool, batch, 8) != 8)
                                fail("batch");
                        tslab_mfree(pool, tslab_malloc(pool, 100, TSLAB_EPOCH_CURRENT));
                        if (tslab_root_get(pool, "nothing", &batch[0]) == 0)
                                fail("root");
                }
        }
        for (size_t i = 0; i < N_HELD; i++)
                if (held[i] && tslab_free(pool, held[i]) < 0)
                        fail("a live object");
}

static void run_quiet(struct tslab *pool, uint64_t seed) {
        work(pool, seed); /* takes its record */
        marker("begin");
        work(pool, seed + 1);
        marker("end");
}

typedef struct Team {
        struct tslab *pool;
        uint64_t seed;
        uint32_t n_ready, n_done, go, leave;
} Team;

static void spin_until(const uint32_t *word, uint32_t n) {
        /* ORDER: acq, pairs with run_threads(); its earlier work is seen. */
        while (shm_load_acq(word) < n)
                shm_pause(1);
}

static void *run_member(void *userdata) {
        Team *team = userdata;
        uint64_t seed = team->seed + (uint64_t) gettid();

        work(team->pool, seed);
        shm_add_acqrel(&team->n_ready, 1); /* ORDER: acqrel, pairs with spin_until(); it has worked. */
        spin_until(&team->go, 1);
        work(team->pool, seed + 1);
        shm_add_acqrel(&team->n_done, 1); /* ORDER: acqrel, pairs with spin_until(); it has worked. */
        spin_until(&team->leave, 1);
        return NULL;
}

static void run_threads(struct tslab *pool, uint64_t seed) {
        Team team = { .pool = pool, .seed = seed };
        pthread_t threads[N_THREADS];

        for (size_t i = 0; i < N_THREADS; i++)
                if (pthread_create(&threads[i], NULL, run_member, &team) != 0)
                        fail("threads");
        spin_until(&team.n_ready, N_THREADS);
        marker("begin");
        shm_store_rel(&team.go, 1); /* ORDER: rel, pairs with spin_until(); the marker comes first. */
        spin_until(&team.n_done, N_THREADS);
        marker("end");
        shm_store_rel(&team.leave, 1); /* ORDER: rel, pairs with spin_until(); the marker comes first. */
        for (size_t i = 0; i < N_THREADS; i++)
                pthread_join(threads[i], NULL);
}

/* Takes all but a few of n free slabs, and gives them back, a number of times. */
static void run_crossing(struct tslab *pool, uint32_t n_slabs, uint32_t n_times) {
        uint32_t n = (n_slabs - 4) * SLOTS;
        tslab_handle *handles = calloc(n, sizeof(*handles));

        if (!handles || n_slabs < 8)
                fail("too few slabs");
        marker("begin");
        for (uint32_t time = 0; time < n_times; time++) {
                for (uint32_t i = 0; i < n; i++)
                        if (tslab_alloc(pool, 816, TSLAB_EPOCH_CURRENT, &handles[i], NULL) < 0)
                                fail("alloc");
                for (uint32_t i = 0; i < n; i++)
                        if (tslab_free(pool, handles[i]) < 0)
                                fail("free");
        }
        marker("end");
        free(handles);
}

int main(int argc, char **argv) {
        tslab_handle handle;
        struct tslab *pool;
        uint64_t seed;

        if (argc < 3 || tslab_open(&pool, argv[2], NULL) < 0)
                fail("no pool");
        seed = seed_get();
        if (tslab_alloc(pool, 100, TSLAB_EPOCH_CURRENT, &handle, NULL) < 0 || tslab_free(pool, handle) < 0)
                fail("nothing works");
        say_where();
        wait_for_line();
        if (strcmp(argv[1], "quiet") == 0)
                run_quiet(pool, seed);
        else if (strcmp(argv[1], "threads") == 0)
                run_threads(pool, seed);
        else if (strcmp(argv[1], "crossing") == 0 && argc == 5)
                run_crossing(pool, (uint32_t) atoi(argv[3]), (uint32_t) atoi(argv[4]));
        else
                fail("no such mode");
        printf("done\n");
        fflush(stdout);
        wait_for_line();
        tslab_close(pool);
        return 0;
}
