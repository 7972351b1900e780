/* tslab-near: keeps a near cache of Redis or Valkey coherent. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "near/message.h"
#include "near/tracker.h"

#define EXIT_USAGE 2

static int open_near(const Options *options, struct tslab **ret_pool, struct tslab_near **ret_near) {
        const struct tslab_options pool_options = { .size = sizeof(pool_options), .comm = "tslab-near" };
        struct tslab_map_options map_options = {
                .size = sizeof(map_options),
                .limit_bytes = options->limit_bytes,
                .value_max = options->value_max,
                .evict = TSLAB_MAP_EVICT_SIEVE,
        };
        int r;

        r = tslab_open(ret_pool, options->pool, &pool_options);
        if (r) {
                message(LOG_ERR, "cannot open pool '%s': %s", options->pool, strerror(-r));
                return r;
        }
        map_options.flags = TSLAB_MAP_EXCLUSIVE;
        r = tslab_near_open(ret_near, *ret_pool, options->name, &map_options);
        if (r == -EEXIST) {
                map_options.flags = 0;
                r = tslab_near_open(ret_near, *ret_pool, options->name, &map_options);
                if (r == 0 && (options->limit_bytes || options->value_max))
                        message(LOG_NOTICE,
                                "near cache '%s' was there before; its limits are as they were, see tslabctl maps",
                                options->name);
        }
        if (r)
                message(LOG_ERR, "cannot open near cache '%s' in pool '%s': %s", options->name, options->pool,
                        strerror(-r));
        return r;
}

static int add_signals(sd_event *event) {
        const int numbers[] = { SIGTERM, SIGINT };
        sigset_t set;
        int r = 0;

        (void) sigemptyset(&set);
        for (size_t i = 0; i < 2; i++)
                (void) sigaddset(&set, numbers[i]);
        (void) sigprocmask(SIG_BLOCK, &set, NULL);
        (void) signal(SIGPIPE, SIG_IGN); /* hiredis writes to servers that are gone */
        for (size_t i = 0; r >= 0 && i < 2; i++)
                r = sd_event_add_signal(event, NULL, numbers[i], NULL, NULL);
        return r;
}

static int open_loop(sd_event **ret_event) {
        int r;

        r = sd_event_default(ret_event);
        if (r >= 0)
                r = add_signals(*ret_event);
        if (r >= 0)
                r = sd_event_set_watchdog(*ret_event, true);
        if (r < 0)
                message(LOG_ERR, "cannot set up the event loop: %s", strerror(-r));
        return r;
}

static int run_tracker(const Options *options) {
        struct tslab *pool = NULL;
        struct tslab_near *near = NULL;
        Tracker *tracker = NULL;
        sd_event *event = NULL;
        int r;

        r = open_loop(&event);
        if (r >= 0)
                r = open_near(options, &pool, &near);
        if (r >= 0)
                r = tracker_new(&tracker, event, pool, near, options);
        if (r >= 0) {
                (void) sd_notify(false, "READY=1\nSTATUS=not covered yet");
                r = sd_event_loop(event);
        }
        (void) tracker_free(tracker);
        (void) tslab_near_close(near);
        if (pool)
                (void) tslab_close(pool);
        (void) sd_event_unref(event);
        if (r == -EINVAL) /* a name that is none: no restart mends that */
                return EXIT_USAGE;
        return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/*
 * Standard streams that were closed: no file that is opened later gets the number of one, and with that the messages.
 * Writes of them fail as before.
 */
static void reserve_streams(void) {
        int fd;

        do
                fd = open("/", O_PATH | O_CLOEXEC);
        while (fd >= 0 && fd <= STDERR_FILENO);
        if (fd >= 0)
                (void) close(fd);
}

int main(int argc, char **argv) {
        char why[NEAR_WHY_SIZE];
        Options options;
        int r;

        reserve_streams();
        r = options_load(&options, argc, argv, why);
        if (r < 0) {
                if (*why)
                        message(LOG_ERR, "%s", why);
                return EXIT_USAGE;
        }
        return r == 1 ? EXIT_SUCCESS : run_tracker(&options);
}
