#include "near/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "near/name-lookup.h"
#include "near/topology.h"

#define INPUT_SIZE 16384
#define ANSWER_MAX (UINT64_C(256) << 20) /* a server's memory is not to become ours */

struct Link {
        Stream *stream; /* NULL: the name is being looked up */
        redisReader *reader;
        char host[TOPOLOGY_HOST_SIZE];
        char *output; /* that the stream has not taken yet */
        size_t output_size;
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
        wanted = wanted || stream_wants_output(link->stream);
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

/* Returns whether the link is there still. No callback comes back in here. */
static bool take_replies(Link *link) {
        static bool is_freed;
        void *reply = NULL;

        is_freed = false;
        link->ret_freed = &is_freed;
        while (!is_freed && redisReaderGetReply(link->reader, &reply) == REDIS_OK && reply) {
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
        if (link->reader->err == 0)
                return true;
        tell_gone(link, link->reader->errstr);
        return false;
}

/* Bytes that came; 0: none now; negative: the connection is no more, and a callback was told. */
static ssize_t read_input(Link *link, const char *why_none) {
        char bytes[INPUT_SIZE], why[NEAR_WHY_SIZE] = "out of memory";
        ssize_t n;

        n = stream_read(link->stream, bytes, sizeof(bytes), why);
        if (n == 0 && !why_none)
                return 0;
        if (n > 0) {
                link->n_bytes += (uint64_t) n;
                if (link->n_bytes > ANSWER_MAX)
                        (void) snprintf(why, sizeof(why), "an answer of more than 256 MiB");
                else if (redisReaderFeed(link->reader, bytes, (size_t) n) == REDIS_OK)
                        return take_replies(link) ? n : -ECONNRESET;
        }
        tell_gone(link, n == 0 ? why_none : why);
        return -ECONNRESET;
}

/* The server takes no more. It may have said why before: by an error, or by an alert of TLS. */
static void take_last_words(Link *link, const char *why) {
        while (read_input(link, why) > 0)
                ;
}

/* Whether the connection is there still. */
static bool write_output(Link *link) {
        char why[NEAR_WHY_SIZE];
        ssize_t n;

        n = link->output_size ? stream_write(link->stream, link->output, link->output_size, why) : 0;
        if (n < 0) {
                take_last_words(link, why);
                return false;
        }
        link->output_size -= (size_t) n;
        memmove(link->output, link->output + n, link->output_size);
        watch_output(link, link->output_size > 0);
        return true;
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
        char why[NEAR_WHY_SIZE] = "out of memory";
        int r;

        r = stream_connect(link->stream, why);
        if (r == 0) {
                watch_output(link, false);
                return;
        }
        if (r < 0 || send_login(link))
                tell_gone(link, why);
        else
                link->is_connected = true;
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        Link *link = userdata;

        if (!link->is_connected)
                finish_connect(link);
        else if (!(revents & EPOLLOUT) || write_output(link))
                if (revents & (EPOLLIN | EPOLLHUP | EPOLLERR))
                        (void) read_input(link, NULL);
        return 0;
}

/* `address` is one, or the path of a socket. */
static int link_connect(Link *link, const char *address, char *ret_why) {
        int r;

        r = stream_open(&link->stream, address, link->port, link->host, link->login->tls, ret_why);
        if (r)
                return r;
        r = sd_event_add_io(link->event, &link->source, stream_fd(link->stream), EPOLLIN | EPOLLOUT, on_io,
                            link);
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
        (void) snprintf(link->host, sizeof(link->host), "%s", host);
        link->reader = redisReaderCreate();
        r = !link->reader   ? -ENOMEM
            : is_name(host) ? link_look_up(link, host, ret_why)
                            : link_connect(link, host, ret_why);
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
        (void) stream_free(link->stream);
        if (link->reader)
                redisReaderFree(link->reader);
        free(link->output);
        free(link);
        return NULL;
}

int link_send(Link *link, size_t n, const char *const *arguments) {
        char *command, *output;
        long long size;

        size = redisFormatCommandArgv(&command, (int) n, (const char **) (uintptr_t) arguments, NULL);
        if (size < 0)
                return -ENOMEM;
        output = realloc(link->output, link->output_size + (size_t) size);
        if (output) {
                memcpy(output + link->output_size, command, (size_t) size);
                link->output = output;
                link->output_size += (size_t) size;
        }
        redisFreeCommand(command);
        if (!output)
                return -ENOMEM;
        watch_output(link, true);
        return 0;
}
