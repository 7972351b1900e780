#include "daemon/ctl/output/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/ctl/output/metrics.h"
#include "proto/cleanup.h"
#include "proto/deadline.h"

#define CONNECTIONS_MAX 64U /* the oldest is hung up when another comes */
#define CONNECTION_SECONDS 10U
#define HEAD_MAX 16384U /* bytes of a connection's memory */
#define IDLE_USEC (30 * PROTO_USEC_PER_SEC)
#define WAIT_MSEC 1000

/* The descriptors of the connections, the oldest first. The server closes them. */
typedef struct Queue {
        int fds[CONNECTIONS_MAX];
        size_t n;
} Queue;

typedef struct Service {
        HttpRender *render;
        bool is_local; /* listens at a loopback address: a page of another server may not be a way in */
        Queue queue;
} Service;

static void queue_remove(Queue *queue, size_t at) {
        queue->n--;
        memmove(&queue->fds[at], &queue->fds[at + 1], (queue->n - at) * sizeof(queue->fds[0]));
}

/*
 * A connection that says nothing keeps its place for ten seconds, and any local user can open as many as they like: TCP
 * does not tell whose they are. One that asks at once is answered long before so many others have come.
 */
static void on_connection(void *userdata, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode code) {
        const union MHD_ConnectionInfo *info =
                MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        Queue *queue = &((Service *) userdata)->queue;

        (void) state;
        if (code == MHD_CONNECTION_NOTIFY_STARTED) {
                if (queue->n == CONNECTIONS_MAX) {
                        (void) shutdown(queue->fds[0], SHUT_RDWR);
                        queue_remove(queue, 0);
                }
                queue->fds[queue->n++] = info->connect_fd;
                return;
        }
        for (size_t i = 0; i < queue->n; ++i)
                if (queue->fds[i] == info->connect_fd) {
                        queue_remove(queue, i);
                        break;
                }
}

/* The name without port and brackets; false: it is too long. */
static bool host_name(const char *host, char *ret, size_t size) {
        const char *begin = host[0] == '[' ? host + 1 : host;
        size_t n = strcspn(begin, host[0] == '[' ? "]" : ":");

        if (n >= size)
                return false;
        memcpy(ret, begin, n);
        ret[n] = '\0';
        return true;
}

bool http_host_is_local(const char *host) {
        struct in6_addr address;
        char name[64];

        if (!host_name(host, name, sizeof(name)))
                return false;
        return !strcasecmp(name, "localhost") || inet_pton(AF_INET, name, &address) == 1 ||
               inet_pton(AF_INET6, name, &address) == 1;
}

static enum MHD_Result answer_request(struct MHD_Connection *connection, unsigned status, const char *type,
                                      char *body, size_t size) {
        struct MHD_Response *response = MHD_create_response_from_buffer(size, body, MHD_RESPMEM_MUST_FREE);
        enum MHD_Result r;

        if (!response) {
                free(body);
                return MHD_NO;
        }
        (void) MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
        (void) MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
        if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
                (void) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
        r = MHD_queue_response(connection, status, response);
        MHD_destroy_response(response);
        return r;
}

static enum MHD_Result refuse_request(struct MHD_Connection *connection, unsigned status) {
        char *body = NULL;
        int n = asprintf(&body, "%u %s\n", status, MHD_get_reason_phrase_for(status));

        return n < 0 ? MHD_NO
                     : answer_request(connection, status, "text/plain; charset=utf-8", body, (size_t) n);
}

static unsigned check_request(const Service *service, struct MHD_Connection *connection, const char *url,
                              const char *method) {
        const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);

        if (host && service->is_local && !http_host_is_local(host))
                return MHD_HTTP_FORBIDDEN;
        if (strcmp(url, "/metrics") != 0)
                return MHD_HTTP_NOT_FOUND;
        return strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0
                       ? MHD_HTTP_METHOD_NOT_ALLOWED
                       : MHD_HTTP_OK;
}

static enum MHD_Result on_request(void *userdata, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_size, void **state) {
        const Service *service = userdata;
        unsigned status = check_request(service, connection, url, method);
        const char *accept;
        size_t size;
        bool open;
        char *body;

