#include "examples/demo/server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tslab.h>

#include "examples/demo/command.h"
#include "examples/demo/demo-json.h"
#include "examples/demo/util.h"

#define START_NS (UINT64_C(10) * 1000000000)

/* From BUILD/examples/tslab-demo to BUILD. */
static void find_build(Server *server) {
        ssize_t n = readlink("/proc/self/exe", server->bin, sizeof(server->bin) - 1);

        server->bin[n > 0 ? n : 0] = 0;
        for (int i = 0; i < 2; ++i) {
                char *slash = strrchr(server->bin, '/');

                *(slash ?: server->bin) = 0;
        }
}

static int make_dir(Server *server) {
        const char *tmp = getenv("TMPDIR");
        int n = snprintf(server->dir, sizeof(server->dir), "%s/tslab-demo-XXXXXX",
                         tmp && tmp[0] == '/' ? tmp : "/tmp");

        /* A socket's path must be short. */
        if (n < 0 || (size_t) n >= sizeof(server->dir))
                (void) snprintf(server->dir, sizeof(server->dir), "/tmp/tslab-demo-XXXXXX");
        if (!mkdtemp(server->dir)) {
                server->dir[0] = 0;
                return -errno;
        }
        if (setenv("TSLAB_RUNTIME_DIR", server->dir, true) < 0 || setenv("TSLAB_POOL", SERVER_POOL, true) < 0)
                return -errno;
        return 0;
}

/* The daemon's messages go into a file, to be shown if it does not start. */
static _Noreturn void run_daemon(const Server *server) {
        static const char *const not_its[] = { "TSLAB_LISTEN", "NOTIFY_SOCKET", "LISTEN_FDS",
                                               "WATCHDOG_USEC" };
        char path[sizeof(server->bin) + 32], log[sizeof(server->dir) + 16];
        /* Twice the largest page cache. This is address space: memory is committed as it is needed. */
        char *const argv[] = { "tslabd", "--pool=" SERVER_POOL, "--size=1G", NULL };
        int fd;

        for (size_t i = 0; i < sizeof(not_its) / sizeof(not_its[0]); ++i)
                (void) unsetenv(not_its[i]);
        (void) snprintf(path, sizeof(path), "%s/daemon/tslabd", server->bin);
        (void) snprintf(log, sizeof(log), "%s/tslabd.log", server->dir);
        fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (fd >= 0) {
                (void) dup2(fd, STDOUT_FILENO);
                (void) dup2(fd, STDERR_FILENO);
        }

        /* Not of the terminal's group: ^C is the demo's, which stops the daemon last. */
        (void) setsid();
        if (!server->keep)
                (void) prctl(PR_SET_PDEATHSIG, SIGTERM);
        command_exec(path, argv);
}

static void show_log(const Server *server) {
        char path[sizeof(server->dir) + 16], line[1024];
        FILE *f;

        (void) snprintf(path, sizeof(path), "%s/tslabd.log", server->dir);
        f = fopen(path, "re");
        while (f && fgets(line, sizeof(line), f))
                (void) fprintf(stderr, "  %s", line);
        if (f)
                (void) fclose(f);
}

/* Tells why not. */
static bool is_alive(Server *server) {
        int status;

        if (server->pid == 0 || waitpid(server->pid, &status, WNOHANG) != server->pid)
                return server->pid != 0;

        server->pid = 0;
        (void) fprintf(stderr, "tslab-demo: the daemon ended (%s %d); it said:\n",
                       WIFEXITED(status) ? "exit code" : "signal",
                       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        show_log(server);
        return false;
}

void server_explain(Server *server, int error) {
        bool hung_up = error == -ECONNRESET || error == -ENOTCONN;

        /* A process that dies closes its sockets some time before its parent hears of it. */
        for (int i = 0; is_alive(server) && hung_up && i < 100; ++i)
                (void) usleep(10000);
}

/* The daemon listens some milliseconds after its start. */
static int wait_until_open(Server *server) {
        uint64_t begin = now_ns();
        struct tslab *pool = NULL;
        int r;

        for (;;) {
                r = tslab_open(&pool, NULL, NULL);
                if (r == 0)
                        break;
                if ((r != -ENOENT && r != -ECONNREFUSED) || now_ns() - begin > START_NS)
                        break;
                if (!is_alive(server))
                        return -ECHILD;
                (void) usleep(2000);
        }
        if (r < 0)
                (void) fprintf(stderr, "tslab-demo: cannot open the pool: %s\n", strerror(-r));
        (void) tslab_close(pool);
        return r;
}

int server_start(Server *ret, bool keep) {
        int r;

        *ret = (Server){ .keep = keep };
        find_build(ret);
        r = make_dir(ret);
        if (r) {
                (void) fprintf(stderr, "tslab-demo: cannot make a temporary folder: %s\n", strerror(-r));
                return r;
        }

        ret->pid = fork();
        if (ret->pid == 0)
                run_daemon(ret);
        if (ret->pid < 0) {
                ret->pid = 0;
                return -EAGAIN;
        }
        return wait_until_open(ret);
}

static void remove_dir(const char *path) {
        DIR *dir = opendir(path);
        const struct dirent *entry;

        while (dir && (entry = readdir(dir)))
                (void) unlinkat(dirfd(dir), entry->d_name, 0);
        if (dir)
                (void) closedir(dir);
        (void) rmdir(path);
}

static void say_how_to_look(const Server *server) {
        (void) fprintf(stderr,
                       "The daemon goes on running, as process %d. To look at it, and to end it:\n"
                       "  export TSLAB_RUNTIME_DIR=%s\n"
                       "  %s/daemon/ctl/tslabctl --pool " SERVER_POOL " stats\n"
                       "  kill %d && rm -r $TSLAB_RUNTIME_DIR\n",
                       server->pid, server->dir, server->bin, server->pid);
}

void server_stop(Server *server) {
        if (server->pid > 0 && server->keep) {
                say_how_to_look(server);
                return;
        }
        if (server->pid > 0) {
                (void) kill(server->pid, SIGTERM);
                (void) command_wait(server->pid);
        }
        if (server->dir[0])
                remove_dir(server->dir);
        *server = (Server){};
}

static int run_ctl(const Server *server, const char *verb, const char *option, char *output, size_t size) {
        char path[sizeof(server->bin) + 32];
        char *const argv[] = { "tslabctl", "--pool", SERVER_POOL, (char *) verb, (char *) option, NULL };

        (void) snprintf(path, sizeof(path), "%s/daemon/ctl/tslabctl", server->bin);
        return command_run(path, argv, output, size);
}

int server_memory(const Server *server, ServerMemory *ret) {
        static char output[1 << 20];
        int r;

        r = run_ctl(server, "stats", "--json", output, sizeof(output));
        if (r == 0 && (json_find_number(output, "committed_bytes", &ret->committed_size) ||
                       json_find_number(output, "retained_bytes", &ret->retained_size)))
                r = -EBADMSG;
        if (r)
                (void) fprintf(stderr, "tslab-demo: 'tslabctl stats --json' failed (%d)\n", r);
        return r > 0 ? -EIO : r;
}

int server_check(const Server *server) {
        char output[8192];
        int r;

        r = run_ctl(server, "check", NULL, output, sizeof(output));
        if (r)
                (void) fprintf(stderr, "tslab-demo: 'tslabctl check' ended with %d:\n%s\n", r, output);
        return r;
}
