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
        Link *push, *ask, *visit; /* the last one is new for each question */
        sd_event *event;
        const Topology *topology; /* NULL: the server is alone */
        Topology found;
        TopologyServer server;
        const Options *options;
        const PrimaryOps *ops;
        void *userdata;
        enum { NAMING, IDENTIFYING, TRACKING, SUBSCRIBING, LISTENING } state;
        char id[TOPOLOGY_ID_SIZE]; /* empty: not known yet */
        bool is_named, ask_is_up;
        bool is_visit_due; /* every second time */
        enum { ASKED_INFO, ASKED_SLOTS, ASKED_NODES } asked; /* in a cluster: the answer that comes next */
        uint64_t opened_usec, patience_usec;
        Question fence, slots, address;
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

/* Each connection begins with this question. */
static void ask_name(Primary *primary, Link *link) {
        if (link_send(link, 2, (const char *[]){ "INFO", "server" }))
                lose_primary(primary, "%s", "out of memory");
}

/* False: the server's answer has no run id, or there are two servers; the primary is lost. */
static bool take_name(Primary *primary, const redisReply *reply) {
        char id[TOPOLOGY_ID_SIZE] = "";

        if (reply->type == REDIS_REPLY_ERROR)
                lose_primary(primary, "INFO is refused: %s", reply->str);
        else if (!topology_run_id(reply, id))
                lose_primary(primary, "%s", "INFO server has no run_id");
        else if (primary->id[0] && strcmp(primary->id, id) != 0)
                lose_primary(primary, "%s", "another server answers there now");
        else {
                memcpy(primary->id, id, sizeof(id));
                return true;
        }
        return false;
}

static void on_push_up(void *userdata) {
        Primary *primary = userdata;

        ask_name(primary, primary->push);
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
        case NAMING:
                break;
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
        static const char *const names[] = { "INFO", "CLIENT ID", "CLIENT TRACKING", "SUBSCRIBE " CHANNEL,
                                             "PING" };

        return names[primary->state];
}

static void on_push(void *userdata, const redisReply *reply) {
        Primary *primary = userdata;
        char why[NEAR_WHY_SIZE];

        if (primary->state == NAMING) {
                if (!take_name(primary, reply))
                        return;
                primary->state = IDENTIFYING;
                if (link_send(primary->push, 2, (const char *[]){ "CLIENT", "ID" }))
                        lose_primary(primary, "%s", "out of memory");
        } else if (reply->type == REDIS_REPLY_ERROR) {
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

        ask_name(primary, primary->ask);
}

static void on_visit_up(void *userdata) {
        Primary *primary = userdata;

        ask_name(primary, primary->visit);
}

static void on_visit(void *userdata, const redisReply *reply) {
        Primary *primary = userdata;

        if (!take_name(primary, reply))
                return;
        primary->visit = link_free(primary->visit);
        question_answered(primary, &primary->address);
}

/* As where the server takes no more connections for a while: the cover ends, and the copies stay. */
static void on_visit_gone(void *userdata, const char *why) {
        Primary *primary = userdata;

        primary->visit = link_free(primary->visit);
        primary->address.asked_usec = 0;
        if (now_usec() - primary->address.seen_usec > primary->patience_usec)
                lose_primary(primary, "%s", why);
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
                /* The cover does not name that server, so its answers become no copies either: a second line. */
                if (topology_moves_out(primary->topology, reply->str))
                        return "a slot is on its way to a server that has none yet, and is not heard";
                return NULL;
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

        if (!primary->ask_is_up) {
                primary->ask_is_up = take_name(primary, reply);
                if (primary->ask_is_up && primary_is_ready(primary))
                        primary->ops->on_ready(primary->userdata);
                return;
        }
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
                 bool is_named, const Options *options, const PrimaryOps *ops, void *userdata,
                 char *ret_why) {
        static const LinkOps push_ops = { on_push_up, on_push, on_link_gone };
        static const LinkOps ask_ops = { on_ask_up, on_ask, on_link_gone };
        Primary *primary;
        int r;

        primary = calloc(1, sizeof(*primary));
        if (!primary)
                return -ENOMEM;
        primary->server = *server;
        primary->event = event;
        primary->topology = topology;
        primary->is_named = is_named;
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
        (void) link_free(primary->visit);
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

static bool needs_visits(const Primary *primary) {
        return !primary->topology && !primary->is_named;
}

static void begin_visit(Primary *primary) {
        static const LinkOps ops = { on_visit_up, on_visit, on_visit_gone };
        char why[NEAR_WHY_SIZE];

        primary->address.asked_usec = now_usec();
        if (link_open(&primary->visit, primary->event, primary->server.host, primary->server.port,
                      &primary->options->login, &ops, primary, why))
                on_visit_gone(primary, why);
}

/* Whether the question is open for too long. */
static bool is_overdue(const Question *question, uint64_t patience_usec) {
        return question->asked_usec != 0 && now_usec() - question->asked_usec > patience_usec;
}

void primary_ask(Primary *primary, uint64_t patience_usec) {
        int r = 0;

        primary->patience_usec = patience_usec;
        if (is_overdue(&primary->fence, patience_usec) || is_overdue(&primary->slots, patience_usec) ||
            is_overdue(&primary->address, patience_usec) ||
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
        if (r) {
                lose_primary(primary, "%s", "out of memory");
                return;
        }
        primary->is_visit_due = !primary->is_visit_due;
        if (needs_visits(primary) && primary->address.asked_usec == 0 && primary->is_visit_due)
                begin_visit(primary); /* one that is lost frees all */
}

const char *primary_id(const Primary *primary) {
        return primary->id;
}

uint64_t primary_seen_usec(const Primary *primary) {
        uint64_t fence = primary->fence.seen_usec, slots = primary->slots.seen_usec;
        uint64_t address = needs_visits(primary) ? primary->address.seen_usec : UINT64_MAX;

        if (fence > slots)
                fence = slots;
        return fence < address ? fence : address;
}
