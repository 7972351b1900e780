#include "near/tracker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "near/server-advice.h"
#include "near/clock.h"
#include "near/near-message.h"
#include "near/primary.h"
#include "near/sentinel.h"
#include "near/near-status.h"

#define TICKS_PER_BOUND 4
#define PATIENCE_BOUNDS 5 /* a primary that does not answer for so long is lost, */
#define PATIENCE_USEC_MIN (5000 * USEC_PER_MS) /* but not before */
#define RETRY_USEC_MIN (50 * USEC_PER_MS)
#define RETRY_USEC_MAX (2000 * USEC_PER_MS)

struct Tracker {
        sd_event *event;
        sd_event_source *tick, *retry;
        struct tslab *pool;
        struct tslab_near *near;
        const Options *options;

        /* Finding the primaries. */
        Link *seed;
        uint32_t i_seed;
        uint64_t seed_usec; /* when it was asked */
        Sentinel *sentinel; /* NULL: the servers that are given are Redis servers */
        bool is_cluster;
        Topology topology;

        Primary *primaries[TOPOLOGY_PRIMARIES_MAX];
        uint32_t n; /* that are open */
        bool is_begun, is_covered;
        bool is_paused; /* begun, and not covered since a server does not answer just now */
        uint64_t
                until_usec; /* the cover's end, as it was stored last; before the first one: one is due by then */
        uint64_t retry_usec;
        uint64_t n_losses;
        char why[3 * NEAR_WHY_SIZE]; /* the last trouble: it is logged once */
};

static void tracker_seek(Tracker *tracker);
static void ask_primaries(Tracker *tracker);

static void tracker_fail(Tracker *tracker, int error, const char *what) {
        message(LOG_ERR, "%s: %s; ending, to begin anew", what, strerror(-error));
        (void) sd_event_exit(tracker->event, EXIT_FAILURE);
}

static void free_primaries(Tracker *tracker) {
        for (uint32_t i = 0; i < tracker->n; i++)
                tracker->primaries[i] = primary_free(tracker->primaries[i]);
        tracker->n = 0;
}

static void end_cover(Tracker *tracker) {
        int r;

        tracker->is_covered = false;
        if (!tracker->is_begun)
                return;
        tracker->is_begun = false;
        r = tslab_near_end(tracker->near);
        if (r)
                tracker_fail(tracker, r, "cannot revoke the copies");
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata) {
        tracker_seek(userdata);
        return 0;
}

static void report_trouble(Tracker *tracker, const char *what) {
        const char *advice = advice_for(what);
        char why[sizeof(tracker->why)];

        (void) snprintf(why, sizeof(why), "%s%s%s", what, advice ? "; " : "", advice ?: "");
        message_clean(why);
        if (strcmp(why, tracker->why) != 0)
                message(LOG_WARNING, "not covered: %s", why);
        (void) snprintf(tracker->why, sizeof(tracker->why), "%s", why);
        status_set("not covered: %s", why);
        if (tracker->options->check)
                (void) sd_event_exit(tracker->event, EXIT_FAILURE);
}

/* Changes may have been missed. */
static void tracker_lose(Tracker *tracker, const char *why) {
        tracker->n_losses += tracker->is_begun;
        end_cover(tracker);
        free_primaries(tracker);
        tracker->seed = link_free(tracker->seed);
        tracker->topology.n = 0;
        report_trouble(tracker, why);
        (void) sd_event_source_set_time_relative(tracker->retry, tracker->retry_usec);
        (void) sd_event_source_set_enabled(tracker->retry, SD_EVENT_ONESHOT);
        tracker->retry_usec *= 2;
        if (tracker->retry_usec > RETRY_USEC_MAX)
                tracker->retry_usec = RETRY_USEC_MAX;
        tracker->i_seed++;
}

static void on_lost(void *userdata, const char *why) {
        tracker_lose(userdata, why);
}

