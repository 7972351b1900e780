/*
 * A program that uses libtslab while system calls fail: does the commands on stdin, one in each line, and answers each
 * with "done" or with the error. A command that fails changes nothing that 'verify' looks at.
 *
 *      open | reader | detach      attaches to the pool that the argument names
 *      alloc N                     N objects with a pattern
 *      fill                        objects until there is no memory for more, which is the answer
 *      put N                       the values of N keys
 *      advance | close | lease | reserve | revoke     an epoch
 *      fork                        a child that attaches, allocates, frees, and ends
 *      thread                      a thread that does so
 *      others                      calls that change nothing
 *      verify                      all objects and values are as they were written
 *      free                        all of them
 *      left                        prints how many descriptors and mappings of memfds this process has
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tslab.h>
#include <tslab_map.h>
#include <unistd.h>

#include "tests/util/role.h"

#define OBJECTS_MAX 4096U
#define KEYS_MAX 256U
#define SIZE 200U

typedef struct Program {
        const char *path;
        struct tslab *pool;
        tslab_handle handles[OBJECTS_MAX];
        size_t n_handles;
        uint64_t values[KEYS_MAX]; /* 0: none */
        uint64_t next_value;
        uint32_t epoch, leased;
} Program;

static Program program;

static int do_open(Program *p, uint32_t flags) {
        const struct tslab_options options = { .size = sizeof(options), .flags = flags, .timeout_ms = 10000 };

        return p->pool ? -EALREADY : tslab_open(&p->pool, p->path, &options);
}

static int do_detach(Program *p) {
        p->pool = tslab_close(p->pool);
        return 0;
}

static int alloc_one(Program *p) {
        tslab_handle handle;
        void *object;
        int r;

        if (p->n_handles == OBJECTS_MAX)
                return -ENOBUFS;
        r = tslab_alloc_pending(p->pool, SIZE, TSLAB_EPOCH_CURRENT, &handle, &object);
        if (r)
                return r;
        pattern_fill(object, SIZE, 1, p->n_handles);
        r = tslab_publish(p->pool, handle);
        if (r == 0)
                p->handles[p->n_handles++] = handle;
        return r;
}

static int do_alloc(Program *p, size_t n) {
        int r = 0;

        while (n-- > 0 && r == 0)
                r = alloc_one(p);
        return r;
}

static int do_fill(Program *p) {
        int r;

        do
                r = tslab_alloc(p->pool, tslab_size_max(p->pool), TSLAB_EPOCH_CURRENT, &(tslab_handle){ 0 },
                                NULL);
        while (r == 0);
        return r;
}

static int put_one(Program *p, struct tslab_map *map, uint32_t key) {
        uint64_t value[16] = { ++p->next_value };
        int r;

        r = tslab_map_put(map, &key, sizeof(key), value, sizeof(value), p->epoch);
        if (r == 0)
                p->values[key] = value[0];
        return r;
}

/* The values are in an epoch of their own. */
static int do_put(Program *p, size_t n) {
        struct tslab_map *map;
        int r = 0;

        if (p->epoch == 0)
                r = tslab_epoch_reserve(p->pool, "values", &p->epoch);
        if (r == 0)
                r = tslab_map_open(&map, p->pool, "values", NULL);
        if (r)
                return r;
        for (uint32_t key = 0; key < n && key < KEYS_MAX && r == 0; key++)
                r = put_one(p, map, key);
        tslab_map_close(map);
        return r;
}

static int do_lease(Program *p) {
        int r = tslab_epoch_lease(p->pool, "leased", &p->leased);

        return r ?: tslab_alloc(p->pool, SIZE, p->leased, &(tslab_handle){ 0 }, NULL);
}

/* The epoch before the current one: its objects stay. */
static int do_close(Program *p) {
        uint32_t before, now;
        int r;

        r = tslab_epoch_current(p->pool, &before);
        if (r == 0)
                r = tslab_epoch_advance(p->pool, &now);
        return r ?: tslab_epoch_close(p->pool, before, 0);
}

static int do_revoke(Program *p) {
        uint32_t epoch;
        int r;

        r = tslab_epoch_reserve(p->pool, "revoked", &epoch);
        if (r)
                return r;
        r = tslab_alloc(p->pool, SIZE, epoch, &(tslab_handle){ 0 }, NULL);
        return tslab_epoch_close(p->pool, epoch, TSLAB_CLOSE_REVOKE) ?: r;
}

static int alloc_and_free(struct tslab *pool) {
        tslab_handle handles[40];
        ssize_t n = tslab_alloc_batch(pool, SIZE, TSLAB_EPOCH_CURRENT, handles, 40);

        if (n < 0)
                return (int) n;
        return tslab_free_batch(pool, handles, (size_t) n) == n ? 0 : -EIO;
}

static void *thread_main(void *userdata) {
        return (void *) (intptr_t) alloc_and_free(userdata);
}

static int do_thread(Program *p) {
        pthread_t thread;
        void *result;
        int r;

        r = pthread_create(&thread, NULL, thread_main, p->pool);
        if (r)
                return -r;
        (void) pthread_join(thread, &result);
        return (int) (intptr_t) result;
}

