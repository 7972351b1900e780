#include "near/sentinel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "near/clock.h"

struct Sentinel {
        sd_event *event;
        const Options *options;
        const SentinelOps *ops;
        void *userdata;
        Link *link; /* NULL: the next one is to be asked */
        uint32_t i; /* index of the server */
        bool is_up;
        uint64_t asked_usec; /* 0: no question is open */
        uint64_t seen_usec;
};

static const TopologyServer *sentinel_server(const Sentinel *sentinel) {
        return &sentinel->options->servers[sentinel->i % sentinel->options->n_servers];
}

/* The callback may free the sentinel. */
static void leave_server(Sentinel *sentinel, const char *what) {
        const TopologyServer *server = sentinel_server(sentinel);
        char why[TOPOLOGY_HOST_SIZE + 2 * NEAR_WHY_SIZE];

        (void) snprintf(why, sizeof(why), "Sentinel %s:%d: %s", server->host, server->port, what);
        sentinel->link = link_free(sentinel->link);
        sentinel->is_up = false;
        sentinel->asked_usec = 0;
        sentinel->i++;
        sentinel->ops->on_trouble(sentinel->userdata, why);
}

static void on_sentinel_gone(void *userdata, const char *why) {
        leave_server(userdata, why);
}

static void send_question(Sentinel *sentinel) {
        sentinel->asked_usec = now_usec();
        if (link_send(sentinel->link, 3,
                      (const char *[]){ "SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinel->options->sentinel }))
                leave_server(sentinel, "out of memory");
}

static void on_sentinel_up(void *userdata) {
        Sentinel *sentinel = userdata;

        sentinel->is_up = true;
        send_question(sentinel);
}

static int parse_address(const redisReply *reply, TopologyServer *ret) {
        char *end;
        long port;

        if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
            reply->element[0]->type != REDIS_REPLY_STRING || reply->element[1]->type != REDIS_REPLY_STRING)
                return -EBADMSG;
        port = strtol(reply->element[1]->str, &end, 10);
        *ret = (TopologyServer){ .port = (int) port };
        return *end || port < 1 || port > 65535 ||
                               snprintf(ret->host, sizeof(ret->host), "%s", reply->element[0]->str) >=
                                       (int) sizeof(ret->host)
                       ? -EBADMSG
                       : 0;
}

static void on_sentinel(void *userdata, const redisReply *reply) {
        Sentinel *sentinel = userdata;
        char what[NEAR_WHY_SIZE];
        TopologyServer server;

        if (reply->type == REDIS_REPLY_NIL) {
                (void) snprintf(what, sizeof(what), "it watches no primary of the name '%.100s'",
                                sentinel->options->sentinel);
                leave_server(sentinel, what);
        } else if (reply->type == REDIS_REPLY_ERROR) {
                (void) snprintf(what, sizeof(what), "SENTINEL is refused: %.160s", reply->str);
                leave_server(sentinel, what);
        } else if (parse_address(reply, &server))
                leave_server(sentinel, "its answers are not those of a Sentinel");
        else {
                sentinel->seen_usec = sentinel->asked_usec;
                sentinel->asked_usec = 0;
                sentinel->ops->on_named(sentinel->userdata, &server);
        }
}

static void open_link(Sentinel *sentinel) {
        static const LinkOps ops = { on_sentinel_up, on_sentinel, on_sentinel_gone };
        const TopologyServer *server = sentinel_server(sentinel);
        char why[NEAR_WHY_SIZE];

        sentinel->asked_usec = now_usec();
        if (link_open(&sentinel->link, sentinel->event, server->host, server->port,
                      &sentinel->options->sentinel_login, &ops, sentinel, why))
                leave_server(sentinel, why);
}

int sentinel_open(Sentinel **ret, sd_event *event, const Options *options, uint32_t first,
                  const SentinelOps *ops, void *userdata) {
        Sentinel *sentinel;

        sentinel = calloc(1, sizeof(*sentinel));
        if (!sentinel)
                return -ENOMEM;
        *sentinel = (Sentinel){
                .event = event, .options = options, .ops = ops, .userdata = userdata, .i = first
        };
        *ret = sentinel;
        return 0;
}

Sentinel *sentinel_free(Sentinel *sentinel) {
        if (!sentinel)
                return NULL;
        (void) link_free(sentinel->link);
        free(sentinel);
        return NULL;
}

void sentinel_ask(Sentinel *sentinel, uint64_t patience_usec) {
        if (!sentinel->link)
                open_link(sentinel);
        else if (sentinel->asked_usec == 0)
                send_question(sentinel);
        else if (now_usec() - sentinel->asked_usec > patience_usec)
                leave_server(sentinel, "no answer for seconds");
}

uint64_t sentinel_seen_usec(const Sentinel *sentinel) {
        return sentinel->seen_usec;
}
