#include "daemon/manager.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/adopt.h"
#include "daemon/request/checker.h"
#include "daemon/peer/client-exec.h"
#include "daemon/peer/client-reaper.h"
#include "daemon/peer/client-resume.h"
#include "daemon/peer/client-watch.h"
#include "daemon/request/counter.h"
#include "daemon/peer/listener.h"
#include "daemon/log.h"
#include "daemon/work/maintainer.h"
#include "daemon/request/request.h"
#include "daemon/message-id.h"
#include "daemon/work/high-water.h"
#include "daemon/work/pressure.h"
#include "daemon/reload.h"
#include "daemon/work/reserve.h"
#include "daemon/peer/samples.h"
#include "daemon/peer/session.h"
#include "daemon/takeover.h"
#include "daemon/task.h"
#include "daemon/work/trimmer.h"
#include "proto/deadline.h"

#define TICK_USEC PROTO_USEC_PER_SEC

void manager_wake(Manager *manager) {
        reserve_wake(manager->reserve);
        maintainer_wake(manager->maintainer);
        peaks_look(manager->peaks);
}

static unsigned count_clients(const Manager *manager) {
        unsigned n = 0;

        for (const ClientWatch *c = manager->clients; c; c = c->next)
                n++;
        return n;
}

static void update_status(Manager *manager) {
        char status[sizeof(manager->status)];
        (void) snprintf(status, sizeof(status),
                        "pool %s: %u clients, %u connections, %llu of %llu MiB in memory, %llu MiB free%s",
                        manager->pool.options->pool, count_clients(manager), manager->n_sessions,
                        (unsigned long long) shm_arena_resident_size(&manager->pool.arena) >> 20,
                        (unsigned long long) manager->pool.arena.n_slabs * SHM_SLAB_SIZE >> 20,
                        (unsigned long long) reserve_n_free(manager->reserve) * SHM_SLAB_SIZE >> 20,
                        manager->n_unrepaired > 0 ? ", repairing" : "");
        if (!strcmp(status, manager->status))
                return;
        memcpy(manager->status, status, sizeof(status));
        (void) sd_notifyf(false, "STATUS=%s", status);
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata) {
        Manager *manager = userdata;

        sessions_tick(manager);
        (void) client_resume_look(manager, 0);
        client_reaper_tick(manager->client_reaper);
        client_exec_tick(manager);
        listener_tick(manager->listener);
        reserve_tick(manager->reserve);
        trimmer_tick(manager->trimmer);
        maintainer_look(
                manager->maintainer); /* also at clients that could not wake us while there was no daemon */
        peaks_look(manager->peaks);
        update_status(manager);
        return sd_event_source_set_time(source, usec + TICK_USEC);
}

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
        Manager *manager = userdata;

        log_fields(LOG_NOTICE, (LogFields){ .message = MESSAGE_STOP },
                   "pool %s stops: %s; %u clients are attached%s", manager->pool.options->pool,
                   strsignal((int) info->ssi_signo), count_clients(manager),
                   manager->clients ? ", who keep what they have mapped; unless this is a restart, the next "
                                      "daemon begins with an empty pool, and they have to open it anew"
                                    : "");
        (void) sd_notify(false, "STOPPING=1");
        return sd_event_exit(manager->pool.event, 0);
}

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
        reload(userdata);
        return 0;
}

/* For the test of the watchdog: a loop that does not turn. */
static int on_stick(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
        for (;;)
                (void) pause();
        return 0;
}

static int on_reaper(sd_event_source *source, void *userdata) {
        sessions_reap(userdata);
        return 0;
}

