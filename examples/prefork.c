/*
 * A prefork server: workers share one listening socket, and one map of sessions, so that any of them can
 * serve anybody. A worker that dies is replaced; the pool gets back the memory it held, and sessions stay.
 *
 *      prefork         serves some requests of its own and kills a worker on the way
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tslab.h>
#include <tslab_map.h>

#define WORKERS 4
#define REQUESTS 400

struct server {
        struct tslab *pool;
        struct tslab_map *sessions;
        int listener;
        pid_t workers[WORKERS]; /* 0: not started */
};

/* One more visit in the session of that name: how many there were. */
static int count_visit(struct tslab_map *sessions, const char *name) {
        size_t size = strlen(name);
        tslab_handle version;
        int visits, r;

        do {
                visits = version = 0; /* absent */
                r = (int) tslab_map_get(sessions, name, size, &visits, sizeof(visits), &version);
                if (r < 0 && r != -ENOENT)
                        return r;
                visits++;
                r = tslab_map_replace(sessions, name, size, version, &visits, sizeof(visits),
                                      TSLAB_EPOCH_CURRENT);
        } while (r == -EAGAIN); /* another worker came between */
        return r < 0 ? r : visits;
}

static void serve_connections(struct server *server) {
        for (;;) {
                int fd = accept(server->listener, NULL, NULL), visits;
                char name[32];
                ssize_t n;

                if (fd < 0)
                        continue;
                n = read(fd, name, sizeof(name) - 1);
                name[n > 0 ? n : 0] = 0;
                visits = count_visit(server->sessions, name);
                if (send(fd, &visits, sizeof(visits), MSG_NOSIGNAL) < 0)
                        perror("send"); /* the browser hung up */
                close(fd);
        }
}

static int start_worker(struct server *server, int i) {
        pid_t pid = fork();

        if (pid == 0)
                serve_connections(server);
        server->workers[i] = pid > 0 ? pid : 0; /* a signal to process -1 would end all others */
        return pid < 0 ? -errno : 0;
}

/* Replaces the workers that died. */
static int look_after(struct server *server) {
        pid_t pid;
        int r = 0;

        while (r >= 0 && (pid = waitpid(-1, NULL, WNOHANG)) > 0) {
                printf("worker %d died\n", (int) pid);
                r = tslab_reap(server->pool); /* with tslab_open(), the daemon does it */
                for (int i = 0; r >= 0 && i < WORKERS; i++)
                        if (server->workers[i] == pid)
                                r = start_worker(server, i);
        }
        return r;
}

/* Somebody's browser. */
static int ask_server(int listener, const char *name) {
        struct sockaddr_storage address;
        socklen_t size = sizeof(address);
        int fd = socket(AF_UNIX, SOCK_STREAM, 0), visits = -1;

        getsockname(listener, (struct sockaddr *) &address, &size);
        if (connect(fd, (struct sockaddr *) &address, size) < 0 ||
            send(fd, name, strlen(name), MSG_NOSIGNAL) < 0 ||
            read(fd, &visits, sizeof(visits)) != sizeof(visits))
                visits = -1; /* that worker was killed */
        close(fd);
        return visits;
}

static int run_server(struct server *server) {
        int r = 0, visits = 0;

        for (int i = 0; i < WORKERS && r == 0; i++)
                r = start_worker(server, i);
        for (int i = 0; r >= 0 && i < REQUESTS; i++) {
                if (i == REQUESTS / 2)
                        kill(server->workers[0], SIGKILL);
                r = look_after(server);
                visits = ask_server(server->listener, "ann");
        }
        printf("ann was here %d times\n", visits);
        for (int i = 0; i < WORKERS; i++)
                if (server->workers[i] > 0)
                        kill(server->workers[i], SIGTERM);
        while (wait(NULL) > 0)
                ;
        return r < 0 ? r : visits < REQUESTS - 1; /* the killed one may have had a request in hand */
}

int main(void) {
        /* A name that the kernel finds: no file, no port. */
        struct sockaddr address = { .sa_family = AF_UNIX };
        struct server server = { .listener = socket(AF_UNIX, SOCK_STREAM, 0) };
        int r;

        if (bind(server.listener, &address, sizeof(address.sa_family)) < 0 || listen(server.listener, 64) < 0)
                return 1;
        r = tslab_create(&server.pool, NULL);
        if (r == 0)
                r = tslab_map_open(&server.sessions, server.pool, "sessions", NULL);
        if (r == 0) {
                r = run_server(&server);
                tslab_map_close(server.sessions);
                tslab_close(server.pool);
        }
        if (r < 0)
                fprintf(stderr, "failed: %s\n", strerror(-r));
        return r != 0;
}
