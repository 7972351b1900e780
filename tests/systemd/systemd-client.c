/*
 * A client for tests under systemd, by its first argument:
 *
 *      hold POOL N       holds N objects, allocates and frees others till SIGTERM; SIGUSR1: looks at all that it holds;
 *                        SIGUSR2: advances
 *      churn POOL BYTES  allocates as much, frees it, then waits
 *      fill POOL         allocates till it fails, prints how, then waits
 *      once POOL         allocates and frees one object
 *      close POOL        advances, then closes epoch 0
 *      read POOL         opens for reading; then tries to write
 *      map POOL          opens the map "sessions"
 *      jail POOL         opens, forks; the child changes root and user, then allocates
 *
 * The exit status says whether all was well; the output is for the test.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <tslab.h>
#include <tslab_map.h>
#include <unistd.h>

#define SIZE 100

static volatile sig_atomic_t n_looks, n_advances, ended;

static void on_signal(int number) {
        if (number == SIGUSR1)
                n_looks++;
        else if (number == SIGUSR2)
                n_advances++;
        else
                ended = 1;
}

static uint64_t now_usec(void) {
        struct timespec ts;

        (void) clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t) ts.tv_sec * 1000000 + (uint64_t) ts.tv_nsec / 1000;
}

static int fail(const char *what, int r) {
        (void) printf("failed %s %s\n", what, strerrorname_np(-r) ?: "?");
        return 1;
}

static int look(struct tslab *pool, const tslab_handle *handles, size_t n) {
        char text[32];
        void *object;
        int r;

        for (size_t i = 0; i < n; i++) {
                r = tslab_get(pool, handles[i], &object, NULL);
                (void) snprintf(text, sizeof(text), "%d %zu", (int) getpid(), i);
                if (r < 0 || strcmp(object, text) != 0)
                        return fail("look", r < 0 ? r : -EBADMSG);
        }
        return 0;
}

/* A control call, which looks for a new daemon. */
static int advance(struct tslab *pool) {
        uint32_t epoch;
        int r = tslab_epoch_advance(pool, &epoch);

        if (r < 0)
                return fail("advance", r);
        (void) printf("advanced %u\n", epoch);
        return 0;
}

static int hold_on(struct tslab *pool, const tslab_handle *handles, size_t n) {
        uint64_t gap = 0, last = now_usec(), now, n_pairs = 0;
        const struct timespec pause = { .tv_nsec = 1000000 };
        sig_atomic_t looked =
                0; /* not n_looks: the first signal may have come since we said that we are ready */
        tslab_handle handle;
        void *object;
        int r;

        while (!ended) {
                r = tslab_alloc(pool, SIZE, TSLAB_EPOCH_CURRENT, &handle, &object);
                if (r == 0)
                        r = tslab_free(pool, handle);
                if (r < 0)
                        return fail("pair", r);
                n_pairs++;
                now = now_usec();
                gap = now - last > gap ? now - last : gap;
                while (looked != n_looks) {
                        if (look(pool, handles, n))
                                return 1;
                        looked++;
                        (void) printf("looked\n");
                }
                if (n_advances > 0) {
                        n_advances = 0;
                        if (advance(pool))
                                return 1;
                }
                (void) nanosleep(&pause, NULL);
                last = now_usec(); /* the pause is ours */
        }
        (void) printf("gap %llu pairs %llu\n", (unsigned long long) gap, (unsigned long long) n_pairs);
        return look(pool, handles, n);
}

static int hold(struct tslab *pool, size_t n) {
        tslab_handle *handles = calloc(n, sizeof(*handles));
        void *object;
        int r;

        for (size_t i = 0; i < n; i++) {
                r = tslab_alloc(pool, SIZE, TSLAB_EPOCH_CURRENT, &handles[i], &object);
                if (r < 0)
                        return fail("alloc", r);
                (void) snprintf(object, SIZE, "%d %zu", (int) getpid(), i);
        }
        (void) printf("ready\n");
        r = hold_on(pool, handles, n);
        free(handles);
        return r;
}

static void wait_for_end(void) {
        while (!ended)
                (void) usleep(100000);
}

static int churn(struct tslab *pool, size_t size) {
        size_t n = size / 768;
        tslab_handle *handles = calloc(n, sizeof(*handles));
        void *object;
        int r;

        for (size_t i = 0; i < n; i++) {
                r = tslab_alloc(pool, 768, TSLAB_EPOCH_CURRENT, &handles[i], &object);
                if (r < 0)
                        return fail("alloc", r);
        }
        for (size_t i = 0; i < n; i++)
                (void) tslab_free(pool, handles[i]);
        (void) printf("ready\n");
        wait_for_end();
        free(handles);
        return 0;
}