/* Blocked, they come through the loop, and never cut a fallocate() short. */
static int watch_signals(Manager *manager) {
        bool test_stuck = secure_getenv("TSLAB_TEST_STUCK") != NULL;
        sigset_t signals;
        int r;

        (void) sigemptyset(&signals);
        (void) sigaddset(&signals, SIGTERM);
        (void) sigaddset(&signals, SIGINT);
        (void) sigaddset(&signals, SIGHUP);
        if (test_stuck)
                (void) sigaddset(&signals, SIGUSR1);
        if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0)
                return -errno;
        (void) signal(SIGPIPE, SIG_IGN);
        r = sd_event_add_signal(manager->pool.event, &manager->sigterm, SIGTERM, on_signal, manager);
        if (r >= 0)
                r = sd_event_add_signal(manager->pool.event, &manager->sigint, SIGINT, on_signal, manager);
        if (r >= 0)
                r = sd_event_add_signal(manager->pool.event, &manager->sighup, SIGHUP, on_reload, manager);
        if (r >= 0 && test_stuck)
                r = sd_event_add_signal(manager->pool.event, &manager->sigusr1, SIGUSR1, on_stick, manager);
        return r;
}

static int open_loop(Manager *manager) {
        int r;

        r = pool_open_loop(&manager->pool);
        if (r < 0)
                return r;
        r = watch_signals(manager);
        if (r < 0)
                return r;
        r = sd_event_add_time_relative(manager->pool.event, &manager->tick, CLOCK_MONOTONIC, TICK_USEC,
                                       TICK_USEC / 10, on_tick, manager);
        if (r < 0)
                return r;
        r = sd_event_source_set_enabled(manager->tick, SD_EVENT_ON);
        if (r < 0)
                return r;
        r = sd_event_add_defer(manager->pool.event, &manager->reaper, on_reaper, manager);
        if (r < 0)
                return r;
        r = sd_event_source_set_enabled(manager->reaper, SD_EVENT_OFF);
        if (r < 0)
                return r;
        r = sd_event_set_watchdog(manager->pool.event, true);
        return r < 0 ? r : 0;
}

/* A session takes three descriptors. */
static void raise_descriptors(void) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return;
        limit.rlim_cur = limit.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &limit);
}

static int take_arena(Manager *manager) {
        int fd = proto_steal_fd(&manager->passed.arena);

        if (manager->pool.options->adopt != 0) {
                if (fd >= 0)
                        log_line(LOG_ERR, "there is nothing to adopt: systemd kept the memory of pool %s",
                                 manager->pool.options->pool);
                (void) proto_close(fd);
                manager->taken_up = true;
                return fd >= 0 ? -EEXIST : takeover_adopt(manager, manager->pool.options->adopt);
        }
        return fd < 0 ? 0 : takeover_arena(manager, fd, &manager->taken_up);
}

static int make_arena(Manager *manager) {
        const char *left = listener_left_arena(manager->listener);
        int r;

        if (left)
                adopt_hint(manager->pool.options->pool, left);
        r = shm_arena_create(&manager->pool.arena, &manager->pool.options->geometry,
                             manager->pool.options->pool);
        if (r == -EOPNOTSUPP)
                log_line(LOG_ERR, "this processor has no 16-byte compare-and-set (cmpxchg16b)");
        else if (r)
                log_error(LOG_ERR, r, "could not make the arena of pool %s", manager->pool.options->pool);
        if (r == 0)
                passed_store_arena(manager->pool.arena.fd);
        return r;
}

/* So that nobody else serves it, and the next daemon knows of it. */
static void mark_arena(Manager *manager) {
        char id[ADOPT_ID_SIZE];

        if (manager->arena_lock < 0)
                manager->arena_lock = adopt_lock(&manager->pool.arena);
        adopt_id(&manager->pool.arena, id);
        listener_name_arena(manager->listener, id);
}

static int open_arena(Manager *manager) {
        int r = take_arena(manager);

        if (r == 0 && !manager->taken_up)
                r = make_arena(manager);
        if (r)
                return r;
        if (manager->taken_up) {
                passed_store_arena(manager->pool.arena.fd); /* in case that another of its name was removed */
                takeover_compare(&manager->pool.arena, manager->pool.options);
        }
        mark_arena(manager);
        manager->pool.arena.populate = true;
        shm_actor_init_daemon(&manager->pool.actor, &manager->pool.arena);
        return 0;
}