/* Copies that are put from now on are of an epoch that no missed change was in. Or all is lost. */
static void begin_cover(Tracker *tracker) {
        const char *servers[TOPOLOGY_PRIMARIES_MAX];
        const struct tslab_near_scope scope = {
                .size = sizeof(scope),
                .prefixes = tracker->options->prefixes,
                .n_prefixes = tracker->options->n_prefixes,
                .servers = servers,
                .n_servers = tracker->n,
        };
        int r;

        for (uint32_t i = 0; i < tracker->n; i++)
                servers[i] = primary_id(tracker->primaries[i]);
        r = tslab_near_begin(tracker->near, &scope);
        tracker->is_begun = r == 0;
        tracker->until_usec = now_usec() + tracker->options->bound_ms * USEC_PER_MS;
        if (r == -EBUSY)
                tracker_lose(tracker,
                             "another tslab-near covers this near cache, or its last copies are going");
        else if (r == -ENOMEM)
                tracker_lose(tracker, "the pool is full: give it more memory, or free some");
        else if (r == -ENOSPC)
                tracker_lose(
                        tracker,
                        "the pool can spare no epoch or no named root: close epochs, or see tslabctl maps");
        else if (r)
                tracker_fail(tracker, r, "cannot lease an epoch of the pool");
        else
                ask_primaries(tracker);
}

/* All keys have changed. */
static void flush_all(Tracker *tracker) {
        bool was_begun = tracker->is_begun;
        int r;

        end_cover(tracker);
        r = tslab_near_flush(tracker->near);
        if (r && r != -EBUSY) /* another tslab-near gives the cover, and hears of this, too */
                tracker_fail(tracker, r, "cannot revoke the copies");
        else if (was_begun)
                begin_cover(tracker);
}

static void on_change(void *userdata, const char *key, size_t size) {
        Tracker *tracker = userdata;
        int r;

        if (!key) {
                flush_all(tracker);
                return;
        }
        /* Also while nothing is covered: a value that was heard last goes with its change. */
        r = tslab_near_drop(tracker->near, key, size);
        if (r == 0)
                return;
        /* It is revoked with the others, before an answer that follows covers it. */
        end_cover(tracker);
        tracker_fail(tracker, r, "cannot drop a copy");
}

static void show_covered(Tracker *tracker) {
        tracker->is_paused = false;
        status_set("covered: %u server(s); lost %" PRIu64 " times", tracker->n, tracker->n_losses);
}

static void report_covered(Tracker *tracker) {
        tracker->is_covered = true;
        tracker->retry_usec = RETRY_USEC_MIN;
        tracker->why[0] = 0;
        message(LOG_INFO, "covered: %u server%s, first %s:%d; no copy is older than %u ms", tracker->n,
                tracker->n == 1 ? "" : "s", tracker->topology.servers[0].host,
                tracker->topology.servers[0].port, tracker->options->bound_ms);
        show_covered(tracker);
        if (tracker->options->check)
                (void) sd_event_exit(tracker->event, EXIT_SUCCESS);
}

/* The primary that told of its changes longest ago. */
static uint32_t find_laggard(const Tracker *tracker, uint64_t *ret_seen_usec) {
        uint32_t laggard = 0;

        *ret_seen_usec = UINT64_MAX;
        for (uint32_t i = 0; i < tracker->n; i++) {
                uint64_t usec = primary_seen_usec(tracker->primaries[i]);

                if (usec < *ret_seen_usec) {
                        *ret_seen_usec = usec;
                        laggard = i;
                }
        }
        return laggard;
}

/* A server that pauses costs the cover and no copies. It may answer in a moment, so only the status says so. */
static void look_for_pause(Tracker *tracker) {
        const TopologyServer *server;
        uint64_t seen;

        if (!tracker->is_begun || tracker->is_paused || now_usec() < tracker->until_usec)
                return;
        tracker->is_paused = true;
        server = &tracker->topology.servers[find_laggard(tracker, &seen)];
        status_set("not covered: %s:%d has not answered for %u ms", server->host, server->port,
                   tracker->options->bound_ms);
}

/*
 * Copies are covered until `bound` after the last moment of which all primaries say that everything was told. A moment,
 * not a time from now on: this process may have been stopped since.
 */
static void on_answer(void *userdata) {
        Tracker *tracker = userdata;
        uint64_t bound_usec = tracker->options->bound_ms * USEC_PER_MS, seen;
        int r;

        (void) find_laggard(tracker, &seen);
        if (tracker->sentinel && sentinel_seen_usec(tracker->sentinel) < seen)
                seen = sentinel_seen_usec(tracker->sentinel);
        if (!tracker->is_begun || seen == 0 || now_usec() >= seen + bound_usec)
                return;
        tracker->until_usec = seen + bound_usec;
        r = tslab_near_cover(tracker->near, tracker->until_usec);
        if (r)
                tracker_lose(tracker, "the epoch of the copies was closed, by an operator perhaps");
        else if (!tracker->is_covered)
                report_covered(tracker);
        else if (tracker->is_paused)
                show_covered(tracker);
}

