#include "near/primary.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "near/clock.h"

#define CHANNEL "__redis__:invalidate"

/* A question that is sent again as soon as it is answered, and the one before it. */
typedef struct Question {
        uint64_t asked_usec; /* 0: none is open */
        uint64_t seen_usec;
} Question;

struct Primary {
        Link *push, *ask;
        const Topology *topology; /* NULL: the server is alone */
        Topology found;
        TopologyServer server;
        const Options *options;
        const PrimaryOps *ops;
        void *userdata;
        enum { IDENTIFYING, TRACKING, SUBSCRIBING, LISTENING } state;
        bool ask_is_up;
        enum { ASKED_INFO, ASKED_SLOTS, ASKED_NODES } asked; /* in a cluster: the answer that comes next */
        uint64_t opened_usec;
        uint64_t strays; /* topology_strays() of the first answer */
        Question fence, slots;
};

static void lose_primary(Primary *primary, const char *format, const char *detail) {
        char what[NEAR_WHY_SIZE], why[TOPOLOGY_HOST_SIZE + 2 * NEAR_WHY_SIZE];

        (void) snprintf(what, sizeof(what), format, detail);
        (void) snprintf(why, sizeof(why), "%s:%d: %s", primary->server.host, primary->server.port, what);
        primary->ops->on_lost(primary->userdata, why);
}

static void on_link_gone(void *userdata, const char *why) {
        lose_primary(userdata, "%s", why);
}

static void on_push_up(void *userdata) {
        Primary *primary = userdata;

        if (link_send(primary->push, 2, (const char *[]){ "CLIENT", "ID" }))
                lose_primary(primary, "%s", "out of memory");
}

static int send_tracking(Primary *primary, long long id) {
        const char *arguments[7 + 2 * OPTIONS_PREFIXES_MAX] = { "CLIENT",   "TRACKING", "ON",
                                                                "REDIRECT", NULL,       "BCAST" };
        char number[24];
        size_t n = 6;

        (void) snprintf(number, sizeof(number), "%lld", id);
        arguments[4] = number;
        for (uint32_t i = 0; i < primary->options->n_prefixes; i++) {
                arguments[n++] = "PREFIX";
                arguments[n++] = primary->options->prefixes[i];
        }
        return link_send(primary->push, n, arguments);
}

static bool is_message(const redisReply *reply, const char *kind, size_t n) {
        return reply->type == REDIS_REPLY_ARRAY && reply->elements == n &&
               reply->element[0]->type == REDIS_REPLY_STRING && strcmp(reply->element[0]->str, kind) == 0;
}

/* Replies before the server sends changes. */
static int take_setup(Primary *primary, const redisReply *reply) {
        switch (primary->state) {
        case IDENTIFYING:
                primary->state = TRACKING;
                return reply->type == REDIS_REPLY_INTEGER ? send_tracking(primary, reply->integer) : -EBADMSG;
        case TRACKING:
                primary->state = SUBSCRIBING;
                return link_send(primary->push, 2, (const char *[]){ "SUBSCRIBE", CHANNEL });
        case SUBSCRIBING:
                if (!is_message(reply, "subscribe", 3))
                        return -EBADMSG;
                primary->state = LISTENING;
                if (primary_is_ready(primary))
                        primary->ops->on_ready(primary->userdata);
                return 0;
        case LISTENING:
                break;
        }
        return -EBADMSG;
}

static void tell_changes(Primary *primary, const redisReply *keys) {
        if (keys->type != REDIS_REPLY_ARRAY) {
                primary->ops->on_change(primary->userdata, NULL, 0);
                return;
        }
        for (size_t i = 0; i < keys->elements; i++)
                if (keys->element[i]->type == REDIS_REPLY_STRING)
                        primary->ops->on_change(primary->userdata, keys->element[i]->str,
                                                keys->element[i]->len);
}

static void question_answered(Primary *primary, Question *question) {
        question->seen_usec = question->asked_usec;
        question->asked_usec = 0;
        primary->ops->on_answer(primary->userdata);
}

static const char *command_name(const Primary *primary) {
        static const char *const names[] = { "CLIENT ID", "CLIENT TRACKING", "SUBSCRIBE " CHANNEL, "PING" };

        return names[primary->state];
}

static void on_push(void *userdata, const redisReply *reply) {
        Primary *primary = userdata;
        char why[NEAR_WHY_SIZE];

        if (reply->type == REDIS_REPLY_ERROR) {
                (void) snprintf(why, sizeof(why), "%s is refused: %.160s", command_name(primary), reply->str);
                lose_primary(primary, "%s", why);
        } else if (primary->state == LISTENING && is_message(reply, "message", 3))
                tell_changes(primary, reply->element[2]);
        else if (primary->state == LISTENING && is_message(reply, "pong", 2) && primary->fence.asked_usec)
                question_answered(primary, &primary->fence);
        else if (take_setup(primary, reply))
                lose_primary(primary, "%s", "the server's answers are not those of Redis");
}

static void on_ask_up(void *userdata) {
        Primary *primary = userdata;

        primary->ask_is_up = true;
        if (primary_is_ready(primary))
                primary->ops->on_ready(primary->userdata);
}