/* A child that fails exits with the error. */
static int do_fork(Program *p) {
        int status = 0, r;
        pid_t pid;

        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                r = alloc_and_free(p->pool);
                p->pool = tslab_close(p->pool);
                _exit(-r);
        }
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        if (!WIFEXITED(status))
                abort();
        return -WEXITSTATUS(status);
}

static int do_others(Program *p) {
        struct tslab_stats stats = { .size = sizeof(stats) };
        tslab_handle root;
        uint32_t epoch;
        int r;

        r = tslab_stats(p->pool, &stats);
        if (r == 0)
                r = tslab_drain(p->pool);
        if (r == 0)
                r = tslab_epoch_current(p->pool, &epoch);
        if (r == 0)
                r = tslab_epoch_label(p->pool, epoch, "label");
        if (r == 0)
                r = tslab_root_get(p->pool, "none", &root) == -ENOENT ? 0 : -EIO;
        return r ?: tslab_stale(p->pool) ? -EUCLEAN : 0;
}

static int verify_objects(const Program *p) {
        for (size_t i = 0; i < p->n_handles; i++) {
                void *object;

                if (tslab_get(p->pool, p->handles[i], &object, NULL) < 0 || !pattern_check(object, SIZE, 1))
                        return -EIO;
        }
        return 0;
}

static int verify_values(const Program *p) {
        struct tslab_map *map;
        bool any = false;
        int r;

        for (uint32_t key = 0; key < KEYS_MAX; key++)
                any |= p->values[key] != 0;
        r = any ? tslab_map_open(&map, p->pool, "values", NULL) : -ENODATA;
        if (r)
                return r == -ENODATA ? 0 : r;
        for (uint32_t key = 0; key < KEYS_MAX; key++) {
                uint64_t value[16];

                if (p->values[key] == 0)
                        continue;
                if (tslab_map_get(map, &key, sizeof(key), value, sizeof(value), NULL) != sizeof(value) ||
                    value[0] != p->values[key])
                        r = -EIO;
        }
        tslab_map_close(map);
        return r;
}

static int do_free(Program *p) {
        struct tslab_map *map;
        int r = 0;

        while (p->n_handles > 0 && r == 0) {
                r = tslab_free(p->pool, p->handles[p->n_handles - 1]);
                p->n_handles -= r == 0;
        }
        if (r == 0 && p->next_value > 0)
                r = tslab_map_open(&map, p->pool, "values", NULL);
        if (r || p->next_value == 0)
                return r;
        for (uint32_t key = 0; key < KEYS_MAX && r == 0; key++)
                if (p->values[key] != 0) {
                        r = tslab_map_delete(map, &key, sizeof(key));
                        p->values[key] = 0;
                }
        tslab_map_close(map);
        return r;
}

static unsigned count_descriptors(void) {
        DIR *dir = opendir("/proc/self/fd");
        unsigned n = 0;

        while (dir && readdir(dir))
                n++;
        if (dir)
                (void) closedir(dir);
        return n;
}

static unsigned count_arenas(void) {
        FILE *maps = fopen("/proc/self/maps", "re");
        char line[512];
        unsigned n = 0;

        while (maps && fgets(line, sizeof(line), maps))
                n += strstr(line, "/memfd:") != NULL;
        if (maps)
                (void) fclose(maps);
        return n;
}

/* 0: could not be counted. */
static int do_left(void) {
        return printf("left %u %u\n", count_descriptors(), count_arenas()) < 0 ? -EIO : 0;
}

static int do_line(Program *p, const char *word, size_t n) {
        if (!strcmp(word, "open"))
                return do_open(p, 0);
        if (!strcmp(word, "reader"))
                return do_open(p, TSLAB_READER);
        if (!strcmp(word, "left"))
                return do_left();
        if (!p->pool)
                return -ENOTCONN;
        if (!strcmp(word, "detach"))
                return do_detach(p);
        if (!strcmp(word, "alloc"))
                return do_alloc(p, n);
        if (!strcmp(word, "fill"))
                return do_fill(p);
        if (!strcmp(word, "put"))
                return do_put(p, n);
        if (!strcmp(word, "advance"))
                return tslab_epoch_advance(p->pool, NULL);
        if (!strcmp(word, "close"))
                return do_close(p);
        if (!strcmp(word, "lease"))
                return do_lease(p);
        if (!strcmp(word, "revoke"))
                return do_revoke(p);
        if (!strcmp(word, "fork"))
                return do_fork(p);
        if (!strcmp(word, "thread"))
                return do_thread(p);
        if (!strcmp(word, "others"))
                return do_others(p);
        if (!strcmp(word, "verify"))
                return verify_objects(p) ?: verify_values(p);
        return strcmp(word, "free") ? -ENOSYS : do_free(p);
}

int main(int argc, char **argv) {
        char line[64], word[16];
        size_t n;

        program.path = argc > 1 ? argv[1] : NULL;
        while (fgets(line, sizeof(line), stdin)) {
                int r;

                n = 0;
                if (sscanf(line, "%15s %zu", word, &n) < 1)
                        continue;
                r = do_line(&program, word, n);
                (void) printf("%s: %s\n", word, r < 0 ? strerror(-r) : "done");
                (void) fflush(stdout);
        }
        (void) tslab_close(program.pool);
        return 0;
}
