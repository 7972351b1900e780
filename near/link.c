#include "near/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "near/lookup.h"

#define INPUT_SIZE 16384
#define ANSWER_MAX (UINT64_C(256) << 20) /* a server's memory is not to become ours */

struct Link {
        redisContext *context; /* NULL: the name is being looked up */
        sd_event *event;
        sd_event_source *source; /* the connection's, or the lookup's */
        int lookup_fd, port;
        const LinkLogin *login;
        const LinkOps *ops;
        void *userdata;
        bool is_connected;
        uint32_t n_login; /* replies to the login that are yet to come */
        uint64_t n_bytes; /* that came of the next reply */
        bool *ret_freed; /* in a callback: where it is noted that the callback freed the link */
};

static void watch_output(Link *link, bool wanted) {
        (void) sd_event_source_set_io_events(link->source, EPOLLIN | (wanted ? EPOLLOUT : 0U));
}

static void tell_gone(Link *link, const char *why) {
        link->ops->on_gone(link->userdata, why);
}

static void take_login(Link *link, const redisReply *reply) {
        char why[NEAR_WHY_SIZE];

        link->n_login--;
        if (reply->type == REDIS_REPLY_ERROR) {
                (void) snprintf(why, sizeof(why), "%s is refused: %s",
                                link->n_login > 0 ? "the password" : "CLIENT SETNAME", reply->str);
                tell_gone(link, why);
        } else if (link->n_login == 0)
                link->ops->on_up(link->userdata);
}

/* Returns whether the link is there still. */
static bool take_replies(Link *link) {
        bool is_freed = false;
        void *reply = NULL;

        link->ret_freed = &is_freed;
        while (!is_freed && redisGetReplyFromReader(link->context, &reply) == REDIS_OK && reply) {
                if (link->n_login > 0)
                        take_login(link, reply);
                else
                        link->ops->on_reply(link->userdata, reply);
                freeReplyObject(reply);
                reply = NULL;
                if (!is_freed)
                        link->n_bytes = 0;
        }
        if (is_freed)
                return false;
        link->ret_freed = NULL;
        if (link->context->err == 0)
                return true;
        tell_gone(link, link->context->errstr);
        return false;
}

/* The reason why the connection is no more; NULL: none. */
static const char *read_input(Link *link) {
        char bytes[INPUT_SIZE];
        ssize_t n;

        n = read(link->context->fd, bytes, sizeof(bytes));
        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? NULL : strerror(errno);
        if (n == 0)
                return "the server closed the connection";
        link->n_bytes += (uint64_t) n;
        if (link->n_bytes > ANSWER_MAX)
                return "an answer of more than 256 MiB";
        return redisReaderFeed(link->context->reader, bytes, (size_t) n) == REDIS_OK ? NULL : "out of memory";
}

/* 0: the connection stands, or is not decided. */
static int check_connected(Link *link) {
        socklen_t size = sizeof(int);
        int error = 0;

        if (getsockopt(link->context->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
                return -errno;
        return -error;
}

static int send_login(Link *link) {
        const LinkLogin *l = link->login;
        int r = 0;

        if (l->password && l->user)
                r = link_send(link, 3, (const char *[]){ "AUTH", l->user, l->password });
        else if (l->password)
                r = link_send(link, 2, (const char *[]){ "AUTH", l->password });
        link->n_login = 1 + (l->password != NULL);
        return r ?: link_send(link, 3, (const char *[]){ "CLIENT", "SETNAME", "tslab-near" });
}

static void finish_connect(Link *link) {
        int r;

        r = check_connected(link);
        if (r == 0)
                r = send_login(link);
        if (r)
                tell_gone(link, strerror(-r));
        else
                link->is_connected = true;
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        Link *link = userdata;
        const char *why;
        int is_done = 0;

        if (!link->is_connected) {
                finish_connect(link);
                return 0;
        }
        if (revents & EPOLLOUT) {
                if (redisBufferWrite(link->context, &is_done) != REDIS_OK) {
                        tell_gone(link, link->context->errstr);
                        return 0;
                }
                if (is_done)
                        watch_output(link, false);
        }
        if (revents & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
                why = read_input(link);
                if (why)
                        tell_gone(link, why);
                else
                        (void) take_replies(link);
        }
        return 0;
}

/* `host` is an address, or the path of a socket. */
static int link_connect(Link *link, const char *host, char *ret_why) {
        redisContext *context =
                host[0] == '/' ? redisConnectUnixNonBlock(host) : redisConnectNonBlock(host, link->port);
        int r;

        link->context = context;
        if (context && context->err) {
                (void) snprintf(ret_why, NEAR_WHY_SIZE, "%s", context->errstr);
                return -ECONNREFUSED;
        }
        r = context ? sd_event_add_io(link->event, &link->source, context->fd, EPOLLIN | EPOLLOUT, on_io,
                                      link)
                    : -ENOMEM;
        if (r < 0)
                (void) snprintf(ret_why, NEAR_WHY_SIZE, "%s", strerror(-r));
        return r < 0 ? r : 0;
}

static int on_lookup(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        LookupAnswer answer = { .error = EAI_FAIL };
        char why[NEAR_WHY_SIZE];
        Link *link = userdata;

        if (read(fd, &answer, sizeof(answer)) != sizeof(answer))
                answer.error = EAI_FAIL;
        link->source = sd_event_source_disable_unref(link->source);
        if (answer.error)
                tell_gone(link, gai_strerror(answer.error));
        else if (link_connect(link, answer.address, why))
                tell_gone(link, why);
        return 0;
}

static int link_look_up(Link *link, const char *host, char *ret_why) {
        int r;

        link->lookup_fd = r = lookup_begin(host);
        if (r >= 0)
                r = sd_event_add_io(link->event, &link->source, link->lookup_fd, EPOLLIN, on_lookup, link);
        if (r < 0)
                (void) snprintf(ret_why, NEAR_WHY_SIZE, "cannot look a name up: %s", strerror(-r));
        return r < 0 ? r : 0;
}

static bool is_name(const char *host) {
        struct in6_addr address;

        return host[0] != '/' && inet_pton(AF_INET, host, &address) != 1 &&
               inet_pton(AF_INET6, host, &address) != 1;
}

int link_open(Link **ret, sd_event *event, const char *host, int port, const LinkLogin *login,
              const LinkOps *ops, void *userdata, char *ret_why) {
        Link *link;
        int r;

        (void) snprintf(ret_why, NEAR_WHY_SIZE, "out of memory");
        link = calloc(1, sizeof(*link));
        if (!link)
                return -ENOMEM;
        *link = (Link){ .event = event,
                        .lookup_fd = -1,
                        .port = port,
                        .login = login,
                        .ops = ops,
                        .userdata = userdata };
        r = is_name(host) ? link_look_up(link, host, ret_why) : link_connect(link, host, ret_why);
        if (r)
                (void) link_free(link);
        else
                *ret = link;
        return r;
}

Link *link_free(Link *link) {
        if (!link)
                return NULL;
        if (link->ret_freed)
                *link->ret_freed = true;
        (void) sd_event_source_disable_unref(link->source);
        if (link->lookup_fd >= 0)
                (void) close(link->lookup_fd);
        if (link->context)
                redisFree(link->context);
        free(link);
        return NULL;
}

int link_send(Link *link, size_t n, const char *const *arguments) {
        if (redisAppendCommandArgv(link->context, (int) n, (const char **) (uintptr_t) arguments, NULL) !=
            REDIS_OK)
                return -ENOMEM;
        watch_output(link, true);
        return 0;
}
