/* tslab-near: keeps a near cache of Redis or Valkey coherent. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "near/clock.h"
#include "near/near-message.h"
#include "near/near-status.h"
#include "near/tracker.h"

#define EXIT_USAGE 2
#define PAUSE_USEC_MIN (50 * USEC_PER_MS)
#define PAUSE_USEC_MAX (10000 * USEC_PER_MS)

/* The pool, and all that is in it. It may have to be waited for, or for permission to open it. */
typedef struct Near {
        const Options *options;
        sd_event *event;
        sd_event_source *open; /* the next attempt */
        uint64_t pause_usec;
        struct tslab *pool;
        struct tslab_near *near;
        Tracker *tracker;
        char why[NEAR_WHY_SIZE]; /* the last trouble: it is logged once */
} Near;

/* Programs may open the near cache first, and so make its map. */
static void set_limits(const Options *options, struct tslab *pool, struct tslab_map_options *map_options) {
        uint32_t set = options->limit_bytes ? TSLAB_MAP_SET_LIMIT : 0;
        struct tslab_map *map;
        int r;

        if (options->limit_bytes == TSLAB_NEAR_NO_LIMIT)
                map_options->limit_bytes = 0;
        set |= options->value_max ? TSLAB_MAP_SET_VALUE_MAX : 0;
        if (set == 0)
                return;
        r = tslab_map_open(&map, pool, options->name, map_options);
        if (r == 0) {
                r = tslab_map_set_options(map, map_options, set);
                (void) tslab_map_close(map);
        }
        if (r)
                message(LOG_WARNING,
                        "near cache '%s' was there before, and its limits stay as they are: %s; set them by "
                        "'tslabctl maps set %s'",
                        options->name, strerror(-r), options->name);
}

static int open_near(const Options *options, struct tslab **ret_pool, struct tslab_near **ret_near,
                     char *ret_why) {
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
                (void) snprintf(ret_why, NEAR_WHY_SIZE, "cannot open pool '%s': %s%s", options->pool,
                                strerror(-r),
                                r == -EACCES || r == -EPERM
                                        ? "; the user of tslab-near has to be a writer of the pool"
                                        : "");
                return r;
        }
        map_options.flags = TSLAB_MAP_EXCLUSIVE;
        r = tslab_near_open(ret_near, *ret_pool, options->name, &map_options);
        if (r == -EEXIST) {
                map_options.flags = 0;
                r = tslab_near_open(ret_near, *ret_pool, options->name, &map_options);
                if (r == 0)
                        set_limits(options, *ret_pool, &map_options);
        }
        if (r) {
                (void) snprintf(ret_why, NEAR_WHY_SIZE, "cannot open near cache '%s' in pool '%s': %s",
                                options->name, options->pool, strerror(-r));
                *ret_pool = tslab_close(*ret_pool);
        }
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

/* An attempt that fails costs systemd nothing: restarts of the whole program would have no pause between them. */
static int wait_for_pool(Near *near, int error, const char *why) {
        if (strcmp(why, near->why) != 0)
                message(LOG_ERR, "%s", why);
        (void) snprintf(near->why, sizeof(near->why), "%s", why);
        status_set("not covered: %s", why);
        if (near->options->check || error == -EINVAL)
                return sd_event_exit(near->event, error == -EINVAL ? EXIT_USAGE : EXIT_FAILURE);
        near->pause_usec = near->pause_usec * 2 < PAUSE_USEC_MAX ? near->pause_usec * 2 : PAUSE_USEC_MAX;
        (void) sd_event_source_set_time_relative(near->open, near->pause_usec);
        return sd_event_source_set_enabled(near->open, SD_EVENT_ONESHOT);
}

static int on_open(sd_event_source *source, uint64_t usec, void *userdata) {
        char why[NEAR_WHY_SIZE] = "";
        Near *near = userdata;
        int r;

        r = open_near(near->options, &near->pool, &near->near, why);
        if (r)
                return wait_for_pool(near, r, why);
        status_set("not covered yet");
        r = tracker_new(&near->tracker, near->event, near->pool, near->near, near->options);
        return r < 0 ? sd_event_exit(near->event, EXIT_FAILURE) : 0;
}

static int open_loop(Near *near) {
        int r;

        r = sd_event_default(&near->event);
        if (r >= 0)
                r = add_signals(near->event);
        if (r >= 0)
                r = status_open(near->event);
        if (r >= 0)
                r = sd_event_add_time_relative(near->event, &near->open, CLOCK_BOOTTIME, 0, 0, on_open, near);
        if (r < 0)
                message(LOG_ERR, "cannot set up the event loop: %s", strerror(-r));
        return r;
}

static int run_near(const Options *options) {
        Near near = { .options = options, .pause_usec = PAUSE_USEC_MIN };
        int r;

        r = open_loop(&near);
        if (r >= 0) {
                status_ready();
                r = sd_event_loop(near.event);
                if (r < 0) /* the loop opens files of its own when it first needs them */
                        message(LOG_ERR, "the event loop failed: %s", strerror(-r));
        }
        (void) tracker_free(near.tracker);
        (void) tslab_near_close(near.near);
        if (near.pool)
                (void) tslab_close(near.pool);
        (void) sd_event_source_disable_unref(near.open);
        status_close();
        (void) sd_event_unref(near.event);
        return r < 0 ? EXIT_FAILURE : r;
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
        return r == 1 ? EXIT_SUCCESS : run_near(&options);
}