/*
 * A primary that stood still, and was replaced meanwhile, answers a few questions with its old values before it learns
 * of that. A worker may have filled these in. They go when the server is back in the cluster.
 */
static const char *check_strays(Primary *primary, uint64_t strays) {
        bool is_first = primary->slots.seen_usec == 0;

        if (!is_first && strays != primary->strays)
                return "a server that had been a primary came back";
        primary->strays = strays;
        return NULL;
}

static const char *check_cluster(Primary *primary, const redisReply *reply) {
        bool is_text = reply->type == REDIS_REPLY_STRING;

        switch (primary->asked) {
        case ASKED_INFO:
                if (is_text && strstr(reply->str, "cluster_state:ok"))
                        return NULL;
                return "the cluster is partly down, as this server sees it (cluster_state)";
        case ASKED_SLOTS:
                if (topology_parse(&primary->found, reply, primary->server.host))
                        return "CLUSTER SLOTS has an unknown form";
                return topology_is_equal(&primary->found, primary->topology)
                               ? NULL
                               : "slots have moved, or a primary is another one now";
        case ASKED_NODES:
                if (!is_text)
                        return "CLUSTER NODES has an unknown form";
                if (topology_moves_out(primary->topology, reply->str))
                        return "a slot is on its way to a server that has none yet, and is not heard";
                return check_strays(primary, topology_strays(primary->topology, reply->str));
        }
        return NULL;
}

/* A primary that became another one's replica goes on to answer, and may hear of changes late. */
static const char *check_role(const redisReply *reply) {
        return topology_is_primary(reply) ? NULL : "this server is a replica now";
}

static void on_ask(void *userdata, const redisReply *reply) {
        Primary *primary = userdata;
        const char *why;

        if (reply->type == REDIS_REPLY_ERROR) {
                lose_primary(primary, primary->topology ? "CLUSTER is refused: %s" : "ROLE is refused: %s",
                             reply->str);
                return;
        }
        why = primary->topology ? check_cluster(primary, reply) : check_role(reply);
        if (why)
                lose_primary(primary, "%s", why);
        else if (!primary->topology || primary->asked++ == ASKED_NODES)
                question_answered(primary, &primary->slots);
}

int primary_open(Primary **ret, sd_event *event, const TopologyServer *server, const Topology *topology,
                 const Options *options, const PrimaryOps *ops, void *userdata, char *ret_why) {
        static const LinkOps push_ops = { on_push_up, on_push, on_link_gone };
        static const LinkOps ask_ops = { on_ask_up, on_ask, on_link_gone };
        Primary *primary;
        int r;

        primary = calloc(1, sizeof(*primary));
        if (!primary)
                return -ENOMEM;
        primary->server = *server;
        primary->topology = topology;
        primary->options = options;
        primary->ops = ops;
        primary->userdata = userdata;
        primary->opened_usec = now_usec();
        r = link_open(&primary->push, event, server->host, server->port, &options->login, &push_ops, primary,
                      ret_why);
        if (r == 0)
                r = link_open(&primary->ask, event, server->host, server->port, &options->login, &ask_ops,
                              primary, ret_why);
        if (r)
                (void) primary_free(primary);
        else
                *ret = primary;
        return r;
}

Primary *primary_free(Primary *primary) {
        if (!primary)
                return NULL;
        (void) link_free(primary->push);
        (void) link_free(primary->ask);
        free(primary);
        return NULL;
}

bool primary_is_ready(const Primary *primary) {
        return primary->state == LISTENING && primary->ask_is_up;
}

static int ask_slots(Primary *primary) {
        static const char *const questions[] = { "INFO", "SLOTS", "NODES" };
        int r = 0;

        primary->asked = ASKED_INFO;
        if (!primary->topology)
                return link_send(primary->ask, 1, (const char *[]){ "ROLE" });
        for (unsigned i = 0; r == 0 && i < 3; i++)
                r = link_send(primary->ask, 2, (const char *[]){ "CLUSTER", questions[i] });
        return r;
}

/* Whether the question is open for too long. */
static bool is_overdue(const Question *question, uint64_t patience_usec) {
        return question->asked_usec != 0 && now_usec() - question->asked_usec > patience_usec;
}

void primary_ask(Primary *primary, uint64_t patience_usec) {
        int r = 0;

        if (is_overdue(&primary->fence, patience_usec) || is_overdue(&primary->slots, patience_usec) ||
            (!primary_is_ready(primary) && now_usec() - primary->opened_usec > patience_usec)) {
                lose_primary(primary, "%s", "no answer for seconds");
                return;
        }
        if (!primary_is_ready(primary))
                return;
        if (primary->fence.asked_usec == 0) {
                primary->fence.asked_usec = now_usec();
                r = link_send(primary->push, 1, (const char *[]){ "PING" });
        }
        if (r == 0 && primary->slots.asked_usec == 0) {
                primary->slots.asked_usec = now_usec();
                r = ask_slots(primary);
        }
        if (r)
                lose_primary(primary, "%s", "out of memory");
}

uint64_t primary_seen_usec(const Primary *primary) {
        uint64_t fence = primary->fence.seen_usec, slots = primary->slots.seen_usec;

        return fence < slots ? fence : slots;
}