static const TopologyServer *seed_server(const Tracker *tracker) {
        return &tracker->options->servers[tracker->i_seed % tracker->options->n_servers];
}

static void lose_seed(Tracker *tracker, const char *what) {
        const TopologyServer *server = seed_server(tracker);
        char why[2 * NEAR_WHY_SIZE];

        (void) snprintf(why, sizeof(why), "%s:%d: %s", server->host, server->port, what);
        tracker_lose(tracker, why);
}

/* For the next attempt. */
static bool is_waiting(const Tracker *tracker) {
        int enabled = SD_EVENT_OFF;

        (void) sd_event_source_get_enabled(tracker->retry, &enabled);
        return enabled != SD_EVENT_OFF;
}

static void ask_primaries(Tracker *tracker) {
        uint64_t patience = PATIENCE_BOUNDS * tracker->options->bound_ms * USEC_PER_MS;

        if (patience < PATIENCE_USEC_MIN)
                patience = PATIENCE_USEC_MIN;
        /* One that is lost frees all. */
        for (uint32_t i = 0; i < tracker->n; i++)
                primary_ask(tracker->primaries[i], patience);
        if (tracker->sentinel && !is_waiting(tracker))
                sentinel_ask(tracker->sentinel, patience);
        if (tracker->seed && now_usec() - tracker->seed_usec > patience)
                lose_seed(tracker, "no answer for seconds");
}

/* All primaries are heard: the copies may begin. */
static void on_ready(void *userdata) {
        Tracker *tracker = userdata;

        for (uint32_t i = 0; i < tracker->n; i++)
                if (!primary_is_ready(tracker->primaries[i]))
                        return;
        if (tracker->n < tracker->topology.n || tracker->is_begun)
                return;
        begin_cover(tracker);
}

static void check_lookups(Tracker *tracker, int r) {
        if (r == -ETIMEDOUT)
                tracker_fail(tracker, r, "hundreds of names are being looked up, and none is found");
}

static void open_primaries(Tracker *tracker) {
        static const PrimaryOps ops = { on_ready, on_change, on_answer, on_lost };
        char what[NEAR_WHY_SIZE] = "", why[2 * NEAR_WHY_SIZE];

        tracker->seed = link_free(tracker->seed);
        for (uint32_t i = 0; i < tracker->topology.n; i++) {
                const TopologyServer *server = &tracker->topology.servers[i];
                int r;

                r = primary_open(&tracker->primaries[i], tracker->event, server,
                                 tracker->is_cluster ? &tracker->topology : NULL, tracker->sentinel != NULL,
                                 tracker->options, &ops, tracker, what);
                if (r) {
                        (void) snprintf(why, sizeof(why), "%s:%d: %s", server->host, server->port, what);
                        tracker_lose(tracker, why);
                        check_lookups(tracker, r);
                        return;
                }
                tracker->n++;
        }
}

static void on_seed_gone(void *userdata, const char *why) {
        lose_seed(userdata, why);
}

static void on_seed_up(void *userdata) {
        Tracker *tracker = userdata;

        if (link_send(tracker->seed, 2, (const char *[]){ "CLUSTER", "SLOTS" }))
                lose_seed(tracker, "out of memory");
}

static void take_cluster(Tracker *tracker, const redisReply *reply) {
        char why[NEAR_WHY_SIZE];

        if (topology_parse(&tracker->topology, reply, seed_server(tracker)->host))
                lose_seed(tracker, "CLUSTER SLOTS has an unknown form, or there are more than 128 primaries");
        else if (tracker->topology.n_slots < TOPOLOGY_SLOTS) {
                (void) snprintf(why, sizeof(why), "the cluster is partly down: %u of %u slots have a primary",
                                tracker->topology.n_slots, TOPOLOGY_SLOTS);
                lose_seed(tracker, why);
        } else {
                tracker->is_cluster = true;
                open_primaries(tracker);
        }
}

static void take_role(Tracker *tracker, const redisReply *reply) {
        if (!topology_is_primary(reply)) {
                lose_seed(tracker, "this server is a replica; name the primary");
                return;
        }
        tracker->is_cluster = false;
        tracker->topology = (Topology){ .n = 1, .servers = { *seed_server(tracker) } };
        open_primaries(tracker);
}

