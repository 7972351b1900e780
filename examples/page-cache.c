/*
 * A page cache of several workers. Of all workers that miss a page, one renders it, and the others wait. While one
 * worker renders an expired page anew, the others serve the old one. The worker that renders first is killed in the
 * middle: another one has the claim within milliseconds.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tslab_map.h>

#define WORKERS 4
#define PAGE_TTL_MS 200
#define WAIT_MS 5000
#define RENDER_MS 30

static void sleep_ms(long ms) {
        nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

/* Takes a while, and memory. */
static char *render(const char *path, size_t *ret_size) {
        char *page = malloc(50000);

        sleep_ms(RENDER_MS);
        if (page)
                *ret_size = (size_t) snprintf(page, 50000, "<h1>%s</h1><p>%49000s</p>", path, "text");
        return page;
}

/* This worker has the claim. */
static int render_claimed(struct tslab_map *pages, const char *path, tslab_handle claim, char **ret) {
        struct tslab_map_put_options options = {
                .size = sizeof(options),
                .epoch = TSLAB_EPOCH_CURRENT,
                .mode = TSLAB_MAP_REPLACE,
                .version = claim,
        };
        size_t size;

        *ret = render(path, &size);
        /* Refused if somebody deleted the page meanwhile: what was rendered may be of data before that. */
        if (!*ret || tslab_map_put_with(pages, path, strlen(path), *ret, size, &options) < 0)
                (void) tslab_map_delete_version(pages, path, strlen(path), claim);
        return *ret ? 0 : -ENOMEM;
}

/* The page, which the caller frees. */
static int get_page(struct tslab_map *pages, const char *path, char **ret) {
        struct tslab_map_info info;
        tslab_handle claim;
        int found, r;

        for (;;) {
                info = (struct tslab_map_info){ .size = sizeof(info), .accept = TSLAB_MAP_STALE };
                found = tslab_map_get_alloc(pages, path, strlen(path), (void **) ret, &info);
                if (found != -ENOENT && !(found == 0 && (info.flags & TSLAB_MAP_STALE)))
                        return found;
                r = tslab_map_claim(pages, path, strlen(path), TSLAB_EPOCH_CURRENT, &claim);
                if (r == -EBUSY && found == 0)
                        return 0; /* another renders it: the old one will do */
                if (found == 0)
                        free(*ret);
                if (r == 0)
                        return render_claimed(pages, path, claim, ret);
                if (r == -EBUSY)
                        r = tslab_map_wait(pages, path, strlen(path), claim, WAIT_MS);
                if (r < 0 && r != -EEXIST && r != -EINTR)
                        return r;
        }
}

static int serve(struct tslab_map *pages) {
        char *page;
        int r = 0;

        for (int i = 0; r == 0 && i < 100; i++) {
                r = get_page(pages, "/index.html", &page);
                if (r == 0)
                        free(page);
                sleep_ms(5);
        }
        return r;
}

/* Begins to render, and is killed. */
static int serve_and_die(struct tslab_map *pages) {
        tslab_handle claim;

        if (tslab_map_claim(pages, "/index.html", 11, TSLAB_EPOCH_CURRENT, &claim) == 0)
                (void) kill(getpid(), SIGKILL);
        return 0;
}

static int run_workers(struct tslab_map *pages) {
        int status, n_failed = 0;

        for (int i = 0; i <= WORKERS; i++) {
                pid_t pid = fork();

                if (pid < 0)
                        return -errno;
                if (pid == 0)
                        _exit((i == 0 ? serve_and_die(pages) : serve(pages)) < 0);
                if (i == 0)
                        sleep_ms(20); /* it shall be the first */
        }
        while (wait(&status) > 0)
                n_failed += WIFEXITED(status) && WEXITSTATUS(status) != 0;
        return n_failed > 0 ? -EIO : 0;
}

int main(void) {
        struct tslab_map_options options = { .size = sizeof(options),
                                             .ttl_ms = PAGE_TTL_MS,
                                             .stale_ms = 60000 };
        struct tslab_map_statistics s = { .size = sizeof(s) };
        struct tslab_map *pages;
        struct tslab *pool;
        int r;

        r = tslab_create(&pool, NULL);
        if (r == 0) {
                r = tslab_map_open(&pages, pool, "pages", &options);
                if (r == 0)
                        r = run_workers(pages);
                if (r == 0)
                        r = tslab_map_statistics(pages, &s);
                if (r == 0)
                        printf("%d workers got %llu pages from the cache\n", WORKERS,
                               (unsigned long long) s.hits);
                if (r == 0)
                        tslab_map_close(pages);
                tslab_close(pool);
        }
        if (r < 0)
                fprintf(stderr, "page-cache: %s\n", strerror(-r));
        return r < 0;
}