static int fill(struct tslab *pool) {
        tslab_handle handle;
        uint64_t n = 0;
        void *object;
        int r;

        while ((r = tslab_alloc(pool, 768, TSLAB_EPOCH_CURRENT, &handle, &object)) == 0) {
                memset(object, 1, 768);
                n++;
        }
        (void) printf("full %s %llu\n", strerrorname_np(-r), (unsigned long long) n);
        wait_for_end();
        return r == -ENOMEM ? 0 : 1;
}

static int once(struct tslab *pool) {
        tslab_handle handle;
        void *object;
        int r = tslab_alloc(pool, SIZE, TSLAB_EPOCH_CURRENT, &handle, &object);

        if (r == 0)
                r = tslab_free(pool, handle);
        return r < 0 ? fail("once", r) : 0;
}

static int close_epoch(struct tslab *pool) {
        uint32_t epoch;
        int r = tslab_epoch_advance(pool, &epoch);

        if (r == 0)
                r = tslab_epoch_close(pool, 0, 0);
        return r < 0 ? fail("close", r) : 0;
}

/* By each descriptor that might be the pool's memory. */
static int try_to_write(int fd) {
        char path[64], target[64] = "";
        int other;

        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof(target) - 1) < 0 || !strstr(target, "memfd:tslab"))
                return 0;
        if (mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED || pwrite(fd, "x", 1, 0) >= 0) {
                (void) printf("written by the descriptor\n");
                return -1;
        }
        other = open(path, O_RDWR | O_CLOEXEC);
        if (other >= 0 || fchmod(fd, 0666) == 0) {
                (void) printf("written by opening it again\n");
                return -1;
        }
        return 1;
}

static int open_map(struct tslab *pool) {
        struct tslab_map *map;
        int r = tslab_map_open(&map, pool, "sessions", NULL);

        if (r < 0)
                return fail("map", r);
        tslab_map_close(map);
        return 0;
}

static int read_only(struct tslab *pool) {
        int n = 0, r;

        for (int fd = 0; fd < 1024; fd++) {
                r = try_to_write(fd);
                if (r < 0)
                        return 1;
                n += r;
        }
        (void) printf("tried %d\n", n);
        return n > 0 && once(pool) == 1 ? 0 : 1; /* which a reader may not */
}

static int in_jail(struct tslab *pool) {
        if (mkdir("/run/jail", 0755) < 0 && errno != EEXIST)
                return fail("mkdir", -errno);
        if (chroot("/run/jail") < 0 || chdir("/") < 0 || setgroups(0, NULL) < 0 || setgid(65534) < 0 ||
            setuid(65534) < 0)
                return fail("jail", -errno);
        return once(pool);
}

static int jail(struct tslab *pool) {
        pid_t pid;
        int status;

        if (once(pool))
                return 1;
        pid = fork();
        if (pid == 0) {
                status = in_jail(pool);
                (void) fflush(stdout);
                _exit(status);
        }
        return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int run(struct tslab *pool, const char *verb, size_t number) {
        if (!strcmp(verb, "hold"))
                return hold(pool, number);
        if (!strcmp(verb, "churn"))
                return churn(pool, number);
        if (!strcmp(verb, "fill"))
                return fill(pool);
        if (!strcmp(verb, "once"))
                return once(pool);
        if (!strcmp(verb, "close"))
                return close_epoch(pool);
        if (!strcmp(verb, "map"))
                return open_map(pool);
        if (!strcmp(verb, "read"))
                return read_only(pool);
        return !strcmp(verb, "jail") ? jail(pool) : 2;
}

int main(int argc, char **argv) {
        struct tslab_options options = { .size = sizeof(options) };
        struct sigaction action = { .sa_handler = on_signal };
        struct tslab *pool;
        int r;

        if (argc < 3)
                return 2;
        (void) setvbuf(stdout, NULL, _IOLBF, 0);
        (void) sigaction(SIGUSR1, &action, NULL);
        (void) sigaction(SIGUSR2, &action, NULL);
        (void) sigaction(SIGTERM, &action, NULL);
        if (!strcmp(argv[1], "read"))
                options.flags = TSLAB_READER;
        r = tslab_open(&pool, argv[2], &options);
        if (r < 0)
                return fail("open", r);
        r = run(pool, argv[1], argc > 3 ? strtoull(argv[3], NULL, 10) : 0);
        (void) tslab_close(pool);
        return r;
}