static bool is_range_list(const redisReply *reply) {
        return reply->elements == 0 || reply->element[0]->type == REDIS_REPLY_ARRAY;
}

static void on_seed(void *userdata, const redisReply *reply) {
        Tracker *tracker = userdata;
        char why[NEAR_WHY_SIZE];

        if (reply->type == REDIS_REPLY_ARRAY && is_range_list(reply))
                take_cluster(tracker, reply);
        else if (reply->type == REDIS_REPLY_ARRAY)
                take_role(tracker, reply);
        else if (reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "cluster support disabled")) {
                if (link_send(tracker->seed, 1, (const char *[]){ "ROLE" }))
                        lose_seed(tracker, "out of memory");
        } else {
                (void) snprintf(why, sizeof(why), "CLUSTER SLOTS or ROLE is refused: %.160s",
                                reply->type == REDIS_REPLY_ERROR ? reply->str : "unknown answer");
                lose_seed(tracker, why);
        }
}

static void on_named(void *userdata, const TopologyServer *server) {
        Tracker *tracker = userdata;
        const TopologyServer *known = &tracker->topology.servers[0];

        if (tracker->topology.n == 0) {
                tracker->is_cluster = false;
                tracker->topology = (Topology){ .n = 1, .servers = { *server } };
                open_primaries(tracker);
        } else if (known->port != server->port || strcmp(known->host, server->host) != 0)
                tracker_lose(tracker, "Sentinel names another primary now");
}

/* Once a primary is known, the other sentinels are asked, and the cover lasts as long as the last answer permits. */
static void on_sentinel_trouble(void *userdata, const char *why) {
        Tracker *tracker = userdata;

        if (tracker->topology.n == 0)
                tracker_lose(tracker, why);
}

static void tracker_seek(Tracker *tracker) {
        static const LinkOps ops = { on_seed_up, on_seed, on_seed_gone };
        const TopologyServer *server = seed_server(tracker);
        char why[NEAR_WHY_SIZE];
        int r;

        if (tracker->sentinel) {
                sentinel_ask(tracker->sentinel, 0);
                return;
        }
        tracker->seed_usec = now_usec();
        r = link_open(&tracker->seed, tracker->event, server->host, server->port, &tracker->options->login,
                      &ops, tracker, why);
        if (r) {
                lose_seed(tracker, why);
                check_lookups(tracker, r);
        }
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata) {
        Tracker *tracker = userdata;

        if (tslab_stale(tracker->pool)) {
                message(LOG_ERR, "the pool has another daemon, with a new arena; ending, to open that");
                return sd_event_exit(tracker->event, EXIT_FAILURE);
        }
        look_for_pause(tracker);
        ask_primaries(tracker);
        (void) sd_event_source_set_time_relative(source,
                                                 tracker->options->bound_ms * USEC_PER_MS / TICKS_PER_BOUND);
        return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

int tracker_new(Tracker **ret, sd_event *event, struct tslab *pool, struct tslab_near *near,
                const Options *options) {
        Tracker *tracker;
        int r;

        tracker = calloc(1, sizeof(*tracker));
        if (!tracker)
                return -ENOMEM;
        *tracker = (Tracker){
                .event = event, .pool = pool, .near = near, .options = options, .retry_usec = RETRY_USEC_MIN
        };
        r = sd_event_add_time_relative(event, &tracker->tick, CLOCK_BOOTTIME, 0, 0, on_tick, tracker);
        if (r >= 0)
                r = sd_event_add_time_relative(event, &tracker->retry, CLOCK_BOOTTIME, 0, 0, on_retry,
                                               tracker);
        if (r >= 0 && options->sentinel) {
                static const SentinelOps ops = { on_named, on_sentinel_trouble };

                r = sentinel_open(&tracker->sentinel, event, options, 0, &ops, tracker);
        }
        if (r < 0) {
                message(LOG_ERR, "cannot set up the timers: %s", strerror(-r));
                (void) tracker_free(tracker);
                return r;
        }
        *ret = tracker;
        return 0;
}

Tracker *tracker_free(Tracker *tracker) {
        if (!tracker)
                return NULL;
        free_primaries(tracker);
        (void) link_free(tracker->seed);
        (void) sentinel_free(tracker->sentinel);
        (void) sd_event_source_disable_unref(tracker->tick);
        (void) sd_event_source_disable_unref(tracker->retry);
        free(tracker);
        return NULL;
}