        (void) version;
        (void) data;
        (void) data_size;
        if (status != MHD_HTTP_OK)
                return refuse_request(connection, status);
        if (!*state) { /* the head alone is there; an answer now would end the connection early */
                *state = connection;
                return MHD_YES;
        }
        accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
        open = accept && strstr(accept, "application/openmetrics-text");
        body = service->render(open, &size);
        if (!body)
                return refuse_request(connection, MHD_HTTP_INTERNAL_SERVER_ERROR);
        return answer_request(connection, MHD_HTTP_OK, open ? METRICS_TYPE_OPEN : METRICS_TYPE_PLAIN, body,
                              size);
}

static bool is_listening(int fd) {
        socklen_t size = sizeof(int);
        int value = 0;

        return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) == 0 && value;
}

/* Also if the address cannot be told. */
static bool is_loopback(int fd) {
        struct sockaddr_storage address = {};
        socklen_t size = sizeof(address);
        uint32_t v4;

        if (getsockname(fd, (struct sockaddr *) &address, &size) < 0)
                return true;
        if (address.ss_family == AF_INET) {
                v4 = ntohl(((const struct sockaddr_in *) &address)->sin_addr.s_addr);
                return v4 >> 24 == IN_LOOPBACKNET;
        }
        return address.ss_family != AF_INET6 ||
               IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *) &address)->sin6_addr);
}

/* Into host and port, as getaddrinfo() takes them; it takes 65537 for 1. False: it is too long, or there is no port. */
static bool split_address(const char *where, char host[64], const char **ret_port) {
        const char *colon = strrchr(where, ':');
        unsigned long port;

        *ret_port = colon ? colon + 1 : where;
        (void) strcpy(host, "127.0.0.1");
        port = strtoul(*ret_port, NULL, 10);
        return port > 0 && port <= UINT16_MAX && (!colon || host_name(where, host, 64));
}

int http_listen(const char *where) {
        const struct addrinfo wanted = { .ai_socktype = SOCK_STREAM,
                                         .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV };
        const int one = 1;
        struct addrinfo *found;
        const char *port;
        char host[64];
        int fd, r = 0;

        if (!split_address(where, host, &port) || getaddrinfo(host, port, &wanted, &found) != 0)
                return -EINVAL;
        fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
            bind(fd, found->ai_addr, found->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0)
                r = -errno;
        freeaddrinfo(found);
        if (r == 0)
                return fd;
        (void) proto_close(fd);
        return r;
}

static volatile sig_atomic_t is_told_to_end;

static void on_end_signal(int signal) {
        is_told_to_end = signal;
}

/* As process 1 of a container, a program does not end by a signal that it does not handle. */
static void handle_end_signals(void) {
        const struct sigaction action = { .sa_handler = on_end_signal };

        (void) sigaction(SIGTERM, &action, NULL);
        (void) sigaction(SIGINT, &action, NULL);
        (void) signal(SIGPIPE, SIG_IGN);
}

/* The socket stays with systemd, which starts another server for the next connection. */
static void serve_requests(struct MHD_Daemon *server, bool until_idle) {
        uint64_t busy_usec = proto_now_usec();

        while (!is_told_to_end && (!until_idle || proto_now_usec() - busy_usec < IDLE_USEC)) {
                const union MHD_DaemonInfo *info;

                if (MHD_run_wait(server, WAIT_MSEC) != MHD_YES)
                        return;
                info = MHD_get_daemon_info(server, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
                if (info && info->num_connections > 0)
                        busy_usec = proto_now_usec();
        }
}

int http_serve(int listen_fd, HttpRender *render, bool until_idle) {
        struct MHD_Daemon *server;
        Service service = { .render = render, .is_local = is_loopback(listen_fd) };

        if (!is_listening(listen_fd))
                return -ENOTSOCK;
        handle_end_signals();
        listen_fd = fcntl(listen_fd, F_DUPFD_CLOEXEC, 3); /* the server closes it */
        if (listen_fd < 0)
                return -errno;
        server = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, &service,
                                  MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_CONNECTION_LIMIT,
                                  2 * CONNECTIONS_MAX, MHD_OPTION_NOTIFY_CONNECTION, on_connection, &service,
                                  MHD_OPTION_CONNECTION_TIMEOUT, CONNECTION_SECONDS,
                                  MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) HEAD_MAX,
                                  MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
        if (!server)
                return -EIO;
        serve_requests(server, until_idle);
        MHD_stop_daemon(server);
        return 0;
}