static int open_parts(Manager *manager) {
        int r;

        r = maintainer_new(&manager->maintainer, manager);
        if (r < 0)
                return r;
        r = client_reaper_new(&manager->client_reaper, manager);
        if (r < 0)
                return r;
        r = trimmer_new(&manager->trimmer, manager);
        if (r < 0)
                return r;
        r = counter_new(&manager->counter, manager);
        if (r < 0)
                return r;
        r = checker_new(&manager->checker, manager);
        if (r < 0)
                return r;
        r = reserve_new(&manager->reserve, manager);
        if (r < 0)
                return r;
        r = peaks_new(&manager->peaks, manager);
        if (r < 0)
                return r;
        return pressure_new(&manager->pressure, manager);
}

int manager_new(Manager **ret_manager, Options *options) {
        Manager *manager = calloc(1, sizeof(*manager));
        int r;

        if (!manager)
                return -ENOMEM;
        pool_init(&manager->pool, options);
        manager->arena_lock = -1;
        manager->passed = (Passed){ .socket = -1, .arena = -1 };

        raise_descriptors();
        r = open_loop(manager);
        if (r < 0)
                log_error(LOG_ERR, r, "could not set up the event loop");
        if (r == 0)
                r = passed_take(&manager->passed);
        if (r == 0)
                r = listener_new(&manager->listener, manager);
        if (r == 0)
                r = open_arena(manager);
        if (r == 0) {
                r = open_parts(manager);
                if (r < 0)
                        log_error(LOG_ERR, r, "could not set up pool %s", options->pool);
        }
        if (r == 0 && manager->taken_up) {
                r = takeover_resume(manager);
                if (r < 0)
                        log_error(LOG_ERR, r, "could not take up the clients of pool %s", options->pool);
        }
        /* Listening comes last: who connects is served. */
        if (r == 0)
                r = listener_start(manager->listener);
        if (r < 0) {
                (void) manager_free(manager);
                return r;
        }
        *ret_manager = manager;
        return 0;
}

int manager_run(Manager *manager) {
        int r;

        log_fields(LOG_INFO, (LogFields){ .message = MESSAGE_START }, "pool %s is ready: %llu MiB, at %s",
                   manager->pool.options->pool,
                   (unsigned long long) manager->pool.arena.n_slabs * SHM_SLAB_SIZE >> 20,
                   listener_path(manager->listener));
        pressure_compare_limit(manager);
        (void) sd_notify(false, "READY=1");
        update_status(manager);
        r = sd_event_loop(manager->pool.event);
        if (r < 0)
                log_error(LOG_ERR, r, "the event loop failed");
        return r;
}

Manager *manager_free(Manager *manager) {
        if (!manager)
                return NULL;
        manager->listener = listener_free(manager->listener);
        while (manager->sessions)
                (void) session_free(manager->sessions);
        while (manager->clients)
                (void) client_watch_free(manager->clients);
        manager->pressure = pressure_free(manager->pressure);
        manager->peaks = peaks_free(manager->peaks);
        manager->samples = samples_free_all(manager->samples);
        manager->reserve = reserve_free(manager->reserve);
        manager->trimmer = trimmer_free(manager->trimmer);
        manager->checker = checker_free(manager->checker);
        manager->counter = counter_free(manager->counter);
        manager->client_reaper = client_reaper_free(manager->client_reaper);
        manager->maintainer = maintainer_free(manager->maintainer);
        (void) proto_close(manager->arena_lock);
        map_jobs_free(manager);
        passed_deinit(&manager->passed);
        (void) sd_event_source_disable_unref(manager->reaper);
        (void) sd_event_source_disable_unref(manager->tick);
        (void) sd_event_source_disable_unref(manager->sigusr1);
        (void) sd_event_source_disable_unref(manager->sighup);
        (void) sd_event_source_disable_unref(manager->sigint);
        (void) sd_event_source_disable_unref(manager->sigterm);
        pool_deinit(&manager->pool);
        free(manager);
        return NULL;
}
