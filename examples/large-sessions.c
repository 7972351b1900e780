/*
 * Sessions of any size that several workers change. A session ends some time after its last use. A worker whose change
 * was made from an old version makes it again. A large session is read in parts, all of one version.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tslab_map.h>

#define WORKERS 4
#define CHANGES 50 /* by each worker */
#define STEP 1500 /* bytes that a change appends */
#define IDLE_MS 1800000 /* a session lives for so long after its last use */

/* Appends to the session, whatever others do to it meanwhile. */
static int append_once(struct tslab_map *sessions, const char *id, const char *text, size_t size) {
        struct tslab_map_put_options options = { .size = sizeof(options),
                                                 .epoch = TSLAB_EPOCH_CURRENT,
                                                 .mode = TSLAB_MAP_REPLACE };
        struct tslab_map_info info = { .size = sizeof(info) };
        char *session = NULL, *longer;
        int r;

        r = tslab_map_get_alloc(sessions, id, strlen(id), (void **) &session, &info);
        if (r < 0 && r != -ENOENT)
                return r;
        longer = realloc(session, info.value_size + size);
        if (!longer) {
                free(session);
                return -ENOMEM;
        }
        memcpy(longer + info.value_size, text, size);
        options.version = info.version; /* 0: there was none, and there must be none yet */
        r = tslab_map_put_with(sessions, id, strlen(id), longer, info.value_size + size, &options);
        free(longer);
        return r;
}

static int append(struct tslab_map *sessions, const char *id, const char *text, size_t size) {
        int r;

        do
                r = append_once(sessions, id, text, size);
        while (r == -EAGAIN);
        return r;
}

static int work(struct tslab_map *sessions, char letter) {
        char text[STEP];
        int r = 0;

        memset(text, letter, sizeof(text));
        for (int i = 0; r == 0 && i < CHANGES; i++)
                r = append(sessions, "alice", text, sizeof(text));
        return r;
}

static int run_workers(struct tslab_map *sessions) {
        int status, n_failed = 0;

        for (int i = 0; i < WORKERS; i++) {
                pid_t pid = fork();

                if (pid < 0)
                        return -errno;
                if (pid == 0)
                        _exit(work(sessions, (char) ('a' + i)) < 0);
        }
        while (wait(&status) > 0)
                n_failed += status != 0;
        return n_failed > 0 ? -EIO : 0;
}

/* Counts the steps of each worker, 4000 bytes at a time; if it is changed under way, from the beginning again. */
static int count_letters(struct tslab_map *sessions, const char *id, size_t *counts) {
        struct tslab_map_info info = { .size = sizeof(info) };
        char part[4000];
        size_t offset = 0;
        ssize_t n;

        memset(counts, 0, WORKERS * sizeof(*counts));
        n = tslab_map_find(sessions, id, strlen(id), &info);
        while (n >= 0 && offset < info.value_size) {
                n = tslab_map_read(sessions, info.place, offset, part, sizeof(part));
                for (ssize_t i = 0; i < n; i++)
                        counts[part[i] - 'a']++;
                offset += n > 0 ? (size_t) n : 0;
        }
        return n == -ESTALE ? count_letters(sessions, id, counts) : n < 0 ? (int) n : 0;
}

static int run(struct tslab_map *sessions) {
        size_t counts[WORKERS];
        int r;

        r = run_workers(sessions);
        if (r == 0)
                r = tslab_map_touch(sessions, "alice", 5, TSLAB_MAP_TTL_DEFAULT); /* used: it lives on */
        if (r == 0)
                r = count_letters(sessions, "alice", counts);
        for (int i = 0; r == 0 && i < WORKERS; i++) {
                printf("worker %c: %zu bytes in the session\n", 'a' + i, counts[i]);
                if (counts[i] != (size_t) CHANGES * STEP)
                        r = -EIO;
        }
        return r;
}

int main(void) {
        struct tslab_map_options options = { .size = sizeof(options),
                                             .ttl_ms = IDLE_MS,
                                             .value_max = 4 << 20 };
        struct tslab_map *sessions;
        struct tslab *pool;
        int r;

        r = tslab_create(&pool, NULL);
        if (r == 0) {
                r = tslab_map_open(&sessions, pool, "sessions", &options);
                if (r == 0) {
                        r = run(sessions);
                        tslab_map_close(sessions);
                }
                tslab_close(pool);
        }
        if (r < 0)
                fprintf(stderr, "large-sessions: %s\n", strerror(-r));
        return r < 0;
}
