#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/ctl/base/ask-pools.h"
#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/connect.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/output/http.h"
#include "daemon/ctl/output/json-reply.h"
#include "daemon/ctl/output/json.h"
#include "daemon/ctl/output/metrics.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verb/verb.h"
#include "proto/served.h"

/* The pools that are shown: an idle one is not down, and has no numbers. */
typedef struct Scrape {
        Pools found;
        AskedPool *asked;
        MetricsPool *pools;
        size_t n_pools;
} Scrape;

static void scrape_deinit(Scrape *scrape) {
        free(scrape->pools);
        scrape->asked = pools_asked_free(scrape->asked, scrape->found.n_paths);
        pools_deinit(&scrape->found);
}

/* By the socket, by the pool's roles, or by a daemon that runs and keeps its numbers from this user. */
static bool is_denied(const AskedPool *pool) {
        return pool->state == POOL_DENIED || (pool->state == POOL_RUNNING && !pool->stats);
}

static CtlExit scrape_all(Scrape *scrape) {
        CtlExit r = pools_find(&scrape->found);

        scrape->asked = pools_ask(&scrape->found);
        scrape->pools = must(calloc(scrape->found.n_paths + 1, sizeof(*scrape->pools)));
        for (size_t i = 0; i < scrape->found.n_paths; ++i) {
                const AskedPool *pool = &scrape->asked[i];

                if (pool->state != POOL_IDLE)
                        scrape->pools[scrape->n_pools++] =
                                (MetricsPool){ pool->name, pool->stats, is_denied(pool) };
        }
        return r;
}

static CtlExit print_all_pools(void) {
        _cleanup_(scrape_deinit) Scrape scrape = {};
        CtlExit r = scrape_all(&scrape);
        json_object *array;

        if (!arg_json) {
                metrics_print(output_stream(), scrape.pools, scrape.n_pools, true);
                return r;
        }
        array = json_new_array();
        for (size_t i = 0; i < scrape.n_pools; ++i)
                if (scrape.pools[i].reply)
                        json_append(array, json_stats(scrape.pools[i].reply->stats));
        output_json(array);
        return r;
}

/* An idle pool is not started for its metrics, and one whose daemon was killed is down. */
static bool print_without_daemon(const char *path) {
        char name[PROTO_POOL_NAME_MAX + 1];
        MetricsPool pool = { .name = name };
        ProtoServed served;
        pid_t pid;

        served = proto_served(path, &pid);
        if (served != PROTO_SERVED_NO && served != PROTO_SERVED_DIED)
                return false;
        connection_pool_name(name, sizeof(name), path);
        metrics_print(output_stream(), &pool, served == PROTO_SERVED_DIED, true);
        return true;
}

static CtlExit print_one_pool(void) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        MetricsPool pool;
        CtlExit r;

        r = connection_find(&connection);
        if (r)
                return r;
        if (!arg_json && print_without_daemon(connection.path))
                return CTL_DONE;
        r = ask_stats(&connection, &reply);
        if (r)
                return r;
        pool = (MetricsPool){ .name = reply->stats->pool ?: "", .reply = reply };
        if (arg_json)
                output_json(json_stats(reply->stats));
        else
                metrics_print(output_stream(), &pool, 1, true);
        return CTL_DONE;
}

static char *render_all_pools(bool open, size_t *ret_size) {
        _cleanup_(scrape_deinit) Scrape scrape = {};
        char *body = NULL;
        FILE *out;

        if (scrape_all(&scrape))
                return NULL; /* stderr says more */
        out = must(open_memstream(&body, ret_size));
        metrics_print(out, scrape.pools, scrape.n_pools, open);
        if (fclose(out))
                (void) must(NULL);
        return body;
}

static CtlExit serve_http_at(const char *where) {
        int fd = http_listen(where), r;

        if (fd == -EINVAL)
                return complain_usage("'%s' is no address to serve at; --http takes PORT, ADDRESS:PORT or "
                                      "[ADDRESS]:PORT, in digits",
                                      where);
        if (fd == -EOPNOTSUPP)
                return complain("this tslabctl serves no HTTP: it was built with -Dmetrics=false");
        if (fd < 0)
                return complain("cannot listen at %s: %s", where, strerror(-fd));
        r = http_serve(fd, render_all_pools, false);
        (void) proto_close(fd);
        return r < 0 ? complain("cannot serve HTTP: %s", strerror(-r)) : CTL_DONE;
}

/* Standard input is a socket that listens. */
static CtlExit serve_http(void) {
        int r = http_serve(STDIN_FILENO, render_all_pools, true);

        if (r == -ENOTSOCK)
                return complain_usage(
                        "--http takes a listening socket as standard input: enable "
                        "tslab-metrics.socket, and systemd starts it so; or name an address, as "
                        "--http=127.0.0.1:9465");
        return r < 0 ? complain("cannot serve HTTP: %s", strerror(-r)) : CTL_DONE;
}

CtlExit verb_metrics(char **args, size_t n_args) {
        if (arg_http && arg_json)
                return complain_usage("--http has a format of its own: leave out --json");
        if ((arg_all || arg_http) && (arg_pool || arg_socket))
                return complain_usage("%s means all pools: leave out %s", arg_http ? "--http" : "--all",
                                      arg_pool ? "--pool" : "--socket");
        if (arg_http)
                return arg_http_at ? serve_http_at(arg_http_at) : serve_http();
        return arg_all ? print_all_pools() : print_one_pool();
}
